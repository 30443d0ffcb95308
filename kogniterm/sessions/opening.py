"""The way in: a location (a file or a PostgreSQL address) to its sessions.

A file is checked first; a damaged one is moved aside, and what can be read is carried over.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kogniterm.sessions.journal.fault_points import Fault, no_fault
from kogniterm.sessions.journal.rows import COLUMNS, StoredRecord
from kogniterm.sessions.session_search import add_missing
from kogniterm.sessions.session_tables import SESSIONS
from kogniterm.sessions.store import SessionStore
from kogniterm.sessions.transfer.json_lines import refresh_row
from kogniterm.storage.damaged_file import FileInUse, is_damaged, recover
from kogniterm.storage.database import Database
from kogniterm.storage.drivers import (
    SqliteConnection,
    is_postgres,
    may_write,
    storage_errors,
    transaction,
)
from kogniterm.storage.head_file import HeadFile, beside
from kogniterm.types import Phrase


@dataclass(frozen=True, slots=True)
class Recovery:
    """The result of recovering a damaged file. `lost` is the least number of records known to be
    missing, by the gaps in the numbering of the journals."""

    moved_to: Path
    sessions: int
    records: int
    lost: int

    @property
    def text(self) -> Phrase:
        """The sentence that tells the user."""
        return Phrase(
            "The database was damaged. It was moved to {file}; {sessions} sessions with {records} "
            "records were recovered, and at least {lost} records were lost.",
            {
                "file": str(self.moved_to),
                "sessions": self.sessions,
                "records": self.records,
                "lost": self.lost,
            },
        )


def open_store(
    location: Path | str,
    *,
    user: str,
    version: str,
    outputs: Path | None = None,
    heads: Path | None = None,
    spool: Path | None = None,
    now: Callable[[], float] = time.time,
    fault: Fault = no_fault,
) -> tuple[SessionStore, Recovery | None]:
    """Open the sessions at `location`; a damaged file is recovered first, and the result told.

    `user` names the user in a shared database, `heads` is the folder for the head file of one
    (a file has its own beside it). Raises `StorageError` kinds.
    """
    recovery = None
    if not is_postgres(location):
        location = Path(location)
        recovery = recover_if_damaged(location, now=now())
    backend = Database(location, SESSIONS, user=user, heads=heads)
    store = SessionStore(
        backend, version=version, outputs=outputs, spool=spool, now=now, fault=fault
    )
    if recovery is not None:
        for info in store.sessions(limit=1_000_000):
            refresh_row(store, info.id)
            add_missing(backend, info.id)
    return store, recovery


def recover_if_damaged(path: Path, *, now: float) -> Recovery | None:
    """Check the file, and recover it when it is damaged and nobody else has it open."""
    with storage_errors(path):
        if not path.exists() or not may_write(path):
            return None  # where nothing can be written, reading tells what is damaged
        lock = FileInUse(path)
    try:
        if not _emptied(path) and not is_damaged(path, crashed=lock.left_by_a_crash()):
            return None
        with lock.alone():
            if not _emptied(path) and not is_damaged(path, crashed=True):
                return None  # another process was faster
            moved_to, counts = recover(path, now=now, schema=SESSIONS, complete=_complete)
            return Recovery(moved_to, *counts)
    finally:
        lock.release()


def _emptied(path: Path) -> bool:
    """Whether nothing is left of a database that held something, as its head file knows."""
    if path.stat().st_size:
        return False
    heads = HeadFile(beside(path)).read()
    return heads is not None and not heads.empty


def _complete(target: SqliteConnection) -> tuple[int, int, int]:
    """Drop records that tell nothing and leases of the dead, and make a row for every journal.

    Returns how many sessions and records there are, and how many records are missing between.
    """
    with transaction(target, durable=True):
        broken = [
            (rowid,)
            for rowid, *row in target.execute(f"SELECT rowid, {COLUMNS} FROM records")
            if not _tells(StoredRecord(*row))
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


def _tells(stored: StoredRecord) -> bool:
    """Whether a record can be read, or its columns tell that a command was started or has ended."""
    return stored.intact() or (stored.kind in ("intent", "outcome") and bool(stored.request_id))
