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

from kogniterm.database import (
    may_write,
    migrate,
    open_read_only,
    open_sqlite,
    scrub,
    storage_errors,
    transaction,
)
from kogniterm.errors import StorageError
from kogniterm.heads import HeadFile, beside
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

    @property
    def heads(self) -> HeadFile | None:
        """Where it is noted how far each journal has come, if anywhere."""

    @property
    def shared(self) -> bool:
        """Whether other machines write to it too."""

    @property
    def read_only(self) -> bool:
        """Whether nothing can be written to it from here."""

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
    """One file, one person. Where nothing can be written it can be read, and nothing is made."""

    shared = False

    def __init__(self, path: Path) -> None:
        self._path = path
        self.heads = HeadFile(beside(path))
        self.read_only = not may_write(path)
        with storage_errors(path), ExitStack() as on_failure:
            self._in_use = None if self.read_only else FileInUse(path)
            if self._in_use is not None:
                on_failure.callback(self._in_use.release)
                self._connection = open_sqlite(path)
            else:
                self._connection = open_read_only(path, ROOM, SQLITE)
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
        if self._in_use is not None:
            self._in_use.release()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        with storage_errors(self._path):
            try:
                yield
            except sqlite3.IntegrityError as error:
                raise DuplicateError("This is in {place} already.", place=self.place) from error
