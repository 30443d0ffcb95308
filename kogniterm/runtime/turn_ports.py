"""The objects a turn gets besides its journal: its driver, its modes, and ports of its services.

A live session and a replay put different objects behind `PolicyPort` and `ToolRules`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from kogniterm import prompts
from kogniterm.agent.compaction import Window
from kogniterm.approval import Unattended
from kogniterm.errors import ModelError, ToolError
from kogniterm.models.catalog import PRICES_DATE
from kogniterm.protocols import Approver, EventSink, Model, Terminal, Tool
from kogniterm.runtime.budgets import TurnCount, unknown_price
from kogniterm.runtime.fixed_questions import LimitQuestion, RecoveryChoice, RecoveryQuestion
from kogniterm.runtime.user_secrets import AskSecret
from kogniterm.sessions.fold import Note, SessionState
from kogniterm.sessions.records import Noted
from kogniterm.types import (
    ActionRequest,
    ApprovalMode,
    CommandResult,
    Decision,
    LimitChoice,
    ModelAsked,
    ModelEvent,
    ModelFailed,
    ModelRequest,
    Phrase,
    Plan,
    PlanApproval,
    PlanMode,
    Reply,
    RiskReport,
    RuleTrace,
    ToolRan,
    Usage,
    UserAnswers,
    Verdict,
    WebAnswer,
    events,
)

if TYPE_CHECKING:
    from kogniterm.agent.messages import ImageBlock
    from kogniterm.execution.sandbox.confinement import Sandbox


# --- who drives the turn --------------------------------------------------------------------------


@runtime_checkable
class JointApprover(Protocol):
    """An approver that can ask about several commands in one question."""

    async def decide_together(
        self, asked: Sequence[tuple[ActionRequest, RiskReport, Verdict]]
    ) -> Sequence[Decision] | None:
        """Return a decision for each; None where the user decides on each by itself."""


Question = str | Sequence[Phrase]
"""A question of the model, in its words; or one of KogniTerm: a sentence and the lines below it."""

Ask = Callable[[Question, Sequence[str | Phrase]], Awaitable[str | None]]
"""Show a question with suggested answers. Returns the chosen one (in English where it is a
`Phrase`), the user's own words, or None for no answer."""

Recover = Callable[[RecoveryQuestion], Awaitable[RecoveryChoice]]
"""Ask the user about a command whose outcome is unknown."""

AtLimit = Callable[[LimitQuestion], Awaitable[LimitChoice]]
"""Ask the user whether the turn goes on at a limit that is used up."""


@dataclass(slots=True)
class TurnIO:
    """The driver of a turn; REPL, one-shot and scripted mode differ only in what they put here.

    `at_prompt` is whether a user sits at the prompt, so that auto mode may ask about what is
    dangerous. `ask`, `park` and `ask_secret` are None where nobody answers a tool.
    """

    approver: Approver
    sink: EventSink
    terminal: Terminal | None = None
    recover: Recover | None = None
    at_limit: AtLimit | None = None
    at_prompt: bool = False
    ask: Ask | None = None
    park: Ask | None = None
    ask_secret: AskSecret | None = None

    @property
    def attended(self) -> bool:
        """Return whether a user can be asked."""
        return not isinstance(self.approver, Unattended)

    @property
    def user_answers(self) -> UserAnswers:
        """Return when a user answers a question of this turn."""
        later = getattr(self.approver, "answers_later", False)
        return "later" if later else "now" if self.attended else "never"


class AskPort:
    """Asks the user for a tool; `ask_now` is None where nobody drives the turn.

    `park` takes the questions of the model in a turn that may be left open at them.
    """

    def __init__(self, ask_now: Ask | None = None, park: Ask | None = None) -> None:
        self.ask_now = ask_now
        self.park = park

    async def ask(self, question: Question, answers: Sequence[str | Phrase]) -> str | None:
        """Return the user's answer, None for no answer. Raises `ToolError` where nobody is."""
        if self.ask_now is None:
            raise ToolError(
                "No user is present to answer; decide by the task, or end your turn and say "
                "what you need to know."
            )
        return await self.ask_now(question, answers)


class ModelQuestions:
    """Asks the model's questions; of all questions to the user, only these may be parked."""

    def __init__(self, port: AskPort) -> None:
        self.port = port

    async def ask(self, question: Question, answers: Sequence[str | Phrase]) -> str | None:
        """Return the user's answer, None for no answer. Raises `ToolError` where nobody is."""
        if self.port.park is not None:
            return await self.port.park(question, answers)
        return await self.port.ask(question, answers)


