"""The append-only journal of one session: numbered, dated, hash-chained records.

An append is one inserted row, whatever the length of the session. A commit survives the death
of the process at once; what must also survive power loss (`DURABLE`) waits for the disk, and
with it everything that was written before. A server that crashes may lose the last of the others:
the journal, which still has them, writes them again before the next. Records that nothing relies
on yet are held, and written in one transaction with the next that is not, or by `write_held`.

Tests inject faults at named points: before a record is written (`before-intent`), when it is
written and not committed (`written-intent`), when it is committed and not yet in the head file
(`unnoted-intent`), and when it is safe (`after-intent`), with the kind's name from `codec.KINDS`.
A held record is written, and passes the points after the first, with the one it waits for.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from kogniterm.errors import (
    OutcomeNotWrittenError,
    SettingsError,
    StorageConflictError,
    StorageCorruptError,
    StorageError,
    StorageFullError,
    StorageLockedError,
    StorageLostError,
)
from kogniterm.sessions.fold import (
    SessionState,
    Transcript,
    advance,
    advance_unreadable,
    lost_outcome,
)
from kogniterm.sessions.journal import codec
from kogniterm.sessions.journal.codec import (
    StoredRecord,
    insert_next,
    new_row,
    readable_records,
    stored_records,
)
from kogniterm.sessions.journal.outcome_spool import Spool
from kogniterm.sessions.journal.ownership import SessionLease
from kogniterm.sessions.records import (
    Compacted,
    InputReceived,
    Intent,
    NodeRan,
    Noted,
    Outcome,
    Record,
    RecordBody,
    Rewound,
    SessionOpened,
    TurnClosed,
)
from kogniterm.sessions.session_search import add_missing, messages_of, storable
from kogniterm.storage.database import Database
from kogniterm.storage.drivers import DuplicateError
from kogniterm.types import ActionRequest, Phrase

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from kogniterm.sessions.anchor import Anchor


Fault = Callable[[str], None]
"""Called with the name of each point that is passed."""

_ACTIONS = ("kill", "full", "locked")


def no_fault(point: str) -> None:
    """Do nothing: the fault outside of tests."""


def parse_fault(spec: str | None) -> Fault:
    """Return the fault described by `ACTION:POINT[:N]`, for the N-th time the point is passed.

    Actions: `kill` ends the process as `kill -9` does; `full` and `locked` fail as a full disk
    and a held database do. `*` as the point means any. Raises `SettingsError`.
    """
    if not spec:
        return no_fault
    action, _, rest = spec.partition(":")
    point, _, number = rest.partition(":")
    if action not in _ACTIONS or not point or (number and not number.isdigit()):
        raise SettingsError(
            "{spec} is not a valid fault; use ACTION:POINT[:N], where ACTION is one of {actions}.",
            spec=spec,
            actions=", ".join(_ACTIONS),
        )
    remaining = int(number or 1)

    def fault(passed: str) -> None:
        nonlocal remaining
        if point not in ("*", passed):
            return
        remaining -= 1
        if remaining != 0:
            return
        if action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        error = StorageFullError if action == "full" else StorageLockedError
        raise error("The fault {action} was injected at {point}.", action=action, point=passed)

    return fault


DURABLE = (Intent, Outcome, TurnClosed)
"""Bodies that wait for the disk even when the caller does not ask for it."""

INDEX_EVERY = 25
"""Turns that are indexed for search together; a search sees to those not indexed yet."""

PATIENCE = 3.0
"""Seconds in which a server that went away may come back before an append fails."""

_PAUSE = 0.1
"""Seconds between two attempts to reach it."""

WORKED = (SessionOpened, InputReceived, TurnClosed, Compacted, Rewound)
"""Bodies whose time says when a session was worked in last. Notes do not: words are forgotten in
sessions of every age, and `--continue` means the one that the user worked in."""
LISTED = (*WORKED, Noted)
"""Bodies that change what a list of sessions shows."""
_Rows = Sequence[tuple[StoredRecord, RecordBody]]
_MESSAGE_KINDS = ("input", "node", "outcome", "compacted", "rewound")


class _RecordsLostError(Exception):
    """The database lacks a record before the one to write."""


class SessionJournal:
    """The journal of one session in a `Database`; made by the store.

    `damaged` are the numbers of the records that were found changed or unreadable when it was
    opened; they were left out of the state. Outcomes that cannot be written are kept in `spool`,
    and written before anything else is; `settled` counts those that were. `taken_from` is the
    process that died while it held the session, if it was taken over.
    """

    def __init__(
        self,
        database: Database,
        session_id: str,
        state: SessionState,
        *,
        now: Callable[[], float],
        fault: Fault,
        damaged: tuple[int, ...],
        lease: SessionLease,
        anchor: Anchor,
        spool: Spool | None,
    ) -> None:
        self.damaged = damaged
        self.settled = 0
        self.taken_from = lease.taken_from
        self._spool = spool
        self._kept = spool.read() if spool is not None else []
        self._database = database
        self._session_id = session_id
        self._state = state
        self._now = now
        self._fault = fault
        self._lease: SessionLease | None = lease
        self._anchor = anchor
        self._on_disk = False
        self._late: list[tuple[StoredRecord, RecordBody]] = []
        """The records since the last one that waited for the disk."""
        self._held: list[tuple[StoredRecord, RecordBody]] = []
        """The last records of the state that are not written yet."""

    @property
    def state(self) -> SessionState:
        """The fold of everything appended so far."""
        return self._state

    def append(self, body: RecordBody, *, durable: bool = False, hold: bool = False) -> Record:
        """Write one record; it is safe when this returns, unless it is to be held.

        Raises `StorageError` kinds: `OutcomeNotWrittenError` for an outcome, and as long as one is
        kept that the database does not take.
        """
        self.settle_kept()
        if isinstance(body, Intent) and self._spool is not None:
            self._spool.make_room()
        try:
            return self._append(body, durable=durable, hold=hold)
        except StorageConflictError:
            raise
        except StorageError as error:
            if not isinstance(body, Outcome) or body.status == "unknown" or not self._is_open(body):
                raise
            raise self._keep(body, error) from error

    def settle_kept(self) -> None:
        """Write the outcomes that could not be written before, each once.

        Raises `OutcomeNotWrittenError` while the database does not take them.
        """
        while self._kept:
            body = self._kept[0]
            if self._is_open(body):
                try:
                    self._append(body)
                except StorageConflictError:
                    raise
                except StorageError as error:
                    raise self._not_written(error) from error
                self.settled += 1
            del self._kept[0]
            if not self._kept and self._spool is not None:
                self._spool.remove()

    def _is_open(self, body: Outcome) -> bool:
        """Return whether this ends something that was started and has no outcome yet."""
        return any(body.request_id == intent.request_id for intent in self._state.unknown)

    def _keep(self, body: Outcome, problem: StorageError) -> OutcomeNotWrittenError:
        """Keep an outcome beside the database, and return the error that says so."""
        if self._spool is None:
            return _neither(problem)
        try:
            self._spool.keep(body)
        except StorageError as error:
            return _neither(error)
        self._kept.append(body)
        return self._not_written(problem)

    def _not_written(self, problem: StorageError) -> OutcomeNotWrittenError:
        error = OutcomeNotWrittenError(
            "The action has ended, but its outcome could not be written to "
            "the journal: {problem} It is saved in {file} and added to the "
            "journal when you resume the session.",
            problem=_problem_sentence(problem),
            file=str(self._spool.path) if self._spool is not None else "",
        )
        error.waits = isinstance(problem, StorageLostError)
        return error

    def _append(self, body: RecordBody, *, durable: bool = False, hold: bool = False) -> Record:
        row = new_row(body, self._state.seq, self._now(), self._state.hash)
        record = Record(row.seq, row.time, body, row.previous, row.hash)
        state = advance(self._state, record)
        self._fault(f"before-{row.kind}")
        if hold:
            self._held.append((row, body))
            self._state = state
        else:
            self._write_out([*self._held, (row, body)], state, durable=durable)
        if isinstance(body, TurnClosed) and body.turn % INDEX_EVERY == 0:
            self._index()
        return record

    def write_held(self) -> None:
        """Write the records that are held, because somebody is about to rely on them."""
        if self._held:
            self._write_out(self._held, self._state, durable=False)

    def _write_out(self, records: _Rows, state: SessionState, *, durable: bool) -> None:
        """Write `records` in one transaction; `state` is that after the last of them."""
        row, body = records[-1]
        durable = durable or isinstance(body, DURABLE)
        try:
            self._insist(lambda: self._write(records, state, durable=durable), row)
        except (DuplicateError, _RecordsLostError) as error:
            raise StorageConflictError(
                "Session {session} was changed by another process, or this "
                "action was already started; resume the session to continue "
                "from its recorded state.",
                session=self._session_id,
            ) from error
        self._state, self._held, self._on_disk = state, [], durable
        self._pass_points("unnoted", records)
        if not durable:
            self._late.extend(records)
        else:
            self._late.clear()
            ended = isinstance(body, TurnClosed)
            self._anchor.note_record(self._session_id, row.seq, row.hash, ended=ended)
        self._pass_points("after", records)

    def _pass_points(self, name: str, records: _Rows) -> None:
        for row, _ in records:
            self._fault(f"{name}-{row.kind}")

    def _write(self, records: _Rows, state: SessionState, *, durable: bool) -> None:
        row, body = records[-1]
        # A single row commits by itself; it needs a transaction only with company, or to wait.
        alone = not durable and not isinstance(body, LISTED) and len(records) == 1
        with nullcontext() if alone else self._database.transaction(durable=durable):
            for one, _ in records:
                if not insert_next(self._database, self._session_id, one):
                    raise _RecordsLostError
            if isinstance(body, LISTED):
                worked = row.time if isinstance(body, WORKED) else None
                _update_row(self._database, self._session_id, state, worked)
            if isinstance(body, TurnClosed | Compacted | Rewound):
                _save_snapshot(self._database, self._session_id, state)
            self._pass_points("written", records)

    def _insist(self, write: Callable[[], None], row: StoredRecord) -> None:
        """Write `row`, over a new connection if the old one was lost, and never twice.

        Whether a commit arrived before its connection broke, only the journal can tell.
        """
        deadline: float | None = None
        while True:
            try:
                if deadline is None or not _has_record(
                    self._database, self._session_id, row.seq, row.hash
                ):
                    try:
                        write()
                    except _RecordsLostError:  # by a crash of the server
                        self._write_again()
                        write()
                return
            except StorageLostError:
                now = time.monotonic()
                if deadline is not None and now >= deadline:
                    raise
                deadline = deadline or now + PATIENCE
            time.sleep(_PAUSE)

    def _write_again(self) -> None:
        """Write what the database lacks of the records that did not wait for the disk.

        Raises `_RecordsLostError` where it lacks others.
        """
        with self._database.transaction():
            for row, _ in self._late:
                if _has_record(self._database, self._session_id, row.seq, row.hash):
                    continue
                if not insert_next(self._database, self._session_id, row):
                    raise _RecordsLostError
            worked = [row.time for row, body in self._late if isinstance(body, WORKED)]
            last = max(worked, default=None)
            _update_row(self._database, self._session_id, self._state, last)

    def records(self, from_seq: int = 1, kinds: Collection[str] = ()) -> Iterator[Record]:
        """Yield the readable records from `from_seq` on, in order; see `codec.stored_records`."""
        self.write_held()
        return readable_records(self._database, self._session_id, from_seq, kinds)

    def reload(self) -> None:
        """Read the state again, after the stored records were changed."""
        self.write_held()
        self._state, self.damaged = load_state(self._database, self._session_id)

    def close(self) -> None:
        if self._spool is not None and not self._kept:
            with suppress(StorageError):
                self._spool.remove()
        if self._lease is not None:
            with suppress(StorageError):
                self.write_held()
            self._index()
            self._anchor.note_closed(self._session_id, on_disk=self._on_disk)
            with suppress(StorageError):  # the lease of an ended process expires by itself
                self._lease.release()
            self._lease = None

    def _index(self) -> None:
        """Bring the search index up to date; it is derived, so it may fail without harm."""
        with suppress(StorageError):
            add_missing(self._database, self._session_id)


def _neither(problem: StorageError) -> OutcomeNotWrittenError:
    return OutcomeNotWrittenError(
        "The action has ended, but its outcome could not be saved: {problem} "
        "When you resume the session, the outcome is unknown; nothing runs "
        "again automatically.",
        problem=_problem_sentence(problem),
    )


def _problem_sentence(problem: StorageError) -> Phrase:
    """Return the problem as a sentence: another one follows it."""
    ended = str(problem.text).endswith(".")
    return problem.text if ended else Phrase("{problem}.", {"problem": problem.text})


# --- from the journal to the state -----------------------------------------------------------


def refresh_row(database: Database, session_id: str) -> None:
    """Make a session's row and snapshot again from its records alone."""
    database.execute("UPDATE sessions SET snapshot = NULL WHERE id = ?", (session_id,))
    state, _ = load_state(database, session_id)
    kinds = [name for name, body in codec.KINDS.items() if body in WORKED]
    ((last,),) = database.execute(
        "SELECT max(time) FROM records WHERE session_id = ? "
        f"AND kind IN ({', '.join('?' * len(kinds))})",
        (session_id, *kinds),
    )
    _update_row(database, session_id, state, last)
    if state.seq:
        _save_snapshot(database, session_id, state)


