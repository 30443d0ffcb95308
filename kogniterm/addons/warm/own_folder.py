"""A folder that only the user can enter, held open: what was checked is what is used.

Imports nothing that a bare interpreter has not loaded: a warm start reads it.
"""

from __future__ import annotations

import os
import stat


def open_private(folder: str) -> int | None:
    """Return a descriptor of this folder, no link, that is the user's own and closed to others.

    What is done below the descriptor is done in the folder that was checked, whatever its path
    leads to by then. None if it is none of these.
    """
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    found = os.fstat(opened)
    if found.st_uid == os.geteuid() and not stat.S_IMODE(found.st_mode) & 0o077:
        return opened
    os.close(opened)
    return None


def below(folder: int, name: str) -> str:
    """Return a path in an open folder, short enough for a socket."""
    return f"/proc/self/fd/{folder}/{name}"
