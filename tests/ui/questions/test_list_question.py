"""A list of answers: numbers, arrows with Enter, and the way back."""

from __future__ import annotations

import pytest

from kogniterm.text.visible import without_style
from kogniterm.ui.questions.pick_list import ListQuestion, list_question
from kogniterm.ui.questions.question import Answered, ChoiceQuestion, Option, Question
from kogniterm.ui.screen.paint import Painter
from kogniterm.ui.screen.screen_preferences import choose_theme

QUESTION = list_question("Which?", ("a", "First", "about it"), ("b", "Second"), ("none", "Not now"))


def pressed(*keys: str) -> object:
    """Return the result of `keys`: an answer's value, or the question in its new state."""
    at: Question[str] = QUESTION
    for key in keys:
        step = at.press(key)
        if isinstance(step, Answered):
            return step.value
        assert isinstance(step, ListQuestion)
        at = step
    return at


def painter(*, unicode: bool) -> Painter:
    return Painter(
        choose_theme("plain", color=False, background=None), color=False, unicode=unicode
    )


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("enter",), "a"),
        (("2",), "b"),
        (("down", "enter"), "b"),
        (("up", "enter"), "none"),
        (("down", "down", "down", "enter"), "a"),
    ],
)
def test_numbers_and_arrows_choose(keys: tuple[str, ...], value: str) -> None:
    assert pressed(*keys) == value


@pytest.mark.parametrize("key", ["0", "4", "x", "²", "pageup"])
def test_other_keys_answer_nothing(key: str) -> None:
    assert pressed(key) == QUESTION
    assert QUESTION.typed(key) is None


def test_esc_and_the_end_of_input_take_the_last_answer() -> None:
    assert QUESTION.back() == Answered("none")
    assert QUESTION.ended() == "none"


def test_the_picked_answer_is_marked() -> None:
    after = pressed("down")
    assert isinstance(after, ListQuestion)
    shown = after.document(painter(unicode=True), 40, 10).lines
    assert [without_style(line).rstrip() for line in shown] == [
        "Which?",
        "  1 First    about it",
        "▸ 2 Second",
        "  3 Not now",
        "",
    ]
    assert "> 1 First" in "\n".join(QUESTION.document(painter(unicode=False), 40, 10).lines)
    left = after.transcript(painter(unicode=True), 40, Answered("b"))
    assert without_style(left).strip() == "Which?  Second"


def test_no_empty_line_separates_the_lines_of_a_choice() -> None:
    choice = ChoiceQuestion("Go on?", ["$ make", "  one", "  two"], [Option("no", "no", "no")])
    lines = choice.document(painter(unicode=True), 80, 24).lines
    assert list(map(without_style, lines)) == ["Go on?", *choice.body]
