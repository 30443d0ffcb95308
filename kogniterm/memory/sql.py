"""One small door to both databases: the same SQL text, `?` for values, transactions that nest."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from kogniterm import database
from kogniterm.memory import schema
from kogniterm.paths import named

Row = tuple[Any, ...]


class Sql:
    """A connection bound to one user. Safe to share between threads: calls take turns.

    `connect` makes it, and makes it anew when a server has left; `read_only`: nothing can be written.
    """

    def __init__(
        self,
        connect: Callable[[], database.Connection],
        place: str,
        user: str,
        *,
        read_only: bool = False,
    ) -> None:
        self._connect = connect
        self._connection = connect()
        self._postgres = not isinstance(self._connection, sqlite3.Connection)
        self._lock = threading.RLock()
        self._depth = 0
        self.place = place
        self.user = user
        self.read_only = read_only

    @property
    def is_postgres(self) -> bool:
        """Whether rows live on a PostgreSQL server."""
        return self._postgres

    def all(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        """Every row that `statement` returns; an empty list for one that returns none."""
        with self._lock, database.storage_errors(self.place):
            cursor = self._run(statement, values)
            return list(cursor.fetchall()) if cursor.description is not None else []

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
            with database.storage_errors(self.place), database.transaction(self._connected()):
                self._depth = 1
                try:
                    if self._postgres:
                        # A pooled connection could carry another user's setting: say it anew.
                        self._run("SELECT set_config('kogniterm.user_id', ?, true)", (self.user,))
                    yield
                finally:
                    self._depth = 0

    def scrub(self) -> None:
        """Leave no deleted byte in the file or its write-ahead log (SQLite), as far as SQL can."""
        with self._lock, database.storage_errors(self.place):
            if isinstance(self._connection, sqlite3.Connection):
                database.scrub(self._connection)
            else:
                for table in schema.TABLES:
                    self._run(f"VACUUM (FULL) {table}", ())

    def close(self) -> None:
        """Release the connection."""
        with self._lock:
            self._connection.close()


def open_sql(location: str | Path, user: str) -> Sql:
    """Open `location` (a `.db` file, a folder, or a PostgreSQL address) with its schema current."""
    if database.is_postgres(location):
        url = str(location)
        return Sql(lambda: _postgres(url, user), database.without_password(url), user)
    path = database_file(location)
    return Sql(lambda: _sqlite(path), str(path), user, read_only=not database.may_write(path))


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
