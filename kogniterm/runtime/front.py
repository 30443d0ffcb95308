"""The front of a turn: who is asked, who is told, and the terminal a command may borrow."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from kogniterm.protocols import Approver, EventSink, Terminal
from kogniterm.runtime import events
from kogniterm.runtime.ports import TurnCount
from kogniterm.sessions.records import Intent
from kogniterm.types import (
    Loading,
    ModelEvent,
    Reply,
    RetryNotice,
    TextDelta,
    ThoughtDelta,
    ToolCalled,
)

Wish = Literal["check", "again", "skip"]
"""What becomes of a command whose outcome is unknown."""

Recover = Callable[[Intent, str], Awaitable[Wish]]
"""Asks a person what to do about a command whose outcome is unknown, given its output."""


@dataclass(frozen=True, slots=True)
class Front:
    """REPL, one-shot and scripted mode differ only in what they put here."""

    approver: Approver
    sink: EventSink
    terminal: Terminal | None = None
    recover: Recover | None = None


def relay(item: ModelEvent | ToolCalled | str, sink: EventSink, count: TurnCount) -> None:
    """Tell the sink what the graph reported, in the runtime's words; count what it cost."""
    if isinstance(item, str):
        count.begin_call(item)
        sink(events.ModelCalled(item, count.steps))
        sink(events.BudgetUsed(count.budget.shown()))
    elif isinstance(item, TextDelta):
        sink(events.AnswerDelta(item.text))
    elif isinstance(item, ThoughtDelta):
        sink(events.ThoughtDelta(item.text))
    elif isinstance(item, RetryNotice):
        sink(events.ModelRetried(item.attempt, item.of, item.wait, item.reason))
    elif isinstance(item, Loading):
        sink(events.ModelLoading(item.done))
    elif isinstance(item, Reply):
        count.add_usage(item.usage)
        sink(events.ModelAnswered(count.purpose, item.usage, count.usage))
        sink(events.BudgetUsed(count.budget.shown()))
    else:
        sink(events.ToolRan(item.name, item.arguments, item.observation, item.failed, item.agent))
