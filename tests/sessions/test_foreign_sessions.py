"""An imported session is foreign: its ids, paths and numbers decide nothing on this machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from kogniterm.errors import UsageError
from kogniterm.runtime.operations.stored_data import import_session
from kogniterm.sessions.journal.codec import readable_records
from kogniterm.sessions.journal.journal import load_state
from kogniterm.sessions.records import InputReceived, Intent, NodeRan, Noted, RecordBody
from kogniterm.sessions.session_database import SESSIONS
from kogniterm.sessions.session_transfer import copy_all, export_lines, fork, import_lines
from kogniterm.sessions.store import SessionStore
from kogniterm.storage.database import Database
from kogniterm.types import ActionRequest, NodeUpdate, UserInput
from tests.sessions.on_file import ON_FILE
from tests.support.conversation import agent_turn, command_turn, write
from tests.support.foreign import foreign_export

pytestmark = ON_FILE

BAD_IDS = ["../../../../.ssh", "..", ".", "", "a/b", "/etc", "~", "A", "last", "-a", "x" * 65,
           "a\0", "ñ", "a\n", "a_b", 5, None, ["a"], {}]  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, store: SessionStore) -> Path:
    """Return the folder of a user's keys, beside the folders of the sessions."""
    keys = tmp_path / ".ssh"
    (keys / "deep").mkdir(parents=True)
    (keys / "id_rsa").write_text("key")
    (keys / "deep" / "id").write_text("key")
    store.folders[0].mkdir()
    return keys


def present(home: Path) -> bool:
    return (home / "id_rsa").exists() and (home / "deep" / "id").exists()


def test_an_id_that_leads_elsewhere_removes_nothing(
    store: SessionStore, home: Path, tmp_path: Path
) -> None:
    for evil in ("../.ssh", str(home)):
        with pytest.raises(UsageError, match=r"ID.*--as-new"):
            import_lines(store, foreign_export(evil, command_turn(1)))
        imported = import_lines(store, foreign_export(evil, command_turn(1)), as_new=True)
        assert "/" not in imported.id
        # A database that an earlier version, or another program, wrote into.
        store.database.execute(
            "INSERT INTO sessions (id, folder, model, created, updated) VALUES (?, '/', '', 1, 1)",
            (evil,),
        )
    store.expire(1)
    assert store.sessions() == []
    assert present(home)


@pytest.mark.parametrize("evil", BAD_IDS, ids=repr)
def test_an_id_is_refused_wherever_it_comes_from(
    store: SessionStore, tmp_path: Path, evil: Any
) -> None:
    with pytest.raises(UsageError):
        import_lines(store, foreign_export(evil))
    if isinstance(evil, str) and evil:
        with pytest.raises(UsageError):
            store.create(folder="/", model="m", session_id=evil)
        with pytest.raises(UsageError):
            store.open_or_create(evil, folder="/", model="m")
    assert store.sessions() == []


def test_output_files_of_other_sessions_are_kept(store: SessionStore, tmp_path: Path) -> None:
    other = store.folders[0] / "18f-7-ab" / "0001.log"
    other.parent.mkdir(parents=True)
    other.write_text("the output of another session")
    lines = foreign_export("evil", command_turn(1, output_path=str(other)))
    imported = import_lines(store, lines)
    branch = fork(store, imported.id, turn=1)
    store.delete([branch.id])
    store.delete([imported.id])
    assert other.exists()


def test_a_fork_leaves_the_output_files_of_its_parent(store: SessionStore) -> None:
    journal = store.create(folder="/", model="m")
    own = store.folders[0] / journal.state.session_id / "18f-7-ab" / "0001.log"
    own.parent.mkdir(parents=True)
    own.write_text("whole output")
    write(journal, command_turn(1, output_path=str(own)))
    journal.close()
    branch = fork(store, journal.state.session_id)
    store.delete([branch.id])
    assert own.exists()
    store.delete([journal.state.session_id])
    assert list(store.folders[0].iterdir()) == []


REQUEST = ActionRequest("r1", "c1", "execute_command", "ls", "to see")
CALL = {"name": "execute_command", "args": {"command": "ls"}, "id": "c1"}
OPEN: list[RecordBody] = [
    InputReceived(1, UserInput("Go"), HumanMessage("Go")),
    NodeRan(NodeUpdate("decide_action", (AIMessage("", tool_calls=[CALL]),), pending=(REQUEST,))),
]


