"""The two databases behind one small face, so that journal and store are written once.

SQL is written with `?` and means the same on both. What differs (searching, leaving nothing on
disk after a deletion, telling a duplicate key) is a method.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

from kogniterm.database import migrate, open_sqlite, scrub, storage_errors, transaction
from kogniterm.errors import StorageError
from kogniterm.sessions.in_use import FileInUse
from kogniterm.sessions.schema import ROOM, SQLITE

Row = tuple[Any, ...]


class DuplicateError(StorageError):
    """A row with this key is there already."""


class Backend(Protocol):
    """An open database. Every method raises `StorageError` kinds only."""

    @property
    def place(self) -> str:
        """The file or address, as it may be shown."""

    def execute(self, sql: str, values: Sequence[object] = ()) -> list[Row]:
        """Run one statement; the rows it gives, if any."""

    def transaction(self, *, durable: bool = False) -> AbstractContextManager[None]:
        """All or nothing; `durable` waits for the disk."""

    def search(self, words: Sequence[str], limit: int) -> list[Row]:
        """(session id, turn, text) of turns with a word beginning like each one, best first."""

    def clock(self) -> float:
        """Seconds since the epoch, by one clock for all who share the database."""

    def another(self) -> Backend:
        """A second connection to the same database, for use in another thread."""

    def problems(self) -> list[str]:
        """What the database finds wrong with its own structure when it looks at all of it."""

    def scrub(self) -> None:
        """After deletions: leave nothing of them on disk, as far as this database can."""

    def close(self) -> None:
        """Release the database."""


def _decoded(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


class SqliteBackend:
    """One file, one person."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with storage_errors(path), ExitStack() as on_failure:
            self._in_use = FileInUse(path)
            on_failure.callback(self._in_use.release)
            self._connection = open_sqlite(path)
            on_failure.callback(self._connection.close)
            # Text with broken bytes is handed on to fail its hash, instead of failing the query.
            self._connection.text_factory = _decoded
            migrate(self._connection, ROOM, SQLITE)
            on_failure.pop_all()

    @property
    def place(self) -> str:
        return str(self._path)

    def execute(self, sql: str, values: Sequence[object] = ()) -> list[Row]:
        with self._errors():
            return self._connection.execute(sql, values).fetchall()

    @contextmanager
    def transaction(self, *, durable: bool = False) -> Iterator[None]:
        with self._errors(), transaction(self._connection, durable=durable):
            yield

    def search(self, words: Sequence[str], limit: int) -> list[Row]:
        query = " ".join(f'"{word}"*' for word in words)
        return self.execute(
            "SELECT session_id, turn, text FROM turn_texts WHERE turn_texts MATCH ? "
            "ORDER BY rank LIMIT ?",
            (query, limit),
        )

    def clock(self) -> float:
        return time.time()

    def another(self) -> SqliteBackend:
        return SqliteBackend(self._path)

    def problems(self) -> list[str]:
        rows = self.execute("PRAGMA integrity_check") + self.execute("PRAGMA foreign_key_check")
        return [" ".join(map(str, row)) for row in rows if row != ("ok",)]

    def scrub(self) -> None:
        with self._errors():
            scrub(self._connection, ["turn_texts"])

    def close(self) -> None:
        with self._errors():
            self._connection.close()
        self._in_use.release()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        with storage_errors(self._path):
            try:
                yield
            except sqlite3.IntegrityError as error:
                raise DuplicateError("This is in {place} already.", place=self.place) from error
