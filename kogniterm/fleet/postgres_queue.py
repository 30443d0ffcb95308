"""The queue of many machines, in the PostgreSQL database that their sessions share.

Procrastinate (https://procrastinate.readthedocs.io/) decides which worker gets which task and when,
wakes workers and notices silent ones. A queued or running task has a job there, which holds nothing
but its ID; what the task is stays in our own rows. Both are written in one transaction, on the one
connection of the database, so that neither is ever without the other. The jobs are in a schema of
their own beside our tables.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from procrastinate import BaseConnector, PsycopgConnector
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job, Notification, Status
from procrastinate.manager import JobManager
from procrastinate.schema import SchemaManager

from kogniterm.errors import StorageError
from kogniterm.fleet.task_database import SILENCE, TaskTable
from kogniterm.sessions.journal.ownership import Holder
from kogniterm.storage.database import Database
from kogniterm.storage.drivers import DuplicateError
from kogniterm.types.queue_values import (
    MOST_PRIORITY,
    NewTask,
    QueuedTask,
    TaskEnd,
    TaskState,
    WorkerInfo,
)

_AT_ONCE = datetime.fromtimestamp(0, UTC)
_BUSY_AGAIN = 2.0
"""Seconds until a task is tried again whose folder is used by a task of another queue."""
_FARTHEST = 250_000_000_000.0
"""A time in the year 9892: `datetime` ends soon after it."""
_SCHEDULED = "scheduled:"
"""Begins the lock of a job whose time has not come.

