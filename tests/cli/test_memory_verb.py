"""`kogniterm memory` with real files."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kogniterm.cli.main import dispatch
from kogniterm.errors import KognitermError
from kogniterm.host.identity import account_name as user_name
from kogniterm.memory import open_memory
from kogniterm.sessions.session_database import SESSIONS
from kogniterm.sessions.store import SessionStore
from kogniterm.storage.database import Database
from tests.support.conversation import command_turn, write
from tests.support.environments import environ_of

KOGNITERM = Path(sys.executable).with_name("kogniterm")


class User:
    """A user with a home and a project, who types commands."""

    def __init__(
        self, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        self.project = root / "project"
        self.data = root / "home" / "data"
        self.project.mkdir(parents=True)
        (root / "home" / "config").mkdir(parents=True)
        self.environ = environ_of(root / "home")

    def run(self, *words: str, code: int = 0, **environ: str) -> str:
        """Run the verb in this process, which is faster and has the same effect."""
        for name, value in {**self.environ, **environ}.items():
            self._monkeypatch.setenv(name, value)
        self._monkeypatch.chdir(self.project)
        try:
            status = dispatch(["memory", *words])
            problem = ""
        except KognitermError as error:
            status, problem = error.exit_code, str(error)
        for name in environ:
            self._monkeypatch.delenv(name)
        printed = self._capsys.readouterr()
        self.errors = printed.err + problem
        assert status == code, self.errors
        return printed.out

    def json(self, *words: str, code: int = 0) -> Any:
        return json.loads(self.run(*words, "--json", code=code))

    def shell(self, *words: str, stdin: str) -> subprocess.CompletedProcess[str]:
        """Run the installed console script."""
        return subprocess.run(
            [KOGNITERM, "memory", *words],
            input=stdin,
            capture_output=True,
            text=True,
            env=self.environ,
            cwd=self.project,
            timeout=120,
        )


@pytest.fixture
def new_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], User]:
    return lambda name: User(tmp_path / name, monkeypatch, capsys)


@pytest.fixture
def user(new_user: Callable[[str], User]) -> User:
    return new_user("ana")


def test_a_fact_is_added_edited_and_forgotten(user: User) -> None:
    added = user.json("add", "Deploys", "happen", "on", "Fridays", "--slot", "deploy day")
    assert added["change"] == "added"
    label = added["fact"]["id"]
    (listed,) = user.json("list")
    assert listed["id"] == label
    assert listed["source"] == "explicit"
    assert listed["because"].startswith("you asked to remember it on ")
    assert user.json("search", "when", "are", "deploys?")[0]["id"] == label
    assert label in user.run("list")
    assert "100%" in user.run("show", label)
    edited = user.json("edit", label, "Deploys", "happen", "on", "Mondays")
    assert user.json("show", edited["id"])["replaced"][0]["text"] == "Deploys happen on Fridays"
    assert user.json("undo", edited["id"])["text"] == "Deploys happen on Fridays"
    assert user.json("pin", label)["pinned"] is True
    assert user.json("pin", label, "--off")["pinned"] is False
    assert {one["status"] for one in user.json("list", "--all")} == {"active", "superseded"}


def test_a_replaced_fact_is_restored_before_it_is_changed(user: User) -> None:
    old = user.json("add", "Deploys", "happen", "on", "Fridays")["fact"]["id"]
    new = user.json("edit", old, "Deploys", "happen", "on", "Mondays")["id"]
    for words in (["edit", old, "Never"], ["pin", old], ["confirm", old]):
        user.run(*words, code=2)
        assert f"{old} was replaced by another fact" in user.errors
    assert [one["id"] for one in user.json("list")] == [new]


def test_other_projects_and_everywhere(user: User, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    user.run("add", "Only", "here")
    user.run("add", "All", "over", "--everywhere")
    assert [one["text"] for one in user.json("list", "--project", str(other))] == ["All over"]
    inner = user.project / "src"
    inner.mkdir()
    assert len(user.json("list", "--project", str(inner))) == 1
    (user.project / ".git").mkdir()
    assert len(user.json("list", "--project", str(inner))) == 2


def test_export_and_import(user: User, new_user: Callable[[str], User], tmp_path: Path) -> None:
    user.run("add", "Deploys", "happen", "on", "Fridays")
    file = tmp_path / "export.jsonl"
    assert user.run("export", "--to", str(file)) == ""
    assert file.stat().st_mode & 0o777 == 0o600
    assert user.run("export") == file.read_text()
    other = new_user("ben")
    assert other.json("import", str(file))["added"] == 1
    assert other.json("list") == []
    assert other.json("import", str(file), "--yes")["added"] == 1
    assert other.run("export") == file.read_text()
    again = other.shell("import", "-", "--yes", "--json", stdin=file.read_text())
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["known"] == 1
    other.run("import", str(tmp_path / "missing"), code=2)


def test_forgetting_words_here_everywhere_and_nothing(user: User) -> None:
    user.run("add", "The", "cat", "is", "Biscuit")
    user.run("add", "The", "dog", "is", "Pepper")
    user.run("add", "The", "bird", "is", "Kiwi", "--everywhere")
    (user.data / "history").write_text("\n# 2026\n+about the Elephant\n\n# 2026\n+ls\n")
    assert "Facts forgotten: 0" in user.run("forget", "elephant", "--yes")
    history = (user.data / "history").read_text()
    assert "lephant" not in history
    assert "+ls" in history
    user.run("forget", "m99", "--yes", code=2)
    user.run("forget", "ele", "--yes", code=2)
    user.run("forget", code=2)
    user.run("forget", "cat", "--all", code=2)
    user.run("forget", "biscuit", code=2)
    assert "--yes" in user.errors
    assert "Facts forgotten: 1" in user.run("forget", "biscuit", "--yes")
    assert [one["text"] for one in user.json("list")] == ["The dog is Pepper", "The bird is Kiwi"]
    user.run("forget", "--here", "--yes")
    assert [one["text"] for one in user.json("list")] == ["The bird is Kiwi"]
    user.run("add", "Another", "one")
    assert len(user.json("forget", "--all", "--yes")["facts"]) == 2
    assert user.json("list", "--all") == []


def test_a_session_in_use_keeps_its_words_and_the_status_says_so(user: User) -> None:
    user.run("add", "The", "safe", "opens", "with", "tangerine")
    store = SessionStore(Database(user.data / "kogniterm.db", SESSIONS), version="1.0")
    journal = store.create(folder=str(user.project), model="scripted:a")
    write(journal, command_turn(1, "the safe opens with tangerine"))
    told = user.run("forget", "m1", "--yes", code=1)
    assert "still found in records.payload" in user.errors
    assert journal.state.session_id in told
    journal.close()
    store.close()
    assert "Facts forgotten: 0" in user.run("forget", "safe opens with tangerine", "--yes")


def test_lessons_go_with_their_session_and_the_receipt_says_so(user: User) -> None:
    user.run("add", "The", "cat", "is", "Biscuit")
    with open_memory(
        user.data / "kogniterm.db",
        user=user_name(),
        project="/elsewhere",
        key_file=user.data / "memory-key",
    ) as memory:
        memory.learnings.record("look for my xylophone", "ls", ok=True)
    with open_memory(
        user.data / "kogniterm.db",
        user=user_name(),
        project=str(user.project),
        key_file=user.data / "memory-key",
    ) as memory:
        memory.learnings.record("look for my trombone", "ls", ok=True, session_id="s1")
    told = user.run("forget", "--session", "s1", "--yes")
    assert "removed from lessons, notes and preferences: 1" in told
    assert "Facts forgotten" not in told
    user.run("forget", "--all", "--yes")
    for file in user.data.rglob("*"):
        if file.is_file():
            assert b"xylophone" not in file.read_bytes(), file


@pytest.mark.parametrize(
    "words", [("show", "m99"), ("show", "x"), ("edit", "m1", " "), ("add", " ")]
)
def test_mistakes_are_told(user: User, words: tuple[str, ...]) -> None:
    user.run("add", "Something")
    user.run(*words, code=2)
    assert user.errors


def test_searching_for_nothing_known(user: User) -> None:
    assert user.json("search", "xylophone", code=1) == []


def test_lessons_are_listed_shown_edited_and_forgotten(user: User) -> None:
    assert "No lessons" in user.run("lessons") + user.errors
    with open_memory(
        user.data, user=user_name(), project=str(user.project), key_file=user.data / "memory-key"
    ) as kept:
        kept.learnings.record_repair(
            "run the quetzal tests", "make unit", "pytest tests/unit", exit_code=2,
            output="make: *** No rule to make target 'unit'.", session_id="s1",
        )  # fmt: skip
    assert "use “pytest tests/unit”, not “make unit”" in user.run("lessons")
    (lesson,) = user.json("lessons")
    assert (lesson["id"], lesson["failed"], lesson["worked"], lesson["exit_code"]) == (
        "l1", "make unit", "pytest tests/unit", 2,
    )  # fmt: skip
    assert user.json("show", "l1") == lesson
    assert "No rule to make target" in user.run("show", "l1")
    assert "run tox" in user.run("edit", "l1", "run", "tox")
    user.run("export", "--to", "all.jsonl")
    assert "quetzal" in (user.project / "all.jsonl").read_text()
    receipt = user.json("forget", "l1", "--yes")
    assert receipt["proved"]
    assert receipt["facts"] == []
    assert user.json("lessons") == []
    assert "quetzal" not in (user.project / "all.jsonl").read_text()
    user.run("show", "l1", code=2)
    assert "Lesson l1 not found" in user.errors


def test_with_memory_off_nothing_is_added_or_set(user: User) -> None:
    for words in (["add", "Deploys happen on Fridays"], ["prefer", "language", "es"]):
        user.run(*words, code=2, KOGNITERM_MEMORY="off")
        assert "cannot be added or edited here; use --memory full" in user.errors
    assert user.json("list") == []
    assert "es" not in user.run("prefer").split()


def test_a_change_of_a_preference_says_what_applies_here(user: User) -> None:
    assert user.run("prefer", "language", "en", "--here") == "Preference set: language = en\n"
    assert "In this project, en still applies" in user.run("prefer", "language", "es")
    [one] = user.json("prefer", "language", "--remove", "--here")
    assert (one["name"], one["value"], one["project"]) == ("language", "es", None)
    assert user.run("prefer", "language", "--remove") == "Preference removed: language\n"
