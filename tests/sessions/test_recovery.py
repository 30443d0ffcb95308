"""A damaged database is detected and kept, and everything readable is carried over."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import pytest

from kogniterm.errors import StorageLockedError
from kogniterm.sessions.chain_audit import verify
from kogniterm.sessions.journal.journal import load_state
from kogniterm.sessions.session_database import SESSIONS, open_store
from kogniterm.sessions.store import SessionStore
from kogniterm.storage.database import Database
from kogniterm.storage.drivers import Migration, migrate, open_sqlite, transaction
from tests.sessions.conftest import overwrite
from tests.support.conversation import RECORDS_PER_TURN, command_turn, write

COUNT, TURNS = 3, 8
PAGE = 4096


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a database with sessions, and a table of another package beside them."""
    path = tmp_path / "kogniterm.db"
    store = SessionStore(Database(path, SESSIONS), version="1.0")
    for number in range(COUNT):
        journal = store.create(folder="/home/ana", model="m", session_id=f"session{number}")
        for turn in range(1, TURNS + 1):
            write(journal, command_turn(turn, f"Task {turn} of session {number}"))
        journal.close()
    store.close()
    with closing(open_sqlite(path)) as connection:
        schema = ("CREATE TABLE facts (id INTEGER PRIMARY KEY, text TEXT UNIQUE)",)
        migrate(connection, "memory", [Migration(1, "facts", schema)])
        with transaction(connection):
            connection.executemany(
                "INSERT INTO facts (text) VALUES (?)", [(f"fact {n}",) for n in range(50)]
            )
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


def facts(path: Path) -> int:
    with closing(open_sqlite(path)) as connection:
        ((count,),) = connection.execute("SELECT count(*) FROM facts").fetchall()
        return int(count)


def page_of(path: Path, needle: bytes) -> int:
    """Return the offset of the first page that holds `needle`."""
    return path.read_bytes().index(needle) // PAGE * PAGE


def test_a_sound_file_is_left_alone(path: Path) -> None:
    store, recovery = open_store(path, user="ana", version="1.0")
    assert recovery is None
    assert len(store.sessions()) == COUNT
    store.close()
    assert sorted(file.name for file in path.parent.iterdir()) == [
        "kogniterm.db",
        "kogniterm.db.heads",
        "kogniterm.db.lock",
    ]


def test_a_broken_header_costs_nothing(path: Path) -> None:
    damaged = path.read_bytes()
    overwrite(path, 0, b"\xff" * 100)
    damaged = path.read_bytes()
    store, recovery = open_store(path, user="ana", version="1.0", now=lambda: 1_800_000_000.0)
    assert recovery is not None
    assert recovery.moved_to.name == "kogniterm.db.damaged-20270115-080000"
    assert recovery.moved_to.read_bytes() == damaged
    assert recovery.sessions == COUNT
    assert recovery.records == COUNT * (TURNS * RECORDS_PER_TURN + 1)
    assert recovery.lost == 0
    assert str(recovery.text).endswith("; none is missing between them.")
    assert all(verify(store.database, info.id).intact for info in store.sessions())
    assert len(store.search("task")) == 20
    store.close()
    assert facts(path) == 50
    store, recovery = open_store(path, user="ana", version="1.0")
    assert recovery is None
    store.close()


def test_a_file_without_any_record_left_is_reported_as_that(path: Path) -> None:
    path.write_bytes(b"\xff" * path.stat().st_size)
    store, recovery = open_store(path, user="ana", version="1.0")
    assert recovery is not None
    assert str(recovery.text).endswith(". No record could be recovered from it.")
    store.close()


def test_a_broken_page_costs_what_was_on_it(path: Path) -> None:
    overwrite(path, page_of(path, b'"text":"Task 4 of session 1"'), b"\x00" * PAGE)
    store, recovery = open_store(path, user="ana", version="1.0")
    assert recovery is not None
    assert 0 < recovery.lost < 20
    assert recovery.records + recovery.lost == COUNT * (TURNS * RECORDS_PER_TURN + 1)
    assert f"records lost: at least {recovery.lost}." in str(recovery.text)
    assert verify(store.database, "session0").intact
    assert not verify(store.database, "session1").intact
    journal = store.open("session1")
    assert journal.state.turn == TURNS
    write(journal, command_turn(TURNS + 1, "Go on"))
    journal.close()
    store.close()
    assert facts(path) == 50


def test_changed_content_is_noticed_though_the_structure_is_sound(path: Path) -> None:
    place = path.read_bytes().index(b'"text":"Task 4 of session 1"')
    overwrite(path, place + 8, b"T4sk")
    store, recovery = open_store(path, user="ana", version="1.0")
    assert recovery is None
    with store.database.transaction():
        store.database.execute("UPDATE sessions SET snapshot = NULL")
    journal = store.open("session1")
    assert len(journal.damaged) == 1
    assert journal.state.turn == TURNS
    journal.close()
    assert verify(store.database, "session1").broken == journal.damaged[0]
    store.close()


def test_random_damage_never_costs_a_traceback_or_the_file(path: Path) -> None:
    """Overwrites 200 random bytes, repeatedly, with different seeds."""
    original = path.read_bytes()
    for seed in range(12):
        chance = random.Random(seed)
        content = bytearray(original)
        for _ in range(200):
            content[chance.randrange(len(content))] = chance.randrange(256)
        folder = path.parent / str(seed)
        folder.mkdir()
        copy = folder / path.name
        copy.write_bytes(content)
        store, recovery = open_store(copy, user="ana", version="1.0")
        for info in store.sessions():
            state, damaged = load_state(store.database, info.id)
            assert len(damaged) <= TURNS * RECORDS_PER_TURN + 1
            assert state.turn <= TURNS
            assert len(state.messages) <= 4 * TURNS
        if recovery is not None:
            assert recovery.records <= COUNT * (TURNS * RECORDS_PER_TURN + 1)
            assert recovery.moved_to.read_bytes() == content
        store.close()


def test_a_file_that_another_process_has_open_is_not_moved_away(path: Path) -> None:
    first, _ = open_store(path, user="ana", version="1.0")
    overwrite(path, page_of(path, b'"text":"Task 4 of session 1"'), b"\x00" * PAGE)
    with pytest.raises(StorageLockedError, match="close that one, then start"):
        open_store(path, user="ana", version="1.0")
    first.close()
    store, recovery = open_store(path, user="ana", version="1.0")
    assert recovery is not None
    store.close()
