"""The sessions in PostgreSQL: shared by many people and machines, each person seeing their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import TYPE_CHECKING

from kogniterm.database import (
    has_hung_up,
    migrate,
    open_postgres,
    storage_errors,
    transaction,
    without_password,
)
from kogniterm.errors import StorageError
from kogniterm.heads import HeadFile
from kogniterm.sessions.backend import DuplicateError, Row
from kogniterm.sessions.schema import POSTGRES, ROOM

if TYPE_CHECKING:
    from kogniterm.database import PostgresConnection

_UNIQUE_VIOLATION = "23505"


@cache
def _sql(sql: str) -> str:
    """The statement with psycopg's placeholders; ours never hold a question or percent sign."""
    return sql.replace("?", "%s")


class PostgresBackend:
    """One connection, bound to the rows of one person. `heads` is this machine's head file."""

    shared = True
    read_only = False

    def __init__(self, url: str, *, user: str, heads: HeadFile | None = None) -> None:
        self._url = url
        self._user = user
        self.heads = heads
        self._writing = False
        self._connection = self._connect()

    def _connect(self) -> PostgresConnection:
        connection = open_postgres(self._url, user=self._user)
        with storage_errors(self._url), ExitStack() as on_failure:
            on_failure.callback(connection.close)
            migrate(connection, ROOM, POSTGRES)
            # A commit that nobody asked to be durable does not wait for the server's disk.
            connection.execute("SET synchronous_commit = off")
            on_failure.pop_all()
        return connection

    def _connected(self) -> PostgresConnection:
        """The connection, made anew when the server has left. What it left in the middle of is not
        repeated here: only who asked can tell whether it had been done."""
        if not self._writing and has_hung_up(self._connection):
            self._connection = self._connect()
        return self._connection

    @property
    def place(self) -> str:
        return without_password(self._url)

    def execute(self, sql: str, values: Sequence[object] = ()) -> list[Row]:
        with self._errors():
            cursor = self._connected().execute(_sql(sql), values)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def transaction(self, *, durable: bool = False) -> Iterator[None]:
        with self._errors(), transaction(self._connected(), durable=durable):
            outer, self._writing = self._writing, True
            try:
                yield
            finally:
                self._writing = outer

    def search(self, words: Sequence[str], limit: int) -> list[Row]:
        query = " & ".join(f"{word}:*" for word in words)
        return self.execute(
            "SELECT session_id, turn, text FROM turn_texts, to_tsquery('simple', ?) AS query "
            "WHERE to_tsvector('simple', words) @@ query "
            "ORDER BY ts_rank(to_tsvector('simple', words), query) DESC, session_id, turn LIMIT ?",
            (query, limit),
        )

    def clock(self) -> float:
        ((seconds,),) = self.execute("SELECT extract(epoch FROM clock_timestamp())::float8")
        return float(seconds)

    def another(self) -> PostgresBackend:
        return PostgresBackend(self._url, user=self._user, heads=self.heads)

    def problems(self) -> list[str]:
        return []  # the server checks its own pages; a client of it may not look at them

    def scrub(self) -> None:
        """Rewrite the tables without the dead rows. The server's write-ahead log and its
        archives and backups are out of our reach; docs/storage.md says so."""
        for table in ("records", "turn_texts", "sessions", "leases", "removals"):
            self.execute(f"VACUUM FULL {table}")

    def close(self) -> None:
        with self._errors():
            self._connection.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            with storage_errors(self._url):
                yield
        except StorageError as error:
            if getattr(error.__cause__, "sqlstate", None) != _UNIQUE_VIOLATION:
                raise
            raise DuplicateError("This is in {place} already.", place=self.place) from error
