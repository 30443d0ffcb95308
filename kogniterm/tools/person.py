"""`ask_person`: a question with a few answers to choose from, over a port the session provides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pydantic import Field

from kogniterm.tools.base import Arguments, SchemaTool

MOST_ANSWERS = 6


class PersonPort(Protocol):
    """Whoever can be asked. Raises `ToolError` when nobody is there."""

    async def ask(self, question: str, answers: Sequence[str]) -> str:
        """The answer that was chosen, or "" for one in the person's own words."""


class QuestionArguments(Arguments):
    """What to ask, and the answers to choose from."""

    question: str = Field(min_length=1, max_length=500)
    answers: list[str] = Field(min_length=2, max_length=MOST_ANSWERS)


def ask_person(person: PersonPort) -> SchemaTool[QuestionArguments]:
    """The tool that asks the person something only they can decide."""

    async def run(arguments: QuestionArguments) -> str:
        chosen = await person.ask(arguments.question, arguments.answers)
        if chosen:
            return f"The person chose: {chosen}"
        return "The person will answer in their own words: end your turn with the question."

    return SchemaTool(
        "ask_person",
        "Ask the person to choose what only they can decide.",
        QuestionArguments,
        run,
        effect="person",
        describe=lambda arguments: (arguments.question, " / ".join(arguments.answers)),
    )
