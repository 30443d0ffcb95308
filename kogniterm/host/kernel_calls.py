"""System calls of Linux that Python has no function for, through ctypes; each raises OSError.

Numbers above 400 are the same on every architecture. Constants: linux/sched.h, linux/mount.h,
linux/prctl.h and linux/capability.h. This module runs in small processes, and imports little.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import errno
import os
import signal
import socket
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NEW_MOUNTS, NEW_CGROUP, NEW_UTS, NEW_IPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
NEW_USER, NEW_PIDS, NEW_NETWORK = 0x10000000, 0x20000000, 0x40000000
NO_SUID, NO_DEVICES, NO_EXECUTION = 2, 4, 8
READ_ONLY = 1
"""Attributes of mounts; as flags of mount(2) they have the same values."""
PRIVATE, DETACH = 0x4000 | 0x40000, 2

_OPEN_TREE, _MOVE_MOUNT, _FSOPEN, _FSCONFIG, _FSMOUNT = 428, 429, 430, 431, 432
_OPENAT2, _PIDFD_GETFD, _MOUNT_SETATTR = 437, 438, 442
_PIVOT_ROOT, _TGKILL = (155, 234) if os.uname().machine == "x86_64" else (41, 131)
_AT_FDCWD, _EMPTY_PATH, _RECURSIVE = -100, 0x1000, 0x8000
_CLONE, _FROM_EMPTY, _ON_EMPTY = 1, 4, 0x40
_NO_LINKS, _IN_ROOT = 4, 0x10
_TRIES = 1000
_SET_STRING, _CREATE = 1, 6
_SET_PDEATHSIG, _SET_DUMPABLE, _SET_NAME, _DROP_BOUND = 1, 4, 15, 24
_SUBREAPER, _NO_NEW_PRIVILEGES, _AMBIENT, _CLEAR_ALL = 36, 38, 47, 4
_CAPABILITIES_VERSION_3 = 0x20080522
_LAST_CAPABILITY = 63
LOOK_INTO_PROCESSES = 1 << 19
"""CAP_SYS_PTRACE."""

LIBC = ctypes.CDLL(None, use_errno=True)


def check_result(result: int, about: str | None = None) -> int:
    """Return the result of a call of LIBC. Raises OSError, with the path `about`, for an error."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), about)
    return result


def _call(number: int, *arguments: object, about: str | None = None) -> int:
    return check_result(int(LIBC.syscall(ctypes.c_long(number), *arguments)), about)


def prctl(option: int, value: int) -> None:
    check_result(LIBC.prctl(option, ctypes.c_ulong(value), 0, 0, 0))


def become_subreaper() -> None:
    """Make orphans below this process its children instead of init's."""
    with contextlib.suppress(OSError):
        prctl(_SUBREAPER, 1)


def end_with_parent(number: int) -> None:
    """Have the kernel send this process signal `number` when its parent ends."""
    with contextlib.suppress(OSError):
        prctl(_SET_PDEATHSIG, number)


def hide_memory() -> None:
    """Keep other processes from looking into this one, until it executes a program."""
    prctl(_SET_DUMPABLE, 0)


def keep_privileges_out() -> None:
    """Let no program that is executed from here on give privileges."""
    prctl(_NO_NEW_PRIVILEGES, 1)


def drop_privileges(*, but: int = 0) -> None:
    """Give up every capability for good, or all but these: root could make devices and reboot."""
    for number in range(_LAST_CAPABILITY + 1):
        LIBC.prctl(_DROP_BOUND, number, 0, 0, 0)  # refused where there is nothing to drop
    LIBC.prctl(_AMBIENT, _CLEAR_ALL, 0, 0, 0)
    header = struct.pack("=Ii", _CAPABILITIES_VERSION_3, 0)
    check_result(LIBC.capset(header, struct.pack("=6I", but, but, 0, 0, 0, 0)))


