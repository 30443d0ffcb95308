"""Folders for the user alone, the paths that names mean in them, and bytes that reach the disk."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

from kogniterm.types import Phrase


def expand_path(folder: str | Path, name: str | Path) -> Path:
    """Return the path that `name` means in `folder`, as a shell takes it.

    `~` and `~user` are home folders; the `~name` of an unknown user stays as it is, where
    `Path.expanduser` would raise.
    """
    return Path(folder) / os.path.expanduser(name)  # noqa: PTH111 - which raises, see above


def seen_from(folder: str, path: str) -> str:
    """Return `path` as it is named from `folder`, if it lies below it; any other as it is."""
    return path.removeprefix(f"{folder.rstrip('/')}/")


def regular(descriptor: int, path: Path, mode: str = "rb") -> BinaryIO:
    """Return the open file at `path`. What is no regular file is closed: `OSError`, EINVAL."""
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind):
        return cast("BinaryIO", os.fdopen(descriptor, mode))
    os.close(descriptor)
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, str(Phrase("not a regular file")), str(path))


def read_file(path: Path, most: int = -1) -> bytes:
    """Return the content, or its first `most` bytes, of a regular file, which links may lead to.

    Never waits for the other end of a named pipe, or for a device. Raises `OSError`; its kind is
    EINVAL for what is no regular file.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    with regular(os.open(path, flags), path) as file:
        return file.read(most)


def read_own_json(path: Path) -> Any:
    """Return the value in a JSON file that KogniTerm wrote; None where it is missing or damaged."""
    import json

    try:
        return json.loads(read_file(path))
    except (OSError, ValueError, RecursionError):
        return None


def private_folder(folder: Path) -> None:
    """Make `folder` and what is missing above it, for the user alone even under umask 0.

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


def try_lock(descriptor: int) -> bool:
    """Lock an open file or folder for its holder alone; return False where another one has it.

    The lock is held until every copy of the descriptor is closed, however its process ends.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


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


@contextmanager
def replacement(path: Path, *, durable: bool = False) -> Iterator[BinaryIO]:
    """Open a private file that takes the place of `path` in the end, whole or not at all.

    A device or a pipe is written to: it must not be replaced by a file. `durable` waits until
    the content is on the disk. Raises `OSError`.
    """
    if _is_device_or_pipe(path):
        with path.open("wb") as file:
            yield file
        return
    import tempfile  # loads slowly, and is not needed to start

    try:
        # Not named after the file, whose name may be as long as names can be.
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".kogniterm-")
    except OSError as error:
        error.filename = str(path)  # the temporary name beside it means nothing to the user
        raise
    beside = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(descriptor)
        beside.replace(path)
    finally:
        with suppress(OSError):
            beside.unlink()


def _is_device_or_pipe(path: Path) -> bool:
    """Return whether `path` is to be written to, not replaced, such as /dev/stdout and /dev/fd/3.

    Links elsewhere count as files: one that a project brings must not lead to a device.
    """
    if path.parent == Path("/dev") or any(map(path.is_relative_to, ("/dev/fd", "/proc"))):
        return True
    try:
        kind = stat.S_IFMT(path.lstat().st_mode)
    except OSError:
        return False
    return kind in (stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO)


def write_private(path: Path, data: bytes, *, mode: int = 0o600, durable: bool = False) -> None:
    """Write a file that only the user can read, whole or not at all; missing folders are made.

    A link stays, and what it leads to is written. `mode` is another one for it, `durable` as in
    `replacement`. Raises `OSError`.
    """
    path = Path(os.path.realpath(path))
    private_folder(path.parent)
    with replacement(path, durable=durable) as file:
        file.write(data)
        os.fchmod(file.fileno(), mode)
