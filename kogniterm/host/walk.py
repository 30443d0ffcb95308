"""The one walk over a folder of the user: bounded, and through no link.

Each folder is opened as in `safe_files`, so what is yielded lies below the folder that was judged,
whatever is put in its place meanwhile.
"""

from __future__ import annotations

import errno
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from kogniterm.host.safe_files import listable


class WalkLimits(NamedTuple):
    """The most that a walk looks at; `depth` counts the folders between the top and an entry."""

    entries: int = 1_000_000
    depth: int = 1_000
    seconds: float = float("inf")


_WIDE = WalkLimits()


class WalkLimitError(OSError):
    """A folder was not looked into, or not to its end, because a limit was reached."""

    def __init__(self, limit: str) -> None:
        super().__init__(errno.EOVERFLOW, f"limit of {limit}")
        self.limit = limit


class WalkEntry(NamedTuple):
    """A name in a folder: its path from the top, and the open folder, until the next entry.

    A link counts as itself.
    """

    path: str
    found: os.DirEntry[str]
    folder: int

    @property
    def is_folder(self) -> bool:
        """True for a folder, False for a link to one."""
        with suppress(OSError):
            return self.found.is_dir(follow_symlinks=False)
        return False

    @property
    def is_file(self) -> bool:
        """True for a regular file, False for a link to one."""
        with suppress(OSError):
            return self.found.is_file(follow_symlinks=False)
        return False


def walk_folder(
    top: Path,
    unseen: Callable[[str, OSError], None] | None,
    limits: WalkLimits = _WIDE,
    *,
    enters: Callable[[str], bool] = lambda name: True,
    near_first: bool = False,
) -> Iterator[WalkEntry]:
    """Yield the entries below the resolved folder `top`, folder by folder, each sorted by name.

    `unseen` is called for each folder that cannot be listed or is beyond a limit, None where that
    matters to nobody. `enters` returns by its name whether a folder is looked into. `near_first`
    takes the folders level by level.
    """
    report = unseen or (lambda folder, error: None)
    until = time.monotonic() + limits.seconds
    left = limits.entries
    waiting = deque([("", 0)])
    while waiting:
        folder, depth = waiting.popleft() if near_first else waiting.pop()
        if time.monotonic() > until:
            report(folder, WalkLimitError("time"))
            return
        inside: list[str] = []
        try:
            with listable(top / folder) as listed:
                with os.scandir(listed) as scanned:
                    names = list(islice(scanned, left + 1))
                for found in sorted(names[:left], key=lambda one: one.name):
                    path = f"{folder}/{found.name}" if folder else found.name
                    entry = WalkEntry(path, found, listed)
                    yield entry
                    if entry.is_folder and enters(found.name):
                        inside.append(path)
        except OSError as error:
            report(folder, error)
            continue
        left -= len(names)
        if left < 0:
            report(folder, WalkLimitError("entries"))
            return
        if depth < limits.depth:
            waiting += [(path, depth + 1) for path in (inside if near_first else inside[::-1])]
        else:
            for path in inside:
                report(path, WalkLimitError("depth"))
