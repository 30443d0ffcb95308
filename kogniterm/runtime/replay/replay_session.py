"""Replay: a recorded session through the same graph and runtime, without a network or a person.

The model's replies, policy's verdicts, people's decisions and what tools gave come from the
journal; commands are answered from it too, or really run (`live`) in a copy of the folder. The
run writes a journal of its own, and `sessions.replay.first_divergence` compares the two. Heavy:
imported when a replay is asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import cast

from langchain_core.messages import AIMessage, SystemMessage

from kogniterm.agent.graph_state import ThinkContext
from kogniterm.agent.messages import PLAN_FIRST, PLAN_ONLY, human_message, words_and_images
from kogniterm.agent.plan.plan_tools import MAKE_PLAN
from kogniterm.approval import classify
from kogniterm.errors import ModelError, TurnInterruptedError
from kogniterm.execution.sandbox.confinement import Sandbox
from kogniterm.models.catalog import ANY_IMAGES
from kogniterm.protocols import EventSink, Executor, Tool
from kogniterm.runtime.budgets import Budget, TurnCount
from kogniterm.runtime.context import compacted
from kogniterm.runtime.gate import Gate
from kogniterm.runtime.plan_edits import plan_context, plan_from_text
from kogniterm.runtime.replay.recorded_world import (
    KilledError,
    Player,
    RecordedExecutor,
    RecordedTool,
)
from kogniterm.runtime.runner import Runner
from kogniterm.runtime.services.sandbox_service import SandboxFindings
from kogniterm.runtime.turn import TurnServices, run_turn
from kogniterm.runtime.turn_journal import TurnJournal
from kogniterm.runtime.turn_ports import Attached, PlanSettings, SessionModes, TurnIO
from kogniterm.sessions.fold import SessionState
from kogniterm.sessions.journal.journal import SessionJournal
from kogniterm.sessions.recording import (
    Divergence,
    SessionRecording,
    TurnRecording,
    first_divergence,
)
from kogniterm.sessions.records import Intent, Outcome, Record, RecordBody
from kogniterm.types import (
    ActionRequest,
    CommandResult,
    Decision,
    ModelEvent,
    ModelInfo,
    ModelRequest,
    Phrase,
    Plan,
    PlanMode,
    PlanReview,
    Reply,
    RiskReport,
    UserInput,
    Verdict,
)

NO_VERDICT = Verdict("deny", (Phrase("The recording has no verdict on this."),))


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
        self._verdict = NO_VERDICT

    def assess(self, request: ActionRequest, cwd: str) -> RiskReport:
        """Return the recorded facts, as long as the request is the recorded one."""
        judged = self._player.turn.judged
        if not judged or judged[0].report.command not in (request.command, ""):
            self._verdict = NO_VERDICT
            return classify(request.command, cwd=cwd)
        first = judged.popleft()
        self._player.judged_id = first.request_id
        self._verdict = first.verdict
        return first.report

    def judge(self, request: ActionRequest, *given: object, **how: object) -> Verdict:
        """Return the verdict that belongs to the facts given last."""
        del request, given, how
        return self._verdict

    def file_states(self, request: ActionRequest, report: RiskReport) -> Mapping[str, str]:
        """Return nothing: the files of the recorded run are not here."""
        del request, report
        return {}

    def changed_file(self, states: Mapping[str, str]) -> str | None:
        """Return the file for which the recorded run was withheld after its approval, or None."""
        del states
        return self._player.turn.withheld.get(self._player.judged_id)

    def confine(self, decision: Decision, report: RiskReport) -> None:
        """Do nothing: recorded commands are answered, live ones run in the scratch copy."""

    def after_run(
        self, command: str, result: CommandResult, box: Sandbox | None
    ) -> SandboxFindings:
        """Return what stands about the sandbox in the recorded observation."""
        del command, result, box
        text = self._player.last_observation
        place = text.find("[sandbox:")
        return SandboxFindings(text[place:] if place >= 0 else "")


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


class RecordedText:
    """What is recorded is redacted already, and the secrets are not in it."""

    def redact(self, text: str) -> str:
        """Return `text`."""
        return text

    def restore(self, text: str) -> str:
        """Return `text`."""
        return text


@dataclass(slots=True)
class PlayedJournal:
    """The replay's own journal, which follows the record where its process was killed."""

    journal: SessionJournal
    player: Player

    @property
    def state(self) -> SessionState:
        """The state folded from the replay's own journal."""
        return self.journal.state

    def append(self, body: RecordBody, *, durable: bool = False) -> Record:
        """Append. Raises `KilledError` once the recorded process was killed."""
        del durable
        if isinstance(body, Outcome) and body.status == "unknown" and self.player.settled:
            # What was left of its output, and what the user said about it, is recorded.
            body = replace(body, message=self.player.settled.message)
        if self.player.crashed:
            raise KilledError("The recorded process was killed here.")
        record = self.journal.append(body)
        self.player.journaled(body)
        return record

    def settle_kept(self) -> None:
        """Do nothing: no outcome of a replay is kept aside."""

    def records(self, from_seq: int = 1) -> Iterator[Record]:
        """Return the records of the replay."""
        return self.journal.records(from_seq)

    def close(self) -> None:
        """Let go of the journal."""
        self.journal.close()


