"""A worker: takes tasks, starts a child for each, and says that it lives.

It holds nothing that is not in the database or in a session's journal, so it may be killed at any
moment: the queue notices, and another worker continues the sessions.
"""

from __future__ import annotations

import asyncio
import secrets
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from kogniterm.errors import StorageCorruptError, StorageError
from kogniterm.fleet.orphans import stop_child
from kogniterm.fleet.task_database import HEARTBEAT, SILENCE
from kogniterm.fleet.task_run import GRACE, TaskRun, next_words
from kogniterm.fleet.task_workspaces import TaskWorkspaces
from kogniterm.models.catalog import cost_of
from kogniterm.protocols import WorkerQueue
from kogniterm.runtime.unattended.stored_answers import open_question
from kogniterm.sessions.journal.journal import load_state
from kogniterm.sessions.journal.ownership import Holder, held_here, is_held, this_process
from kogniterm.sessions.store import SessionStore
from kogniterm.types import Usage
from kogniterm.types.queue_values import QueuedTask, TaskEnd, WorkerInfo

_HELD_AGAIN = 10.0
"""Seconds until a task is tried again whose session is still open in another process."""
_TRY_AGAIN = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Seconds between attempts to reach a database that is away; the last one is repeated."""

Report = Callable[[QueuedTask, TaskEnd | None], None]
"""Takes a task that starts (None) or has ended."""
Trouble = Callable[[StorageError | None], None]
"""Takes the error when the database is away, and None when it is back."""


@dataclass(slots=True)
class Worker:
    """Runs tasks of some queues, up to `info.slots` at once.

    `store` are the sessions that belong to the tasks, `outputs` is the folder of the children's
    files, `key` that of the key that signs answers, `workspaces` opens those of the tasks. `shares`
    is the most tasks of a queue at once here. With `until_empty` it ends once nothing is queued or
    running. While the database is away, the children go on.
    """

    queue: WorkerQueue
    store: SessionStore
    info: WorkerInfo
    outputs: Path
    key: Path
    workspaces: TaskWorkspaces
    report: Report = lambda task, end: None
    trouble: Trouble = lambda error: None
    shares: Mapping[str, int] = field(default_factory=dict)
    until_empty: bool = False
    _running: dict[str, tuple[TaskRun, asyncio.Task[None]]] = field(default_factory=dict)
    _draining: bool = False
    _handed_over: bool = False
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _asked: dict[Holder, float] = field(default_factory=dict)
    _failures: int = 0
    _trust_silence: float = 0.0

    @property
    def running(self) -> int:
        """Return how many tasks run here."""
        return len(self._running)

    async def run(self) -> None:
        """Work until drained."""
        self.queue.register(self.info)
        self.workspaces.clear()
        aside = [
            asyncio.ensure_future(one)
            for one in (self._beat(), self.queue.listen(self.info, self._wake.set))
        ]
        try:
            while not self._draining or self._running:
                self._wake.clear()
                if self._with_database(self._look):
                    break
                await self._pause(self._wait())
        finally:
            for one in aside:
                one.cancel()
            await asyncio.gather(*aside, return_exceptions=True)
            with suppress(StorageError):  # others notice that this process has gone
                self.queue.leave(self.info.name)

    def drain(self) -> None:
        """Take no more tasks; those that run go on to their end."""
        self._draining = True
        self._wake.set()

    def hand_over(self) -> None:
        """Stop what runs, so that other workers continue it."""
        self.drain()
        self._handed_over = True
        for run, _task in self._running.values():
            run.hand_over()

    def _look(self) -> bool:
        """Do what there is to do by now; returns whether there will be nothing more."""
        held = held_here(self.store.database, this_process())
        known = {*self._running, *held}
        for task_id in self.queue.cancelled(known) if known else ():
            found = self._running.get(task_id)
            if found is None:
                self._stop_left_behind(task_id, held[task_id])
            elif not found[0].cancelled:
                found[0].cancel()
        if self._draining:
            return False
        silent = time.monotonic() >= self._trust_silence
        self.queue.recover(self.info.name, self._running, silent=silent)
        self._fill()
        return self.until_empty and not self._running and self.queue.counts().is_over

    def _fill(self) -> None:
        while len(self._running) < self.info.slots:
            here = Counter(run.task.task.queue for run, _task in self._running.values())
            free = [
                one for one in self.info.queues if here[one] < self.shares.get(one, self.info.slots)
            ]
            task = self.queue.claim(self.info, free) if free else None
            if task is None:
                return
            if is_held(self.store.database, task.id, this_process()):
                # Its last process lives on, without the worker that started it.
                kept = TaskEnd(
                    "queued",
                    due=time.time() + _HELD_AGAIN,
                    reason=task.reason,
                    answer=task.answer,
                    waits=task.waits,
                )
                self.queue.finish(task, kept)
                continue
            run = TaskRun(task, self.outputs, self.workspaces)
            self.report(task, None)
            self._running[task.id] = (run, asyncio.ensure_future(self._do(run)))

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
            del self._running[task.id]
            self._wake.set()

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

    def _stop_left_behind(self, task_id: str, holder: Holder) -> None:
        """Stop a child of a lost worker: ask it once, and end it when it does not."""
        if holder not in self._asked:
            self._asked[holder] = time.monotonic()
            stop_child(task_id, holder)
        elif self._asked[holder] + GRACE < time.monotonic():
            stop_child(task_id, holder, signal.SIGKILL)

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
            # All workers were silent meanwhile: give those of other machines time to speak.
            self._trust_silence = time.monotonic() + SILENCE
            self._failures = 0
            self.trouble(None)
        return done

    def _wait(self) -> float:
        """Return the seconds until the next look."""
        if not self._failures:
            return self.queue.poll
        return _TRY_AGAIN[min(self._failures, len(_TRY_AGAIN)) - 1]

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT)
            with suppress(StorageError):  # the next look tells of it
                self.queue.beat(self.info)


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
