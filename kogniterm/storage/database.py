"""One connection to SQLite or PostgreSQL, used alike by every package that stores rows.

SQL is written once, with `?` for values. A package hands in its `Schema`; opening brings it up to
date.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kogniterm.errors import StorageCorruptError
from kogniterm.storage import drivers
from kogniterm.storage.damaged_file import FileInUse
from kogniterm.storage.drivers import Schema, storage_errors
from kogniterm.storage.folders import expand_path
from kogniterm.storage.head_file import HeadFile, beside, of_server
from kogniterm.storage.stores import scheme_of, without_password
from kogniterm.text.visible import whole

if TYPE_CHECKING:
    from kogniterm.storage.drivers import Connection

Row = tuple[Any, ...]
Value = TypeVar("Value")

VALUES_AT_ONCE = 500
"""Values in one statement; SQLite takes 999 in its older versions."""


class _MappedErrors:
    """Map errors raised inside; a file found to be damaged is checked at the next start."""

    def __init__(self, place: str) -> None:
        self._place = place
        self.file: FileInUse | None = None

    def __enter__(self) -> None:
        """Begin; entered for each statement, which a generator would make dear."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is None:
            return
        try:
            with storage_errors(self._place):
                raise error
        except StorageCorruptError as mapped:
            # A record that cannot be read has another cause, and is no damage of the file.
            if self.file is not None and isinstance(mapped.__cause__, sqlite3.Error):
                self.file.note_damage()
            raise


