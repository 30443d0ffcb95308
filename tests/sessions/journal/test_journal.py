"""Guarantees of an appended record, on both databases."""

from __future__ import annotations

from dataclasses import replace

import pytest
from langchain_core.messages import HumanMessage, ToolMessage

from kogniterm.errors import StorageLockedError
from kogniterm.sessions.fold import Note, fold
from kogniterm.sessions.journal.codec import GENESIS
from kogniterm.sessions.journal.journal import load_state
from kogniterm.sessions.journal.ownership import SessionBusyError
from kogniterm.sessions.records import (
    Compacted,
    Intent,
    NodeRan,
    Outcome,
    TurnClosed,
)
from kogniterm.sessions.store import SessionStore
from kogniterm.storage.database import Database
from kogniterm.types import NodeUpdate, Usage
from tests.sessions.on_file import in_file  # noqa: F401 (fixture)
from tests.support.conversation import RECORDS_PER_TURN, agent_turn, command_turn, write


def test_records_are_numbered_dated_and_chained(store: SessionStore) -> None:
    journal = store.create(folder="/home/ana", model="scripted:a")
    write(journal, command_turn(1))
    records = list(journal.records())
    assert [record.seq for record in records] == list(range(1, RECORDS_PER_TURN + 2))
    assert records[0].previous == GENESIS
    assert [record.previous for record in records[1:]] == [record.hash for record in records[:-1]]
    assert records[1].time > records[0].time
    assert list(journal.records(from_seq=9)) == records[8:]
    journal.close()


def test_the_live_state_is_the_fold_of_what_is_on_disk(store: SessionStore) -> None:
    journal = store.create(folder="/home/ana", model="scripted:a")
    for turn in (1, 2, 3):
        write(journal, command_turn(turn))
        assert fold(journal.records()) == journal.state
    journal.close()


def test_a_resumed_session_is_where_it_was_left(store: SessionStore) -> None:
    journal = store.create(folder="/home/ana", model="scripted:a")
    write(journal, command_turn(1))
    journal.append(Note.MODE.record("auto"))
    write(journal, command_turn(2)[:5])
    store.save_draft(journal.state.session_id, "and then déle\ud800te")
    left = journal.state
    journal.close()
    again = store.open(left.session_id)
    state = again.state
    assert state.draft == "and then déle\\ud800te"
    assert state.seq == left.seq + 1
    assert replace(state, seq=0, hash="", draft="") == replace(left, seq=0, hash="")
    assert tuple(state.messages) == tuple(left.messages)
    assert [request.id for request in state.waiting] == ["r2"]
    assert state.decisions["r2"].kind == "approve"
    assert state.open_turn
    again.close()


def test_without_its_snapshot_a_session_opens_all_the_same(
    store: SessionStore, database: Database
) -> None:
    journal = store.create(folder="/home/ana", model="scripted:a")
    write(journal, command_turn(1) + command_turn(2))
    journal.close()
    with_snapshot, _ = load_state(database, journal.state.session_id)
    for damaged in (None, "{", '{"seq":1,"hash":"of another journal"}'):
        database.execute("UPDATE sessions SET snapshot = ?", (damaged,))
        assert load_state(database, journal.state.session_id) == (with_snapshot, ())


def test_compaction_replaces_what_came_before(store: SessionStore) -> None:
    journal = store.create(folder="/home/ana", model="scripted:a")
    write(journal, command_turn(1))
    journal.append(Compacted((HumanMessage("seven files so far"),), None, (), 1))
    write(journal, command_turn(2))
    journal.close()
    again = store.open(journal.state.session_id)
    assert again.state.messages[0].content == "seven files so far"
    assert len(again.state.messages) == 5
    again.close()


def test_a_sub_agents_history_is_its_own_until_its_call_is_answered(store: SessionStore) -> None:
    journal = store.create(folder="/home/ana", model="scripted:a")
    write(journal, agent_turn(1))
    write(journal, agent_turn(2, answered=False))
    for state in (journal.state, fold(journal.records())):
        (agent,) = state.agents.values()
        assert list(state.agents) == ["d2"]
        assert [message.type for message in agent.messages] == ["human", "ai", "tool", "ai"]
        assert agent.usage == Usage(20, 2, 0, 2)
        assert [request.id for request in state.pending] == ["a2.2"]
        assert state.usage == Usage(40, 4, 0, 4)
        assert [message.content for message in state.messages if message.content] == [
            "Do 1", "Seven.", "There are seven.", "Do 2",
        ]  # fmt: skip
    journal.append(Outcome("a2.2", "finished", ToolMessage("8", tool_call_id="c2"), agent="d2"))
    answer = ToolMessage("Eight.", tool_call_id="d2")
    journal.append(NodeRan(NodeUpdate("execute_tool", (answer,))))
    assert journal.state.agents == {}
    assert journal.state.pending == ()
    journal.close()


def test_a_sub_agent_at_work_outlives_its_process_and_a_compaction(store: SessionStore) -> None:
    journal = store.create(folder="/home/ana", model="scripted:a")
    write(journal, agent_turn(1, answered=False))
    at_work = journal.state.agents
    kept = journal.state.messages[-1:]
    journal.append(
        Compacted(
            kept,
            None,
            journal.state.pending,
            1,
            at_work,
            summary="So far.",
            usage=Usage(7, 1, 0, 1),
        )
    )
    assert journal.state.agents == at_work
    journal.close()
    again = store.open(journal.state.session_id)
    assert again.state.agents == at_work
    assert tuple(again.state.messages) == kept
    assert again.state.usage == Usage(27, 3, 0, 3)
    write(again, [Outcome("a1.2", "unknown", ToolMessage("?", tool_call_id="c2"), agent="d1")])
    assert again.state.agents["d1"].messages[-1].content == "?"
    again.append(TurnClosed(1, "interrupted", 130, ""))
    assert again.state.agents == {}
    again.close()


def test_a_request_is_started_once_and_ends_once(store: SessionStore) -> None:
    journal = store.create(folder="/home/ana", model="scripted:a")
    write(journal, command_turn(1))
    before = journal.state
    with pytest.raises(StorageLockedError, match="this action was already started"):
        journal.append(Intent("r1", "rm -r build", "/home/ana", "e"))
    with pytest.raises(StorageLockedError, match="this action was already started"):
        journal.append(Outcome("r1", "finished", ToolMessage("again", tool_call_id="c1")))
    assert journal.state == before
    write(journal, command_turn(2))
    journal.close()


def test_one_process_at_a_time(store: SessionStore, open_database: object) -> None:
    assert callable(open_database)
    journal = store.create(folder="/home/ana", model="scripted:a")
    second = SessionStore(open_database(), version="1.0")
    with pytest.raises(SessionBusyError, match="open in another terminal"):
        second.open(journal.state.session_id)
    journal.close()
    second.open(journal.state.session_id).close()


def test_the_unknown_is_told_from_what_was_never_started(store: SessionStore) -> None:
    journal = store.create(folder="/home/ana", model="scripted:a")
    bodies = command_turn(1, output_path="/tmp/out.log")
    write(journal, bodies[:6])
    journal.close()
    state, _ = load_state(store.database, journal.state.session_id)
    (intent,) = state.unknown
    assert intent.output_path == "/tmp/out.log"
    assert [request.id for request in state.pending] == ["r1"]
    assert state.waiting == ()
