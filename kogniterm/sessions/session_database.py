"""The database of sessions: its tables as numbered migrations, opening it, and recovery.

`records` is the journal and the only truth. `sessions` holds one row for each journal with what
a list shows, the unsent draft, and a snapshot of the folded state: all of it but the draft can
be made again from the records. `turn_texts` is the search index.

A file is checked when it is opened; a damaged one is moved aside, and what can be read is
carried over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from kogniterm.errors import StorageCorruptError
from kogniterm.sessions.journal.codec import COLUMNS, StoredRecord
from kogniterm.sessions.journal.journal import Fault, no_fault, refresh_row
from kogniterm.sessions.session_search import add_missing
from kogniterm.sessions.store import SessionStore
from kogniterm.storage.damaged_file import FileInUse, is_damaged, recover
from kogniterm.storage.database import Database
from kogniterm.storage.drivers import (
    USER_COLUMN,
    Migration,
    Schema,
    SqliteConnection,
    may_write,
    own_rows,
    storage_errors,
    transaction,
)
from kogniterm.storage.head_file import HeadFile, beside
from kogniterm.storage.stores import scheme_of
from kogniterm.types import Phrase

_SESSION_COLUMNS = """id TEXT NOT NULL,
    folder TEXT NOT NULL,
    title TEXT NOT NULL DEFAULT '',
    model TEXT NOT NULL DEFAULT '',
    created DOUBLE PRECISION NOT NULL,
    updated DOUBLE PRECISION NOT NULL,
    turns INTEGER NOT NULL DEFAULT 0,
    parent TEXT,
    parent_seq INTEGER,
    draft TEXT NOT NULL DEFAULT '',
    snapshot TEXT"""

_RECORD_COLUMNS = """session_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    time DOUBLE PRECISION NOT NULL,
    kind TEXT NOT NULL,
    request_id TEXT,
    salt TEXT NOT NULL,
    payload TEXT NOT NULL,
    previous TEXT NOT NULL,
    hash TEXT NOT NULL,
    amended TEXT"""

_LEASE_COLUMNS = """session_id TEXT NOT NULL,
    host TEXT NOT NULL,
    boot TEXT NOT NULL,
    pid INTEGER NOT NULL,
    started TEXT NOT NULL,
    expires DOUBLE PRECISION NOT NULL"""

_HEAD_COLUMNS = """owner TEXT NOT NULL,
    id TEXT NOT NULL DEFAULT '',
    n INTEGER NOT NULL DEFAULT 0,
    hash TEXT NOT NULL DEFAULT ''"""


def _table(name: str, columns: str, key: str, *, shared: bool, of_session: bool) -> tuple[str, ...]:
    """Return the statements for a table; in a shared one each user sees only their own rows."""
    mine = "user_id, " if shared else ""
    parts = [USER_COLUMN, columns] if shared else [columns]
    if of_session:
        parts.append(
            f"FOREIGN KEY ({mine}session_id) REFERENCES sessions ({mine}id) ON DELETE CASCADE"
        )
    if key:
        parts.append(f"PRIMARY KEY ({mine}{key})")
    made = f"CREATE TABLE {name} ({', '.join(parts)})"
    return (made, *own_rows(name)) if shared else (made,)


def _search_tables(shared: bool) -> tuple[str, ...]:
    if not shared:
        return (
            "CREATE VIRTUAL TABLE turn_texts USING fts5(session_id UNINDEXED, turn UNINDEXED, "
            "text UNINDEXED, words, detail = none, tokenize = 'unicode61 remove_diacritics 0')",
        )
    columns = (
        "session_id TEXT NOT NULL, turn INTEGER NOT NULL, text TEXT NOT NULL, words TEXT NOT NULL"
    )
    return (
        *_table("turn_texts", columns, "", shared=True, of_session=True),
        "CREATE INDEX turn_texts_words ON turn_texts USING gin (to_tsvector('simple', words))",
        "CREATE INDEX turn_texts_session ON turn_texts (user_id, session_id)",
    )


def _head_tables(shared: bool) -> tuple[str, ...]:
    """Return the statements for the tables that record the head files.

    `heads` beside a file has one row, made with the table, so that a missing row was removed. A
    server has one for each machine, and `removals` tells the other machines which sessions one
    of them deleted.
    """
    heads = _table("heads", _HEAD_COLUMNS, "owner", shared=shared, of_session=False)
    if not shared:
        return (*heads, "INSERT INTO heads (owner) VALUES ('')")
    columns = (
        "session_id TEXT NOT NULL, owner TEXT NOT NULL, records INTEGER NOT NULL, "
        "hash TEXT NOT NULL, time DOUBLE PRECISION NOT NULL"
    )
    return (*heads, *_table("removals", columns, "", shared=True, of_session=False))


def _migrations(*, shared: bool) -> tuple[Migration, ...]:
    """Return the steps for PostgreSQL, which several users and machines share, or for a file."""
    mine = "user_id, " if shared else ""
    journal = (
        *_table("sessions", _SESSION_COLUMNS, "id", shared=shared, of_session=False),
        *_table("records", _RECORD_COLUMNS, "session_id, seq", shared=shared, of_session=True),
        # A request has at most one intent and one outcome: the database itself refuses to start a
        # command twice, whatever the program does.
        f"CREATE UNIQUE INDEX records_once ON records ({mine}session_id, kind, request_id) "
        "WHERE kind IN ('intent', 'outcome')",
    )
    indexed = "ALTER TABLE sessions ADD COLUMN indexed_seq INTEGER NOT NULL DEFAULT 0"
    leases = _table("leases", _LEASE_COLUMNS, "session_id", shared=shared, of_session=True)
    # From the fifth step on snapshots are compared with the records: all are made again.
    no_snapshots = "UPDATE sessions SET snapshot = NULL"
    return (
        Migration(1, "journal", journal),
        Migration(2, "search", (*_search_tables(shared), indexed)),
        Migration(3, "leases", leases),
        # No table changes: records may name a sub-agent now, and an older version would take
        # the messages of one for the main history's.
        Migration(4, "agents"),
        Migration(5, "heads", (*_head_tables(shared), no_snapshots)),
        # No table changes: an older version would continue a conversation that was gone back in.
        Migration(6, "rewinds"),
    )


SESSIONS = Schema(
    "sessions",
    _migrations(shared=False),
    _migrations(shared=True),
    ("records", "turn_texts", "sessions", "leases", "removals"),
    indexes=("turn_texts",),
    commits_late=True,
    any_text=True,
)


class Recovery(NamedTuple):
    """The result of recovering a damaged file.

    `lost` is the least number of missing records, by the gaps in the numbering of the journals.
    """

    moved_to: Path
    sessions: int
    records: int
    lost: int

    @property
    def text(self) -> Phrase:
        """The report shown to the user."""
        values = {"file": str(self.moved_to), **self._asdict()}
        if not self.records:
            return Phrase(
                "The database was damaged and was moved to {file}. No record could be recovered "
                "from it.",
                values,
            )
        if not self.lost:
            return Phrase(
                "The database was damaged and was moved to {file}. Sessions recovered: "
                "{sessions}; records recovered: {records}; none is missing between them.",
                values,
            )
        return Phrase(
            "The database was damaged and was moved to {file}. Sessions "
            "recovered: {sessions}; records recovered: {records}; records "
            "lost: at least {lost}.",
            values,
        )


def open_store(
    location: Path | str,
    *,
    user: str,
    version: str,
    folders: Sequence[Path] = (),
    heads: Path | None = None,
    spool: Path | None = None,
    now: Callable[[], float] = time.time,
    fault: Fault = no_fault,
) -> tuple[SessionStore, Recovery | None]:
    """Open the sessions at `location`; a damaged file is recovered first, and the result returned.

    `user` names the user in a shared database, `heads` is the folder for the head file of one
    (a file has its own beside it). Raises `StorageError` kinds.
    """
    recovery = None
    if not scheme_of(location):
        location = Path(location)
        recovery = recover_if_damaged(location, now=now())
    try:
        database = Database(location, SESSIONS, user=user, heads=heads)
    except StorageCorruptError:
        if not isinstance(location, Path) or recovery is not None:
            raise
        # It was not checked, because nothing else seemed to have written to it.
        recovery = recover_if_damaged(location, now=now())
        database = Database(location, SESSIONS, user=user, heads=heads)
    store = SessionStore(
        database,
        version=version,
        folders=folders,
        spool=spool,
        now=now,
        fault=fault,
    )
    if recovery is not None:
        for info in store.sessions(limit=1_000_000):
            refresh_row(database, info.id)
            add_missing(database, info.id)
    return store, recovery


def recover_if_damaged(path: Path, *, now: float) -> Recovery | None:
    """Check the file, and recover it when it is damaged and no other process has it open.

    One that was checked in the last day, and that nothing else has written to, is not checked.
    """
    with storage_errors(path):
        if not path.exists() or not may_write(path):
            return None  # damage in a file that cannot be written is reported when it is read
        lock = FileInUse(path)
    try:
        if lock.was_checked(now) and not lock.left_by_a_crash():
            return None
        if not _is_emptied(path) and not is_damaged(path, limit=lock.limit()):
            lock.note_check(now)
            return None
        lock.note_damage()
        with lock.alone():
            if not _is_emptied(path) and not is_damaged(path, limit=lock.limit()):
                lock.note_check(now)
                return None  # another process was faster
            moved_to, counts = recover(path, now=now, schema=SESSIONS, complete=_complete)
            lock.note_check(now)
            return Recovery(moved_to, *counts)
    finally:
        lock.release()


def _is_emptied(path: Path) -> bool:
    """Return whether the file is empty although its head file records sessions."""
    if path.stat().st_size:
        return False
    heads = HeadFile(beside(path)).read()
    return heads is not None and not heads.empty


def _complete(target: SqliteConnection) -> tuple[int, int, int]:
    """Drop unusable records and all leases, and make a row for every journal.

    Returns the numbers of sessions and records, and of records missing between them.
    """
    with transaction(target, durable=True):
        broken = [
            (rowid,)
            for rowid, *row in target.execute(f"SELECT rowid, {COLUMNS} FROM records")
            if not _is_usable(StoredRecord(*row))
        ]
        target.executemany("DELETE FROM records WHERE rowid = ?", broken)
        target.execute(
            "INSERT INTO sessions (id, folder, created, updated) "
            "SELECT session_id, '', min(time), max(time) FROM records "
            "WHERE session_id NOT IN (SELECT id FROM sessions) GROUP BY session_id"
        )
        target.execute("DELETE FROM leases")
        target.execute("UPDATE sessions SET indexed_seq = 0, snapshot = NULL")
    ((sessions,),) = target.execute("SELECT count(*) FROM sessions").fetchall()
    rows = target.execute("SELECT count(*), max(seq) FROM records GROUP BY session_id").fetchall()
    return (
        int(sessions),
        sum(count for count, _ in rows),
        sum(last - count for count, last in rows),
    )


def _is_usable(stored: StoredRecord) -> bool:
    """Return whether a record is intact, or its columns say that a command started or ended."""
    return stored.intact() or (stored.kind in ("intent", "outcome") and bool(stored.request_id))
