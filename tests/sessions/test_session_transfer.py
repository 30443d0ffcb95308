"""Export, import, fork and copy lose nothing and add nothing."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kogniterm.errors import UsageError
from kogniterm.runtime.operations.stored_data import export_parts
from kogniterm.sessions.chain_audit import verify
from kogniterm.sessions.journal.codec import insert, new_row
from kogniterm.sessions.journal.journal import load_state
from kogniterm.sessions.readable_export import markdown
from kogniterm.sessions.records import NodeRan
from kogniterm.sessions.session_database import SESSIONS
from kogniterm.sessions.session_transfer import (
    copy_all,
    export_lines,
    fork,
    import_lines,
)
from kogniterm.sessions.store import SessionStore
from kogniterm.storage.archive_file import write_archive
from kogniterm.storage.database import Database
from kogniterm.types import NodeUpdate, Plan, PlanStep
from kogniterm.ui.locale import translate
from tests.sessions.journal.test_codec import BODIES
from tests.sessions.on_file import ON_FILE
from tests.support.conversation import agent_turn, command_turn, write
from tests.support.language import in_spanish


@pytest.fixture
def session(store: SessionStore) -> str:
    """Return the id of a closed session of three turns."""
    journal = store.create(folder="/home/ana/niño", model="scripted:a")
    for turn in (1, 2, 3):
        write(journal, command_turn(turn, f"Tarea número {turn}: ¿cuántos?", output="ñ\x00\n"))
    journal.close()
    store.save_draft(journal.state.session_id, "half a senten")
    return journal.state.session_id


@pytest.fixture
def other(tmp_path: Path) -> SessionStore:
    """Return another, empty database."""
    return SessionStore(Database(tmp_path / "other.db", SESSIONS), version="1.0")


def test_a_sub_agent_at_work_goes_with_its_session(
    store: SessionStore, other: SessionStore
) -> None:
    journal = store.create(folder="/home/ana", model="m")
    write(journal, agent_turn(1, answered=False))
    journal.close()
    copy_all(store, other)
    state, _damaged = load_state(other.database, journal.state.session_id)
    assert state.agents == journal.state.agents
    assert len(state.agents["d1"].messages) == 4
    assert state.pending == journal.state.pending
    other.close()


def test_every_kind_of_record_crosses_byte_for_byte(
    store: SessionStore, other: SessionStore
) -> None:
    journal = store.create(folder="/", model="m")
    journal.close()
    session, seq = journal.state.session_id, journal.state.seq
    ((last,),) = store.database.execute("SELECT hash FROM records")
    for body in BODIES:
        row = new_row(body, seq, 0.1 * seq, last)
        insert(store.database, session, row)
        seq, last = row.seq, row.hash
    copy_all(store, other)
    assert list(export_lines(other, session)) == list(export_lines(store, session))
    assert verify(other.database, session).intact
    for table in ("SELECT kind, payload, hash, salt FROM records ORDER BY seq",):
        assert other.database.execute(table) == store.database.execute(table)
    other.close()


def test_an_imported_session_is_exported_with_the_same_bytes(
    store: SessionStore, other: SessionStore, session: str
) -> None:
    lines = list(export_lines(store, session))
    import_lines(other, lines)
    assert list(export_lines(other, session)) == lines
    other.delete([session])
    import_lines(other, lines)
    assert list(export_lines(other, session)) == lines
    other.close()


def test_importing_again_changes_nothing(store: SessionStore, session: str) -> None:
    lines = list(export_lines(store, session))
    assert import_lines(store, lines).id == session
    assert len(store.sessions()) == 1
    copy = import_lines(store, lines, as_new=True)
    assert copy.id != session
    assert copy.title == store.find(session).title
    assert verify(store.database, copy.id).intact


def test_another_session_with_the_same_id_is_not_overwritten(
    store: SessionStore, session: str
) -> None:
    lines = list(export_lines(store, session))
    store.rename(session, "gone on")
    assert import_lines(store, lines).title == "gone on"
    store.delete([session])
    store.create(folder="/", model="m", session_id=session).close()
    with pytest.raises(UsageError, match="--as-new"):
        import_lines(store, lines)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: list(write_archive([("memory", {})])), "contains no session"),
        (lambda lines: lines[:-1], "ends too early"),
        (lambda lines: [], "ends too early"),
        (lambda lines: lines[:3] + lines[4:], "checksum"),
        (lambda lines: [*lines, "{}"], "line 32.*after the end"),
        (lambda lines: [lines[0].replace('"version":1', '"version":9'), *lines[1:]], "newer"),
        (lambda lines: ['{"format":"zip"}', *lines[1:]], "the format is zip"),
        (lambda lines: ["not json", *lines[1:]], "line 1"),
        (lambda lines: [lines[0], "[]", *lines[1:]], "line 2"),
        (lambda lines: [line.replace("wc -l", "wc -c") for line in lines], "checksum"),
    ],
)
@ON_FILE
def test_a_file_that_was_cut_or_changed_is_refused(
    store: SessionStore, other: SessionStore, session: str, change: object, message: str
) -> None:
    assert callable(change)
    lines = list(export_lines(store, session))
    with pytest.raises(UsageError, match=message):
        import_lines(other, change(lines))
    assert other.sessions() == []
    other.close()


def test_a_fork_starts_from_a_copy_and_names_its_parent(store: SessionStore, session: str) -> None:
    branch = fork(store, session, turn=2)
    assert (branch.parent, branch.turns) == (session, 2)
    assert branch.title.endswith("(fork)")
    state, damaged = load_state(store.database, branch.id)
    parent, _ = load_state(store.database, session)
    assert damaged == ()
    assert tuple(state.messages) == tuple(parent.messages)[:8]
    assert verify(store.database, branch.id).intact
    journal = store.open(branch.id)
    write(journal, command_turn(3, "Another way"))
    journal.close()
    assert store.find(session).turns == 3
    assert verify(store.database, session).intact


def test_a_fork_at_each_turn_is_the_session_as_it_was_then(
    store: SessionStore, session: str
) -> None:
    parent, _ = load_state(store.database, session)
    for turn in range(4):
        branch = fork(store, session, turn=turn)
        state, damaged = load_state(store.database, branch.id)
        assert damaged == ()
        assert state.folder == "/home/ana/niño"
        assert tuple(state.messages) == tuple(parent.messages)[: 4 * turn]
        assert (state.turn, branch.turns) == (turn, turn)
        assert verify(store.database, branch.id).intact
        again = fork(store, branch.id)
        assert tuple(load_state(store.database, again.id)[0].messages) == tuple(state.messages)
    assert verify(store.database, session).intact


@pytest.mark.parametrize("turn", [-1, 4])
def test_a_fork_at_a_turn_that_was_not(store: SessionStore, session: str, turn: int) -> None:
    with pytest.raises(UsageError, match=f"Turn {turn} not found .* from 0 to 3"):
        fork(store, session, turn=turn)


def test_copying_a_database_and_bringing_the_copy_up_to_date(
    store: SessionStore, other: SessionStore, session: str
) -> None:
    assert copy_all(store, other).copied == (session,)
    assert copy_all(store, other).present == (session,)
    journal = store.open(session)
    write(journal, command_turn(4))
    journal.close()
    assert copy_all(store, other).copied == (session,)
    assert list(export_lines(other, session)) == list(export_lines(store, session))
    store.rename(session, "here")
    other.rename(session, "there")
    assert copy_all(store, other).conflicts == (session,)
    assert other.find(session).title == "there"
    other.close()


def test_markdown_reads_as_a_conversation(store: SessionStore) -> None:
    journal = store.create(folder="/home/ana", model="scripted:a")
    write(journal, command_turn(1, "Show\nme", "cat a.md", "```\ncode\n```", "It is code."))
    journal.close()
    text = "".join(markdown(store, journal.state.session_id))
    assert text.startswith("# Show\n")
    assert "> Show\n> me\n" in text
    assert "```sh\ncat a.md\n```" in text
    assert "````\n```\ncode\n```\n````" in text
    assert "*finished, exit code 0*" in text
    assert text.rstrip().endswith("It is code.")


def test_markdown_shows_each_output_behind_its_command(store: SessionStore) -> None:
    one, two = command_turn(1, "a", "ls one", "first"), command_turn(2, "b", "ls two", "second")
    journal = store.create(folder="/home/ana", model="scripted:a")
    # Both commands ran at once: all that the second one recorded stands before the first's outcome.
    write(journal, [*one[:6], *two[2:7], *one[6:]])
    journal.close()
    text = "".join(markdown(store, journal.state.session_id))
    places = [text.index(each) for each in ("ls one", "first", "ls two", "second")]
    assert places == sorted(places)


@pytest.mark.parametrize("form", ["markdown", "jsonl"])
def test_no_export_holds_a_control_sequence(store: SessionStore, form: Any) -> None:
    hostile = "a\x1b]0;t\x07b\x9b2J\u202e"
    journal = store.create(folder="/home/ana", model="scripted:a")
    write(journal, command_turn(1, hostile, f"echo {hostile}", hostile, hostile))
    journal.close()
    text = "".join(export_parts(store, journal.state.session_id, form, str))
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text)
    assert "]0;tb" in text or "x07b" in text or "u0007b" in text


def test_a_plan_is_shown_whole_once_and_then_what_changed(store: SessionStore) -> None:
    parts = (PlanStep("1.1", "Find it"), PlanStep("1.2", "Fix it"))
    first = Plan("make it work", (PlanStep("1", "Read", substeps=parts), PlanStep("2", "Test")))
    looked = replace(first, steps=(replace(first.steps[0], status="done"), first.steps[1]))
    revised = replace(looked, steps=(*looked.steps, PlanStep("3", "Ship")))
    journal = store.create(folder="/home/ana", model="scripted:a")
    turn = command_turn(1)
    plans = [NodeRan(NodeUpdate("n", plan=plan)) for plan in (first, looked, looked, revised)]
    write(journal, [turn[0], *plans, *turn[1:]])
    journal.close()
    text = "".join(markdown(store, journal.state.session_id))
    whole = "**Plan: make it work**\n\n- [{}] Read\n  - [ ] Find it\n  - [ ] Fix it\n- [ ] Test\n"
    once = whole.format(" ") + "\n- [x] Read\n\n" + whole.format("x") + "- [ ] Ship\n\n"
    assert once in text
    assert text.count("Read") == 3


def test_every_line_is_json_on_its_own(store: SessionStore, session: str) -> None:
    lines = [json.loads(line) for line in export_lines(store, session)]
    assert lines[0] == {"format": "kogniterm.archive", "version": 1}
    assert (lines[1]["section"], lines[1]["id"]) == ("session", session)
    assert {line["section"] for line in lines[2:-1]} == {"record"}
    assert [line["seq"] for line in lines[2:-1]] == list(range(1, lines[-1]["lines"] - 1))


def test_why_a_file_is_unusable_is_told_in_the_language_in_use(other: SessionStore) -> None:
    with pytest.raises(UsageError) as cut:
        import_lines(other, [])
    with pytest.raises(UsageError) as nameless:
        import_lines(other, ["{}"])
    with in_spanish():
        assert translate(cut.value.text).endswith(": el archivo termina antes de tiempo.")
        assert translate(nameless.value.text).endswith(": falta format.")
    other.close()