class Database:
    """A connection to the tables of one package, bound to one user; threads take turns.

    `location` is a file, or the address of a server: there several users and machines write, and
    each user sees only their own rows. `is_postgres` is true of every address, because all stores
    there speak PostgreSQL. `place` is the location as it may be shown. Where a file cannot be
    written it can be read, and nothing is made. `heads` is the head file: beside a
    database file, or this machine's own in the folder `heads` for a server.

    Methods raise `StorageError` kinds only: `DuplicateError` for a row whose key is taken.
    """

    def __init__(
        self, location: Path | str, schema: Schema, *, user: str = "", heads: Path | None = None
    ) -> None:
        self.is_postgres = bool(scheme_of(location))
        self.place = without_password(str(location))
        self.user = user
        self.read_only = not self.is_postgres and not drivers.may_write(Path(location))
        self.heads = (
            of_server(heads, str(location))
            if self.is_postgres
            else HeadFile(beside(Path(location)))
        )
        self._location, self._schema, self._heads_folder = location, schema, heads
        self._lock = threading.RLock()
        self._depth = 0
        self._durable = False
        self._errors = _MappedErrors(self.place)
        self._in_use: FileInUse | None = None
        with ExitStack() as on_failure, self._errors:
            if not self.is_postgres and not self.read_only:
                self._in_use = self._errors.file = FileInUse(Path(location))
                on_failure.callback(self._in_use.release)
            self._connection = self._connect()
            on_failure.pop_all()

    def _connect(self) -> Connection:
        schema = self._schema
        if self.is_postgres:
            server = drivers.open_postgres(str(self._location), user=self.user)
            with storage_errors(self.place), ExitStack() as on_failure:
                on_failure.callback(server.close)
                drivers.migrate(server, schema.package, schema.postgres)
                if schema.commits_late:
                    server.execute("SET synchronous_commit = off")
                on_failure.pop_all()
            return server
        path = Path(self._location)
        if self.read_only:
            connection = drivers.open_read_only(path, schema.package, schema.sqlite)
        else:
            connection = drivers.open_sqlite(path)
        with ExitStack() as on_failure:
            on_failure.callback(connection.close)
            if schema.any_text:
                connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
            drivers.migrate(connection, schema.package, schema.sqlite)
            on_failure.pop_all()
        return connection

    def _ensure_connection(self) -> Connection:
        """Return the connection, made anew when the server has left.

        A query that it interrupted is not repeated: only the caller can tell whether it was done.
        """
        connection = self._connection
        if (
            not isinstance(connection, sqlite3.Connection)
            and not self._depth
            and drivers.has_hung_up(connection)
        ):
            self._connection = self._connect()
        return self._connection

    def _cursor(self, statement: str, values: Sequence[object] = ()) -> Any:
        execute: Any = self._ensure_connection().execute
        if self.is_postgres:  # psycopg's placeholders; ours hold no `?` or `%` in texts
            statement = statement.replace("?", "%s")
        try:
            return execute(statement, values)
        except UnicodeEncodeError:  # a folder's name may hold bytes that are no UTF-8
            return execute(statement, [whole(v) if isinstance(v, str) else v for v in values])

    def execute(self, statement: str, values: Sequence[object] = ()) -> list[Row]:
        with self._lock, self._errors:
            cursor = self._cursor(statement, values)
            return list(cursor.fetchall()) if cursor.description else []

    def one(self, statement: str, values: Sequence[object] = ()) -> Row | None:
        rows = self.execute(statement, values)
        return rows[0] if rows else None

    def run(self, statement: str, values: Sequence[object] = ()) -> int:
        """Run one statement; returns the number of rows that it touched."""
        with self._lock, self._errors:
            return int(self._cursor(statement, values).rowcount)

    @property
    def server(self) -> Any:
        """Return the connection to a server, for a library that writes in our transaction."""
        return self._ensure_connection()

    def each(self, statement: str) -> Iterator[Row]:
        """Yield every row that `statement` gives, a few at a time; others wait until it is done."""
        with self._lock, self._errors:
            if not self.is_postgres:
                yield from self._cursor(statement)
                return
            with self.transaction():
                connection: Any = self._connection
                with connection.cursor(name="kogniterm_rows") as cursor:
                    cursor.itersize = 100
                    yield from cursor.execute(statement)

    @contextmanager
    def transaction(self, *, durable: bool = False) -> Iterator[None]:
        """Write all or nothing; `durable` waits for the disk. A block in another one joins it."""
        with self._lock:
            if self._depth:
                if durable and not self._durable:
                    raise ValueError("a durable transaction cannot join one that is not")
                yield
                return
            with (
                self._errors,
                drivers.transaction(self._ensure_connection(), durable=durable),
            ):
                self._depth, self._durable = 1, durable
                try:
                    if self.is_postgres:
                        # A pooled connection could carry another user's setting: set it again.
                        self._cursor(
                            "SELECT set_config('kogniterm.user_id', ?, true)", (self.user,)
                        )
                    yield
                finally:
                    self._depth = 0

    def clock(self) -> float:
        """Return the seconds since the epoch, by one clock for all who share the database."""
        if not self.is_postgres:
            return time.time()
        ((seconds,),) = self.execute("SELECT extract(epoch FROM clock_timestamp())::float8")
        return float(seconds)

    def another(self) -> Database:
        """Open a second connection to the same database, for use in another thread."""
        return Database(self._location, self._schema, user=self.user, heads=self._heads_folder)

    def problems(self) -> list[str]:
        """Return the faults in a file's structure; a server checks its own pages."""
        if self.is_postgres:
            return []
        rows = self.execute("PRAGMA integrity_check") + self.execute("PRAGMA foreign_key_check")
        found = [" ".join(map(str, row)) for row in rows if row != ("ok",)]
        if found and self._in_use is not None:
            self._in_use.note_damage()
        return found

    def scrub(self, *tables: str) -> None:
        """After deletions: leave nothing of them in the file and its log, or the server's tables.

        On a server only `tables` are rewritten, where some are named.

        The server's log, archives and backups are out of reach; docs/storage.md says so.
        """
        with self._lock, self._errors:
            if isinstance(self._connection, sqlite3.Connection):
                drivers.scrub(self._connection, self._schema.indexes)
                return
            for table in tables or self._schema.tables:
                self._cursor(f"VACUUM (FULL) {table}")

    def close(self) -> None:
        with self._lock, self._errors:
            self._connection.close()
        if self._in_use is not None:
            self._in_use.release()


def in_pieces(
    values: Sequence[Value], size: int = VALUES_AT_ONCE
) -> Iterator[tuple[Sequence[Value], str]]:
    """Yield some of the values at a time, with a placeholder for each."""
    for start in range(0, len(values), size):
        some = values[start : start + size]
        yield some, ", ".join("?" * len(some))


@lru_cache(maxsize=512)
def database_file(location: str | Path) -> Path:
    """Return the SQLite file of `location`: itself, or `kogniterm.db` in the folder it names."""
    path = expand_path("", location)
    if path.is_dir() or not path.suffix:
        return path / "kogniterm.db"
    return path
