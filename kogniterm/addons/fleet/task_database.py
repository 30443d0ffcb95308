"""The rows of the queue in the database of the sessions: what a task is, and how it stands.

One table and one code for SQLite and PostgreSQL. Who gets which task when is up to the two queues
that are built on it (`task_queue`, `postgres_queue`). The database itself refuses a second
writer in a folder (a unique index on running tasks). On a server, row-level security shows each
user their own tasks only, as with sessions.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Any

from kogniterm import __version__
from kogniterm.addons.fleet.queue_values import (
    ENDED_STATES,
    MOST_PRIORITY,
    WAITING_STATES,
    NewTask,
    QueueCounts,
    QueuedTask,
    TaskEnd,
    TaskOverview,
    TaskState,
    WorkerInfo,
)
from kogniterm.errors import UsageError
from kogniterm.host.identity import Holder, this_process
from kogniterm.sessions.journal import codec
from kogniterm.storage.database import Database, Row
from kogniterm.storage.drivers import DuplicateError, Migration, Schema, user_table
from kogniterm.text.redact import redact
from kogniterm.types import Phrase

SILENCE = 45.0
"""Seconds after which a silent worker on another machine counts as lost: longer than a session's
lease, so that the session is free by then."""
HEARTBEAT = 10.0
_SENTENCE = "sentence:"
"""Begins a stored reason that has a template and values."""

LOST = TaskEnd("queued", reason=Phrase("Its worker was lost; another one continues it."), lost=True)
"""The end of a start whose worker is gone."""
_FORGOTTEN = 86_400.0
"""Seconds after which a silent worker is removed."""

_TASK_COLUMNS = """id TEXT NOT NULL,
    queue TEXT NOT NULL,
    batch TEXT NOT NULL,
    state TEXT NOT NULL,
    priority INTEGER NOT NULL,
    due DOUBLE PRECISION NOT NULL,
    text TEXT NOT NULL,
    data TEXT,
    folder TEXT NOT NULL,
    options TEXT NOT NULL,
    tries INTEGER NOT NULL,
    created DOUBLE PRECISION NOT NULL,
    updated DOUBLE PRECISION NOT NULL,
    version TEXT NOT NULL,
    lost INTEGER NOT NULL DEFAULT 0,
    turn INTEGER NOT NULL DEFAULT 1,
    worker TEXT NOT NULL DEFAULT '',
    claim TEXT NOT NULL DEFAULT '',
    stop TEXT NOT NULL DEFAULT '',
    exit_code INTEGER,
    reason TEXT NOT NULL DEFAULT '',
    answer TEXT NOT NULL DEFAULT '',
    tokens BIGINT NOT NULL DEFAULT 0,
    cost DOUBLE PRECISION,
    seconds DOUBLE PRECISION NOT NULL DEFAULT 0,
    question TEXT NOT NULL DEFAULT '',
    cancelled INTEGER NOT NULL DEFAULT 0,
    workspace TEXT NOT NULL DEFAULT '',
    recipe TEXT NOT NULL DEFAULT '',
    commit_id TEXT NOT NULL DEFAULT '',
    patch TEXT NOT NULL DEFAULT '',
    waits INTEGER NOT NULL DEFAULT 0,
    job BIGINT"""

_WORKER_COLUMNS = """name TEXT NOT NULL,
    host TEXT NOT NULL,
    boot TEXT NOT NULL,
    pid INTEGER NOT NULL,
    started TEXT NOT NULL,
    queues TEXT NOT NULL,
    slots INTEGER NOT NULL,
    version TEXT NOT NULL,
    beat DOUBLE PRECISION NOT NULL"""


_OVERVIEW = "id, queue, state, priority, worker, due, created, updated, seconds, tokens, cost"
_GRANT_OPERATOR = f"""CREATE FUNCTION queue_grant_operator(operator text) RETURNS void
LANGUAGE plpgsql AS $$ BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), operator);
    EXECUTE format('GRANT SELECT ON schema_migrations TO %I', operator);
    EXECUTE format('GRANT SELECT (user_id, {_OVERVIEW}) ON queue_tasks TO %I', operator);
    EXECUTE format('DROP POLICY IF EXISTS %I ON queue_tasks', 'operator_' || operator);
    EXECUTE format('CREATE POLICY %I ON queue_tasks FOR SELECT TO %I USING (true)',
                   'operator_' || operator, operator);
