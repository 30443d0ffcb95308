"""One path as it was: looked at before an action, and made the same again afterwards.

Paths are resolved ones, and every step goes through `safe_files`: a command may have put a link
where a folder was, and what is kept or brought back must not lead through it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from kogniterm.host.safe_files import (
    folder,
    listable,
    look,
    parent,
    read_regular,
    replacing,
    status_in,
)

Kind = Literal["file", "folder", "link", "absent"]
MAX_ENTRIES = 5_000


@dataclass(frozen=True, slots=True)
class FileSnapshot:
    """One path as it was: `digest` names the kept content, or the target of a link.

    `owner` and `group` are -1 where they were not noted.
    """

    path: str
    kind: Kind
    mode: int = 0
    digest: str = ""
    size: int = 0
    owner: int = -1
    group: int = -1


def below(path: Path, room: int) -> tuple[list[FileSnapshot] | None, list[str]]:
    """`path` and what lies below it, and what of that may not be read.

    None, and nothing, when it is more than `room` bytes or `MAX_ENTRIES` paths.
    """
    entries: list[FileSnapshot] = []
    unreadable: list[str] = []
    size = 0
    for item in _walk(path, unreadable):
        try:
            entry = look_at(item)
            closed = entry is not None and entry.kind == "file" and not _may_read(item)
        except (OSError, ValueError):  # of a name that no file can have
            unreadable.append(str(item))
            continue
        if entry is None:
            continue
        if closed:
            unreadable.append(str(item))
            continue
        size += entry.size
        if size > room or len(entries) >= MAX_ENTRIES:
            return None, []
        entries.append(entry)
    return entries, unreadable


def _walk(path: Path, unreadable: list[str]) -> Iterator[Path]:
    """`path` and what lies below it; folders that cannot be listed are added to `unreadable`."""
    waiting = [path]
    while waiting:
        found = waiting.pop()
        yield found
        if not _is_folder(found):
            continue
        try:
            names = _names(found)
        except OSError:
            unreadable.append(str(found))
            continue
        waiting += [found / name for name in sorted(names, reverse=True)]


def _names(path: Path) -> list[str]:
    """What lies in a folder, which need not be one that may be entered."""
    with listable(path) as listed:
        return os.listdir(listed)  # noqa: PTH208 - a descriptor


def _is_folder(path: Path) -> bool:
    """Whether a folder, not a link to one, is there: as far as that can be told."""
    try:
        return stat.S_ISDIR(look(path).st_mode)
    except (OSError, ValueError):
        return False


def _may_read(path: Path) -> bool:
    with parent(path) as (descriptor, name):
        return os.access(
            name, os.R_OK, dir_fd=descriptor, effective_ids=True, follow_symlinks=False
        )


def look_at(path: Path) -> FileSnapshot | None:
    """`path` as it is now; None for sockets, devices and pipes, which cannot be kept.

    Raises `OSError` where that may not be known, and `ValueError` for no possible name.
    """
    try:
        with parent(path) as (descriptor, name):
            info = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            entry = FileSnapshot(
                str(path), "file", stat.S_IMODE(info.st_mode), owner=info.st_uid, group=info.st_gid
            )
            if stat.S_ISLNK(info.st_mode):
                target = os.readlink(name, dir_fd=descriptor)
                return replace(entry, kind="link", digest=target)
    except (FileNotFoundError, NotADirectoryError):
        return FileSnapshot(str(path), "absent")
    if stat.S_ISDIR(info.st_mode):
        return replace(entry, kind="folder")
    if stat.S_ISREG(info.st_mode):
        return replace(entry, size=info.st_size)
    return None


def digest_of(path: Path) -> str:
    """The digest of a file as it is now; of none that may not be read."""
    try:
        return hashlib.sha256(read_regular(path)).hexdigest()
    except OSError:
        return ""


def set_mode(entry: FileSnapshot) -> None:
    """Give a folder the mode it had. Raises `OSError`."""
    with folder(Path(entry.path)) as descriptor:
        _set_mode(descriptor, entry.mode)


def _set_mode(descriptor: int, mode: int) -> None:
    """Change the mode of what was opened by its path only, for which there is no `fchmod`."""
    os.chmod(f"/proc/self/fd/{descriptor}", mode)  # noqa: PTH101 - a descriptor's own name


def put_back(entry: FileSnapshot, kept: Path) -> None:
    """Make a path again what it was; `kept` is the content of a file. Raises `OSError`.

    A folder can be written afterwards, for what lies in it; `set_mode` ends that.
    """
    path = Path(entry.path)
    with parent(path, make=True) as (descriptor, name):
        there = status_in(descriptor, name)
        if entry.kind == "folder":
            if there is not None and not stat.S_ISDIR(there.st_mode):
                os.unlink(name, dir_fd=descriptor)
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=descriptor)
        else:
            if there is not None and stat.S_ISDIR(there.st_mode):
                shutil.rmtree(name, dir_fd=descriptor)
            _put_file_back(descriptor, name, entry, kept)
    if entry.kind == "folder":
        with folder(path) as descriptor:
            _set_mode(descriptor, entry.mode | 0o700)
            _give(descriptor, ".", entry)


def _put_file_back(descriptor: int, name: str, entry: FileSnapshot, kept: Path) -> None:
    try:
        _put_beside(descriptor, name, entry, kept)
    except PermissionError:
        # The folder may not be written; the file itself, if it is still there, may be.
        there = status_in(descriptor, name)
        if entry.kind == "link" or there is None or not stat.S_ISREG(there.st_mode):
            raise
        flags = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, dir_fd=descriptor), "wb") as file:
            file.write(kept.read_bytes())
            file.truncate()
            os.fchmod(file.fileno(), entry.mode)


def _put_beside(descriptor: int, name: str, entry: FileSnapshot, kept: Path) -> None:
    """Put a link, or the file whose content is `kept`, where it was, in one step."""
    with replacing(descriptor, name) as (file, temporary):
        if entry.kind == "link":
            os.unlink(temporary, dir_fd=descriptor)
            os.symlink(entry.digest, temporary, dir_fd=descriptor)
        else:
            with kept.open("rb") as content:
                shutil.copyfileobj(content, file)
        _give(descriptor, temporary, entry)
        if entry.kind == "file":
            os.fchmod(file.fileno(), entry.mode)


def _give(descriptor: int, name: str, entry: FileSnapshot) -> None:
    """Give what is in an open folder back to whom it belonged, if that is permitted."""
    info = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    if entry.owner >= 0 and (info.st_uid, info.st_gid) != (entry.owner, entry.group):
        with contextlib.suppress(PermissionError):
            os.chown(name, entry.owner, entry.group, dir_fd=descriptor, follow_symlinks=False)


def remove(path: Path) -> None:
    """Remove what is at `path`, whatever it is. Raises `OSError`."""
    try:
        with parent(path) as (descriptor, name):
            there = status_in(descriptor, name)
            if there is None:
                return
            if stat.S_ISDIR(there.st_mode):
                shutil.rmtree(name, dir_fd=descriptor)
            else:
                os.unlink(name, dir_fd=descriptor)
    except (FileNotFoundError, NotADirectoryError):
        return  # with a folder above it
