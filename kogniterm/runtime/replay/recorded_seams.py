"""Parts of a replay that answer from the record, in place of the outside world.

These are the model, the tools and the commands, the user, and policy, which judged files and rules
that may not be here. All else in a replayed turn is as in a live one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kogniterm.agent.graph_state import ThinkContext
from kogniterm.agent.messages import AGAIN, artifact_of, image_in, images_of
from kogniterm.agent.plan.judge import JUDGED
from kogniterm.agent.plan.plan_tools import MAKE_PLAN
from kogniterm.approval import classify
from kogniterm.approval.analysis.exit_status import with_exit_facts
from kogniterm.errors import ExecutionError, ToolError, TurnInterruptedError
from kogniterm.execution.sandbox.confinement import Sandbox
from kogniterm.models.replay_model import ReplayModel
from kogniterm.protocols import Tool
from kogniterm.runtime.budgets import TurnCount
from kogniterm.runtime.context import ContextService, compaction_record
from kogniterm.runtime.plan_edits import plan_from_text
from kogniterm.runtime.replay.live_copy import LiveCopy
from kogniterm.runtime.runner import Approved, Runner
from kogniterm.runtime.turn_ports import SandboxFindings, ToolEnd, TurnIO
from kogniterm.sessions.fold import SessionState
from kogniterm.sessions.history import SessionHistory
from kogniterm.sessions.recording import (
    PastCall,
    TurnRecording,
    compactions,
    recorded_calls,
)
from kogniterm.sessions.records import NESTED, Compacted, Outcome, Record
from kogniterm.text.redact import Redactor
from kogniterm.types import (
    CALL_TOOL,
    ActionRequest,
    CommandResult,
    Decision,
    EffectClass,
    Job,
    Observation,
    Phrase,
    Plan,
    PlanReview,
    RiskReport,
    ToolSpec,
    Verdict,
)
from kogniterm.types.model_calls import RecordedCall, Recording

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

NO_RESULT = Phrase("The recording has no result for {name}.")
NO_VERDICT = Verdict("deny", (Phrase("The recording has no policy decision for this action."),))
_SAID = "(Meanwhile"
"""The beginning of a note with what the user said while the turn ran."""


class Player:
    """The position in the recording: the turn that is played, and what ran last in it."""

    def __init__(self, model: str) -> None:
        self._model = model
        self.turn: TurnRecording
        self.model = self._replaying(())
        self.compactions: deque[tuple[int, int, Compacted]] = deque()
        self.settled: Outcome | None = None
        self._calls = 0

    def begin(self, turn: TurnRecording) -> None:
        """Play `turn` from its start."""
        self.turn, self.settled = turn, None
        calls = tuple(recorded_calls(turn.records, judged=JUDGED))
        self.model = self._replaying(calls)
        self.compactions = deque(compactions(turn.records, judged=JUDGED))
        self._calls = sum(not one.asker for one in calls)

    def _replaying(self, calls: tuple[RecordedCall, ...]) -> ReplayModel:
        return ReplayModel(Recording(self._model, calls), Path(self._model), compare=False)

    def compaction(self, records: Iterable[Record]) -> Compacted | None:
        """Return the compaction recorded at this very place of the turn of `records`, if any."""
        if not self.compactions:
            return None
        replies, outcomes, body = self.compactions[0]
        ended = len(SessionHistory(records).open_turn.ended)
        here = (self._calls - len(list(self.model.waiting(""))), ended)
        return body if (replies, outcomes) == here else None

    def call(self, tool: str, arguments: Mapping[str, Any]) -> PastCall | None:
        """Return the recorded call of a tool, one that is not taken if there is any."""
        same = [
            one
            for one in self.turn.calls.values()
            if one.tool == tool and one.arguments == arguments
        ]
        return next((one for one in same if not one.taken), same[0] if same else None)

    def settle(self, request: ActionRequest) -> Outcome | None:
        """Return the recorded end of a request, by the ID of its call."""
        outcomes = self.turn.call(request.call_id).outcomes
        self.settled = outcomes.popleft() if outcomes else None
        return self.settled


# --- the model's conversation ---------------------------------------------------------------------


@dataclass(slots=True)
class RecordedContext(ContextService):
    """The context of a session whose turn was recorded with all that came into it meanwhile."""

    player: Player = field(kw_only=True)

    async def make_room(self, io: TurnIO, count: TurnCount) -> None:
        """Compact the history where the recorded one was, with the recorded summary."""
        body = self.player.compaction(self.journal.records())
        if body is None:
            return
        self.player.compactions.popleft()
        if body.window:
            body = compaction_record(self.journal.state, body.window, body.summary, body.usage)
        self.begin_anew(body)

    def think_context(self, io: TurnIO, count: TurnCount) -> ThinkContext:
        return replace(
            ContextService.think_context(self, io, count),
            may_continue=self._stop_reason,
            instructions_due=self._heard,
            said_meanwhile=lambda agent: (),
            has_room=lambda _: self.player.compaction(self.journal.records()) is None,
            delegates=True,
        )

    async def _stop_reason(self, agent: str) -> Phrase | None:
        """Return why an agent was stopped before its next model call, if it was."""
        return None if any(self.player.model.waiting(agent)) else self.player.turn.stops.get(agent)

    def _heard(self, agent: str, messages: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
        """Return what an agent heard of folders and of the user before its next model call."""
        del messages
        heard = next((one.heard for one in self.player.model.waiting(agent)), ())
        said = [one for one in heard if one.type == "human" and one.text.startswith(_SAID)]
        return [*(one for one in heard if NESTED in one.additional_kwargs), *said]


# --- tools and commands ---------------------------------------------------------------------------


class Checked(dict[str, Any]):
    """The recorded arguments of a call, as its tool checked them."""

    call: PastCall


class RecordedTool:
    """A tool whose calls end as recorded: it reads, sends and starts nothing.

    `called` is the tool that the model called in its place, if any.
    """

    def __init__(
        self, spec: ToolSpec, player: Player, tool: Tool | None = None, called: str = ""
    ) -> None:
        self.spec = spec
        self._tool = tool
        self._player = player
        self._called = called or spec.name

    def check(self, arguments: Mapping[str, Any]) -> Checked:
        """Return the recorded arguments of the call. Raises `ToolError` where it was refused."""
        call = self._player.call(self._called, arguments)
        if call is None:
            raise ToolError(NO_RESULT.template, name=self.spec.name)
        if call.answer is not None and artifact_of(call.answer).get("malformed"):
            raise ToolError("{text}", text=call.answer.text)
        request = call.request
        if request is not None and request.effect == "command" and self._tool is not None:
            arguments = self._tool.check(arguments)  # compared as the model gives it now
        elif request is not None:
            arguments = request.arguments
        checked = Checked(arguments)
        checked.call = call
        return checked

    def effect_of(self, arguments: Mapping[str, Any]) -> EffectClass:
        request = _call(arguments).request
        return request.effect if request is not None else "none"

    def describe(self, arguments: Mapping[str, Any]) -> tuple[str, str]:
        """Return the line and the purpose of a request."""
        call = _call(arguments)
        call.taken = True
        if call.request is None:
            return self.spec.name, ""
        if call.request.effect == "command" and self._tool is not None:
            return self._tool.describe(arguments)
        return call.request.command, call.request.purpose

    def detail(self, arguments: Mapping[str, Any]) -> str:
        """Return nothing: details depend on files that may not be here."""
        del arguments
        return ""

    def hosts(self, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        request = _call(arguments).request
        return request.hosts if request is not None else ()

    async def run(self, arguments: Mapping[str, Any]) -> Observation:
        """Return the recorded observation. Raises `ToolError` where the tool failed."""
        call = _call(arguments)
        call.taken = True
        if call.answer is None:
            raise ToolError(NO_RESULT.template, name=self.spec.name)
        if call.answer.status == "error":
            raise ToolError("{text}", text=call.answer.text)
        return Observation(call.answer.text, tuple(map(image_in, images_of(call.answer))))


def _call(arguments: Mapping[str, Any]) -> PastCall:
    assert isinstance(arguments, Checked)
    return arguments.call


@dataclass(frozen=True, slots=True)
class RecordedTools:
    """The tools of a recorded session; those switched off were refused by the record."""

    offered: Mapping[str, Tool]
    player: Player
    off: Mapping[str, Phrase] = field(default_factory=dict)

    def refusal(self, name: str) -> Phrase | None:
        del name
        return None

    def redirect(
        self, name: str, arguments: Mapping[str, Any]
    ) -> tuple[Tool, Mapping[str, Any]] | None:
        call = self.player.call(name, arguments) if name == CALL_TOOL else None
        if call is None or call.request is None or call.request.tool == name:
            return None
        spec = ToolSpec(call.request.tool, call.request.tool, {}, "external")
        return RecordedTool(spec, self.player, called=name), arguments

    def holds_back(self, name: str, arguments: Mapping[str, object]) -> bool:
        del name, arguments
        return False


class RecordedExecutor:
    """The executor of commands that the runner answers: it knows where they led, and runs none."""

    next_output = None

    def __init__(self, state: Callable[[], SessionState]) -> None:
        self._state = state

    @property
    def cwd(self) -> str:
        return self._state().cwd

    def run(self, command: str, **how: object) -> CommandResult:
        """Never run anything."""
        del how
        raise ExecutionError(NO_RESULT.template, name=command)

    def stop(self) -> None:
        """Do nothing."""

    def detach(self) -> bool:
        return False

    def jobs(self) -> tuple[Job, ...]:
        return ()

    def close(self) -> None:
        """Do nothing."""


@dataclass(slots=True)
class RecordedRunner(Runner):
    """Ends what was approved as recorded; in a live replay, commands and edits really run."""

    player: Player = field(kw_only=True)
    live: LiveCopy | None = field(kw_only=True)
    commands: int = 0

    async def in_thread(self, execute: Any, run: Approved, *given: Any) -> CommandResult:
        """Return the recorded result of a command, or that of its run in a live replay."""
        self.commands += 1
        outcome = self.player.settle(run.request)
        if self.live is not None or outcome is None or outcome.result is None:
            return await Runner.in_thread(self, execute, run, *given)
        return with_exit_facts(run.decision.command, outcome.result)

    async def run_tool(self, request: ActionRequest) -> ToolEnd:
        """Return the recorded end of a tool, or that of an edit in a live replay."""
        outcome = self.player.settle(request)
        if outcome is None:
            return ToolEnd(str(ToolError(NO_RESULT.template, name=request.tool)), failed=True)
        if self.live is not None and request.effect == "edit":
            try:
                arguments = self.live.arguments(request.tool, request.arguments)
            except ToolError as error:
                return ToolEnd(self.live.back(str(error)), failed=True)
            end = await Runner.run_tool(self, replace(request, arguments=arguments))
            return end._replace(text=self.live.back(end.text))
        message, images = outcome.message, tuple(images_of(outcome.message))
        failed = getattr(message, "status", "success") == "error"
        lost = outcome.status == "unknown"
        return ToolEnd(message.text, images, outcome.usage, failed=failed, lost=lost)


# --- policy and the user --------------------------------------------------------------------------


class RecordedPolicy:
    """Gives the recorded verdicts, and the recorded notes about the sandbox."""

    def __init__(self, player: Player) -> None:
        self._player = player
        self._verdict = NO_VERDICT
        self.judged_id = ""

    def assess(self, request: ActionRequest, cwd: str) -> RiskReport:
        """Return the recorded facts, as long as the request is the recorded one."""
        judged = self._player.turn.call(request.call_id).judged
        if not judged or judged[0].report.command not in (request.command, ""):
            self._verdict = NO_VERDICT
            return classify(request.command, cwd=cwd)
        first = judged.popleft()
        self.judged_id, self._verdict = first.request_id, first.verdict
        return first.report

    def judge(self, request: ActionRequest, *given: object, **how: object) -> Verdict:
        """Return the verdict that belongs to the last assessment."""
        del request, given, how
        return self._verdict

    def may_follow(self, request: ActionRequest, *given: object) -> bool:
        """Return whether the recorded request was judged behind calls that had failed."""
        del given
        return request.effect == "person" or bool(self._player.turn.call(request.call_id).judged)

    def runs_inside(self, request: ActionRequest) -> bool:
        """Return whether the recorded request was judged although only a plan was wanted."""
        return request.effect == "read" and bool(self._player.turn.call(request.call_id).judged)

    def file_states(self, request: ActionRequest, report: RiskReport) -> Mapping[str, str]:
        """Return nothing: the files of the recorded run are not here."""
        del request, report
        return {}

    def changed_file(self, states: Mapping[str, str]) -> str | None:
        """Return the file for which the recorded run was withheld after its approval, or None."""
        del states
        return self._player.turn.withheld.get(self.judged_id)

    def confine(self, decision: Decision, report: RiskReport, *, ahead: bool = False) -> None:
        """Do nothing: recorded commands are answered, live ones run in the scratch copy."""

    def after_run(
        self, command: str, result: CommandResult, box: Sandbox | None, **how: object
    ) -> SandboxFindings:
        """Return the sandbox note of the recorded observation."""
        del command, result, box, how
        settled = self._player.settled
        if settled is None:
            return SandboxFindings()
        text = settled.message.text.rpartition(AGAIN)[2]
        place = text.find("[sandbox:")
        again = settled.again
        refused = again.refusal.reason if again is not None and again.refusal else None
        return SandboxFindings(text[place:] if place >= 0 else "", refused=refused)


class RecordedApprover:
    """Decides as recorded; an edit is recognised by the verdict that followed it."""

    def __init__(self, player: Player, policy: RecordedPolicy) -> None:
        self._player = player
        self._policy = policy

    async def decide(
        self, request: ActionRequest, report: RiskReport, verdict: Verdict
    ) -> Decision:
        del report, verdict
        call = self._player.turn.call(request.call_id)
        if call.judged and call.judged[0].request_id == self._policy.judged_id:
            return Decision("edit", call.judged[0].report.command, "person")
        return _decision(call)

    async def review_plan(self, plan: Plan, previous: Plan | None) -> PlanReview:
        """Return the recorded review; its decision holds the plan as the user edited it."""
        del previous
        plans = (one for one in self._player.turn.calls.values() if one.tool == MAKE_PLAN.name)
        decision = _decision(next((one for one in plans if one.decided), PastCall("", {})))
        if decision.kind == "edit":
            plan = plan_from_text(decision.command, plan)
        return PlanReview(decision.kind, plan, decision.by, decision.reason)


def _decision(call: PastCall) -> Decision:
    if not call.decided:
        raise TurnInterruptedError("The recording has no answer to this question.")
    return call.decided.popleft()


class RecordedText(Redactor):
    """Redaction that finds no placeholder: the record says which calls were refused for one."""

    def placeholder(self, text: str) -> str:
        del text
        return ""
