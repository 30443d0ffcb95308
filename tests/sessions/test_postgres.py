"""Requirements of a shared database only: each user sees their own rows and no others."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

import psycopg
import pytest

from kogniterm.errors import (
    StorageConflictError,
    StorageError,
    StorageLockedError,
    StorageLostError,
    UsageError,
)
from kogniterm.sessions.chain_audit import verify_all
from kogniterm.sessions.journal.journal import DURABLE
from kogniterm.sessions.records import Outcome
from kogniterm.sessions.session_database import SESSIONS, open_store
from kogniterm.sessions.session_transfer import copy_all, export_lines, import_lines
from kogniterm.sessions.store import SessionStore
from kogniterm.storage.database import Database
from kogniterm.storage.drivers import DuplicateError
from tests.support.conversation import RECORDS_PER_TURN, command_turn, write
from tests.support.environments import environ_of
from tests.support.forge import Forge
from tests.support.postgres import address, crash, fresh_schema, hang_up, start

TABLES = ("sessions", "records", "turn_texts", "leases", "heads", "removals")


def store_for(url: str, user: str) -> SessionStore:
    return SessionStore(Database(url, SESSIONS, user=user), version="1.0")


def with_a_session(store: SessionStore, task: str) -> str:
    journal = store.create(folder="/home", model="m")
    write(journal, command_turn(1, task))
    journal.close()
    return journal.state.session_id


def test_users_cannot_read_or_change_the_rows_of_others(postgres_url: str) -> None:
    ana, bob = store_for(postgres_url, "ana"), store_for(postgres_url, "bob")
    session = with_a_session(ana, "Ana's carrots")
    held = ana.open(session)
    assert bob.sessions() == []
    assert bob.search("carrots") == []
    with pytest.raises(UsageError):
        bob.open(session)
    for table in TABLES:
        assert bob.database.execute(f"SELECT count(*) FROM {table}") == [(0,)]
        bob.database.execute(f"DELETE FROM {table}")
        bob.database.execute(f"UPDATE {table} SET user_id = 'bob'")
    assert len(ana.sessions()) == 1
    with pytest.raises(StorageError, match="row-level security"):
        bob.database.execute(
            "INSERT INTO sessions (user_id, id, folder, created, updated) "
            "VALUES ('ana', 'planted', '/', 0, 0)"
        )
    held.close()
    ana.close()
    bob.close()


def test_two_users_may_import_the_same_session(postgres_url: str) -> None:
    ana, bob = store_for(postgres_url, "ana"), store_for(postgres_url, "bob")
    session = with_a_session(ana, "Shared")
    lines = list(export_lines(ana, session))
    import_lines(bob, lines)
    assert list(export_lines(bob, session)) == lines
    bob.delete([session])
    assert list(export_lines(ana, session)) == lines
    ana.close()
    bob.close()


def test_every_table_forces_row_security(postgres_url: str) -> None:
    store = store_for(postgres_url, "ana")
    rows = store.database.execute(
        "SELECT relname, relrowsecurity AND relforcerowsecurity FROM pg_class "
        "WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' "
        "AND relname <> 'schema_migrations'"
    )
    assert dict(rows) == dict.fromkeys(TABLES, True)
    assert len(SESSIONS.postgres) == 6
    store.close()


def test_a_connection_without_a_user_reaches_nothing(postgres_url: str) -> None:
    store = store_for(postgres_url, "ana")
    with_a_session(store, "Ana's carrots")
    store.close()
    with (
        psycopg.connect(postgres_url, autocommit=True) as connection,
        pytest.raises(psycopg.Error, match=r"kogniterm\.user_id"),
    ):
        connection.execute("SELECT * FROM records")


def test_a_role_that_sees_everything_is_refused(postgres_server: Path) -> None:
    with pytest.raises(StorageError, match="without SUPERUSER"):
        Database(address(postgres_server, role="postgres"), SESSIONS, user="ana")


def test_an_unreachable_server_is_one_clear_error_without_the_password() -> None:
    with pytest.raises(StorageError) as raised:
        Database("postgresql://ana:hunter2@127.0.0.1:1/none", SESSIONS, user="ana")
    assert "hunter2" not in str(raised.value)


def test_a_table_locked_for_too_long_is_a_clear_error(postgres_url: str) -> None:
    store = store_for(postgres_url, "ana")
    store.database.execute("SET lock_timeout = 1")
    with psycopg.connect(postgres_url) as other:
        other.execute("LOCK TABLE records")
        with pytest.raises(StorageLockedError, match="in use"):
            store.database.execute("SELECT count(*) FROM records")
    store.close()


def test_a_connection_that_broke_while_idle_is_made_anew(
    postgres_url: str, postgres_server: Path
) -> None:
    store = store_for(postgres_url, "ana")
    hang_up(postgres_server, backend_pid(store))
    assert store.sessions() == []
    key = with_a_session(store, "count")
    hang_up(postgres_server, backend_pid(store))
    with store.database.transaction():
        assert [info.id for info in store.sessions()] == [key]
    store.close()


def test_a_connection_that_breaks_in_a_transaction_is_a_clear_error(
    postgres_url: str, postgres_server: Path
) -> None:
    store = store_for(postgres_url, "ana")

    def lose_a_transaction() -> None:
        with store.database.transaction():
            hang_up(postgres_server, backend_pid(store))

    with pytest.raises(StorageLostError, match="cannot be reached"):
        lose_a_transaction()
    assert store.sessions() == []
    store.close()


def test_a_record_is_written_once_though_the_connection_breaks_before_its_commit(
    postgres_url: str, postgres_server: Path
) -> None:
    broken: list[str] = []

    def break_once(point: str) -> None:
        if point == "written-outcome" and not broken:
            broken.append(point)
            hang_up(postgres_server, backend_pid(store))

    store = SessionStore(
        Database(postgres_url, SESSIONS, user="ana"), version="1.0", fault=break_once
    )
    key = with_a_session(store, "count")
    assert broken
    assert kinds(store, key).count("outcome") == 1
    store.close()


def test_a_record_is_written_once_though_the_connection_breaks_after_its_commit(
    postgres_url: str, postgres_server: Path
) -> None:
    # A short name: the address of a socket is limited to about a hundred bytes.
    with TemporaryDirectory() as folder, Wire(postgres_server, Path(folder)) as wire:
        through = postgres_url.replace(
            quote(str(postgres_server), safe=""), quote(str(wire.folder), safe="")
        )
        store = store_for(through, "ana")
        journal = store.create(folder="/home", model="m")
        for body in command_turn(1, "count"):
            if isinstance(body, Outcome):
                wire.cut_after_commit = True
            journal.append(body)
        assert not wire.cut_after_commit
        assert kinds(store, journal.state.session_id).count("outcome") == 1
        journal.close()
        store.close()


def test_records_that_a_crash_of_the_server_lost_are_written_again() -> None:
    server = start(os.getpid(), durable=True)
    with fresh_schema(server) as url:
        store, other = store_for(url, "ana"), store_for(url, "ana")
        journal = store.create(folder="/home", model="m")
        key = journal.state.session_id
        for turn in (1, 2):
            for body in command_turn(turn, "count"):
                journal.append(body)
                written = len(kinds(other, key))
                crash(server)
                kept = len(kinds(other, key))
                assert (kept == written) == isinstance(body, DURABLE)
        journal.close()
        assert len(kinds(store, key)) == 1 + 2 * RECORDS_PER_TURN
        (report,) = verify_all(store.database).sessions
        assert report.intact, report
        assert store.info(key).turns == 2
        store.close()
        other.close()


def test_a_record_is_refused_where_others_before_it_are_gone(postgres_url: str) -> None:
    store = store_for(postgres_url, "ana")
    journal = store.create(folder="/home", model="m")
    write(journal, command_turn(1, "count"))
    store.database.execute("DELETE FROM records WHERE seq > 3")  # as an older backup
    with pytest.raises(StorageConflictError, match="resume the session"):
        write(journal, command_turn(2, "count"))
    assert len(kinds(store, journal.state.session_id)) == 3
    journal.close()
    store.close()


def backend_pid(store: SessionStore) -> int:
    """Return the process of the server that serves the store's connection."""
    ((pid,),) = store.database.execute("SELECT pg_backend_pid()")
    return int(pid)


