"""The way in: a location (a file or a PostgreSQL address) to its sessions."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from kogniterm.database import is_postgres, may_write, migrate, open_sqlite, storage_errors
from kogniterm.heads import HeadFile, beside, of_server
from kogniterm.sessions.backend import Backend, SqliteBackend
from kogniterm.sessions.faults import Fault, no_fault
from kogniterm.sessions.in_use import FileInUse
from kogniterm.sessions.recovery import Recovery, is_damaged, recover
from kogniterm.sessions.schema import ROOM, SQLITE
from kogniterm.sessions.search import add_missing
from kogniterm.sessions.store import SessionStore
from kogniterm.sessions.transfer import refresh_row


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

    `user` names the person in a shared database, `heads` is the folder for the head file of one
    (a file has its own beside it). Raises `StorageError` kinds.
    """
    recovery = None
    backend: Backend
    if is_postgres(location):
        from kogniterm.sessions.postgres import PostgresBackend

        backend = PostgresBackend(str(location), user=user, heads=of_server(heads, str(location)))
    else:
        recovery = recover_if_damaged(Path(location), now=now())
        backend = SqliteBackend(Path(location))
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
            return recover(path, now=now, prepare=_make)
    finally:
        lock.release()


def _emptied(path: Path) -> bool:
    """Whether nothing is left of a database that held something, as its head file knows."""
    if path.stat().st_size:
        return False
    heads = HeadFile(beside(path)).read()
    return heads is not None and not heads.empty


def _make(path: Path) -> None:
    with closing(open_sqlite(path)) as connection:
        migrate(connection, ROOM, SQLITE)
