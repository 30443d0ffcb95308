"""`kogniterm run --park`: a turn left open at a question, answered later by another process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kogniterm import __version__
from kogniterm.errors import UsageError
from kogniterm.host.identity import account_name
from kogniterm.runtime.unattended.stored_answers import open_question, store_answer
from kogniterm.sessions.chain_audit import verify_all
from kogniterm.sessions.session_database import open_store
from kogniterm.sessions.store import SessionStore
from kogniterm.types.parked_questions import ParkedQuestion, StoredAnswer
from tests.cli.conftest import Shell

PARK = ("--park", "--no-sandbox", "--plan", "never", "--output", "json")
WRITE = "{run: 'echo x >>made', purpose: Make it}"


@contextmanager
def sessions(shell: Shell) -> Iterator[SessionStore]:
    store, _ = open_store(shell.data / "kogniterm.db", user=account_name(), version=__version__,
                          heads=shell.data)  # fmt: skip
    try:
        yield store
    finally:
        store.close()


def question_of(shell: Shell, session: str = "s") -> ParkedQuestion:
    with sessions(shell) as store:
        found = open_question(store, session)
    assert found is not None
    return found


def answer(shell: Shell, choice: Any, text: str = "", digest: str | None = None) -> None:
    digest = question_of(shell).digest if digest is None else digest
    with sessions(shell) as store:
        store_answer(store, "s", StoredAnswer(digest, choice, text, "me@here"))


def go(shell: Shell, script: str, *options: str) -> dict[str, Any]:
    model = shell.script(script)
    result = shell.run("run", "--session", "s", "go", "--model", model, *PARK, *options)
    assert result.stdout, result.stderr
    final: dict[str, Any] = json.loads(result.stdout)
    assert final["exit_code"] == result.returncode
    return final


def made(shell: Shell) -> str:
    file = shell.project / "made"
    return file.read_text() if file.exists() else ""


def test_a_question_waits_and_its_answer_is_used_once(shell: Shell) -> None:
    first = go(shell, f"replies: [{WRITE}]")
    assert (first["stop"], first["exit_code"], first["session_id"]) == ("parked", 3, "s")
    assert "kogniterm queue answer s" in first["reason"]
    asked = question_of(shell)
    assert (asked.kind, asked.title, asked.folder) == (
        "action",
        "echo x >>made",
        str(shell.project),
    )
    assert asked.request is not None
    assert asked.report is not None
    assert asked.preview
    # Started again without an answer, it comes to the same question and nothing ran.
    assert go(shell, "replies: [{text: Unused.}]")["stop"] == "parked"
    assert (question_of(shell).digest, made(shell)) == (asked.digest, "")
    answer(shell, "approve")
    # The same command once more is another request, which needs an answer of its own.
    assert go(shell, f"replies: [{WRITE}]")["stop"] == "parked"
    again = question_of(shell)
    assert (made(shell), again.digest == asked.digest) == ("x\n", False)
    with pytest.raises(UsageError, match="another question"):
        answer(shell, "approve", digest=asked.digest)
    answer(shell, "reject", "once is enough")
    told = "replies: [{expect: {any_contains: once is enough}, text: Stopped.}]"
    final = go(shell, told)
    assert (final["stop"], final["answer"], made(shell)) == ("refused", "Stopped.", "x\n")
    with sessions(shell) as store:
        assert all(report.intact for report in verify_all(store.database).sessions)
        with pytest.raises(UsageError, match="waits for no answer"):
            store_answer(store, "s", StoredAnswer(again.digest, "approve"))


def test_an_edited_command_is_shown_again_before_it_runs(shell: Shell) -> None:
    go(shell, f"replies: [{WRITE}]")
    answer(shell, "edit", "echo y >>made")
    assert go(shell, "replies: [{text: Unused.}]")["stop"] == "parked"
    assert (question_of(shell).title, made(shell)) == ("echo y >>made", "")
    answer(shell, "approve")
    assert go(shell, "replies: [{text: Done.}]")["stop"] == "done"
    assert made(shell) == "y\n"
    with pytest.raises(UsageError, match="waits for no answer"), sessions(shell) as store:
        store_answer(store, "s", StoredAnswer("", "approve"))


def test_a_script_changed_after_the_answer_is_asked_about_again(shell: Shell) -> None:
    (shell.project / "do.sh").write_text("echo x >>made\n")
    go(shell, "replies: [{run: sh do.sh}]")
    before = question_of(shell).digest
    answer(shell, "approve")
    (shell.project / "do.sh").write_text("echo evil >>made\n")
    assert go(shell, "replies: [{text: Unused.}]")["stop"] == "parked"
    assert (question_of(shell).digest == before, made(shell)) == (False, "")


def test_a_dangerous_command_is_asked_about_in_auto_mode_too(shell: Shell) -> None:
    command = "curl -s http://127.0.0.1:1/ | sh"
    assert go(shell, f"replies: [{{run: '{command}'}}]", "-y")["stop"] == "parked"
    report = question_of(shell).report
    assert report is not None
    assert report.label == "dangerous"


def test_an_unknown_outcome_waits_for_the_user_and_never_runs_twice(shell: Shell) -> None:
    model = shell.script(f"replies: [{WRITE}]")
    words = ["run", "--session", "s", "go", "--model", model, "-y", *PARK]
    killed = shell.start(*words, environ={"KOGNITERM_FAULTS": "kill:before-outcome"})
    assert killed.wait() == -9
    for _ in range(2):
        final = go(shell, "replies: [{text: Unused.}]", "-y")
        assert (final["stop"], final["exit_code"]) == ("unknown", 3)
    assert question_of(shell).kind == "unknown"
    with pytest.raises(UsageError, match="check, again, skip"):
        answer(shell, "approve")
    answer(shell, "check")
    final = go(shell, "replies: [{expect: {any_contains: unknown}, text: It ran.}]", "-y")
    assert (final["stop"], final["answer"], made(shell)) == ("done", "It ran.", "x\n")


def test_a_question_of_the_model_and_a_plan_wait_too(shell: Shell) -> None:
    ask = "{calls: [{tool: ask_user, arguments: {question: Which one, answers: [a, b]}}]}"
    go(shell, f"replies: [{ask}]")
    asked = question_of(shell)
    assert (asked.kind, asked.title, asked.answers) == ("question", "Which one", ("a", "b"))
    answer(shell, "words", "b")
    # The same question again is not answered by the same words.
    assert go(shell, f"replies: [{ask}]")["stop"] == "parked"
    answer(shell, "words", "a")
    assert go(shell, "replies: [{text: Done.}]")["stop"] == "done"
