"""Going back in a conversation: the journal only grows, and everything reads the same state."""

from __future__ import annotations

from dataclasses import replace

import pytest
from langchain_core.messages import HumanMessage

from kogniterm.sessions.chain_audit import verify
from kogniterm.sessions.fold import Note, SessionState
from kogniterm.sessions.history import Point, point_at, points, step_back
from kogniterm.sessions.journal.journal import SessionJournal, load_state
from kogniterm.sessions.readable_export import markdown, outline
from kogniterm.sessions.records import Compacted, InputReceived, NodeRan, TurnClosed
from kogniterm.sessions.session_transfer import export_lines, fork, import_lines
from kogniterm.sessions.store import SessionStore
from kogniterm.types import NodeUpdate, Plan, PlanStep, Usage
from tests.sessions.on_file import in_file  # noqa: F401 (fixture)
from tests.support.conversation import command_turn, write


@pytest.fixture
def journal(store: SessionStore) -> SessionJournal:
    """Return the journal of an open session of three turns."""
    journal = store.create(folder="/home/ana/project", model="scripted:a")
    for turn in (1, 2, 3):
        write(journal, command_turn(turn, f"task {turn}", f"make part{turn}"))
    return journal


def found(journal: SessionJournal) -> list[Point]:
    return points(journal.records())


def go_back(journal: SessionJournal, turn: int) -> None:
    point = next(point for point in found(journal) if point.turn == turn)
    journal.append(step_back(journal, point), durable=True)


def said(state: SessionState) -> list[str]:
    return [message.text for message in state.messages if message.type == "human"]


def test_the_history_is_that_of_the_point_and_the_records_stay(
    store: SessionStore, journal: SessionJournal
) -> None:
    before = [message.text for message in journal.state.messages]
    length = len(before) // 3
    spent, records = journal.state.usage, journal.state.seq
    go_back(journal, 2)
    state = journal.state
    assert [message.text for message in state.messages] == before[:length]
    assert (state.usage, state.seq) == (spent, records + 1)
    assert (state.open_turn, state.pending, state.turn) == (False, (), 3)
    assert sum(isinstance(r.body, InputReceived) for r in journal.records()) == 3
    assert [point.turn for point in found(journal)] == [1]
    # Another process reads the same state, from the snapshot and from the records alone.
    journal.close()
    assert load_state(store.database, state.session_id)[0] == state
    store.database.execute("UPDATE sessions SET snapshot = NULL")
    assert load_state(store.database, state.session_id)[0] == state
    assert verify(store.database, state.session_id).intact


def test_a_conversation_goes_on_and_goes_back_again(journal: SessionJournal) -> None:
    go_back(journal, 3)
    write(journal, command_turn(4, "task 4"))
    assert said(journal.state) == ["task 1", "task 2", "task 4"]
    assert [point.turn for point in found(journal)] == [1, 2, 4]
    go_back(journal, 2)
    assert said(journal.state) == ["task 1"]
    assert [point.turn for point in found(journal)] == [1]
    go_back(journal, 1)
    assert said(journal.state) == []
    assert found(journal) == []


def test_a_point_before_a_compaction_is_reached_with_its_whole_history(
    journal: SessionJournal,
) -> None:
    whole = tuple(message.text for message in journal.state.messages)
    journal.append(Compacted((HumanMessage("a summary"),), None, turn=3))
    write(journal, command_turn(4, "task 4"))
    go_back(journal, 3)
    assert tuple(m.text for m in journal.state.messages) == whole[: len(whole) * 2 // 3]


def test_the_plan_is_that_of_the_point(journal: SessionJournal) -> None:
    early = Plan("early", (PlanStep("s1", "Do it"),))
    journal.append(NodeRan(NodeUpdate("create_plan", plan=early, usage=Usage())))
    write(journal, command_turn(4, "task 4"))
    late = replace(early, goal="late")
    journal.append(NodeRan(NodeUpdate("create_plan", plan=late, usage=Usage())))
    go_back(journal, 4)
    assert journal.state.plan == early


@pytest.mark.parametrize("changed", [False, True])
def test_the_system_message_stays_unless_the_instructions_changed(
    store: SessionStore, changed: bool
) -> None:
    journal = store.create(folder="/home/ana/project", model="scripted:a")
    journal.append(Note.INSTRUCTIONS.record("Use tabs."))
    fixed = journal.state.fixed_instructions
    write(journal, command_turn(1))
    if changed:
        journal.append(Note.INSTRUCTIONS.record("Use blanks."))
    go_back(journal, 1)
    now = journal.state.instructions
    assert journal.state.fixed_instructions == (now if changed else fixed)
    assert (now != fixed) is changed


def test_actions_of_turns_taken_back_belong_to_the_point_before(journal: SessionJournal) -> None:
    go_back(journal, 2)
    (point,) = found(journal)
    assert [action.command for action in point.actions] == [
        "make part1",
        "make part2",
        "make part3",
    ]


def test_a_moment_belongs_to_the_last_point_before_it(journal: SessionJournal) -> None:
    listed = [replace(point, time=time) for point, time in zip(found(journal), (1, 2, 3), strict=1)]
    assert [point_at(listed, moment) for moment in (0.5, 1, 1.5, 3.5)] == [-1, 0, 0, 2]


def test_a_copy_and_an_export_go_back_as_well(store: SessionStore, journal: SessionJournal) -> None:
    go_back(journal, 2)
    journal.close()
    copied = fork(store, journal.state.session_id)
    assert said(load_state(store.database, copied.id)[0]) == ["task 1"]
    lines = list(export_lines(store, journal.state.session_id))
    again = import_lines(store, lines, as_new=True)
    assert said(load_state(store.database, again.id)[0]) == ["task 1"]
    # The turns that were taken back can be had again, in a copy.
    whole = fork(store, journal.state.session_id, turn=3)
    assert said(load_state(store.database, whole.id)[0]) == ["task 1", "task 2", "task 3"]


def test_readers_see_where_the_conversation_went_back(
    store: SessionStore, journal: SessionJournal
) -> None:
    go_back(journal, 2)
    session = journal.state.session_id
    assert "went back to before turn 2" in "".join(markdown(store, session))
    assert [turn["rewound"] for turn in outline(store.database, session)] == [False, True, True]


def test_the_list_of_sessions_forgets_how_a_turn_ended_that_was_taken_back(
    store: SessionStore, journal: SessionJournal
) -> None:
    turn = command_turn(4, "task 4")
    write(journal, [*turn[:-1], TurnClosed(4, "interrupted", 130, "")])
    session = journal.state.session_id
    journal.close()
    assert store.condition(session) == "interrupted"
    journal = store.open(session)
    go_back(journal, 4)
    journal.close()
    assert store.condition(session) == "done"
