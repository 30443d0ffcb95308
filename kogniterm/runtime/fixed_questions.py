"""Questions of KogniTerm whose answers are fixed: a command of unknown outcome, a limit reached.

A front draws the question as it is, in its own language, and returns the value of an answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Literal, NamedTuple, TypeVar

from kogniterm.runtime.budgets import limit_text
from kogniterm.text.visible import render
from kogniterm.types import LimitChoice, LimitReached, Phrase

if TYPE_CHECKING:
    from kogniterm.sessions.records import Intent

Value = TypeVar("Value", bound=str)

RecoveryChoice = Literal["check", "again", "skip"]
"""The choices for a command whose outcome is unknown."""


class FixedAnswer(NamedTuple, Generic[Value]):
    """An answer: what the front returns for it, its words, and whether it holds beyond the turn."""

    value: Value
    words: Phrase
    lasts: bool = False


class FixedQuestion(Generic[Value]):
    """A question as it is shown: its title, the text below it, and its answers.

    The last answer is taken where the user gives none.
    """

    def __init__(self, title: Phrase, body: str, *answers: FixedAnswer[Value]) -> None:
        self.title = title
        self.body = body
        self.answers = answers


class RecoveryQuestion(FixedQuestion[RecoveryChoice]):
    """Asks what becomes of a command whose outcome is unknown, given its output so far."""

    def __init__(self, intent: Intent, output: str) -> None:
        self.intent = intent
        self.output = output
        lines = "\n".join(filter(None, (render(intent.command), render(output)))).split("\n")
        super().__init__(
            Phrase("What should happen with this command?"),
            "$ " + "\n  ".join(lines),
            FixedAnswer("check", Phrase("check what it did")),
            FixedAnswer("again", Phrase("propose it again")),
            FixedAnswer("skip", Phrase("go on without it")),
        )


class LimitQuestion(FixedQuestion[LimitChoice]):
    """Asks whether the turn goes on at a limit that is used up."""

    def __init__(self, reached: LimitReached) -> None:
        self.reached = reached
        super().__init__(
            Phrase("{limit_reached} Continue?", {"limit_reached": limit_text(reached)}),
            "",
            FixedAnswer("more", Phrase("continue with as much again")),
            FixedAnswer("unlimited", Phrase("no such limit in this session"), lasts=True),
            FixedAnswer("end", Phrase("end the turn")),
        )
