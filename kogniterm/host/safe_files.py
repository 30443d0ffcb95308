"""Files in folders that others can change: opened component by component, never through a link.

A command in the sandbox, or a job that it left running, can replace any folder of the workspace by
a link at any moment. What the host process reads or writes there is therefore named by a resolved
path, which is judged and shown, and at the time of use that path is walked from the root with
`O_NOFOLLOW`, each folder relative to the descriptor of the one before. What is opened is exactly
what was judged; a link in the way raises `LinkMetError`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kogniterm.storage.folders import regular

_PATH_ONLY = getattr(os, "O_PATH", os.O_RDONLY)
"""Entering a folder takes no right to list it, where the system can tell these apart."""
_FOLDER = _PATH_ONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class LinkMetError(OSError):
    """A component of a resolved path is a link: it was replaced since it was resolved."""

    def __init__(self, path: Path | str) -> None:
        super().__init__(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def resolve_path(path: Path) -> Path:
    """Return the absolute path that `path` means now, links followed as far as they exist.

    Raises `OSError` where a link may not be read or leads in circles, and `ValueError` for what can
    be no file's name.
    """
    # `Path.resolve` has an error of its own kind for links that lead in circles.
    found = Path(os.path.realpath(path))
    try:
        circular = stat.S_ISLNK(found.lstat().st_mode)
    except OSError:
        return found
    if circular:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return found


@contextmanager
def folder(path: Path, *, make: bool = False) -> Iterator[int]:
    """Open the folder `path`, a resolved path; with `make`, create what is missing of it.

    The descriptor is good for `dir_fd` and for changing into it; `listable` is for listing. Raises
    `OSError`.
    """
    descriptor = os.open("/", _FOLDER)
    try:
        if not path.is_absolute() or ".." in path.parts:
            raise ValueError(f"{path} is not a resolved path")
        walked = "/"
        for name in path.parts[1:]:
            walked = f"{walked.rstrip('/')}/{name}"
            inner = _enter(descriptor, name, walked, make=make)
            os.close(descriptor)
            descriptor = inner
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def listable(path: Path) -> Iterator[int]:
    """Open the folder at the resolved `path`, which need not be one that may be entered, to list.

    Never waits for what is no folder. Raises `OSError`.
    """
    descriptor = open_file(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def parent(path: Path, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """Open the folder that holds `path`, a resolved path; yields (descriptor, name in it)."""
    with folder(path.parent, make=make) as descriptor:
        yield descriptor, path.name or "."


def open_file(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open the file at the resolved `path` and return its descriptor.

    Never waits for the other end of a named pipe. Raises `OSError`.
    """
    with parent(path) as (descriptor, name):
        try:
            return os.open(
                name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=descriptor
            )
        except OSError:
            _refuse_link(descriptor, name, path)
            raise


def look(path: Path) -> os.stat_result:
    """Return the status of what is at the resolved `path`, a link counting as itself."""
    with parent(path) as (descriptor, name):
        return os.stat(name, dir_fd=descriptor, follow_symlinks=False)


def read_regular(path: Path, most: int | None = None) -> bytes:
    """Return the content, or its first `most` bytes, of the regular file at the resolved `path`.

    Raises `OSError`; its kind is EINVAL for what is no regular file.
    """
    with regular(open_file(path), path) as file:
        return file.read() if most is None else file.read(most)


def write_regular(path: Path, data: bytes, like: tuple[int, int, int] | None = None) -> None:
    """Write `data` beside the resolved `path` and rename it over: never a half-written file.

    Missing folders are made. Mode, owner and group are kept, or `like` those; attributes of the
    user, too. A file with another name, one that is mounted by itself, one of another owner, and
    one in a folder that may not be written are written in place. Raises `OSError`.
    """
    with parent(path, make=True) as (descriptor, name):
        before = status_in(descriptor, name)
        if before is not None and stat.S_ISLNK(before.st_mode):
            raise LinkMetError(path)
        kept = (stat.S_IMODE(before.st_mode), before.st_uid, before.st_gid) if before else None
        try:
            if before is None or before.st_nlink == 1:
                _replace(descriptor, name, data, like or kept)
                return
        except OSError as error:
            if before is None or error.errno not in (errno.EPERM, errno.EACCES, errno.EBUSY):
                raise
        _overwrite(descriptor, name, data, like)


