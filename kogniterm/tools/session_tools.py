"""Tools over the session's own data, through ports that the session provides.

`recall_history` reads its past, `ask_user` asks its user, `recall`, `remember` and `forget` use
long-term memory. `use_skill` gives the instructions of a skill, when a task needs them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, Protocol

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from kogniterm import prompts
from kogniterm.errors import ToolError
from kogniterm.tools.base import Arguments, SchemaTool
from kogniterm.types import USE_SKILL, EffectClass


class HistoryPort(Protocol):
    """The session's whole past."""

    def search(self, words: str) -> str:
        """Return the entries that hold `words`, newest first, with their numbers."""

    def entry(self, number: int) -> str:
        """Return the full text of one entry. Raises `ToolError` when there is none."""


class HistoryArguments(Arguments):
    """Search, or read one entry."""

    words: str = Field(default="", max_length=200)
    entry: int | None = Field(default=None, ge=1)


def recall_history(history: HistoryPort) -> SchemaTool[HistoryArguments]:
    """Return the tool over one session's journal."""

    async def run(arguments: HistoryArguments) -> str:
        if arguments.entry is not None:
            return history.entry(arguments.entry)
        if not arguments.words.strip():
            raise ToolError("words and entry are both missing; specify one of them.")
        found = history.search(arguments.words.strip())
        return found or f"[nothing in this session contains {arguments.words!r}]"

    return SchemaTool(
        "recall_history",
        HistoryArguments,
        run,
    )


MOST_ANSWERS = 6
LONGEST_ANSWER = 300
_CHOSE = "The user chose: "
_ANSWERED = "The user answers: "
_REPLIES = (_CHOSE, _ANSWERED, "The person chose: ", "The person answers: ")
"""The beginnings of the observations, also in sessions of older versions."""


class UserPort(Protocol):
    """The user, where there is one to ask; else raises `ToolError`."""

    async def ask(self, question: str, answers: Sequence[str]) -> str | None:
        """Return one of `answers`, or the user's own words; None without an answer."""


class QuestionArguments(Arguments):
    """A question, and answers to choose from; without any, the user answers in words."""

    question: str = Field(min_length=1, max_length=1000)
    answers: list[Annotated[str, Field(min_length=1, max_length=LONGEST_ANSWER)]] = Field(
        default=[], max_length=MOST_ANSWERS
    )


def ask_user(user: UserPort) -> SchemaTool[QuestionArguments]:
    """Return the tool that asks the user something only they can decide."""

    async def run(arguments: QuestionArguments) -> str:
        reply = await user.ask(arguments.question, arguments.answers)
        if reply is None:
            return prompts.text("execute_tool.no_answer")
        if reply in arguments.answers:
            return f"{_CHOSE}{reply}"
        return f"{_ANSWERED}{reply}"

    return SchemaTool(
        "ask_user",
        QuestionArguments,
        run,
        effect="person",
        describe=lambda arguments: (arguments.question, " / ".join(arguments.answers)),
    )


def reply_in(observation: str) -> str | None:
    """Return the user's reply in an observation of `ask_user`; None where they gave none."""
    for begin in _REPLIES:
        if observation.startswith(begin):
            return observation.removeprefix(begin)
    return None


Category = Literal["preference", "requirement", "constraint", "fact"]


class MemoryPort(Protocol):
    """Memory as tools see it; every method returns the observation or raises `ToolError`."""

    def recall(self, question: str, limit: int) -> str:
        """Return facts that answer `question`."""

    def remember(self, text: str, quote: str, category: str, everywhere: bool) -> str:
        """Store a statement that rests on the user's own words."""


class ForgetPort(Protocol):
    """Forgetting as the tool sees it. Raises `ToolError`, also where no user can be asked."""

    async def forget(self, what: str, quote: str) -> str:
        """Find what the user wants forgotten, ask them, and remove it with proof."""


class RecallArguments(Arguments):
    """A question to memory."""

    question: str = Field(min_length=1, max_length=400)
    limit: SkipJsonSchema[int] = Field(default=8, ge=1, le=30)


class RememberArguments(Arguments):
    """A statement to keep, and the user's words it rests on."""

    text: str = Field(min_length=1, max_length=400)
    quote: str = Field(min_length=1, max_length=400)
    category: SkipJsonSchema[Category] = "fact"
    everywhere: bool = False


class ForgetArguments(Arguments):
    """A thing to forget, and the user's words that ask for it."""

    what: str = Field(min_length=1, max_length=400)
    quote: str = Field(min_length=1, max_length=400)


def recall(memory: MemoryPort) -> SchemaTool[RecallArguments]:
    """Return the tool that looks facts up."""

    async def run(arguments: RecallArguments) -> str:
        found = await asyncio.to_thread(memory.recall, arguments.question, arguments.limit)
        return prompts.text("execute_tool.remembered_facts", facts=found)

    return SchemaTool(
        "recall",
        RecallArguments,
        run,
    )


def remember(memory: MemoryPort) -> SchemaTool[RememberArguments]:
    """Return the tool that keeps what the user asked to keep."""

    async def run(arguments: RememberArguments) -> str:
        return await asyncio.to_thread(
            memory.remember,
            arguments.text,
            arguments.quote,
            arguments.category,
            arguments.everywhere,
        )

    return SchemaTool(
        "remember",
        RememberArguments,
        run,
    )


def forget(memory: ForgetPort) -> SchemaTool[ForgetArguments]:
    """Return the tool that removes what the user wants forgotten, once they confirm it."""

    async def run(arguments: ForgetArguments) -> str:
        return await memory.forget(arguments.what, arguments.quote)

    return SchemaTool(
        "forget",
        ForgetArguments,
        run,
        effect="person",
        describe=lambda arguments: (arguments.what, ""),
    )


class SkillPort(Protocol):
    """The skills of a session."""

    async def use(self, name: str) -> str:
        """Return the instructions of a skill. Raises `ToolError` for one that cannot be used."""

    def asks(self, name: str) -> bool:
        """Return whether the user is asked for permissions when this skill is used."""

    def may_read(self, path: Path) -> bool:
        """Return whether a resolved path is a file of a usable skill, as it was trusted."""


class SkillArguments(Arguments):
    """The name of a skill."""

    name: str = Field(min_length=1, max_length=64)


def use_skill(skills: SkillPort) -> SchemaTool[SkillArguments]:
    def effect_of(arguments: SkillArguments) -> EffectClass:
        return "person" if skills.asks(arguments.name) else "none"

    async def run(arguments: SkillArguments) -> str:
        return await skills.use(arguments.name)

    return SchemaTool(
        USE_SKILL,
        SkillArguments,
        run,
        effect_of=effect_of,
        describe=lambda arguments: (f"use the skill {arguments.name}", ""),
    )


class _NoSkills:
    """The skills where none can be used: none asks anything, and no file is one of theirs."""

    async def use(self, name: str) -> str:
        raise ToolError("There is no skill {name}.", name=name)

    def asks(self, name: str) -> bool:
        """Return that the user is not asked."""
        return False

    def may_read(self, path: Path) -> bool:
        """Return that the file is none of a skill."""
        return False


NO_SKILLS = _NoSkills()
