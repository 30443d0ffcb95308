"""`kogniterm sessions`, `audit` and `storage` on a real database."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kogniterm.sessions.session_database import SESSIONS
from kogniterm.sessions.store import SessionStore
from kogniterm.storage.database import Database
from tests.cli.conftest import Shell
from tests.support.conversation import command_turn, write


def store_of(shell: Shell) -> SessionStore:
    outputs = shell.data / "outputs"
    return SessionStore(
        Database(shell.data / "kogniterm.db", SESSIONS), version="1.0", folders=[outputs]
    )


@pytest.fixture
def session(shell: Shell) -> str:
    """Record a session of two turns whose title contains terminal escapes; return its id."""
    store = store_of(shell)
    journal = store.create(folder=str(shell.project), model="scripted:a")
    write(journal, command_turn(1, "Count the \x1b[31mcarrots"))
    write(journal, command_turn(2, "And the parsnips", "ls parsnips"))
    journal.close()
    store.close()
    return journal.state.session_id


def ran(result: subprocess.CompletedProcess[str], code: int = 0) -> str:
    assert result.returncode == code, result.stderr
    return result.stdout


def test_without_sessions_there_is_nothing_to_list(shell: Shell) -> None:
    result = shell.run("sessions", "list")
    assert ran(result) == ""
    assert "No sessions yet" in result.stderr
    assert json.loads(ran(shell.run("sessions", "list", "--json"))) == []
    assert "No sessions yet" in shell.run("sessions", "show", "last").stderr
    assert shell.run("sessions", "show", "last").returncode == 2


def test_sessions_without_a_turn_are_listed_with_all_alone(shell: Shell, session: str) -> None:
    store = store_of(shell)
    store.create(folder=str(shell.project), model="scripted:a").close()
    store.close()
    assert len(json.loads(ran(shell.run("sessions", "list", "--json")))) == 1
    assert len(json.loads(ran(shell.run("sessions", "list", "--json", "--all")))) == 2
    assert session in ran(shell.run("sessions", "show", "last", "--json"))


def test_list_show_and_search(shell: Shell, session: str) -> None:
    out = ran(shell.run("sessions", "list"))
    assert session in out
    assert "\x1b" not in out
    (listed,) = json.loads(ran(shell.run("sessions", "list", "--json", "--here")))
    assert (listed["id"], listed["turns"]) == (session, 2)
    assert json.loads(ran(shell.run("sessions", "list", "--json", "--here", cwd=shell.home))) == []
    shown = ran(shell.run("sessions", "show", session[:5]))
    assert "ls | wc -l" in shown
    assert "*finished, exit code 0*" in shown
    assert "\x1b" not in shown
    spanish = ran(shell.run("--lang", "es", "sessions", "show", session[:5]))
    assert "## Turno 1" in spanish
    assert "*terminado, código de salida 0*" in spanish
    content = json.loads(ran(shell.run("sessions", "show", "last", "--json")))["content"]
    assert [turn["commands"][0]["exit_code"] for turn in content] == [0, 0]
    (hit,) = json.loads(ran(shell.run("sessions", "search", "parsn", "--json")))
    assert (hit["id"], hit["turn"]) == (session, 2)
    assert "Nothing found" in shell.run("sessions", "search", "turnip").stderr


def test_rename_fork_and_delete(shell: Shell, session: str) -> None:
    ran(shell.run("sessions", "rename", session, "Vegetables"))
    fork = ran(shell.run("sessions", "fork", "vegetables", "--turn", "1")).strip()
    infos = json.loads(ran(shell.run("sessions", "list", "--json")))
    assert {info["title"] for info in infos} == {"Vegetables", "Vegetables (fork)"}
    refused = shell.run("sessions", "delete", fork)
    assert refused.returncode == 2
    assert "--yes" in refused.stderr
    assert "1 session deleted" in shell.run("sessions", "delete", fork, "--yes").stderr
    assert "0 sessions" in shell.run("sessions", "delete", "--older-than", "1", "--yes").stderr
    assert shell.run("sessions", "delete").returncode == 2
    assert len(json.loads(ran(shell.run("sessions", "list", "--json")))) == 1


def test_export_delete_and_import_gives_the_session_back(
    shell: Shell, session: str, tmp_path: Path
) -> None:
    file, again = tmp_path / "session.jsonl", tmp_path / "again.jsonl"
    ran(shell.run("sessions", "export", session, "--to", str(file)))
    assert file.stat().st_mode & 0o077 == 0
    ran(shell.run("sessions", "delete", session, "--yes"))
    assert session in ran(shell.run("sessions", "import", str(file)))
    ran(shell.run("sessions", "export", session, "--to", str(again)))
    # Behind its records is only that it works here from now on.
    before, after = file.read_bytes().splitlines(), again.read_bytes().splitlines()
    assert after[: len(before) - 1] == before[:-1]
    (note,) = after[len(before) - 1 : -1]
    assert json.loads(note)["payload"]["data"]["folder"] == str(shell.project)
    piped = ran(shell.run("sessions", "export", session)).encode()
    ran(shell.run("sessions", "import", "-", "--as-new", stdin=piped))
    assert len(json.loads(ran(shell.run("sessions", "list", "--json")))) == 2


@pytest.mark.parametrize("content", [b"", b"nonsense\n"])
def test_a_file_that_is_no_session(shell: Shell, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_bytes(content)
    result = shell.run("sessions", "import", str(file))
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1


def test_export_to_a_device_or_a_pipe_writes_to_it(
    shell: Shell, session: str, tmp_path: Path
) -> None:
    plain = ran(shell.run("sessions", "export", session))
    assert ran(shell.run("sessions", "export", session, "--to", "/dev/stdout")) == plain
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as readers:
        read = readers.submit(pipe.read_text)
        ran(shell.run("sessions", "export", session, "--to", str(pipe)))
        assert read.result() == plain
    assert pipe.is_fifo()
    full = shell.run("sessions", "export", session, "--to", "/dev/full")
    assert (full.returncode, "No space is left" in full.stderr) == (1, True), full.stderr
    assert Path("/dev/full").is_char_device()


def test_export_to_a_folder_that_is_not_there(shell: Shell, session: str) -> None:
    result = shell.run("sessions", "export", session, "--to", "/nowhere/file")
    assert result.returncode == 2
    told = "/nowhere/file cannot be written: no such file or folder."
    assert result.stderr == f"kogniterm: {told}\n"
    result = shell.run("sessions", "export", session, "--to", str(shell.home))
    assert (result.returncode, "it is a folder" in result.stderr) == (2, True)


def test_storage_copies_and_compares(shell: Shell, session: str, tmp_path: Path) -> None:
    target = str(tmp_path / "copy.db")
    assert ": 1; there already: 0" in ran(shell.run("storage", "copy", "sqlite", target))
    assert ": 0; there already: 1" in ran(shell.run("storage", "copy", "sqlite", target))
    assert "sound records" in ran(shell.run("storage", "check"))
    same = shell.run("storage", "copy", "sqlite", "sqlite")
    assert same.returncode == 2
    assert shell.run("storage", "copy", "/no/such.db", target).returncode == 2
    missing = shell.run("storage", "copy", "sqlite", "postgres")
    assert "KOGNITERM_DATABASE_URL" in missing.stderr


def test_a_file_that_is_no_database_is_left_as_it_is(shell: Shell, session: str) -> None:
    notes = shell.project / "notes.txt"
    notes.write_text("not a database")
    missing = shell.project / "missing.db"
    for words, told in (
        (("check", str(notes)), "is not a SQLite database."),
        (("check", str(missing)), f"Database {missing} not found."),
        (("check", str(shell.home)), "cannot be read: it is a folder."),
        (("check", "mysql://host/db"), "use one of these schemes: postgresql."),
        (("copy", "sqlite", str(notes)), "is not a SQLite database."),
        (("copy", str(notes), "sqlite"), "is not a SQLite database."),
    ):
        result = shell.run("storage", *words)
        assert (result.returncode, told in result.stderr) == (2, True), result.stderr
    wrong = shell.run("sessions", "list", environ={"KOGNITERM_DATABASE_URL": "mysql://host/db"})
    assert (
        wrong.returncode,
        "with one of these schemes: postgresql." in wrong.stderr,
    ) == (
        2,
        True,
    )
    assert notes.read_text() == "not a database"
    assert [file.name for file in shell.project.iterdir()] == ["notes.txt"]


def test_a_damaged_database_is_recovered_and_told(shell: Shell, session: str) -> None:
    database = shell.data / "kogniterm.db"
    with database.open("r+b") as file:
        file.write(b"\xff" * 100)
    result = shell.run("sessions", "list", "--json")
    assert json.loads(ran(result))[0]["id"] == session
    assert "database was damaged" in result.stderr
    assert list(shell.data.glob("kogniterm.db.damaged-*"))


def test_resuming_needs_a_session_and_a_terminal(shell: Shell, session: str) -> None:
    assert "Session nothing not found" in shell.run("resume", "nothing").stderr
    assert shell.run("resume").returncode == 2
    assert "terminal" in shell.run("resume", "last").stderr


def test_the_rules_of_a_folder_are_tried_out_once_it_is_trusted(shell: Shell) -> None:
    model = shell.script("replies: [{run: ls}, {text: Done.}]")
    assert shell.run("run", "--no-sandbox", "-y", "--model", model, "go").returncode == 0
    rules = shell.project / ".kogniterm/policy.toml"
    rules.parent.mkdir()
    rules.write_text('[[rule]]\ndecision = "deny"\nprogram = "ls"\n')
    checked = shell.run("policy", "check", "ls").stdout
    assert "=> [ask] " in checked
    assert "Not used until you trust this folder" in checked
    assert shell.run("policy", "test", "--mode", "auto").returncode == 0
    assert shell.run("trust").returncode == 0
    assert "=> [deny] rule .kogniterm/policy.toml:1" in shell.run("policy", "check", "ls").stdout
    assert "allow => deny  ls" in shell.run("policy", "test", "--mode", "auto").stdout


def test_sessions_unused_for_long_are_deleted_on_request(shell: Shell) -> None:
    model = shell.script("replies: [{text: Done.}]")
    assert shell.run("run", "--model", model, "old task").returncode == 0
    assert shell.run("run", "--model", model, "new task").returncode == 0
    database = sqlite3.connect(shell.data / "kogniterm.db")
    database.execute("UPDATE sessions SET updated = updated - 864000 WHERE title = 'old task'")
    database.commit()
    database.close()
    keeping = {"KOGNITERM_SESSION_MAX_AGE_DAYS": "9"}
    assert shell.run("run", "--model", model, "one more", environ=keeping).returncode == 0
    titles = [one["title"] for one in json.loads(shell.run("sessions", "list", "--json").stdout)]
    assert titles == ["one more", "new task"]
