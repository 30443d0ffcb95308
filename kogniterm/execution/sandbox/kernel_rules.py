"""Rules that the kernel keeps for a sandboxed process and all it starts, through ctypes.

They are loaded in the process that becomes the command and cannot be taken off again.

Landlock refuses writes outside the given folders, reading what is hidden, and, where the kernel can
(Linux 6.12), signals to processes outside and connections to their abstract sockets. It cannot
refuse chmod, chown and utime, nor hide names. Constants and structures: linux/landlock.h.

The system call filter refuses, with EPERM, what neither mounts, namespaces nor Landlock do.
Constants and structures: linux/seccomp.h, linux/filter.h and the system call tables of x86_64 and
of all newer architectures (aarch64).
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct

# Set here and not imported: this runs before every sandboxed command.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG = 1
_RULE_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS, _PR_CAPBSET_DROP, _PR_CAP_AMBIENT, _CLEAR_ALL = 38, 24, 47, 4
_LAST_CAPABILITY = 63
_CAPABILITIES_VERSION_3 = 0x20080522

_READ_FILE = 1 << 2
_WRITES = (
    (1 << 1)  # WRITE_FILE
    | (1 << 4) | (1 << 5)  # REMOVE_DIR, REMOVE_FILE
    | (1 << 6) | (1 << 7) | (1 << 8) | (1 << 9) | (1 << 10) | (1 << 11) | (1 << 12)  # MAKE_*
)  # fmt: skip
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_FILE_ONLY = (1 << 1) | _READ_FILE | _TRUNCATE
_ABSTRACT_SOCKETS, _SIGNALS = 1 << 0, 1 << 1
SCOPES_FROM = 6
"""The version that can scope signals and abstract sockets (Linux 6.12)."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/tty")
"""Devices that everything writes to. Terminals other than the command's own stay closed."""


def available() -> int:
    """Return the kernel's Landlock version; 0 when it has none."""
    libc = ctypes.CDLL(None, use_errno=True)
    version = int(libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION_FLAG))
    return max(0, version)


def scope() -> bool:
    """Keep signals and abstract sockets of this process inside, and all it starts.

    Returns whether the kernel can. Raises OSError when it refuses.
    """
    version = available()
    if version >= SCOPES_FROM:
        _restrict(struct.pack("=QQQ", 0, 0, _ABSTRACT_SOCKETS | _SIGNALS), (), (), 0)
    return version >= SCOPES_FROM


def confine(writable: Sequence[str], readable: Sequence[str]) -> None:
    """Confine this process for good: write below `writable` only, read below `readable` too.

    Raises OSError when the kernel refuses; the caller must then not go on.
    """
    version = available()
    handled = _WRITES | _READ_FILE
    if version >= 2:
        handled |= _REFER
    if version >= 3:
        handled |= _TRUNCATE
    attributes = struct.pack("=QQ", handled, 0)[: 16 if version >= 4 else 8]
    _restrict(attributes, writable, readable, handled)


def drop_privileges() -> None:
    """Give up every capability for good, as bubblewrap does: root could make devices and reboot."""
    libc = ctypes.CDLL(None, use_errno=True)
    for number in range(_LAST_CAPABILITY + 1):
        libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)  # refused where there is nothing to drop
    libc.prctl(_PR_CAP_AMBIENT, _CLEAR_ALL, 0, 0, 0)
    header = struct.pack("=Ii", _CAPABILITIES_VERSION_3, 0)
    checked(libc.capset(header, struct.pack("=6I", 0, 0, 0, 0, 0, 0)))


def _restrict(
    attributes: bytes, writable: Sequence[str], readable: Sequence[str], handled: int
) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    checked(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    ruleset = checked(libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0))
    try:
        for path in readable:
            _allow(libc, ruleset, path, _READ_FILE)
        for path in writable:
            _allow(libc, ruleset, path, handled)
        checked(libc.syscall(_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, rights: int) -> None:
    """Add a rule for what is at `path`; nothing for a link, or for what is not there any more."""
    try:
        place = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        mode = os.fstat(place).st_mode
        if mode & 0o170000 != 0o040000:
            rights &= _FILE_ONLY
        if mode & 0o170000 != 0o120000:
            rule = struct.pack("=Qi", rights, place)
            checked(libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0))
    finally:
        os.close(place)


