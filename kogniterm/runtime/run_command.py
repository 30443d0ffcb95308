"""Runs one approved command on the executor's thread and tells the sinks about it live."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial

from kogniterm.errors import ExecutionError
from kogniterm.execution.environment import PROPOSED
from kogniterm.protocols import EventSink
from kogniterm.runtime import events
from kogniterm.runtime.front import Front
from kogniterm.runtime.ports import SessionPorts
from kogniterm.types import ActionRequest, CommandResult, Text, Waiting

FLUSH_SECONDS = 0.03
STOP_AGAIN = 0.1
MAX_WAITING_BYTES = 256 * 1024
"""What may wait for the loop at once. A flood beyond it is not shown; the file has it all."""


async def run_command(
    session: SessionPorts, request: ActionRequest, command: str, front: Front
) -> tuple[CommandResult, bool]:
    """The result, and whether the turn was cancelled meanwhile (the command was then ended)."""
    loop, budget = asyncio.get_running_loop(), session.budget
    watcher = LoopSink(
        loop, front.sink, request.id, budget.left("output_bytes"), session.stopping.wish
    )
    limits = [session.command_timeout, budget.left("seconds")]
    run = partial(
        session.executor.run,
        session.reveal(command),
        env=PROPOSED,
        timeout=min((one for one in limits if one is not None), default=None),
        sink=watcher,
        terminal=front.terminal,
    )
    task = asyncio.ensure_future(asyncio.to_thread(run))
    cancelled = await until_done(task, session.stopping)
    watcher.flush()
    try:
        return task.result(), cancelled
    except ExecutionError as error:
        # The intent stands in the journal, so this needs an outcome like any other end.
        failed = CommandResult(command, "not_started", None, str(error), 0.0, session.cwd)
        # The screens show what a command says: here it is why there is none.
        front.sink(events.CommandOutput(request.id, f"{error}\n".encode("utf-8", "replace")))
        return failed, cancelled


def tell_what_was_missing(result: CommandResult, sink: EventSink) -> None:
    """Tell the user what sandboxed commands changed in the shell and this one did not have."""
    if result.not_outside:
        text = Text(
            "The sandbox's changes of {names} do not apply to commands outside it. "
            "If they should, set them again in a command that runs outside.",
            {"names": ", ".join(result.not_outside)},
        )
        sink(events.Notice(text))


class CommandStop:
    """The wish to end the running command, kept until that command has ended.

    It is asked for again and again: when a person first wishes it, the command they see may be
    on its way to the executor and not there yet.
    """

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._wished = asyncio.Event()

    def wish(self) -> None:
        """End the running command; does nothing when none runs."""
        self._wished.set()
        self._stop()

    def begin(self) -> None:
        """A new command begins: what was wished for an earlier one is over."""
        self._wished.clear()

    async def once_wished(self) -> None:
        """Repeat the wish until cancelled."""
        await self._wished.wait()
        while True:
            self._stop()
            await asyncio.sleep(STOP_AGAIN)


async def until_done(task: asyncio.Future[CommandResult], stopping: CommandStop) -> bool:
    """Wait for a command's thread whatever happens; True when the turn was cancelled meanwhile.

    No number of cancels abandons the thread: the outcome has to be recorded.
    """
    cancelled = False
    stopping.begin()
    stopper = asyncio.ensure_future(stopping.once_wished())
    try:
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                cancelled = True
                stopping.wish()
    finally:
        stopper.cancel()
    return cancelled


class LoopSink:
    """Carries output from the executor's thread to the loop, bounded and in few large pieces.

    A command that has written `most` bytes is ended by `stop`.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sink: EventSink,
        request_id: str,
        most: float | None = None,
        stop: Callable[[], None] = lambda: None,
    ) -> None:
        self._left = most
        self._stop = stop
        self._loop = loop
        self._sink = sink
        self._request_id = request_id
        self._lock = threading.Lock()
        self._waiting = bytearray()
        self._dropped = 0
        self._scheduled = False

    def output(self, data: bytes) -> None:
        """Called on the executor's thread."""
        if self._left is not None:
            self._left -= len(data)
            if self._left <= 0:
                self._left = None
                self._loop.call_soon_threadsafe(self._stop)
        with self._lock:
            self._waiting += data
            excess = len(self._waiting) - MAX_WAITING_BYTES
            if excess > 0:
                del self._waiting[:excess]
                self._dropped += excess
            if self._scheduled:
                return
            self._scheduled = True
        self._loop.call_soon_threadsafe(self._loop.call_later, FLUSH_SECONDS, self.flush)

    def waiting(self, waiting: Waiting | None) -> None:
        """Called on the executor's thread."""
        event = events.CommandWaiting(self._request_id, waiting)
        self._loop.call_soon_threadsafe(self._tell, event)

    def _tell(self, event: events.CommandWaiting) -> None:
        """What the command said before it waited comes first, however late the loop is."""
        self.flush()
        self._sink(event)

    def flush(self) -> None:
        """Hand over what has gathered; on the loop's thread."""
        with self._lock:
            data, dropped = bytes(self._waiting), self._dropped
            self._waiting.clear()
            self._dropped = 0
            self._scheduled = False
        if dropped:
            notice = f"\n[… {dropped} bytes not shown …]\n".encode()
            self._sink(events.CommandOutput(self._request_id, notice))
        if data:
            self._sink(events.CommandOutput(self._request_id, data))
