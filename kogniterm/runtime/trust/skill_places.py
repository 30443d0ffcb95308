"""Folders of skills: which there are in a place, and every file of one, within bounds.

A skill is used as a whole, so one that holds anything that cannot be pinned by its content (a link
that leads out of it, a pipe, too many or too large files) is passed over as a whole.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from kogniterm.errors import UnusableValueError, why
from kogniterm.host.safe_files import resolved
from kogniterm.host.walk import WalkLimitError, WalkLimits, walk_folder

SKILL_FILE = "SKILL.md"
MOST_SKILLS = 100
MOST_FILES = 200
DEEPEST = 6
LARGEST = 8 * 1024 * 1024
"""Bytes of one file of a skill."""
_MOST_NAMES = 1_000
_NO_PART = ".git"
"""The history of a skill that is a clone: git changes it by itself, and no skill is made of it."""


def skill_folders(place: Path, inside: Path | None = None) -> Iterator[str]:
    """Yield the names of the folders in `place` that hold a SKILL.md, in order.

    A link to a folder counts where it leads into `inside`, or anywhere when that is None.
    """
    try:
        top = resolved(place)
    except (OSError, ValueError):
        return
    names = (one.path for one in walk_folder(top, None, WalkLimits(_MOST_NAMES, depth=0)))
    found = (name for name in names if _holds_a_skill(place / name, inside))
    yield from islice(found, MOST_SKILLS)


def _holds_a_skill(folder: Path, inside: Path | None) -> bool:
    try:
        real = resolved(folder)
        if inside is not None and not real.is_relative_to(resolved(inside)):
            return False
        return os.path.lexists(real / SKILL_FILE)
    except (OSError, ValueError):
        return False


def files_of_skill(folder: Path) -> tuple[str, ...]:
    """Return the names of all files of a skill, relative to its folder, SKILL.md first.

    Raises `UnusableValueError` for a folder that cannot be pinned by its content.
    """
    try:
        top = resolved(folder)
        names = list(islice(_below(top), MOST_FILES + 1))
    except UnusableValueError:
        raise
    except (OSError, ValueError) as error:
        reason = why(error) if isinstance(error, OSError) else error
        raise UnusableValueError("its folder cannot be read: {why}", why=reason) from error
    if len(names) > MOST_FILES:
        raise UnusableValueError("it has more than {count} files", count=MOST_FILES)
    return tuple(sorted(names, key=lambda name: (name != SKILL_FILE, name)))


def _below(top: Path) -> Iterator[str]:
    """Yield the names of the files below the resolved folder `top`."""

    def refuse(path: str, error: OSError) -> None:
        if not isinstance(error, WalkLimitError):
            raise error
        if error.limit == "depth":
            raise UnusableValueError("its folders are too deep: {path}", path=path)
        raise UnusableValueError("it has more than {count} files", count=MOST_FILES)

    limits = WalkLimits(_MOST_NAMES, DEEPEST - 1)
    for one in walk_folder(top, refuse, limits, enters=lambda name: name != _NO_PART):
        name, info = one.path, one.found.stat(follow_symlinks=False)
        if stat.S_ISDIR(info.st_mode):
            continue
        if stat.S_ISLNK(info.st_mode):
            info = _behind_link(top, name)
        if not stat.S_ISREG(info.st_mode):
            raise UnusableValueError("{path} is not a regular file", path=name)
        if info.st_size > LARGEST:
            most = LARGEST // 1024**2
            raise UnusableValueError("{path} is larger than {most} MB", path=name, most=most)
        yield name


def _behind_link(top: Path, name: str) -> os.stat_result:
    target = resolved(top / name)
    if not target.is_relative_to(top):
        raise UnusableValueError("{path} is a link that leads out of its folder", path=name)
    try:
        return target.lstat()
    except OSError as error:
        raise UnusableValueError("{path} is a link that leads nowhere", path=name) from error
