"""The queue of inputs of the REPL, one of them running as a task on the loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple

from kogniterm.errors import StorageError

if TYPE_CHECKING:
    from kogniterm.runtime.session import LiveSession
    from kogniterm.types import UserInput

DRAFT_SECONDS = 2.0
"""Seconds for which the draft on the disk may be out of date."""


class Drafts:
    """Keeps the line of the open session; `line` says what stands on it."""

    def __init__(self, session: Callable[[], LiveSession | None], line: Callable[[], str]) -> None:
        self._session = session
        self._line = line
        self._kept = ""
        self._left = False
        self._task: asyncio.Future[None] | None = None

    def begin(self) -> None:
        """Keep what is typed from now on."""
        self._task = asyncio.ensure_future(self._again_and_again())

    def end(self) -> None:
        """Keep nothing more."""
        if self._task is not None:
            self._task.cancel()

    def leave(self) -> None:
        """Keep no line: another session is about to be opened, and what is typed belongs to that.

        Kept for this one too, it would come back when this one is resumed.
        """
        self.keep("")
        self._left = True

    def take_draft(self, text: str) -> None:
        """Take note of the draft that the opened session holds."""
        self._kept = text
        self._left = False

    def keep(self, text: str | None = None) -> None:
        """Keep `text`, or what stands on the line. What cannot be kept is worth no error."""
        if text is None:
            if self._left:
                return
            text = self._line()
        session = self._session()
        if session is not None and text != self._kept:
            with contextlib.suppress(StorageError):
                session.keep_draft(text)
                self._kept = text

    async def _again_and_again(self) -> None:
        while True:
            await asyncio.sleep(DRAFT_SECONDS)
            self.keep()


class Work(NamedTuple):
    """One entry of the queue: an input, or a command of the user's own (`shell`).

    With neither, the turn goes on that was open when the session was resumed.
    """

    input: UserInput | None = None
    shell: str | None = None

    @property
    def text(self) -> str:
        if self.shell is not None:
            return f"!{self.shell}"
        return self.input.typed if self.input is not None else ""

    @property
    def echoed(self) -> bool:
        """Return whether the text is on the screen already: that of a slash command is."""
        return self.input is not None and bool(self.input.line)


class Turns:
    """Runs the queue, one entry at a time, once it is told that it may begin.

    `run` does one entry and never raises anything but `CancelledError`; `changed` is called
    whenever something starts, ends or is queued.
    """

    def __init__(
        self, run: Callable[[Work], Coroutine[Any, Any, None]], changed: Callable[[], None]
    ) -> None:
        self.queue: list[Work] = []
        self.current: Work | None = None
        self._run = run
        self._changed = changed
        self._task: asyncio.Task[None] | None = None
        self._open = False

    @property
    def running(self) -> bool:
        """Return whether an entry is being worked on."""
        return self._task is not None

    @property
    def waiting(self) -> list[str]:
        return [work.text for work in self.queue if work.text]

    def begin(self) -> None:
        self._open = True
        self._next()

    def pause(self) -> None:
        """Start nothing new; what runs goes on."""
        self._open = False

    def add(self, work: Work) -> None:
        """Put `work` at the end of the queue."""
        self.queue.append(work)
        self._next()
        self._changed()

    def take_back(self) -> str | None:
        """Return the text of the last entry, which leaves the queue."""
        if not self.queue:
            return None
        work = self.queue.pop()
        self._changed()
        return work.text

    def take_inputs(self) -> list[str]:
        """Return the texts of the queued inputs, which leave the queue; other entries stay."""
        texts = [work.input.text for work in self.queue if work.input is not None]
        self.queue = [work for work in self.queue if work.input is None]
        self._changed()
        return texts

    def stop(self) -> str:
        """Stop the running entry and empty the queue; return what goes back to the input line.

        That is the queued texts, or the text of the entry that was stopped.
        """
        waiting = [work.text for work in self.queue]
        self.queue.clear()
        own = self.current.text if self.current is not None else ""
        self.cancel()
        self._changed()
        return "\n".join(waiting) or own

    def cancel(self, why: str = "") -> None:
        """Stop the running entry; the next one starts when it has ended."""
        if self._task is not None:
            self._task.cancel(why or None)

    async def settle(self) -> None:
        """Wait until nothing runs."""
        while self._task is not None:
            await asyncio.wait([self._task])
            await asyncio.sleep(0)

    async def wait_until_idle(self) -> None:
        """Wait until the queue is empty and nothing runs."""
        while self._task is not None or (self._open and self.queue):
            await self.settle()

    def _next(self) -> None:
        if not self._open or self._task is not None or not self.queue:
            return
        self.current = self.queue.pop(0)
        self._task = asyncio.get_running_loop().create_task(self._run(self.current))
        self._task.add_done_callback(self._end_task)

    def _end_task(self, task: asyncio.Task[None]) -> None:
        self._task, self.current = None, None
        if not task.cancelled():
            task.result()
        self._next()
        self._changed()
