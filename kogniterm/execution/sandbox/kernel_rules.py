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
import stat
import struct

from kogniterm.execution.sandbox.reach import (
    DEVICES,
    folder_state,
    is_unchanged,
    readable_parts,
    within,
    writable_parts,
)
from kogniterm.host.kernel_calls import (
    LIBC,
    NEW_USER,
    check_result,
    keep_privileges_out,
)

# Set here and not imported: this runs before every sandboxed command.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from kogniterm.execution.sandbox.reach import States


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
_MOST_KEPT = 4
_KEPT: dict[tuple[str, bytes], tuple[States, int]] = {}
"""Rulesets by their rules and the machine's mounts, each with the folders that were listed."""


def available() -> int:
    """Return the kernel's Landlock version; 0 when it has none."""
    version = int(LIBC.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION_FLAG))
    return max(0, version)


def confine(rules: Mapping[str, Any], broker: socket.socket | None = None, files: int = 0) -> None:
    """Confine this process for good, as `rules` say, if any; raises OSError when it is refused.

    `families`: sockets that may be opened; local ones only with a `broker` (`local_sockets`).
    `foreign`: the machine's processes can be seen. `namespaces`: they keep the files; then
    `private` are the only folders that can be written, and all others cannot where the kernel can
    refuse it, or it is missing; none are made inside, which could mount. Without them Landlock
    keeps them, by `files`, what `ruleset_of` gives, and all devices but common ones.
    `steady`: no file may get another mode, owner, time or attribute, which Landlock itself does not
    refuse. `processes` are the most that may run at once, 0 for no limit.
    """
    if not rules:
        return
    if most := rules["processes"]:
        _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
    scopes = _ABSTRACT_SOCKETS | _SIGNALS if rules["foreign"] else 0
    devices = [*DEVICES, *([os.ttyname(0)] if os.isatty(0) else [])]
    keep_privileges_out()
    if not rules["namespaces"]:
        _restrict(files)
        # A second layer: the terminal differs from command to command. Other terminals and
        # keyboards give what the user types elsewhere, and disks all files.
        _restrict(_make(scopes, [*readable_parts("/", ["/dev"]), *devices]))
    elif available():
        private = rules.get("private")
        if private is not None:
            _restrict(_make(0, [*private, *devices], ["/"]))
        if scopes and available() >= SCOPES_FROM:
            _restrict(_make(scopes))
    _load(rules, broker)


def ruleset_of(rules: Mapping[str, Any]) -> int:
    """Return a ruleset that keeps files as `rules` say; 0 where namespaces do, or nothing does.

    `write`, `close`, `hide` and `show` are the folders that may be written, may not all the same,
    may not be read, and may be all the same; `private` is for temporary files, and `home` the
    user's home. Landlock knows no exceptions, so a folder with one is opened by its entries, and
    the ruleset is kept as long as those folders have the same entries, and the same mounts.
    Raises OSError when the kernel refuses.
    """
    if not rules or rules["namespaces"]:
        return 0
    names = ("write", "close", "hide", "show", "private", "home")
    with open("/proc/self/mountinfo", "rb") as file:  # noqa: PTH123 - no pathlib
        mounts = file.read()
    # A rule is for the folder that is there now, not for its name; a kept one keeps its number.
    places = [*rules["write"], *rules["show"], *rules["private"]]
    told = [rules[name] for name in names], [folder_state(place)[1:] for place in places]
    key = repr(told), mounts
    for old, (listed, ruleset) in list(_KEPT.items()):
        # Its rules hold deleted files, whose space is not free before.
        if old[1] != mounts or not all(is_unchanged(*one) for one in listed.items()):
            os.close(ruleset)
            del _KEPT[old]
    listed, ruleset = _KEPT.pop(key, ({}, 0))
    if not ruleset:
        hide, closed, home = rules["hide"], rules["close"], rules["home"]
        writable = list(rules["private"])
        for root in rules["write"]:
            writable += writable_parts(root, closed, home, listed=listed)
        readable = readable_parts("/", hide, listed)
        for place in rules["show"]:
            inner = [one for one in hide if not within(place, one)]
            readable += readable_parts(place, inner, listed)
        ruleset = _make(0, [*writable, "/dev"], readable)
    _KEPT[key] = listed, ruleset
    for old in list(_KEPT)[:-_MOST_KEPT]:
        os.close(_KEPT.pop(old)[1])
    return ruleset


def _restrict(ruleset: int) -> None:
    try:
        check_result(LIBC.syscall(_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)


def _make(scopes: int, writable: Sequence[str] = (), readable: Sequence[str] = ()) -> int:
    """Return a new ruleset: write below `writable` only, read below `readable` too.

    Without both it keeps no files. `scopes` are left out where the kernel has none.
    """
    version = available()
    handled = _WRITES | _READ_FILE
    if version >= 2:
        handled |= _REFER
    if version >= 3:
        handled |= _TRUNCATE
    if not writable:
        handled = 0
    size = 8 if version < 4 else 16 if version < SCOPES_FROM else 24
    attributes = struct.pack("=QQQ", handled, 0, scopes)[:size]
    ruleset = check_result(LIBC.syscall(_CREATE_RULESET, attributes, size, 0))
    try:
        for path in readable:
            _allow(ruleset, path, _READ_FILE)
        for path in writable:
            _allow(ruleset, path, handled)
    except OSError:
        os.close(ruleset)
        raise
    return ruleset


def _allow(ruleset: int, path: str, rights: int) -> None:
    """Add a rule for what is at `path`; nothing for a link, or for what is not there any more."""
    try:
        place = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            raise
        return
    try:
        kind = stat.S_IFMT(os.fstat(place).st_mode)
        if kind != stat.S_IFDIR:
            rights &= _FILE_ONLY
        if kind != stat.S_IFLNK:
            rule = struct.pack("=Qi", rights, place)
            check_result(LIBC.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0))
    finally:
        os.close(place)


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
