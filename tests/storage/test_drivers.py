"""Opening databases: modes, pragmas, errors, migrations."""

from __future__ import annotations

import hashlib
import re
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from kogniterm.errors import (
    StorageCorruptError,
    StorageError,
    StorageFullError,
    StorageLockedError,
)
from kogniterm.storage.drivers import (
    Migration,
    migrate,
    open_postgres,
    open_sqlite,
    raw_bytes,
    schema_version,
    scrub,
    storage_errors,
    transaction,
)
from kogniterm.storage.head_file import of_server
from kogniterm.storage.stores import without_password

NOTES = Migration(1, "notes", ("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT)",))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_only_the_owner_can_read_the_file_and_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "state" / "kogniterm.db"
    with closing(open_sqlite(path)) as connection:
        migrate(connection, "test", [NOTES])
        assert mode(path.parent) == 0o700
        assert [mode(file) for file in path.parent.iterdir()] == [0o600] * 3  # db, wal, shm


def test_a_file_with_lax_modes_is_closed_to_others(tmp_path: Path) -> None:
    path = tmp_path / "kogniterm.db"
    path.touch(mode=0o644)
    open_sqlite(path).close()
    assert mode(path) == 0o600


def test_a_failed_block_leaves_nothing_behind(tmp_path: Path) -> None:
    with closing(open_sqlite(tmp_path / "a.db")) as connection:
        migrate(connection, "test", [NOTES])
        insert = "INSERT INTO notes (id, text) VALUES (1, 'half'), (1, 'twice the same id')"
        with pytest.raises(sqlite3.IntegrityError), transaction(connection):
            connection.execute(insert)
        with transaction(connection, durable=True):
            connection.execute("INSERT INTO notes (text) VALUES ('whole')")
        assert connection.execute("SELECT text FROM notes").fetchall() == [("whole",)]


def test_a_database_held_by_another_process_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with closing(open_sqlite(path)) as first, closing(open_sqlite(path)) as second:
        second.execute("PRAGMA busy_timeout=0")
        with (
            transaction(first),
            pytest.raises(StorageLockedError, match="in use by another program"),
            storage_errors(path),
            transaction(second),
        ):
            pass


def test_a_new_database_that_another_program_makes_just_now_is_waited_for(tmp_path: Path) -> None:
    """SQLite itself fails at once here, regardless of its timeout."""
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        done = threading.Timer(0.1, other.execute, ("ROLLBACK",))
        done.start()
        with closing(open_sqlite(path)) as connection:
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        done.join()


AND_LEAVE = """
import sys
import threading
from contextlib import closing
from pathlib import Path
from kogniterm.storage.drivers import open_sqlite
with closing(open_sqlite(Path(sys.argv[1]))) as connection:
    print(connection.execute("SELECT count(*) FROM notes").fetchone()[0])
"""


@pytest.mark.parametrize("look", ["open it again", "read its bytes", "read its log", "its index"])
def test_a_process_that_leaves_does_not_take_the_log_from_another(
    tmp_path: Path, look: str
) -> None:
    """Each package opens the same file itself, which must not release SQLite's locks."""
    path = tmp_path / "a.db"

    def another() -> int:
        words = [sys.executable, "-c", AND_LEAVE, str(path)]
        return int(subprocess.run(words, check=True, capture_output=True).stdout)

    with closing(open_sqlite(path)) as connection:
        migrate(connection, "test", [NOTES])
        connection.execute("INSERT INTO notes (text) VALUES ('before')")
        beside = {"read its log": "-wal", "its index": "-shm"}.get(look, "")
        if look == "open it again":
            open_sqlite(path).close()
        else:
            for _ in range(2):
                with raw_bytes(path.with_name(path.name + beside)) as file:
                    assert file.read()
        assert another() == 1
        connection.execute("INSERT INTO notes (text) VALUES ('after')")
        assert another() == 2
    assert another() == 2