def set_signals(action: signal.Handlers, *, but: frozenset[int] = frozenset()) -> None:
    """Ignore all signals that can be, or give them their usual effect."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, *but}:
        signal.signal(number, action)


def rename_process(name: str) -> None:
    """Give this process another name and command line, which `ps` shows and `pkill` looks at."""
    text = name.encode("ascii")
    LIBC.prctl(_SET_NAME, text, 0, 0, 0)
    with open("/proc/self/stat", "rb") as file:  # noqa: PTH123 - no pathlib in small processes
        fields = file.read().rpartition(b")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    if len(text) < end - start:
        ctypes.memset(start, 0, end - start)
        ctypes.memmove(start, text, len(text))


def close_all_but(*kept: int) -> None:
    """Close every descriptor but these."""
    low = 0
    for fd in (*sorted(set(kept)), 1 << 20):
        if fd > low:  # an empty range would be taken for an open one
            os.closerange(low, fd)
        low = fd + 1


def unshare(kinds: int) -> None:
    """Leave the namespaces of these kinds for new ones."""
    check_result(LIBC.unshare(kinds), "new namespaces")


def enter(namespace: int, kind: int) -> None:
    """Enter the namespace that a descriptor names; one of processes is for children only."""
    check_result(LIBC.setns(namespace, kind))


def mount(kind: str, target: str, flags: int, data: str = "") -> None:
    """Mount a new file system of this kind, or set the propagation of what is mounted."""
    words = [os.fsencode(word) or None for word in (kind, target, kind)]
    what = LIBC.mount(*words, ctypes.c_ulong(flags), os.fsencode(data) or None)
    check_result(what, target)


def place(path: str) -> int:
    """Return a descriptor of what is at `path`, of which no part may be a link."""
    how = struct.pack("=QQQ", os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, 0, _NO_LINKS)
    size = ctypes.c_size_t(len(how))
    return _call(_OPENAT2, _AT_FDCWD, os.fsencode(path), how, size, about=path)


def place_in(root: int, path: bytes) -> int:
    """Return a descriptor of what is at `path` for a process with this root; links are followed."""
    how = struct.pack("=QQQ", os.O_PATH | os.O_CLOEXEC, 0, _IN_ROOT)
    for _ in range(_TRIES):  # a rename at the same time makes the kernel unsure of `..`
        with contextlib.suppress(BlockingIOError):
            return _call(_OPENAT2, root, path, how, ctypes.c_size_t(len(how)))
    raise OSError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))


def duplicate(process: int, number: int) -> int:
    """Return a duplicate of descriptor `number` of the process that a pidfd names."""
    return _call(_PIDFD_GETFD, process, ctypes.c_uint(number), 0)


def descriptors_in(ancillary: Iterable[tuple[int, int, bytes]]) -> list[int]:
    """Return the descriptors that came with a message (socket.recvmsg)."""
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return fds.tolist()


@contextlib.contextmanager
def closing_descriptor(fd: int) -> Iterator[int]:
    """Yield a descriptor and close it at the end."""
    try:
        yield fd
    finally:
        os.close(fd)


def connect(sock: int, address: bytes) -> None:
    """Connect a socket; unlike Python's own function this ends when a signal arrives."""
    check_result(LIBC.connect(sock, address, len(address)))


def signal_thread(thread: int, number: int) -> None:
    """Send a signal to one thread of this process, if it still runs."""
    LIBC.syscall(ctypes.c_long(_TGKILL), os.getpid(), thread, number)


def copy_mounts(at: int, attributes: int, *, recursive: bool) -> int:
    """Return a mount of what the descriptor `at` names, and below if `recursive`, not yet seen."""
    below = _RECURSIVE if recursive else 0
    flags = _CLONE | os.O_CLOEXEC | _EMPTY_PATH | below
    tree = _call(_OPEN_TREE, at, b"", ctypes.c_uint(flags))
    set_attributes(tree, attributes, recursive=recursive)
    return tree


def set_attributes(at: int, attributes: int, *, cleared: int = 0, recursive: bool = False) -> None:
    """Add attributes to the mount that a descriptor names, or take some away."""
    attr = struct.pack("=QQQQ", attributes, cleared, 0, 0)
    flags = ctypes.c_uint(_EMPTY_PATH | (_RECURSIVE if recursive else 0))
    _call(_MOUNT_SETATTR, at, b"", flags, attr, ctypes.c_size_t(len(attr)))


def memory_folder(attributes: int, size: int) -> int:
    """Return a mount of an empty folder in memory, of at most `size` bytes, not yet seen."""
    with closing_descriptor(_call(_FSOPEN, b"tmpfs", 1)) as context:
        for name, value in (("mode", b"0755"), ("size", b"%d" % size)):
            _call(_FSCONFIG, context, _SET_STRING, name.encode(), value, 0)
        _call(_FSCONFIG, context, _CREATE, None, None, 0)
        return _call(_FSMOUNT, context, 1, ctypes.c_uint(attributes))


def attach(tree: int, on: int) -> None:
    """Put a mount where the descriptor `on` is."""
    _call(_MOVE_MOUNT, tree, b"", on, b"", ctypes.c_uint(_FROM_EMPTY | _ON_EMPTY))


def change_root(tree: int, over: str) -> None:
    """Make a mount the root of this mount namespace, by way of the folder `over`."""
    with closing_descriptor(place(over)) as on:
        attach(tree, on)
    os.chdir(over)
    _call(_PIVOT_ROOT, b".", b".")
    check_result(LIBC.umount2(b".", DETACH))  # the old root lies on top of the new one
    os.chdir("/")


def file_system_of(path: str | int) -> int:
    """Return the magic number of the file system at a path or descriptor; raises OSError."""
    buffer = ctypes.create_string_buffer(256)
    if isinstance(path, int):
        check_result(LIBC.fstatfs(path, buffer))
    else:
        check_result(LIBC.statfs(os.fsencode(path), buffer))
    return int(ctypes.c_ulong.from_buffer(buffer).value) & 0xFFFFFFFF
