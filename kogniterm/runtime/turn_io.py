"""What a turn talks to: who is asked, who is told, and the terminal a command may borrow."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from kogniterm.errors import ToolError
from kogniterm.protocols import Approver, EventSink, Terminal
from kogniterm.runtime.budgets import TurnCount
from kogniterm.sessions.records import Intent
from kogniterm.types import ModelEvent, Phrase, Reply, ToolRan, events

Question = str | Sequence[Phrase]
"""A question of the model's in its words, or one of KogniTerm's: a sentence and lines below it."""

Ask = Callable[[Question, Sequence[str | Phrase]], Awaitable[str | None]]
"""Shows a question with answers: the one that was chosen (in English where it is KogniTerm's
own), own words, or None for no answer."""

LEFT_OPEN = "left open"
"""Why a turn is cancelled whose person went away from a question, terminal and all."""


@dataclass(slots=True)
class AskPort:
    """Asks whoever drives the turn; `ask_now` is None where nobody does."""

    ask_now: Ask | None = None

    async def ask(self, question: Question, answers: Sequence[str | Phrase]) -> str | None:
        """What the person answers; None when they do not. Raises `ToolError` where nobody is."""
        if self.ask_now is None:
            raise ToolError(
                "Nobody is there to answer. Decide by what the task says, or end and say what "
                "has to be known."
            )
        return await self.ask_now(question, answers)


Wish = Literal["check", "again", "skip"]
"""What becomes of a command whose outcome is unknown."""

Recover = Callable[[Intent, str], Awaitable[Wish]]
"""Asks a person what to do about a command whose outcome is unknown, given its output."""


@dataclass(frozen=True, slots=True)
class TurnIO:
    """REPL, one-shot and scripted mode differ only in what they put here."""

    approver: Approver
    sink: EventSink
    terminal: Terminal | None = None
    recover: Recover | None = None


def relay(item: ModelEvent | ToolRan | str, sink: EventSink, count: TurnCount) -> None:
    """Tell the sink what the graph reported, in the runtime's words; count what it cost."""
    if isinstance(item, str):
        count.begin_call(item)
        sink(events.ModelCalled(item, count.steps))
        sink(events.BudgetUsed(count.budget.shown()))
    elif isinstance(item, Reply):
        count.add_usage(item.usage)
        sink(events.ModelAnswered(count.purpose, item.usage, count.usage))
        sink(events.BudgetUsed(count.budget.shown()))
    else:
        sink(item)
