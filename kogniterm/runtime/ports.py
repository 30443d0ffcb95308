"""What a turn needs of its session, and what it counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from kogniterm.protocols import Clock, Executor, Model, Tool
from kogniterm.runtime.limits import NOTHING, Budget
from kogniterm.sessions.fold import SessionState
from kogniterm.sessions.records import RecordBody
from kogniterm.types import (
    ActionRequest,
    Answer,
    CommandResult,
    Decision,
    Plan,
    PlanMode,
    RiskReport,
    Text,
    Usage,
    UserInput,
    Verdict,
)

if TYPE_CHECKING:
    from kogniterm.agent.state import ThinkContext
    from kogniterm.execution.sandbox import Sandbox
    from kogniterm.runtime.attachments import Attached
    from kogniterm.runtime.front import Front
    from kogniterm.runtime.plans import PlanDesk
    from kogniterm.runtime.policy_desk import PolicyDesk
    from kogniterm.runtime.run_command import CommandStop


@dataclass(slots=True)
class TurnCount:
    """What a turn has used so far. Durations by the monotonic clock.

    `unknown` are commands whose end nobody saw and nobody could be asked about. `unasked` are the
    model's questions that nobody was there to answer. `earlier` is what models were
    asked for before this turn. `refused` are the reasons of refusals, with who refused. The time
    in which it `waited` for the user is not the turn's.
    """

    budget: Budget
    clock: Clock
    price: Callable[[Usage], float | None]
    steps: int = 0
    purpose: str = ""
    usage: Usage = field(default_factory=Usage)
    commands: int = 0
    output_bytes: int = 0
    dollars: float = 0.0
    refused: list[tuple[Text | str, str]] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    unasked: list[str] = field(default_factory=list)
    began: float = 0.0
    waited: float = 0.0
    plan_before: Plan | None = None
    earlier: Usage = field(default_factory=Usage)

    def __post_init__(self) -> None:
        self.began = self.clock.monotonic()
        self.budget.spent = self.spent
        self.budget.before = {
            **NOTHING,
            "steps": self.earlier.calls,
            "tokens": self.earlier.input + self.earlier.output,
            "dollars": self.price(self.earlier) or 0.0,
        }

    def begin_call(self, purpose: str) -> None:
        """A model call begins."""
        self.steps += 1
        self.purpose = purpose

    def add_usage(self, usage: Usage) -> None:
        """A model call ended; an unknown price counts as nothing."""
        self.usage += usage
        self.dollars += self.price(usage) or 0.0

    def add_command(self, result: CommandResult) -> None:
        """A command ended."""
        self.commands += 1
        self.output_bytes += result.output_bytes

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """The user is asked for something, for as long as they take."""
        since = self.clock.monotonic()
        try:
            yield
        finally:
            self.waited += self.clock.monotonic() - since

    @property
    def seconds(self) -> float:
        """Seconds that the turn worked, without the waits for the user."""
        return self.clock.monotonic() - self.began - self.waited

    def timed(self, answer: Answer) -> Answer:
        """Return the answer with how long the turn took."""
        return replace(answer, seconds=self.seconds, waited=self.waited)

    def spent(self) -> Mapping[str, float]:
        """What the turn has used so far, by the names of `Limits`' fields."""
        return {
            "steps": self.steps,
            "seconds": self.seconds,
            "tokens": self.usage.input + self.usage.output,
            "dollars": self.dollars,
            "commands": self.commands,
            "output_bytes": self.output_bytes,
        }

    def may_continue(self) -> Text | None:
        """Why the turn must stop before its next model call, or None."""
        return self.budget.over()


class SessionPorts(Protocol):
    """A session as its turns see it: pure rules and effects, each behind one name."""

    budget: Budget
    clock: Clock
    chat_model: Model
    plan_mode: PlanMode
    tools: Mapping[str, Tool]
    policy: PolicyDesk
    env_hash: str
    command_timeout: float | None
    stopping: CommandStop
    plans: PlanDesk

    def price(self, usage: Usage) -> float | None:
        """What a model call cost in US dollars; None when the price is not known."""

    @property
    def executor(self) -> Executor:
        """What runs commands."""

    @property
    def state(self) -> SessionState:
        """Folded from the journal."""

    @property
    def cwd(self) -> str:
        """The folder the next command starts in."""

    def record(self, body: RecordBody, *, durable: bool = False) -> None:
        """Append to the journal and advance the state."""

    def settle_kept(self) -> None:
        """Write the outcomes that are kept. Raises `OutcomeNotWrittenError`."""

    def redact_input(self, user_input: UserInput) -> UserInput:
        """The input with secrets replaced by placeholders."""

    def redact_result(self, result: CommandResult) -> CommandResult:
        """The result with secrets replaced by placeholders."""

    def redact(self, text: str) -> str:
        """Any text on its way to journal and model."""

    def reveal(self, command: str) -> str:
        """An approved command with its placeholders replaced by the values, for the executor."""

    def learn_outcome(self, result: CommandResult) -> None:
        """Keep how a command ended, for similar tasks."""

    def recall(self, user_input: UserInput) -> Attached:
        """What the files named in this input hold and memory adds to it, quoted as data."""

    async def make_room(self, front: Front, count: TurnCount) -> None:
        """Compact the history when it nears the model's window."""

    def think_context(self, count: TurnCount) -> ThinkContext:
        """The ports of one graph invocation."""

    def assess(self, request: ActionRequest) -> RiskReport:
        """Facts about a request."""

    def judge(self, request: ActionRequest, report: RiskReport) -> Verdict:
        """Policy's word on a request."""

    def file_states(self, request: ActionRequest, report: RiskReport) -> Mapping[str, str]:
        """The state of every file that decides what the request runs, by name."""

    def changed_file(self, request: ActionRequest) -> str | None:
        """The first of these files that is not as it was when the request was judged, or None."""

    def confine(self, decision: Decision, report: RiskReport) -> Sandbox | None:
        """Let the executor run the next command in the sandbox this decision calls for."""

    def keep_preimages(self, request: ActionRequest, report: RiskReport) -> None:
        """Keep what the request will overwrite or delete, so that it can be undone."""