def kinds(store: SessionStore, key: str) -> list[str]:
    """Return the kinds of a session's records, in order."""
    rows = store.database.execute(
        "SELECT kind FROM records WHERE session_id = ? ORDER BY seq", (key,)
    )
    return [kind for (kind,) in rows]


class Wire:
    """A proxy between a client and the server, whose socket is in `folder`.

    It can disconnect after a commit, while the answer is on its way.
    """

    def __init__(self, server: Path, folder: Path) -> None:
        self.folder = folder
        self.cut_after_commit = False
        (name,) = (one.name for one in server.glob(".s.PGSQL.*") if one.is_socket())
        self._server = server / name
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / name))
        self._listener.listen()
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        for one in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for one in (self._listener, *self._open):
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(str(self._server))
                self._open += [client, server]
                thread = threading.Thread(target=self._pass_on, args=(client, server))
                self._threads.append(thread)
                thread.start()

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        """Copy each side's bytes of one connection to the other, until one of them disconnects."""
        committing = False
        with contextlib.suppress(OSError):
            while True:
                for source in select.select([client, server], [], [])[0]:
                    data = source.recv(1 << 16)
                    if source is client:
                        committing = b"COMMIT" in data
                        server.sendall(data)
                    elif data and committing and self.cut_after_commit:
                        self.cut_after_commit = False
                        data = b""
                    else:
                        client.sendall(data)
                    if not data:
                        client.shutdown(socket.SHUT_RDWR)
                        server.shutdown(socket.SHUT_RDWR)
                        return


