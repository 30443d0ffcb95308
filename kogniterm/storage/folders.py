"""Folders for the user alone, the paths that names mean in them, and bytes that reach the disk."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def named(folder: str | Path, name: str | Path) -> Path:
    """The path that `name` means to somebody who is in `folder`: as a shell takes it.

    `~` and `~user` are homes; one of nobody stays as it is, where `Path.expanduser` would raise.
    """
    return Path(folder) / os.path.expanduser(name)  # noqa: PTH111 - which raises, see above


def private_folder(folder: Path) -> None:
    """Make `folder` and what is missing above it, for the person alone even under umask 0.

    That is how the XDG specification wants it; `Path.mkdir` gives the mode to the last one only.
    Raises `OSError`.
    """
    try:
        folder.mkdir(mode=0o700)
    except FileNotFoundError:
        if folder.parent == folder:
            raise
        private_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        # It may be there already, which a read-only place tells in another way.
        if not folder.is_dir():
            if isinstance(error, FileExistsError):
                error = NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
            raise error from None


def sync_folder(folder: Path) -> None:
    """Wait until the names in `folder` are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: bytes, place: int | None = None) -> None:
    """Write all of `data`, from the byte `place` of the file on when it is given."""
    view = memoryview(data)
    while view:
        if place is None:
            written = os.write(descriptor, view)
        else:
            written = os.pwrite(descriptor, view, place)
            place += written
        view = view[written:]


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only the user can read, whole or not at all; missing folders are made.

    Raises `OSError`.
    """
    private_folder(path.parent)
    beside = path.with_name(f"{path.name}.{os.getpid()}.new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    beside.replace(path)
