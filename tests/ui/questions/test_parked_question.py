"""Questions that wait for an answer from elsewhere: how each is told."""

from __future__ import annotations

import pytest

from kogniterm.runtime.unattended.signed_answers import WaitingSession
from kogniterm.sessions.store import SessionInfo
from kogniterm.types import Phrase
from kogniterm.types.parked_questions import ParkedQuestion
from kogniterm.ui.questions.parked_question import inbox_rows, question_head
from tests.ui.face import PLAIN

FOLDER = "/w\n\x1b[2J"
LINES = (Phrase("Which branch?"),)
QUESTION = ParkedQuestion("d" * 64, "question", "Which branch?", "build-1", FOLDER, lines=LINES)


@pytest.mark.parametrize(("title", "shown"), [("Release 4\n\x1b[2J", "Release 4"), ("", "s1")])
def test_the_head_names_the_session_and_the_machine(title: str, shown: str) -> None:
    head = question_head("s1", title, QUESTION).plain
    assert head.startswith(f"s1  {shown}")
    assert head.endswith("  build-1")
    assert "\n" not in head
    assert "\x1b" not in head


def test_the_inbox_shows_each_question_on_lines_of_its_own() -> None:
    info = SessionInfo("s1", "/w", "", "scripted", 0.0, 0.0, 1)
    rows = inbox_rows([WaitingSession(info, QUESTION, 0.0)], "kogniterm queue answer")
    shown = "\n".join(PLAIN.paint(row, 80).rstrip() for row in rows)
    assert "s1" in shown
    assert "build-1" in shown
    assert "Which branch?" in shown
    assert "kogniterm queue answer" in shown
    assert "\x1b" not in shown


def test_a_command_of_unknown_outcome_is_shown_whole() -> None:
    command = "echo begin\n" + "x" * 300 + "; rm -rf end"
    question = ParkedQuestion(
        "d" * 64, "unknown", command[:200], "build-1", "/w", about={"command": command}
    )
    info = SessionInfo("s1", "/w", "", "scripted", 0.0, 0.0, 1)
    rows = inbox_rows([WaitingSession(info, question, 0.0)], "kogniterm queue answer")
    assert "rm -rf end" in "".join(PLAIN.paint(row, 400) for row in rows)
