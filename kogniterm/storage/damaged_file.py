"""Recovery of a damaged database file: it is moved aside, and all that can be read carried over.

SQLite tells of damage only where it looks, so the file is checked when it is opened: its
structure by SQLite, its records (on reading) by their hashes. Carrying over works on tables of
any kind: rows are copied in order of rowid, from both ends towards the damage, then one by one
inside it. Search indexes are not copied; their owners make them again.
"""

from __future__ import annotations

import fcntl
import math
import os
import shutil
import sqlite3
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from kogniterm.errors import StorageCorruptError, StorageLockedError
from kogniterm.storage.drivers import Schema, migrate, open_sqlite, storage_errors, transaction
from kogniterm.storage.folders import private_folder, try_lock

CHECK_LIMIT = 32 * 1024 * 1024
"""Files up to this size are checked whole where they may have changed (about 4 ms a megabyte)."""

CHECK_SECONDS = 86_400.0
"""Seconds after which a file is checked again although only KogniTerm has written to it."""

CRASH_LIMIT = 256 * 1024 * 1024
"""Up to this size after a crash: about a second. Beyond, only what a query meets is noticed."""

_TABLES = "type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
_HEADER = 100
_LONGEST_NOTE = 200
_DAMAGED = "damaged"
"""The note that a process leaves which met damage; only a check that finds none takes it away."""
_PAGE = 200
_MOST_SINGLE = 200_000
_UNREADABLE = (sqlite3.DatabaseError, UnicodeDecodeError)
"""Errors that damage raises; SQLite quotes damaged names, which may be no text at all."""

_NO_DAMAGE = (
    *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL),
    *(sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR),
)
"""Errors of a file that is locked, full or unreadable, which is another trouble."""
_SIDE_FILES = ("", "-wal", "-shm")

Counts = TypeVar("Counts")


