"""The services of a replayed turn: each answers from the record of the session."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from langchain_core.messages import AIMessage, SystemMessage

from kogniterm import prompts
from kogniterm.agent.graph_state import NamedAgent, ThinkContext
from kogniterm.agent.messages import (
    AGAIN,
    PLAN_FIRST,
    PLAN_MODE,
    PLAN_ONLY,
    human_message,
    image_in,
    images_of,
    words_and_images,
)
from kogniterm.agent.plan.judge import JUDGED
from kogniterm.agent.plan.plan_tools import COMPLETE_STEP
from kogniterm.approval import classify
from kogniterm.approval.analysis.exit_status import check_problem
from kogniterm.errors import (
    ExecutionError,
    KognitermError,
    ModelError,
    ToolError,
    TurnInterruptedError,
)
from kogniterm.execution.sandbox.confinement import Sandbox
from kogniterm.execution.scripted_executor import ScriptedExecutor, no_result
from kogniterm.models.replay_model import recorded_model
from kogniterm.protocols import EventSink, Executor, Tool
from kogniterm.runtime.budgets import TurnCount
from kogniterm.runtime.context import compacted
from kogniterm.runtime.crash_recovery import RUN_AGAIN
from kogniterm.runtime.extensions.hooks.hook_files import HookEvent
from kogniterm.runtime.extensions.hooks.hook_points import AGENT, Hooks, without_hooks
from kogniterm.runtime.extensions.hooks.hook_service import HookFindings, Occasion
from kogniterm.runtime.plan_edits import plan_context, plan_from_text
from kogniterm.runtime.services.sandbox_service import SandboxFindings
from kogniterm.runtime.turn_journal import TurnJournal
from kogniterm.runtime.turn_ports import (
    Attached,
    RecoveryChoice,
    SessionModes,
    TurnIO,
)
from kogniterm.sessions.fold import SessionState
from kogniterm.sessions.journal import codec
from kogniterm.sessions.journal.journal import SessionJournal
from kogniterm.sessions.recording import (
    STOPPED,
    Answered,
    TurnRecording,
)
from kogniterm.sessions.records import (
    Compacted,
    Intent,
    NodeRan,
    Noted,
    Outcome,
    Record,
    RecordBody,
)
from kogniterm.text.redact import first_mark
from kogniterm.tools.mcp.server_tools import target_of
from kogniterm.types import (
    CALL_TOOL,
    ActionRequest,
    Answer,
    CommandResult,
    Decision,
    EffectClass,
    Job,
    ModelEvent,
    ModelRequest,
    Observation,
    Phrase,
    Plan,
    PlanReview,
    Reply,
    RiskReport,
    ToolSpec,
    Usage,
    UserAnswers,
    UserInput,
    Verdict,
)
from kogniterm.types.hosts import Inventory

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage

PATIENCE = 200
"""Polls (10 ms apart) without progress after which other sub-agents are no longer waited for."""


class KilledError(KognitermError):
    """The recorded process was killed here; the record has nothing after this."""


class Player:
    """The position in the recording: the turn that is played, and how it ends.

    `crashed` is set where the recorded process was killed: nothing is written from then on, until
    the turn is resumed.
    """

    def __init__(self) -> None:
        self.turn: TurnRecording
        self.crashed = False
        self.judged_id = ""
        self.settled: Outcome | None = None
        self.task: asyncio.Future[Answer] | None = None
        self._replies = self._outcomes = self._agent_nodes = 0

    def begin(self, turn: TurnRecording) -> None:
        """Play `turn` from its start."""
        self.turn, self.crashed, self.judged_id, self.settled = turn, False, "", None
        self._replies = self._outcomes = self._agent_nodes = 0

    def journaled(self, body: RecordBody) -> None:
        """Advance by `body`, which the replay has written."""
        self._outcomes += isinstance(body, Outcome)
        if isinstance(body, NodeRan) and body.update.agent:
            self._agent_nodes += body.update.node != STOPPED

    @property
    def last_observation(self) -> str:
        """Return the observation of the action that ended last."""
        return self.settled.message.text if self.settled is not None else ""

    @property
    def goes_on(self) -> bool:
        """Return whether the recorded turn was resumed after the crash."""
        turn = self.turn
        return turn.ended is not None or bool(turn.outcomes) or not turn.speechless

    async def recover(self, intent: Intent, output: str) -> RecoveryChoice:
        """Return the user's recorded choice about a command of unknown outcome."""
        del intent, output
        return "again" if prompts.occurs(RUN_AGAIN, self.last_observation) else "skip"

    async def reply(self, agent: str) -> tuple[AIMessage | None, Usage]:
        """Return the next recorded reply to an agent, None for an empty one."""
        voice = self.turn.voices[agent]
        if voice.replies:
            self._replies += not agent
            return voice.replies.popleft()
        if voice.error is not None:
            raise ModelError(voice.error.template, **dict(voice.error.values))
        if agent:
            await self._wait_for_others()
        raise await self.exhausted(
            ModelError("The recording has no further model response in this turn.")
        )

    def judgement(self) -> tuple[str, Usage]:
        """Return the reply that judged the next step. Raises `ModelError` when there is none."""
        waiting = self.turn.inside[COMPLETE_STEP.name]
        while waiting:
            artifact = waiting.pop(0).message.artifact
            kept = artifact.get(JUDGED) if isinstance(artifact, Mapping) else None
            if isinstance(kept, Mapping):
                return str(kept["reply"]), Usage(calls=1)
        raise ModelError("The recording has no assessment of this step.")

    async def _wait_for_others(self) -> None:
        """Let the other sub-agents get as far as they did before the recorded end."""
        idle, seen = 0, -1
        while self._agent_nodes < self.turn.agent_nodes and idle < PATIENCE:
            idle, seen = (idle + 1 if seen == self._agent_nodes else 0), self._agent_nodes
            await asyncio.sleep(0.01)

    @property
    def compaction(self) -> Compacted | None:
        """Return the compaction recorded at this very place, if there was one."""
        waiting = self.turn.compactions
        here = (self._replies, self._outcomes)
        if waiting and (waiting[0].replies, waiting[0].outcomes) == here:
            return waiting[0].body
        return None

    async def exhausted(self, otherwise: KognitermError) -> KognitermError:
        """Return the error that ends the turn where its recording ends.

        An interrupted turn is cancelled here instead.
        """
        ended = self.turn.ended
        if ended is None:
            self.crashed = True
        elif ended.stop == "interrupted" and self.task is not None:
            self.task.cancel()
            await asyncio.get_running_loop().create_future()
        return otherwise

    def next_outcome(self) -> Outcome | None:
        """Return the recorded end of the action that runs now."""
        outcomes = self.turn.outcomes
        self.settled = outcomes.popleft() if outcomes else None
        if self.settled is None or self.settled.status == "unknown":
            self.crashed = self.crashed or self.settled is not None or self.turn.ended is None
        return self.settled

    async def stop_reason(self, agent: str) -> Phrase | None:
        """Return why the recorded agent was stopped before its next model call, if it was."""
        voice = self.turn.voices[agent]
        return None if voice.replies else voice.stop

    def said(self, agent: str) -> Sequence[str]:
        """Return the steering that the agent heard before its next recorded model call."""
        waiting = self.turn.voices[agent].said
        return waiting.popleft() if waiting else ()

    def instructions(self, agent: str, messages: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
        """Return the instructions of folders that the agent got before its next model call."""
        del messages
        waiting = self.turn.voices[agent].instructions
        return waiting.popleft() if waiting else ()

    @property
    def was_last(self) -> bool:
        """Return whether the recorded turn was interrupted during its last action."""
        turn = self.turn
        interrupted = turn.ended is not None and turn.ended.stop == "interrupted"
        return interrupted and not turn.outcomes and turn.speechless


class RecordedExecutor(ScriptedExecutor):
    """Answers from the record; with `live`, runs the command and uses the record for crashes."""

    def __init__(
        self, player: Player, live: Executor | None, recorded_cwd: Callable[[], str]
    ) -> None:
        super().__init__(live=live)
        self._player = player
        self._recorded_cwd = recorded_cwd

    @property
    def cwd(self) -> str:
        return self._recorded_cwd()

    def result_of(self, command: str) -> CommandResult:
        """Return the recorded result of the action that runs now, whatever its command."""
        outcome = self._player.next_outcome()
        if self._player.crashed:
            raise ExecutionError("The recorded process was killed here.")
        if outcome is None or outcome.result is None:
            raise no_result(command)
        return outcome.result

    def run(self, command: str, **how: Any) -> CommandResult:
        result = super().run(command, **how)
        outcome, task = self._player.settled, self._player.task
        cancelled = outcome is not None and outcome.status == "cancelled"
        if cancelled and self._player.was_last and task is not None:
            task.get_loop().call_soon_threadsafe(task.cancel)
        return result


class PastTool:
    """A tool of another package that the recorded session had; its code is not loaded again."""

    def __init__(self, name: str, player: Player) -> None:
        self.spec = ToolSpec(name, name, {"type": "object"}, "external")
        self._player = player

    def check(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the recorded arguments that these were completed to."""
        recorded = (dict(one.arguments) for one in self._player.turn.proposed[self.spec.name])
        return next((one for one in recorded if arguments.items() <= one.items()), arguments)

    def effect_of(self, arguments: Mapping[str, Any]) -> EffectClass:
        return "external"

    def describe(self, arguments: Mapping[str, Any]) -> tuple[str, str]:
        return self.spec.name, ""

    def detail(self, arguments: Mapping[str, Any]) -> str:
        return ""

    def hosts(self, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        return ()

    async def run(self, arguments: Mapping[str, Any]) -> Observation:
        """Never return: a replay gives the recorded result."""
        raise ToolError("The recording has no result for {name}.", name=self.spec.name)


_OF_MACHINE = ("hosts", "inventory")


class RecordedHosts:
    """The inventory of a replay: every name is as good as a host, until the recorded ones."""

    inventory = Inventory(("recorded",), "/")

    def select(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names."""
        return names


class RecordedTool:
    """A tool that checks and describes as usual, and whose observation is the recorded one."""

    def __init__(self, tool: Tool, player: Player) -> None:
        self._tool = tool
        self._player = player
        self._hosts: tuple[str, ...] | None = None
        self._held: list[Mapping[str, Any]] = []

    @property
    def spec(self) -> ToolSpec:
        return self._tool.spec

    def check(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments as the real tool checks them.

        What depends on the machine is as recorded: the resolved path, the hosts, the inventory.
        """
        checked = self._tool.check(arguments)
        if "hosts" in checked:
            return next(self._with_recorded_hosts(checked), checked)
        if "path" not in checked:
            return checked
        name = Path(checked["path"]).name
        for request in self._player.turn.proposed[self.spec.name]:
            recorded = dict(request.arguments)
            if Path(str(recorded.get("path"))).name == name and checked == {
                **recorded,
                "path": checked["path"],
            }:
                return recorded
        return checked

    def _with_recorded_hosts(self, checked: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        for request in self._player.turn.proposed[self.spec.name]:
            here = {name: checked[name] for name in _OF_MACHINE if name in checked}
            if {**request.arguments, **here} == checked:
                yield dict(request.arguments)

    def effect_of(self, arguments: Mapping[str, Any]) -> EffectClass:
        """Return the effect of a call, or the recorded one where that depends on the machine."""
        effect = self._tool.effect_of(arguments)
        proposed = self._player.turn.proposed[self.spec.name]
        if effect == "none":
            return next((one.effect for one in proposed if one.arguments == arguments), effect)
        if self.spec.effect == "none" and arguments not in self._held:
            # Read unasked then, as an output of a command: here there may be no such file.
            inside = self._player.turn.inside[self.spec.name]
            ran = any(self._checked(one) == arguments for one in inside)
            return "none" if ran else effect
        return effect

    def describe(self, arguments: Mapping[str, Any]) -> tuple[str, str]:
        """Return the recorded description: the files it is made from may not be here."""
        proposed = self._player.turn.proposed[self.spec.name]
        if not proposed:
            return self._tool.describe(arguments)
        same = [at for at, one in enumerate(proposed) if one.arguments == arguments]
        request = proposed.pop(same[0] if same else 0)
        self._hosts = request.hosts
        self._held.append(request.arguments)
        # A command must be compared as the model gave it now.
        if request.effect == "command":
            return self._tool.describe(arguments)
        return request.command, request.purpose

    def detail(self, arguments: Mapping[str, Any]) -> str:
        """Return nothing: details depend on files that may not be here."""
        del arguments
        return ""

    def hosts(self, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the hosts of the request that was described last."""
        return self._tool.hosts(arguments) if self._hosts is None else self._hosts

    async def run(self, arguments: Mapping[str, Any]) -> Observation:
        """Return the recorded observation. Raises `ToolError` where the tool failed."""
        usage = Usage()
        if self.effect_of(arguments) == "none" and arguments not in self._held:
            message = self._recorded(arguments)
        else:
            if arguments in self._held:
                self._held.remove(arguments)  # the same call may be no request in a later turn
            outcome = self._player.next_outcome()
            if outcome is None or self._player.crashed:
                raise ToolError("The recording has no result for {name}.", name=self.spec.name)
            message, usage = outcome.message, outcome.usage
        if getattr(message, "status", "success") == "error":
            raise ToolError("{text}", text=message.text)
        text = without_hooks(str(message.text))
        return Observation(text, tuple(map(image_in, images_of(message))), usage)

    def _recorded(self, arguments: Mapping[str, Any]) -> BaseMessage:
        """Return the recorded result of this call, else of the tool's next one."""
        waiting = self._player.turn.inside[self.spec.name]
        same = [at for at, one in enumerate(waiting) if self._checked(one) == arguments]
        others = [at for at, one in enumerate(waiting) if self._checked(one) is not None]
        if not others:
            raise ToolError("The recording has no result for {name}.", name=self.spec.name)
        return waiting.pop((same or others)[0]).message

    def _checked(self, answered: Answered) -> Mapping[str, Any] | None:
        """Return the recorded arguments as the tool checks them; None for an invalid call."""
        try:
            return self._tool.check(answered.arguments)
        except ToolError:
            return None


class Absent:
    """The memory, history and forgetting of a replay; their tools answer from the record."""

    def __getattr__(self, name: str) -> Any:
        raise ToolError("{name} is not available in a replay.", name=name)


@dataclass(slots=True)
class RelocatedExecutor:
    """A real executor in `scratch`, a copy of the recorded folder `home`.

    `home` stands for `scratch` in commands, folders and output.
    """

    executor: Executor
    home: str
    scratch: Path

    @property
    def cwd(self) -> str:
        return self._back(self.executor.cwd)

    @property
    def next_output(self) -> str | None:
        return self.executor.next_output

    def run(self, command: str, **how: Any) -> CommandResult:
        result = self.executor.run(command.replace(self.home, str(self.scratch)), **how)
        text, cwd = self._back(result.text), self._back(result.cwd)
        return replace(result, command=command, text=text, cwd=cwd)

    def _back(self, text: str) -> str:
        return text.replace(str(self.scratch), self.home)

    def stop(self) -> None:
        self.executor.stop()

    def detach(self) -> bool:
        return self.executor.detach()

    def jobs(self) -> tuple[Job, ...]:
        return self.executor.jobs()

    def close(self) -> None:
        self.executor.close()


NO_VERDICT = Verdict("deny", (Phrase("The recording has no policy decision for this action."),))


class NoTime:
    """A clock that stands still: a replay uses up no budget of time."""

    def now(self) -> float:
        return 0.0

    def monotonic(self) -> float:
        return 0.0


class RecordedModel:
    """Gives the replies of the turn that is played."""

    def __init__(self, name: str, player: Player) -> None:
        self.info = recorded_model(name)
        self._player = player

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        if request.purpose == "judge":
            said, cost = self._player.judgement()
            yield Reply(AIMessage(said), cost)
            return
        if request.purpose not in ("create_plan", "decide_action"):
            raise ModelError("The recording has no response to this model request ({purpose}).",
                             purpose=request.purpose)  # fmt: skip
        message, usage = await self._player.reply(request.agent)
        yield Reply(message or AIMessage(""), usage)


class RecordedPolicy:
    """Gives the recorded verdicts, and the recorded notes about the sandbox."""

    def __init__(self, player: Player) -> None:
        self._player = player
        self._verdict = NO_VERDICT
        self._last: tuple[str, str] | None = None
        self._report: RiskReport

    def assess(self, request: ActionRequest, cwd: str) -> RiskReport:
        """Return the recorded facts, as long as the request is the recorded one."""
        judged, last = self._player.turn.judged, self._last
        if not judged or judged[0].report.command not in (request.command, ""):
            if last is not None and (request.id, request.command) == last:
                return self._report  # as a hook changed it
            self._verdict = NO_VERDICT
            return classify(request.command, cwd=cwd)
        first = judged.popleft()
        self._last, self._report = (request.id, request.command), first.report
        self._player.judged_id = first.request_id
        self._verdict = first.verdict
        return first.report

    def judge(self, request: ActionRequest, *given: object, **how: object) -> Verdict:
        """Return the verdict that belongs to the last assessment."""
        del request, given, how
        return self._verdict

    def may_follow(self, request: ActionRequest, *given: object) -> bool:
        """Return whether the recorded request was judged behind calls that had failed."""
        del given
        judged = self._player.turn.judged
        return request.effect == "person" or bool(
            judged and judged[0].report.command == request.command
        )

    def runs_inside(self, request: ActionRequest) -> bool:
        """Return whether the recorded request was judged although only a plan was wanted."""
        judged = self._player.turn.judged
        return request.effect == "read" and any(
            one.report.command == request.command for one in judged
        )

    def file_states(self, request: ActionRequest, report: RiskReport) -> Mapping[str, str]:
        """Return nothing: the files of the recorded run are not here."""
        del request, report
        return {}

    def changed_file(self, states: Mapping[str, str]) -> str | None:
        """Return the file for which the recorded run was withheld after its approval, or None."""
        del states
        return self._player.turn.withheld.get(self._player.judged_id)

    def confine(self, decision: Decision, report: RiskReport, *, ahead: bool = False) -> None:
        """Do nothing: recorded commands are answered, live ones run in the scratch copy."""

    def after_run(
        self, command: str, result: CommandResult, box: Sandbox | None, **how: object
    ) -> SandboxFindings:
        """Return what stands about the sandbox in the recorded observation."""
        del command, result, box, how
        settled = self._player.settled
        again = settled.again if settled is not None else None
        text = without_hooks(self._player.last_observation.rpartition(AGAIN)[2])
        place = text.find("[sandbox:")
        refused = again.refusal.reason if again is not None and again.refusal else None
        return SandboxFindings(text[place:] if place >= 0 else "", refused=refused)


class RecordedHooks:
    """Answers for hooks as recorded; none runs. Verdicts are recorded as hooks left them."""

    replays = True

    def __init__(self, player: Player) -> None:
        self._player = player

    def concerns(self, event: HookEvent, subject: str = "") -> bool:
        return any(_is_at(note, event, subject) for note in self._player.turn.hooks)

    async def run(self, occasion: Occasion, sink: EventSink) -> HookFindings:
        """Return what the recorded hooks said."""
        del sink
        event, subject, notes = occasion.event, occasion.subject, self._player.turn.hooks
        for number, note in enumerate(notes):
            if _is_at(note, event, subject) and note.data["line"] == occasion.line:
                said = codec.from_fields(HookFindings, cast(Any, notes.pop(number).data["said"]))
                judged = event == "PreToolUse" and subject != AGENT
                return replace(said, choice="", reasons=()) if judged else said
        return HookFindings()


def _is_at(note: Noted, event: HookEvent, subject: str) -> bool:
    return (note.data["event"], note.data["subject"]) == (event, subject)


class RecordedApprover:
    """Decides as recorded; an edit is recognised by the verdict that followed it."""

    def __init__(self, player: Player) -> None:
        self._player = player

    async def decide(
        self, request: ActionRequest, report: RiskReport, verdict: Verdict
    ) -> Decision:
        del report, verdict
        turn = self._player.turn
        if turn.judged and turn.judged[0].request_id == self._player.judged_id:
            return Decision("edit", turn.judged[0].report.command, "person")
        if not turn.decided:
            raise await self._player.exhausted(
                TurnInterruptedError("The recording has no answer to this question.")
            )
        return turn.decided.popleft().decision

    async def review_plan(self, plan: Plan, previous: Plan | None) -> PlanReview:
        """Return the recorded review; its decision holds the plan as the user edited it."""
        del previous
        turn = self._player.turn
        if not turn.decided:
            raise await self._player.exhausted(
                TurnInterruptedError("The recording has no answer to this question.")
            )
        decision = turn.decided.popleft().decision
        if decision.kind == "edit":
            plan = plan_from_text(decision.command, plan)
        return PlanReview(decision.kind, plan, decision.by, decision.reason)


class RecordedText:
    """Keeps text as it is: recorded text is redacted already."""

    def __init__(self, player: Player) -> None:
        self._player = player

    highest = 0
    known = 0

    def redact(self, text: str) -> str:
        return text

    redact_runs = redact

    def values_in(self, text: str) -> Sequence[str]:
        del text
        return ()

    def mark(self, text: str, values: Sequence[str]) -> str:
        del values
        return text

    def placeholder(self, text: str) -> str:
        """Return the placeholder for which the recorded call with these arguments was refused."""
        if not text.startswith('{"') or not (mark := first_mark(text)):
            return ""
        known = (one for of_tool in self._player.turn.proposed.values() for one in of_tool)
        asked = (json.dumps(dict(one.arguments), ensure_ascii=False) for one in known)
        return "" if text in asked else mark

    def carry(self, old: str, new: str) -> tuple[str, str] | None:
        return old, new

    def know(self, values: Iterable[str]) -> None:
        del values


@dataclass(slots=True)
class PlayedJournal:
    """The replay's own journal, which ends where the recorded process was killed."""

    journal: SessionJournal
    player: Player

    @property
    def state(self) -> SessionState:
        return self.journal.state

    def append(self, body: RecordBody, *, durable: bool = False) -> Record:
        """Append. Raises `KilledError` once the recorded process was killed."""
        del durable
        if isinstance(body, Outcome) and body.status == "unknown" and self.player.settled:
            # Its partial output and the user's choice are recorded.
            body = replace(body, message=self.player.settled.message)
        if self.player.crashed:
            raise KilledError("The recorded process was killed here.")
        record = self.journal.append(body)
        self.player.journaled(body)
        return record

    def settle_kept(self) -> None:
        """Do nothing: no outcome of a replay is kept aside."""

    def records(self, from_seq: int = 1) -> Iterator[Record]:
        return self.journal.records(from_seq)

    def close(self) -> None:
        self.journal.close()


@dataclass(slots=True)
class RecordedContext:
    """Builds the recorded context of the model's calls."""

    journal: TurnJournal
    player: Player
    modes: SessionModes
    tools: Mapping[str, Tool]
    hooks: Hooks
    named: Mapping[str, NamedAgent] = field(default_factory=dict)

    def recall(self, user_input: UserInput, answers: UserAnswers = "now") -> Attached:
        """Return what files and memory added to the recorded input."""
        del answers
        words, images = words_and_images(self.player.turn.given.message)
        for told in (PLAN_FIRST, PLAN_ONLY, PLAN_MODE):
            words = words.removesuffix(prompts.text(told))
        whole = words.rstrip("\n")
        rest = whole.removeprefix(human_message(user_input, "never").text)
        lookup = partial(self.journal.value_of, given=user_input)
        planned = plan_context(self.player.turn.plan, self.journal.state.plan, lookup)
        return Attached(rest.removesuffix(planned or "").strip("\n"), images)

    async def make_room(self, io: TurnIO, count: TurnCount) -> None:
        """Compact the history where the recorded one was, with the recorded summary."""
        del io, count
        body = self.player.compaction
        if body is None:
            return
        self.player.turn.compactions.popleft()
        if body.window:
            body = compacted(self.journal.state, body.window, body.summary, body.usage)
        self.journal.record(body)

    def _redirect(
        self, name: str, arguments: Mapping[str, Any]
    ) -> tuple[Tool, Mapping[str, Any]] | None:
        return (
            target_of(arguments, self.tools[CALL_TOOL], self.tools) if name == CALL_TOOL else None
        )

    def think_context(self, io: TurnIO, count: TurnCount) -> ThinkContext:
        del count
        plans, state = self.modes.plans, self.journal.state
        only = plans.only_planning(state)
        return ThinkContext(
            model=self.modes.model,
            tools=self.tools,
            system=SystemMessage("replay"),
            plan_mode="always" if only else self.modes.plan_mode,
            may_continue=self.player.stop_reason,
            new_id=self.journal.new_id,
            plan_only=only,
            review_plans=lambda: plans.approval == "always" and not only,
            redirect=self._redirect,
            said_meanwhile=self.player.said,
            instructions_due=self.player.instructions,
            may_begin=partial(self.hooks.agent_begins, sink=io.sink),
            goes_on=partial(self.hooks.goes_on, sink=io.sink),
            has_room=lambda _: self.player.compaction is None,
            delegates=True,
            agents=state.agents,
            named=self.named,
            lookup=self.journal.value_of,
            check_problem=check_problem,
            placeholder=self.journal.secrets.placeholder,
        )
