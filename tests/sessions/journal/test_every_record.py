"""Every kind of record is read back as it was written, and is durable where it has to be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from kogniterm.sessions.fold import fold, limit_note
from kogniterm.sessions.journal import codec
from kogniterm.sessions.journal.journal import load_state
from kogniterm.sessions.records import (
    InputReceived,
    Intent,
    Outcome,
    RecordBody,
    TurnClosed,
)
from kogniterm.sessions.session_database import SESSIONS
from kogniterm.sessions.store import SessionStore
from kogniterm.storage import drivers
from kogniterm.storage.database import Database
from kogniterm.types import LimitReached
from tests.support.conversation import command_turn, write
from tests.support.filled import filled

TEXT = "a\x1b[2J\x00 é\ud800 \u202e \"'"
VARIANTS = range(8)
KINDS = get_args(RecordBody)
DURABLE = (Intent, Outcome, TurnClosed)
"""Records that must survive power loss: before a run, after it, and at the end of a turn."""


class Synced:
    """The database of sessions, and whether each of its transactions waited for the disk."""

    def __init__(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waited: list[bool] = []
        inner = drivers.transaction

        def transaction(connection: Any, *, durable: bool = False) -> AbstractContextManager[None]:
            self.waited.append(durable)
            return inner(connection, durable=durable)

        monkeypatch.setattr(drivers, "transaction", transaction)
        self.database = Database(path / "kogniterm.db", SESSIONS, user="ana", heads=path)
        self.store = SessionStore(self.database, version="1.0", folders=[path / "outputs"])


@pytest.fixture
def synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Synced]:
    made = Synced(tmp_path, monkeypatch)
    yield made
    made.database.close()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_record_is_read_back_as_it_was_written(kind: Any) -> None:
    for variant in VARIANTS:
        body = filled(kind, TEXT, variant)
        assert codec.decode(codec.kind_of(body), codec.encode(body)) == body


def test_every_kind_has_a_name() -> None:
    assert set(codec.KINDS.values()) == set(KINDS)


def test_a_journal_of_every_kind_is_read_back_after_reopening(synced: Synced) -> None:
    journal = synced.store.create(folder="/home/ana", model="scripted:a")
    named = {"session_id": "s", "request_id": "r1", "id": "r1"}
    written = [filled(kind, TEXT, **named) for kind in KINDS]
    for body in written:
        journal.append(body)
    session_id, state = journal.state.session_id, journal.state
    journal.close()
    stored = [record.body for record in codec.readable_records(synced.database, session_id)]
    assert stored[1:] == written
    assert load_state(synced.database, session_id)[0] == state


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_record_that_must_be_durable_waits_for_the_disk(
    synced: Synced, kind: Any, durable: bool
) -> None:
    journal = synced.store.create(folder="/home/ana", model="scripted:a")
    synced.waited.clear()
    journal.append(filled(kind, "x"), durable=durable)
    assert any(synced.waited) is (durable or kind in DURABLE)
    journal.close()


def test_a_durable_transaction_waits_for_the_disk_and_others_do_not(synced: Synced) -> None:
    def level() -> object:
        ((value,),) = synced.database.execute("PRAGMA synchronous")
        return value

    with synced.database.transaction(durable=True):
        assert level() == 2  # FULL
    with synced.database.transaction():
        assert level() == 1  # NORMAL


@pytest.mark.parametrize("of_session", [False, True])
@pytest.mark.parametrize("choice", ["more", "unlimited", "end"])
def test_the_question_at_a_limit_is_open_until_its_answer_also_after_reopening(
    synced: Synced, choice: Any, of_session: bool
) -> None:
    reached = LimitReached("steps", 2, of_session)
    journal = synced.store.create(folder="/home/ana", model="scripted:a")
    write(journal, command_turn(1)[:1])
    session_id = journal.state.session_id
    for note, limit in ((limit_note(reached), reached), (limit_note(reached, choice), None)):
        journal.append(note)
        assert journal.state.limit == limit
        journal.close()
        journal = synced.store.open(session_id)
        assert journal.state.limit == limit
    journal.close()


def test_each_record_of_a_turn_changes_the_state_that_is_folded(synced: Synced) -> None:
    journal = synced.store.create(folder="/home/ana", model="scripted:a")
    for body in command_turn(1):
        before = journal.state
        journal.append(body)
        same = replace(journal.state, seq=before.seq, hash=before.hash)
        assert same != before or isinstance(body, InputReceived), body
    assert fold(journal.records()) == journal.state
    journal.close()
