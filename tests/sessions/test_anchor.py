"""The head file accepts every state a crash can leave, rejects others, and stays small."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import pytest

from kogniterm.errors import StorageError, StorageFullError
from kogniterm.memory import open_memory
from kogniterm.sessions.chain_audit import verify, verify_all
from kogniterm.sessions.journal.journal import parse_fault
from kogniterm.sessions.session_database import SESSIONS
from kogniterm.sessions.store import SessionStore
from kogniterm.storage.database import Database
from kogniterm.storage.head_file import FOLD_AT, HeadFile, HeadNote, beside
from tests.support.conversation import command_turn, write

KILLED = """
import os, sys
from pathlib import Path
from kogniterm.sessions.journal.journal import parse_fault
from kogniterm.sessions.session_database import open_store
from tests.support.conversation import command_turn, write
def work(path, point):
    store, _ = open_store(path, user="ana", version="1.0", fault=parse_fault("kill:" + point))
    known = store.sessions()
    journal = store.open(known[0].id) if known else store.create(folder="/", model="m")
    write(journal, command_turn(1 + journal.state.turn))
    write(journal, command_turn(1 + journal.state.turn))
    journal.close()
for point in sys.argv[2:]:
    if not os.fork():
        work(Path(sys.argv[1], point, "kogniterm.db"), point)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.wait()[1]))
"""
MANY = """
import sys
from pathlib import Path
from kogniterm.sessions.session_database import open_store
from tests.support.conversation import command_turn, write
for _ in range(4):
    store, _recovery = open_store(Path(sys.argv[1]), user="ana", version="1.0")
    journal = store.create(folder="/", model="m")
    for turn in range(1, 6):
        write(journal, command_turn(turn))
    journal.close()
    store.close()
