"""Detection of manual changes to the database by `kogniterm audit verify`."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from kogniterm.memory.memory_database import INDEX_TABLES
from kogniterm.sessions.session_database import SESSIONS
from kogniterm.sessions.store import SessionStore
from kogniterm.storage.database import Database
from tests.cli.conftest import KOGNITERM, Shell
from tests.support.conversation import command_turn, write
from tests.support.programs import needs

END = "(SELECT min(seq) FROM records WHERE kind = 'input' AND seq > 5)"
"""The first record of the last turn."""


def store_of(shell: Shell) -> SessionStore:
    return SessionStore(Database(shell.data / "kogniterm.db", SESSIONS), version="1.0")


def a_session(shell: Shell) -> str:
    """Record a closed session of two turns and return its id."""
    with closing(store_of(shell)) as store:
        journal = store.create(folder=str(shell.project), model="scripted:a")
        write(journal, command_turn(1, "Count the carrots"))
        write(journal, command_turn(2, "And the parsnips", "ls parsnips"))
        journal.close()
        return journal.state.session_id


@pytest.fixture
def session(shell: Shell) -> str:
    return a_session(shell)


def tamper(shell: Shell, *statements: str) -> None:
    with closing(sqlite3.connect(shell.data / "kogniterm.db")) as connection:
        for statement in statements:
            connection.executescript(statement)
        connection.commit()


def heads(shell: Shell) -> Path:
    return shell.data / "kogniterm.db.heads"


@pytest.mark.parametrize(
    ("statements", "said"),
    [
        (
            [f"DELETE FROM records WHERE seq >= {END}", "UPDATE sessions SET snapshot = NULL"],
            "the end of the journal is missing: records 11 to 19",
        ),
        (
            [f"DELETE FROM records WHERE seq >= {END}", "UPDATE sessions SET snapshot = '{}'"],
            "the end of the journal is missing: records 11 to 19",
        ),
        (
            ["DELETE FROM records", "DELETE FROM sessions"],
            "the whole session is missing (records: 19)",
        ),
        (["DELETE FROM records"], "the end of the journal is missing: records 1 to 19"),
        (
            ["UPDATE records SET request_id = 'r9' WHERE kind = 'verdict' AND request_id = 'r1'"],
            "its column request_id does not match its content",
        ),
        (["UPDATE records SET request_id = NULL WHERE kind = 'intent'"], "request_id"),
        (
            ["UPDATE sessions SET title = 'Something else'"],
            "the session's column title does not match",
        ),
        (
            ["UPDATE sessions SET folder = '/elsewhere'"],
            "the session's column folder does not match",
        ),
        (["UPDATE sessions SET model = 'gpt'"], "the session's column model does not match"),
        (["UPDATE sessions SET turns = 1"], "the session's column turns does not match"),
        (["UPDATE sessions SET parent = 'abc'"], "the session's column parent does not match"),
        (["UPDATE sessions SET parent_seq = 3"], "the session's column parent_seq does not match"),
        (["UPDATE sessions SET updated = 7"], "the session's column updated does not match"),
        (["UPDATE sessions SET created = 7"], "the start date of the session was changed"),
        (
            ["UPDATE sessions SET snapshot = replace(snapshot, 'carrots', 'weapons')"],
            "the session's column snapshot does not match",
        ),
        (["DELETE FROM heads"], "The database's reference to the audit anchor file"),
    ],
)
def test_what_was_changed_by_hand_is_found(
    shell: Shell, session: str, statements: list[str], said: str
) -> None:
    tamper(shell, *statements)
    result = shell.run("audit", "verify")
    assert result.returncode == 1
    assert said in result.stdout


def copied_journal(shell: Shell, session: str, upto: int, new: str) -> list[str]:
    """Return statements that insert the first records of `session` as another session."""
    columns = "seq, time, kind, request_id, salt, payload, previous, hash, amended"
    return [
        "INSERT INTO sessions (id, folder, title, model, created, updated, turns) "
        f"SELECT '{new}', folder, title, model, created, updated, turns FROM sessions "
        f"WHERE id = '{session}'",
        f"INSERT INTO records (session_id, {columns}) SELECT '{new}', {columns} FROM records "
        f"WHERE session_id = '{session}' AND seq <= {upto}",
    ]


def test_a_planted_session_is_found(shell: Shell, session: str) -> None:
    tamper(shell, *copied_journal(shell, session, 19, "planted"))
    result = shell.run("audit", "verify")
    assert result.returncode == 1
    assert "planted: the audit anchor does not contain this session" in result.stdout
    found = json.loads(shell.run("audit", "verify", "--json").stdout)
    assert [one for one in found if not one["intact"]]


def grown(shell: Shell, session: str) -> None:
    """Add a well-formed turn to a closed journal, bypassing KogniTerm."""
    with closing(store_of(shell)) as store:
        from kogniterm.sessions.journal.codec import insert, new_row
        from kogniterm.sessions.journal.journal import load_state

        state, _ = load_state(store.database, session)
        seq, last = state.seq, state.hash
        for body in command_turn(3, "Planted"):
            row = new_row(body, seq, 1_900_000_000.0, last)
            insert(store.database, session, row)
            seq, last = row.seq, row.hash


def test_a_turn_added_to_a_closed_journal_is_found_also_after_it_was_opened(
    shell: Shell, session: str
) -> None:
    grown(shell, session)
    result = shell.run("audit", "verify")
    assert result.returncode == 1
    assert "record 20 is broken: it was added after the last record" in result.stdout
    assert shell.run("sessions", "rename", session, "Mine").returncode == 0
    result = shell.run("audit", "verify")
    assert result.returncode == 1
    assert (
        "record 20 is broken: it was changed while the session was not open in KogniTerm"
        in result.stdout
    )


def test_a_deleted_session_is_no_fault_when_the_user_deleted_it(shell: Shell, session: str) -> None:
    other = a_session(shell)
    assert shell.run("sessions", "delete", session, "--yes").returncode == 0
    result = shell.run("audit", "verify")
    assert result.returncode == 0
    assert "1 session was deleted by the user." in result.stdout
    assert other in result.stdout


def test_forks_imports_copies_and_new_titles_hold(shell: Shell, session: str) -> None:
    file = str(shell.home / "one.jsonl")
    for words in (
        ("sessions", "fork", session, "--turn", "1"),
        ("sessions", "export", session, "--to", file),
        ("sessions", "import", file, "--as-new"),
        ("sessions", "rename", session, "Another title"),
        ("audit", "verify"),
        ("storage", "copy", "sqlite", str(shell.home / "copy.db")),
        ("sessions", "rename", session, "A third title"),
        ("storage", "copy", "sqlite", str(shell.home / "copy.db")),
        ("storage", "check", str(shell.home / "copy.db")),
        ("storage", "check"),
    ):
        result = shell.run(*words)
        assert (result.returncode, result.stderr) == (0, ""), words


def test_a_head_file_that_was_removed_is_not_made_anew(shell: Shell, session: str) -> None:
    heads(shell).unlink()
    for _ in range(2):
        result = shell.run("audit", "verify")
        assert result.returncode == 1
        assert "is missing" in result.stdout
        assert "kogniterm audit anchor" in shell.run("sessions", "list").stderr
    assert not heads(shell).exists()
    assert shell.run("audit", "anchor").returncode == 2
    result = shell.run("audit", "anchor", "--yes")
    assert result.stdout == "New audit anchor created with 1 session.\n"
    assert shell.run("audit", "verify").returncode == 0
    tamper(shell, f"DELETE FROM records WHERE seq >= {END}")
    assert shell.run("audit", "verify").returncode == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: lines[:-1] + lines[-1:] * 2, "Line"),
        (lambda lines: [*lines[:3], *lines[4:]], "Line 4 of the audit anchor file"),
        (
            lambda lines: [one.replace(b'"seq":19', b'"seq":18') for one in lines],
            "does not match the audit anchor",
        ),
        (lambda lines: lines[:2], "The end of the audit anchor file"),
        (lambda lines: [], "Line 1"),
        (lambda lines: [b"\0" * 100 + b"\n"], "Line 1"),
    ],
)
def test_a_head_file_that_was_changed_is_reported(
    shell: Shell, session: str, change: object, said: str
) -> None:
    assert callable(change)
    lines = heads(shell).read_bytes().splitlines(keepends=True)
    heads(shell).write_bytes(b"".join(change(lines)))
    result = shell.run("audit", "verify")
    assert result.returncode == 1
    assert said in result.stdout


def test_the_head_file_of_another_database_is_not_taken(shell: Shell, session: str) -> None:
    shell.run("sessions", "list", environ={"KOGNITERM_DATA_DIR": str(shell.home / "other")})
    other = shell.home / "other" / "kogniterm.db.heads"
    heads(shell).write_bytes(other.read_bytes())
    result = shell.run("audit", "verify")
    assert result.returncode == 1
    assert "belongs to another database" in result.stdout


def test_an_older_database_is_taken_in_once_and_aloud(shell: Shell, session: str) -> None:
    heads(shell).unlink()
    tamper(
        shell,
        "DROP TABLE heads",
        "DELETE FROM schema_migrations WHERE room = 'sessions' AND number >= 5",
    )
    result = shell.run("sessions", "list")
    assert result.returncode == 0
    assert "was created. Existing sessions, included as found: 1." in result.stderr
    assert shell.run("sessions", "list").stderr == ""
    tamper(shell, f"DELETE FROM records WHERE seq >= {END}")
    assert shell.run("audit", "verify").returncode == 1


def test_a_database_of_0_bytes_is_damaged(shell: Shell, session: str) -> None:
    (shell.data / "kogniterm.db").write_bytes(b"")
    result = shell.run("sessions", "list")
    assert result.returncode == 1
    assert "The database was damaged and was moved to " in result.stderr
    assert "records are missing (sessions affected: 1)" in result.stderr
    assert list(shell.data.glob("kogniterm.db.damaged-*"))
    result = shell.run("audit", "verify")
    assert result.returncode == 1
    assert f"{session}: the whole session is missing (records: 19)" in result.stdout


def test_a_missing_write_ahead_log_is_seen(shell: Shell, session: str) -> None:
    """The log holds records that a killed process left, so its removal is reported."""
    database = shell.data / "kogniterm.db"
    before = database.read_bytes()
    a_session(shell)
    database.write_bytes(before)
    result = shell.run("sessions", "list")
    assert result.returncode == 1
    assert session in result.stdout
    assert "kogniterm.db-wal) may have been removed" in result.stderr
    assert shell.run("sessions", "search", "carrots").returncode == 1


def test_a_database_that_is_gone_is_missed(shell: Shell, session: str) -> None:
    (shell.data / "kogniterm.db").unlink()
    result = shell.run("sessions", "list")
    assert result.returncode == 1
    assert "records are missing (sessions affected: 1)" in result.stderr


def mounted_read_only(shell: Shell, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `kogniterm WORDS` with the data folder on a read-only file system."""
    mount = ("bwrap", "--dev-bind", "/", "/", "--ro-bind", str(shell.data), str(shell.data))
    return shell.run(*words, command=(*mount, KOGNITERM))


