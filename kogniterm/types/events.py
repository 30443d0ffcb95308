"""What happens in a turn, told to every sink (screen, JSON, tests) in the same order.

`VERSION` rises when a field changes its meaning or goes; adding an event or a field does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kogniterm.types.actions import ActionRequest, Decision, RiskReport, Verdict
from kogniterm.types.actions import ToolRan as ToolRan
from kogniterm.types.command_results import CommandResult, LeftRunning, Waiting
from kogniterm.types.localized import Phrase
from kogniterm.types.model_calls import (
    AnswerDelta as AnswerDelta,
)
from kogniterm.types.model_calls import (
    ModelLoading as ModelLoading,
)
from kogniterm.types.model_calls import (
    ModelRetried as ModelRetried,
)
from kogniterm.types.model_calls import (
    ThoughtDelta as ThoughtDelta,
)
from kogniterm.types.model_calls import (
    Usage,
)
from kogniterm.types.turn_values import Answer, Plan

VERSION = 1
START_CHECK = "start check"
"""Who decides that an approved command is not started, because a file that it runs changed."""


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A turn begins."""

    session_id: str
    turn: int
    model: str
    folder: str


@dataclass(frozen=True, slots=True)
class ModelCalled:
    """A model call begins; `purpose` as in `types.ModelPurpose`."""

    purpose: str
    step: int


@dataclass(frozen=True, slots=True)
class ModelAnswered:
    """A model call ended; `usage` is of this call alone."""

    purpose: str
    usage: Usage
    total: Usage


@dataclass(frozen=True, slots=True)
class BudgetUsed:
    """How far the turn's budgets are used: (used, limit) by name, of those that have a limit."""

    budgets: Mapping[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class PlanProposed:
    """The model made or changed its plan, which waits for approval."""

    request_id: str
    plan: Plan
    previous: Plan | None = None


@dataclass(frozen=True, slots=True)
class PlanReviewed:
    """A plan was approved, edited or rejected (`kind`), by whom, and why."""

    request_id: str
    kind: str
    by: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PlanChanged:
    """The plan was made or changed."""

    plan: Plan
    previous: Plan | None = None


@dataclass(frozen=True, slots=True)
class AgentStarted:
    """A sub-agent begins with `task`; its end is a `ToolRan` of `delegate`."""

    agent: str
    task: str


@dataclass(frozen=True, slots=True)
class ActionProposed:
    """The model wants to act; policy has spoken."""

    request: ActionRequest
    report: RiskReport
    verdict: Verdict
    cwd: str


@dataclass(frozen=True, slots=True)
class ActionDecided:
    """Policy or a person decided."""

    request: ActionRequest
    decision: Decision


@dataclass(frozen=True, slots=True)
class CommandStarted:
    """An approved command starts."""

    request_id: str
    command: str
    cwd: str


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """Raw bytes of the running command; sinks that show them must sanitize."""

    request_id: str
    data: bytes


@dataclass(frozen=True, slots=True)
class CommandWaiting:
    """The running command has gone quiet, with the diagnosis; None when it goes on."""

    request_id: str
    waiting: Waiting | None


@dataclass(frozen=True, slots=True)
class CommandEnded:
    """The command is over, or was detached to a job."""

    request_id: str
    result: CommandResult


@dataclass(frozen=True, slots=True)
class ActionEnded:
    """An approved action that is not a command is over.

    `arguments` is what the tool was given, as in `ToolRan`, where it only fetched something:
    its observation is somebody's page. What changed something tells of it in its observation.
    """

    request_id: str
    tool: str
    observation: str
    failed: bool = False
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the person should know: recovery, trust, a lost job, a compaction."""

    text: Phrase
    level: str = "info"


@dataclass(frozen=True, slots=True)
class JobsLeft:
    """KogniTerm ends: what of its commands' programs stays, and what was ended."""

    programs: tuple[LeftRunning, ...]


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The turn is over."""

    answer: Answer


Event = (
    TurnStarted
    | ModelCalled
    | AnswerDelta
    | ThoughtDelta
    | ModelRetried
    | ModelLoading
    | ModelAnswered
    | BudgetUsed
    | PlanProposed
    | PlanReviewed
    | PlanChanged
    | ToolRan
    | AgentStarted
    | ActionProposed
    | ActionDecided
    | CommandStarted
    | CommandOutput
    | CommandWaiting
    | CommandEnded
    | ActionEnded
    | Notice
    | JobsLeft
    | TurnEnded
)
