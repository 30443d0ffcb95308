"""Instruction files: those of a folder, of the folders above it in its repository, and below it.

A folder's file is its AGENTS.md; where it has none, its CLAUDE.md or else its GEMINI.md, so that no
project needs a new file. KOGNITERM.md comes after it. `@path` in such a file imports another one.
Files are named relative to the workspace, as in `../AGENTS.md` and `api/AGENTS.md`.
"""

from __future__ import annotations

import os
import posixpath
import re
import stat
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from kogniterm.approval.analysis.paths_and_variables import is_secret
from kogniterm.host.safe_files import resolve_path
from kogniterm.host.walk import WalkLimits, walk_folder
from kogniterm.memory.project import project_data

SHARED_FILES = ("AGENTS.md", "CLAUDE.md", ".claude/CLAUDE.md", "GEMINI.md")
"""The first of these that a folder has is its instruction file."""
OWN_FILE = "KOGNITERM.md"
MOST_LEVELS = 20
"""Folders above the workspace that are looked at for the root of its repository."""
_LIMITS = WalkLimits(entries=50_000, depth=5)
MOST_FOLDERS = 2_000
MOST_NESTED = 50
MOST_IMPORTS = 50
IMPORT_LEVELS = 5

Read = Callable[[str], bytes | None]
"""Reads a file by its name from the workspace; None for what cannot be read, or must not be."""
_CODE = re.compile(r"^(?P<fence>```|~~~).*?(?:^(?P=fence)|\Z)|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_IMPORT = re.compile(r"(?<!\S)@([^\s`@]+)")


def files_of_folder(folder: str, read: Read) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the instruction files of a folder, named from the workspace."""
    for names in (SHARED_FILES, (OWN_FILE,)):
        for name in names:
            path = posixpath.normpath(posixpath.join(folder, name))
            data = read(path)
            if data is not None:
                yield path, data
                break


def folders_above(workspace: Path) -> tuple[str, ...]:
    """Return the folders above the workspace up to the root of its repository, that one first.

    None where the workspace is a root itself, or no folder above is one that belongs to the user.
    """
    found: list[str] = []
    name, folder = "", resolve_path(workspace)
    for _level in range(MOST_LEVELS):
        if not _is_mine(folder):
            return ()
        if _is_work_tree(folder):
            return tuple(reversed(found))
        if folder.parent == folder:
            return ()
        name, folder = (f"../{name}" if name else ".."), folder.parent
        found.append(name)
    return ()


def _is_mine(folder: Path) -> bool:
    try:
        return folder.lstat().st_uid == os.geteuid()
    except OSError:
        return False


def _is_work_tree(folder: Path) -> bool:
    """Return whether a folder is the root of a git work tree of this user; links do not count."""
    try:
        info = (folder / ".git").lstat()
        if info.st_uid != os.geteuid():
            return False
        if stat.S_ISDIR(info.st_mode):
            return stat.S_ISREG((folder / ".git" / "HEAD").lstat().st_mode)
        if not stat.S_ISREG(info.st_mode) or info.st_size > 4_096:
            return False
        return (folder / ".git").read_bytes().startswith(b"gitdir: ")
    except OSError:
        return False


def folders_below(workspace: Path) -> Iterator[str]:
    """Yield the folders below the workspace that may hold instruction files, the near ones first.

    Folders that never hold source are skipped, and a home or what is above one is not searched.
    """
    top = resolve_path(workspace)
    if resolve_path(Path.home()).is_relative_to(top):
        return
    skipped = frozenset(project_data()["skipped"])

    def enters(name: str) -> bool:
        return name not in skipped and not name.startswith(".")

    found = walk_folder(top, None, _LIMITS, enters=enters, near_first=True)
    folders = (one.path for one in found if one.is_folder and enters(one.found.name))
    yield from islice(folders, MOST_FOLDERS)


def imports_of(name: str, text: str) -> tuple[str, ...]:
    """Return the files that an instruction file imports, named as it is; code is left out."""
    found = (word.rstrip(".,;:!?)\"'") for word in _IMPORT.findall(_CODE.sub(" ", text)))
    paths = (word for word in found if word and not word.startswith(("/", "~")))
    names = (posixpath.normpath(posixpath.join(posixpath.dirname(name), one)) for one in paths)
    return tuple(dict.fromkeys(one for one in names if not is_secret(f"/{one}")))


def with_imports(name: str, text: str, texts: Callable[[str], str | None]) -> Iterator[str]:
    """Yield the names of the files that a file imports, directly and through others, once each.

    `texts` gives the text of a file, None for one that is not there.
    """
    seen, waiting = {name}, deque([(one, 1) for one in imports_of(name, text)])
    while waiting:
        one, level = waiting.popleft()
        found = texts(one) if one not in seen else None
        if found is None:
            continue
        seen.add(one)
        yield one
        if level < IMPORT_LEVELS:
            waiting.extend((inner, level + 1) for inner in imports_of(one, found))
