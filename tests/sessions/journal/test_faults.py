"""A failure at a named point leaves the session as it was before that point."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from kogniterm.errors import SettingsError, StorageError, StorageFullError, StorageLockedError
from kogniterm.sessions.chain_audit import verify
from kogniterm.sessions.fold import fold
from kogniterm.sessions.journal.journal import parse_fault
from kogniterm.sessions.store import SessionStore
from kogniterm.storage.database import Database
from tests.sessions.on_file import ON_FILE
from tests.support.conversation import command_turn, write


@pytest.mark.parametrize("spec", [None, "", "kill:after-intent", "full:*:3", "locked:before-note"])
def test_specs(spec: str | None) -> None:
    assert callable(parse_fault(spec))


@pytest.mark.parametrize("spec", ["explode:x", "kill", "kill:", "kill:x:y", ":x"])
def test_a_spec_that_says_nothing_useful(spec: str) -> None:
    with pytest.raises(SettingsError, match="is not a valid fault"):
        parse_fault(spec)


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        ("full:before-intent", StorageFullError),
        ("full:written-intent", StorageFullError),
        ("locked:written-turn_ended", StorageLockedError),
        ("full:written-input", StorageFullError),
    ],
)
@ON_FILE
def test_a_record_that_could_not_be_written_was_never_there(
    database: Database, spec: str, kind: type[StorageError]
) -> None:
    store = SessionStore(database, version="1.0", fault=parse_fault(spec))
    journal = store.create(folder="/", model="m")
    failed = 0
    for body in command_turn(1):
        before = journal.state
        try:
            journal.append(body)
        except kind:
            failed += 1
            assert journal.state is before
            journal.append(body)  # the disk has space again
    assert failed == 1
    assert fold(journal.records()) == journal.state
    journal.close()
    assert verify(database, journal.state.session_id).intact


def test_a_command_whose_intent_cannot_be_written_does_not_start(database: Database) -> None:
    """`append` stands between the approval and the run: it raises, and nothing is started."""
    store = SessionStore(database, version="1.0", fault=parse_fault("full:written-intent"))
    journal = store.create(folder="/", model="m")
    write(journal, command_turn(1)[:5])
    with pytest.raises(StorageFullError):
        journal.append(command_turn(1)[5])
    journal.close()
    again = SessionStore(database, version="1.0").open(journal.state.session_id)
    assert again.state.unknown == ()
    assert [request.id for request in again.state.waiting] == ["r1"]
    again.close()


@ON_FILE
def test_held_records_are_written_with_the_next_one_or_not_at_all(
    database: Database, open_database: Callable[[], Database]
) -> None:
    store = SessionStore(database, version="1.0", fault=parse_fault("full:written-intent"))
    journal = store.create(folder="/", model="m")
    *before, requested, judged, decided, intent = command_turn(1)[:6]
    write(journal, before)
    written = journal.state.seq
    for body in (requested, judged, decided):
        journal.append(body, hold=True)
    held = journal.state
    other = open_database()
    for _attempt in range(2):
        assert other.execute("SELECT max(seq) FROM records") == [(written,)]
        assert journal.state is held
        with suppress(StorageFullError):
            journal.append(intent)
    assert other.execute("SELECT max(seq) FROM records") == [(written + 4,)]
    assert fold(journal.records()) == journal.state
    journal.close()
    assert verify(database, journal.state.session_id).intact


class Jumping:
    """A clock that is set back and forth by a day."""

    def __init__(self) -> None:
        self._looks = 0

    def __call__(self) -> float:
        self._looks += 1
        return 1_800_000_000.0 + (86_400 if self._looks % 2 else -86_400)


def test_order_is_by_number_whatever_the_clock_does(
    database: Database, open_database: Callable[[], Database]
) -> None:
    steady = SessionStore(database, version="1.0")
    jumping = SessionStore(open_database(), version="1.0", now=Jumping())
    states = []
    for store in (steady, jumping):
        journal = store.create(folder="/", model="m")
        write(journal, command_turn(1) + command_turn(2))
        journal.close()
        states.append(replace(journal.state, session_id="", hash=""))
    assert states[0] == states[1]
    assert all(verify(database, info.id).intact for info in steady.sessions())


def test_two_sessions_of_one_project_do_not_disturb_each_other(
    store: SessionStore, open_database: Callable[[], Database]
) -> None:
    other = SessionStore(open_database(), version="1.0")
    first = store.create(folder="/project", model="m")
    second = other.create(folder="/project", model="m")
    for one, two in zip(command_turn(1, "First"), command_turn(1, "Second"), strict=True):
        first.append(one)
        second.append(two)
    first.close()
    second.close()
    assert {info.title for info in store.sessions(folder="/project")} == {"First", "Second"}
    assert all(verify(store.database, info.id).intact for info in store.sessions())