def test_nothing_imported_is_pending(store: SessionStore, home: Path, tmp_path: Path) -> None:
    secret = str(home / "id_rsa")
    started = [*OPEN, Intent("r1", "ls", "/", "", secret)]
    of_user = [Intent("u1", "make", "/", "", secret)]
    limit = [*OPEN[:1], Noted("limit", {"limit": "steps", "most": 5})]
    agent = agent_turn(1, answered=False)
    nobody = NodeUpdate("decide_action", pending=(replace(REQUEST, agent="nobody"),))
    for number, bodies in enumerate((OPEN, started, of_user, limit, agent, [NodeRan(nobody)])):
        lines = foreign_export(f"s{number}", bodies)
        imported = import_session(store, lines, folder=str(tmp_path))
        state, damaged = load_state(store.database, imported.id)
        assert (damaged, state.folder, state.cwd) == ((), str(tmp_path), str(tmp_path))
        assert not any((state.open_turn, state.pending, state.unknown, state.asking, state.limit))
        assert not any((state.agents, state.requested, state.decisions))
        calls = {c["id"] for m in state.messages for c in getattr(m, "tool_calls", ())}
        assert calls == {m.tool_call_id for m in state.messages if hasattr(m, "tool_call_id")}
        # What may have run stays known, so that it is not repeated without a question.
        assert [run.intent.command for run in state.unsettled] == [
            one.command for one in bodies if isinstance(one, Intent)
        ]
        count = state.seq
        assert import_session(store, lines, folder="/").id == imported.id
        assert load_state(store.database, imported.id)[0].seq == count


def test_what_cannot_be_closed_is_not_imported(store: SessionStore, tmp_path: Path) -> None:
    request = replace(REQUEST, id="\ud800")
    update = NodeUpdate("decide_action", (AIMessage("", tool_calls=[CALL]),), pending=(request,))
    twice = [*command_turn(1), OPEN[0], NodeRan(replace(update, pending=(REQUEST,)))]
    for number, bodies in enumerate(([OPEN[0], NodeRan(update)], twice)):
        with pytest.raises(UsageError, match="not a valid export"):
            import_session(store, foreign_export(f"s{number}", bodies), folder=str(tmp_path))
    assert store.sessions() == []


@pytest.mark.parametrize("data", [1.5, None, "x", [1]])
def test_a_note_without_values_is_damaged(store: SessionStore, tmp_path: Path, data: Any) -> None:
    for change in ({"payload": {"data": data}}, {"line": {"payload": data, "kind": "of_later"}}):
        lines = foreign_export(f"s{len(store.sessions())}", [Noted("title", {})], **change)
        imported = import_session(store, lines, folder="/")
        assert [one.seq for one in readable_records(store.database, imported.id)] == [1]


def test_a_copy_of_ones_own_database_keeps_what_waits(store: SessionStore, tmp_path: Path) -> None:
    journal = store.create(folder="/", model="m")
    write(journal, OPEN)
    journal.close()
    other = SessionStore(Database(tmp_path / "other.db", SESSIONS), version="1.0")
    copy_all(store, other)
    assert load_state(other.database, journal.state.session_id)[0].pending == (REQUEST,)
    other.close()


TURN = InputReceived(1, UserInput("Go"), HumanMessage("Go"))
BAD_VALUES: list[dict[str, dict[str, Any]]] = [
    {"header": {"created": value}} for value in ("x", None, True, 1e300, -1, [], 10**400)
]
BAD_VALUES += [{"header": {"draft": 5}}, {"header": {"parent": 5}},
               {"header": {"parent": "\ud800"}}, {"header": {"parent_seq": "x"}},
               {"header": {"parent_seq": 2**70}}]  # fmt: skip
BAD_VALUES += [{"line": {"seq": value}} for value in ("x", 0, -1, 1, 2**31, 2**70, 2.0, True, None)]
BAD_VALUES += [{"line": {"time": value}} for value in ("x", 1e300, -1, None, 10**400, True)]
BAD_VALUES += [
    {"line": {name: value}}
    for name in ("kind", "salt", "previous", "hash", "request_id", "amended")
    for value in (5, ["a"], {})
]


@pytest.mark.parametrize("change", BAD_VALUES, ids=repr)
def test_a_value_of_another_kind_or_size_is_refused(
    store: SessionStore, change: dict[str, Any]
) -> None:
    with pytest.raises(UsageError, match="not a valid export"):
        import_lines(store, foreign_export("evil", [TURN], **change))
    assert store.sessions() == []


@pytest.mark.parametrize(
    "payload",
    [{"turn": "x"}, {"turn": 2**70}, {"turn": 1.5}, {"turn": None}, {"turn": []},
     {"input": {"text": 5}}, {"plan_only": "yes"}, {"message": 5}],
    ids=repr,
)  # fmt: skip
def test_a_record_with_other_values_is_left_out(
    store: SessionStore, payload: dict[str, Any]
) -> None:
    imported = import_lines(store, foreign_export("evil", [TURN], payload=payload))
    assert imported.turns == 0
    assert not load_state(store.database, "evil")[0].messages
    assert fork(store, "evil").turns == 0
    assert list(export_lines(store, "evil"))
