"""Finding, naming, searching and deleting sessions, on both databases."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kogniterm.errors import UsageError
from kogniterm.sessions.fold import TITLE_LENGTH, title_of
from kogniterm.sessions.journal.journal import SessionJournal
from kogniterm.sessions.journal.ownership import SessionBusyError
from kogniterm.sessions.records import Judged, TurnClosed
from kogniterm.sessions.store import SessionStore
from kogniterm.types import Verdict
from tests.support.conversation import command_turn, write
from tests.support.statements import noted_statements


def closed(store: SessionStore, task: str, **options: str) -> str:
    """Record a closed session of one turn; return its id."""
    journal = store.create(folder="/home/ana", model="scripted:a")
    write(journal, command_turn(1, task, **options))  # type: ignore[arg-type]
    journal.close()
    return journal.state.session_id


def test_the_list_shows_the_last_used_first(store: SessionStore) -> None:
    first, second = closed(store, "Count the files"), closed(store, "Fix the build")
    assert [info.id for info in store.sessions()] == [second, first]
    store.open(first).close()
    assert [info.id for info in store.sessions()] == [first, second]
    info = store.sessions()[0]
    assert (info.title, info.turns, info.folder) == ("Count the files", 1, "/home/ana")
    assert info.updated > info.created
    assert store.sessions(folder="/elsewhere") == []


def test_a_session_is_found_by_what_a_user_remembers(store: SessionStore) -> None:
    first = closed(store, "Count the files")
    second = closed(store, "Arregla la compilación")
    assert store.find("last").id == second
    assert store.find("last", folder="/home/ana").id == second
    assert store.find(first).id == first
    assert store.find(first[:6]).id == first
    assert store.find("count THE files").id == first
    assert store.find("compilacion").id == second


@pytest.mark.parametrize("reference", ["", "nothing like it", "%"])
def test_what_names_no_session_is_a_usage_error(store: SessionStore, reference: str) -> None:
    closed(store, "Count the files")
    with pytest.raises(UsageError, match="not found"):
        store.find(reference)


def test_what_names_two_sessions_lists_them(store: SessionStore) -> None:
    ids = {closed(store, "Count the files"), closed(store, "Count the folders")}
    with pytest.raises(UsageError, match="matches 2 sessions") as raised:
        store.find("count")
    assert all(one in str(raised.value) for one in ids)


def test_only_the_first_of_many_matching_sessions_are_listed(store: SessionStore) -> None:
    for number in range(6):
        closed(store, f"Count the files {number}")
    with pytest.raises(UsageError, match=r"matches 6 sessions: .*, …; specify one"):
        store.find("count")


def test_with_no_session_at_all(store: SessionStore) -> None:
    with pytest.raises(UsageError, match="No sessions yet"):
        store.find("last")


def test_titles_come_from_the_first_task() -> None:
    assert title_of("\n\n  Fix   the build \nplease") == "Fix the build"
    assert title_of("   \n") == ""
    long = title_of("word " * 100)
    assert len(long) <= TITLE_LENGTH
    assert long.endswith("word…")
    assert len(title_of("x" * 100)) == TITLE_LENGTH


def test_renaming(store: SessionStore) -> None:
    session = closed(store, "Count the files")
    assert store.rename("last", "  The   count ").title == "The count"
    assert store.find(session).title == "The count"
    journal = store.open(session)
    assert journal.state.title == "The count"
    with pytest.raises(SessionBusyError):
        store.rename(session, "not now")
    journal.close()
    with pytest.raises(UsageError, match="title cannot be empty"):
        store.rename(session, "  ")


@pytest.mark.parametrize(
    "query",
    [
        "zanahoria",
        "ZANAHORIA",
        "zana",
        "azúcar zanahoria",
        "azucar",
        "sinfonía.txt",
        "vegetal",
        "orange",
    ],
)
def test_everything_said_proposed_and_observed_is_found(store: SessionStore, query: str) -> None:
    closed(store, "Something else entirely")
    session = closed(
        store,
        "Busca la zanahoria con azúcar",
        command="cat sinfonía.txt",
        output="a vegetal\n",
        answer="It is orange.",
    )
    ((info, hit),) = store.search(query)
    assert (info.id, hit.turn) == (session, 1)
    assert "zanahoria" in hit.excerpt or "…" in hit.excerpt


@pytest.mark.parametrize("query", ["", "!!", "carrot", "zanahoria carrot", '"', "a* OR b", "x:y"])
def test_what_is_not_there_is_not_found(store: SessionStore, query: str) -> None:
    closed(store, "Busca la zanahoria")
    assert store.search(query) == []


def test_a_turn_cut_short_by_a_crash_is_found_too(store: SessionStore) -> None:
    journal = store.create(folder="/home/ana", model="scripted:a")
    write(journal, command_turn(1, "Look for the parsnip")[:4])
    assert store.search("parsnip")[0][1].turn == 1
    assert len(store.search("parsnip")) == 1
    journal.close()
    store.open(journal.state.session_id).close()
    assert len(store.search("parsnip")) == 1


def raw_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def test_deletion_leaves_nothing_on_disk(
    store: SessionStore, location: Path | str, tmp_path: Path
) -> None:
    stranger = tmp_path / "report.txt"
    stranger.write_text("mine")
    kept = closed(store, "Count the files")
    journal = store.create(folder="/home/ana/xylophone", model="scripted:a")
    output = tmp_path / "outputs" / journal.state.session_id / "18f-7-ab" / "0001.log"
    output.parent.mkdir(parents=True)
    output.write_text("xylophone")
    write(journal, command_turn(1, "Tune the xylophone", output_path=str(output)))
    write(journal, command_turn(2, "and the xylophones", output_path=str(stranger)))
    journal.close()
    store.save_draft(journal.state.session_id, "xylophone again")
    if isinstance(location, Path):
        assert b"xylophon" in raw_bytes(tmp_path)
    store.delete([journal.state.session_id])
    assert [info.id for info in store.sessions()] == [kept]
    assert store.search("xylophone") == []
    assert list((tmp_path / "outputs").iterdir()) == []
    assert stranger.read_text() == "mine"
    assert b"xylophon" not in raw_bytes(tmp_path).lower()
    for table in ("records", "turn_texts", "leases"):
        query = f"SELECT count(*) FROM {table} WHERE session_id <> ?"
        assert store.database.execute(query, (kept,)) == [(0,)]


def test_an_open_session_is_not_deleted(store: SessionStore) -> None:
    first = closed(store, "Count the files")
    journal = store.create(folder="/home/ana", model="scripted:a")
    with pytest.raises(SessionBusyError):
        store.delete([first, journal.state.session_id])
    assert len(store.sessions()) == 2
    journal.close()
    assert len(store.delete([first, journal.state.session_id])) == 2
    assert store.sessions() == []


def test_many_sessions_are_deleted_in_one_pass(store: SessionStore) -> None:
    ids = [closed(store, f"Count the files of folder {number}") for number in range(8)]
    with noted_statements() as noted:
        assert [info.id for info in store.delete([*ids, ids[0]])] == ids
    assert store.sessions() == []
    # What reads the whole list or all texts for searches would be quadratic.
    assert sum(" turn_texts " in one for one, _ in noted) == 1
    assert not any("ORDER BY updated" in one for one, _ in noted)


def test_retention_deletes_what_was_not_used_for_long(store: SessionStore) -> None:
    old = closed(store, "Count the files")
    still_open: SessionJournal = store.create(folder="/home/ana", model="scripted:a")
    now = store.now() + 30 * 86_400
    later = SessionStore(store.database, version="1.0", now=lambda: now)
    young = closed(later, "Fix the build")
    assert [info.id for info in later.expire(29)] == [old]
    assert {info.id for info in later.sessions()} == {young, still_open.state.session_id}
    still_open.close()


def test_an_id_is_taken_once(store: SessionStore) -> None:
    store.create(folder="/", model="m", session_id="same").close()
    with pytest.raises(UsageError, match="already exists"):
        store.create(folder="/", model="m", session_id="same")


def test_sessions_without_a_turn_are_passed_over_where_one_is_to_be_continued(
    store: SessionStore,
) -> None:
    used = closed(store, "Count the files")
    empty = store.create(folder="/home/ana", model="scripted:a")
    empty.close()
    assert [info.id for info in store.sessions(used=True)] == [used]
    assert len(store.sessions()) == 2
    assert store.find("last").id == used
    assert store.find("last", folder="/home/ana").id == used
    # By its id it can still be found.
    assert store.find(empty.state.session_id).turns == 0


def test_a_short_id_names_one_session_alone(store: SessionStore) -> None:
    store.create(folder="/", model="m", session_id="0123456789ab").close()
    assert store.short_id("0123456789ab") == "01234567"
    store.create(folder="/", model="m", session_id="0123456789cd").close()
    assert store.short_id("0123456789ab") == "0123456789a"
    assert store.find(store.short_id("0123456789cd")).id == "0123456789cd"


@pytest.mark.parametrize(
    ("records", "expected"),
    [(9, "done"), (6, "interrupted"), (4, "question"), (1, "interrupted")],
)
def test_the_list_says_how_the_last_turn_stands(
    store: SessionStore, records: int, expected: str
) -> None:
    journal = store.create(folder="/home/ana", model="scripted:a")
    turn = command_turn(1)
    judged = turn[3]
    assert isinstance(judged, Judged)
    turn[3] = replace(judged, verdict=Verdict("ask"))
    write(journal, turn[:records])
    journal.close()
    assert store.condition(journal.state.session_id) == expected


@pytest.mark.parametrize(
    ("stop", "expected"), [("interrupted", "interrupted"), ("budget", "not_done")]
)
def test_the_list_says_that_a_turn_was_stopped_or_not_done(
    store: SessionStore, stop: str, expected: str
) -> None:
    journal = store.create(folder="/home/ana", model="scripted:a")
    write(journal, [*command_turn(1)[:-1], TurnClosed(1, stop, 1, "")])
    journal.close()
    assert store.condition(journal.state.session_id) == expected


def test_the_list_says_that_a_session_is_open_elsewhere(store: SessionStore) -> None:
    journal = store.create(folder="/home/ana", model="scripted:a")
    write(journal, command_turn(1))
    assert store.condition(journal.state.session_id) == "elsewhere"
    journal.close()
    assert store.condition(journal.state.session_id) == "done"
