"""The messages of one client on standard input and output, as the SDK takes them.

The SDK's own stream ends with the first line that is no JSON object, and has no bound for one.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

log = logging.getLogger(__name__)

MAX_LINE = 64 * 1024 * 1024
"""Bytes of one message; a longer one ends the connection. Images come in base64."""
_PARSE_ERROR, _INVALID_REQUEST = -32700, -32600


class MessageStream:
    """Reads and writes a JSON object a line; what is no message is answered with an error."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._writing = asyncio.Lock()
        self._gone = asyncio.Event()

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message; None when the client is gone."""
        while True:
            line = await self._line()
            if line is None:
                return None
            if not line.strip():
                continue
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                await self._refuse(None, _PARSE_ERROR, "Parse error")
                continue
            if _is_message(message):
                return dict(message)
            asked = message.get("id") if isinstance(message, dict) else None
            known = asked if isinstance(asked, str | int) else None
            await self._refuse(known, _INVALID_REQUEST, "Invalid request")

    async def send(self, message: dict[str, Any]) -> None:
        """Write a message. Raises `ConnectionError` when the client is gone."""
        data = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        async with self._writing:
            if self._gone.is_set():
                raise ConnectionError("the client is gone")
            try:
                self._writer.write(data)
                await self._writer.drain()
            except OSError as error:
                self._gone.set()
                raise ConnectionError("the client is gone") from error

    async def close(self) -> None:
        """Read and write nothing more."""
        self._gone.set()

    async def _line(self) -> bytes | None:
        reading = asyncio.ensure_future(self._reader.readline())
        gone = asyncio.ensure_future(self._gone.wait())
        try:
            await asyncio.wait({reading, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                return None
            return reading.result() or None
        except (ValueError, OSError) as error:
            log.warning("a message of the client could not be read: %s", error)
            return None
        finally:
            reading.cancel()
            gone.cancel()

    async def _refuse(self, asked: str | int | None, code: int, why: str) -> None:
        try:
            await self.send(
                {"jsonrpc": "2.0", "id": asked, "error": {"code": code, "message": why}}
            )
        except ConnectionError:
            log.info("the client left before it was answered")


def _is_message(message: object) -> bool:
    """Return whether the SDK can take `message`: a request, a notification or a response."""
    if not isinstance(message, dict) or not isinstance(message.get("id"), str | int | None):
        return False
    if "method" in message:
        return isinstance(message["method"], str)
    return "id" in message and isinstance(message.get("error"), dict | None)
