"""Comparison of two runs, and the file of a bug report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage

from kogniterm.errors import UsageError
from kogniterm.sessions.chain_audit import verify
from kogniterm.sessions.recording import first_divergence
from kogniterm.sessions.records import NodeRan, Outcome, Record, RecordBody
from kogniterm.sessions.session_database import SESSIONS
from kogniterm.sessions.session_transfer import import_lines, report_lines
from kogniterm.sessions.store import SessionStore
from kogniterm.storage.database import Database
from kogniterm.types import NodeUpdate
from tests.support.conversation import command_turn, write


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    """Return a store of one database; comparison and reports are the same on both."""
    return SessionStore(Database(tmp_path / "a.db", SESSIONS), version="1.0")


def recorded(store: SessionStore, bodies: list[RecordBody]) -> list[Record]:
    journal = store.create(folder="/home/ana", model="m")
    write(journal, bodies)
    records = list(journal.records())
    journal.close()
    return records


def test_the_same_run_does_not_diverge_whatever_the_times_and_ids(store: SessionStore) -> None:
    assert (
        first_divergence(
            recorded(store, command_turn(1) + command_turn(2)),
            recorded(store, command_turn(1) + command_turn(2)),
        )
        is None
    )
    store.close()


def test_in_which_order_sub_agents_came_in_means_nothing(store: SessionStore) -> None:
    def thought(agent: str, text: str) -> RecordBody:
        return NodeRan(NodeUpdate("decide_action", (AIMessage(text),), agent=agent))

    bodies = [*command_turn(1)[:2], thought("a", "1"), thought("b", "1"), thought("a", "2")]
    other = [*command_turn(1)[:2], thought("b", "1"), thought("a", "1"), thought("a", "2")]
    wrong = [*command_turn(1)[:2], thought("b", "1"), thought("a", "2"), thought("a", "1")]
    assert first_divergence(recorded(store, bodies), recorded(store, other)) is None
    found = first_divergence(recorded(store, bodies), recorded(store, wrong))
    assert found is not None
    assert (found.kind, found.recorded, found.replayed) == ("node", "1", "2")
    store.close()


def test_the_first_difference_is_named(store: SessionStore) -> None:
    other = command_turn(2)
    assert isinstance(other[6], Outcome)
    assert other[6].result is not None
    other[6] = replace(other[6], result=replace(other[6].result, exit_code=2, duration=9.0))
    found = first_divergence(
        recorded(store, command_turn(1) + command_turn(2)),
        recorded(store, command_turn(1) + other),
    )
    assert found is not None
    assert (found.turn, found.kind, found.path) == (2, "outcome", "result.exit_code")
    assert (found.recorded, found.replayed) == (0, 2)
    store.close()


def test_a_run_that_stops_early_diverges_where_it_stops(store: SessionStore) -> None:
    found = first_divergence(recorded(store, command_turn(1)), recorded(store, command_turn(1)[:5]))
    assert found is not None
    assert (found.turn, found.kind, found.replayed) == (1, "intent", None)
    store.close()


def test_a_report_holds_all_but_the_secrets_and_can_be_imported(
    store: SessionStore, tmp_path: Path
) -> None:
    journal = store.create(folder="/home/ana", model="m")
    write(journal, command_turn(1, "log in with hunter2", "curl -u ana:hunter2 x", "hunter2 ok"))
    journal.close()
    lines = list(
        report_lines(
            store,
            "last",
            redact=lambda text: text.replace("hunter2", "[secret:1]"),
            about={"kogniterm": "1.0"},
            attachments={"recording": ['{"reply":"hunter2"}\n', "{}\n"]},
        )
    )
    assert "hunter2" not in "".join(lines)
    about, *others = map(json.loads, lines[1:-1])
    assert about == {"section": "about", "kogniterm": "1.0"}
    attached = [one["line"] for one in others if one["section"] == "recording"]
    assert attached == ['{"reply":"[secret:1]"}', "{}"]
    other = SessionStore(Database(tmp_path / "b.db", SESSIONS), version="1.0")
    info = import_lines(other, (line + "\n" for line in lines))
    assert info.title == "log in with [secret:1]"
    assert verify(other.database, info.id).intact
    assert other.search("curl")[0][1].turn == 1
    other.close()
    store.close()


@pytest.mark.parametrize("line", [0, 1, 5, -1])
def test_a_report_that_was_cut_or_changed(store: SessionStore, line: int) -> None:
    write(journal := store.create(folder="/", model="m"), command_turn(1))
    journal.close()
    lines = list(report_lines(store, "last", redact=str, about={}))
    del lines[line]
    with pytest.raises(UsageError):
        import_lines(store, lines)
    store.close()
