"""A worker: takes tasks, starts a child for each, and says that it lives.

It holds nothing that is not in the database or in a session's journal, so it may be killed at any
moment: the queue notices, and another worker continues the sessions.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from kogniterm.fleet.batch_budget import out_of_budget, with_spent
from kogniterm.fleet.task_database import HEARTBEAT, DatabaseQueue
from kogniterm.fleet.task_run import TaskRun, next_words
from kogniterm.runtime.unattended.stored_answers import open_question
from kogniterm.sessions.journal.ownership import is_held, this_process
from kogniterm.sessions.store import SessionStore
from kogniterm.types.queue_values import QueuedTask, TaskEnd, WorkerInfo

POLL = 0.5
"""Seconds between two looks for a task: short beside a task, and cheap for a database."""
_HELD_AGAIN = 10.0
"""Seconds until a task is tried again whose session is still open in another process."""

Report = Callable[[QueuedTask, TaskEnd | None], None]
"""Takes a task that starts (None) or has ended."""


@dataclass(slots=True)
class Worker:
    """Runs tasks of some queues, up to `info.slots` at once.

    `store` are the sessions that belong to the tasks, `outputs` is the folder of the children's
    files. With `until_empty` it ends once nothing is queued or running.
    """

    queue: DatabaseQueue
    store: SessionStore
    info: WorkerInfo
    outputs: Path
    report: Report = lambda task, end: None
    until_empty: bool = False
    _running: dict[str, tuple[TaskRun, asyncio.Task[None]]] = field(default_factory=dict)
    _draining: bool = False
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def running(self) -> int:
        """Return how many tasks run here."""
        return len(self._running)

    async def run(self) -> None:
        """Work until drained."""
        self.queue.register(self.info)
        beating = asyncio.ensure_future(self._beat())
        try:
            while not self._draining or self._running:
                self._cancel(self.queue.cancelled_of(self.info.name))
                if not self._draining:
                    self.queue.recover()
                    self._fill()
                    if self.until_empty and not self._running and self.queue.counts().is_over:
                        break
                await self._pause()
        finally:
            beating.cancel()
            self.queue.leave(self.info.name)

    def drain(self) -> None:
        """Take no more tasks; those that run go on to their end."""
        self._draining = True
        self._wake.set()

    def hand_over(self) -> None:
        """Stop what runs, so that other workers continue it."""
        self.drain()
        for run, _task in self._running.values():
            run.hand_over()

    def _fill(self) -> None:
        while len(self._running) < self.info.slots:
            task = self.queue.claim(self.info)
            if task is None:
                return
            if is_held(self.store.database, task.id, this_process()):
                # Its last process lives on, without the worker that started it.
                due = time.time() + _HELD_AGAIN
                self._leave(task, TaskEnd("queued", due=due, reason=task.reason))
                continue
            if (budget := self.queue.budgets.reserve(task)) != "room":
                end = out_of_budget(budget)
                self._leave(task, end)
                if end.state == "failed":
                    self.report(task, end)
                continue
            run = TaskRun(task, self.outputs)
            self.report(task, None)
            self._running[task.id] = (run, asyncio.ensure_future(self._do(run)))

    def _leave(self, task: QueuedTask, end: TaskEnd) -> None:
        """Give a task back that was not started."""
        kept = replace(end, answer=task.answer, waits=task.waits)
        self.queue.finish(task, kept)

    async def _do(self, run: TaskRun) -> None:
        task = run.task
        try:
            end = with_spent(await run.run(), self.store, task.id)
            if end.state == "queued" and end.stop:  # its turn has ended: another one goes on
                end = replace(end, next_text=next_words(task))
            self.queue.finish(task, end)
            if end.state in ("parked", "unknown") and open_question(self.store, task.id) is None:
                self.queue.resume(task.id)  # it was answered before this was written
            self.report(task, end)
        finally:
            del self._running[task.id]
            self._wake.set()

    def _cancel(self, ids: list[str]) -> None:
        for task_id in ids:
            found = self._running.get(task_id)
            if found is not None and not found[0].cancelled:
                found[0].cancel()

    async def _pause(self) -> None:
        self._wake.clear()
        try:
            async with asyncio.timeout(POLL):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _beat(self) -> None:
        while True:
            self.queue.beat(self.info.name)
            await asyncio.sleep(HEARTBEAT)


def this_worker(queues: tuple[str, ...], slots: int, version: str) -> WorkerInfo:
    """Return this process as a worker.

    Its name is not used again: after a restart of the machine, or of a container, a new worker
    often has the process number of a lost one, whose tasks must not look like its own.
    """
    me = this_process()
    name = f"{me.host}-{me.pid}-{secrets.token_hex(2)}"
    return WorkerInfo(name, me.host, me.boot, me.pid, me.started, queues, slots, version)
