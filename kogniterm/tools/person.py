"""`ask_person`: a question only the person can decide, over a port the session provides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Protocol

from pydantic import Field

from kogniterm.tools.base import Arguments, SchemaTool

MOST_ANSWERS = 6
LONGEST_ANSWER = 300


class PersonPort(Protocol):
    """Whoever can be asked. Raises `ToolError` when nobody is there."""

    async def ask(self, question: str, answers: Sequence[str]) -> str | None:
        """One of `answers`, or the person's own words; None when they gave no answer."""


class QuestionArguments(Arguments):
    """What to ask, and answers to choose from; without any, the person answers in words."""

    question: str = Field(min_length=1, max_length=1000)
    answers: list[Annotated[str, Field(min_length=1, max_length=LONGEST_ANSWER)]] = Field(
        default=[], max_length=MOST_ANSWERS
    )


def ask_person(person: PersonPort) -> SchemaTool[QuestionArguments]:
    """The tool that asks the person something only they can decide."""

    async def run(arguments: QuestionArguments) -> str:
        reply = await person.ask(arguments.question, arguments.answers)
        if reply is None:
            return "The person gave no answer. Decide by what the task says, or end your turn."
        if reply in arguments.answers:
            return f"The person chose: {reply}"
        return f"The person answers: {reply}"

    return SchemaTool(
        "ask_person",
        "Ask the person what only they can decide; with answers to choose from, or in words.",
        QuestionArguments,
        run,
        effect="person",
        describe=lambda arguments: (arguments.question, " / ".join(arguments.answers)),
    )
