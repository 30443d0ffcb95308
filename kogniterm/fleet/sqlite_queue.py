"""The queue of one machine, in the SQLite file of its sessions.

A task is taken by an `UPDATE` that finds it still queued, in a write transaction. Another process
cannot wake this one, so a worker looks every half second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress

from kogniterm.fleet.task_database import SCHEDULED, TaskTable
from kogniterm.storage.drivers import DuplicateError
from kogniterm.types.queue_values import QueuedTask, WorkerInfo

_CANDIDATES = 20


class SqliteQueue(TaskTable):
    """The tasks of one user on one machine."""

    poll = 0.5
    """Seconds between two looks for a task: short beside a task, and cheap for a database."""

    def claim(self, worker: WorkerInfo, queues: Collection[str]) -> QueuedTask | None:
        """Take the next task of `queues` that `worker` may do, if any."""
        with self._database.transaction():
            now = self._database.clock()
            for (task_id,) in self._database.execute(
                f"SELECT id FROM queue_tasks WHERE state = 'queued' AND share = {SCHEDULED} "
                "AND due <= ? ORDER BY due, created",
                (now,),
            ):
                self._share_again(task_id)
            for task_id in self._candidates(worker, queues):
                with suppress(DuplicateError):  # another task runs in this folder
                    if self._take(task_id, worker):
                        return self._task(task_id)
        return None

    def _candidates(self, worker: WorkerInfo, queues: Collection[str]) -> list[str]:
        marks = ", ".join("?" * len(queues))
        rows = self._database.execute(
            "SELECT id FROM queue_tasks AS task "
            f"WHERE state = 'queued' AND share >= 0 AND version = ? AND queue IN ({marks}) "
            "AND NOT EXISTS (SELECT 1 FROM queue_tasks AS other "
            "WHERE other.state = 'running' AND other.folder = task.folder) "
            "AND NOT EXISTS (SELECT 1 FROM queue_limits AS most WHERE most.queue = task.queue "
            "AND most.slots <= (SELECT count(*) FROM queue_tasks AS beside "
            "WHERE beside.state = 'running' AND beside.queue = task.queue)) "
            "ORDER BY priority DESC, share, created, id LIMIT ?",
            (worker.version, *queues, _CANDIDATES),
        )
        return [task_id for (task_id,) in rows]

    def recover(
        self, name: str = "", running: Collection[str] = (), *, silent: bool = True
    ) -> list[str]:
        """Queue the tasks of lost workers again; returns their IDs."""
        return self._lose(self._lost(name, running, silent=silent))

    async def listen(self, worker: WorkerInfo, wake: Callable[[], None]) -> None:
        """Wait for ever: nothing but a look tells of a new task."""
        await asyncio.Event().wait()
