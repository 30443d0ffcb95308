"""Entry point of the self-contained program: `kogniterm` without an installed Python."""

import sys

import frozen_environment

frozen_environment.prepare()

from kogniterm.__main__ import main  # noqa: E402  # after the environment is in order

sys.exit(main())
