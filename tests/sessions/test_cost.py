"""What a turn writes does not depend on how long the session is; bytes, not times."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from kogniterm.sessions.backend import Backend, Row, SqliteBackend
from kogniterm.sessions.records import RecordBody, SessionOpened
from kogniterm.sessions.search import add_missing
from kogniterm.sessions.store import SessionStore
from kogniterm.sessions.stored import insert, new_row
from kogniterm.sessions.transfer import refresh_row
from tests.support.conversation import RECORDS_PER_TURN, command_turn, write

MEASURED = 50


def store_with(path: Path, turns: int) -> SessionStore:
    """A store with one session of so many turns, written at once."""
    store = SessionStore(SqliteBackend(path), version="1.0")
    store.add_row("s", folder="/", model="m")
    seq, last = 0, ""
    with store.backend.transaction():
        for turn in range(turns + 1):
            opening: list[RecordBody] = [SessionOpened("s", "/", "1.0", "m")]
            for body in command_turn(turn) if turn else opening:
                row = new_row(body, seq, float(seq), last)
                insert(store.backend, "s", row)
                seq, last = row.seq, row.hash
        refresh_row(store, "s")
    add_missing(store.backend, "s")
    return store


def written() -> int:
    """Bytes this process has handed to the kernel."""
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
def test_bytes_written_per_turn_do_not_grow(tmp_path: Path) -> None:
    short = bytes_per_turn(store_with(tmp_path / "short.db", 10), 10)
    long = bytes_per_turn(store_with(tmp_path / "long.db", 500), 500)
    # Merges of the search index and checkpoints fall where they fall, hence the half; a write
    # that grew with the session would be several times as large here.
    assert long < short * 1.5


class Counting:
    """A database that counts the rows it gave away."""

    def __init__(self, inner: Backend) -> None:
        self._inner = inner
        self.rows = 0

    def execute(self, sql: str, values: Sequence[object] = ()) -> list[Row]:
        rows = self._inner.execute(sql, values)
        self.rows += len(rows)
        return rows

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


def rows_read_after_a_crash(path: Path, turns: int) -> int:
    """How many rows a start reads to go on after a process died in the middle of a turn."""
    store = store_with(path, turns)
    journal = store.open("s")
    write(journal, command_turn(turns + 1))
    write(journal, command_turn(turns + 2)[:4])
    backend = Counting(store.backend)
    store.backend.execute("DELETE FROM leases")
    again = SessionStore(cast("Backend", backend), version="1.0").open("s")
    assert again.state.turn == turns + 2
    assert len(again.state.pending) == 1
    store.close()
    return backend.rows


def test_a_start_after_a_crash_reads_no_more_of_a_long_session(tmp_path: Path) -> None:
    short = rows_read_after_a_crash(tmp_path / "short.db", 10)
    long = rows_read_after_a_crash(tmp_path / "long.db", 400)
    assert long == short < 3 * RECORDS_PER_TURN


def test_the_snapshot_a_session_opens_from_does_not_grow(tmp_path: Path) -> None:
    sizes = []
    for turns in (10, 300):
        store = store_with(tmp_path / f"{turns}.db", turns)
        ((size,),) = store.backend.execute("SELECT length(snapshot) FROM sessions")
        sizes.append(size)
        store.close()
    assert sizes[1] < sizes[0] + 50
