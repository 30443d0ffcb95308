"""The append-only journal of one session: numbered, dated, hash-chained records.

An append is one inserted row, whatever the length of the session. A commit survives the death
of the process at once; what must also survive power loss (`DURABLE`) waits for the disk, and
with it everything that was written before.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from kogniterm.errors import StorageCorruptError, StorageLockedError
from kogniterm.sessions import codec
from kogniterm.sessions.backend import Backend, DuplicateError, Row
from kogniterm.sessions.fold import SessionState, advance
from kogniterm.sessions.records import (
    Compacted,
    InputReceived,
    Intent,
    NodeRan,
    Noted,
    Outcome,
    Record,
    RecordBody,
    SessionOpened,
    TurnEnded,
)
from kogniterm.sessions.transcript import Transcript

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

DURABLE = (Intent, Outcome, TurnEnded)
"""Bodies that wait for the disk even when the caller does not ask for it."""

_LISTED = (SessionOpened, InputReceived, TurnEnded, Compacted, Noted)
_MESSAGE_KINDS = ("input", "node", "outcome", "compacted")
_INSERT = (
    "INSERT INTO records (session_id, seq, time, kind, request_id, salt, payload, previous, hash) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_SELECT = (
    "SELECT seq, time, kind, salt, payload, previous, hash, amended FROM records "
    "WHERE session_id = ? AND seq >= ? ORDER BY seq"
)

Fault = Callable[[str], None]
"""Called with the name of each point where a crash would matter; tests make it kill us there."""


def no_fault(point: str) -> None:
    """What everybody uses outside of tests."""


class Journal(Protocol):
    """What a live session writes to."""

    @property
    def state(self) -> SessionState:
        """The fold of everything appended so far."""

    def append(self, body: RecordBody, *, durable: bool = False) -> Record:
        """Write one record; it is safe when this returns. Raises `StorageError` kinds."""

    def records(self, from_seq: int = 1) -> Iterator[Record]:
        """The readable records from `from_seq` on, in order."""

    def close(self) -> None:
        """Let go of the session."""


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A row of the journal as it stands on disk, not yet believed."""

    seq: int
    time: float
    kind: str
    salt: str
    payload: str
    previous: str
    hash: str
    amended: str | None

    @classmethod
    def of(cls, row: Row) -> StoredRecord:
        return cls(*row)

    def digest(self) -> str:
        """What the hash covers: of the original payload, if it was amended since."""
        return self.amended or codec.payload_digest(self.salt, self.payload)

    def intact(self) -> bool:
        """Whether the hash fits the content."""
        return self.hash == codec.record_hash(
            self.seq, self.time, self.kind, self.digest(), self.previous
        )

    def record(self) -> Record:
        """The record. Raises `StorageCorruptError` when it was changed or cannot be read."""
        if not self.intact():
            raise StorageCorruptError("Record {seq} was changed or damaged.", seq=self.seq)
        body = codec.decode(self.kind, self.payload)
        return Record(self.seq, self.time, body, self.previous, self.hash)


def stored_records(backend: Backend, session_id: str, from_seq: int = 1) -> Iterator[StoredRecord]:
    """The rows of a journal, in order, unchecked."""
    return map(StoredRecord.of, backend.stream(_SELECT, (session_id, from_seq)))


def messages_of(body: RecordBody) -> tuple[BaseMessage, ...]:
    """The messages a record adds to the history."""
    match body:
        case InputReceived(message=message) | Outcome(message=message):
            return (message,)
        case NodeRan(update=update):
            return update.messages
        case Compacted(messages=messages):
            return messages
        case _:
            return ()