END $$"""
"""Lets a role read these columns of all users; what a task is and what it answered stay theirs."""
_IS_OPERATOR = """SELECT EXISTS (SELECT 1 FROM pg_policies, unnest(roles) AS role
WHERE schemaname = current_schema() AND tablename = 'queue_tasks'
AND starts_with(policyname, 'operator_') AND pg_has_role(role, 'member'))"""


def _migrations(*, shared: bool) -> tuple[Migration, ...]:
    mine = "user_id, " if shared else ""
    statements: list[str] = []
    for name, columns, key in (
        ("queue_tasks", _TASK_COLUMNS, "id"),
        ("queue_workers", _WORKER_COLUMNS, "name"),
    ):
        statements += user_table(name, columns, key, shared=shared, lenient=True)
    statements += [
        f"CREATE INDEX queue_tasks_state ON queue_tasks ({mine}state, queue, priority)",
        f"CREATE INDEX queue_tasks_batch ON queue_tasks ({mine}batch, state)",
        # One writer a folder: the database refuses a second running task there.
        f"CREATE UNIQUE INDEX queue_tasks_folder ON queue_tasks ({mine}folder) "
        "WHERE state = 'running'",
    ]
    statements += [_GRANT_OPERATOR] if shared else []
    return (Migration(1, "queue", tuple(statements)),)


QUEUE = Schema(
    "queue",
    _migrations(shared=False),
    _migrations(shared=True),
    ("queue_tasks", "queue_workers"),
)

_NEW = tuple(field.name for field in fields(NewTask))
_STATE = tuple(field.name for field in fields(QueuedTask) if field.name != "task")
_COLUMNS = ", ".join((*_NEW, *_STATE))


def _task(row: Row) -> QueuedTask:
    new = dict(zip(_NEW, row[: len(_NEW)], strict=True))
    new["options"] = tuple(json.loads(new["options"]))
    known = dict(zip(_STATE, row[len(_NEW) :], strict=True))
    known["cancelled"] = bool(known["cancelled"])
    known["reason"] = _told(known["reason"])
    return QueuedTask(NewTask(**new), **known)


class TaskPatches:
    """The commits and the changes of tasks, in the database of the tasks."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def pin(self, task: QueuedTask, commit: str) -> None:
        """Note the commit that every start of a task begins with."""
        self.database.run(
            "UPDATE queue_tasks SET commit_id = ? WHERE id = ? AND claim = ?",
            (commit, task.id, task.claim),
        )

    def save(self, task: QueuedTask, patch: str) -> None:
        """Store what a task has changed."""
        self.database.run(
            "UPDATE queue_tasks SET patch = ? WHERE id = ? AND claim = ?",
            (redact(patch), task.id, task.claim),
        )

    def of(self, task_id: str) -> str:
        """Return what a task has changed, as a patch of git."""
        row = self.database.one("SELECT patch FROM queue_tasks WHERE id = ?", (task_id,))
        return str(row[0]) if row is not None else ""

    def state(self, task_id: str) -> TaskState | None:
        """Return the state of a task; None where there is no such task."""
        row = self.database.one("SELECT state FROM queue_tasks WHERE id = ?", (task_id,))
        return row[0] if row is not None else None


