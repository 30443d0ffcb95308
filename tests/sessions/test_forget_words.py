"""Forgotten words are removed everywhere, and the journal still proves itself."""

from __future__ import annotations

import base64
import re
import unicodedata
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, ToolMessage

from kogniterm.errors import StorageFullError, UsageError
from kogniterm.sessions.chain_audit import verify
from kogniterm.sessions.forget_words import forget
from kogniterm.sessions.journal.codec import insert, new_row, stored_records
from kogniterm.sessions.journal.journal import load_state, parse_fault
from kogniterm.sessions.records import NodeRan, Outcome
from kogniterm.sessions.session_transfer import export_lines, import_lines
from kogniterm.sessions.store import SessionStore
from kogniterm.types import NodeUpdate
from tests.sessions.journal.test_codec import BODIES
from tests.sessions.on_file import ON_FILE
from tests.support.conversation import command_turn, write
from tests.support.statements import noted_statements

SECRET = "clave número 7"


def raw_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


@pytest.fixture
def output(tmp_path: Path) -> Path:
    folder = tmp_path / "outputs"
    folder.mkdir()
    path = folder / "1.log"
    path.write_text(f"before {SECRET} after")
    return path


@pytest.fixture
def session(store: SessionStore, output: Path) -> str:
    journal = store.create(folder="/home/ana", model="scripted:a")
    write(
        journal,
        command_turn(
            1, f"Use {SECRET} please", f"echo '{SECRET}'", SECRET, output_path=str(output)
        ),
    )
    write(journal, command_turn(2, "And now count"))
    journal.close()
    store.save_draft(journal.state.session_id, f"again {SECRET}")
    return journal.state.session_id


def test_nothing_of_the_words_stays_and_the_chain_holds(
    store: SessionStore, session: str, output: Path, tmp_path: Path
) -> None:
    report = forget(store, [SECRET])
    assert len(report.records[session]) >= 5
    output.unlink()  # files are cleaned by the code that joins all stores
    checked = verify(store.database, session)
    assert checked.intact
    assert checked.forgotten == report.records[session]
    everything = raw_bytes(tmp_path)
    assert SECRET.encode() not in everything
    assert b"mero 7" not in everything.replace(b"\\u00fa", b"u")
    assert store.search("clave") == []
    assert store.search("count")[0][1].session_id == session
    assert store.find(session).title == "Use [forgotten] please"
    state, damaged = load_state(store.database, session)
    assert damaged == ()
    assert state.messages[0].content == "Use [forgotten] please"
    assert state.draft == "again [forgotten]"


def test_a_forgotten_record_cannot_be_changed_again_unseen(
    store: SessionStore, session: str
) -> None:
    seq = forget(store, [SECRET]).records[session][0]
    store.database.execute(
        "UPDATE records SET payload = replace(payload, '[forgotten]', 'innocent') WHERE seq = ?",
        (seq,),
    )
    assert verify(store.database, session).broken == seq


def test_forgetting_twice_and_going_on(store: SessionStore, session: str) -> None:
    forget(store, [SECRET])
    forget(store, ["please"])
    assert forget(store, [SECRET]).records == {}
    journal = store.open(session)
    write(journal, command_turn(3))
    journal.close()
    assert verify(store.database, session).intact
    lines = list(export_lines(store, session))
    store.delete([session])
    import_lines(store, lines)
    assert list(export_lines(store, session)) == lines
    assert verify(store.database, session).intact


def test_the_session_worked_in_last_is_still_the_first(store: SessionStore, session: str) -> None:
    later = store.create(folder="/home/ana", model="scripted:a")
    write(later, command_turn(1, "Something else"))
    later.close()
    before = store.sessions()
    assert [info.id for info in before] == [later.state.session_id, session]
    forget(store, [SECRET])
    after = store.sessions()
    assert [(info.id, info.updated) for info in after] == [
        (info.id, info.updated) for info in before
    ]
    assert verify(store.database, session).intact


def test_a_title_given_by_hand_goes_too(store: SessionStore, session: str) -> None:
    store.rename(session, f"The {SECRET}")
    forget(store, [SECRET])
    assert store.find(session).title == "The [forgotten]"


def test_the_open_session_is_cleaned_through_its_own_journal(
    store: SessionStore, session: str
) -> None:
    journal = store.open(session)
    (busy,) = forget(store, [SECRET]).busy
    assert session in str(busy)
    forget(store, [SECRET], live={session: journal})
    assert journal.state.messages[0].content == "Use [forgotten] please"
    write(journal, command_turn(3))
    journal.close()
    assert store.find(session).title == "Use [forgotten] please"
    assert store.search("clave") == []
    assert verify(store.database, session).intact


def test_the_texts_for_searches_are_read_once(store: SessionStore, session: str) -> None:
    for number in range(6):
        journal = store.create(folder="/home/ana", model="scripted:a")
        write(journal, command_turn(1, f"Count the files of folder {number}"))
        journal.close()
    with noted_statements() as noted:
        assert [*forget(store, [SECRET]).records] == [session]
    # The index has none by session: each of these reads it whole.
    read = {values[0] for one, values in noted if " turn_texts " in one and values}
    assert read == {session}


@pytest.mark.parametrize("terms", [[], ["  "]])
def test_forgetting_nothing_is_a_mistake(store: SessionStore, terms: list[str]) -> None:
    with pytest.raises(UsageError):
        forget(store, terms)


