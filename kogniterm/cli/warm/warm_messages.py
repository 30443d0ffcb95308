"""The messages between a client, its keeper and its session: lists of byte strings.

Each is one packet of a Unix socket (SOCK_SEQPACKET), so it arrives whole or not at all.
"""

from __future__ import annotations

import _socket
from array import array

TYPE_CHECKING = False  # `typing` takes longer than all else here
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LARGEST = 200_000
"""Most bytes of a message. A start with a larger environment is a plain one."""
MOST_DESCRIPTORS = 128

GO = 0
"""The client's word that the session may begin; its other bytes are numbers of signals."""
HELLO = ord("h")
"""The keeper's first word. Descriptors are sent only to a keeper that is there to take them: in the
queue of a server that hangs, they would keep the reader of a pipe waiting."""
READY, REFUSED = ord("+"), ord("-")
STOPPED, EXITED, KILLED = ord("T"), ord("E"), ord("K")
"""Words of the keeper: a letter, and the number of the signal or the exit status."""


class GarbledError(ValueError):
    """A message that is not in this form."""


def packed(parts: Iterable[bytes]) -> bytes:
    """Return the byte strings as one."""
    return b"".join(b"%d:%b" % (len(part), part) for part in parts)


def unpacked(data: bytes) -> list[bytes]:
    """Return the byte strings that `packed` joined. Raises `GarbledError`."""
    parts, at = [], 0
    while at < len(data):
        colon = data.find(b":", at, at + 12)
        digits = data[at:colon] if colon > at else b""
        if not digits.isdigit():
            raise GarbledError
        end = colon + 1 + int(digits)
        if end > len(data):
            raise GarbledError
        parts.append(data[colon + 1 : end])
        at = end
    return parts


def send(connection: _socket.socket, data: bytes, descriptors: Sequence[int] = ()) -> None:
    """Send one message with descriptors. Raises `OSError`."""
    rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array("i", descriptors))
    connection.sendmsg([data], [rights] if descriptors else [])


def receive(connection: _socket.socket) -> tuple[bytes, list[int]]:
    """Return the next message and its descriptors, which no program inherits; b"" at the end.

    Raises `OSError`, and `GarbledError` for one that was cut.
    """
    numbers = array("i")
    space = _socket.CMSG_SPACE(MOST_DESCRIPTORS * numbers.itemsize)
    data, extra, flags, _address = connection.recvmsg(LARGEST + 1, space, _socket.MSG_CMSG_CLOEXEC)
    for level, kind, payload in extra:
        if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
            numbers.frombytes(payload[: len(payload) - len(payload) % numbers.itemsize])
    if flags & (_socket.MSG_TRUNC | _socket.MSG_CTRUNC):
        raise GarbledError
    return data, list(numbers)


def peer(connection: _socket.socket) -> tuple[int, int]:
    """Return the process and the user at the other end, as the kernel noted them."""
    numbers = array("i")
    size = 3 * numbers.itemsize
    numbers.frombytes(connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, size))
    return numbers[0], numbers[1]
