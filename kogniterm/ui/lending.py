"""Lends the terminal to somebody else's thread: the screen rests until it comes back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

PATIENCE_SECONDS = 10.0
"""How long a thread waits for the loop. A loop that is gone must not hold a command for ever."""


class Lending:
    """`suspend` and `resume` may be called from any thread but the loop's own.

    `still` is what keeps the screen quiet: an async context manager made anew each time.
    `late` takes the keys that were typed when nothing read them any more.
    """

    def __init__(
        self,
        still: Callable[[], AbstractAsyncContextManager[None]],
        late: Callable[[bytes], None],
    ) -> None:
        self._still = still
        self._late = late
        self._loop = asyncio.get_running_loop()
        self._back: asyncio.Event | None = None
        self._task: asyncio.Task[None] | None = None

    def suspend(self) -> None:
        """Returns when the screen rests. Harmless when it does already."""
        rests = threading.Event()
        self._loop.call_soon_threadsafe(self._begin, rests)
        rests.wait(PATIENCE_SECONDS)

    def resume(self) -> None:
        """Returns when the screen is drawn again. Harmless when it is."""
        drawn = threading.Event()
        self._loop.call_soon_threadsafe(self._end, drawn)
        drawn.wait(PATIENCE_SECONDS)

    def typed(self, keys: bytes) -> None:
        """Keys that came too late for the command."""
        self._loop.call_soon_threadsafe(self._late, keys)

    def _begin(self, rests: threading.Event) -> None:
        if self._task is None:
            self._back = asyncio.Event()
            self._task = self._loop.create_task(self._rest(rests, self._back))
        else:
            rests.set()

    async def _rest(self, rests: threading.Event, back: asyncio.Event) -> None:
        try:
            async with self._still():
                rests.set()
                await back.wait()
        finally:
            rests.set()

    def _end(self, drawn: threading.Event) -> None:
        task, self._task = self._task, None
        if task is None or self._back is None:
            drawn.set()
            return
        self._back.set()
        task.add_done_callback(lambda _task: drawn.set())
