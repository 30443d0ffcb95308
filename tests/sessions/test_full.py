"""A disk that becomes full at any point of the work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kogniterm.memory import open_memory
from kogniterm.sessions.chain_audit import verify
from kogniterm.sessions.session_database import open_store

WORKING = """
import resource, sys
from pathlib import Path

from kogniterm.errors import StorageError
from kogniterm.memory import open_memory
from kogniterm.sessions.session_database import open_store
from tests.support.conversation import command_turn, write

path, limit = Path(sys.argv[1]), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    store, _ = open_store(path, user="ana", version="1.0")
    journal = store.create(folder="/", model="m", session_id="s")
    for turn in range(1, 4):
        for body in command_turn(turn):
            print("record", journal.append(body, durable=True).seq, flush=True)
    with open_memory(path, user="ana", project="shop") as memory:
        for number in range(40):
            print("fact", memory.add(f"Fact number {number} is a fact"), flush=True)
except StorageError as error:
    print("full", error)
"""


@pytest.mark.parametrize("limit", [0, 4096, 110_000, 180_000, 300_000, 420_000, 520_000])
def test_what_was_acknowledged_is_there_when_there_is_room_again(
    tmp_path: Path, limit: int
) -> None:
    path = tmp_path / "kogniterm.db"
    worked = subprocess.run(
        [sys.executable, "-c", WORKING, str(path), str(limit)],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert worked.stderr == ""
    said = [line.split(maxsplit=1) for line in worked.stdout.splitlines()]
    assert said[-1][0] == "full"
    store, recovery = open_store(path, user="ana", version="1.0")
    assert recovery is None
    records = [seq for (seq,) in store.database.execute("SELECT seq FROM records ORDER BY seq")]
    assert {int(number) for kind, number in said[:-1] if kind == "record"} <= set(records)
    assert all(verify(store.database, info.id).intact for info in store.sessions())
    store.close()
    with open_memory(path, user="ana", project="shop") as memory:
        facts = {fact.id for fact in memory.facts()}
        assert {int(number) for kind, number in said[:-1] if kind == "fact"} <= facts
        memory.add("There is room again")