def test_without_the_package_the_way_out_is_named(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from kogniterm.sessions.session_database import open_store\n"
        "open_store('postgresql://ana@localhost/x', user='ana', version='1.0')"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "needs the package psycopg" in result.stderr
    assert "kogniterm doctor" in result.stderr


def test_the_same_key_twice_is_told_apart(postgres_url: str) -> None:
    store = store_for(postgres_url, "ana")
    store.add_row("one", folder="/", model="m")
    with pytest.raises(DuplicateError):
        store.database.execute(
            "INSERT INTO sessions (id, folder, created, updated) VALUES ('one', '/', 0, 0)"
        )
    store.close()


def test_there_and_back_again_without_loss(postgres_url: str, tmp_path: Path) -> None:
    here = SessionStore(Database(tmp_path / "here.db", SESSIONS), version="1.0")
    there = store_for(postgres_url, "ana")
    back = SessionStore(Database(tmp_path / "back.db", SESSIONS), version="1.0")
    ids = [with_a_session(here, f"Task {number} ñ\x00") for number in range(3)]
    here.save_draft(ids[0], "half a ")
    assert len(copy_all(here, there).copied) == 3
    assert len(copy_all(there, back).copied) == 3
    assert len(copy_all(here, back).present) == 3
    for session in ids:
        assert list(export_lines(back, session)) == list(export_lines(here, session))
        assert back.info(session) == here.info(session)
    for store in (here, there, back):
        store.close()


def test_moving_to_a_server_and_working_there_from_the_command_line(
    postgres_url: str, forge: Forge, tmp_path: Path
) -> None:
    """The steps of a user: copy, compare, then continue with the address configured."""
    here = SessionStore(Database(tmp_path / "data" / "kogniterm.db", SESSIONS), version="1.0")
    session = with_a_session(here, "Count the carrots")
    here.close()
    environ = {**environ_of(tmp_path), "KOGNITERM_DATABASE_URL": postgres_url}

    def kogniterm(*words: str) -> str:
        started = forge.start(words, environ=environ, folder=tmp_path, scratch=tmp_path)
        assert started.wait() == 0, started.said
        return started.out.read_text()

    assert json.loads(kogniterm("sessions", "list", "--json")) == []
    copied = json.loads(kogniterm("storage", "copy", "sqlite", "postgres", "--json"))
    assert copied["copied"] == [session]
    again = json.loads(kogniterm("storage", "copy", "sqlite", "postgres", "--json"))
    assert (again["copied"], again["present"]) == ([], [session])
    assert json.loads(kogniterm("sessions", "search", "carrot", "--json"))[0]["id"] == session
    assert "all as they were written" in kogniterm("audit", "verify")
    kogniterm("sessions", "delete", session, "--yes")
    assert json.loads(kogniterm("sessions", "list", "--json")) == []


def test_several_processes_may_be_the_first(postgres_url: str, tmp_path: Path) -> None:
    Database(postgres_url, SESSIONS, user="ana").close()
    together = threading.Barrier(4)

    def first(_number: int) -> str:
        together.wait()
        store, _ = open_store(postgres_url, user="ana", version="1", heads=tmp_path)
        try:
            return str(store.database.one("SELECT id FROM heads"))
        finally:
            store.close()

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(first, range(4)))) == 1