"""


def started(code: str, *words: str) -> int:
    return subprocess.run([sys.executable, "-c", code, *words]).returncode


def store_at(path: Path) -> SessionStore:
    return SessionStore(Database(path, SESSIONS), version="1.0")


def killed(folder: Path, *points: str) -> list[int]:
    """Let a process work in a folder for each point, and be killed there; return their statuses."""
    words = [sys.executable, "-c", KILLED, str(folder), *points]
    ran = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    return [int(line) for line in ran.stdout.split()]


def test_what_a_kill_leaves_is_accepted_and_made_good(tmp_path: Path) -> None:
    points = [
        "unnoted-turn_ended",
        "unnoted-turn_ended:2",
        "after-turn_ended:2",
        "unnoted-intent",
        "unnoted-outcome:2",
        "unnoted-node:3",
        "before-opened",
        "written-turn_ended:2",
        "after-opened",
    ]
    assert killed(tmp_path, *points) == [-9] * len(points)
    for point in points:
        with closing(store_at(tmp_path / point / "kogniterm.db")) as store:
            assert verify_all(store.database).intact, point
            assert len(store.sessions()) == 1, point
    assert {*killed(tmp_path, *points)} <= {-9, 0}
    for point in points:
        path = tmp_path / point / "kogniterm.db"
        with closing(store_at(path)) as store:
            assert verify_all(store.database).intact, point
            (info,) = store.sessions()
            store.open(info.id).close()
            assert verify_all(store.database).intact, point
            known = HeadFile(beside(path)).read()
            assert known is not None, point
            reached = known.sessions[info.id].reached
            assert reached is not None, point
            assert reached.what == "closed", point
            assert reached.seq == verify(store.database, info.id).records, point


def test_two_turns_missing_from_the_head_file_are_not_from_a_crash(tmp_path: Path) -> None:
    assert killed(tmp_path, "after-turn_ended:2") == [-9]
    path = tmp_path / "after-turn_ended:2" / "kogniterm.db"
    lines = beside(path).read_bytes().splitlines(keepends=True)
    before = [line for line in lines if b'"what":"end"' not in line]
    with closing(store_at(path)) as store:
        store.database.execute("UPDATE heads SET n = 0")
        beside(path).write_bytes(b"".join(before))
        report = verify(store.database, store.sessions()[0].id)
    assert report.broken == 1
    assert "it was added after the last record" in str(report.reason)


def test_several_processes_note_at_once(tmp_path: Path) -> None:
    path = tmp_path / "kogniterm.db"
    with ThreadPoolExecutor(4) as pool:
        codes = list(pool.map(lambda _: started(MANY, str(path)), range(4)))
    assert codes == [0] * 4
    with closing(store_at(path)) as store:
        report = verify_all(store.database)
    assert [one.reason for one in report.sessions if not one.intact] == []
    assert report.intact
    assert len(report.sessions) == 16


def test_it_is_folded_when_it_has_grown_and_still_knows_all(tmp_path: Path) -> None:
    path = tmp_path / "kogniterm.db"
    with closing(store_at(path)) as store:
        sessions = [store.create(folder="/", model="m") for _ in range(3)]
        write(sessions[0], command_turn(1))
        for one in sessions:
            one.close()
        gone = sessions.pop().state.session_id
        store.delete([gone])
        file = HeadFile(beside(path))
        seen, last = 0, sessions[0].state
        for _ in range(3 * FOLD_AT // 1000):
            note = HeadNote("end", last.session_id, last.seq, last.hash)
            file.append([note] * 5, durable=False)
            seen = max(seen, beside(path).stat().st_size)
        assert seen < 2 * FOLD_AT
        store.open(sessions[0].state.session_id).close()
        report = verify_all(store.database)
        assert report.intact
        assert (len(report.sessions), report.removed) == (2, 1)
        store.database.execute("DELETE FROM records WHERE seq > 3")
        assert not verify_all(store.database).intact


def test_half_a_line_is_what_a_crash_leaves(tmp_path: Path) -> None:
    path = tmp_path / "kogniterm.db"
    with closing(store_at(path)) as store:
        journal = store.create(folder="/", model="m")
        write(journal, command_turn(1))
        with beside(path).open("ab") as file:
            file.write(b'{"n":17,"wh')
        assert verify_all(store.database).intact
        write(journal, command_turn(2))
        journal.close()
        assert verify_all(store.database).intact


def test_a_session_is_not_begun_where_the_head_file_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "kogniterm.db"
    with closing(store_at(path)) as store:
        beside(path).unlink()
        with pytest.raises(StorageError):
            store.create(folder="/", model="m")


@pytest.mark.parametrize("point", ["before-opened", "written-opened"])
def test_a_session_that_never_got_its_first_record_is_no_fault(tmp_path: Path, point: str) -> None:
    with closing(store_at(tmp_path / "kogniterm.db")) as store:
        failing = SessionStore(store.database, version="1.0", fault=parse_fault(f"full:{point}"))
        with pytest.raises(StorageFullError):
            failing.create(folder="/", model="m")
        assert verify_all(store.database).intact


def test_facts_that_were_not_committed_are_no_fault(tmp_path: Path) -> None:
    """The head file is written first; the commit then fails, or the process dies before it."""
    path = tmp_path / "kogniterm.db"
    store_at(path).close()
    with open_memory(path, user="ana", project="shop") as memory:
        memory.add("the pelican eats at noon")
        with suppress(ZeroDivisionError), memory.repository.transaction():
            memory.add("the harbour opens at seven")
            raise ZeroDivisionError
        assert len(memory.facts()) == 1
        assert memory.sql.verify_facts().faults == ()
        note = HeadFile(beside(path)).read()
        assert note is not None
        now = note.memory["ana"]
        coming = HeadNote("memory", "ana", now.seq + 1, "0" * 64, before=(now.seq, now.hash))
        HeadFile(beside(path)).append([coming], durable=True)
        assert memory.sql.verify_facts().faults == ()
        memory.add("the harbour opens at eight")
        assert memory.sql.verify_facts().faults == ()


def test_on_a_server_each_machine_vouches_for_what_it_wrote(
    postgres_url: str, tmp_path: Path
) -> None:
    def machine(name: str) -> SessionStore:
        database = Database(postgres_url, SESSIONS, user="ana", heads=tmp_path / name)
        return SessionStore(database, version="1.0")

    def sound(store: SessionStore) -> bool:
        return verify_all(store.database).intact

    with closing(machine("here")) as here, closing(machine("there")) as there:
        journal = here.create(folder="/", model="m")
        write(journal, command_turn(1))
        journal.close()
        session = journal.state.session_id
        report = verify_all(there.database)
        assert (report.heads, report.sessions[0].reason) == (None, None)
        assert sound(here)
        assert sound(there)
        elsewhere = there.open(session)
        write(elsewhere, command_turn(2))
        elsewhere.close()
        assert sound(here)
        assert sound(there)
        execute: Database = there.database
        execute.execute("DELETE FROM records WHERE seq > 11")
        execute.execute(
            "UPDATE sessions SET snapshot = NULL, turns = 1, "
            "updated = (SELECT max(time) FROM records)"
        )
        assert sound(here)  # it has no record of the second turn
        assert not sound(there)
        execute.execute("DELETE FROM records WHERE seq > 5")
        assert not sound(here)
        second = here.create(folder="/", model="m")
        second.close()
        there.delete([second.state.session_id])
        reports = {one.session_id: one.intact for one in verify_all(here.database).sessions}
        assert reports == {session: False}
        execute.execute("DELETE FROM removals")
        reports = {one.session_id: one.intact for one in verify_all(here.database).sessions}
        assert reports == {session: False, second.state.session_id: False}
