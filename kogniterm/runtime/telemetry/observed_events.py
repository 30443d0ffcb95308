"""Events as telemetry takes them: with their time, and with texts redacted or left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kogniterm.lazy_dataclasses import dataclass
from kogniterm.types import CommandResult, events

TEXTS = (events.AnswerDelta,)
"""Events that are texts and nothing else."""
LEFT_OUT = (
    events.ThoughtDelta,
    events.ModelLoading,
    events.BudgetUsed,
    events.CommandOutput,
    events.CommandWaiting,
    events.KeyboardLent,
    events.ActionProgress,
    events.Notice,
    events.JobsLeft,
)
"""Events that say nothing about a span."""


@dataclass(frozen=True, slots=True)
class TraceIds:
    """The ids of the trace and the first span of a turn, in hexadecimal."""

    trace: str
    span: str

    @classmethod
    def of(cls, traceparent: str) -> TraceIds | None:
        """Return the ids in a `traceparent` of W3C; None where there are none."""
        parts = traceparent.split("-")
        return cls(parts[1], parts[2]) if len(parts) == 4 else None

    @property
    def traceparent(self) -> str:
        """Return the ids in the form of W3C."""
        return f"00-{self.trace}-{self.span}-01"


@dataclass(frozen=True, slots=True)
class Observed:
    """An event with its time, in nanoseconds since the epoch.

    The first one of a turn has the ids of its trace and, where it goes on with a turn that was
    left open, those of the earlier one.
    """

    event: events.Event
    time: int
    ids: TraceIds | None = None
    before: TraceIds | None = None


Redact = Callable[[str], str]


def bare(event: events.Event, redact: Redact) -> events.Event:
    """Return the event without what the user, the model, a command or a tool said."""
    del redact
    return _with_texts(event, lambda text: "")


def redacted(event: events.Event, redact: Redact) -> events.Event:
    """Return the event with its texts redacted."""
    return _with_texts(event, redact)


def _with_texts(event: events.Event, change: Redact) -> events.Event:
    match event:
        case events.TurnStarted():
            return replace(event, folder="", text=change(event.text))
        case events.TurnResumed():
            return replace(event, folder="")
        case events.AnswerDelta():
            return replace(event, text=change(event.text))
        case events.AgentStarted():
            return replace(event, task=change(event.task))
        case events.ToolRan():
            return replace(
                event, arguments=change(event.arguments), observation=change(event.observation)
            )
        case events.CommandStarted():
            return replace(event, command=change(event.command), cwd="")
        case events.CommandEnded():
            return replace(event, result=_result(event.result, change))
        case events.ActionEnded():
            return replace(
                event, arguments=change(event.arguments), observation=change(event.observation)
            )
        case events.TurnEnded():
            return replace(event, answer=replace(event.answer, text=change(event.answer.text)))
        case _:
            return event


def _result(result: CommandResult, change: Redact) -> CommandResult:
    return replace(result, command=change(result.command), text=change(result.text), cwd="")