@needs("bwrap")
def test_what_a_killed_process_left_is_read_on_a_read_only_file_system(shell: Shell) -> None:
    """Its last records are in the write-ahead log, and not in the search index."""
    store = store_of(shell)
    journal = store.create(folder=str(shell.project), model="scripted:a")
    write(journal, command_turn(1, "Count the carrots"))
    copy = shell.home / "copy"
    shutil.copytree(shell.data, copy)  # the state after a kill
    journal.close()
    store.close()
    shutil.rmtree(shell.data)
    copy.rename(shell.data)
    assert (shell.data / "kogniterm.db-wal").stat().st_size
    before = {path: path.read_bytes() for path in shell.data.iterdir() if path.is_file()}
    for words in (
        ("sessions", "list"),
        ("sessions", "show", "last"),
        ("sessions", "search", "carr"),
    ):
        result = mounted_read_only(shell, *words)
        assert (result.returncode, "carrots" in result.stdout) == (0, True), result
    result = mounted_read_only(shell, "audit", "verify")
    assert (result.returncode, "10 records" in result.stdout) == (0, True), result
    result = mounted_read_only(shell, "memory", "list")
    assert (result.returncode, result.stderr) == (0, "Nothing is remembered here yet.\n")
    assert before == {path: path.read_bytes() for path in shell.data.iterdir() if path.is_file()}


