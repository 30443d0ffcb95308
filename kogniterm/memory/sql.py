"""One small door to both databases: the same SQL text, `?` for values, transactions that nest."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from kogniterm import database
from kogniterm.errors import StorageError
from kogniterm.heads import HeadFile, Note, beside, of_server
from kogniterm.memory import schema
from kogniterm.paths import named

Row = tuple[Any, ...]


class Sql:
    """A connection bound to one user. Safe to share between threads: calls take turns.

    `connect` makes it, and makes it anew when a server has left. With `read_only` nothing can be
    written. `heads` is the head file that is told how far the ledger of facts has come.
    """

    def __init__(
        self,
        connect: Callable[[], database.Connection],
        place: str,
        user: str,
        *,
        read_only: bool = False,
        heads: HeadFile | None = None,
    ) -> None:
        self._connect = connect
        self._connection = connect()
        self._postgres = not isinstance(self._connection, sqlite3.Connection)
        self._lock = threading.RLock()
        self._depth = 0
        self.place = place
        self.user = user
        self.read_only = read_only
        self.heads = heads
        self._coming: list[Note] = []

    @property
    def is_postgres(self) -> bool:
        """Whether rows live on a PostgreSQL server."""
        return self._postgres

    def all(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        """Every row that `statement` returns; an empty list for one that returns none."""
        with self._lock, database.storage_errors(self.place):
            cursor = self._run(statement, values)
            return list(cursor.fetchall()) if cursor.description is not None else []

    def each(self, statement: str) -> Iterator[Row]:
        """Every row that `statement` returns, a few at a time; others wait until it is done."""
        with self._lock, database.storage_errors(self.place):
            if not self._postgres:
                yield from self._connected().execute(statement)
                return
            with self.transaction():
                connection: Any = self._connection
                with connection.cursor(name="kogniterm_rows") as cursor:
                    cursor.itersize = 100
                    yield from cursor.execute(statement)

    def one(self, statement: str, values: Sequence[object] = ()) -> Row | None:
        """The first row, or None."""
        rows = self.all(statement, values)
        return rows[0] if rows else None

    def run(self, statement: str, values: Sequence[object] = ()) -> int:
        """Execute and tell how many rows were touched."""
        with self._lock, database.storage_errors(self.place):
            return int(self._run(statement, values).rowcount)

    def _run(self, statement: str, values: Sequence[object]) -> Any:
        if self._postgres:
            statement = statement.replace("?", "%s")
        execute: Any = self._connected().execute
        return execute(statement, tuple(values))

    def _connected(self) -> database.Connection:
        connection = self._connection
        if (
            not isinstance(connection, sqlite3.Connection)
            and not self._depth
            and database.has_hung_up(connection)
        ):
            self._connection = self._connect()
        return self._connection

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing; nested blocks join the outer one."""
        with self._lock:
            if self._depth:
                yield
                return
            with self._noting() as note:
                with database.storage_errors(self.place), database.transaction(self._connected()):
                    self._depth = 1
                    self._coming.clear()
                    try:
                        if self._postgres:
                            # A pooled connection could carry another user's setting: say it anew.
                            self._run(
                                "SELECT set_config('kogniterm.user_id', ?, true)", (self.user,)
                            )
                        yield
                        for last in self._coming[-1:]:
                            note(last, True)
                    finally:
                        self._depth = 0
                with suppress(StorageError):  # it is written; that it is on the disk is not noted
                    for last in self._coming[-1:]:
                        self._flush()
                        note(replace(last, before=None), False)

    def coming(self, before: tuple[int, str], seq: int, entry_hash: str) -> None:
        """This transaction brings the ledger from the entry `before` to the entry `seq`."""
        first = self._coming[0].before if self._coming else before
        self._coming.append(Note("memory", self.user, seq, entry_hash, before=first))

    @contextmanager
    def _noting(self) -> Iterator[Callable[[Note, bool], object]]:
        """How the head file is told, before the commit, where the ledger will be after it, and then
        that it is there.

        The file is held meanwhile: a crash leaves the ledger at one of the two entries that the
        last line names. Where there is no head file, nobody is told.
        """
        if self.heads is None or not self.heads.path.exists():
            yield lambda note, durable: None
        else:
            with self.heads.held() as write:
                yield write

    def _flush(self) -> None:
        """Bring the last commit to the disk."""
        with (
            database.storage_errors(self.place),
            database.transaction(self._connected(), durable=True),
        ):
            self._run("UPDATE memory_clock SET version = version WHERE user_id = ?", (self.user,))

    def scrub(self) -> None:
        """Leave no deleted byte in the file or its write-ahead log (SQLite), as far as SQL can."""
        with self._lock, database.storage_errors(self.place):
            if isinstance(self._connection, sqlite3.Connection):
                database.scrub(self._connection)
            else:
                for table in (*schema.TABLES, schema.LEDGER):
                    self._run(f"VACUUM (FULL) {table}", ())

    def close(self) -> None:
        """Release the connection."""
        with self._lock:
            self._connection.close()


def open_sql(location: str | Path, user: str, *, heads: Path | None = None) -> Sql:
    """Open `location` (a `.db` file, a folder, or a PostgreSQL address) with its schema current.

    `heads` is the folder for this machine's head file of a server; a file has its own beside it.
    """
    if database.is_postgres(location):
        url = str(location)
        place = database.without_password(url)
        return Sql(lambda: _postgres(url, user), place, user, heads=of_server(heads, url))
    path = database_file(location)
    return Sql(
        lambda: _sqlite(path),
        str(path),
        user,
        read_only=not database.may_write(path),
        heads=HeadFile(beside(path)),
    )


def _postgres(url: str, user: str) -> database.Connection:
    return _migrated(database.open_postgres(url, user=user), url, "postgres")


def _sqlite(path: Path) -> database.Connection:
    if database.may_write(path):
        return _migrated(database.open_sqlite(path), str(path), "sqlite")
    return database.open_read_only(path, schema.ROOM, schema.migrations("sqlite"))


def _migrated(connection: database.Connection, place: str, dialect: str) -> database.Connection:
    """The connection with its schema current; closed when that fails."""
    with database.storage_errors(place), ExitStack() as on_failure:
        on_failure.callback(connection.close)
        database.migrate(connection, schema.ROOM, schema.migrations(dialect))
        on_failure.pop_all()
    return connection


def database_file(location: str | Path) -> Path:
    """The SQLite file meant by `location`: itself, or `kogniterm.db` in the folder it names."""
    path = named("", location)
    if path.is_dir() or not path.suffix:
        return path / "kogniterm.db"
    return path
