"""MCP over the pipes of a local server: a JSON message a line, within bounds.

The SDK's own transport starts the process itself, reads lines of any length and decodes strictly.
Here the runtime starts it, in the sandbox; a line that is too long or not JSON ends the connection
with a reason.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol

from kogniterm.text.redact import redact
from kogniterm.text.shorten import one_line
from kogniterm.text.visible import clean
from kogniterm.tools.mcp.server_values import leave_out_invalid
from kogniterm.types import Phrase

MAX_MESSAGE = 16 * 1024 * 1024
"""Bytes of one message; a longer one ends the connection."""
MAX_NOISE = 200
"""Lines that are no messages (banners of `npx`, forgotten prints) before a server is given up."""
ENDED = Phrase("it ended")
_COMPLAINT = 400


class ServerPipes(Protocol):
    """A running server, as the transport uses it."""

    async def read(self) -> bytes:
        """Return the next piece of its output; empty at its end."""

    async def write(self, data: bytes) -> None:
        """Write to its input. Raises OSError when it is gone."""

    async def end(self) -> None:
        """End it with all that it started."""

    @property
    def complaints(self) -> bytes:
        """Return the end of what it wrote to its standard error."""

    @property
    def confined(self) -> Phrase | None:
        """Return how its `{reason}` for not working is said with its bounds, if it has any."""


class PipeProblem:
    """The reason why a connection over pipes ended, once it has; `ended` is set then."""

    def __init__(self, ended: asyncio.Event) -> None:
        self.text: Phrase | None = None
        self.ended = ended
        self.pipes: ServerPipes | None = None

    def after(self, reason: Phrase) -> Phrase:
        """Return `reason` with the server's bounds and the last lines of its standard error."""
        if self.pipes is not None and (bounds := self.pipes.confined) is not None:
            reason = Phrase(bounds.template, {"reason": reason})
        told = show_complaint(self.pipes.complaints) if self.pipes is not None else ""
        values = {"reason": reason, "lines": told}
        return Phrase("{reason}; its last lines: {lines}", values) if told else reason


@asynccontextmanager
async def over_pipes(pipes: ServerPipes, problem: PipeProblem) -> AsyncGenerator[Any]:
    """Yield the streams that the SDK reads and writes; `problem` tells why they ended."""
    import anyio
    from mcp.shared.message import SessionMessage

    problem.pipes = pipes
    incoming, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    sent, outgoing = anyio.create_memory_object_stream[SessionMessage](0)

    async def read() -> None:
        async with incoming:
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                async for message in _messages(pipes, problem):
                    await incoming.send(message)
        problem.ended.set()
        # What is left in the pipe would keep the end of the process from being seen.
        while await pipes.read():
            pass

    async def write() -> None:
        async with outgoing:
            async for message in outgoing:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    await pipes.write(text.encode() + b"\n")
                except OSError:
                    # The session sees the end of the connection, and no request waits forever.
                    await incoming.aclose()
                    return

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        tasks.start_soon(write)
        try:
            yield received, sent
        finally:
            with anyio.CancelScope(shield=True):
                await pipes.end()
            for stream in (received, sent):
                stream.close()
            tasks.cancel_scope.cancel()


_HALVES = re.compile(rb"(\\\\|\\u[dD][89abAB]..\\u[dD][c-fC-F]..)|\\u[dD][89a-fA-F]..", re.DOTALL)
"""Finds halves of characters among the escapes of JSON: JavaScript cuts texts between them."""


async def _messages(pipes: ServerPipes, problem: PipeProblem) -> AsyncGenerator[Any]:
    from mcp.shared.message import SessionMessage
    from mcp_types.jsonrpc import jsonrpc_message_adapter

    noise = 0
    async for line in _lines(pipes, problem):
        try:
            whole = _HALVES.sub(lambda found: found[1] or b"\\ufffd", line)
            message = jsonrpc_message_adapter.validate_json(whole, by_name=False)
            leave_out_invalid(getattr(message, "result", None))
            yield SessionMessage(message)
        except ValueError:
            noise += 1
            if noise > MAX_NOISE or (line[:1] == b"{" and b'"jsonrpc"' in line):
                wrote = Phrase(
                    "it wrote what is no MCP message: {line}", {"line": show_complaint(line)}
                )
                problem.text = wrote
                return


async def _lines(pipes: ServerPipes, problem: PipeProblem) -> AsyncGenerator[bytes]:
    buffer = bytearray()
    searched = 0
    while piece := await pipes.read():
        buffer += piece
        while (end := buffer.find(b"\n", searched)) >= 0:
            line, searched = bytes(buffer[:end]).strip(), 0
            del buffer[: end + 1]
            if line:
                yield line
        searched = len(buffer)
        if searched > MAX_MESSAGE:
            large = {"size": MAX_MESSAGE // 1024**2}
            problem.text = Phrase("it wrote a message of more than {size} MB", large)
            return
    problem.text = problem.after(ENDED)


def show_complaint(data: bytes) -> str:
    """Return the end of what a server wrote, as one harmless line."""
    text = clean(data.decode("utf-8", "replace")).strip()
    return one_line(redact(text)[-_COMPLAINT:], _COMPLAINT)
