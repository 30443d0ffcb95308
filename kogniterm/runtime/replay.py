"""Replay: a recorded session through the same graph and runtime, without a network or a person.

The model's replies, policy's verdicts, people's decisions and what tools gave come from the
journal; commands are answered from it too, or really run (`live`) in a copy of the folder. The
run writes a journal of its own, and `sessions.replay.first_divergence` compares the two. Heavy:
imported when a replay is asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import cast

from langchain_core.messages import AIMessage, SystemMessage

from kogniterm.agent.images import words_and_images
from kogniterm.agent.messages import PLAN_FIRST, PLAN_ONLY, human_message
from kogniterm.agent.plan import MAKE_PLAN
from kogniterm.agent.state import ThinkContext
from kogniterm.approval import classify
from kogniterm.errors import ModelError, TurnInterruptedError
from kogniterm.execution.sandbox import Sandbox
from kogniterm.models.catalog import ANY_IMAGES
from kogniterm.protocols import Clock, EventSink, Executor, Model, Tool
from kogniterm.runtime.attachments import Attached
from kogniterm.runtime.compact import compacted
from kogniterm.runtime.front import Front
from kogniterm.runtime.limits import Budget
from kogniterm.runtime.plans import PlanDesk, only_plans, plan_context, plan_from_text
from kogniterm.runtime.policy_desk import PolicyDesk
from kogniterm.runtime.ports import TurnCount
from kogniterm.runtime.replay_world import KilledError, Player, RecordedExecutor, RecordedTool
from kogniterm.runtime.run_command import CommandStop
from kogniterm.runtime.sandbox_service import Aftermath
from kogniterm.runtime.turn import run_turn
from kogniterm.sessions.fold import SessionState
from kogniterm.sessions.journal import SessionJournal
from kogniterm.sessions.recording import Tape, TurnTape
from kogniterm.sessions.records import Intent, Outcome, RecordBody
from kogniterm.sessions.replay import Divergence, first_divergence
from kogniterm.types import (
    ActionRequest,
    CommandResult,
    Decision,
    ModelEvent,
    ModelInfo,
    ModelRequest,
    Plan,
    PlanMode,
    PlanReview,
    Reply,
    RiskReport,
    Text,
    Usage,
    UserInput,
    Verdict,
)


class NoTime:
    """A replay takes no time."""

    def now(self) -> float:
        """The beginning of time."""
        return 0.0

    def monotonic(self) -> float:
        """No budget of time is ever used up."""
        return 0.0


class RecordedModel:
    """Gives the replies of the turn that is played."""

    def __init__(self, name: str, player: Player) -> None:
        provider = name.partition(":")[0]
        # What an image was shown to is not recorded: every recorded one is let through.
        self.info = ModelInfo(
            name,
            provider,
            1_000_000,
            100_000,
            one_command=provider == "local",
            images=ANY_IMAGES,
        )
        self._player = player

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """The next recorded reply; see `protocols.Model`."""
        if request.purpose == "judge":
            said, cost = self._player.judgement()
            yield Reply(AIMessage(said), cost)
            return
        if request.purpose not in ("create_plan", "decide_action"):
            raise ModelError("What the model was asked aside ({purpose}) is not recorded.",
                             purpose=request.purpose)  # fmt: skip
        message, usage = await self._player.reply(request.agent)
        yield Reply(message or AIMessage(""), usage)


class RecordedPolicy:
    """The verdicts of the turn that is played, and what was said about the sandbox."""

    def __init__(self, player: Player) -> None:
        self._player = player
        self._verdict = Verdict("deny", (Text("The recording has no verdict on this."),))

    def assess(self, request: ActionRequest, cwd: str) -> RiskReport:
        """The recorded facts, as long as the request is the recorded one."""
        judged = self._player.turn.judged
        if not judged or judged[0].report.command not in (request.command, ""):
            self._verdict = Verdict("deny", (Text("The recording has no verdict on this."),))
            return classify(request.command, cwd=cwd)
        first = judged.popleft()
        self._player.judged_id = first.request_id
        self._verdict = first.verdict
        return first.report

    def judge(self) -> Verdict:
        """The verdict that belongs to the facts given last."""
        return self._verdict

    def after_run(self, command: str, result: CommandResult, box: Sandbox | None) -> Aftermath:
        """What stands about the sandbox in the recorded observation."""
        del command, result, box
        text = self._player.last_observation
        place = text.find("[sandbox:")
        return Aftermath(text[place:] if place >= 0 else "")


class RecordedPerson:
    """Decides as the recording says; an edit is found by the verdict that followed it."""

    def __init__(self, player: Player) -> None:
        self._player = player

    async def decide(
        self, request: ActionRequest, report: RiskReport, verdict: Verdict
    ) -> Decision:
        """The next recorded decision."""
        del report, verdict
        turn = self._player.turn
        if turn.judged and turn.judged[0].request_id == self._player.judged_id:
            return Decision("edit", turn.judged[0].report.command, "person")
        if not turn.decided:
            raise await self._player.exhausted(TurnInterruptedError("Nobody decided on this."))
        return turn.decided.popleft().decision

    async def review_plan(self, plan: Plan, previous: Plan | None) -> PlanReview:
        """What was recorded of this plan: the decision holds the plan as it was decided on."""
        del previous
        turn = self._player.turn
        if not turn.decided:
            raise await self._player.exhausted(TurnInterruptedError("Nobody decided on this."))
        decision = turn.decided.popleft().decision
        if decision.kind == "edit":
            plan = plan_from_text(decision.command, plan)
        return PlanReview(decision.kind, plan, decision.by, decision.reason)


@dataclass(slots=True)
class ReplaySession:
    """A session as `run_turn` sees it, with the recorded world around it."""

    journal: SessionJournal
    player: Player
    chat_model: Model
    tools: Mapping[str, Tool]
    executor: Executor
    policy: PolicyDesk
    plan_mode: PlanMode = "auto"
    plans: PlanDesk = field(default_factory=PlanDesk)
    budget: Budget = field(default_factory=Budget)
    clock: Clock = field(default_factory=NoTime)
    env_hash: str = ""
    command_timeout: float | None = None
    stopping: CommandStop = field(init=False)
    _ids: int = 0

    def __post_init__(self) -> None:
        self.stopping = CommandStop(self.executor.stop)

    @property
    def state(self) -> SessionState:
        """Folded from the replay's own journal."""
        return self.journal.state

    @property
    def cwd(self) -> str:
        """The folder the next command starts in."""
        return self.state.cwd

    def settle_kept(self) -> None:
        """Do nothing: what is played is written nowhere."""

    def record(self, body: RecordBody, *, durable: bool = False) -> None:
        """Append. Raises `KilledError` once the recorded process was killed."""
        del durable
        if isinstance(body, Outcome) and body.status == "unknown" and self.player.settled:
            # What was left of its output, and what the person said about it, is recorded.
            body = replace(body, message=self.player.settled.message)
        if self.player.crashed:
            raise KilledError("The recorded process was killed here.")
        self.journal.append(body)
        self.player.journaled(body)

    def price(self, usage: Usage) -> float | None:
        """A replay costs nothing."""
        del usage
        return None

    def redact_input(self, user_input: UserInput) -> UserInput:
        """What is recorded is redacted already."""
        return user_input

    def redact_result(self, result: CommandResult) -> CommandResult:
        """What is recorded is redacted and clipped already."""
        return result

    def redact(self, text: str) -> str:
        """What is recorded is redacted already."""
        return text

    def reveal(self, command: str) -> str:
        """The secrets are not in the recording."""
        return command

    def learn_outcome(self, result: CommandResult) -> None:
        """A replay teaches nothing."""

    def recall(self, user_input: UserInput) -> Attached:
        """What files and memory had added to the recorded input."""
        words, images = words_and_images(self.player.turn.given.message)
        whole = words.removesuffix(PLAN_FIRST).removesuffix(PLAN_ONLY).rstrip("\n")
        rest = whole.removeprefix(human_message(user_input, "never").text)
        planned = plan_context(self.player.turn.plan, self.state.plan)
        return Attached(rest.removesuffix(planned or "").strip("\n"), images)

    async def make_room(self, front: Front, count: TurnCount) -> None:
        """Shorten the history where the recorded one was, with the summary the model gave."""
        body = self.player.compaction
        if body is None:
            return
        self.player.turn.compactions.popleft()
        if body.window:
            body = compacted(self.state, body.window, body.summary, body.usage)
        self.record(body)

    def think_context(self, count: TurnCount) -> ThinkContext:
        """The ports of one graph invocation."""
        del count
        return ThinkContext(
            model=self.chat_model,
            tools=self.tools,
            system=SystemMessage("replay"),
            plan_mode="always" if only_plans(self) else self.plan_mode,
            may_continue=self.player.stop_reason,
            new_id=self.new_id,
            plan_only=only_plans(self),
            review_plans=self.plans.approval == "always" and not only_plans(self),
            said_meanwhile=self.player.said,
            has_room=lambda _: self.player.compaction is None,
            delegates=True,
            agents=self.state.agents,
        )

    def new_id(self) -> str:
        """An id that is unique in the replay."""
        self._ids += 1
        return f"{self.state.seq + 1}-{self._ids}"

    def assess(self, request: ActionRequest) -> RiskReport:
        """The recorded facts."""
        return self.policy.assess(request, self.cwd)

    def judge(self, request: ActionRequest, report: RiskReport) -> Verdict:
        """The recorded verdict."""
        del request, report
        return cast(RecordedPolicy, self.policy).judge()

    def file_states(self, request: ActionRequest, report: RiskReport) -> Mapping[str, str]:
        """The files of the recorded run are not here."""
        del request, report
        return {}

    def changed_file(self, request: ActionRequest) -> str | None:
        """The file for which the recorded run was withheld after its approval, or None."""
        del request
        return self.player.turn.withheld.get(self.player.judged_id)

    def confine(self, decision: Decision, report: RiskReport) -> Sandbox | None:
        """What ran in a sandbox is answered from the record; live runs have the scratch copy."""
        del decision, report
        return None

    def keep_preimages(self, request: ActionRequest, report: RiskReport) -> None:
        """Nothing of the person's is overwritten."""


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """What a replay found: how much was played, and where it left the record, if anywhere."""

    turns: int
    commands: int
    divergence: Divergence | None


