"""What a turn writes does not depend on how long the session is; bytes, not times."""

from __future__ import annotations

from pathlib import Path

import pytest

from kogniterm.sessions.backend import SqliteBackend
from kogniterm.sessions.records import RecordBody, SessionOpened
from kogniterm.sessions.search import add_missing
from kogniterm.sessions.store import SessionStore
from kogniterm.sessions.stored import insert, new_row
from kogniterm.sessions.transfer import refresh_row
from tests.support.conversation import command_turn, write

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


def test_the_snapshot_a_session_opens_from_does_not_grow(tmp_path: Path) -> None:
    sizes = []
    for turns in (10, 300):
        store = store_with(tmp_path / f"{turns}.db", turns)
        ((size,),) = store.backend.execute("SELECT length(snapshot) FROM sessions")
        sizes.append(size)
        store.close()
    assert sizes[1] < sizes[0] + 50