def _new_file(descriptor: int) -> tuple[int, str]:
    while True:
        # Not named after another file, whose name may be as long as names can be.
        name = f".kogniterm-{os.urandom(6).hex()}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with contextlib.suppress(FileExistsError):
            return os.open(name, flags, 0o600, dir_fd=descriptor), name


def working_folder(descriptor: int) -> str:
    """Return the name by which a program that this process starts can stand in an open folder."""
    return f"/proc/self/fd/{descriptor}"


def umask() -> bytes:
    """Return the process's file mode mask in octal digits, without changing it as a call would.

    It is empty on a system without /proc.
    """
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_bytes().splitlines():
            if line.startswith(b"Umask:"):
                return line.split()[1]
    return b""


_AT_FDCWD = -100
_AT_SYMLINK_NOFOLLOW = 0x100
_STATX_BTIME = 0x800
_STATX_SIZE = 256
_BIRTH_AT = 80


def birth_time(name: str, descriptor: int = _AT_FDCWD) -> str:
    """Return the time a file was made, which `os.stat` does not report here; "" if unknown.

    It tells a file from a later one of the same inode. A link counts as itself; `descriptor` is the
    folder that `name` is in.
    """
    import ctypes

    libc = ctypes.CDLL(None)
    if not hasattr(libc, "statx"):
        return ""
    found = ctypes.create_string_buffer(_STATX_SIZE)
    path = os.fsencode(name)
    failed = libc.statx(descriptor, path, _AT_SYMLINK_NOFOLLOW, _STATX_BTIME, found)
    (known,) = struct.unpack_from("=I", found)
    if failed or not known & _STATX_BTIME:
        return ""
    seconds, nanoseconds = struct.unpack_from("=qI", found, _BIRTH_AT)
    return f"{seconds}.{nanoseconds:09}"


def status_in(descriptor: int, name: str) -> os.stat_result | None:
    """Return the status of what is in an open folder, links themselves; None for nothing."""
    try:
        return os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _enter(descriptor: int, name: str, walked: str, *, make: bool) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=descriptor)
    except FileNotFoundError:
        if not make:
            raise
    except OSError:
        _refuse_link(descriptor, name, walked)
        raise
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, dir_fd=descriptor)
    try:
        return os.open(name, _FOLDER, dir_fd=descriptor)
    except OSError:
        _refuse_link(descriptor, name, walked)
        raise


def _refuse_link(descriptor: int, name: str, path: Path | str) -> None:
    """Raise `LinkMetError` if `name` is a link."""
    status = status_in(descriptor, name)
    if status is not None and stat.S_ISLNK(status.st_mode):
        raise LinkMetError(path)


def _replace(descriptor: int, name: str, data: bytes, like: tuple[int, int, int] | None) -> None:
    opened, temporary = _new_file(descriptor)
    try:
        with os.fdopen(opened, "wb") as file:
            made = os.fstat(opened)
            if like and like[1:] != (made.st_uid, made.st_gid):
                os.fchown(opened, *like[1:])
            file.write(data)
            file.flush()
            for attribute, value in _attributes(descriptor, name):
                with contextlib.suppress(OSError):  # another file system may not have it
                    os.setxattr(opened, attribute, value)
            # Last, as an access list has a mode too.
            os.fchmod(opened, like[0] if like else 0o666 & ~int(umask() or b"022", 8))
            os.fsync(opened)
        os.replace(temporary, name, src_dir_fd=descriptor, dst_dir_fd=descriptor)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=descriptor)
        raise


def _attributes(descriptor: int, name: str) -> list[tuple[str, bytes]]:
    """Return a file's extended attributes that a user sets; none where there are none."""
    path = f"{working_folder(descriptor)}/{name}"
    with contextlib.suppress(OSError):
        names = os.listxattr(path, follow_symlinks=False)
        return [
            (one, os.getxattr(path, one, follow_symlinks=False))
            for one in names
            if one.startswith(("user.", "system.posix_acl_"))
        ]
    return []


def _overwrite(descriptor: int, name: str, data: bytes, like: tuple[int, int, int] | None) -> None:
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with regular(os.open(name, flags, dir_fd=descriptor), Path(name), "r+b") as file:
        file.write(data)
        file.truncate()
        if like is not None:
            os.fchmod(file.fileno(), like[0])
        file.flush()
        os.fsync(file.fileno())