def relay(
    item: ModelEvent | ToolRan | ModelAsked | ModelFailed, sink: EventSink, count: TurnCount
) -> None:
    """Count a report of the graph and pass it to `sink` as an event."""
    if isinstance(item, ModelAsked):
        count.begin_call(item.purpose)
        sink(call_event(item, count))
        sink(events.BudgetUsed(count.budget.use_and_limits()))
    elif isinstance(item, Reply):
        if not count.add_usage(item.usage, item.model):
            sink(events.Notice(unknown_price(item.model, PRICES_DATE), "warning"))
        sink(answer_event(item, count))
        sink(events.BudgetUsed(count.budget.use_and_limits()))
    else:
        sink(item)


def relay_aside(item: ModelAsked | ModelFailed | Reply, sink: EventSink, count: TurnCount) -> None:
    """Pass the report of a call beside the conversation to `sink`; it is no step of the turn."""
    if isinstance(item, ModelAsked):
        sink(call_event(item, count))
    elif isinstance(item, Reply):
        count.add_usage(item.usage)
        sink(answer_event(item, count))
    else:
        sink(item)


def call_event(asked: ModelAsked, count: TurnCount) -> events.ModelCalled:
    """Return the start of a model call as an event."""
    return events.ModelCalled(
        asked.purpose, count.steps, asked.id, asked.agent, asked.model, asked.server, asked.effort
    )


def answer_event(reply: Reply, count: TurnCount) -> events.ModelAnswered:
    """Return the end of a model call as an event."""
    message, asked = reply.message, reply.asked
    return events.ModelAnswered(
        asked.purpose if asked is not None else count.purpose,
        reply.usage,
        count.usage,
        call=asked.id if asked is not None else "",
        response_id=message.id or "",
        response_model=str(message.response_metadata.get("model_name") or ""),
        finish_reason=reply.finish_reason,
        first_seconds=reply.first,
        tools=tuple(call["name"] for call in message.tool_calls),
    )


# --- the modes of a session -----------------------------------------------------------------------


class PlanSettings:
    """The treatment of plans in a session.

    With `only` a turn ends with its plan, `given` is the plan for the next turn, and `approval`
    says which of the model's plans the user reviews.
    """

    def __init__(
        self, only: bool = False, given: Plan | None = None, approval: PlanApproval = "auto"
    ) -> None:
        self.only = only
        self.given = given
        self.approval = approval

    def take(self) -> Plan | None:
        """Return the plan given for the next turn, once."""
        given, self.given = self.given, None
        return given

    def need_review(self, mode: ApprovalMode) -> bool:
        """Return whether the model's plans wait for the user in this approval mode."""
        wanted = self.approval == "always" or (self.approval == "auto" and mode != "auto")
        return (wanted or mode == "plan") and not self.only

    def only_planning(self, state: SessionState) -> bool:
        """Return whether only a plan is wanted, by this process or since the open turn began."""
        return self.only or state.plan_only


@dataclass(slots=True)
class SessionModes:
    """The modes, which may change at any time; `window` is what the model was seen to take.

    `checks` are commands that the user let run in the sandbox as checks of the plan in force.
    """

    model: Model
    approval: ApprovalMode = "manual"
    planning: PlanMode = "auto"
    plans: PlanSettings = field(default_factory=PlanSettings)
    window: Window = field(default_factory=Window)
    checks: frozenset[str] = frozenset()

    @property
    def in_plan_mode(self) -> bool:
        """Return whether the turn may read and plan, and change nothing until the plan starts."""
        return self.approval == "plan"

    @property
    def plan_mode(self) -> PlanMode:
        """Return when a plan is made; in plan mode the model can always make one."""
        return "auto" if self.in_plan_mode and self.planning == "never" else self.planning

    def use_approval(self, mode: ApprovalMode, note: Callable[[Noted], object]) -> None:
        """Change the approval mode, from the next action on, and journal it."""
        self.approval = mode
        note(Note.MODE.record(mode))

    def use_model(self, model: Model) -> None:
        """Ask `model` from the next call on."""
        self.model, self.window = model, Window()


# --- the search of the web by the model's provider ------------------------------------------------

SEARCH_SECONDS = 90.0
"""A provider reads several pages before it answers."""


class ModelSearch:
    """Searches the web for a tool: the model in use is asked, with nothing but the query."""

    def __init__(self, modes: SessionModes, seconds: float = SEARCH_SECONDS) -> None:
        self.modes = modes
        self.seconds = seconds

    @property
    def host(self) -> str:
        return self.modes.model.info.search_host

    async def search(self, query: str) -> WebAnswer:
        """Return the model's report and the pages behind it. Raises `ToolError`."""
        name = self.modes.model.info.name
        try:
            async with asyncio.timeout(self.seconds):
                reply = await self._ask(query)
        except TimeoutError as error:
            raise ToolError(
                "{model} did not finish the web search within {seconds:.0f} s.",
                model=name,
                seconds=self.seconds,
            ) from error
        except ModelError as error:
            raise ToolError(
                "The web search by {model} failed: {why}", model=name, why=error.text
            ) from error
        if reply is None or not (reply.message.text.strip() or reply.sources):
            raise ToolError("{model} found nothing on the web; try other words.", model=name)
        return WebAnswer(reply.message.text, reply.sources, reply.usage)

    async def _ask(self, query: str) -> Reply | None:
        from langchain_core.messages import HumanMessage

        text = prompts.text("web_search", query=query)
        request = ModelRequest((HumanMessage(text),), purpose="web_search")
        async for event in self.modes.model.stream(request):
            if isinstance(event, Reply):
                return event
        return None