def test_a_file_that_is_no_database_is_called_damaged(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(b"this is not a database, whatever its name says" * 100)
    with pytest.raises(StorageCorruptError, match="damaged"):
        open_sqlite(path)


def test_a_full_database_keeps_what_it_had(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with closing(open_sqlite(path)) as connection:
        migrate(connection, "test", [NOTES])
        with transaction(connection):
            connection.execute("INSERT INTO notes (text) VALUES ('kept')")
        connection.execute("PRAGMA max_page_count=10")
        with (
            pytest.raises(StorageFullError, match="No space is left"),
            storage_errors(path),
            transaction(connection, durable=True),
        ):
            connection.execute("INSERT INTO notes (text) VALUES (?)", ("x" * 100_000,))
        assert connection.execute("SELECT text FROM notes").fetchall() == [("kept",)]
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_disk_without_space_for_the_shared_memory_of_a_database_is_full(tmp_path: Path) -> None:
    failure = sqlite3.OperationalError("disk I/O error")
    failure.sqlite_errorcode = sqlite3.SQLITE_IOERR_SHMSIZE
    with pytest.raises(StorageFullError, match="No space is left"), storage_errors(tmp_path):
        raise failure


def test_a_state_folder_that_cannot_be_made_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="could not be read or written"):
        open_sqlite(tmp_path / "file" / "a.db")


def test_migrations_run_once_in_order_and_per_room(tmp_path: Path) -> None:
    ran: list[str] = []
    steps = [
        NOTES,
        Migration(2, "first note", run=lambda connection: ran.append("two")),
    ]
    with closing(open_sqlite(tmp_path / "a.db")) as connection:
        assert schema_version(connection, "sessions") == 0
        assert migrate(connection, "sessions", steps[:1]) == 1
        assert migrate(connection, "sessions", steps) == 1
        assert migrate(connection, "sessions", steps) == 0
        assert schema_version(connection, "sessions") == 2
        assert schema_version(connection, "memory") == 0
        assert ran == ["two"]


def test_a_failing_migration_changes_nothing(tmp_path: Path) -> None:
    steps = [NOTES, Migration(2, "broken", ("CREATE TABLE notes (id INTEGER)",))]
    with closing(open_sqlite(tmp_path / "a.db")) as connection:
        with pytest.raises(sqlite3.OperationalError):
            migrate(connection, "sessions", steps)
        assert schema_version(connection, "sessions") == 0
        assert migrate(connection, "sessions", steps[:1]) == 1


def test_a_database_of_a_newer_version_is_not_touched(tmp_path: Path) -> None:
    with closing(open_sqlite(tmp_path / "a.db")) as connection:
        migrate(connection, "sessions", [NOTES, Migration(2, "later")])
        with pytest.raises(StorageError, match="newer KogniTerm"):
            migrate(connection, "sessions", [NOTES])


def test_migrations_must_be_numbered_without_gaps(tmp_path: Path) -> None:
    with (
        closing(open_sqlite(tmp_path / "a.db")) as connection,
        pytest.raises(ValueError, match="numbered 1, 2, 3"),
    ):
        migrate(connection, "sessions", [Migration(2, "two")])


def test_deleted_text_is_gone_from_every_file(tmp_path: Path) -> None:
    schema = Migration(1, "fts", ("CREATE VIRTUAL TABLE found USING fts5(text)",))
    with closing(open_sqlite(tmp_path / "a.db")) as connection:
        migrate(connection, "test", [schema])
        with transaction(connection):
            connection.execute("INSERT INTO found (text) VALUES ('xylophone')")
        assert any(b"xylophone" in file.read_bytes() for file in tmp_path.iterdir())
        with transaction(connection):
            connection.execute("DELETE FROM found")
        scrub(connection, ["found"])
        assert not any(b"xylophon" in file.read_bytes() for file in tmp_path.iterdir())


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://me:secret@host:5432/db", "postgresql://me:…@host:5432/db"),
        ("postgresql://me:se@cret@host/db?user=a@b", "postgresql://me:…@host/db?user=a@b"),
        ("postgresql://me:se?c=ret@host/db", "postgresql://me:…@host/db"),
        ("postgresql://me:se/cret@host/db", "postgresql://me:…@host/db"),
        ("postgresql://host/db?password=secret&sslmode=require#a", "postgresql://host/db?password=…&sslmode=require#a"),
        ("postgresql://me:secret@host/db?sslmode=require&sslp%61ssword=secret", "postgresql://me:…@host/db?sslmode=require&sslp%61ssword=…"),
        ("carrots://host/db?auth_token=secret", "carrots://host/db?auth_token=…"),
        ("postgresql://me@host:5432/db?passfile=/a", "postgresql://me@host:5432/db?passfile=/a"),
        ("/home/me/a:b@c.db", "/home/me/a:b@c.db"),
    ],
)  # fmt: skip
def test_an_address_is_shown_without_its_password(address: str, shown: str) -> None:
    assert without_password(address) == shown


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("postgresql://me:se@cret@host/db", "postgresql://me@host/db"),
        ("postgresql://:secret@host/db", "postgresql://host/db"),
        ("postgresql://me@host/db?password=secret", "postgresql://me@host/db"),
        ("postgresql://me@host/db?a=b&password=secret", "postgresql://me@host/db?a=b"),
        ("postgresql://me@host/db?password=secret&a=b", "postgresql://me@host/db?a=b"),
    ],
)
def test_the_head_file_of_a_server_does_not_depend_on_the_password(
    tmp_path: Path, address: str, name: str
) -> None:
    shown = without_password(address)
    found = [of_server(tmp_path, url) for url in (name, address, shown)]
    assert len({one.path for one in found if one is not None}) == 1
    earlier = hashlib.sha256(shown.encode()).hexdigest()[:12]
    (tmp_path / f"server-{earlier}.heads").write_text("earlier")
    for url in (address, name):
        file = of_server(tmp_path, url)
        assert file is not None
        assert file.path.read_text() == "earlier"


