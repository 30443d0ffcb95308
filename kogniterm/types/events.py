"""The events of a turn, sent to every sink (screen, JSON, tests) in the same order.

`VERSION` rises when a field changes its meaning or goes; adding an event or a field does not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from kogniterm.types.actions import ActionRequest, Decision, RiskReport, Verdict
from kogniterm.types.actions import ToolRan as ToolRan
from kogniterm.types.command_results import (
    AnswerGroup,
    CommandResult,
    HostAnswer,
    LeftRunning,
    Waiting,
)
from kogniterm.types.localized import Phrase
from kogniterm.types.model_calls import (
    AnswerDelta as AnswerDelta,
)
from kogniterm.types.model_calls import (
    ModelFailed as ModelFailed,
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
from kogniterm.types.token_usage import Usage
from kogniterm.types.turn_values import Answer, LimitChoice, LimitReached, Plan

VERSION = 1
START_CHECK = "start check"
"""The `by` of a decision that withdraws an approval because a file that would run changed."""
BY_KOGNITERM = "kogniterm"
"""The `by` of a decision that needs neither a rule nor the user: an action is refused because only
a plan was requested, or a plan is approved because it changes nothing."""
BY_HOOK = "hook"
"""The `by` of a decision that a hook made; the trace of the verdict names the hook."""
BY_USER = "person"
"""The `by` of a decision by the user, at the terminal or in an editor."""
BY_PROGRAM = "program"
"""The `by` of a decision by the program that runs the agent as a library."""


class TurnStarted(NamedTuple):
    """The start of a turn; `text` is the user's input, with secrets replaced."""

    session_id: str
    turn: int
    model: str
    folder: str
    text: str = ""


class TurnResumed(NamedTuple):
    """The start of work on a turn that an earlier process left open."""

    session_id: str
    turn: int
    model: str
    folder: str


class ModelCalled(NamedTuple):
    """The start of a model call; `purpose` as in `types.ModelPurpose`.

    `call` is the id of the call, `agent` the sub-agent that makes it (empty: the main one),
    `server` where the model is reached and `effort` that of reasoning, where one was chosen.
    """

    purpose: str
    step: int
    call: str = ""
    agent: str = ""
    model: str = ""
    server: str = ""
    effort: str = ""


class ModelAnswered(NamedTuple):
    """The end of a model call; `usage` is of this call alone.

    `response_id`, `response_model` and `finish_reason` are the provider's own, `first_seconds` is
    the time until the first piece of the reply, and `tools` are the names of the tools it calls.
    """

    purpose: str
    usage: Usage
    total: Usage
    call: str = ""
    response_id: str = ""
    response_model: str = ""
    finish_reason: str = ""
    first_seconds: float | None = None
    tools: tuple[str, ...] = ()


class BudgetUsed(NamedTuple):
    """The budgets that have a limit: (used, limit) by name."""

    budgets: Mapping[str, tuple[float, float]]


class LimitDecided(NamedTuple):
    """The decision at a limit that is used up; `by` is `person` or `unattended`."""

    reached: LimitReached
    choice: LimitChoice
    by: str


class PlanProposed(NamedTuple):
    """A new or changed plan of the model, which waits for approval."""

    request_id: str
    plan: Plan
    previous: Plan | None = None


class PlanReviewed(NamedTuple):
    """The review of a plan: approved, edited or rejected (`kind`), by whom, and why."""

    request_id: str
    kind: str
    by: str
    reason: str = ""


class PlanChanged(NamedTuple):
    """A new or changed plan that is in force."""

    plan: Plan
    previous: Plan | None = None


class AgentStarted(NamedTuple):
    """The start of a sub-agent with `task`; its end is a `ToolRan` of `delegate`.

    `name` is that of a sub-agent that has one, or of a custom command, with its slash.
    """

    agent: str
    task: str
    name: str = ""


class ActionProposed(NamedTuple):
    """An action request of the model, with policy's verdict."""

    request: ActionRequest
    report: RiskReport
    verdict: Verdict
    cwd: str


class ApprovalAsked(NamedTuple):
    """The question to the user about a request that policy leaves to them."""

    request_id: str


class ActionDecided(NamedTuple):
    """The decision of policy or the user."""

    request: ActionRequest
    decision: Decision


class CommandStarted(NamedTuple):
    """The start of an approved command."""

    request_id: str
    command: str
    cwd: str


class CommandOutput(NamedTuple):
    """Raw bytes of the running command; sinks that show them must sanitize."""

    request_id: str
    data: bytes


class CommandWaiting(NamedTuple):
    """The diagnosis of a running command that is quiet; None when it goes on."""

    request_id: str
    waiting: Waiting | None


class CommandDone(NamedTuple):
    """The end of a command that runs beside others; `CommandEnded` follows those before it."""

    request_id: str
    exit_code: int | None


class KeyboardMoved(NamedTuple):
    """The user's keyboard goes to this one of the commands that run side by side."""

    request_id: str


class CommandEnded(NamedTuple):
    """The end of a command, or its detaching to a job."""

    request_id: str
    result: CommandResult


