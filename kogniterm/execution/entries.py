"""One path as it was: looked at before an action, and made the same again afterwards."""

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

Kind = Literal["file", "folder", "link", "absent"]
MAX_ENTRIES = 5_000


@dataclass(frozen=True, slots=True)
class Entry:
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


def below(path: Path, room: int) -> tuple[list[Entry] | None, list[str]]:
    """`path` and what lies below it, and what of that may not be read.

    None, and nothing, when it is more than `room` bytes or `MAX_ENTRIES` paths.
    """
    entries: list[Entry] = []
    unreadable: list[str] = []
    size = 0
    for item in _walk(path, unreadable):
        try:
            entry = look(item)
        except (OSError, ValueError):  # of a name that no file can have
            unreadable.append(str(item))
            continue
        if entry is None:
            continue
        if entry.kind == "file" and not os.access(item, os.R_OK, effective_ids=True):
            unreadable.append(str(item))
            continue
        size += entry.size
        if size > room or len(entries) >= MAX_ENTRIES:
            return None, []
        entries.append(entry)
    return entries, unreadable


def _walk(path: Path, unreadable: list[str]) -> Iterator[Path]:
    """`path` and what lies below it; folders that cannot be listed are added to `unreadable`."""
    yield path
    if _is_folder(path):
        for folder, folders, files in os.walk(
            path, onerror=lambda error: unreadable.append(str(error.filename))
        ):
            for name in sorted(folders) + sorted(files):
                yield Path(folder) / name


def _is_folder(path: Path) -> bool:
    """Whether a folder, not a link to one, is there: as far as that can be told."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


def look(path: Path) -> Entry | None:
    """`path` as it is now; None for sockets, devices and pipes, which cannot be kept.

    Raises `OSError` where that may not be known, and `ValueError` for no possible name.
    """
    try:
        info = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return Entry(str(path), "absent")
    entry = Entry(
        str(path), "file", stat.S_IMODE(info.st_mode), owner=info.st_uid, group=info.st_gid
    )
    if stat.S_ISLNK(info.st_mode):
        return replace(entry, kind="link", digest=str(path.readlink()))
    if stat.S_ISDIR(info.st_mode):
        return replace(entry, kind="folder")
    if stat.S_ISREG(info.st_mode):
        return replace(entry, size=info.st_size)
    return None


def digest_of(path: Path) -> str:
    """The digest of a file as it is now; of none that may not be read."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _put_beside(path: Path, entry: Entry, kept: Path) -> None:
    """Put a link, or the file whose content is `kept`, where it was, in one step."""
    beside = path.with_name(".kogniterm-undo")
    beside.unlink(missing_ok=True)
    try:
        if entry.kind == "link":
            beside.symlink_to(entry.digest)
        else:
            shutil.copyfile(kept, beside)
        _give(beside, entry)
        if entry.kind == "file":
            beside.chmod(entry.mode)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def _give(path: Path, entry: Entry) -> None:
    """Give `path` back to whom it belonged, if that is permitted."""
    info = path.lstat()
    if entry.owner >= 0 and (info.st_uid, info.st_gid) != (entry.owner, entry.group):
        with contextlib.suppress(PermissionError):
            os.chown(path, entry.owner, entry.group, follow_symlinks=False)


def set_mode(entry: Entry) -> None:
    """Give a path the mode it had. Raises `OSError`."""
    Path(entry.path).chmod(entry.mode)


def put_back(entry: Entry, kept: Path) -> None:
    """Make a path again what it was; `kept` is the content of a file. Raises `OSError`.

    A folder can be written afterwards, for what lies in it; `set_mode` ends that.
    """
    path = Path(entry.path)
    if entry.kind == "folder":
        if os.path.lexists(path) and not path.is_dir():
            path.unlink()
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(entry.mode | 0o700)
        _give(path, entry)
        return
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        _put_beside(path, entry, kept)
    except PermissionError:
        # The folder may not be written; the file itself, if it is still there, may be.
        if entry.kind == "link" or not path.is_file() or path.is_symlink():
            raise
        shutil.copyfile(kept, path)
        path.chmod(entry.mode)


def remove(path: Path) -> None:
    """Remove what is at `path`, whatever it is. Raises `OSError`."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