@pytest.mark.parametrize(
    "raised",
    [
        ConnectionRefusedError(111, "Connection refused"),
        TimeoutError("carrots://me:tor/tuga@host did not answer"),
        OSError(2, "No such file", "carrots://me:tor/tuga@host"),
        sqlite3.OperationalError('port "tor" is not a number'),
    ],
    ids=lambda raised: type(raised).__name__,
)
def test_no_error_shows_the_password_of_an_address(raised: Exception) -> None:
    with pytest.raises(StorageError) as shown, storage_errors("carrots://me:tor/tuga@host"):
        raise raised
    assert "carrots://me:…@host" in str(shown.value)
    assert not {"tor", "tuga"} & set(re.findall(r"\w+", str(shown.value)))


def test_libpq_shows_no_password() -> None:
    pytest.importorskip("psycopg")
    for address in (
        "POSTGRESQL://me:tortuga@127.0.0.1:1/db",
        "postgresql://me:tor/tuga@127.0.0.1:1/db",
        "postgresql://me@127.0.0.1:1/db?password=tortuga&nothing=1",
    ):
        with pytest.raises(StorageError) as shown:
            open_postgres(address, user="ana")
        assert "tor" not in str(shown.value)
    with pytest.raises(StorageError, match=r"port 1 failed"):
        open_postgres("PostgreSQL://me:tortuga@127.0.0.1:1/db", user="ana")


def test_sqlite_users_do_not_pay_for_psycopg() -> None:
    code = "import kogniterm.storage.drivers, sys; raise SystemExit('psycopg' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("DiskFull", "No space is left"),
        ("OutOfMemory", "is out of memory"),
        ("TooManyConnections", "too many connections"),
    ],
)
def test_each_limit_of_a_server_has_its_own_sentence(kind: str, said: str) -> None:
    errors = pytest.importorskip("psycopg.errors")
    raised = getattr(errors, kind)("refused")
    with pytest.raises(StorageError, match=said), storage_errors("postgresql://host/base"):
        raise raised


def test_a_durable_block_waits_for_the_disk_of_a_server(postgres_url: str) -> None:
    with closing(open_postgres(postgres_url, user="ana")) as connection:
        connection.execute("SET synchronous_commit = off")
        for durable, waits in ((True, "on"), (False, "off")):
            with transaction(connection, durable=durable):
                ((found,),) = connection.execute("SHOW synchronous_commit").fetchall()
            assert found == waits
