"""Damage of every kind to the database's files: never a traceback, never a lost file."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from kogniterm.errors import StorageError
from kogniterm.sessions.journal.journal import load_state
from kogniterm.sessions.session_database import SESSIONS, Recovery, open_store
from kogniterm.sessions.store import SessionStore
from kogniterm.storage import damaged_file, drivers
from kogniterm.storage.database import Database
from tests.sessions.conftest import overwrite
from tests.support.conversation import RECORDS_PER_TURN, command_turn, write

COUNT, TURNS = 2, 6
RECORDS = COUNT * (TURNS * RECORDS_PER_TURN + 1)
PAGE, HEADER = 4096, 100


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a database file with sessions, and nothing beside it."""
    path = tmp_path_factory.mktemp("sound") / "kogniterm.db"
    store = SessionStore(Database(path, SESSIONS), version="1.0")
    for number in range(COUNT):
        journal = store.create(folder="/home/ana", model="m", session_id=f"session{number}")
        for turn in range(1, TURNS + 1):
            write(journal, command_turn(turn, f"Task {turn} of session {number}"))
        journal.close()
    store.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


def survivors(path: Path) -> Recovery | None:
    """Open `path` as a start of the program does, read everything, and continue to work."""
    content = path.read_bytes()
    store, recovery = open_store(path, user="ana", version="1.0")
    for info in store.sessions():
        state, damaged = load_state(store.database, info.id)
        assert state.turn <= TURNS
        assert len(damaged) <= RECORDS
        journal = store.open(info.id)
        write(journal, command_turn(state.turn + 1, "Go on"))
        journal.close()
    store.create(folder="/", model="m").close()
    if recovery is not None:
        assert recovery.moved_to.read_bytes() == content
        assert recovery.records <= RECORDS
        assert str(recovery.moved_to.name) in str(recovery.text)
    store.close()
    return recovery


def cuts(size: int) -> list[int]:
    chance = random.Random(7)
    edges = [0, 1, HEADER - 1, HEADER, PAGE - 1, PAGE, PAGE + 1, size - 1]
    return edges + sorted(chance.randrange(size) for _ in range(20))


def test_a_file_cut_anywhere_is_opened_or_recovered(sound: Path, tmp_path: Path) -> None:
    content = sound.read_bytes()
    for length in cuts(len(content)):
        folder = tmp_path / str(length)
        folder.mkdir()
        copy = folder / sound.name
        copy.write_bytes(content[:length])
        # SQLite takes a file of one byte for a new one; one byte from the end may hold no data.
        quiet = {0, 1, len(content) - 1}
        assert survivors(copy) is not None or length in quiet, length


def roots(path: Path) -> dict[str, int]:
    """Return the first page of each table and index, counted from 1."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT name, rootpage FROM sqlite_master WHERE rootpage > 0")
        return {str(name): int(page) for name, page in rows}


@pytest.mark.parametrize("filling", [b"\x00", b"\xff", b"\x0d"])
def test_each_table_and_index_may_be_wiped(sound: Path, tmp_path: Path, filling: bytes) -> None:
    for name, page in roots(sound).items():
        folder = tmp_path / name
        folder.mkdir()
        copy = folder / sound.name
        shutil.copy(sound, copy)
        overwrite(copy, (page - 1) * PAGE, filling * PAGE)
        assert survivors(copy) is not None, name


KILLED = """
import os, signal, sys
from pathlib import Path
from kogniterm.sessions.session_database import open_store
from tests.support.conversation import command_turn, write

