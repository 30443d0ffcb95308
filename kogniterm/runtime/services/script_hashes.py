"""Files that decide what an approved command runs: hashed when it is judged, compared at its start.

An approved `make` or `./deploy.sh` could be changed between the approval and the run; then what
runs would not be what was approved. A file that was not there and is now counts as changed.
"""

from __future__ import annotations

import glob
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from kogniterm.approval.analysis.paths_and_variables import within
from kogniterm.storage.folders import expand_path
from kogniterm.types import RiskReport

MAX_HASHED = 32 * 1024 * 1024
"""A larger file is known by its size, inode and times."""
MAX_TOTAL = 128 * 1024 * 1024
"""Bytes that may be read for one command; beyond them, files are known by size, inode and times."""
MAX_MATCHES = 200
ABSENT = "absent"
_PROGRAM_FOLDERS = (".venv/bin", "venv/bin", "env/bin", "node_modules/.bin", "vendor/bin", "bin")
"""Folders of a workspace that activated environments and task runners put on PATH."""


def file_states(report: RiskReport, workspace: str, search_path: str) -> Mapping[str, str]:
    """Return the state of every file that decides what `report`'s command runs, by name.

    Besides the files that the report names, these are the programs of its bare names in folders of
    the workspace that are on `search_path` or commonly become so.
    """
    left = MAX_TOTAL
    states: dict[str, str] = {}
    for name in (*report.deciding, *_own_programs(report, workspace, search_path)):
        for file in (*_named_matches(name, workspace), name):  # each can be named when it changes
            if file not in states:
                states[file], used = _state(file, workspace, left)
                left -= used
    return states


def changed_file(states: Mapping[str, str], workspace: str) -> str | None:
    """Return the first file whose state is no longer the one in `states`, or None."""
    left = MAX_TOTAL
    for name, state in states.items():
        now, used = _state(name, workspace, left)
        left -= used
        if now != state:
            new = (file for file in _named_matches(name, workspace) if file not in states)
            return next(new, name)
    return None


def _own_programs(report: RiskReport, workspace: str, search_path: str) -> Iterator[str]:
    """Yield where the workspace has, or could get, the programs that the command names."""
    bare = {argv[0] for argv in report.programs if argv and argv[0]}
    bare = {one for one in bare if not any(char in one for char in "/…=\0")}
    paths = [os.path.join(workspace, os.path.expanduser(one)) for one in search_path.split(":")]  # noqa: PTH111, PTH118 - for each command, and pathlib is slow
    folders = [folder for folder in map(os.path.normpath, paths) if within(folder, workspace)]
    common = [f"{workspace}/{folder}" for folder in _PROGRAM_FOLDERS]
    folders += [folder for folder in common if Path(folder).is_dir()]
    for folder in dict.fromkeys(folders):
        for program in sorted(bare):
            yield os.path.relpath(f"{folder}/{program}", workspace)


def _state(name: str, workspace: str, left: int) -> tuple[str, int]:
    """Return the state of one name or pattern, and how many bytes were read for it."""
    path = str(expand_path(workspace, name))
    if not glob.has_magic(name):
        return _file_state(path, left)
    found: list[str] = []
    used = 0
    for match in sorted(islice(_matches(path), MAX_MATCHES)):
        state, read = _file_state(match, left - used)
        used += read
        found.append(f"{os.path.basename(match)}\0{state}")  # noqa: PTH119 - a plain string
    if not found:
        return ABSENT, used
    return hashlib.sha256("\0".join(found).encode("utf-8", "surrogatepass")).hexdigest(), used


def _named_matches(name: str, workspace: str) -> Sequence[str]:
    """Return the files that a pattern matches, but for those whose names are patterns too."""
    found = _matches(str(expand_path(workspace, name))) if glob.has_magic(name) else ()
    files = sorted(os.path.relpath(file, workspace) for file in islice(found, MAX_MATCHES))
    return [file for file in files if not glob.has_magic(file)]


def _matches(pattern: str) -> Sequence[str]:
    try:
        return glob.glob(pattern)  # noqa: PTH207 - a pattern of a shell, with its hidden-file rule
    except (OSError, ValueError):
        return ()


def _file_state(path: str, left: int) -> tuple[str, int]:
    """Return the state of `path`, read through one descriptor; pipes and devices are not read."""
    try:
        # Without waiting for a writer of a pipe, and without becoming a terminal's owner.
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return ABSENT, 0
    except (OSError, ValueError):
        try:  # as programs often have no permission to be read
            return _identity(Path(path).stat()), 0
        except (OSError, ValueError):
            return "unreadable", 0
    try:
        info = os.fstat(opened)
        if stat.S_ISDIR(info.st_mode):
            return "folder", 0
        if not stat.S_ISREG(info.st_mode) or info.st_size > min(MAX_HASHED, left):
            return _identity(info), 0
        with os.fdopen(os.dup(opened), "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest(), info.st_size
    except OSError:
        return "unreadable", 0
    finally:
        os.close(opened)


def _identity(info: os.stat_result) -> str:
    kind = stat.S_IFMT(info.st_mode)
    times = f"{info.st_mtime_ns}:{info.st_ctime_ns}"
    return f"{kind:o}:{info.st_dev}:{info.st_ino}:{info.st_size}:{times}"
