"""The services of a replayed turn: each answers from the record of the session."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from kogniterm.agent.plan.plan_tools import COMPLETE_STEP, MAKE_PLAN
from kogniterm.approval import classify
from kogniterm.approval.analysis.exit_status import check_problem
from kogniterm.errors import (
    ModelError,
    ToolError,
    TurnInterruptedError,
)
from kogniterm.execution.sandbox.confinement import Sandbox
from kogniterm.execution.scripted_executor import ScriptedExecutor, no_result
from kogniterm.models.replay_model import recorded_model
from kogniterm.protocols import Executor, Tool
from kogniterm.runtime.budgets import TurnCount
from kogniterm.runtime.context import compacted
from kogniterm.runtime.plan_edits import plan_context, plan_from_text
from kogniterm.runtime.runner import Runner
from kogniterm.runtime.services.sandbox_service import SandboxFindings
from kogniterm.runtime.turn_journal import TurnJournal
from kogniterm.runtime.turn_ports import (
    Attached,
    SessionModes,
    TurnIO,
)
from kogniterm.sessions.recording import (
    Answered,
    TurnRecording,
)
from kogniterm.sessions.records import (
    Compacted,
    InputReceived,
    Outcome,
)
from kogniterm.text.redact import Redactor
from kogniterm.tools.mcp.server_tools import target_of
from kogniterm.types import (
    CALL_TOOL,
    ActionRequest,
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

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage


class Player:
    """The position in the recording: the turn that is played, and the request that runs."""

    def __init__(self) -> None:
        self.turn: TurnRecording
        self.judged_id = ""
        self.running: ActionRequest | None = None
        self.settled: Outcome | None = None
        self.replies = 0

    def begin(self, turn: TurnRecording) -> None:
        """Play `turn` from its start."""
        self.turn, self.judged_id, self.running, self.settled = turn, "", None, None
        self.replies = 0

    @property
    def last_observation(self) -> str:
        """Return the observation of the action that ended last."""
        return self.settled.message.text if self.settled is not None else ""

    async def reply(self, agent: str) -> tuple[AIMessage | None, Usage]:
        """Return the next recorded reply to an agent, None for an empty one."""
        voice = self.turn.voices[agent]
        if voice.replies:
            self.replies += not agent
            return voice.replies.popleft()
        if voice.error is not None:
            raise ModelError(voice.error.template, **dict(voice.error.values))
        raise ModelError("The recording has no further model response in this turn.")

    def judgement(self) -> tuple[str, Usage]:
        """Return the reply that judged the next step. Raises `ModelError` when there is none."""
        waiting = self.turn.inside[COMPLETE_STEP.name]
        while waiting:
            artifact = waiting.pop(0).message.artifact
            kept = artifact.get(JUDGED) if isinstance(artifact, Mapping) else None
            if isinstance(kept, Mapping):
                return str(kept["reply"]), Usage(calls=1)
        raise ModelError("The recording has no assessment of this step.")

    def next_outcome(self) -> Outcome | None:
        """Return the recorded end of the request that runs, by the ID of its call."""
        call = self.running.call_id if self.running is not None else ""
        outcomes = self.turn.outcomes[call]
        self.settled = outcomes.popleft() if outcomes else None
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


class RecordedRunner(Runner):
    """Runs approved requests as usual, and tells the player which one runs."""

    player: Player

    async def act(self, request: ActionRequest, *given: Any) -> ActionRequest | None:
        self.player.running = request
        try:
            return await super().act(request, *given)
        finally:
            self.player.running = None


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
        if outcome is None or outcome.result is None:
            raise no_result(command)
        return outcome.result


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


class RecordedTool:
    """A tool that checks and describes as usual, and whose observation is the recorded one."""

    def __init__(self, tool: Tool, player: Player) -> None:
        self._tool = tool
        self._player = player
        self._held: list[Mapping[str, Any]] = []

    @property
    def spec(self) -> ToolSpec:
        return self._tool.spec

    def check(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments as the real tool checks them.

        What depends on the machine is as recorded: the resolved path, and the hosts of a search.
        """
        checked = self._tool.check(arguments)
        here = {name: checked[name] for name in ("path", "hosts") if name in checked}
        file = Path(str(here.get("path", ""))).name
        for request in self._player.turn.proposed[self.spec.name] if here else ():
            recorded = dict(request.arguments)
            same_file = Path(str(recorded.get("path", ""))).name == file
            if same_file and {**recorded, **here} == checked:
                return recorded
        return checked

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
        """Return the hosts that the real tool reads from the arguments."""
        return self._tool.hosts(arguments)

    async def run(self, arguments: Mapping[str, Any]) -> Observation:
        """Return the recorded observation. Raises `ToolError` where the tool failed."""
        usage = Usage()
        if self._player.running is None:
            message = self._recorded(arguments)
        else:
            outcome = self._player.next_outcome()
            if outcome is None:
                raise ToolError("The recording has no result for {name}.", name=self.spec.name)
            message, usage = outcome.message, outcome.usage
            if arguments in self._held:
                self._held.remove(arguments)  # the same call may be no request in a later turn
        if getattr(message, "status", "success") == "error":
            raise ToolError("{text}", text=message.text)
        return Observation(str(message.text), tuple(map(image_in, images_of(message))), usage)

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

    def assess(self, request: ActionRequest, cwd: str) -> RiskReport:
        """Return the recorded facts, as long as the request is the recorded one."""
        judged = self._player.turn.judged[request.call_id]
        if not judged or judged[0].report.command not in (request.command, ""):
            self._verdict = NO_VERDICT
            return classify(request.command, cwd=cwd)
        first = judged.popleft()
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
        return request.effect == "person" or bool(self._player.turn.judged[request.call_id])

    def runs_inside(self, request: ActionRequest) -> bool:
        """Return whether the recorded request was judged although only a plan was wanted."""
        return request.effect == "read" and bool(self._player.turn.judged[request.call_id])

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
        text = self._player.last_observation.rpartition(AGAIN)[2]
        place = text.find("[sandbox:")
        refused = again.refusal.reason if again is not None and again.refusal else None
        return SandboxFindings(text[place:] if place >= 0 else "", refused=refused)


