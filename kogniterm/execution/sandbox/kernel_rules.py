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

import contextlib
import ctypes
import errno
import os
import resource
import socket
import struct

from kogniterm.execution.sandbox.reach import readable_parts, writable_parts
from kogniterm.host.kernel_calls import (
    LIBC,
    NEW_USER,
    check_result,
    closing_descriptor,
    keep_privileges_out,
)

# Set here and not imported: this runs before every sandboxed command.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any


_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG = 1
_RULE_PATH_BENEATH = 1

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
    version = int(LIBC.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION_FLAG))
    return max(0, version)


_CLOSED_DEVICES = ("/dev/pts", "/dev/input")
"""Other terminals and keyboards: reading them would take what the user types elsewhere."""


def confine(rules: Mapping[str, Any], broker: socket.socket | None = None) -> None:
    """Confine this process for good, as `rules` say, if any; raises OSError when it is refused.

    `families`: sockets that may be opened; local ones only with a `broker` (`local_sockets`).
    `foreign`: the machine's processes can be seen. `namespaces`: they keep the files; then
    `private` are the only folders that can be written, and all others cannot where the kernel can
    refuse it, or it is missing; none are made inside, which could mount. Without them Landlock
    keeps the files: `write`, `close`, `hide` and `show` are the folders that may be written, may
    not all the same, may not be read, and may be all the same, and `home` is the user's home.
    `steady`: no file may get another mode, owner, time or attribute, which Landlock itself does not
    refuse. `processes` are the most that may run at once, 0 for no limit.
    """
    if not rules:
        return
    if most := rules["processes"]:
        _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
    private = rules.get("private")
    own = [os.ttyname(0)] if os.isatty(0) else []
    if not rules["namespaces"]:
        closed, home = rules["close"], rules["home"]
        parts = [part for root in rules["write"] for part in writable_parts(root, closed, home)]
        readable = readable_parts("/", (*rules["hide"], *_CLOSED_DEVICES))
        keep_files([*parts, *rules["private"], *DEVICES, *own], [*readable, *rules["show"]])
    elif private is not None and available():
        keep_files([*private, *DEVICES, *own], ["/"])
    if rules["foreign"]:
        scope()
    _load(rules, broker)


def scope() -> bool:
    """Keep signals and abstract sockets of this process inside, and all it starts.

    Returns whether the kernel can. Raises OSError when it refuses.
    """
    version = available()
    if version >= SCOPES_FROM:
        _restrict(struct.pack("=QQQ", 0, 0, _ABSTRACT_SOCKETS | _SIGNALS), (), (), 0)
    return version >= SCOPES_FROM


