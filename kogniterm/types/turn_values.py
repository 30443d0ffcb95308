"""A turn as values: its input, its plan, what the graph adds to the session, and its answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from kogniterm.types.actions import ActionRequest
from kogniterm.types.localized import Phrase
from kogniterm.types.token_usage import Usage

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage


PlanMode = Literal["auto", "always", "never"]
PlanApproval = Literal["auto", "always", "never"]
StepStatus = Literal["pending", "active", "done", "failed", "skipped"]
CheckKind = Literal["command", "exit_code", "pattern", "file", "judgement"]


DelegateKind = Literal["read", "search", "edit", "run"]
"""The tools of a sub-agent: reading, only searching, changing files too, running commands too."""


@dataclass(frozen=True, slots=True)
class Check:
    """The check that a plan step succeeded.

    `value` is a shell command (must exit 0), an exit code, a regular expression over the
    step's output, a path that must exist, or a sentence for the model to judge.
    """

    kind: CheckKind
    value: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence of a finished step: the command's request id, its exit status, the finding.

    `quote` is the part of the output that a judgement by another model call rests on.
    """

    request_id: str | None
    exit_code: int | None
    note: str = ""
    quote: str = ""


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One entry of a plan; done only with evidence.

    With `delegate` a sub-agent of this kind or name is to do it.
    `evidence` holds failed attempts too; the last one counts. With `on_fallback` the fallback is
    done instead, because the step itself could not be. It waits for the steps in `after` and for
    those that its `inputs` name; `writes` are the paths that it may change. With `subplan` the
    substeps are steps of their own and close it; otherwise they are words that close with it.
    """

    id: str
    what: str
    why: str = ""
    expect: str = ""
    check: Check | None = None
    fallback: str = ""
    inputs: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    delegate: str | None = None
    status: StepStatus = "pending"
    evidence: tuple[Evidence, ...] = ()
    substeps: tuple[PlanStep, ...] = ()
    failed_checks: int = 0
    on_fallback: bool = False
    after: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    subplan: bool = False

    @property
    def open(self) -> bool:
        """Return whether it has not ended yet."""
        return self.status in ("pending", "active")

    @property
    def parts(self) -> tuple[PlanStep, ...]:
        """Return the substeps that are steps of their own."""
        return self.substeps if self.subplan else ()

    def __post_init__(self) -> None:
        if not self.id or not self.what.strip():
            raise ValueError("a plan step needs an id and says what it does")


@dataclass(frozen=True, slots=True)
class Plan:
    """The ordered list of steps the model wrote for a task; `reason` says why it was changed."""

    goal: str
    steps: tuple[PlanStep, ...]
    revision: int = 1
    reason: str = ""

    def walk(self) -> Iterator[PlanStep]:
        """Yield every step, each followed by its substeps that are steps of their own."""
        for step in self.steps:
            yield step
            yield from step.parts


class PlanReview(NamedTuple):
    """The approver's review of a plan; `plan` is the one to work on, as it came or as edited.

    It may grant that in the sandbox exactly its `checks` run without asking, until it ends or
    changes, or that `edits` are accepted.
    """

    kind: Literal["approve", "edit", "reject"]
    plan: Plan
    by: str
    reason: str = ""
    grant: Grant = ""


Grant = Literal["", "checks", "edits"]
GRANTS: Mapping[str, Grant] = {"approve": "", "checks": "checks", "edits": "edits"}
"""Answers that start a plan, with what each grants."""


LEFT_OPEN = "left open"
"""The message of a cancel that leaves the turn open: the terminal went away during a question."""


class LimitReached(NamedTuple):
    """A limit that is used up: its name in `/budget`, how much it allows, and of what it is."""

    name: str
    limit: float
    of_session: bool = False


LimitChoice = Literal["more", "unlimited", "end"]
"""A choice at a limit: as much again for the turn, no such limit in this session, or the end."""


@dataclass(frozen=True, slots=True)
class UserInput:
    """One input of the user: the words, and data piped in beside them.

    `line` is the slash command that wrote `text`, when one did. With `parts` the text is not
    known yet: it is made of them, text and command in turn, once the commands have run. `model`
    is the one to ask in this turn, if it can be used, and `permissions` are those that the user is
    offered before. `agent` is the sub-agent that the user calls. `foreign` are the stretches of
    `typed` that somebody else may have written: pasted, piped in, or made by a model or a program.
    """

    text: str
    data: str | None = None
    source: Literal["repl", "run", "shell", "script", "recipe"] = "repl"
    attachments: tuple[str, ...] = ()
    line: str = ""
    parts: tuple[str, ...] = ()
    model: str = ""
    permissions: tuple[str, ...] = ()
    agent: str = ""
    foreign: tuple[tuple[int, int], ...] = ()

    @property
    def typed(self) -> str:
        return self.line or self.text

    @property
    def beyond_model(self) -> bool:
        """Return whether its turn does more than ask the session's model."""
        return (
            bool(self.parts or self.model or self.permissions or self.agent)
            or self.source == "recipe"
        )