async def replay(
    tape: Tape,
    journal: SessionJournal,
    *,
    model: str,
    tools: Mapping[str, Tool],
    sink: EventSink,
    live: Executor | None = None,
    live_tools: frozenset[str] = frozenset(),
) -> ReplayReport:
    """Play `tape` into `journal`, an empty session of its own, and compare the two.

    `tools` are the tools a session offers; they answer from the record, except `live_tools`.
    With `live` commands are really run by it.
    """
    player = Player()
    executor = RecordedExecutor(player, live)
    session = ReplaySession(
        journal,
        player,
        RecordedModel(model, player),
        {
            name: tool if name in live_tools else RecordedTool(tool, player)
            for name, tool in tools.items()
        },
        executor,
        cast(PolicyDesk, RecordedPolicy(player)),
    )
    front = Front(RecordedPerson(player), sink)
    turns = 0
    for part in tape.parts:
        if isinstance(part, TurnTape):
            turns += 1
            await _play(session, player, part, front)
        elif isinstance(part, Intent) and live is not None:
            await asyncio.to_thread(live.run, part.command)
            journal.append(part)
        else:
            journal.append(part)
    divergence = first_divergence(tape.records, journal.records())
    return ReplayReport(turns, executor.ran, divergence)


async def _play(session: ReplaySession, player: Player, turn: TurnTape, front: Front) -> None:
    """One turn, with every crash that it went through."""
    player.begin(turn)
    session.plan_mode = cast(PlanMode, turn.plan_mode)
    session.plans = PlanDesk(
        only=turn.given.plan_only,
        given=turn.plan,
        approval="always" if turn.proposed[MAKE_PLAN.name] else "never",
    )
    given: UserInput | None = turn.given.input
    if turn.ended is None or turn.ended.stop != "unknown":
        front = replace(front, recover=player.recover)
    while True:
        player.crashed = False
        player.task = asyncio.ensure_future(run_turn(session, given, front))
        with suppress(KilledError):
            await player.task
        if not player.crashed:
            return
        if not player.goes_on:
            return
        given = None