def _update_row(
    database: Database, session_id: str, state: SessionState, updated: float | None
) -> None:
    """Bring a session's row in step; it holds nothing that the records do not."""
    database.execute(
        "UPDATE sessions SET folder = ?, title = ?, model = ?, turns = ?, "
        "updated = coalesce(?, updated) WHERE id = ?",
        (
            storable(state.folder),
            storable(state.title),
            storable(state.model),
            min(state.turn, 2**31 - 1),  # of a foreign record, it may not fit
            updated,
            session_id,
        ),
    )


def _save_snapshot(database: Database, session_id: str, state: SessionState) -> None:
    database.execute(
        "UPDATE sessions SET snapshot = ? WHERE id = ?", (snapshot_of(state), session_id)
    )


def snapshot_of(state: SessionState) -> str:
    """Return the state without its messages: small, and of a size that does not grow."""
    return codec.dumps(codec.to_plain(replace(state, messages=Transcript(), draft="")))


def read_snapshot(snapshot: str | None) -> SessionState | None:
    """Return the state in a snapshot; None if there is none, or it cannot be read."""
    try:
        return codec.from_fields(SessionState, codec.loads(snapshot or "null"))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def load_state(database: Database, session_id: str) -> tuple[SessionState, tuple[int, ...]]:
    """Return the state of a session, and the numbers of records left out as damaged.

    Starts from the snapshot when it fits the journal, so that the time does not depend on the
    session's length; the messages are read when they are first looked at.
    """
    rows = database.execute("SELECT snapshot, draft FROM sessions WHERE id = ?", (session_id,))
    snapshot, draft = rows[0] if rows else (None, "")
    state = _from_snapshot(database, session_id, snapshot)
    damaged: list[int] = []
    last = None
    for stored in stored_records(database, session_id, state.seq + 1):
        last = stored
        try:
            state = advance(state, stored.record())
        except StorageCorruptError:
            damaged.append(stored.seq)
            state = advance_unreadable(state, stored.kind, stored.request_id)
    if last is not None:
        state = replace(state, seq=last.seq, hash=last.hash)
    return replace(state, session_id=session_id, draft=draft), tuple(damaged)


