"""Landlock through ctypes: restrictions without any dependency (Linux, unprivileged).

Applied in a process of its own before the command is executed, and inherited by everything it
starts. Refuses writes outside the given folders, reading what is hidden, and, where the kernel can
(Linux 6.12), signals to processes outside and connections to their abstract sockets. It cannot
refuse chmod, chown and utime, nor hide names. Constants and structures: linux/landlock.h.
"""

from __future__ import annotations

import ctypes
import os
import struct

# Set here and not imported: this runs before every sandboxed command.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

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
