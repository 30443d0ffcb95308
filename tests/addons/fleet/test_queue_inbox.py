"""Questions that wait for an answer from elsewhere: how the inbox lists them."""

from __future__ import annotations

from kogniterm.addons.fleet.verbs.queue_inbox import inbox_rows
from kogniterm.runtime.unattended.signed_answers import WaitingSession
from kogniterm.sessions.store import SessionInfo
from kogniterm.types import Phrase
from kogniterm.types.parked_questions import ParkedQuestion
from tests.ui.face import PLAIN

FOLDER = "/w\n\x1b[2J"
LINES = (Phrase("Which branch?"),)
QUESTION = ParkedQuestion("d" * 64, "question", "Which branch?", "build-1", FOLDER, lines=LINES)


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
