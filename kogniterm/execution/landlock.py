"""Landlock and seccomp through ctypes: a sandbox without any dependency (Linux, unprivileged).

Applied in a process of its own before the command is executed, and inherited by everything it
starts. Covers writes below everything but the given folders, TCP and UDP sockets, and input
pushed into the terminal. Does not cover reads, processes, or abstract unix sockets. Constants
and structures: linux/landlock.h, linux/seccomp.h, linux/filter.h (kernel headers).
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Sequence

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG = 1
_RULE_PATH_BENEATH = 1
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2

_WRITES = (
    (1 << 1)  # WRITE_FILE
    | (1 << 4) | (1 << 5)  # REMOVE_DIR, REMOVE_FILE
    | (1 << 6) | (1 << 7) | (1 << 8) | (1 << 9) | (1 << 10) | (1 << 11) | (1 << 12)  # MAKE_*
)  # fmt: skip
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_FILE_ONLY = (1 << 1) | _TRUNCATE
_NET_BIND, _NET_CONNECT = 1 << 0, 1 << 1
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/ptmx", "/dev/pts")

_ARCHITECTURES = {
    # audit architecture, socket, ioctl, io_uring_setup
    "x86_64": (0xC000003E, 41, 16, 425),
    "aarch64": (0xC00000B7, 198, 29, 425),
}
_AF_INET, _AF_INET6, _AF_PACKET, _AF_VSOCK = 2, 10, 17, 40
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050001  # the latter returns EPERM
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06


def restrict(writable: Sequence[str], *, network: bool) -> None:
    """Confine this process for good: writes below `writable` only, no sockets unless `network`.

    Raises OSError when the kernel refuses; the caller must then not go on.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    _check(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _restrict_files(libc, writable)
    _restrict_calls(libc, network)


def available() -> int:
    """The kernel's Landlock version; 0 when it has none."""
    libc = ctypes.CDLL(None, use_errno=True)
    version = int(libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION_FLAG))
    return max(0, version)


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def _restrict_files(libc: ctypes.CDLL, writable: Sequence[str]) -> None:
    version = available()
    handled = _WRITES
    if version >= 2:
        handled |= _REFER
    if version >= 3:
        handled |= _TRUNCATE
    attributes = struct.pack("=QQ", handled, 0)[: 16 if version >= 4 else 8]
    ruleset = _check(libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0))
    try:
        for path in (*writable, *_DEVICES):
            _allow(libc, ruleset, path, handled)
        _check(libc.syscall(_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, handled: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        rights = handled if os.path.isdir(path) else handled & _FILE_ONLY  # noqa: PTH112 - one stat
        rule = struct.pack("=Qi", rights, place)
        _check(libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0))
    finally:
        os.close(place)


def _restrict_calls(libc: ctypes.CDLL, network: bool) -> None:
    """A seccomp filter: Landlock knows no UDP, and TIOCSTI types into the person's shell."""
    known = _ARCHITECTURES.get(platform.machine())
    if known is None:
        raise OSError("no system call filter is known for this kind of machine")
    architecture, socket_call, ioctl_call, uring_call = known
    program = [
        _op(_LOAD, 0, 0, 4),
        _op(_EQUAL, 1, 0, architecture),
        _op(_RETURN, 0, 0, _REFUSE),
        _op(_LOAD, 0, 0, 0),
    ]
    program += _refuse_arguments(ioctl_call, 1, (_TIOCSTI, _TIOCLINUX))
    if not network:
        program += _refuse_arguments(socket_call, 0, (_AF_INET, _AF_INET6, _AF_PACKET, _AF_VSOCK))
        # io_uring opens sockets without the socket call.
        program += [_op(_EQUAL, 0, 1, uring_call), _op(_RETURN, 0, 0, _REFUSE)]
    program.append(_op(_RETURN, 0, 0, _ALLOW))
    code = ctypes.create_string_buffer(b"".join(program))
    filter_program = struct.pack("@HxxxxxxP", len(program), ctypes.addressof(code))
    _check(libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, filter_program, 0, 0))


def _refuse_arguments(call: int, argument: int, values: Sequence[int]) -> list[bytes]:
    """If this is `call` and its argument is one of `values`: refuse; else reload and go on."""
    checks = [_op(_LOAD, 0, 0, 16 + 8 * argument)]
    for index, value in enumerate(values):
        checks.append(_op(_EQUAL, len(values) - index, 0, value))
    checks.append(_op(0x05, 0, 0, 1))
    checks.append(_op(_RETURN, 0, 0, _REFUSE))
    return [_op(_EQUAL, 0, len(checks), call), *checks, _op(_LOAD, 0, 0, 0)]


def _op(code: int, jump_true: int, jump_false: int, value: int) -> bytes:
    return struct.pack("=HBBI", code, jump_true, jump_false, value)
