"""Questions that wait for an answer from elsewhere: how each is told."""

from __future__ import annotations

import pytest

from kogniterm.types import Phrase
from kogniterm.types.parked_questions import ParkedQuestion
from kogniterm.ui.questions.parked_question import question_head

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