def test_a_session_that_is_open_elsewhere_keeps_no_other_from_being_cleaned(
    store: SessionStore, session: str
) -> None:
    elsewhere = store.create(folder="/home/ana", model="scripted:a")
    write(elsewhere, command_turn(1, f"Use {SECRET} here too"))
    report = forget(store, [SECRET])
    elsewhere.close()
    assert list(report.records) == [session]
    assert len(report.busy) == 1


def test_case_and_white_space_do_not_hide_the_words(
    store: SessionStore, session: str, output: Path, tmp_path: Path
) -> None:
    output.unlink()
    store.save_draft(session, f"the Clave\n{unicodedata.normalize('NFD', 'Número')} 7")
    forget(store, [SECRET.upper()])
    assert load_state(store.database, session)[0].draft == "the [forgotten]"
    assert b"mero 7" not in raw_bytes(tmp_path).lower()


@pytest.mark.parametrize(
    "word",
    ["content", "text", "data", "type", "human", "tool", "message", "messages", "node", "name",
     "args", "command", "execute_command", "act", "finished", "template", "done", "path"],
)  # fmt: skip
@ON_FILE
def test_a_word_of_the_format_costs_no_session_its_shape(
    store: SessionStore, session: str, word: str
) -> None:
    before, _ = load_state(store.database, session)
    journal = store.open(session)
    write(journal, command_turn(3, f"Is {word} safe?", "echo hi", f"{word} it is"))
    journal.close()
    forget(store, [word])
    after, damaged = load_state(store.database, session)
    assert damaged == ()
    assert verify(store.database, session).intact
    kinds = [type(message) for message in before.messages]
    assert [type(message) for message in after.messages] == kinds + kinds[
        : len(after.messages) - len(kinds)
    ]
    assert "Is [forgotten] safe?" in [message.content for message in after.messages]
    assert all(message.content or getattr(message, "tool_calls", ()) for message in after.messages)
    assert after.turn == 3
    again = store.open(session)
    write(again, command_turn(4))
    again.close()


@pytest.mark.parametrize("point", ["before-note", "written-note", "after-note"])
def test_a_forgetting_that_was_cut_short_can_be_done_again(
    store: SessionStore, session: str, point: str
) -> None:
    failing = SessionStore(store.database, version="1.0", fault=parse_fault(f"full:{point}"))
    with pytest.raises(StorageFullError):
        forget(failing, [SECRET])
    assert verify(store.database, session).intact
    assert load_state(store.database, session)[0].messages[0].content == f"Use {SECRET} please"
    assert forget(store, [SECRET]).records[session]
    checked = verify(store.database, session)
    assert checked.intact
    assert checked.forgotten
    assert store.search("clave") == []


def test_words_in_every_kind_of_record_go_and_the_record_stays(
    store: SessionStore, tmp_path: Path
) -> None:
    journal = store.create(folder="/", model="m")
    session = journal.state.session_id
    seq, last = journal.state.seq, load_state(store.database, session)[0].hash
    kinds = []
    for body in BODIES:
        row = new_row(body, seq, 1.0, last)
        insert(store.database, session, row)
        seq, last = row.seq, row.hash
        kinds.append(row.kind)
    artifact = {"raw": f"<<{SECRET}>>".encode()}
    outcome = Outcome("r77", "finished", ToolMessage("x", tool_call_id="c", artifact=artifact))
    insert(store.database, session, new_row(outcome, seq, 1.0, last))
    journal.close()
    words = {
        word
        for (payload,) in store.database.execute("SELECT payload FROM records")
        for word in re.findall(r"[a-z_]{4,}", payload)
    }
    forget(store, [SECRET, *sorted(words)])
    rows = list(stored_records(store.database, session, first=2))
    assert [row.kind for row in rows[: len(kinds)]] == kinds
    for row in rows:
        row.record()
    assert verify(store.database, session).intact
    assert b"mero 7" not in b"".join(
        base64.b64decode(found)
        for row in rows
        for found in re.findall(r'"__bytes__":"([^"]*)"', row.payload)
    )


def test_a_damaged_record_is_cleaned_as_it_is(store: SessionStore, session: str) -> None:
    store.database.execute(
        "UPDATE records SET payload = ? WHERE seq = 2", (f'{{"half": "{SECRET}',)
    )
    assert 2 in forget(store, [SECRET]).records[session]
    ((payload,),) = store.database.execute("SELECT payload FROM records WHERE seq = 2", ())
    assert payload == '{"half": "[forgotten]'


def test_words_that_meet_where_two_records_do_leave_the_index(store: SessionStore) -> None:
    journal = store.create(folder="/home/ana", model="scripted:a")
    write(journal, command_turn(1, "Use the clave número", "7 | cat"))
    journal.close()
    store.search("cat")
    assert list(forget(store, [SECRET]).records) == [journal.state.session_id]
    for row in store.database.execute("SELECT text, words FROM turn_texts"):
        assert not any("número" in text or "numero" in text for text in row)
    assert forget(store, [SECRET]).records == {}
    assert verify(store.database, journal.state.session_id).intact


def test_a_list_of_words_is_cleaned_as_the_words_it_is(store: SessionStore, tmp_path: Path) -> None:
    journal = store.create(folder="/home/ana", model="scripted:a")
    call = {"name": "x", "args": {"argv": ["echo", "clave", "número 7", "ñu"]}, "id": "c1"}
    journal.append(NodeRan(NodeUpdate("decide_action", (AIMessage("", tool_calls=[call]),))))
    journal.close()
    forget(store, [SECRET])
    (message,) = load_state(store.database, journal.state.session_id)[0].messages
    assert isinstance(message, AIMessage)
    assert "clave" not in message.tool_calls[0]["args"]["argv"]
    assert message.tool_calls[0]["id"] == "c1"