class SessionJournal:
    """The journal of one session in a `Backend`; made by the store, which holds the lease.

    `damaged` are the numbers of the records that were found changed or unreadable when it was
    opened; they were left out of the state.
    """

    def __init__(
        self,
        backend: Backend,
        state: SessionState,
        *,
        now: Callable[[], float],
        fault: Fault = no_fault,
        damaged: tuple[int, ...] = (),
        on_turn_end: Callable[[SessionState], None] | None = None,
        on_close: Callable[[], None] | None = None,
    ) -> None:
        self._backend = backend
        self._state = state
        self._now = now
        self._fault = fault
        self.damaged = damaged
        self._on_turn_end = on_turn_end
        self._on_close = on_close

    @property
    def state(self) -> SessionState:
        return self._state

    def append(self, body: RecordBody, *, durable: bool = False) -> Record:
        kind = codec.kind_of(body)
        record, row = self._next(kind, body)
        state = advance(self._state, record)
        self._fault(f"before:{kind}")
        try:
            with self._transaction(body, durable or isinstance(body, DURABLE)):
                self._backend.execute(_INSERT, row)
                if isinstance(body, _LISTED):
                    self._list(state, record, snapshot=isinstance(body, TurnEnded | Compacted))
                self._fault(f"written:{kind}")
        except DuplicateError as error:
            raise StorageLockedError(
                "Session {session} was changed by another process, or this action was started "
                "before; resume the session to go on from what is known.",
                session=self._state.session_id,
            ) from error
        self._state = state
        self._fault(f"after:{kind}")
        return record

    def _next(self, kind: str, body: RecordBody) -> tuple[Record, tuple[object, ...]]:
        seq, time, previous = self._state.seq + 1, self._now(), self._state.hash or codec.GENESIS
        payload, salt = codec.encode(body), secrets.token_hex(8)
        digest = codec.payload_digest(salt, payload)
        record = Record(
            seq, time, body, previous, codec.record_hash(seq, time, kind, digest, previous)
        )
        request_id = getattr(body, "request_id", None)
        row = (self._state.session_id or getattr(body, "session_id", ""), seq, time, kind)
        return record, (*row, request_id, salt, payload, previous, record.hash)

    def _transaction(self, body: RecordBody, durable: bool) -> Any:
        """A single row commits by itself; it needs a transaction only with company, or to wait."""
        if durable or isinstance(body, _LISTED):
            return self._backend.transaction(durable=durable)
        return nullcontext()

    def _list(self, state: SessionState, record: Record, *, snapshot: bool) -> None:
        """Keep the session's row in step; it holds nothing that the records do not."""
        self._backend.execute(
            "UPDATE sessions SET folder = ?, title = ?, model = ?, turns = ?, updated = ? "
            "WHERE id = ?",
            (state.folder, state.title, state.model, state.turn, record.time, state.session_id),
        )
        if snapshot:
            save_snapshot(self._backend, state)
        if isinstance(record.body, TurnEnded) and self._on_turn_end is not None:
            self._on_turn_end(state)

    def records(self, from_seq: int = 1) -> Iterator[Record]:
        for stored in stored_records(self._backend, self._state.session_id, from_seq):
            yield stored.record()

    def close(self) -> None:
        if self._on_close is not None:
            self._on_close()


# --- from the journal to the state -----------------------------------------------------------


def save_snapshot(backend: Backend, state: SessionState) -> None:
    """Keep the state without its messages: small, and of a size that does not grow."""
    plain = codec.to_plain(replace(state, messages=Transcript(), draft=""))
    backend.execute(
        "UPDATE sessions SET snapshot = ? WHERE id = ?", (codec.dumps(plain), state.session_id)
    )


def load_state(backend: Backend, session_id: str) -> tuple[SessionState, tuple[int, ...]]:
    """The state of a session, and the numbers of records that were left out as damaged.

    Starts from the snapshot when it fits the journal, so that the time does not depend on the
    session's length; the messages are read when they are first looked at.
    """
    state = _from_snapshot(backend, session_id)
    damaged: list[int] = []
    last = None
    for stored in stored_records(backend, session_id, state.seq + 1):
        last = stored
        try:
            record = stored.record()
        except StorageCorruptError:
            damaged.append(stored.seq)
            continue
        state = advance(state, record)
    if last is not None:
        state = replace(state, seq=last.seq, hash=last.hash)
    return state, tuple(damaged)


def _from_snapshot(backend: Backend, session_id: str) -> SessionState:
    rows = backend.execute("SELECT snapshot FROM sessions WHERE id = ?", (session_id,))
    if not rows or rows[0][0] is None:
        return SessionState()
    try:
        state = codec.from_fields(SessionState, json.loads(rows[0][0]))
    except (ValueError, TypeError, KeyError, AttributeError):
        return SessionState()
    there = backend.execute(
        "SELECT 1 FROM records WHERE session_id = ? AND seq = ? AND hash = ?",
        (session_id, state.seq, state.hash),
    )
    if not there:
        return SessionState()

    def load() -> list[BaseMessage]:
        return list(_history(backend, session_id, state.history_seq, state.seq))

    return replace(state, messages=Transcript(load=load))


def _history(backend: Backend, session_id: str, first: int, last: int) -> Iterator[BaseMessage]:
    """The messages of the records from `first` to `last`; damaged ones are left out."""
    for stored in stored_records(backend, session_id, first):
        if stored.seq > last:
            return
        if stored.kind in _MESSAGE_KINDS and stored.intact():
            yield from messages_of(codec.decode(stored.kind, stored.payload))