class FileInUse:
    """A shared lock beside the database for as long as it is open.

    Recovery needs it for itself alone: a file that somebody writes to is not moved away. The file
    of the lock holds when the database was checked, and its state when the last process left it.
    So the next one knows whether another program has written to it, and need not check it again.
    """

    def __init__(self, path: Path) -> None:
        self._database = path
        self._path = path.with_name(path.name + ".lock")
        private_folder(path.parent)
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_SH)
        self._checked = self._checked_at()
        self._found_sound = False

    def _note(self) -> str:
        return os.pread(self._descriptor, _LONGEST_NOTE, 0).decode("ascii", "replace")

    def _checked_at(self) -> float:
        """Return when the database was checked, 0 where it has changed since it was left."""
        checked, _, left = self._note().partition(" ")
        with suppress(OSError, ValueError):
            return float(checked) if left and left == self._state() else 0.0
        return 0.0

    def _state(self) -> str:
        found = self._database.stat()
        return f"{found.st_ino} {found.st_size} {found.st_mtime_ns}"

    def was_checked(self, now: float) -> bool:
        """Return whether the database was checked lately, and nothing else has written to it."""
        return now - CHECK_SECONDS < self._checked <= now

    def note_check(self, now: float) -> None:
        self._checked, self._found_sound = now, True

    def note_damage(self) -> None:
        """Note that the database turned out to be damaged: the next start checks it."""
        self._checked = 0.0
        self._write(_DAMAGED)

    def _write(self, note: str) -> None:
        with suppress(OSError):  # without a note, it is checked
            os.pwrite(self._descriptor, note.encode("ascii"), 0)
            os.ftruncate(self._descriptor, len(note))

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the lock for ourselves alone. Raises `StorageLockedError` when others have it."""
        if not try_lock(self._descriptor):
            fcntl.flock(self._descriptor, fcntl.LOCK_SH)
            raise StorageLockedError(
                "{place} is damaged and open in another KogniTerm; close "
                "that one, then start KogniTerm again to recover what can be "
                "read.",
                place=str(self._path.with_suffix("")),
            )
        try:
            yield
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def limit(self) -> float:
        """Return up to which size a file is checked, in bytes: damaged ones whatever their size."""
        if self._note() == _DAMAGED:
            return math.inf
        return CRASH_LIMIT if self.left_by_a_crash() else CHECK_LIMIT

    def left_by_a_crash(self) -> bool:
        """Return whether a write-ahead log lies there though nobody has the database open."""
        if not self._log().exists():
            return False
        try:
            with self.alone():
                return True
        except StorageLockedError:
            return False

    def _log(self) -> Path:
        return self._database.with_name(self._database.name + "-wal")

    def release(self) -> None:
        """Let go of the file, and note how it was left: only the last one to leave can tell."""
        if self._descriptor < 0:
            return
        with suppress(OSError):
            alone = try_lock(self._descriptor)
            known = self._checked and (self._found_sound or self._note() != _DAMAGED)
            if alone and known and not self._log().exists():
                self._write(f"{self._checked!r} {self._state()}")
        os.close(self._descriptor)
        self._descriptor = -1


def is_damaged(path: Path, *, limit: float) -> bool:
    """Return whether the file's structure is broken; a missing or empty file is not.

    Of a file larger than `limit`, in bytes, only the schema is looked at.
    """
    if not path.exists() or path.stat().st_size == 0:
        return False
    with storage_errors(path):
        try:
            with closing(open_sqlite(path)) as connection:
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
                if path.stat().st_size > limit:
                    return False
                return bool(connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",))
        except (StorageCorruptError, UnicodeDecodeError):
            return True
        except sqlite3.DatabaseError as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if isinstance(error, sqlite3.OperationalError) and code in _NO_DAMAGE:
                raise
            return True


def recover(
    path: Path,
    *,
    now: float,
    schema: Schema,
    complete: Callable[[sqlite3.Connection], Counts],
) -> tuple[Path, Counts]:
    """Move the damaged file aside and fill a new one with what can be read of it.

    Returns where the damaged file is now, and what `complete` gives, which brings the tables of
    `schema` in order; tables of other packages are made again from the damaged file's own schema.
    A second copy is read, so the moved file stays exactly as it was found.
    """
    stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%d-%H%M%S")
    names = (f"{path.name}.damaged-{stamp}{f'-{n}' if n else ''}" for n in range(1000))
    aside = next(path.with_name(name) for name in names if not path.with_name(name).exists())
    with storage_errors(path):
        for suffix in _SIDE_FILES:
            part = path.with_name(path.name + suffix)
            if part.exists():
                part.rename(aside.with_name(aside.name + suffix))
        with closing(open_sqlite(path)) as target:
            migrate(target, schema.package, schema.sqlite)
            target.execute("PRAGMA foreign_keys=OFF")
            with _working_copy(aside) as source:
                _carry_over(source, target)
                return aside, complete(target)


@contextmanager
def _working_copy(damaged: Path) -> Iterator[sqlite3.Connection]:
    """Connect to a copy of the damaged file, its header mended if that is broken."""
    copy = damaged.with_name(damaged.name + ".copy")
    for suffix in _SIDE_FILES[:2]:
        part = damaged.with_name(damaged.name + suffix)
        if part.exists():
            shutil.copyfile(part, copy.with_name(copy.name + suffix))
            copy.with_name(copy.name + suffix).chmod(0o600)
    if not _opens(copy):
        _mend_header(copy)
    connection = sqlite3.connect(copy, isolation_level=None)
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    try:
        yield connection
    finally:
        connection.close()
        for suffix in _SIDE_FILES:
            copy.with_name(copy.name + suffix).unlink(missing_ok=True)


def _opens(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as connection:
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except _UNREADABLE:
            return False
        return True


def _mend_header(path: Path) -> None:
    """Put a sound database's first bytes over broken ones; the schema behind them may be whole.

    Offsets as in https://www.sqlite.org/fileformat2.html#the_database_header: the size in pages
    is set from the file, the free list is emptied.
    """
    sample = path.with_name(path.name + ".sample")
    with closing(sqlite3.connect(sample)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE t (a)")
    header = bytearray(sample.read_bytes()[:_HEADER])
    for suffix in _SIDE_FILES:
        sample.with_name(sample.name + suffix).unlink(missing_ok=True)
    page_size = int.from_bytes(header[16:18], "big")
    header[28:32] = (path.stat().st_size // page_size).to_bytes(4, "big")
    header[32:40] = bytes(8)
    with path.open("r+b") as file:
        file.write(header)


def _carry_over(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    present = {name for name, _ in _schema(target, _TABLES)}
    tables = _schema(source, _TABLES)
    indexes = [name for name, sql in tables if sql.upper().startswith("CREATE VIRTUAL")]
    for name, sql in tables:
        if any(name == one or name.startswith(f"{one}_") for one in indexes):
            continue
        with transaction(target):
            if name not in present:
                with suppress(*_UNREADABLE):
                    target.execute(sql)
            columns = [row[1] for row in target.execute(f'PRAGMA table_info("{name}")')]
            names = ", ".join(f'"{column}"' for column in columns)
            marks = ", ".join("?" for _ in columns)
            insert = f'INSERT OR REPLACE INTO "{name}" ({names}) VALUES ({marks})'
            for row in _rows(source, name, names):
                with suppress(*_UNREADABLE):
                    target.execute(insert, row)
    for _, sql in _schema(source, "type IN ('index', 'trigger', 'view')"):
        with suppress(*_UNREADABLE):  # there already, or its table is not
            target.execute(sql)


def _schema(connection: sqlite3.Connection, what: str) -> list[tuple[str, str]]:
    """Return (name, statement that made it) of `what`; nothing when that cannot be read."""
    with suppress(*_UNREADABLE):
        return connection.execute(
            f"SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND {what}"
        ).fetchall()
    return []


def _rows(source: sqlite3.Connection, name: str, columns: str) -> Iterator[tuple[object, ...]]:
    """Yield every row that can be read: upwards to the damage, downwards to it, then across it."""
    low = yield from _walk(source, name, columns, None, upwards=True)
    if low is None:
        return
    high = yield from _walk(source, name, columns, low, upwards=False)
    for rowid in range(low + 1, min(high or low, low + _MOST_SINGLE)):
        with suppress(*_UNREADABLE):
            yield from source.execute(
                f'SELECT {columns} FROM "{name}" NOT INDEXED WHERE rowid = ?', (rowid,)
            )


def _walk(
    source: sqlite3.Connection, name: str, columns: str, lowest: int | None, *, upwards: bool
) -> Generator[tuple[object, ...], None, int | None]:
    """Yield rows in order of rowid until the damage; returns the rowid reached, None at the end."""
    order, compare = ("ASC", ">") if upwards else ("DESC", "<")
    place: int | None = -(2**62) if upwards else 2**62
    reached = 0 if upwards else lowest
    limit = "" if lowest is None else f" AND rowid > {lowest}"
    size = _PAGE
    while True:
        try:
            page = source.execute(
                f'SELECT rowid, {columns} FROM "{name}" NOT INDEXED WHERE rowid {compare} ?{limit} '
                f"ORDER BY rowid {order} LIMIT ?",
                (place, size),
            ).fetchall()
        except _UNREADABLE:
            if size == 1:
                return reached
            size = 1
            continue
        for rowid, *row in page:
            place = reached = rowid
            yield tuple(row)
        if len(page) < size:
            return None
