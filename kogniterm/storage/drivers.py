"""Opening SQLite and PostgreSQL, transactions, numbered migrations, and one map of their errors.

Nothing else imports sqlite3 or psycopg but the other modules here: this one decides file modes,
pragmas and how long to wait for a lock, and turns the drivers' errors into `StorageError` kinds.
psycopg is loaded only when a PostgreSQL address is opened.
"""

from __future__ import annotations

import errno
import os
import select
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from kogniterm.errors import (
    StorageCorruptError,
    StorageError,
    StorageFullError,
    StorageLockedError,
    StorageLostError,
    why,
)
from kogniterm.storage.folders import private_folder
from kogniterm.storage.stores import (
    POSTGRES,
    connect_store,
    lower_scheme,
    scheme_of,
    without_password,
    without_passwords_of,
)
from kogniterm.types import Phrase

SqliteConnection = sqlite3.Connection

if TYPE_CHECKING:
    import psycopg

    PostgresConnection = psycopg.Connection[tuple[Any, ...]]
    Connection = sqlite3.Connection | PostgresConnection

SQLITE_MAGIC = b"SQLite format 3\0"
"""The first bytes of every SQLite database."""
BUSY_MILLISECONDS = 5000
"""Time that a write waits for other processes before it gives up with a clear error; on a slow disk
with many of them, 2000 were too few in 3 of 70 tries."""

_CONNECT_SECONDS = 10
_RETRY_SECONDS = 0.005
_PRAGMAS = (
    "synchronous=NORMAL",
    "secure_delete=ON",
    "foreign_keys=ON",
    "trusted_schema=OFF",
    "fullfsync=ON",
)
_FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)
"""The second is the file beside the database that does not fit the disk any more."""
_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_CORRUPT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_DISK_FULL = (
    "No space is left on the disk of {place}, or it is read-only; free space or make it writable."
)
_SERVER_LIMITS = {
    "53200": "The database server of {place} is out of memory; free memory there and try again.",
    "53300": (
        "{place} refused the connection: the server has too many connections; close some or try "
        "again later."
    ),
}
"""Messages for the server's limits, by PostgreSQL's SQLSTATE."""
_READ_ONLY = (
    "{place} is read-only and nothing was written; you can list, show and verify its contents."
)
_LOCKED_TEXT = (
    "{place} has been in use by another program for too long; close that program or try again."
)
_CORRUPT_TEXT = "{place} is damaged: {detail}"
_FAILED = "{place} could not be read or written: {detail}"
_NOT_YOURS = (
    "{place} cannot be read or written ({detail}); change its owner or "
    "permissions, or choose another location."
)
_LOST_TEXT = (
    "{place} cannot be reached; check the address and that the server is "
    "running, then try again: {detail}"
)
_DUPLICATE = "This entry already exists in {place}."
_OTHER_VERSION = "Another version of KogniTerm changed the tables of {place}; restart this one."
_NO_SUCH_NAME = ("no such table", "no such column", "has no column named")
_UNDEFINED = ("42P01", "42703")
"""A table or column that is not there: every statement of ours fits the tables of its version."""
_UNIQUE_VIOLATION = "23505"
_SERVER_LEFT = ("57P01", "57P02", "57P03")
"""The server shuts down, has crashed, or is starting."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered step of a package's schema: statements, then `run` for what SQL cannot say."""

    number: int
    name: str
    statements: tuple[str, ...] = ()
    run: Callable[[Any], None] | None = None


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables of one package: its migrations for each database, and what its rows need.

    `tables` and `indexes` (FTS5, SQLite only) keep deleted text until they are scrubbed. With
    `commits_late` a commit on a server that nobody asked to be durable does not wait for its disk.
    With `any_text`, text with broken bytes is handed on (to fail its hash) and fails no query.
    """

    package: str
    sqlite: tuple[Migration, ...]
    postgres: tuple[Migration, ...]
    tables: tuple[str, ...]
    indexes: tuple[str, ...] = ()
    commits_late: bool = False
    any_text: bool = False


class DuplicateError(StorageError):
    """A row with this key is there already."""


# --- errors ----------------------------------------------------------------------------------


@contextmanager
def storage_errors(place: Path | str) -> Iterator[None]:
    """Map sqlite3, psycopg and file errors raised inside to `StorageError` kinds."""
    try:
        yield
    except sqlite3.Error as error:
        raise _shown(_from_sqlite(error), place, error) from error
    except UnicodeDecodeError as error:  # SQLite quotes a damaged name in its message
        raise _shown((StorageCorruptError, _CORRUPT_TEXT), place, error) from error
    except OSError as error:
        raise _shown(_from_system(error), place, error) from error
    except _postgres_errors() as error:
        raise _shown(_from_postgres(error), place, error) from error


Kind = tuple[type[StorageError], str]
"""An error, and its message with the place and the detail left open."""


def _shown(kind: Kind, place: Path | str, error: Exception) -> StorageError:
    """Return an error without the passwords of an address; every message is made here."""
    if isinstance(error, OSError):
        named, said = error.filename or place, why(error).template
    else:
        named, said = place, str(error).strip().partition("\n")[0] or type(error).__name__
    detail = Phrase(without_passwords_of(str(place), said))
    return kind[0](kind[1], place=without_password(str(named)), detail=detail)


def _postgres_errors() -> tuple[type[Exception], ...]:
    """Return psycopg's errors, without loading it: what was never imported cannot have raised."""
    module = sys.modules.get("psycopg")
    return (module.Error,) if module is not None else ()


