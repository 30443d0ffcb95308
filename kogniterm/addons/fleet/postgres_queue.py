"""The queue of many machines, in the PostgreSQL database that their sessions share.

Procrastinate (https://procrastinate.readthedocs.io/) decides which worker gets which task and when,
wakes workers and notices silent ones. A queued or running task has a job there, which holds only
its ID; the task is in our own rows. Both are written in one transaction. Procrastinate may run a
job again, so a job acts only if it is the one that the row of its task names. The jobs are in a
schema of their own beside our tables.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import procrastinate
from procrastinate import App, JobContext, PsycopgConnector, RetryDecision, SyncPsycopgConnector
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job
from procrastinate.schema import SchemaManager

from kogniterm.addons.fleet.queue_ports import TaskRunner
from kogniterm.addons.fleet.queue_values import (
    MOST_PRIORITY,
    NewTask,
    QueuedTask,
    TaskEnd,
    TaskState,
)
from kogniterm.addons.fleet.task_database import LOST, SILENCE, TaskDatabase
from kogniterm.errors import StorageCorruptError, StorageError
from kogniterm.storage.database import Database
from kogniterm.storage.drivers import DuplicateError

_POLL = 5.0
"""Seconds between two looks for lost jobs and for jobs that no notification told of."""
_BUSY_AGAIN = 2.0
"""Seconds until a task is tried again whose folder is used by a task of another queue."""
_ALIVE_AGAIN = 10.0
"""Seconds until a job is tried again whose task still runs under another worker."""
_RECONNECT = 1.0
_POOL_TIMEOUT = 10.0
_FARTHEST = 250_000_000_000.0
"""A time in the year 9892: `datetime` ends soon after it."""

_JOBS_SCHEMA = "SELECT set_config('search_path', current_setting('search_path') || ', ' || ?, true)"
"""Lets the statements of one transaction find what is in the schema of this (quoted) name."""
_ROOM = "procrastinate"
_APPLIED = "SELECT coalesce(max(number), 0) FROM schema_migrations WHERE room = ?"


class PostgresQueue(TaskDatabase):
    """The tasks of one user on all machines that share a database at the address `location`."""

    def __init__(self, database: Database, location: str, *, version: str) -> None:
        super().__init__(database, version=version)
        self._schema = _install(database)
        self._kind = f"session:{database.user}"
        # It is never opened: its statements run on the connection of our rows.
        self._jobs = App(connector=SyncPsycopgConnector()).job_manager
        self._app = App(
            connector=PsycopgConnector(
                conninfo=location,
                min_size=0,
                max_size=2,
                timeout=_POOL_TIMEOUT,
                kwargs={"application_name": "kogniterm"},
                configure=self._find_jobs,
            )
        )
        self._app.task(name=self._kind, pass_context=True, retry=_Again())(self._perform)

    async def _find_jobs(self, connection: Any) -> None:
        """Let a connection of Procrastinate's find its tables."""
        await connection.execute(_JOBS_SCHEMA.replace("?, true", "%s, false"), (self._schema,))
        await connection.commit()

    @contextmanager
    def _both(self, *, durable: bool = False) -> Iterator[None]:
        """Write rows and jobs, all or nothing. Rows are locked before their jobs."""
        with self._database.transaction(durable=durable):
            # For this transaction only: behind a pooler, the next one may have another connection.
            self._database.execute(_JOBS_SCHEMA, (self._schema,))
            try:
                yield
            except ConnectorException as error:
                raise error.__cause__ or error from error

    # --- submitting and steering -------------------------------------------------------------

    def add(self, tasks: Sequence[NewTask]) -> None:
        with self._both(durable=True):
            super().add(tasks)
            self._defer([task.id for task in tasks])

    def _defer(self, task_ids: Sequence[str], *, first: bool = False) -> None:
        """Make a job for each of these tasks if it is queued; with `first`, before all others."""
        rows = self._database.execute(
            "SELECT id, queue, version, folder, priority, due FROM queue_tasks "
            "WHERE id = ANY(?) AND state = 'queued'",
            (list(task_ids),),
        )
        now = self._database.clock()
        by_id = {row[0]: row[1:] for row in rows}
        jobs = [
            self._job(one, *by_id[one], now=now, first=first) for one in task_ids if one in by_id
        ]
        if not jobs:
            return
        made = self._jobs.batch_defer_jobs(jobs, connection=self._database.server)
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
        now: float,
        first: bool,
    ) -> Job:
        """Return a job, whose lock is the folder.

        A job waits for those with the same lock before it, also for one that no worker serves or
        that is due only tomorrow. So each queue has locks of its own, and a scheduled job has none;
        the unique index on running tasks keeps those apart that have the same folder.
        """
        name = self._queue_name(queue, version)
        return Job(
            queue=name,
            task_name=self._kind,
            task_kwargs={"task": task_id},
            priority=MOST_PRIORITY + 1 if first else priority,
            lock=None if due > now else _digest(self._database.user, folder, name),
            queueing_lock=None,
            scheduled_at=datetime.fromtimestamp(min(due, _FARTHEST), UTC) if due > now else None,
        )

    def _queue_name(self, queue: str, version: str) -> str:
        """Return the name of a user's queue for tasks of a version, for Procrastinate.

        It is a digest because a channel for notifications has up to 63 bytes for it and a prefix.
        """
        return _digest(self._database.user, queue, version)

    def cancel(self, task_id: str) -> TaskState:
        with self._both():
            state = super().cancel(task_id)
            self._drop_job(task_id)
            return state

    def retry(self, task_id: str, text: str | None) -> bool:
        with self._both():
            again = super().retry(task_id, text)
            if again:
                self._drop_job(task_id)
                self._defer([task_id])
            return again

    def resume(self, task_id: str) -> bool:
        with self._both():
            again = super().resume(task_id)
            if again:
                # An answered task does not wait again for those that were added after it.
                self._defer([task_id], first=True)
            return again

    def finish(self, task: QueuedTask, end: TaskEnd) -> bool:
        with self._both():
            written = super().finish(task, end)
            if written:
                self._drop_job(task.id)
                self._defer([task.id])
            return written

    def _drop_job(self, task_id: str) -> None:
        """Delete the job of a task if no worker has it."""
        number = self._job_number(task_id)
        if number is not None:
            self._jobs.cancel_job_by_id(number, delete_job=True, connection=self._database.server)

    def _job_number(self, task_id: str) -> int | None:
        row = self._database.one("SELECT job FROM queue_tasks WHERE id = ?", (task_id,))
        return None if row is None else row[0]

    # --- working -----------------------------------------------------------------------------

    async def serve(self, worker: TaskRunner, *, wait: bool = True) -> None:
        async with self._app.open_async():
            rescuing = asyncio.ensure_future(self._rescue(worker))
            try:
                await asyncio.gather(
                    *(self._work(worker, *share, wait=wait) for share in worker.shares)
                )
            finally:
                rescuing.cancel()
                await asyncio.gather(rescuing, return_exceptions=True)

    async def _work(
        self, worker: TaskRunner, queues: Sequence[str], slots: int, *, wait: bool
    ) -> None:
        """Run a worker of Procrastinate, and another one when the database was away."""
        names = [self._queue_name(one, worker.info.version) for one in queues]
        while True:
            try:
                await self._app.run_worker_async(
                    queues=names,
                    concurrency=slots,
                    wait=wait,
                    fetch_job_polling_interval=_POLL,
                    delete_jobs="always",
                    additional_context={"worker": worker},
                    install_signal_handlers=False,
                    stalled_worker_timeout=SILENCE,
                )
            except ConnectorException:
                current = asyncio.current_task()
                if current is not None and current.cancelling():
                    return
            if not wait:
                return
            await asyncio.sleep(_RECONNECT)

    async def _perform(self, context: JobContext, task: str) -> None:
        """Do the task of a job: it is running here, or lost, or free to be taken."""
        worker: TaskRunner = context.additional_context["worker"]
        found = self._task(task)
        if found is None or self._job_number(task) != context.job.id:
            return
        if found.state == "running" and task not in worker.running:
            if any(one.id == task for one in self.find_lost(worker.info.name, worker.running)):
                self.finish(found, LOST)
                return
            raise _LaterError(_ALIVE_AGAIN)
        if found.state == "queued":
            try:
                taken = self._take(task, worker.info)
            except DuplicateError as error:
                raise _LaterError(_BUSY_AGAIN) from error
            if taken is not None:
                worker.start(taken)
        if task in worker.running:
            await asyncio.wait({worker.running[task]})

    async def _rescue(self, worker: TaskRunner) -> None:
        """Retry the jobs of workers that are gone.

        While the database was away, all workers were silent: the first look after that waits
        until they had time to speak.
        """
        manager = self._app.job_manager
        while True:
            pause = _POLL
            try:
                lost = self.find_lost(worker.info.name, worker.running)
                numbers = {self._job_number(task.id) for task in lost}
                stalled = await manager.get_stalled_jobs(
                    task_name=self._kind, seconds_since_heartbeat=SILENCE
                )
                for number in numbers | {job.id for job in stalled}:
                    with suppress(ConnectorException):  # another worker has retried it
                        await manager.retry_job_by_id_async(number or 0, datetime.now(UTC))
            except StorageCorruptError:
                raise
            except (StorageError, ConnectorException):
                pause = SILENCE
            await asyncio.sleep(pause)


class _LaterError(Exception):
    """A job that is tried again after so many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class _Again(procrastinate.BaseRetryStrategy):
    """Retries every job that raised, as one whose database was away."""

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision:
        seconds = exception.seconds if isinstance(exception, _LaterError) else _RECONNECT
        return RetryDecision(retry_in={"seconds": int(seconds)})


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
        if applied:
            scripts = [one.read_text() for one in steps[applied:]]
        else:
            scripts = [str(SchemaManager.get_schema())]
        for script in scripts:
            database.server.execute(script)
        database.execute(
            "INSERT INTO schema_migrations (room, number, name) VALUES (?, ?, ?)",
            (_ROOM, len(steps), steps[-1].stem),
        )
    return str(schema)
