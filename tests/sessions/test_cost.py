"""The bytes written by a turn do not depend on the length of the session."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import pytest

from kogniterm.sessions.journal.codec import insert, new_row
from kogniterm.sessions.journal.journal import refresh_row
from kogniterm.sessions.records import RecordBody, SessionOpened
from kogniterm.sessions.session_database import SESSIONS
from kogniterm.sessions.session_search import add_missing
from kogniterm.sessions.store import SessionStore
from kogniterm.storage.database import Database, Row
from tests.support.conversation import RECORDS_PER_TURN, command_turn, write

MEASURED = 50
SHORT, LONG = 10, 400
"""Turns of the two sessions that are compared."""

StoreWith = Callable[[int], SessionStore]


@pytest.fixture(scope="module")
def written_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the two databases once; tests use copies, because writing is slow."""
    folder = tmp_path_factory.mktemp("written")
    for turns in (SHORT, LONG):
        write_store(folder / f"{turns}.db", turns)
    return folder


@pytest.fixture
def store_with(written_once: Path, tmp_path: Path) -> StoreWith:
    """Return a function that opens a store with one session of so many turns."""

    def open_one(turns: int) -> SessionStore:
        copy = shutil.copy(written_once / f"{turns}.db", tmp_path)
        return SessionStore(Database(Path(copy), SESSIONS), version="1.0")

    return open_one


def write_store(path: Path, turns: int) -> None:
    """Make a store with one session of so many turns, written at once."""
    store = SessionStore(Database(path, SESSIONS), version="1.0")
    store.add_row("s", folder="/", model="m")
    seq, last = 0, ""
    with store.database.transaction():
        for turn in range(turns + 1):
            opening: list[RecordBody] = [SessionOpened("s", "/", "1.0", "m")]
            for body in command_turn(turn) if turn else opening:
                row = new_row(body, seq, float(seq), last)
                insert(store.database, "s", row)
                seq, last = row.seq, row.hash
        refresh_row(store.database, "s")
    add_missing(store.database, "s")
    store.close()


def written() -> int:
    """Return the bytes this process has passed to the kernel."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("wchar")))


def bytes_per_turn(store: SessionStore, turns: int) -> float:
    journal = store.open("s")
    before = written()
    for turn in range(turns + 1, turns + 1 + MEASURED):
        write(journal, command_turn(turn))
    size = (written() - before) / MEASURED
    journal.close()
    store.close()
    return size


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="counts bytes with Linux's /proc")
def test_bytes_written_per_turn_do_not_grow(store_with: StoreWith) -> None:
    short = bytes_per_turn(store_with(SHORT), SHORT)
    long = bytes_per_turn(store_with(LONG), LONG)
    # Merges of the search index and checkpoints happen at any time, hence the half; a write that
    # grew with the session would be several times as large here.
    assert long < short * 1.5


class Counting:
    """A database that counts the rows it returned."""

    def __init__(self, inner: Database) -> None:
        self._inner = inner
        self.rows = 0

    def execute(self, sql: str, values: Sequence[object] = ()) -> list[Row]:
        rows = self._inner.execute(sql, values)
        self.rows += len(rows)
        return rows

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


def rows_read_after_a_crash(store: SessionStore, turns: int) -> int:
    """Return how many rows a start reads after a process died in the middle of a turn."""
    journal = store.open("s")
    write(journal, command_turn(turns + 1))
    write(journal, command_turn(turns + 2)[:4])
    database = Counting(store.database)
    store.database.execute("DELETE FROM leases")
    again = SessionStore(cast("Database", database), version="1.0").open("s")
    assert again.state.turn == turns + 2
    assert len(again.state.pending) == 1
    store.close()
    return database.rows


def test_a_start_after_a_crash_reads_no_more_of_a_long_session(store_with: StoreWith) -> None:
    short = rows_read_after_a_crash(store_with(SHORT), SHORT)
    long = rows_read_after_a_crash(store_with(LONG), LONG)
    assert long == short < 3 * RECORDS_PER_TURN


def test_the_snapshot_a_session_opens_from_does_not_grow(store_with: StoreWith) -> None:
    sizes = []
    for turns in (SHORT, LONG):
        store = store_with(turns)
        ((size,),) = store.database.execute("SELECT length(snapshot) FROM sessions")
        sizes.append(size)
        store.close()
    assert sizes[1] < sizes[0] + 50