def verified(shell: Shell) -> tuple[int, str]:
    result = shell.run("audit", "verify")
    return result.returncode, result.stdout


COLUMNS = (
    "user_id, project_id, category, slot, text, keywords, language, confidence, source, status, "
    "created, last_confirmed, relevance_count, pinned, valid_from, valid_to, superseded_by, "
    "session_id, origin_seq, quote, claim, terms, digest, version"
)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (
            f"INSERT INTO facts ({COLUMNS}) SELECT {COLUMNS} FROM facts WHERE id = 1",
            "memory: fact m3 was not written by KogniTerm",
        ),
        ("UPDATE facts SET text = 'the pelican eats at night' WHERE id = 1", "fact m1 was changed"),
        ("UPDATE facts SET confidence = 0.1 WHERE id = 2", "fact m2 was changed"),
        ("UPDATE facts SET project_id = '/elsewhere'", "fact m2 was changed"),
        ("DELETE FROM facts WHERE id = 2", "fact m2 was removed"),
        ("DELETE FROM fact_ledger", "does not match the audit anchor"),
        ("DELETE FROM fact_ledger WHERE seq = 3", "does not match the audit anchor"),
        (
            "DELETE FROM fact_ledger WHERE fact_id = 2; DELETE FROM facts WHERE id = 2",
            "the end of the fact ledger does not match the audit anchor",
        ),
        (
            "DELETE FROM fact_ledger WHERE seq = 1",
            "entry 1 of the fact ledger was changed or removed",
        ),
        (
            "UPDATE fact_ledger SET digest = hash WHERE seq = 2",
            "entry 2 of the fact ledger was changed or removed",
        ),
        ("UPDATE fact_ledger SET salt = '' WHERE seq = 2", "fact m1 was changed"),
    ],
)
def test_a_fact_that_was_changed_by_hand_is_found(
    shell: Shell, session: str, statement: str, said: str
) -> None:
    for text in ("the pelican eats at noon", "the harbour opens at seven"):
        assert shell.run("memory", "add", text).returncode == 0
    tamper(shell, statement)
    checked = shell.run("storage", "check")
    assert (checked.returncode, said in checked.stderr) == (1, True), checked
    found = json.loads(shell.run("audit", "verify", "--json").stdout)
    ((intact, reason),) = [(o["intact"], o["reason"]) for o in found if o["part"] == "memory"]
    assert (intact, said.removeprefix("memory: ") in reason) == (False, True), reason
    assert shell.run("audit", "anchor", "--yes").returncode == 0
    assert verified(shell)[0] == 0


