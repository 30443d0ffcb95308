"""Verify journals by their hash chain, and list the commands that were judged.

`verify` recomputes every hash, and compares with the hashed content what is stored beside it: the
id of a request, and the columns of the session's row. The head file (`anchor`) tells whether the
end of the journal is there, and `verify_all` whether every session is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from kogniterm.errors import StorageCorruptError
from kogniterm.sessions.anchor import end_missing, fault_of, missing_sessions, trouble
from kogniterm.sessions.fold import SessionState, Transcript, advance
from kogniterm.sessions.history import SessionHistory, notes
from kogniterm.sessions.journal import codec
from kogniterm.sessions.journal.codec import StoredRecord, readable_records, stored_records
from kogniterm.sessions.journal.journal import WORKED, read_snapshot, snapshot_of
from kogniterm.sessions.records import Record, SessionOpened
from kogniterm.sessions.session_search import storable
from kogniterm.sessions.store import SessionStore
from kogniterm.storage.database import Database
from kogniterm.storage.head_file import Heads, steady
from kogniterm.types import Phrase

FORGOTTEN = "forgotten"
"""Kind of the note that lists the records whose content the user had removed."""


class ChainReport(NamedTuple):
    """The result of a check. `broken` is the number of the first record that is not intact.

    With `of_session` the fault is one of the whole session or of the journal's end, not of that
    record.
    """

    session_id: str
    records: int
    head: str
    broken: int | None = None
    reason: Phrase | None = None
    of_session: bool = False
    forgotten: tuple[int, ...] = ()

    @property
    def intact(self) -> bool:
        """True when every record is as it was written, in the order it was written."""
        return self.broken is None


class StoreReport(NamedTuple):
    """The result of a check of all sessions that are there or should be.

    `heads` is a problem of the head file. `removed` counts the sessions that were deleted on
    purpose since the head file was begun.
    """

    sessions: tuple[ChainReport, ...]
    heads: Phrase | None = None
    removed: int = 0

    @property
    def intact(self) -> bool:
        """True when all sessions and the head file are intact."""
        return self.heads is None and all(report.intact for report in self.sessions)


def verify(database: Database, session_id: str) -> ChainReport:
    """Check the whole journal of a session, up to the first record that is broken."""
    return steady(
        database.heads,
        lambda heads: _verify_session(database, session_id, heads),
        lambda report: report.intact,
    )


def verify_all(database: Database) -> StoreReport:
    """Check every session, and whether one is missing."""
    heads = None if database.heads is None else database.heads.read()
    rows = database.execute("SELECT id FROM sessions ORDER BY updated DESC, id")
    reports = [verify(database, session_id) for (session_id,) in rows]
    lost = steady(database.heads, partial(missing_sessions, database), lambda found: not found)
    for session_id, count in lost.items():
        reason = Phrase("the whole session is missing (records: {count})", {"count": count})
        reports.append(ChainReport(session_id, 0, codec.GENESIS, 1, reason, of_session=True))
    removed = 0 if heads is None else heads.gone
    return StoreReport(tuple(reports), trouble(database)[0], removed)


def _verify_session(database: Database, session_id: str, heads: Heads | None) -> ChainReport:
    previous, count = codec.GENESIS, 0
    amended: dict[int, str] = {}
    row = _SessionRow(database, session_id)
    for stored in stored_records(database, session_id):
        reason = _fault_of(stored, count, previous)
        if reason is not None:
            return ChainReport(session_id, count, previous, count + 1, reason)
        if stored.amended is not None:
            amended[stored.seq] = codec.payload_digest(stored.salt, stored.payload)
        previous, count = stored.hash, count + 1
        with suppress(StorageCorruptError):
            row.take(stored.record())
    report = ChainReport(session_id, count, previous, forgotten=tuple(sorted(amended)))
    unexplained = _unexplained_record(database, session_id, amended)
    if unexplained is not None:
        reason = Phrase("its content was replaced, and no record shows that it was forgotten")
        return report._replace(broken=unexplained, reason=reason)
    fault = fault_of(database, session_id, heads, count)
    if fault is not None:
        return report._replace(broken=fault.seq, reason=fault.reason, of_session=fault.of_session)
    if row.reaches > count:
        reason = end_missing(count + 1, row.reaches)
        return report._replace(broken=count + 1, reason=reason, of_session=True)
    column = row.differing()
    if column is not None:
        reason = Phrase(
            "the session's column {column} does not match its records", {"column": column}
        )
        return report._replace(broken=count, reason=reason, of_session=True)
    return report


class _SessionRow:
    """The row of a session, compared with what its records say."""

    def __init__(self, database: Database, session_id: str) -> None:
        names = ("folder", "title", "model", "turns", "parent", "parent_seq", "updated", "snapshot")
        found = database.one(f"SELECT {', '.join(names)} FROM sessions WHERE id = ?", (session_id,))
        self._row = dict(zip(names, found or [None] * len(names), strict=True))
        self._state = SessionState()
        self._parent_seq: int | None = None
        self._worked = self._last = 0.0
        self._snapshot = read_snapshot(self._row["snapshot"])
        self._snapshot_fits = self._row["snapshot"] is None

    def take(self, record: Record) -> None:
        """Take one more record into account."""
        body = record.body
        if isinstance(body, SessionOpened) and not self._state.seq:
            self._parent_seq = body.parent_seq
        self._state = replace(advance(self._state, record), messages=Transcript())
        self._last = max(self._last, record.time)
        if isinstance(body, WORKED):
            self._worked = record.time
        if self._snapshot is not None and self._snapshot.seq == record.seq:
            stored = replace(self._snapshot, session_id=self._state.session_id)
            self._snapshot_fits = snapshot_of(stored) == snapshot_of(self._state)

    @property
    def reaches(self) -> int:
        """The record that the snapshot was taken at."""
        return 0 if self._snapshot is None else self._snapshot.seq

    def differing(self) -> str | None:
        """Return the first column that differs from what the records say."""
        state, row = self._state, self._row
        if not state.seq:
            return None  # killed before its first record: there is nothing but the row
        said = {
            "folder": storable(state.folder),
            "title": storable(state.title),
            "model": storable(state.model),
            "turns": state.turn,
            "parent": state.parent,
            "parent_seq": self._parent_seq,
        }
        for name, value in said.items():
            if row[name] != value:
                return name
        if not self._worked <= row["updated"] <= self._last:
            return "updated"
        return None if self._snapshot_fits else "snapshot"


def _request_of(stored: StoredRecord) -> str | None:
    try:
        content = json.loads(stored.payload)
    except ValueError:
        return stored.request_id  # its readers report that it is unreadable
    return content.get("request_id") if isinstance(content, dict) else None


def _fault_of(stored: StoredRecord, count: int, previous: str) -> Phrase | None:
    if stored.seq != count + 1:
        return Phrase(
            "records {first} to {last} are missing", {"first": count + 1, "last": stored.seq - 1}
        )
    if stored.previous != previous:
        return Phrase("it is not linked to the previous record")
    if not stored.intact():
        return Phrase("its content does not match its hash")
    if stored.request_id != _request_of(stored):
        return Phrase("its column request_id does not match its content")
    return None


def _unexplained_record(database: Database, session_id: str, amended: dict[int, str]) -> int | None:
    """Return the first record with replaced content that no later record explains."""
    if not amended:
        return None
    explained: dict[int, str] = {}
    records = readable_records(database, session_id, min(amended), kinds=("note",))
    for note in notes(records, FORGOTTEN):
        listed = note.data.get("records")
        if isinstance(listed, dict):
            explained |= {int(seq): str(digest) for seq, digest in listed.items()}
    return next(
        (seq for seq, digest in sorted(amended.items()) if explained.get(seq) != digest), None
    )


# --- judged commands -------------------------------------------------------------------------


def judged_commands(store: SessionStore) -> Iterator[tuple[str, str, str]]:
    """Yield (command, folder, verdict) of every proposed command, newest session first.

    A command that was judged again, because the user edited it or after a crash, counts once for
    each text it had.
    """
    for info in store.sessions(limit=1_000_000):
        records = readable_records(store.database, info.id, kinds=("request", "verdict"))
        for action in SessionHistory(records).before.actions.values():
            if action.request is not None and action.effect == "command":
                found = {one.report.command: one for one in action.judgements}
                for command, one in found.items():
                    yield command, one.cwd, one.verdict.kind