# --- services that a replay replaces --------------------------------------------------------------


class SandboxFindings(NamedTuple):
    """The report after a command: `note` to the model, `notices` to the user."""

    note: str = ""
    notices: tuple[Phrase, ...] = ()
    changed: tuple[str, ...] = ()
    """Files that the command left and other tools read or run, for the journal."""
    refused: Phrase | None = None
    """The reason why the sandbox stopped the command, for the user to let it run outside."""


class ToolEnd(NamedTuple):
    """The end of a tool; `changed` says that it would now do something else than was approved.

    Of a call that is `lost`, the outcome is unknown. `masked` is why its end is no evidence. The
    turn was stopped while a call ran that is `cancelled`.
    """

    text: str
    images: Sequence[ImageBlock] = ()
    usage: Usage = Usage()
    failed: bool = False
    changed: Phrase | None = None
    lost: bool = False
    masked: str = ""
    cancelled: bool = False


class PolicyPort(Protocol):
    """Judges requests, and prepares and checks the commands that were approved."""

    def assess(self, request: ActionRequest, cwd: str) -> RiskReport:
        """Return the facts about a request."""

    def judge(
        self,
        request: ActionRequest,
        report: RiskReport,
        modes: SessionModes,
        cwd: str,
        *,
        unknown_outcome: bool = False,
        at_prompt: bool = False,
        allowing: RuleTrace | None = None,
    ) -> Verdict:
        """Return policy's verdict on a request.

        With `unknown_outcome` an earlier run of the same has no known end; `at_prompt` is whether a
        user sits at the prompt. `allowing` counts like an allow rule of the user about it.
        """

    def may_follow(
        self, request: ActionRequest, failed: Sequence[Mapping[str, Any]], cwd: str
    ) -> bool:
        """Return whether a request may run behind calls of its reply that `failed`.

        It may if it has no effect, or edits a file that none of them names.
        """

    def runs_inside(self, request: ActionRequest) -> bool:
        """Return whether only a rule or a hook took this call out of the graph."""

    def file_states(self, request: ActionRequest, report: RiskReport) -> Mapping[str, str]:
        """Return the state of every file that decides what the request runs, by name."""

    def changed_file(self, states: Mapping[str, str]) -> str | None:
        """Return the first of these files that changed since it was judged, or None."""

    def confine(
        self, decision: Decision, report: RiskReport, *, ahead: bool = False
    ) -> Sandbox | None:
        """Set the executor's sandbox for the next command, as its decision requires.

        With `ahead` it is not decided yet: that sandbox is built, and nothing else is done.
        """

    def after_run(
        self,
        command: str,
        result: CommandResult,
        box: Sandbox | None,
        *,
        can_ask: bool,
        answers: UserAnswers,
    ) -> SandboxFindings:
        """Return what to report about a command that ran in `box`.

        With `can_ask` the user is asked at once to let it run again outside. `answers` is when a
        user approves what is proposed again.
        """


class ToolRules(Protocol):
    """Decides which tools a session offers, and which calls a rule decides on."""

    @property
    def offered(self) -> Mapping[str, Tool]:
        """Return the tools that the model gets, besides those of the graph."""

    @property
    def off(self) -> Mapping[str, Phrase]:
        """Return why tools are not offered, by name; fixed while the session is open."""

    def refusal(self, name: str) -> Phrase | None:
        """Return why a tool is switched off now, by a rule that came later too."""

    def redirect(
        self, name: str, arguments: Mapping[str, Any]
    ) -> tuple[Tool, Mapping[str, Any]] | None:
        """Return the tool that a call stands for, with its arguments. Raises `ToolError`."""

    def holds_back(self, name: str, arguments: Mapping[str, object]) -> bool:
        """Return whether a rule or a hook decides on this call of a tool without an effect."""


class Attached(NamedTuple):
    """Text and images that go to the model beside an input; warnings and news for the user."""

    text: str = ""
    images: tuple[ImageBlock, ...] = ()
    notices: tuple[Phrase, ...] = ()
    news: tuple[Phrase, ...] = ()
