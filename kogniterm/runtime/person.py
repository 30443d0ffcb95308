"""Who the person is: the one name under which sessions and memory are kept."""

from __future__ import annotations

import os
import pwd


def person() -> str:
    """The account's name on this machine; a shared database knows the person by it."""
    return pwd.getpwuid(os.getuid()).pw_name