def _from_system(error: OSError) -> Kind:
    if error.errno in (errno.ENOSPC, errno.EROFS, errno.EDQUOT):
        return StorageFullError, _DISK_FULL
    if isinstance(error, ConnectionError):
        return StorageLostError, _LOST_TEXT
    return StorageError, _NOT_YOURS if isinstance(error, PermissionError) else _FAILED


def _from_sqlite(error: sqlite3.Error) -> Kind:
    extended = getattr(error, "sqlite_errorcode", 0)
    code = extended & 0xFF
    if isinstance(error, sqlite3.IntegrityError):
        return DuplicateError, _DUPLICATE
    if code in _FULL or extended in _FULL:
        return StorageFullError, _DISK_FULL
    if code == sqlite3.SQLITE_READONLY:
        return StorageFullError, _READ_ONLY
    if code in _LOCKED:
        return StorageLockedError, _LOCKED_TEXT
    if code in _CORRUPT:
        return StorageCorruptError, _CORRUPT_TEXT
    if any(one in str(error) for one in _NO_SUCH_NAME):
        return StorageError, _OTHER_VERSION
    return StorageError, _FAILED


def _from_postgres(error: Exception) -> Kind:
    state = getattr(error, "sqlstate", None) or ""
    lost = isinstance(error, sys.modules["psycopg"].OperationalError) and not state
    if state == _UNIQUE_VIOLATION:
        return DuplicateError, _DUPLICATE
    if state in _SERVER_LIMITS:
        return StorageError, _SERVER_LIMITS[state]
    if state in _UNDEFINED:
        return StorageError, _OTHER_VERSION
    if state in ("53100", "25006"):
        return StorageFullError, _DISK_FULL
    if state in ("55P03", "40P01", "57014"):
        return StorageLockedError, _LOCKED_TEXT
    if lost or state.startswith("08") or state in _SERVER_LEFT:
        return StorageLostError, _LOST_TEXT
    if state in ("XX001", "XX002"):
        return StorageCorruptError, _CORRUPT_TEXT
    return StorageError, _FAILED


# --- SQLite ----------------------------------------------------------------------------------


_kept_open: dict[tuple[int, int], int] = {}
"""Descriptors that were opened beside SQLite's own, by device and inode."""


def open_sqlite(path: Path) -> sqlite3.Connection:
    """Open (or make) the database file `path`, mode 0600, its folder made with mode 0700.

    The connection is in autocommit mode: write inside `transaction`. It may be used from any
    thread, one at a time. Raises `StorageError` kinds.
    """
    with storage_errors(path):
        private_folder(path.parent)
        # Nobody else may read it. One that is there is never opened here: closing any descriptor of
        # it would drop the locks that SQLite holds on it for this process
        # (https://www.sqlite.org/howtocorrupt.html, 2.2), and the next process to leave would take
        # the write-ahead log away from under us.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
        if not os.access(path, os.R_OK, effective_ids=True):
            # SQLite would only say that it cannot open the file.
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        connection = sqlite3.connect(
            path,
            timeout=BUSY_MILLISECONDS / 1000,
            isolation_level=None,
            check_same_thread=False,
        )
        with ExitStack() as on_failure:
            on_failure.callback(connection.close)
            _keep_a_log(connection)
            for pragma in _PRAGMAS:
                connection.execute(f"PRAGMA {pragma}")
            on_failure.pop_all()
        return connection


def _keep_a_log(connection: sqlite3.Connection) -> None:
    """Make writes go to a write-ahead log, so that readers and a writer do not wait for each other.

    SQLite refuses at once, without its busy time, where two processes ask for that on a new file
    at the same moment: each holds the lock to read that the other waits for.
    """
    deadline = time.monotonic() + BUSY_MILLISECONDS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            busy = getattr(error, "sqlite_errorcode", 0) & 0xFF in _LOCKED
            if not busy or time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            return


