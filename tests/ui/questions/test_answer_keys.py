"""Keys that answer a question: every rhythm of typing, with a simulated clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kogniterm.ui.questions.answer_keys import PAUSE_SECONDS, AnswerKeys

OPTIONS = "ynexls1a"
TEXT = "why do you want this? yes s1"
NEARLY = PAUSE_SECONDS - 1e-9
"""The pause with a tolerance, for times that are sums of fractions."""


@dataclass
class Keyboard:
    """A question with options, simulated typing, and the line that takes the text."""

    now: float = 0.0
    line: str = ""
    answers: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.keys = AnswerKeys(lambda: self.now)

    def ask(self) -> None:
        self.keys.ask()
        self.keys.drawn()

    def let_pass(self, seconds: float) -> None:
        """Let time pass; due events happen on time."""
        end = self.now + seconds
        while (due := self.keys.due()) is not None and self.now + due <= end:
            self.now += due
            self.settle()
        self.now = end

    def settle(self) -> None:
        key = self.keys.settle()
        if key:
            self.answers.append(key)
            self.ask()  # the next question of the batch

    def press(self, key: str) -> None:
        if self.line:
            self.line += key
            self.keys.typed()
        else:
            self.line += self.keys.press(key, option=key in OPTIONS)


gaps = st.one_of(st.floats(0.0, 0.49), st.sampled_from([0.02, 0.06, 0.2, 0.4, 0.5, 1.0]))
keys = st.sampled_from(sorted(set(TEXT + OPTIONS)))


@given(st.lists(st.tuples(gaps, keys), min_size=1, max_size=30), st.floats(0, 2))
@example([(0.06, key) for key in "why do you want this?"], 1.0)
@example([(0.4, key) for key in "yes it is"], 1.0)
def test_only_a_key_that_stands_alone_answers(typed: list[tuple[float, str]], first: float) -> None:
    board = Keyboard()
    board.ask()
    board.let_pass(first)
    times = []
    for gap, key in typed:
        board.let_pass(gap)
        times.append(board.now)
        board.press(key)
    board.let_pass(2.0)
    ends = [*times, float("inf")]
    alone = [
        key
        for (_gap, key), before, (now, after) in zip(
            typed, [0.0, *times], pairwise(ends), strict=False
        )
        if key in OPTIONS and min(now - before, after - now) >= NEARLY
    ]
    assert len(board.answers) <= len(alone)
    if not alone:
        assert board.answers == []


@given(st.text(alphabet=TEXT, min_size=2, max_size=40), st.floats(0.0, 0.49))
def test_words_at_any_rhythm_are_text_and_nothing_of_them_is_lost(words: str, gap: float) -> None:
    board = Keyboard()
    board.ask()
    board.let_pass(1.0)
    for key in words:
        board.press(key)
        board.let_pass(gap)
    board.let_pass(5.0)
    assert board.answers == []
    assert board.line == words


@given(
    st.lists(st.sampled_from(OPTIONS), min_size=1, max_size=8),
    st.floats(0.5, 3),
    st.floats(1.01, 3),
)
def test_a_lone_key_answers_exactly_once(pressed: list[str], before: float, after: float) -> None:
    board = Keyboard()
    board.ask()
    board.let_pass(before)
    for key in pressed:
        board.press(key)
        board.let_pass(after)
    assert board.answers == pressed
    assert board.line == ""


def test_a_key_before_the_question_was_drawn_or_within_the_pause_is_text() -> None:
    board = Keyboard()
    board.keys.ask()
    board.let_pass(9.0)
    board.press("y")
    board.let_pass(9.0)
    assert (board.line, board.answers) == ("y", [])
    board = Keyboard()
    board.ask()
    board.let_pass(0.49)
    board.press("y")
    board.let_pass(9.0)
    assert (board.line, board.answers) == ("y", [])


def test_keys_that_were_typed_while_nothing_was_read_are_text() -> None:
    board = Keyboard()
    board.ask()
    board.now = 9.0  # the program was suspended: nothing was armed before the key was read
    board.press("y")
    board.let_pass(9.0)
    assert (board.line, board.answers) == ("y", [])


@pytest.mark.parametrize("delay", [0.2, 0.4, 0.66, 0.9])
def test_a_key_held_down_answers_at_most_one_question(delay: float) -> None:
    board = Keyboard()
    board.ask()
    board.let_pass(1.0)
    board.press("y")
    board.let_pass(delay)
    for _ in range(300):
        board.press("y")
        board.let_pass(0.03)
    board.let_pass(5.0)
    assert board.answers == (["y"] if delay > PAUSE_SECONDS else [])
    assert set(board.line) <= {"y"}
    if board.answers:
        assert board.line == ""
        board.press("n")
        board.let_pass(1.0)
        assert board.answers == ["y", "n"]


def test_words_that_begin_with_the_key_that_answered_are_kept() -> None:
    board = Keyboard()
    board.ask()
    board.let_pass(1.0)
    board.press("y")
    board.let_pass(0.6)
    for key in "yes":
        board.press(key)
    board.let_pass(5.0)
    assert (board.answers, board.line) == (["y"], "yes")


def test_arrows_need_no_pause_and_take_back_a_key() -> None:
    board = Keyboard()
    board.ask()
    board.let_pass(1.0)
    board.press("y")
    board.keys.moved()
    board.let_pass(0.6)
    assert board.answers == []
    board.keys.moved()
    board.press("y")
    board.let_pass(1.0)
    assert board.answers == ["y"]


@pytest.mark.parametrize("other", ["enter", "paste"])
def test_enter_or_a_paste_after_the_key_makes_it_text(other: str) -> None:
    board = Keyboard()
    board.ask()
    board.let_pass(1.0)
    board.press("y")
    assert board.keys.held == "y"
    board.line += board.keys.press(other, option=other == "enter")
    board.let_pass(5.0)
    assert (board.answers, board.line) == ([], "y")
