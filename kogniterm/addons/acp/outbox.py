"""The updates that a client still has to get of one session, in order, while the turn goes on."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from acp.schema import (
    AgentMessageChunk,
    AgentPlanUpdate,
    AgentThoughtChunk,
    AvailableCommandsUpdate,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    SessionInfoUpdate,
    ToolCallProgress,
    ToolCallStart,
    UsageUpdate,
    UserMessageChunk,
)

Update: TypeAlias = (
    UserMessageChunk
    | AgentMessageChunk
    | AgentThoughtChunk
    | ToolCallStart
    | ToolCallProgress
    | AgentPlanUpdate
    | AvailableCommandsUpdate
    | ConfigOptionUpdate
    | CurrentModeUpdate
    | SessionInfoUpdate
    | UsageUpdate
)
Make = Callable[[], Update | None]
"""Makes an update when its turn has come; None when there is nothing to send any more."""

_LONG = 8_000
"""Characters of a text that is looked through for secrets with every piece."""


class Outbox:
    """Sends updates one after the other, from its release on."""

    def __init__(self, send: Callable[[Update], Awaitable[None]]) -> None:
        self._send = send
        self._queue: deque[tuple[str, Make]] = deque()
        self._ready, self._idle = asyncio.Event(), asyncio.Event()
        self._idle.set()
        self._released = False
        self._task = asyncio.ensure_future(self._pump())

    def put(self, update: Update) -> None:
        """Send `update` after everything before it."""
        self.put_late("", lambda: update)

    def put_late(self, key: str, make: Make) -> None:
        """Send what `make` returns then; once only, while the last one waiting has the same key."""
        if key and self._queue and self._queue[-1][0] == key:
            return
        self._queue.append((key, make))
        self._idle.clear()
        if self._released:
            self._ready.set()

    def release(self) -> None:
        """Begin to send: the client knows the session."""
        self._released = True
        if self._queue:
            self._ready.set()

    async def flush(self) -> None:
        """Wait until everything was sent."""
        await self._idle.wait()

    def close(self) -> None:
        """Send nothing more."""
        self._queue.clear()
        self._idle.set()
        self._task.cancel()

    async def _pump(self) -> None:
        while True:
            await self._ready.wait()
            while self._queue:
                update = self._queue.popleft()[1]()
                try:
                    if update is not None:
                        await self._send(update)
                except ConnectionError:
                    self._queue.clear()
            self._ready.clear()
            self._idle.set()


class TextStream:
    """A text of the model as it streams: whole words, redacted, nothing twice.

    A secret is cut in any place by the pieces that come, so the whole text is redacted anew.
    """

    def __init__(self, redact: Callable[[str], str]) -> None:
        self.redact = redact
        self._raw: str = ""
        self._sent: str = ""

    def feed(self, text: str) -> None:
        """Take another piece."""
        self._raw += text

    def take(self) -> str:
        """Return what is new up to the last blank."""
        return self._new(max(self._raw.rfind(" "), self._raw.rfind("\n")) + 1)

    def rest(self) -> str:
        """Return everything that is new."""
        return self._new(len(self._raw))

    def _new(self, end: int) -> str:
        shown = self.redact(self._raw[:end])
        if not shown.startswith(self._sent):
            if end < len(self._raw):
                return ""  # a redaction reaches back; what follows it is told at the end
            self._sent = _common(self._sent, shown)
        new, self._sent = shown[len(self._sent) :], shown
        if end == len(self._raw) or end > _LONG:
            self._raw, self._sent = self._raw[end:], ""
        return new


def _common(one: str, other: str) -> str:
    """Return the beginning that both texts have."""
    length = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
    return one[: length if length is not None else min(len(one), len(other))]