store, _ = open_store(Path(sys.argv[1]), user="ana", version="1.0")
journal = store.open("session0")
write(journal, command_turn(7, "One more task"))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(scope="module")
def left_behind(sound: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that a killed process left: a database with its write-ahead log."""
    folder = tmp_path_factory.mktemp("killed")
    copy = folder / sound.name
    shutil.copy(sound, copy)
    ended = subprocess.run([sys.executable, "-c", KILLED, str(copy)], check=False, timeout=60)
    assert ended.returncode == -9
    assert (folder / "kogniterm.db-wal").stat().st_size > PAGE
    return folder


@pytest.mark.parametrize("how", ["cut", "scribble"])
def test_a_damaged_write_ahead_log_costs_its_end_at_most(
    left_behind: Path, tmp_path: Path, how: str
) -> None:
    log = (left_behind / "kogniterm.db-wal").read_bytes()
    chance = random.Random(11)
    for number, place in enumerate(sorted(chance.randrange(len(log)) for _ in range(20))):
        folder = tmp_path / str(number)
        shutil.copytree(left_behind, folder)
        damaged = log[:place]
        if how == "scribble":
            damaged += bytes(255 - byte for byte in log[place : place + 8]) + log[place + 8 :]
        (folder / "kogniterm.db-wal").write_bytes(damaged)
        store, recovery = open_store(folder / "kogniterm.db", user="ana", version="1.0")
        assert recovery is None, place
        state, lost = load_state(store.database, "session0")
        assert lost == ()
        assert TURNS <= state.turn <= TURNS + 1
        assert len(store.sessions()) == COUNT
        store.close()


def test_a_damaged_shared_memory_file_costs_nothing(left_behind: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(left_behind, folder)
    (folder / "kogniterm.db-shm").write_bytes(b"\xa5" * 32768)
    store, recovery = open_store(folder / "kogniterm.db", user="ana", version="1.0")
    assert recovery is None
    assert load_state(store.database, "session0")[0].turn == TURNS + 1
    store.close()


def checks(path: Path, now: float) -> tuple[int, Recovery | None]:
    """Open and close `path` at a time; return how often it was checked, and what was recovered."""
    ran: list[str] = []
    connect = sqlite3.connect

    def traced(*given: Any, **named: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*given, **named)
        connection.set_trace_callback(ran.append)
        return connection

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(drivers.sqlite3, "connect", traced)
        store, recovery = open_store(path, user="ana", version="1.0", now=lambda: now)
        store.create(folder="/", model="m").close()
        store.close()
    return sum("quick_check" in one for one in ran), recovery


def test_a_file_that_nothing_else_wrote_to_is_checked_once_a_day(
    sound: Path, tmp_path: Path
) -> None:
    path = tmp_path / "data" / "kogniterm.db"
    path.parent.mkdir()
    shutil.copyfile(sound, path)
    assert [checks(path, now) for now in (1e9, 1e9 + 60, 1e9 + 120)] == [
        (1, None),
        (0, None),
        (0, None),
    ]
    assert checks(path, 1e9 + 90_000) == (1, None)
    assert checks(path, 1e9) == (1, None)  # the clock went back
    # A copy is another file, and so is one that another program wrote to.
    copy = tmp_path / "copy" / "kogniterm.db"
    shutil.copytree(path.parent, copy.parent, copy_function=shutil.copy2)
    assert checks(copy, 1e9 + 60) == (1, None)
    os.utime(path)
    assert checks(path, 1e9 + 60) == (1, None)


def test_what_another_room_left_is_checked_where_something_else_wrote_before(
    sound: Path, tmp_path: Path
) -> None:
    path = tmp_path / "kogniterm.db"
    shutil.copyfile(sound, path)
    assert checks(path, 1e9) == (1, None)
    overwrite(path, PAGE * 3, bytes(PAGE * 2))
    with suppress(StorageError):
        Database(path, SESSIONS).close()
    assert checks(path, 1e9 + 60)[1] is not None


def test_damage_that_a_query_meets_is_repaired_by_the_next_start(
    sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(damaged_file, "CHECK_LIMIT", PAGE)  # this file is a large one
    path = tmp_path / "kogniterm.db"
    shutil.copyfile(sound, path)
    assert checks(path, 1e9) == (0, None)
    database = Database(path, SESSIONS)
    overwrite(path, PAGE, b"\xff" * (path.stat().st_size - PAGE))
    with pytest.raises(StorageError):
        database.execute("SELECT * FROM sessions, records, leases")
    with suppress(StorageError):
        database.close()
    assert checks(path, 1e9 + 60)[1] is not None


def test_damage_that_looks_like_none_is_repaired_where_the_file_cannot_be_opened(
    sound: Path, tmp_path: Path
) -> None:
    path = tmp_path / "kogniterm.db"
    shutil.copyfile(sound, path)
    assert checks(path, 1e9) == (1, None)
    left = path.stat()
    overwrite(path, HEADER, b"\xff" * (PAGE - HEADER))
    os.utime(path, ns=(left.st_atime_ns, left.st_mtime_ns))
    assert checks(path, 1e9 + 60)[1] is not None