def checked(result: int) -> int:
    """Return what a call through ctypes gave. Raises OSError for an error."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050001
_LOAD, _EQUAL, _AT_LEAST, _AND, _GO, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x05, 0x06
_FIRST_X32_CALL = 0x40000000
_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""Name of the machine: its audit number, and the column of `_CALLS`."""

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
_SOCK_TYPES, _SOCK_STREAM, _SOCK_SEQPACKET = 0xF, 1, 5
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_SET_FLAGS = (0x40086602, 0x401C5820)
"""FS_IOC_SETFLAGS and FS_IOC_FSSETXATTR (linux/fs.h)."""

_NONE = 0xFFFFFFFF
"""The number of a call that an architecture does not have."""
_ATTRIBUTES = {
    "chmod": (90, _NONE), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, _NONE), "fchown": (93, 55), "lchown": (94, _NONE), "fchownat": (260, 54),
    "utime": (132, _NONE), "utimes": (235, _NONE), "futimesat": (261, _NONE),
    "utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "setxattrat": (463, 463), "removexattrat": (466, 466), "file_setattr": (469, 469),
}  # fmt: skip
"""Calls that give a file another mode, owner, time or attribute; numbers as in `_CALLS`."""
_CALLS = _ATTRIBUTES | {
    "socket": (41, 198), "socketpair": (53, 199), "ioctl": (16, 29), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "add_key": (248, 217),
    "request_key": (249, 218), "keyctl": (250, 219), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "ptrace": (101, 117),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "process_madvise": (440, 440), "pidfd_getfd": (438, 438), "kcmp": (312, 272),
    "move_pages": (279, 239), "migrate_pages": (256, 238), "kill": (62, 129), "tkill": (200, 130),
    "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424), "prlimit64": (302, 261), "setpriority": (141, 140),
    "ioprio_set": (251, 30), "sched_setparam": (142, 118), "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122), "sched_setattr": (314, 274),
}  # fmt: skip
"""Numbers of system calls, in the columns of `_ARCHITECTURES`."""
ALWAYS: Mapping[str, tuple[str, ...]] = {
    "opens and connects sockets without the calls that are looked at here": (
        "io_uring_setup", "io_uring_enter", "io_uring_register",
    ),
    "reaches the keys of the whole login session": ("add_key", "request_key", "keyctl"),
    "loads programs into the kernel or watches the whole machine": ("bpf", "perf_event_open"),
    "stops the kernel in the middle of its work, which helps attacks only": ("userfaultfd",),
}  # fmt: skip
"""Calls refused in every sandbox, by the reason."""
FOREIGN: Mapping[str, tuple[str, ...]] = {
    "reads or changes another process": (
        "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd",
        "kcmp", "move_pages", "migrate_pages",
    ),
}  # fmt: skip
"""Calls refused where the processes of the machine are visible."""
SIGNALS = (
    "kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal",
)  # fmt: skip
_OWN_ONLY = {
    "prlimit64": 0, "setpriority": 1, "ioprio_set": 1, "sched_setparam": 0,
    "sched_setscheduler": 0, "sched_setaffinity": 0, "sched_setattr": 0,
}  # fmt: skip
"""Calls that change the limits or the priority of the process in this argument; 0 is the caller."""