Procrastinate lets a job wait for those with the same lock before it, also for one that is due only
tomorrow; so a scheduled job gets the lock of its folder when its time has come.
"""
_REPAIR = 60.0
"""Seconds between two looks for tasks without a job, which only a foreign hand can cause."""
_LISTEN_AGAIN = 5.0
_RECOVERY = 0x6B6F676F
"""Number of the advisory lock of the worker that looks for lost ones."""
_RECOVERY_KEY = "?, hashtext(current_schema() || ':' || ?)"
"""One lock for each user of each schema: an advisory lock is one of the whole database."""

_JOBS_SCHEMA = "SELECT set_config('search_path', current_setting('search_path') || ', ' || ?, true)"
"""Lets the statements of one transaction find what is in the schema of this (quoted) name."""
_ROOM = "procrastinate"
_APPLIED = "SELECT coalesce(max(number), 0) FROM schema_migrations WHERE room = ?"

T = TypeVar("T")


class PostgresQueue(TaskTable):
    """The tasks of one user on all machines that share a database at the address `location`."""

    poll = 5.0
    """Seconds between two looks for a task. Notifications are faster, but do not pass a pooler of
    transactions, and there are none of a task that becomes due or is queued again."""

    def __init__(
        self, database: Database, location: str, *, version: str, me: Holder | None = None
    ) -> None:
        super().__init__(database, version=version, me=me)
        self._location = location
        self._jobs = JobManager(_InOurTransaction(database))
        self._kind = f"session:{database.user}"
        self._repaired = 0.0
        self._schema = _install(database)

    @contextmanager
    def _both(self, *, durable: bool = False) -> Iterator[None]:
        """Write rows and jobs, all or nothing."""
        with self._database.transaction(durable=durable):
            # For this transaction only: behind a pooler, the next one may have another connection.
            self._database.execute(_JOBS_SCHEMA, (self._schema,))
            yield

    # --- submitting and steering -------------------------------------------------------------

    def add(self, tasks: Sequence[NewTask]) -> None:
        with self._both(durable=True):
            super().add(tasks)
            self._defer([task.id for task in tasks])

    def _defer(self, task_ids: Sequence[str], *, first: bool = False) -> None:
        """Make a job for each of these queued tasks; with `first` it comes before all others."""
        rows = self._database.execute(
            "SELECT id, queue, version, folder, priority, due FROM queue_tasks "
            "WHERE id = ANY(?) AND state = 'queued'",
            (list(task_ids),),
        )
        by_id = {row[0]: row[1:] for row in rows}
        jobs = [self._job(one, *by_id[one], first=first) for one in task_ids if one in by_id]
        if not jobs:
            return
        made = self._jobs.batch_defer_jobs(jobs)
        self._database.run(
            "UPDATE queue_tasks SET job = made.job FROM unnest(?::text[], ?::bigint[]) "
            "AS made(id, job) WHERE queue_tasks.id = made.id",
            ([job.task_kwargs["task"] for job in made], [job.id for job in made]),
        )

    def _job(
        self,
        task_id: str,
        queue: str,
        version: str,
        folder: str,
        priority: int,
        due: float,
        *,
        first: bool,
    ) -> Job:
        name = self._queue_name(queue, version)
        scheduled = due > self._database.clock()
        return Job(
            queue=name,
            task_name=self._kind,
            task_kwargs={"task": task_id},
            priority=MOST_PRIORITY + 1 if first else priority,
            lock=f"{_SCHEDULED}{task_id}" if scheduled else self._lock(folder, name),
            queueing_lock=f"{self._database.user}:{task_id}",
            scheduled_at=_moment(due) if scheduled else None,
        )

    def _queue_name(self, queue: str, version: str) -> str:
        """Return the name of a user's queue for tasks of a version, for Procrastinate.

        It is a digest because a channel for notifications has up to 63 bytes for it and a prefix.
        """
        return _digest(self._database.user, queue, version)

    def _lock(self, folder: str, queue: str) -> str:
        """Return the lock of a folder, by queue.

        A task would wait for ever for one before it in a queue that no worker serves; between
        queues, `_take` keeps tasks apart that have the same folder.
        """
        return _digest(self._database.user, folder, queue)

    def cancel(self, task_id: str) -> TaskState:
        with self._both():
            # Rows of running tasks are locked before their jobs, as in `finish`; jobs that wait
            # before their rows, as in `claim`. So no two processes wait for each other.
            self._database.execute(
                "SELECT 1 FROM queue_tasks WHERE id = ? AND state = 'running' FOR UPDATE",
                (task_id,),
            )
            self._drop_job(task_id)
            return super().cancel(task_id)

    def retry(self, task_id: str, text: str | None) -> bool:
        with self._both():
            queued = self._task(task_id)
            if queued is not None and queued.state == "queued":
                self._drop_job(task_id)
            again = super().retry(task_id, text)
            if again:
                self._defer([task_id])
            return again

    def resume(self, task_id: str) -> bool:
        with self._both():
            again = super().resume(task_id)
            if again:
                # An answered task does not wait again for those that were added after it.
                self._defer([task_id], first=True)
            return again

    def _drop_job(self, task_id: str) -> None:
        """Delete a job that waits, or tell the worker that runs it."""
        job = self._job_of(task_id)
        if job is not None and job.id is not None:
            self._jobs.cancel_job_by_id(job.id, abort=True, delete_job=True)

    def _job_of(self, task_id: str) -> Job | None:
        row = self._database.one("SELECT job FROM queue_tasks WHERE id = ?", (task_id,))
        found = self._jobs.list_jobs(id=row[0]) if row and row[0] is not None else []
        return next(iter(found), None)

    # --- working -----------------------------------------------------------------------------

    def register(self, worker: WorkerInfo) -> None:
        with self._both():
            super().register(worker)
            number = _at_once(self._jobs.register_worker())
            self._database.run(
                "UPDATE queue_workers SET delivery = ? WHERE name = ?", (number, worker.name)
            )

    def leave(self, name: str) -> None:
        with self._both():
            number = self._number(name)
            if number is not None:
                _at_once(self._jobs.unregister_worker(number))
            super().leave(name)

    def beat(self, worker: WorkerInfo) -> None:
        with self._both():
            number = self._number(worker.name)
            if number is not None:
                _at_once(self._jobs.update_heartbeat(number))
            super().beat(worker)

    def _number(self, name: str) -> int | None:
        """Return the number of a worker for Procrastinate."""
        row = self._database.one("SELECT delivery FROM queue_workers WHERE name = ?", (name,))
        return None if row is None else row[0]

    def claim(self, worker: WorkerInfo, queues: Collection[str]) -> QueuedTask | None:
        while True:
            try:
                with self._both():
                    number = self._number(worker.name)
                    if number is None:
                        return None
                    wanted = [self._queue_name(one, worker.version) for one in queues]
                    job = _at_once(self._jobs.fetch_job(wanted, number))
                    if job is None:
                        return None
                    if self._accept(job, worker):
                        return self._task(_id(job))
            except DuplicateError:  # a task of another worker began in this folder meanwhile
                continue

    def _accept(self, job: Job, worker: WorkerInfo) -> bool:
        """Give the task of a fetched job to `worker`; False where it is not its turn yet."""
        task_id = _id(job)
        row = self._database.one(
            "SELECT folder, job FROM queue_tasks WHERE id = ? AND state = 'queued'",
            (task_id,),
        )
        if row is None or row[1] != job.id:
            _at_once(self._jobs.finish_job(job, Status.SUCCEEDED, delete_job=True))
            return False
        folder = row[0]
        if (job.lock or "").startswith(_SCHEDULED):  # its time has come
            self._again(job, _AT_ONCE, self._lock(folder, job.queue))
            return False
        busy = self._database.one(
            "SELECT 1 FROM queue_tasks WHERE folder = ? AND state = 'running'", (folder,)
        )
        if busy is not None:
            at = _moment(self._database.clock() + _BUSY_AGAIN)
            self._again(job, at, f"{_SCHEDULED}{task_id}")
            return False
        return self._take(task_id, worker)

    def _again(self, job: Job, at: datetime, lock: str) -> None:
        _at_once(self._jobs.retry_job(job, retry_at=at, lock=lock))

    def finish(self, task: QueuedTask, end: TaskEnd) -> bool:
        with self._both():
            mine = self._database.one(
                "SELECT 1 FROM queue_tasks WHERE id = ? AND claim = ? AND state = 'running' "
                "FOR UPDATE",
                (task.id, task.claim),
            )
            if mine is None:
                return False
            job = self._job_of(task.id)
            values = self._after(task, end)
            if job is not None and job.status == Status.DOING.value:
                self._end_job(job, task, values["state"] == "queued", end.due)
            written = self._write_end(task, values)
            if values["state"] == "queued" and job is None:
                self._defer([task.id])
            return written

    def _end_job(self, job: Job, task: QueuedTask, again: bool, due: float) -> None:
        if not again:
            _at_once(self._jobs.finish_job(job, Status.SUCCEEDED, delete_job=True))
        elif due > self._database.clock():
            at = _moment(due)
            self._again(job, at, f"{_SCHEDULED}{task.id}")
        else:
            self._again(job, _AT_ONCE, self._lock(task.task.folder, job.queue))

    def recover(
        self, name: str = "", running: Collection[str] = (), *, silent: bool = True
    ) -> list[str]:
        with self._both():
            if not self._recover_alone(wait=not name):
                return []
            # The jobs of a worker that is removed here have none from now on.
            found = self._lose(self._lost(name, running, silent=silent))
            if silent:
                stalled = self._jobs.get_stalled_jobs(
                    task_name=self._kind, seconds_since_heartbeat=SILENCE
                )
                found += self._lose(_id(job) for job in _at_once(stalled))
            self._repair()
        return found

    def _recover_alone(self, *, wait: bool) -> bool:
        """Return whether no other process recovers until this transaction ends.

        A worker leaves it to the other one. A command waits: what it tells its user depends on it,
        and the other one may be a worker that was killed, whose connection the server still has.
        """
        key = (_RECOVERY, self._kind)
        if wait:
            self._database.execute(f"SELECT pg_advisory_xact_lock({_RECOVERY_KEY})", key)
            return True
        ((first,),) = self._database.execute(
            f"SELECT pg_try_advisory_xact_lock({_RECOVERY_KEY})", key
        )
        return bool(first)

    def _repair(self) -> None:
        """Make jobs for queued tasks that have none: one of an older version or a copied table."""
        if time.monotonic() < self._repaired + _REPAIR:
            return
        self._repaired = time.monotonic()
        rows = self._database.execute(
            "SELECT id FROM queue_tasks WHERE state = 'queued' AND NOT EXISTS (SELECT 1 "
            "FROM procrastinate_jobs AS job WHERE job.id = queue_tasks.job "
            "AND job.status = 'todo')"
        )
        self._defer([task_id for (task_id,) in rows])

    async def listen(self, worker: WorkerInfo, wake: Callable[[], None]) -> None:
        async def heard(*, channel: str, notification: Notification) -> None:
            wake()

        queues = [self._queue_name(one, worker.version) for one in worker.queues]
        while True:
            # A connection of its own: it waits for the server.
            connector = PsycopgConnector(
                conninfo=self._location,
                min_size=0,
                max_size=1,
                num_workers=1,
                kwargs={"application_name": "kogniterm"},
            )
            try:
                await connector.open_async()
                await JobManager(connector).listen_for_jobs(on_notification=heard, queues=queues)
            except ConnectorException:
                await asyncio.sleep(_LISTEN_AGAIN)
            finally:
                await connector.close_async()


class _InOurTransaction(BaseConnector):
    """Runs Procrastinate's statements on the connection, and in the transaction, of our rows."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def get_sync_connector(self) -> BaseConnector:
        return self

    def execute_query(self, query: str, **arguments: Any) -> None:
        self._database.named(query, arguments)

    def execute_query_one(self, query: str, **arguments: Any) -> dict[str, Any]:
        (row,) = self._database.named(query, arguments)
        return row

    def execute_query_all(self, query: str, **arguments: Any) -> list[dict[str, Any]]:
        return self._database.named(query, arguments)

    async def execute_query_async(self, query: str, **arguments: Any) -> None:
        self.execute_query(query, **arguments)

    async def execute_query_one_async(self, query: str, **arguments: Any) -> dict[str, Any]:
        return self.execute_query_one(query, **arguments)

    async def execute_query_all_async(self, query: str, **arguments: Any) -> list[dict[str, Any]]:
        return self.execute_query_all(query, **arguments)


