"""The question about a fact that waits: one key decides, words are a task."""

from __future__ import annotations

import pytest

from kogniterm.text.visible import without_style
from kogniterm.types import Phrase
from kogniterm.ui.questions.question import Answered
from kogniterm.ui.quiet_moments import PendingAnswer, pending_fact_question
from kogniterm.ui.screen.paint import Painter
from kogniterm.ui.screen.screen_preferences import choose_theme

QUESTION = pending_fact_question("m7", "the budget is 1000 €\n\x1b[31m", Phrase("you said so"))
PAINTER = Painter(choose_theme("plain", color=False, background=None), color=False, unicode=True)


@pytest.mark.parametrize(("key", "choice"), [("y", "confirm"), ("n", "drop"), ("l", "later")])
def test_a_key_decides(key: str, choice: str) -> None:
    assert QUESTION.press(key) == QUESTION.typed(key) == Answered(PendingAnswer(choice))  # type: ignore[arg-type]


def test_no_word_confirms() -> None:
    for words in ("yes", "sí", "ok", "no"):
        assert QUESTION.typed(words) is None
    for words in ("yes please", "keep it"):
        assert QUESTION.typed(words) == Answered(PendingAnswer("later", words))
        assert QUESTION.words(words) == Answered(PendingAnswer("later", words))
    assert QUESTION.words("  ") == QUESTION
    assert QUESTION.press("x") == QUESTION
    assert QUESTION.ended() == PendingAnswer("later")


def test_the_fact_is_shown_on_one_line_without_control_codes() -> None:
    lines = QUESTION.document(PAINTER, 60, 10).lines
    assert without_style(lines[0]).rstrip() == "Remember this for later? m7"
    assert len(lines) == 3
    assert "\x1b[31m" not in "".join(lines)
    assert QUESTION.text(PAINTER, 60).lines == lines
    assert QUESTION.document(PAINTER, 60, 2).lines == lines


def test_what_became_of_it_stays_on_the_screen() -> None:
    kept = QUESTION.transcript(PAINTER, 60, Answered(PendingAnswer("confirm")))
    assert "m7 is kept: the budget" in kept
    later = QUESTION.transcript(PAINTER, 60, Answered(PendingAnswer("later")))
    assert "/memory confirm m7" in later
    assert QUESTION.transcript(PAINTER, 60, None) == ""