class TaskDatabase:
    """The tasks and workers of one user in one database. Methods raise `StorageError` kinds."""

    def __init__(self, database: Database, *, version: str = __version__) -> None:
        self._database = database
        self.patches = TaskPatches(database)
        self._version = version
        self._me = this_process()

    def close(self) -> None:
        self._database.close()

    # --- submitting --------------------------------------------------------------------------

    def add(self, tasks: Sequence[NewTask]) -> None:
        """Add all of `tasks` or none.

        Raises `UsageError` for an ID that is taken, a priority out of range, and where the workers
        of a queue run another version.
        """
        for task in tasks:
            if abs(task.priority) > MOST_PRIORITY:
                raise UsageError(
                    "The priority {value} is outside of -{most} to {most}.",
                    value=task.priority,
                    most=MOST_PRIORITY,
                )
        for queue in sorted({task.queue for task in tasks}):
            others = {one.version for one in self.workers() if queue in one.queues}
            if others and self._version not in others:
                raise UsageError(
                    "The workers of queue {queue} run KogniTerm {theirs}, and this is {mine}: "
                    "update one of them, so that both are the same.",
                    queue=queue,
                    theirs=", ".join(sorted(others)),
                    mine=self._version,
                )
        moment = self._database.clock()
        with self._database.transaction(durable=True):
            for number, task in enumerate(tasks):
                # The order of submission, also within one moment.
                self._insert(task, moment + number * 1e-6)

    def _insert(self, task: NewTask, moment: float) -> None:
        try:
            self._database.execute(
                "INSERT INTO queue_tasks (id, text, folder, data, options, queue, batch, "
                "priority, due, tries, workspace, recipe, state, created, updated, version) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 'queued', ?, ?, ?)",
                (
                    task.id,
                    redact(task.text),
                    task.folder,
                    redact(task.data) if task.data is not None else None,
                    json.dumps(task.options),
                    task.queue,
                    task.batch,
                    task.priority,
                    task.due,
                    task.tries,
                    task.workspace,
                    redact(task.recipe),
                    moment,
                    moment,
                    self._version,
                ),
            )
        except DuplicateError as error:
            raise UsageError(
                "There is a task {id} already; nothing was added.", id=task.id
            ) from error

    # --- looking -----------------------------------------------------------------------------

    def tasks(
        self,
        *,
        states: Sequence[TaskState] = (),
        batch: str | None = None,
        limit: int = 1_000_000,
    ) -> list[QueuedTask]:
        """Return tasks, the newest first."""
        tests, values = _where(states, batch)
        rows = self._database.execute(
            f"SELECT {_COLUMNS} FROM queue_tasks {tests}ORDER BY created DESC, id LIMIT ?",
            (*values, limit),
        )
        return [_task(row) for row in rows]

    def find(self, reference: str) -> QueuedTask:
        """Return the task with this ID or beginning of one. Raises `UsageError`."""
        rows = self._database.execute(
            f"SELECT {_COLUMNS} FROM queue_tasks WHERE id = ? OR substr(id, 1, ?) = ? "
            "ORDER BY id LIMIT 6",
            (reference, len(reference), reference),
        )
        found = [_task(row) for row in rows]
        exact = [one for one in found if one.id == reference]
        if len(exact or found) == 1:
            return (exact or found)[0]
        if not found:
            raise UsageError(
                "Task {reference} not found. List tasks with: kogniterm queue list",
                reference=reference,
            )
        raise UsageError(
            "{reference} matches several tasks: {ids}; specify one of these IDs.",
            reference=reference,
            ids=", ".join(one.id for one in found),
        )

    def _task(self, task_id: str) -> QueuedTask | None:
        row = self._database.one(f"SELECT {_COLUMNS} FROM queue_tasks WHERE id = ?", (task_id,))
        return None if row is None else _task(row)

    def counts(self, batch: str | None = None) -> QueueCounts:
        """Return how many tasks are in each state, and what they cost."""
        tests, values = _where((), batch)
        rows = self._database.execute(
            "SELECT state, count(*), sum(coalesce(cost, 0)), sum(tokens) "
            f"FROM queue_tasks {tests}GROUP BY state",
            values,
        )
        return QueueCounts(
            {state: int(count) for state, count, _cost, _tokens in rows},
            sum(float(cost) for _state, _count, cost, _tokens in rows),
            sum(int(tokens) for *_others, tokens in rows),
        )

    def workers(self) -> list[WorkerInfo]:
        """Return the workers that are alive, as far as this process can tell.

        Those on other machines count as gone when they have been silent for long.
        """
        earliest = self._database.clock() - SILENCE
        rows = self._database.execute(
            "SELECT name, host, boot, pid, started, queues, slots, version, beat FROM queue_workers"
        )
        found = []
        for *known, beat in rows:
            name, host, boot, pid, started, queues, slots, version = known
            holder = Holder(host, boot, pid, started)
            if not holder.is_gone(self._me, expired=beat < earliest):
                queues = tuple(json.loads(queues))
                found.append(WorkerInfo(name, host, boot, pid, started, queues, slots, version))
        return found

    def hindrance(self, task: QueuedTask) -> Phrase | None:
        """Return why no living worker would take a queued task; None if one would."""
        serving = [one for one in self.workers() if task.task.queue in one.queues]
        if not serving:
            return Phrase(
                "No worker serves queue {queue}. Start one: kogniterm worker",
                {"queue": task.task.queue},
            )
        if all(one.version != task.version for one in serving):
            return Phrase(
                "It was added by KogniTerm {theirs}, and the workers run {mine}. Add it to these: "
                "kogniterm queue retry {id}",
                {"theirs": task.version, "mine": serving[0].version, "id": task.id},
            )
        return None

    # --- steering ----------------------------------------------------------------------------

    def cancel(self, task_id: str) -> TaskState:
        """Cancel a task; one that runs is stopped by its worker. Returns its state by now."""
        alive = [one.name for one in self.workers()] or [""]
        running = f"state = 'running' AND worker IN ({', '.join('?' * len(alive))})"
        states = ("queued", "running", *WAITING_STATES)
        self._database.run(
            f"UPDATE queue_tasks SET state = CASE WHEN {running} THEN state ELSE 'cancelled' END, "
            "cancelled = 1, stop = 'interrupted', question = '', updated = ? "
            f"WHERE id = ? AND state IN ({', '.join('?' * len(states))})",
            (*alive, self._database.clock(), task_id, *states),
        )
        return self.find(task_id).state

    def retry(self, task_id: str, text: str | None) -> bool:
        """Queue a task again, as another turn of its session with `text`.

        With None its open turn goes on. Return False when it has not ended.
        """
        more = "cancelled = 0, lost = 0, due = 0, question = '', reason = '', version = ?"
        values: tuple[object, ...] = (self._version,)
        if text is not None:
            more += ", turn = turn + 1, text = ?"
            values = (*values, redact(text))
        allowed = ("queued", "unknown", *ENDED_STATES)
        return self._set(task_id, "queued", allowed, more, values)

    def resume(self, task_id: str) -> bool:
        """Queue a task again whose question was answered."""
        return self._set(task_id, "queued", WAITING_STATES, "due = 0, question = ''")

    def _set(
        self,
        task_id: str,
        state: TaskState,
        before: Sequence[TaskState],
        more: str,
        values: Sequence[object] = (),
    ) -> bool:
        marks = ", ".join("?" * len(before))
        changed = self._database.run(
            f"UPDATE queue_tasks SET state = ?, updated = ?, {more} "
            f"WHERE id = ? AND state IN ({marks})",
            (state, self._database.clock(), *values, task_id, *before),
        )
        return changed == 1

    # --- working -----------------------------------------------------------------------------

    def register(self, worker: WorkerInfo) -> None:
        """Add a worker, in place of one of the same name."""
        self._database.run(
            "DELETE FROM queue_workers WHERE name = ? OR beat < ?",
            (worker.name, self._database.clock() - _FORGOTTEN),
        )
        self._database.execute(
            "INSERT INTO queue_workers "
            "(name, host, boot, pid, started, queues, slots, version, beat) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                worker.name,
                worker.host,
                worker.boot,
                worker.pid,
                worker.started,
                json.dumps(worker.queues),
                worker.slots,
                worker.version,
                self._database.clock(),
            ),
        )

    def leave(self, name: str) -> None:
        """Remove a worker."""
        self._database.execute("DELETE FROM queue_workers WHERE name = ?", (name,))

    def beat(self, worker: WorkerInfo) -> None:
        """Note that a worker lives; one that was taken for lost is added again."""
        changed = self._database.run(
            "UPDATE queue_workers SET beat = ? WHERE name = ?",
            (self._database.clock(), worker.name),
        )
        if not changed:
            self.register(worker)

    def find_cancelled(self, task_ids: Collection[str]) -> list[str]:
        """Return those of the tasks that the user cancelled."""
        marks = ", ".join("?" * len(task_ids))
        rows = self._database.execute(
            f"SELECT id FROM queue_tasks WHERE id IN ({marks}) "
            "AND (state = 'cancelled' OR state = 'running' AND cancelled = 1)",
            tuple(task_ids),
        )
        return [task_id for (task_id,) in rows]

    def _take(self, task_id: str, worker: WorkerInfo) -> QueuedTask | None:
        """Give a queued task to `worker`; None if it is not queued any more.

        Raises `DuplicateError` where another task runs in its folder.
        """
        taken = self._database.run(
            "UPDATE queue_tasks SET state = 'running', worker = ?, claim = ?, updated = ? "
            "WHERE id = ? AND state = 'queued'",
            (worker.name, secrets.token_hex(8), self._database.clock(), task_id),
        )
        return self._task(task_id) if taken else None

    def finish(self, task: QueuedTask, end: TaskEnd) -> bool:
        """Record how a start ended; False when the task was taken from this worker meanwhile."""
        values = self._after(task, end)
        assigned = ", ".join(f"{name} = ?" for name in values)
        with self._database.transaction():
            changed = self._database.run(
                f"UPDATE queue_tasks SET {assigned} "
                "WHERE id = ? AND claim = ? AND state = 'running'",
                (*values.values(), task.id, task.claim),
            )
            # It was cancelled while it ran: it is not started again.
            self._database.run(
                "UPDATE queue_tasks SET state = 'cancelled' "
                "WHERE id = ? AND state = 'queued' AND cancelled = 1",
                (task.id,),
            )
        return changed == 1

    def _after(self, task: QueuedTask, end: TaskEnd) -> Mapping[str, object]:
        """Return the columns of a task after a start that ended so."""
        lost = task.lost + 1 if end.lost else task.lost
        state, reason = end.state, end.reason
        if end.lost and lost >= task.task.tries:
            state = "failed"
            reason = Phrase(
                "Its process was lost {times} times, so it is not started again by itself.",
                {"times": lost},
            )
        values: dict[str, object] = {
            "state": state,
            "stop": end.stop,
            "exit_code": end.exit_code,
            "reason": redact(_reason_text(reason)),
            "answer": redact(end.answer),
            "tokens": end.tokens or task.tokens,
            "cost": task.cost if end.cost is None else end.cost,
            "seconds": task.seconds + end.seconds,
            "question": end.question,
            "due": end.due,
            "lost": lost,
            "waits": end.waits,
            "updated": self._database.clock(),
            "worker": "" if state == "queued" else task.worker,
        }
        if state == "queued" and end.next_text is not None:
            values |= {"turn": task.turn + 1, "text": redact(end.next_text)}
        return values

    def find_lost(self, name: str, running: Collection[str]) -> list[QueuedTask]:
        """Return the tasks of workers that are gone.

        So are those of the worker `name` that are not among the `running` ones: it took them when
        the database went away.
        """
        # Tasks first: a worker that registers meanwhile is not taken for lost.
        found = self.tasks(states=("running",))
        alive = {one.name for one in self.workers()}
        return [
            one
            for one in found
            if one.worker not in alive or (one.worker == name and one.id not in running)
        ]