def may_write(path: Path) -> bool:
    """Return whether the database file `path` can be written to, or made."""
    real = path.resolve()
    if not os.path.lexists(real):
        return True
    return all(os.access(place, os.W_OK, effective_ids=True) for place in (real.parent, real))


def open_read_only(path: Path, package: str, migrations: Sequence[Migration]) -> sqlite3.Connection:
    """Open the database file `path` where nothing can be written, the schema of `package` current.

    SQLite cannot read a write-ahead log that was left behind there, nor can an older schema be
    brought up to date: then a private copy is opened, which is gone when it is closed. Raises
    `StorageError` kinds.
    """
    with storage_errors(path):
        path.open("rb").close()  # SQLite would only say that it cannot open the file
        log = path.with_name(path.name + "-wal")
        with ExitStack() as on_failure:
            connection = _immutable(path)
            on_failure.callback(connection.close)
            left = log.exists() and log.stat().st_size > 0
            if not left and schema_version(connection, package) >= len(migrations):
                on_failure.pop_all()
                return connection
        with tempfile.TemporaryDirectory(prefix="kogniterm-") as folder:
            copy = Path(folder) / path.name
            for file in (path, log) if left else (path,):
                shutil.copyfile(file, copy.with_name(file.name))
            with closing(open_sqlite(copy)) as connection:
                migrate(connection, package, migrations)
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return _immutable(copy)


def _immutable(path: Path) -> sqlite3.Connection:
    """Connect to the file as it is, without its log; no file is made beside it."""
    connection = sqlite3.connect(
        f"{path.resolve().as_uri()}?mode=ro&immutable=1",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
    )
    with ExitStack() as on_failure:
        on_failure.callback(connection.close)
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # the file is open now
        connection.execute("PRAGMA trusted_schema=OFF")
        on_failure.pop_all()
    return connection


@contextmanager
def raw_bytes(path: Path) -> Iterator[BinaryIO]:
    """Open the bytes of a file that SQLite may have open in this process, or of its log.

    The descriptor stays open until the process ends, one for each file; see `_make_private`.
    """
    found = path.stat()
    key = (found.st_dev, found.st_ino)
    if key not in _kept_open:
        _kept_open[key] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    with open(_kept_open[key], "rb", closefd=False) as file:
        file.seek(0)
        yield file


@contextmanager
def transaction(connection: Connection, *, durable: bool = False) -> Iterator[None]:
    """Write everything inside, or nothing.

    `durable` promises that the data has reached the disk when the block is left. Without it a
    commit survives the death of the process, but power loss may take the last ones. PostgreSQL
    follows the server's own setting otherwise, and waits for the disk when durable.
    """
    if not isinstance(connection, sqlite3.Connection):
        with connection.transaction():
            if durable:
                connection.execute("SET LOCAL synchronous_commit = on")
            yield
        return
    if durable:
        connection.execute("PRAGMA synchronous=FULL")
    try:
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            connection.commit()
        finally:
            if connection.in_transaction:
                connection.rollback()
    finally:
        if durable:
            connection.execute("PRAGMA synchronous=NORMAL")


def scrub(connection: sqlite3.Connection, indexes: Sequence[str] = ()) -> None:
    """After deletions: leave no deleted byte in the FTS5 `indexes`, the file, or its WAL."""
    for index in indexes:
        connection.execute(f"INSERT INTO {index}({index}) VALUES ('optimize')")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


# --- PostgreSQL ------------------------------------------------------------------------------


_BIND = (
    "SELECT rolsuper OR rolbypassrls, set_config('lock_timeout', %s, false), "
    "set_config('client_min_messages', 'warning', false), "
    "set_config('kogniterm.user_id', %s, false) FROM pg_roles WHERE rolname = current_user"
)


def open_postgres(url: str, *, user: str) -> PostgresConnection:
    """Connect to `url` in autocommit mode, bound to the rows of `user` by row-level security.

    Raises `StorageError` when the server cannot be reached, psycopg is not installed, or the
    database role could see everybody's rows (superuser, BYPASSRLS).
    """
    with storage_errors(url):
        connection = _connect(url)
        with ExitStack() as on_failure:
            on_failure.callback(connection.close)
            connection.autocommit = True  # or a transaction would stay open, and nothing be kept
            row = connection.execute(_BIND, (str(BUSY_MILLISECONDS), user)).fetchone()
            if row is None or row[0]:
                raise StorageError(
                    "The database role of {place} can see every user's rows; "
                    "connect as a role without SUPERUSER and BYPASSRLS.",
                    place=without_password(url),
                )
            on_failure.pop_all()
        return connection


