"""The queue of one machine, in the SQLite file of its sessions; opens either queue."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Sequence
from pathlib import Path

from kogniterm import __version__
from kogniterm.addons.fleet.queue_ports import TaskRunner, WorkerQueue
from kogniterm.addons.fleet.queue_values import QueuedTask, WorkerInfo
from kogniterm.addons.fleet.task_database import LOST, QUEUE, TaskDatabase
from kogniterm.errors import StorageCorruptError, StorageError
from kogniterm.host.installation import install_command
from kogniterm.storage.database import Database
from kogniterm.storage.stores import POSTGRES, scheme_of

_POLL = 0.5
"""Seconds between two looks at a file: short beside a task, and cheap for a database."""


class SqliteQueue(TaskDatabase):
    """The tasks of one user on one machine, in the SQLite file of its sessions.

    A task is taken by an `UPDATE` that finds it still queued. Another process cannot wake this one,
    so a worker looks every half second.
    """

    async def serve(self, worker: TaskRunner, *, wait: bool = True) -> None:
        """Take tasks for `worker` until cancelled; without `wait`, until none is ready."""
        while True:
            try:
                for one in self.find_lost(worker.info.name, worker.running):
                    self.finish(one, LOST)
                for queues, slots in worker.shares:
                    while worker.count_running(queues) < slots:
                        task = self._claim(worker.info, queues)
                        if task is None:
                            break
                        worker.start(task)
            except StorageCorruptError:
                raise
            except StorageError:
                pass  # the worker reports that its file is locked
            if not wait:
                return
            if running := {*worker.running.values()}:
                await asyncio.wait(running, timeout=_POLL, return_when=asyncio.FIRST_COMPLETED)
            else:
                await asyncio.sleep(_POLL)

    def _claim(self, worker: WorkerInfo, queues: Sequence[str]) -> QueuedTask | None:
        """Take the next task: by priority, then by age, in a folder where no other one runs."""
        marks = ", ".join("?" * len(queues))
        with self._database.transaction():
            row = self._database.one(
                "SELECT id FROM queue_tasks AS task "
                f"WHERE state = 'queued' AND due <= ? AND version = ? AND queue IN ({marks}) "
                "AND NOT EXISTS (SELECT 1 FROM queue_tasks AS other "
                "WHERE other.state = 'running' AND other.folder = task.folder) "
                "ORDER BY priority DESC, created, id LIMIT 1",
                (self._database.clock(), worker.version, *queues),
            )
            return None if row is None else self._take(row[0], worker)


class MissingQueueError(StorageError):
    """The package that the queue on PostgreSQL needs is not installed."""


def open_queue(
    location: Path | str, user: str, data: Path, *, version: str = __version__
) -> WorkerQueue:
    """Open the queue in the database of the sessions. Raises `StorageError` kinds."""
    database = Database(location, QUEUE, user=user, heads=data)
    if not database.is_postgres:
        return SqliteQueue(database, version=version)
    try:
        if scheme_of(location) not in POSTGRES:
            raise StorageError(
                "The queue needs a postgresql:// address, because its workers wait there for tasks."
            )
        if importlib.util.find_spec("procrastinate") is None:
            raise MissingQueueError(
                "The queue on PostgreSQL needs the package procrastinate, which is not installed. "
                "Install it: {command}",
                command=install_command("procrastinate"),
            )
        from kogniterm.addons.fleet.postgres_queue import PostgresQueue

        return PostgresQueue(database, str(location), version=version)
    except BaseException:
        database.close()
        raise
