"""`kogniterm audit show`: each action of a session, from its proposal to its exit."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kogniterm.cli.options import CallOptions
from kogniterm.cli.verbs.audit import ACTIONS
from kogniterm.sessions.chain_audit import verify
from kogniterm.sessions.records import Decided, Judged, NodeRan, Outcome, Requested
from kogniterm.sessions.session_database import SESSIONS
from kogniterm.sessions.store import SessionStore
from kogniterm.storage.database import Database
from kogniterm.types import Decision, Phrase, RiskReport, Verdict
from tests.support.conversation import agent_turn, command_turn, write


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionStore]:
    with closing(SessionStore(Database(tmp_path / "a.db", SESSIONS), version="1.0")) as store:
        yield store


@pytest.fixture
def session(store: SessionStore) -> str:
    journal = store.create(folder="/home/ana", model="scripted:a")
    write(journal, command_turn(1) + command_turn(2))
    journal.close()
    return journal.state.session_id


def show(store: SessionStore, session: str) -> list[dict[str, Any]]:
    (action,) = (one for one in ACTIONS if one.name == "show")
    return list(action.run(store, CallOptions({}), session).data)


def test_show_tells_each_request_from_proposal_to_exit(store: SessionStore, session: str) -> None:
    first, second = show(store, session)
    assert (first["request_id"], first["turn"], second["turn"]) == ("r1", 1, 2)
    assert (first["proposed"], first["command"]) == ("ls | wc -l", "ls | wc -l")
    assert (first["label"], first["verdict"]) == ("safe_readonly", "allow")
    assert (first["decision"], first["decided_by"]) == ("approve", "policy")
    assert (first["status"], first["exit_code"]) == ("finished", 0)
    assert first["cwd"] == "/home/ana/project"
    assert first["output_digest"] == hashlib.sha256(b"7\n").hexdigest()
    assert first["started"] is not None
    assert first["ended"] is not None
    assert first["ended"] >= first["started"]


def test_show_has_a_rejection(store: SessionStore) -> None:
    journal = store.create(folder="/home/ana", model="scripted:a")
    _, node, requested, _, _, _, outcome, *_ = command_turn(1, command="rm -r /")
    assert isinstance(node, NodeRan)
    assert isinstance(requested, Requested)
    assert isinstance(outcome, Outcome)
    write(
        journal,
        [
            node,
            requested,
            Judged(
                "r1",
                RiskReport("rm -r /", "dangerous", (Phrase("deletes {x}", {"x": "/"}),)),
                Verdict("ask"),
            ),
            Decided("r1", Decision("reject", "rm -r /", "ana", "are you mad")),
            Outcome("r1", "refused", outcome.message),
        ],
    )
    (entry,) = show(store, journal.state.session_id)
    journal.close()
    assert (entry["decision"], entry["decided_by"], entry["decision_reason"]) == (
        "reject",
        "ana",
        "are you mad",
    )
    assert entry["risks"] == ["deletes /"]
    assert (entry["command"], entry["started"], entry["status"]) == ("", None, "refused")


def test_show_says_which_sub_agent_asked(store: SessionStore) -> None:
    journal = store.create(folder="/home/ana", model="scripted:a")
    write(journal, agent_turn(1) + command_turn(2))
    journal.close()
    entries = show(store, journal.state.session_id)
    assert [entry["agent"] for entry in entries] == ["Count the files", "Count the files", ""]
    assert verify(store.database, journal.state.session_id).intact