@dataclass(slots=True)
class RecordedContext:
    """What the recorded turn had in its model's calls."""

    journal: TurnJournal
    player: Player
    modes: SessionModes
    tools: Mapping[str, Tool]

    def recall(self, user_input: UserInput) -> Attached:
        """Return what files and memory had added to the recorded input."""
        words, images = words_and_images(self.player.turn.given.message)
        whole = words.removesuffix(PLAN_FIRST).removesuffix(PLAN_ONLY).rstrip("\n")
        rest = whole.removeprefix(human_message(user_input, "never").text)
        planned = plan_context(self.player.turn.plan, self.journal.state.plan)
        return Attached(rest.removesuffix(planned or "").strip("\n"), images)

    async def make_room(self, io: TurnIO, count: TurnCount) -> None:
        """Shorten the history where the recorded one was, with the summary the model gave."""
        del io, count
        body = self.player.compaction
        if body is None:
            return
        self.player.turn.compactions.popleft()
        if body.window:
            body = compacted(self.journal.state, body.window, body.summary, body.usage)
        self.journal.record(body)

    def think_context(self, count: TurnCount) -> ThinkContext:
        """Return the ports of one graph invocation."""
        del count
        plans, state = self.modes.plans, self.journal.state
        only = plans.only_planning(state)
        return ThinkContext(
            model=self.modes.model,
            tools=self.tools,
            system=SystemMessage("replay"),
            plan_mode="always" if only else self.modes.planning,
            may_continue=self.player.stop_reason,
            new_id=self.journal.new_id,
            plan_only=only,
            review_plans=plans.approval == "always" and not only,
            said_meanwhile=self.player.said,
            has_room=lambda _: self.player.compaction is None,
            delegates=True,
            agents=state.agents,
        )


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """What a replay found: how much was played, and where it left the record, if anywhere."""

    turns: int
    commands: int
    divergence: Divergence | None


async def replay(
    recording: SessionRecording,
    journal: SessionJournal,
    *,
    model: str,
    tools: Mapping[str, Tool],
    sink: EventSink,
    live: Executor | None = None,
    live_tools: frozenset[str] = frozenset(),
) -> ReplayReport:
    """Play `recording` into `journal`, an empty session of its own, and compare the two.

    `tools` are the tools a session offers; they answer from the record, except `live_tools`.
    With `live` commands are really run by it.
    """
    player = Player()
    written = TurnJournal(PlayedJournal(journal, player), RecordedText(), NoTime())
    executor = RecordedExecutor(player, live, lambda: journal.state.cwd)
    offered = {
        name: tool if name in live_tools else RecordedTool(tool, player)
        for name, tool in tools.items()
    }
    modes, budget, policy = (
        SessionModes(RecordedModel(model, player)),
        Budget(),
        RecordedPolicy(player),
    )
    services = TurnServices(
        written,
        Gate(written, policy, modes, executor),
        Runner(written, policy, modes, executor, offered, budget),
        RecordedContext(written, player, modes, offered),
        modes,
        budget,
    )
    io = TurnIO(RecordedPerson(player), sink)
    turns = 0
    for part in recording.parts:
        if isinstance(part, TurnRecording):
            turns += 1
            await _play(services, player, part, io)
        elif isinstance(part, Intent) and live is not None:
            await asyncio.to_thread(live.run, part.command)
            journal.append(part)
        else:
            journal.append(part)
    divergence = first_divergence(recording.records, journal.records())
    return ReplayReport(turns, len(executor.ran), divergence)


async def _play(services: TurnServices, player: Player, turn: TurnRecording, io: TurnIO) -> None:
    """One turn, with every crash that it went through."""
    player.begin(turn)
    services.modes.planning = cast(PlanMode, turn.plan_mode)
    services.modes.plans = PlanSettings(
        only=turn.given.plan_only,
        given=turn.plan,
        approval="always" if turn.proposed[MAKE_PLAN.name] else "never",
    )
    given: UserInput | None = turn.given.input
    if turn.ended is None or turn.ended.stop != "unknown":
        io = replace(io, recover=player.recover)
    while True:
        player.crashed = False
        player.task = asyncio.ensure_future(run_turn(services, given, io))
        with suppress(KilledError):
            await player.task
        if not player.crashed:
            return
        if not player.goes_on:
            return
        given = None