def _connect(url: str) -> PostgresConnection:
    url = lower_scheme(url)
    if (scheme := scheme_of(url)) not in POSTGRES:
        server: PostgresConnection = connect_store(scheme, url, _postgres_errors)
        return server
    try:
        import psycopg
    except ImportError as error:
        raise StorageError(
            "PostgreSQL needs the package psycopg, which is not installed. `kogniterm doctor` "
            "shows the command that installs it."
        ) from error
    return psycopg.connect(
        url,
        connect_timeout=_CONNECT_SECONDS,
        application_name="kogniterm",
        # A session waits at the prompt for hours; routers forget silent connections.
        keepalives_idle=30,
        keepalives_interval=10,
        keepalives_count=3,
    )


USER_COLUMN = "user_id TEXT NOT NULL DEFAULT current_setting('kogniterm.user_id')"
"""The column that names the user of a row, in a database that users share."""


def user_table(
    name: str, columns: str, key: str, *, shared: bool, lenient: bool = False
) -> tuple[str, ...]:
    """Return statements that create a table with the primary key `key`.

    In a `shared` database a row belongs to its user, by whom the key begins; see `own_rows`.
    """
    if not shared:
        return (f"CREATE TABLE {name} ({columns}, PRIMARY KEY ({key}))",)
    create = f"CREATE TABLE {name} ({USER_COLUMN}, {columns}, PRIMARY KEY (user_id, {key}))"
    return (create, *own_rows(name, lenient=lenient))


def own_rows(table: str, *, lenient: bool = False) -> tuple[str, ...]:
    """Return statements after which each user sees and writes only their own rows of `table`.

    That holds for the owner of the table too. A connection that names no user gets an error; with
    `lenient` it sees no rows.
    """
    own = f"user_id = current_setting('kogniterm.user_id'{', true' if lenient else ''})"
    return (
        f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
        f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY",
        f"CREATE POLICY own_rows ON {table} USING ({own}) WITH CHECK ({own})",
    )


def has_hung_up(connection: PostgresConnection) -> bool:
    """Return whether the server of an idle connection has left: the next query would be lost.

    An idle server is silent, so nothing is sent as long as nothing stands in the socket.
    """
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    if not poll.poll(0):
        return False
    try:
        connection.execute("SELECT 1")
    except _postgres_errors():
        connection.close()
        return True
    return False


# --- migrations ------------------------------------------------------------------------------

_TABLE = (
    "CREATE TABLE IF NOT EXISTS schema_migrations ("
    "room TEXT NOT NULL, number INTEGER NOT NULL, name TEXT NOT NULL, PRIMARY KEY (room, number))"
)
_ADVISORY_LOCK = 0x6B6F676E  # "kogn": any fixed number will do, all processes must use the same


def schema_version(connection: Connection, package: str) -> int:
    """Return the number of the last migration applied for `package`; 0 when there is none."""
    execute: Callable[..., Any] = connection.execute
    if isinstance(connection, sqlite3.Connection):
        mark, table = "?", "(SELECT 1 FROM sqlite_master WHERE name = 'schema_migrations')"
    else:
        mark, table = "%s", "to_regclass('schema_migrations')"
    if not execute(f"SELECT {table}").fetchone()[0]:
        return 0
    query = f"SELECT coalesce(max(number), 0) FROM schema_migrations WHERE room = {mark}"
    return int(execute(query, (package,)).fetchone()[0])


def migrate(connection: Connection, package: str, migrations: Sequence[Migration]) -> int:
    """Bring the schema of `package` up to date, all or nothing; returns how many steps were run.

    Several packages share one database, each with its own numbers from 1. Raises `StorageError`
    when the database was written by a newer KogniTerm.
    """
    if [step.number for step in migrations] != list(range(1, len(migrations) + 1)):
        raise ValueError(f"migrations of {package} must be numbered 1, 2, 3 …")
    version = schema_version(connection, package)
    if version > len(migrations):
        raise StorageError(
            "The database was written by a newer KogniTerm (schema {found}, "
            "this version supports {known}); update KogniTerm to open it.",
            found=version,
            known=len(migrations),
        )
    if version == len(migrations):
        return 0
    with transaction(connection, durable=True):
        return _apply(connection, package, migrations)


def _apply(connection: Connection, package: str, migrations: Sequence[Migration]) -> int:
    """Run what is missing; inside a write transaction, so of two processes one does the work."""
    execute: Callable[..., Any] = connection.execute
    mark = "?"
    if not isinstance(connection, sqlite3.Connection):
        execute("SELECT pg_advisory_xact_lock(%s)", (_ADVISORY_LOCK,))
        mark = "%s"
    execute(_TABLE)
    missing = migrations[schema_version(connection, package) :]
    for step in missing:
        for statement in step.statements:
            execute(statement)
        if step.run is not None:
            step.run(connection)
        execute(
            f"INSERT INTO schema_migrations (room, number, name) VALUES ({mark}, {mark}, {mark})",
            (package, step.number, step.name),
        )
    return len(missing)
