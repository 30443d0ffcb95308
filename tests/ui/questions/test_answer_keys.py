"""Keys that answer a question: every rhythm of typing from 20 to 2,000 ms, by a simulated clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kogniterm.ui.questions.answer_keys import AnswerKeys
from kogniterm.ui.screen.screen_preferences import KEY_TIMES

OPTIONS = "ynexls1a"
TEXT = "why do you want this? yes s1"
SOON = 1e-6
"""A tolerance for times that are sums of fractions."""


@dataclass
class Keyboard:
    """Questions with options, simulated typing, and the line that takes the text.

    `next_after` is the time from an answer until the next question is drawn; None for none.
    """

    now: float = 0.0
    line: str = ""
    answers: list[str] = field(default_factory=list)
    next_after: float | None = 0.0
    _read: int = 0
    _draws_at: float | None = None

    def __post_init__(self) -> None:
        self.keys = AnswerKeys(lambda: self.now)

    def ask(self, after: float = 0.0) -> None:
        """Ask a question that is drawn `after` these seconds."""
        self.keys.ask()
        self._draws_at = self.now + after

    def let_pass(self, seconds: float) -> None:
        """Let time pass; due events happen on time."""
        end = self.now + seconds
        while True:
            due = self.keys.due()
            settles = end + 1 if due is None else self.now + due
            draws = end + 1 if self._draws_at is None else self._draws_at
            if min(settles, draws) > end:
                break
            self.now = max(self.now, min(settles, draws))
            if draws <= settles:
                self._draws_at = None
                self.keys.drawn()
            else:
                self.settle()
        self.now = end

    def settle(self) -> None:
        if key := self.keys.settle():
            self.answers.append(key)
            self.keys.close()
            if self.next_after is not None:
                self.ask(self.next_after)

    def press(self, *keys: str) -> None:
        """Press keys that arrive in one read."""
        self._read += 1
        for key in keys:
            if self.line or not self.keys.open:
                if self.keys.repeating and not self.line:
                    self.line += self.keys.press(key, option=False, read=self._read)
                    continue
                self.keys.typed()
                self.line += key if len(key) == 1 else ""
            else:
                self.line += self.keys.press(
                    key, option=key in OPTIONS or key == "enter", read=self._read
                )

    def type(self, words: str, every: float) -> None:
        for key in words:
            self.press(key)
            self.let_pass(every)


def asked(after: float = 1.0) -> Keyboard:
    """Return a keyboard whose question was drawn `after` seconds ago."""
    board = Keyboard()
    board.ask()
    board.let_pass(after)
    return board


RHYTHMS = (0.02, 0.04, 0.1, 0.2, 0.3, 0.34)
"""Seconds from key to key at which no word approves; 0.36 and more are told as a limit."""


@pytest.mark.parametrize("every", RHYTHMS)
@pytest.mark.parametrize("words", ["why do you want this?", "yes", "by", "y but", "1 y", "ya"])
def test_words_never_answer_whenever_the_question_appears(words: str, every: float) -> None:
    for drawn_at in range(40):
        board = Keyboard()
        board.ask(drawn_at / 20)
        board.let_pass(0.01)
        board.type(words, every)
        board.let_pass(5.0)
        assert board.answers == []
        # What is typed is kept, but for a key too early on an empty line.
        assert words.endswith(board.line)


@given(st.text(alphabet=TEXT, min_size=2, max_size=40), st.floats(0.02, 0.349))
def test_words_at_any_rhythm_are_text_and_nothing_of_them_is_lost(words: str, gap: float) -> None:
    board = asked()
    board.type(words, gap)
    board.let_pass(5.0)
    assert board.answers == []
    assert board.line == words


gaps = st.one_of(st.floats(0.02, 2.0), st.sampled_from([0.02, 0.06, 0.2, 0.3, 0.35, 0.5, 1.0]))
keys = st.sampled_from(sorted(set(TEXT + OPTIONS)))


@given(st.lists(st.tuples(gaps, keys), min_size=1, max_size=30), st.floats(0, 2))
@example([(0.06, key) for key in "why do you want this?"], 1.0)
@example([(0.3, key) for key in "yes it is"], 1.0)
@example([(0.26, "h"), (0.26, "y")], 0.0)
def test_only_a_key_that_stands_alone_answers(typed: list[tuple[float, str]], first: float) -> None:
    board = asked(first)
    times = []
    for gap, key in typed:
        board.let_pass(gap)
        times.append(board.now)
        board.press(key)
    board.let_pass(2.0)
    ends = [*times, float("inf")]
    alone = [
        key
        for (_gap, key), (now, after) in zip(typed, pairwise(ends), strict=True)
        if key in OPTIONS and after - now >= KEY_TIMES.alone - SOON
    ]
    assert len(board.answers) <= len(alone)


def test_a_lone_key_answers_once_at_every_moment_after_the_question() -> None:
    for after in range(7, 40):
        board = asked(after / 20)
        board.press("y")
        board.let_pass(KEY_TIMES.alone - SOON)
        assert board.answers == []
        board.let_pass(2 * SOON)
        assert (board.answers, board.line) == (["y"], "")


@pytest.mark.parametrize("after", [0.0, 0.1, 0.29])
@pytest.mark.parametrize("key", ["y", "h", "enter"])
def test_a_key_too_early_is_dropped_and_returns_nowhere(after: float, key: str) -> None:
    board = asked(after)
    board.press(key)
    assert board.keys.dropped == key
    board.let_pass(5.0)
    assert (board.answers, board.line, board.keys.dropped) == ([], "", "")
    board.press("y")
    board.let_pass(5.0)
    assert (board.answers, board.line) == (["y"], "")


def test_a_key_pressed_again_and_again_from_the_start_answers_once_it_rests() -> None:
    board = asked(0.05)
    for _ in range(9):
        board.press("y")
        board.let_pass(0.2)
    assert (board.answers, board.line) == ([], "")
    board.let_pass(1.0)
    board.press("y")
    board.let_pass(1.0)
    assert (board.answers, board.line) == (["y"], "")


@pytest.mark.parametrize("before", [0.01, 0.2, 0.49])
def test_a_key_in_the_half_second_before_the_question_makes_the_next_ones_text(
    before: float,
) -> None:
    board = Keyboard()
    board.keys.typed()  # a line that was emptied, a scroll, a mode
    board.let_pass(before)
    board.ask()
    board.let_pass(KEY_TIMES.typing - before - 0.01)
    board.press("y")
    board.let_pass(5.0)
    assert (board.answers, board.line) == ([], "y")


def test_typing_ends_when_the_line_is_empty_and_half_a_second_passes() -> None:
    board = asked()
    board.type("hm", 0.1)
    board.line = ""
    board.keys.typed()  # the key that emptied it
    board.let_pass(0.49)
    board.press("y")
    assert board.line == "y"
    board.line = ""
    board.keys.typed()
    board.let_pass(0.51)
    board.press("y")
    board.let_pass(1.0)
    assert board.answers == ["y"]


def test_the_enter_that_sent_the_line_and_the_answer_before_are_no_typing() -> None:
    board = Keyboard()
    board.keys.typed()
    board.let_pass(2.0)
    board.keys.typed()
    board.keys.sent()
    board.ask(0.1)
    board.let_pass(0.41)
    assert board.keys.ready
    board.next_after = 0.01
    board.press("y")
    board.let_pass(KEY_TIMES.alone + 0.02 + KEY_TIMES.early)
    assert (board.answers, board.keys.ready) == (["y"], True)


@pytest.mark.parametrize("after", [0.03, 0.1, 0.3])
def test_enter_counts_the_key_at_once(after: float) -> None:
    board = asked()
    board.press("y")
    board.let_pass(after)
    board.press("enter")
    board.let_pass(0.0)
    assert (board.answers, board.line) == (["y"], "")


def test_enter_in_the_same_read_or_too_soon_or_before_more_makes_it_text() -> None:
    board = asked()
    board.press("y", "enter")
    board.let_pass(5.0)
    assert (board.answers, board.line) == ([], "y")
    board = asked()
    board.press("y")
    board.let_pass(0.029)
    board.press("enter")
    board.let_pass(5.0)
    assert (board.answers, board.line) == ([], "y")
    board = asked()
    board.press("y")
    board.let_pass(0.2)
    board.press("enter", "l", "s")
    board.let_pass(5.0)
    assert (board.answers, board.line) == ([], "yls")


def test_a_paste_after_the_key_makes_it_text() -> None:
    board = asked()
    board.press("y")
    board.let_pass(0.2)
    board.press("paste")
    board.let_pass(5.0)
    assert (board.answers, board.line) == ([], "y")


def test_keys_before_the_question_was_drawn_are_text() -> None:
    board = Keyboard()
    board.keys.ask()
    board.let_pass(9.0)
    board.press("y")
    board.let_pass(9.0)
    assert (board.line, board.answers) == ("y", [])


def test_a_key_that_was_typed_while_nothing_was_read_answers_nothing() -> None:
    board = asked(0.0)
    board.now = 9.0  # the program was suspended: nothing was armed before the key was read
    board.press("y")
    board.let_pass(9.0)
    assert (board.line, board.answers) == ("", [])


@pytest.mark.parametrize("next_after", [None, 0.0, 0.1, 0.4, 2.0])
@pytest.mark.parametrize("delay", [0.2, 0.4, 0.5, 0.66, 0.74])
def test_a_key_held_down_answers_at_most_one_question(
    delay: float, next_after: float | None
) -> None:
    board = Keyboard(next_after=next_after)
    board.ask()
    board.let_pass(1.0)
    board.press("y")
    board.let_pass(delay)
    for _ in range(300):
        board.press("y")
        board.let_pass(0.03)
    board.let_pass(5.0)
    assert board.answers == (["y"] if delay > KEY_TIMES.alone else [])
    if board.answers:
        assert board.line == ""
    if board.answers and next_after is not None:
        board.press("n")
        board.let_pass(1.0)
        assert board.answers == ["y", "n"]


def test_arrows_need_no_pause_and_take_back_a_key() -> None:
    board = asked()
    board.press("y")
    board.keys.held = ""
    board.let_pass(0.6)
    assert board.answers == []
    board.press("y")
    board.let_pass(1.0)
    assert board.answers == ["y"]


def test_a_key_that_grants_counts_only_with_enter_and_can_be_changed() -> None:
    board = asked()
    board.keys.confirm = True
    board.press("1")
    board.let_pass(60.0)
    assert (board.answers, board.keys.held) == ([], "1")
    board.press("a")
    board.let_pass(0.1)
    board.press("enter")
    board.let_pass(0.0)
    assert (board.answers, board.line) == (["a"], "")
