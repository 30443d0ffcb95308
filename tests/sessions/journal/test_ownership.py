"""One process on one machine owns a session; a dead one does not keep it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kogniterm.errors import StorageLockedError
from kogniterm.host.identity import Holder, this_process
from kogniterm.host.processes import start_of
from kogniterm.sessions.journal.codec import stored_records
from kogniterm.sessions.journal.ownership import SessionBusyError
from kogniterm.sessions.records import Intent
from kogniterm.sessions.store import SessionStore, conversation
from tests.support.conversation import command_turn, write

ME = Holder("here", "boot1/pid:[1]", os.getpid(), start_of(os.getpid()) or "")
ROOT = Path(__file__).parents[2]

HOLD = """
import sys
from kogniterm.sessions.session_database import open_store
store, _ = open_store(sys.argv[1], user="ana", version="1.0")
journal = store.open(sys.argv[2])
sys.stdout.write("held\\n")
sys.stdout.flush()
sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("holder", "expired", "gone"),
    [
        (ME, True, False),  # same machine: the process lives, though silent
        (Holder(ME.host, ME.boot, ME.pid, "another start"), False, True),  # the number was reused
        (Holder(ME.host, ME.boot, 2**22 + 1, "1"), False, True),  # no such process
        (Holder(ME.host, "boot0/pid:[1]", ME.pid, ME.started), False, True),  # before the reboot
        (Holder(ME.host, "boot1/pid:[2]", 1, "1"), False, False),  # another container, alive
        (Holder(ME.host, "boot1/pid:[2]", 1, "1"), True, True),  # another container, silent
        (Holder("there", "boot1/pid:[1]", ME.pid, ME.started), False, False),  # another machine
        (Holder("there", "boot1/pid:[1]", ME.pid, ME.started), True, True),
    ],
)
def test_when_a_holder_is_gone(holder: Holder, expired: bool, gone: bool) -> None:
    assert holder.is_gone(ME, expired=expired) is gone


def test_this_process_knows_itself() -> None:
    me = this_process()
    assert me.pid == os.getpid()
    assert not me.is_gone(me, expired=True)


@pytest.fixture
def session(store: SessionStore) -> str:
    journal = store.create(folder="/home/ana", model="scripted:a")
    write(journal, command_turn(1)[:6])
    journal.close()
    return journal.state.session_id


def test_a_killed_process_loses_its_session_and_a_running_one_does_not(
    store: SessionStore, session: str, location: Path | str
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(location), session],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(SessionBusyError, match=f"process {process.pid}"):
            store.open(session)
        process.send_signal(signal.SIGKILL)
        process.wait()
        journal = store.open(session)
    assert journal.taken_from is not None
    assert journal.taken_from.pid == process.pid
    assert [intent.request_id for intent in journal.state.unknown] == ["r1"]
    journal.close()
    again = store.open(session)
    assert again.taken_from is None
    again.close()


def test_another_machine_takes_over_only_after_silence(store: SessionStore, session: str) -> None:
    far = Holder("far", "boot9/pid:[9]", 77, "1")
    there = SessionStore(store.database, version="1.0", holder=far, heartbeat=3600)
    left = there.open(session)
    with pytest.raises(SessionBusyError, match="on far"):
        store.open(session)
    store.database.execute("UPDATE leases SET expires = 0")
    journal = store.open(session)
    assert journal.taken_from == far
    left.close()  # the machine wakes up; closing keeps the new holder's lease
    with pytest.raises(SessionBusyError):
        there.open(session)
    journal.close()


def test_a_conversation_is_read_only_while_no_other_process_has_it_open(
    store: SessionStore, session: str
) -> None:
    far = Holder("far", "boot9/pid:[9]", 77, "1")
    journal = SessionStore(store.database, version="1.0", holder=far, heartbeat=3600).open(session)
    assert conversation(store, session, 1) is None
    journal.close()
    assert conversation(store, session, 1)
    assert conversation(store, "0123456789ab", 1) == []


def test_who_lost_the_lease_can_write_nothing_even_when_first(
    store: SessionStore, session: str
) -> None:
    far = Holder("far", "boot9/pid:[9]", 77, "1")
    there = SessionStore(store.database, version="1.0", holder=far, heartbeat=3600)
    asleep = there.open(session)
    store.database.execute("UPDATE leases SET expires = 0")
    journal = store.open(session)
    with pytest.raises(StorageLockedError, match="changed by another process"):
        asleep.append(Intent("r9", "rm x", "/", "e", None), durable=True)
    journal.append(Intent("r9", "rm x", "/", "e", None), durable=True)
    asked = [row.request_id for row in stored_records(store.database, session)]
    assert asked.count("r9") == 1
    asleep.close()
    journal.close()


def test_a_holder_renews_its_lease(store: SessionStore, session: str) -> None:
    lively = SessionStore(store.database.another(), version="1.0", heartbeat=0.01)
    journal = lively.open(session)
    store.database.execute("UPDATE leases SET expires = 0")
    deadline = time.monotonic() + 60  # a guard against hanging, not a measure
    while store.database.execute("SELECT expires FROM leases") == [(0.0,)]:
        assert time.monotonic() < deadline
    journal.close()
    lively.close()


def test_an_unreadable_process_table_entry_is_no_process() -> None:
    assert start_of(2**22 + 1) is None