def load(
    families: Sequence[int], *, refused: Iterable[str] = (), foreign: bool, steady: bool = False
) -> None:
    """Load the filter into this process for good; raises OSError when the kernel refuses.

    Sockets may be opened of the given families only. Sockets of the machine's own programs
    (AF_UNIX) lead out of every sandbox (docker, tmux, an ssh agent) and no mount refuses the
    connection, so that family is never allowed; connected pairs are. `refused` are more calls to
    refuse; `foreign` is whether processes of the machine can be seen; with `steady` no file gets
    another mode, owner, time or attribute.
    """
    if AF_UNIX in families:
        raise ValueError("sockets of the machine's programs are never allowed")
    libc = ctypes.CDLL(None, use_errno=True)
    checked(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    machine = platform.machine()
    code = program(machine, families, refused=refused, foreign=foreign, steady=steady)
    buffer = ctypes.create_string_buffer(code)
    filter_program = struct.pack("@HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    checked(libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, filter_program, 0, 0))


def program(
    machine: str, families: Sequence[int], *, refused: Iterable[str] = (), foreign: bool,
    steady: bool = False,
) -> bytes:  # fmt: skip
    """Return the filter for this kind of machine; raises OSError for an unknown kind."""
    if machine not in _ARCHITECTURES:
        raise OSError(f"no system call filter is known for {machine}")
    architecture, column = _ARCHITECTURES[machine]
    names = [name for calls in ALWAYS.values() for name in calls]
    if foreign:
        names += [name for calls in FOREIGN.values() for name in calls]
    names += _ATTRIBUTES if steady else ()
    orders = (_TIOCSTI, _TIOCLINUX, *(_SET_FLAGS if steady else ()))
    lines = [
        _op(_LOAD, 0, 0, 4),
        # A 32-bit call has other numbers, so it would pass unseen; so would one of x32.
        _op(_EQUAL, 1, 0, architecture),
        _op(_RETURN, 0, 0, _REFUSE),
        _op(_LOAD, 0, 0, 0),
    ]
    if machine == "x86_64":
        lines += [_op(_AT_LEAST, 0, 1, _FIRST_X32_CALL), _op(_RETURN, 0, 0, _REFUSE)]
    for name in (*names, *refused):
        lines += [_op(_EQUAL, 0, 1, _CALLS[name][column]), _op(_RETURN, 0, 0, _REFUSE)]
    lines += _for_call(_CALLS["socket"][column], [_argument(0), *_one_of(families)])
    # A pair of datagram sockets may be pointed at any address later.
    pair = [_argument(1), _op(_AND, 0, 0, _SOCK_TYPES), *_one_of((_SOCK_STREAM, _SOCK_SEQPACKET))]
    lines += _for_call(_CALLS["socketpair"][column], pair)
    lines += _for_call(_CALLS["ioctl"][column], [_argument(1), *_none_of(orders)])
    if foreign:
        for name, argument in _OWN_ONLY.items():
            lines += _for_call(_CALLS[name][column], [_argument(argument), *_one_of((0,))])
    return b"".join((*lines, _op(_RETURN, 0, 0, _ALLOW)))


def _for_call(call: int, checks: list[bytes]) -> list[bytes]:
    """Decide `call` by `checks`, which end in a return; skip them for any other call."""
    return [_op(_EQUAL, 0, len(checks), call), *checks]


def _one_of(values: Sequence[int]) -> list[bytes]:
    """Allow the call when what is loaded is one of `values`, refuse it otherwise."""
    return [*_jumps(values), _op(_RETURN, 0, 0, _REFUSE), _op(_RETURN, 0, 0, _ALLOW)]


def _none_of(values: Sequence[int]) -> list[bytes]:
    return [*_jumps(values), _op(_RETURN, 0, 0, _ALLOW), _op(_RETURN, 0, 0, _REFUSE)]


def _jumps(values: Sequence[int]) -> list[bytes]:
    """Jump to the second line behind these when what is loaded is one of `values`."""
    count = len(values)
    return [_op(_EQUAL, count - index, 0, value) for index, value in enumerate(values)]


def _argument(number: int) -> bytes:
    """Load the lower half of an argument: the kernel looks at no more of these."""
    return _op(_LOAD, 0, 0, 16 + 8 * number)


def _op(code: int, jump_true: int, jump_false: int, value: int) -> bytes:
    return struct.pack("=HBBI", code, jump_true, jump_false, value)