def _reason_text(reason: str | Phrase) -> str:
    """Return a reason as text; a sentence of ours keeps its parts, to be translated when shown."""
    return reason if isinstance(reason, str) else _SENTENCE + codec.dumps(codec.to_plain(reason))


def _told(text: str) -> str | Phrase:
    if text.startswith(_SENTENCE):
        with suppress(ValueError, KeyError, TypeError):
            told = codec.from_plain(json.loads(text.removeprefix(_SENTENCE)))
            return told if isinstance(told, Phrase) else text
    return text


def _where(states: Sequence[TaskState], batch: str | None) -> tuple[str, tuple[Any, ...]]:
    tests, values = [], list(states)
    if states:
        tests.append(f"state IN ({', '.join('?' * len(states))})")
    if batch is not None:
        tests.append("batch = ?")
        values.append(batch)  # type: ignore[arg-type]  # values of both kinds of columns
    return (f"WHERE {' AND '.join(tests)} " if tests else ""), tuple(values)


def overview(database: Database, limit: int) -> list[TaskOverview]:
    """Return the tasks of all users as an operator sees them, the newest first.

    Raises `UsageError` where the role of the connection may not see them.
    """
    if not database.is_postgres:
        raise UsageError("This database has the tasks of one user; leave out --all-users.")
    if not database.execute(_IS_OPERATOR)[0][0]:
        raise UsageError(
            "The database role of {place} is no operator of the queue; see Operators in "
            "docs/many-machines.md.",
            place=database.place,
        )
    rows = database.execute(
        f"SELECT user_id, {_OVERVIEW} FROM queue_tasks ORDER BY created DESC, id LIMIT ?", (limit,)
    )
    return [TaskOverview(*row) for row in rows]
