"""Messages between the executor and its supervisor: length-prefixed JSON with descriptors."""

from __future__ import annotations

import array
import json
import socket

# Set here and not imported: the supervisor starts in half the time without `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LENGTH = 4
MOST_FDS = 253
"""What the kernel lets one message carry (unix(7), SCM_MAX_FD)."""


def send(channel: socket.socket, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
    """Send `message`, and `fds` with its first byte; raises OSError when the peer is gone."""
    body = json.dumps(message).encode("ascii")
    data = len(body).to_bytes(_LENGTH, "big") + body
    sent = 0
    if fds:
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))
        sent = channel.sendmsg([data], [rights])
    # The peer may have read it all and gone: not even nothing can be sent then.
    if sent < len(data):
        channel.sendall(data[sent:])


def receive(channel: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Wait for one message with its descriptors; None when the peer has closed."""
    fds: list[int] = []
    head = _read(channel, _LENGTH, fds)
    if head is None:
        return None
    body = _read(channel, int.from_bytes(head, "big"), fds)
    if body is None:
        return None
    message: dict[str, Any] = json.loads(body)
    return message, fds


def _read(channel: socket.socket, size: int, fds: list[int]) -> bytes | None:
    parts: list[bytes] = []
    while size:
        data, ancillary, _flags, _address = channel.recvmsg(
            min(size, 1 << 20), socket.CMSG_SPACE(MOST_FDS * 4), socket.MSG_CMSG_CLOEXEC
        )
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                received = array.array("i")
                received.frombytes(payload[: len(payload) - len(payload) % received.itemsize])
                fds.extend(received)
        if not data:
            return None
        parts.append(data)
        size -= len(data)
    return b"".join(parts)
