"""Ordinary users in tests that root runs: without privileges in a thread, or as a whole process."""

from __future__ import annotations

import ctypes
import os
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)
ORDINARY = 23456
"""User and group of the ordinary user: numbers that no account of a distribution has."""
_CLONE_NEWNS, _CLONE_NEWUSER = 0x20000, 0x10000000
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18
_VERSION_3 = 0x20080522
_ABOVE_PERMISSIONS = 0b1111
"""CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH and CAP_FOWNER: capabilities 0 to 3."""


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    """One word of each set; the kernel takes two of these, the lower capabilities first."""

    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )


@contextmanager
def ordinary() -> Iterator[None]:
    """Withdraw root's privileges over files in this thread, and in those it starts.

    The capabilities stay permitted and are restored at the end; programs that are started
    still have them. For users other than root nothing changes.
    """
    header, sets = _Header(_VERSION_3, 0), (_Sets * 2)()
    call("capget", ctypes.byref(header), sets)
    before = sets[0].effective
    sets[0].effective &= ~_ABOVE_PERMISSIONS
    call("capset", ctypes.byref(header), sets)
    try:
        yield
    finally:
        sets[0].effective = before
        call("capset", ctypes.byref(header), sets)


def become_ordinary(*reachable: Path, accounts: Path | None = None, number: int = ORDINARY) -> None:
    """Turn this process, freshly forked, into one of the ordinary user; raise OSError on failure.

    If the interpreter, the project or one of the folders `reachable` lies in a folder that only
    root may enter (a home with mode 0700), the process gets a view of the disk in which only these
    can be reached. The file `accounts` replaces /etc/passwd in it. `number` is the user's.
    Does nothing if the user is not root.
    """
    if os.geteuid() != 0:
        return
    closed = _closed_folders([*_needed(), *(path.resolve() for path in reachable)])
    if closed or accounts:
        own_view()
    if closed:
        _open_a_way(closed)
    if accounts:
        mount(bytes(accounts), "/etc/passwd", b"", _MS_BIND)
    os.setgroups([])
    os.setresgid(number, number, number)
    os.setresuid(number, number, number)


def own_view() -> None:
    """Give this process a private view of the disk that it can change; raise OSError on failure.

    Without privileges it enters a user namespace in which it keeps its user and group.
    """
    user, group = os.geteuid(), os.getegid()
    call("unshare", _CLONE_NEWNS | (_CLONE_NEWUSER if user != 0 else 0))
    if user != 0:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    mount(b"none", "/", b"", _MS_REC | _MS_PRIVATE)


def cover(files: Iterable[Path]) -> None:
    """Hide the contents of `files` in this process's own view of the disk."""
    for file in {path.resolve() for path in files}:
        mount(b"/dev/null", str(file), b"", _MS_BIND)


def hand_over(*folders: Path) -> None:
    """Give folders and their contents to the ordinary user, and make them reachable."""
    if os.geteuid() != 0:
        return
    for folder in folders:
        for path in (folder, *folder.rglob("*")):
            os.lchown(path, ORDINARY, ORDINARY)
        for parent in folder.parents:
            mode = stat.S_IMODE(parent.stat().st_mode)
            if not mode & 0o001 and parent.is_relative_to(tempfile.gettempdir()):
                parent.chmod(mode | 0o011)


def _needed() -> list[Path]:
    """Return the folders of the interpreter, its environment and the project."""
    found = (Path(sys.base_prefix), Path(sys.prefix), Path(__file__).parents[2])
    return [path.resolve() for path in found]


def _closed_folders(needed: Iterable[Path]) -> dict[Path, list[Path]]:
    """Return folders that only root may enter, each with the paths of `needed` below it."""
    closed: dict[Path, list[Path]] = {}
    for path in needed:
        for parent in reversed(path.parents):
            if not parent.stat().st_mode & 0o001:
                closed.setdefault(parent, []).append(path)
                break
    return closed


def _open_a_way(closed: dict[Path, list[Path]]) -> None:
    """Cover closed folders, in the process's own view, by empty ones that hold what is needed."""
    for folder, needed in closed.items():
        held = {path: os.open(path, os.O_PATH | os.O_DIRECTORY) for path in needed}
        mount(b"tmpfs", str(folder), b"tmpfs", 0, b"mode=755")
        for path, descriptor in held.items():
            path.mkdir(parents=True, exist_ok=True)
            mount(b"/proc/self/fd/%d" % descriptor, str(path), b"", _MS_BIND | _MS_REC)
            os.close(descriptor)


def mount(source: bytes, target: str, kind: bytes, flags: int = 0, options: bytes = b"") -> None:
    """Mount `source` in this process's own view of the disk; raise OSError on failure."""
    call("mount", source, target.encode(), kind, ctypes.c_ulong(flags), options)


def call(name: str, *arguments: object) -> None:
    """Call a function of the C library; raise OSError on failure."""
    if getattr(_libc, name)(*arguments) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
