"""The sessions in PostgreSQL: shared by many people and machines, each person seeing their own.

Imports psycopg; loaded only when a PostgreSQL address is configured.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache

from psycopg.errors import UniqueViolation

from kogniterm.database import (
    migrate,
    open_postgres,
    storage_errors,
    transaction,
    without_password,
)
from kogniterm.sessions.backend import DuplicateError, Row
from kogniterm.sessions.schema import POSTGRES, ROOM


@cache
def _sql(sql: str) -> str:
    """The statement with psycopg's placeholders; ours never hold a question or percent sign."""
    return sql.replace("?", "%s")


class PostgresBackend:
    """One connection, bound to the rows of one person."""

    def __init__(self, url: str, *, user: str) -> None:
        self._url = url
        self._user = user
        self._connection = open_postgres(url, user=user)
        with storage_errors(url), ExitStack() as on_failure:
            on_failure.callback(self._connection.close)
            migrate(self._connection, ROOM, POSTGRES)
            # A commit that nobody asked to be durable does not wait for the server's disk.
            self._connection.execute("SET synchronous_commit = off")
            on_failure.pop_all()

    @property
    def place(self) -> str:
        return without_password(self._url)

    def execute(self, sql: str, values: Sequence[object] = ()) -> list[Row]:
        with self._errors():
            cursor = self._connection.execute(_sql(sql), values)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def transaction(self, *, durable: bool = False) -> Iterator[None]:
        with self._errors(), transaction(self._connection, durable=durable):
            yield

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
        return PostgresBackend(self._url, user=self._user)

    def problems(self) -> list[str]:
        return []  # the server checks its own pages; a client of it may not look at them

    def scrub(self) -> None:
        """Rewrite the tables without the dead rows. The server's write-ahead log and its
        archives and backups are out of our reach; docs/storage.md says so."""
        for table in ("records", "turn_texts", "sessions", "leases"):
            self.execute(f"VACUUM FULL {table}")

    def close(self) -> None:
        with self._errors():
            self._connection.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        with storage_errors(self._url):
            try:
                yield
            except UniqueViolation as error:
                raise DuplicateError("This is in {place} already.", place=self.place) from error
