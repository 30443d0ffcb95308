"""Who the person is: the one name under which sessions and memory are kept, and whose home."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from kogniterm.types import Phrase


def person() -> str:
    """The account's name on this machine; a shared database knows the person by it.

    Its number where it has no name, as in containers that run under any number.
    """
    return _name(os.getuid())


def borrowed_home(home: str, data: Path) -> Phrase | None:
    """A warning for root who was given the `home` of somebody else, and keeps `data` there."""
    if os.geteuid() != 0 or not data.is_relative_to(home):
        return None
    try:
        owner = Path(home).stat().st_uid
    except OSError:
        return None
    if owner == 0:
        return None
    return Phrase(
        "You are root in the home of {owner}: what is kept there from now on is root's, and "
        "{owner} may not use it. sudo -H gives root a home of its own.",
        {"owner": _name(owner)},
    )


def _name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