def keep_files(writable: Sequence[str], readable: Sequence[str]) -> None:
    """Keep this process's files for good: write below `writable` only, read below `readable` too.

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


def _restrict(
    attributes: bytes, writable: Sequence[str], readable: Sequence[str], handled: int
) -> None:
    keep_privileges_out()
    with closing_descriptor(
        check_result(LIBC.syscall(_CREATE_RULESET, attributes, len(attributes), 0))
    ) as ruleset:
        for path in readable:
            _allow(ruleset, path, _READ_FILE)
        for path in writable:
            _allow(ruleset, path, handled)
        check_result(LIBC.syscall(_RESTRICT_SELF, ruleset, 0))


def _allow(ruleset: int, path: str, rights: int) -> None:
    """Add a rule for what is at `path`; nothing for a link, or for what is not there any more."""
    try:
        found = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    with closing_descriptor(found) as place:
        mode = os.fstat(place).st_mode
        if mode & 0o170000 != 0o040000:
            rights &= _FILE_ONLY
        if mode & 0o170000 != 0o120000:
            rule = struct.pack("=Qi", rights, place)
            check_result(LIBC.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0))


_SET_FILTER, _NEW_LISTENER, _WAIT_KILLABLE = 1, 8, 32
_ALLOW, _REFUSE, _NO_SUCH_CALL = 0x7FFF0000, 0x00050001, 0x00050000 | errno.ENOSYS
_ASK = 0x7FC00000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
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
    "socket": (41, 198), "connect": (42, 203), "socketpair": (53, 199), "seccomp": (317, 277),
    "ioctl": (16, 29), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "add_key": (248, 217), "request_key": (249, 218),
    "keyctl": (250, 219), "bpf": (321, 280), "perf_event_open": (298, 241),
    "userfaultfd": (323, 282), "clone": (56, 220), "clone3": (435, 435), "unshare": (272, 97),
    "prlimit64": (302, 261), "setpriority": (141, 140), "ioprio_set": (251, 30),
    "sched_setparam": (142, 118), "sched_setscheduler": (144, 119),
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
_OWN_ONLY = {
    "prlimit64": 0, "setpriority": 1, "ioprio_set": 1, "sched_setparam": 0,
    "sched_setscheduler": 0, "sched_setaffinity": 0, "sched_setattr": 0,
}  # fmt: skip
"""Calls that change the limits or the priority of the process in this argument; 0 is the caller."""


def _load(rules: Mapping[str, Any], broker: socket.socket | None) -> None:
    """Load the filter into this process for good; raises OSError when the kernel refuses.

    Local sockets (AF_UNIX) lead out of every sandbox (docker, tmux, an ssh agent), and no mount
    refuses the connection, so they need a broker that makes each one. Without it, or where the
    kernel has no such filter (Linux 5.19), or this process has one already, they are refused;
    connected pairs are allowed.
    """
    keep_privileges_out()
    others = [family for family in rules["families"] if family != AF_UNIX]
    listener = -1
    if broker is not None and AF_UNIX in rules["families"]:
        with contextlib.suppress(OSError):
            listener = _install(rules, _NEW_LISTENER | _WAIT_KILLABLE)
    if broker is None or listener < 0:
        _install({**rules, "families": others}, 0)
    else:
        socket.send_fds(broker, [b"\0"], [listener])
        os.close(listener)


def _install(rules: Mapping[str, Any], flags: int) -> int:
    machine = os.uname().machine
    if machine not in _ARCHITECTURES:
        raise OSError(f"no system call filter is known for {machine}")
    architecture, column = _ARCHITECTURES[machine]
    code = _program(rules, architecture, column)
    buffer = ctypes.create_string_buffer(code)
    program = struct.pack("@HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    return check_result(LIBC.syscall(_CALLS["seccomp"][column], _SET_FILTER, flags, program))


def _program(rules: Mapping[str, Any], architecture: int, column: int) -> bytes:
    families, steady = rules["families"], rules.get("steady", False)
    names = [name for calls in ALWAYS.values() for name in calls]
    names += _ATTRIBUTES if steady else ()
    streams = [_op(_AND, 0, 0, _SOCK_TYPES), *_one_of((_SOCK_STREAM, _SOCK_SEQPACKET))]
    orders = (_TIOCSTI, _TIOCLINUX, *(_SET_FLAGS if steady else ()))
    lines = [
        _op(_LOAD, 0, 0, 4),
        # A 32-bit call has other numbers, so it would pass unseen; so would one of x32.
        _op(_EQUAL, 1, 0, architecture),
        _op(_RETURN, 0, 0, _REFUSE),
        _op(_LOAD, 0, 0, 0),
    ]
    if column == 0:
        lines += [_op(_AT_LEAST, 0, 1, _FIRST_X32_CALL), _op(_RETURN, 0, 0, _REFUSE)]
    for name in names:
        lines += [_op(_EQUAL, 0, 1, _CALLS[name][column]), _op(_RETURN, 0, 0, _REFUSE)]
    # Datagrams may be sent to any address, also by one of a pair.
    local = _for_call(AF_UNIX, [_argument(1), *streams]) if AF_UNIX in families else []
    others = [family for family in families if family != AF_UNIX]
    lines += _for_call(_CALLS["socket"][column], [_argument(0), *local, *_one_of(others)])
    lines += _for_call(_CALLS["socketpair"][column], [_argument(1), *streams])
    if local:
        lines += _for_call(_CALLS["connect"][column], [_op(_RETURN, 0, 0, _ASK)])
    lines += _for_call(_CALLS["ioctl"][column], [_argument(1), *_none_of(orders)])
    # Without the machine's processes, the first one of the sandbox is still everybody's.
    for name, argument in (_OWN_ONLY if rules["foreign"] else {"prlimit64": 0}).items():
        lines += _for_call(_CALLS[name][column], [_argument(argument), *_one_of((0,))])
    if rules["namespaces"]:
        for name in ("clone", "unshare"):
            lines += _for_call(_CALLS[name][column], [_argument(0), *_without(NEW_USER)])
        # Its flags are in memory, where no filter looks; the C library then uses clone.
        lines += [_op(_EQUAL, 0, 1, _CALLS["clone3"][column]), _op(_RETURN, 0, 0, _NO_SUCH_CALL)]
    return b"".join((*lines, _op(_RETURN, 0, 0, _ALLOW)))


def _for_call(call: int, checks: list[bytes]) -> list[bytes]:
    """Decide `call`, or a value, by `checks`, which end in a return; skip them for any other."""
    return [_op(_EQUAL, 0, len(checks), call), *checks]


def _one_of(values: Sequence[int]) -> list[bytes]:
    """Allow the call when what is loaded is one of `values`, refuse it otherwise."""
    return [*_jumps(values), _op(_RETURN, 0, 0, _REFUSE), _op(_RETURN, 0, 0, _ALLOW)]


def _none_of(values: Sequence[int]) -> list[bytes]:
    return [*_jumps(values), _op(_RETURN, 0, 0, _ALLOW), _op(_RETURN, 0, 0, _REFUSE)]


def _without(bit: int) -> list[bytes]:
    """Allow the call unless what is loaded has this bit."""
    return [_op(_ANY_BIT, 0, 1, bit), _op(_RETURN, 0, 0, _REFUSE), _op(_RETURN, 0, 0, _ALLOW)]


def _jumps(values: Sequence[int]) -> list[bytes]:
    """Jump to the second line behind these when what is loaded is one of `values`."""
    count = len(values)
    return [_op(_EQUAL, count - index, 0, value) for index, value in enumerate(values)]


def _argument(number: int) -> bytes:
    """Load the lower half of an argument: the kernel looks at no more of these."""
    return _op(_LOAD, 0, 0, 16 + 8 * number)


def _op(code: int, jump_true: int, jump_false: int, value: int) -> bytes:
    return struct.pack("=HBBI", code, jump_true, jump_false, value)