def test_facts_that_are_written_changed_and_forgotten_hold(shell: Shell, session: str) -> None:
    for words in (
        ("add", "the pelican eats at noon"),
        ("add", "the harbour opens at seven"),
        ("edit", "1", "the pelican eats at one"),
        ("pin", "2"),
        ("forget", "m2", "--yes"),
    ):
        result = shell.run("memory", *words)
        assert result.returncode == 0, (words, result)
        assert verified(shell)[0] == 0
    # Together with the one that was replaced.
    assert "memory: 2 facts, all as they were written" in verified(shell)[1]
    copy = str(shell.home / "copy.db")
    assert shell.run("storage", "copy", "sqlite", copy).returncode == 0
    with closing(sqlite3.connect(shell.data / "kogniterm.db")) as connection:
        rows = connection.execute("SELECT salt FROM fact_ledger WHERE fact_id = 2").fetchall()
    assert {salt for (salt,) in rows} == {""}


def test_facts_of_an_older_database_are_taken_in(shell: Shell, session: str) -> None:
    shell.run("memory", "add", "the pelican eats at noon")
    heads(shell).unlink()
    tamper(
        shell,
        "DROP TABLE heads",
        "DROP TABLE fact_ledger",
        "DELETE FROM schema_migrations WHERE room = 'sessions' AND number >= 5",
        "CREATE TABLE store_items (user_id TEXT)",  # the fourth migration removes this table
        *(f"ALTER TABLE outcomes DROP COLUMN {one}" for one in ("failed", "fix", "wording")),
        "DROP TABLE short_term",
        "DROP TABLE requests",
        *(f"DROP TABLE {one}" for one in INDEX_TABLES),
        *(f"DROP INDEX {one}" for one in ("facts_by_status", "facts_that_apply")),
        *(
            f"ALTER TABLE memory_sessions ADD COLUMN {one} TEXT NOT NULL DEFAULT '[]'"
            for one in ("entities", "intents", "variables")
        ),
        *(f"ALTER TABLE memory_sessions DROP COLUMN {one}" for one in ("ended_seq", "provider")),
        "DELETE FROM schema_migrations WHERE room = 'memory' AND number >= 3",
    )
    assert shell.run("memory", "add", "the harbour opens at seven").returncode == 0
    code, shown = verified(shell)
    assert (code, "memory: 2 facts" in shown) == (0, True)
