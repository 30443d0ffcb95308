"""The warm server of the tests: KogniTerm's own, with all that a turn imports loaded.

    python -P tests/support/warm_server.py RUNTIME_FOLDER

Questions take a key at `KEY_TIMES`: what tests wait for is a pause, not the user who looks at a
question.
"""

from __future__ import annotations

import importlib
import sys

from kogniterm.addons.warm import warm_server
from kogniterm.addons.warm.warm_place import address
from kogniterm.ui.questions import answer_keys

KEY_TIMES = answer_keys.KeyTimes(0.05, 0.05, 0.05, 0.0, 0.05)
IDLE_SECONDS = 3600.0
PRELOADED = (
    "kogniterm.cli.json_output",
    "kogniterm.cli.verbs.config",
    "kogniterm.cli.verbs.doctor",
    "kogniterm.cli.verbs.sessions",
    "kogniterm.models.scripted_model",
    "kogniterm.runtime.build",
    "kogniterm.ui.repl",
    "yaml",
)

if __name__ == "__main__":
    answer_keys.KEY_TIMES = KEY_TIMES  # before the modules that take it for a default
    for name in PRELOADED:
        importlib.import_module(name)
    sys.exit(warm_server.main(address(f"{sys.argv[1]}/kogniterm"), IDLE_SECONDS))
