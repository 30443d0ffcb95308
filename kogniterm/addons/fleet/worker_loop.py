"""A worker: starts a child for each task that it is given, and says that it lives.

It holds nothing that is not in the database or in a session's journal, so it may be killed at any
moment: the queue notices, and another worker continues the sessions.
"""

from __future__ import annotations

import asyncio
import secrets
import signal
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from kogniterm.addons.fleet.queue_ports import WorkerQueue
from kogniterm.addons.fleet.queue_values import QueuedTask, TaskEnd, WorkerInfo
from kogniterm.addons.fleet.task_database import HEARTBEAT
from kogniterm.addons.fleet.task_run import GRACE, TaskRun, next_words, stop_child
from kogniterm.addons.fleet.task_workspaces import TaskWorkspaces
from kogniterm.errors import StorageCorruptError, StorageError
from kogniterm.host.identity import Holder, this_process
from kogniterm.models.catalog import cost_of
from kogniterm.runtime.unattended.signed_answers import open_question
from kogniterm.sessions.journal.journal import load_state
from kogniterm.sessions.journal.ownership import held_here, is_held
from kogniterm.sessions.store import SessionStore
from kogniterm.types import Usage

_HELD_AGAIN = 10.0
"""Seconds until a task is tried again whose session is still open in another process."""
_LOOK = 1.0
"""Seconds between two looks for cancelled tasks, and for the end with `until_empty`."""
_TRY_AGAIN = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Seconds between attempts to reach a database that is away; the last one is repeated."""

Report = Callable[[QueuedTask, TaskEnd | None], None]
"""Takes a task that starts (None) or has ended."""
Trouble = Callable[[StorageError | None], None]
"""Takes the error when the database is away, and None when it is back."""


@dataclass(slots=True)
class Worker:
    """Runs the tasks that its queue gives it.

    `store` are the sessions that belong to the tasks, `outputs` is the folder of the children's
    files, `key` that of the key that signs answers, `workspaces` opens those of the tasks. `shares`
    are groups of queues with the most tasks of each group at once. With `until_empty` it ends once
    nothing is queued or running. While the database is away, the children go on.
    """

    queue: WorkerQueue
    store: SessionStore
    info: WorkerInfo
    outputs: Path
    key: Path
    workspaces: TaskWorkspaces
    report: Report = lambda task, end: None
    trouble: Trouble = lambda error: None
    shares: Sequence[tuple[Sequence[str], int]] = ()
    until_empty: bool = False
    running: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _runs: dict[str, TaskRun] = field(default_factory=dict)
    _serving: asyncio.Future[None] | None = None
    _draining: bool = False
    _handed_over: bool = False
    _asked: dict[Holder, float] = field(default_factory=dict)
    _failures: int = 0
    _next_beat: float = 0.0

    async def run(self) -> None:
        """Work until drained."""
        self.queue.register(self.info)
        self.workspaces.clear()
        self._serving = asyncio.ensure_future(self.queue.serve(self))
        watching = asyncio.ensure_future(self._watch())
        try:
            with suppress(asyncio.CancelledError):
                await self._serving
            while self.running:
                await asyncio.wait({*self.running.values()})
        finally:
            watching.cancel()
            with suppress(StorageError):  # others notice that this process has gone
                self.queue.leave(self.info.name)
            with suppress(asyncio.CancelledError):
                await watching

    def drain(self) -> None:
        """Take no more tasks; those that run go on to their end."""
        if self._serving is not None and not self._draining:
            self._draining = True
            self._serving.cancel()

    def hand_over(self) -> None:
        """Stop the running tasks, so that other workers continue them."""
        self._handed_over = True
        for run in self._runs.values():
            run.hand_over()

    def count_running(self, queues: Collection[str]) -> int:
        """Return how many tasks of these queues run here."""
        return sum(run.task.task.queue in queues for run in self._runs.values())

    def start(self, task: QueuedTask) -> None:
        """Start a task that was taken, unless its last process lives on without its worker."""
        if is_held(self.store.database, task.id, this_process()):
            kept = TaskEnd(
                "queued",
                due=time.time() + _HELD_AGAIN,
                reason=task.reason,
                answer=task.answer,
                waits=task.waits,
            )
            self.queue.finish(task, kept)
            return
        self._runs[task.id] = run = TaskRun(task, self.outputs, self.workspaces)
        self.report(task, None)
        self.running[task.id] = asyncio.ensure_future(self._do(run))

    async def _watch(self) -> None:
        """Look again and again, until cancelled or the database is found to be damaged."""
        try:
            while True:
                if self._with_database(self._look):
                    self.drain()
                await asyncio.sleep(self._wait())
        finally:
            self.drain()

    def _look(self) -> bool:
        """Beat, and stop what was cancelled; returns whether there will be nothing more to do."""
        if time.monotonic() >= self._next_beat:
            self.queue.beat(self.info)
            self._next_beat = time.monotonic() + HEARTBEAT
        held = held_here(self.store.database, this_process())
        known = {*self.running, *held}
        for task_id in self.queue.find_cancelled(known) if known else ():
            run = self._runs.get(task_id)
            if run is None:
                holder = held[task_id]
                # The child of a lost worker is asked once, and ended when it does not end.
                if holder not in self._asked:
                    self._asked[holder] = time.monotonic()
                    stop_child(holder)
                elif self._asked[holder] + GRACE < time.monotonic():
                    stop_child(holder, signal.SIGKILL)
            elif not run.cancelled:
                run.cancel()
        return self.until_empty and not self.running and self.queue.counts().is_over

    async def _do(self, run: TaskRun) -> None:
        task = run.task
        try:
            end = await run.run()
            while not self._with_database(lambda: self._record(task, end)):
                if self._handed_over:
                    return  # others find out that this worker has gone
                await asyncio.sleep(self._wait())
            self.report(task, end)
        finally:
            del self.running[task.id], self._runs[task.id]

    def _record(self, task: QueuedTask, end: TaskEnd) -> bool:
        if end.state == "queued" and end.stop and not self._is_open(task.id):
            end = replace(end, next_text=next_words(task))  # another turn goes on
        self.queue.finish(task, with_spent(end, self.store, task.id))
        if (
            end.state in ("parked", "unknown")
            and open_question(self.store, task.id, self.key) is None
        ):
            self.queue.resume(task.id)  # it was answered before this was written
        return True

    def _is_open(self, task_id: str) -> bool:
        """Return whether the turn of a task goes on, or has not begun: the same text does it."""
        if self.store.info(task_id) is None:
            return True
        state, _damaged = load_state(self.store.database, task_id)
        return not state.turn or bool(state.open_turn)

    # --- the database may be away ------------------------------------------------------------

    def _with_database(self, act: Callable[[], bool]) -> bool:
        """Return what `act` returns; False where the database is away."""
        try:
            done = act()
        except StorageCorruptError:
            raise
        except StorageError as error:
            if not self._failures:
                self.trouble(error)
            self._failures += 1
            return False
        if self._failures:
            self._failures = 0
            self.trouble(None)
        return done

    def _wait(self) -> float:
        """Return the seconds until the next look."""
        if not self._failures:
            return _LOOK
        return _TRY_AGAIN[min(self._failures, len(_TRY_AGAIN)) - 1]


def with_spent(end: TaskEnd, store: SessionStore, task_id: str) -> TaskEnd:
    """Return the end of a start with what the whole session has used, also in starts before.

    A process that was killed could not report it; the journal has it. Models without a known price
    count as nothing.
    """
    info = store.info(task_id)
    if info is None:
        return end
    state, _damaged = load_state(store.database, task_id)
    others = sum(state.others_usage.values(), Usage())
    costs = [cost_of(info.model, state.usage - others)]
    costs += [cost_of(name, usage) for name, usage in state.others_usage.items()]
    known = [one for one in costs if one is not None]
    return replace(
        end,
        tokens=state.usage.input + state.usage.output,
        cost=sum(known) if known else end.cost,
    )


def this_worker(queues: tuple[str, ...], slots: int, version: str) -> WorkerInfo:
    """Return this process as a worker; it serves the queue of its machine besides.

    Its name is not used again: after a restart of the machine, or of a container, a new worker
    often has the process number of a lost one, whose tasks must not look like its own.
    """
    me = this_process()
    queues = tuple(dict.fromkeys((*queues, host_queue(me.host))))
    name = f"{me.host}-{me.pid}-{secrets.token_hex(2)}"
    return WorkerInfo(name, me.host, me.boot, me.pid, me.started, queues, slots, version)


def host_queue(host: str) -> str:
    """Return the queue that only workers on one machine serve."""
    return f"host:{host}"