class HostsStarted(NamedTuple):
    """The start of an approved command on hosts, which are asked group by group."""

    request_id: str
    command: str
    groups: tuple[tuple[str, ...], ...]


class HostAnswered(NamedTuple):
    """The answer of one host, redacted."""

    request_id: str
    answer: HostAnswer


class HostsEnded(NamedTuple):
    """The end of a command on hosts, with equal answers as groups; `ActionEnded` follows."""

    request_id: str
    command: str
    groups: tuple[AnswerGroup, ...]


class ActionProgress(NamedTuple):
    """The progress that an MCP server reports of a call of its `tool`, in its own words."""

    tool: str
    text: str


class ActionEnded(NamedTuple):
    """The end of an approved action that is not a command.

    `arguments` is what the tool was given, as in `ToolRan`, where it only fetched something. A
    tool that changed something names it in its observation.
    """

    request_id: str
    tool: str
    observation: str
    failed: bool = False
    arguments: str = ""


class Notice(NamedTuple):
    """A notice for the user: recovery, trust, a lost job, a compaction."""

    text: Phrase
    level: str = "info"


class JobsLeft(NamedTuple):
    """The programs left running when KogniTerm ends: those that stay, and those it ended."""

    programs: tuple[LeftRunning, ...]


class TurnEnded(NamedTuple):
    """The end of a turn."""

    answer: Answer


Event = (
    TurnStarted
    | TurnResumed
    | ModelCalled
    | AnswerDelta
    | ThoughtDelta
    | ModelRetried
    | ModelLoading
    | ModelAnswered
    | ModelFailed
    | BudgetUsed
    | LimitDecided
    | PlanProposed
    | PlanReviewed
    | PlanChanged
    | ToolRan
    | AgentStarted
    | ActionProposed
    | ApprovalAsked
    | ActionDecided
    | CommandStarted
    | CommandOutput
    | CommandWaiting
    | CommandDone
    | KeyboardMoved
    | CommandEnded
    | HostsStarted
    | HostAnswered
    | HostsEnded
    | ActionProgress
    | ActionEnded
    | Notice
    | JobsLeft
    | TurnEnded
)


def event_name(kind: type[Event]) -> str:
    """Return the name of an event in JSON: that of its class in snake_case."""
    return _snake_case(kind.__name__)


@cache  # each sink asks for it at every piece of output and of an answer
def _snake_case(name: str) -> str:
    return re.sub(r"\B(?=[A-Z])", "_", name).lower()


class EventVisitor:
    """A sink with one method an event, `on_` and the event's name; each does nothing by itself.

    Events are told apart here and nowhere else.
    """

    def __call__(self, event: Event) -> None:
        """Give `event` to its method."""
        getattr(self, f"on_{event_name(type(event))}")(event)

    def on_turn_started(self, event: TurnStarted) -> None: ...
    def on_turn_resumed(self, event: TurnResumed) -> None: ...
    def on_model_called(self, event: ModelCalled) -> None: ...
    def on_answer_delta(self, event: AnswerDelta) -> None: ...
    def on_thought_delta(self, event: ThoughtDelta) -> None: ...
    def on_model_retried(self, event: ModelRetried) -> None: ...
    def on_model_loading(self, event: ModelLoading) -> None: ...
    def on_model_answered(self, event: ModelAnswered) -> None: ...
    def on_model_failed(self, event: ModelFailed) -> None: ...
    def on_budget_used(self, event: BudgetUsed) -> None: ...
    def on_limit_decided(self, event: LimitDecided) -> None: ...
    def on_plan_proposed(self, event: PlanProposed) -> None: ...
    def on_plan_reviewed(self, event: PlanReviewed) -> None: ...
    def on_plan_changed(self, event: PlanChanged) -> None: ...
    def on_tool_ran(self, event: ToolRan) -> None: ...
    def on_agent_started(self, event: AgentStarted) -> None: ...
    def on_action_proposed(self, event: ActionProposed) -> None: ...
    def on_approval_asked(self, event: ApprovalAsked) -> None: ...
    def on_action_decided(self, event: ActionDecided) -> None: ...
    def on_command_started(self, event: CommandStarted) -> None: ...
    def on_command_output(self, event: CommandOutput) -> None: ...
    def on_command_waiting(self, event: CommandWaiting) -> None: ...
    def on_command_done(self, event: CommandDone) -> None: ...
    def on_keyboard_moved(self, event: KeyboardMoved) -> None: ...
    def on_command_ended(self, event: CommandEnded) -> None: ...
    def on_hosts_started(self, event: HostsStarted) -> None: ...
    def on_host_answered(self, event: HostAnswered) -> None: ...
    def on_hosts_ended(self, event: HostsEnded) -> None: ...
    def on_action_progress(self, event: ActionProgress) -> None: ...
    def on_action_ended(self, event: ActionEnded) -> None: ...
    def on_notice(self, event: Notice) -> None: ...
    def on_jobs_left(self, event: JobsLeft) -> None: ...
    def on_turn_ended(self, event: TurnEnded) -> None: ...