class RecordedApprover:
    """Decides as recorded; an edit is recognised by the verdict that followed it."""

    def __init__(self, player: Player) -> None:
        self._player = player

    async def decide(
        self, request: ActionRequest, report: RiskReport, verdict: Verdict
    ) -> Decision:
        del report, verdict
        judged = self._player.turn.judged[request.call_id]
        if judged and judged[0].request_id == self._player.judged_id:
            return Decision("edit", judged[0].report.command, "person")
        return self._decision(request.call_id)

    def _decision(self, call_id: str) -> Decision:
        decided = self._player.turn.decided[call_id]
        if not decided:
            raise TurnInterruptedError("The recording has no answer to this question.")
        return decided.popleft().decision

    async def review_plan(self, plan: Plan, previous: Plan | None) -> PlanReview:
        """Return the recorded review; its decision holds the plan as the user edited it."""
        del previous
        turn = self._player.turn
        calls = (one.call_id for one in turn.proposed[MAKE_PLAN.name])
        decision = self._decision(next((one for one in calls if turn.decided[one]), ""))
        if decision.kind == "edit":
            plan = plan_from_text(decision.command, plan)
        return PlanReview(decision.kind, plan, decision.by, decision.reason)


class RecordedText(Redactor):
    """Redaction that takes the placeholders of recorded calls as it took them then."""

    def __init__(self, player: Player, labels: Sequence[str]) -> None:
        super().__init__(label=labels[0] if labels else "", others=labels)
        self._player = player

    def placeholder(self, text: str) -> str:
        """Return the placeholder for which the recorded call with these arguments was refused."""
        mark = super().placeholder(text)
        if not mark or not text.startswith('{"'):
            return ""
        known = (one for of_tool in self._player.turn.proposed.values() for one in of_tool)
        asked = (json.dumps(dict(one.arguments), ensure_ascii=False) for one in known)
        return "" if text in asked else mark


@dataclass(slots=True)
class RecordedContext:
    """Builds the recorded context of the model's calls."""

    journal: TurnJournal
    player: Player
    modes: SessionModes
    tools: Mapping[str, Tool]
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
        body = self._compaction()
        if body is None:
            return
        self.player.turn.compactions.popleft()
        if body.window:
            body = compacted(self.journal.state, body.window, body.summary, body.usage)
        self.journal.record(body)

    def _compaction(self) -> Compacted | None:
        """Return the compaction recorded at this very place, if there was one."""
        waiting = self.player.turn.compactions
        if not waiting or waiting[0].replies != self.player.replies:
            return None
        settled = 0
        for record in self.journal.records():
            if isinstance(record.body, InputReceived):
                settled = 0
            settled += isinstance(record.body, Outcome)
        return waiting[0].body if waiting[0].outcomes == settled else None

    def _redirect(
        self, name: str, arguments: Mapping[str, Any]
    ) -> tuple[Tool, Mapping[str, Any]] | None:
        return (
            target_of(arguments, self.tools[CALL_TOOL], self.tools) if name == CALL_TOOL else None
        )

    def think_context(self, io: TurnIO, count: TurnCount) -> ThinkContext:
        del io, count
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
            has_room=lambda _: self._compaction() is None,
            delegates=True,
            agents=state.agents,
            named=self.named,
            lookup=self.journal.value_of,
            check_problem=check_problem,
            placeholder=self.journal.secrets.placeholder,
        )
