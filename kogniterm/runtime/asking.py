"""The person as the model's tools reach them: there while a turn has somebody in front of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from kogniterm.errors import ToolError
from kogniterm.types import Text

Question = str | Sequence[Text]
"""A question of the model's in its words, or one of KogniTerm's: a sentence and lines below it."""

Ask = Callable[[Question, Sequence[str | Text]], Awaitable[str | None]]
"""Shows a question with answers: the one that was chosen (in English where it is KogniTerm's
own), own words, or None for no answer."""

LEFT_OPEN = "left open"
"""Why a turn is cancelled whose person went away from a question, terminal and all."""


@dataclass(slots=True)
class PersonDesk:
    """Asks whoever drives the turn; `ask_now` is None where nobody does."""

    ask_now: Ask | None = None

    async def ask(self, question: Question, answers: Sequence[str | Text]) -> str | None:
        """What the person answers; None when they do not. Raises `ToolError` where nobody is."""
        if self.ask_now is None:
            raise ToolError(
                "Nobody is there to answer. Decide by what the task says, or end and say what "
                "has to be known."
            )
        return await self.ask_now(question, answers)
