"""A question of the model: answered by number, arrow or words, or left without an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from prompt_toolkit.input.base import PipeInput

from kogniterm.types import Phrase
from kogniterm.ui.questions.lines import LineQuestions
from kogniterm.ui.questions.model_question import ModelQuestion, ask_user
from kogniterm.ui.questions.question import Answered
from tests.ui.face import PLAIN, PlayedSession
from tests.ui.live import Live, live_repl

ANSWERS = ("left", "right")


def test_answers_end_at_a_readable_width() -> None:
    asked = ModelQuestion("Which one? " * 20, ["a long answer " * 18, "short"])
    assert max(map(len, asked.text(PLAIN, 160).lines)) in range(85, 101)
    said = asked.transcript(PLAIN, 160, Answered("my own long words " * 12))
    assert max(map(len, said.splitlines())) in range(85, 101)


class Asking:
    """A REPL whose turn asks one question."""

    def __init__(
        self,
        keys: PipeInput,
        question: str | tuple[Phrase, ...],
        answers: Sequence[str | Phrase],
        rows: int = 24,
    ) -> None:
        self.replies: list[str | None] = []

        async def play(_session: PlayedSession, _given: Any, _approver: Any, _sink: Any) -> None:
            self.replies.append(await ask_user(self.live.repl.front.questions, question, answers))

        self.live: Live
        self.live, self.session = live_repl(keys, play, rows=rows)

    async def asked(self) -> None:
        """Start the turn and wait until the question has the keyboard."""
        self.live.press("go\r")
        await self.live.until("[Esc] no answer")

    async def over(self) -> str:
        """Wait for the end of the turn; return the screen after it."""
        await self.live.until("1.2k tokens in")
        text = self.live.terminal.text
        assert await self.live.leave() == 0
        return text


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("2\r", "right"),
        ("\r", "left"),
        ("\x1b[B\r", "right"),
        ("\x1b[A\r", "right"),
        ("\x1b[B\x1b[B\r", "left"),
        (" neither \r", "neither"),
        ("3\r", "3"),
        ("one\x1b\rtwo\r", "one\ntwo"),
        ("one\\\rtwo\r", "one\ntwo"),
    ],
)
async def test_an_answer_is_chosen_or_said(keys: PipeInput, typed: str, answer: str) -> None:
    asking = Asking(keys, "Which **one**?", ANSWERS)
    await asking.asked()
    asking.live.press(typed)
    shown = await asking.over()
    assert asking.replies == [answer]
    assert "Which one?\n" + "\n".join(f"→ {answer}".split("\n")[:1]) in shown


async def test_esc_gives_no_answer(keys: PipeInput) -> None:
    asking = Asking(keys, "What name?", ())
    await asking.asked()
    asking.live.press("half a thou\x1b")
    await asking.live.until("1.2k tokens in")
    asking.live.press("\x03")  # the typed text stays on the line
    shown = await asking.over()
    assert asking.replies == [None]
    assert "What name?\n→ No answer." in shown


async def test_ctrl_c_clears_the_line_and_then_stops_the_turn(keys: PipeInput) -> None:
    asking = Asking(keys, "What name?", ())
    await asking.asked()
    asking.live.press("half")
    await asking.live.until("› half")
    asking.live.press("\x03")
    await asking.live.until(lambda: "› half" not in asking.live.terminal.text, "cleared")
    asking.live.press("\x03")
    await asking.live.until("The turn was stopped.")
    assert asking.replies == []
    asking.live.press("\x03")  # the question's text is on the line again
    assert await asking.live.leave() == 0


async def test_the_answer_that_a_number_or_an_arrow_means_is_marked(keys: PipeInput) -> None:
    asking = Asking(keys, "Which one?", ANSWERS)
    await asking.asked()
    asking.live.press("2")
    await asking.live.until("▸ 2 right")
    asking.live.press("\x7f")
    await asking.live.until("▸ 1 left")
    asking.live.press("\x1b[B")
    await asking.live.until("▸ 2 right")
    asking.live.press("\r")
    await asking.over()
    assert asking.replies == ["right"]


async def test_enter_alone_confirms_nothing_of_kogniterms_own(keys: PipeInput) -> None:
    asking = Asking(keys, (Phrase("Delete it?"),), (Phrase("Delete"), Phrase("Keep")))
    await asking.asked()
    asking.live.press("\r")
    await asking.live.until("Choose or type an answer first")
    asking.live.press("\x1b[B\r")
    await asking.over()
    assert asking.replies == ["Delete"]


async def test_a_draft_is_not_taken_for_an_answer(keys: PipeInput) -> None:
    asking = Asking(keys, "Which one?", ANSWERS)
    await asking.asked()
    asking.live.press("1\r")
    await asking.live.until("1.2k tokens in")
    asking.live.press("a draft")
    await asking.live.until("› a draft")
    assert asking.replies == ["left"]
    asking.live.press("\x03")
    assert await asking.live.leave() == 0


async def test_a_question_longer_than_the_screen_can_be_read(keys: PipeInput) -> None:
    words = "\n\n".join(f"line {number} of the question" for number in range(30))
    asking = Asking(keys, words, ANSWERS, rows=14)
    asking.live.press("go\r")
    await asking.live.until("[Page-Down] more")
    assert "line 0 of" in "\n".join(asking.live.terminal.shown)
    asking.live.press("\x1b[6~\x1b[6~\x1b[6~\x1b[6~\x1b[6~\x1b[6~")
    await asking.live.until(
        lambda: "2 right" in "\n".join(asking.live.terminal.shown), "the answers"
    )
    asking.live.press("2\r")
    await asking.over()
    assert asking.replies == ["right"]


def test_what_the_model_wrote_cannot_move_the_cursor() -> None:
    question = ModelQuestion("Which\x1b[2J\u202eone?", ("le\x1b]0;x\x07ft", "a\nb"))
    lines = question.text(PLAIN, 60).lines
    assert not any(set("\x1b\x07\u202e") & set(line) for line in lines)
    assert lines[-1] == "  2 a b"


class Typist:
    """A user who types the given lines at `LineQuestions`."""

    painter = PLAIN

    def __init__(self, typed: list[str | None]) -> None:
        self.typed = typed
        self.shown: list[str] = []

    def size(self) -> tuple[int, int]:
        return 24, 60

    def commit(self, text: str) -> None:
        self.shown.append(text)

    async def read_line(self, prompt: str, start: str = "", *, free: bool = False) -> str | None:
        assert free
        self.shown.append(prompt)
        return self.typed.pop(0)

    async def pause(self) -> None:
        assert len(self.shown) == 2


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        (["2"], "right"),
        (["my own", ], "my own"),
        (["a\\", "b"], "a\nb"),
        ([""], None),
        (["\x1b"], None),
        ([None], None),
    ],
)  # fmt: skip
async def test_line_by_line(typed: list[str | None], answer: str | None) -> None:
    user = Typist(typed)
    reply = await LineQuestions(user).ask(ModelQuestion("Which?", ANSWERS))
    shown = user.shown
    assert reply == answer
    assert shown[0] == "The model asks:\nWhich?\n  1 left\n  2 right\n"
    assert ("No answer." in "".join(shown)) == (answer is None)