def _at_once(call: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that waits for nothing, as with `_InOurTransaction`."""
    try:
        call.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise RuntimeError("a statement in our transaction does not wait")


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(min(seconds, _FARTHEST), UTC)


def _id(job: Job) -> str:
    return str(job.task_kwargs["task"])


def _digest(*parts: str) -> str:
    return hashlib.blake2s("\0".join(parts).encode(), digest_size=20).hexdigest()


def _install(database: Database) -> str:
    """Make or update the schema of the jobs, if need be; returns its name, quoted.

    As Procrastinate documents it: `schema.sql` for a new one, then the numbered files of its
    migrations. Our table of migrations notes how many of them are applied.

    Raises `StorageError`, also where a newer Procrastinate made it.
    """
    ((schema,),) = database.execute("SELECT quote_ident(current_schema() || '_queue')")
    steps = sorted(Path(SchemaManager.get_migrations_path()).glob("*.sql"))
    ((applied,),) = database.execute(_APPLIED, (_ROOM,))
    if applied == len(steps):
        return str(schema)
    if applied > len(steps):
        raise StorageError(
            "The queue's tables were made by a newer version of the package procrastinate; "
            "update it here."
        )
    with database.transaction(durable=True):
        database.execute("LOCK TABLE schema_migrations IN SHARE ROW EXCLUSIVE MODE")
        ((applied,),) = database.execute(_APPLIED, (_ROOM,))
        if applied >= len(steps):  # another process has done it meanwhile
            return str(schema)
        database.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        database.execute(
            "SELECT set_config('search_path', ? || ', ' || current_setting('search_path'), true)",
            (schema,),
        )
        for script in [one.read_text() for one in steps[applied:]] if applied else [_whole()]:
            database.script(script)
        database.execute(
            "INSERT INTO schema_migrations (room, number, name) VALUES (?, ?, ?)",
            (_ROOM, len(steps), steps[-1].stem),
        )
    return str(schema)


def _whole() -> str:
    return str(SchemaManager.get_schema())