def _from_snapshot(database: Database, session_id: str, snapshot: str | None) -> SessionState:
    state = read_snapshot(snapshot)
    if state is None or not _has_record(database, session_id, state.seq, state.hash):
        return SessionState()
    first, last = state.history_seq, state.seq
    history = Transcript(load=lambda: list(_history(database, session_id, first, last)))
    return replace(state, messages=history)


def _has_record(database: Database, session_id: str, seq: int, record_hash: str) -> bool:
    found = database.execute(
        "SELECT 1 FROM records WHERE session_id = ? AND seq = ? AND hash = ?",
        (session_id, seq, record_hash),
    )
    return bool(found)


def _history(database: Database, session_id: str, first: int, last: int) -> Iterator[BaseMessage]:
    """Yield the messages of the records from `first` to `last`; damaged ones are left out.

    Where the outcome of a request is damaged, its call is answered by what is known.
    """
    requests: dict[str, ActionRequest] = {}
    for stored in stored_records(database, session_id, first, last):
        if stored.kind not in _MESSAGE_KINDS:
            continue
        try:
            body = stored.record().body
        except StorageCorruptError:
            lost = requests.get(stored.request_id or "") if stored.kind == "outcome" else None
            if lost is not None:
                yield from messages_of(lost_outcome(lost))
            continue
        if isinstance(body, NodeRan):
            requests.update((request.id, request) for request in body.update.pending)
        yield from messages_of(body)