UserAnswers = Literal["now", "later", "never"]
"""Times at which a user approves and answers."""

StopReason = Literal[
    "done",
    "not_done",
    "refused",
    "budget",
    "model_failed",
    "storage_unavailable",
    "interrupted",
    "plan_only",
    "unknown",
    "parked",
]


class Answer(NamedTuple):
    """The end of a turn: the text for the user, why it stopped, and the process exit code.

    Of a plan, `verified` names the steps that a command or check proved and `not_verified` the
    others: from the plan's evidence alone, whatever the text claims. `seconds` is how long the turn
    worked, `waited` how long it waited for the user beside that. `refused_by` is who refused what
    ended it so: `person`, `policy`, `program` or `unattended`. `retry_after` is the pause that the
    provider asked for, in seconds; `passes` is whether the same call may succeed later,
    after minutes or hours. A `verbatim` text is what programs printed, and no Markdown.
    """

    text: str
    stop: StopReason = "done"
    exit_code: int = 0
    reason: Phrase | None = None
    usage: Usage = Usage()
    verified: tuple[str, ...] = ()
    not_verified: tuple[str, ...] = ()
    seconds: float = 0.0
    waited: float = 0.0
    refused_by: str = ""
    retry_after: float | None = None
    passes: bool = False
    verbatim: bool = False


NOTE = "kogniterm_note"
"""Marks a human message that the user did not write: a hint, a repair, a command they ran."""

SAID = "kogniterm_said"
"""Key of the user's own words in a message that holds more, or holds what several messages said."""

RECIPE_NODE = "recipe"
"""The node of what a recipe adds; with an `agent` it is the exchange of one of its model nodes."""


@dataclass(frozen=True, slots=True)
class NodeUpdate:
    """An addition of one graph node to the session, journaled as the graph streams it.

    With an `agent` it adds to that sub-agent's history, `failure` is why the agent stopped, and
    `own_plan` the plan that the agent made for its task. `agent_name` is the name of a sub-agent
    that has one, in its first update. `model` names the model that the usage is of, where it is not
    that of the session.
    """

    node: str
    messages: tuple[BaseMessage, ...] = ()
    plan: Plan | None = None
    pending: tuple[ActionRequest, ...] = ()
    answer: str | None = None
    usage: Usage = field(default_factory=Usage)
    failure: Phrase | None = None
    agent: str = ""
    own_plan: Plan | None = None
    agent_name: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True)
class AgentState:
    """A sub-agent at work: its own history, usage and plan, and why it stopped, if it failed."""

    messages: tuple[BaseMessage, ...] = ()
    usage: Usage = field(default_factory=Usage)
    failure: Phrase | None = None
    plan: Plan | None = None

    def grow(
        self,
        messages: Sequence[BaseMessage],
        usage: Usage | None = None,
        failure: Phrase | None = None,
        plan: Plan | None = None,
    ) -> AgentState:
        """Return this state with `messages` at the end of its history."""
        used = self.usage + (usage or Usage())
        return AgentState((*self.messages, *messages), used, failure, plan or self.plan)
