"""The panel of a question with fixed answers."""

from __future__ import annotations

import asyncio

from kogniterm.ui.locale import use_language
from kogniterm.ui.questions.panel import Line, QuestionPanel
from kogniterm.ui.questions.question import ChoiceQuestion, Option
from kogniterm.ui.screen.paint import Painter
from kogniterm.ui.screen.screen_preferences import (
    choose_theme,
)

READY = Line(armed=True, ready=True)


class Place:
    """A prompt with nothing around the panel."""

    painter = Painter(choose_theme("plain", color=False, background=None), attributes=False)

    def refresh(self) -> None:
        pass

    def question_opened(self) -> None:
        pass

    def question_closed(self, transcript: str) -> None:
        pass

    def question_entry_opened(self, text: str) -> None:
        raise AssertionError("a choice takes no words")

    async def edit_text(self, text: str) -> str | None:
        raise AssertionError("a choice needs no editor")

    def stop_turn(self) -> None:
        raise AssertionError("a choice stops nothing")


SKIP = Option("no", "skip it", "no")


async def test_a_choice_shows_its_keys_in_brackets_once_they_work() -> None:
    panel = QuestionPanel(Place())
    question = ChoiceQuestion(
        "Bring it back?",
        ["$ rm a"],
        [Option("yes", "restore the files", "yes"), Option("no", "leave it", "no")],
    )
    answer = asyncio.ensure_future(panel.ask(question))
    await asyncio.sleep(0)
    assert panel.lines(80, 10, Line())[-1] == " y  restore the files   n  leave it"
    assert panel.lines(80, 10, READY)[-1] == "[y] restore the files  [n] leave it"
    assert panel.lines(80, 10, Line(words="words"))[-1].startswith("The question waits")
    assert "Esc: back" in panel.lines(80, 10, Line(armed=True, words="words"))[-1]
    use_language("es")
    assert panel.lines(80, 10, READY)[-1] == "[s] restore the files  [n] leave it"
    assert set(panel.options()) == {"s", "n", "y"}
    use_language("en")
    panel.key("n")
    assert await answer == "no"


async def test_a_long_choice_is_read_page_by_page() -> None:
    """The command of a recovery question stands above its output, however long that is."""
    panel = QuestionPanel(Place())
    body = ["$ make", *(f"line {number}" for number in range(20))]
    answer = asyncio.ensure_future(panel.ask(ChoiceQuestion("And now?", body, [SKIP])))
    await asyncio.sleep(0)
    first = panel.lines(80, 10, READY)
    assert first[:2] == ["And now?", "$ make"]
    assert first[-1] == "[Page-Down] more  [n] skip it"
    for _page in range(3):
        assert not panel.key("pagedown")
        last = panel.lines(80, 10, READY)
    assert last[-2:] == ["line 19", "[n] skip it"]
    panel.key("n")
    await answer
