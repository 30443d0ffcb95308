"""A live session: what the REPL, one-shot and scripted mode drive, and what a turn works with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from langchain_core.messages import SystemMessage

from kogniterm.agent import compaction
from kogniterm.agent.calls import offered_tools
from kogniterm.agent.fitting import Window, tools_tokens
from kogniterm.agent.history import observation_limit
from kogniterm.agent.state import ThinkContext
from kogniterm.approval.leases import Lease, LeaseKind, Offer
from kogniterm.errors import UsageError
from kogniterm.execution.effects import preview
from kogniterm.execution.executor import CommandExecutor
from kogniterm.execution.sandbox import Sandbox
from kogniterm.models import OpenModels, preload
from kogniterm.models.prices import PRICES_DATE, price_of
from kogniterm.protocols import Approver, Clock, EventSink, Model, Terminal, Tool
from kogniterm.runtime import events
from kogniterm.runtime.asking import Ask, PersonDesk
from kogniterm.runtime.attachments import Attached, attached
from kogniterm.runtime.cabinet import Cabinet
from kogniterm.runtime.compact import compact, has_room
from kogniterm.runtime.forget_desk import ForgetDesk
from kogniterm.runtime.front import Front, Recover
from kogniterm.runtime.instructions import system_message
from kogniterm.runtime.limits import Budget, unknown_price
from kogniterm.runtime.memory_desk import MemoryDesk
from kogniterm.runtime.own_command import run_own_command
from kogniterm.runtime.plans import PlanDesk, only_plans
from kogniterm.runtime.policy_desk import PolicyDesk
from kogniterm.runtime.ports import TurnCount
from kogniterm.runtime.recovery import runs_repeated
from kogniterm.runtime.run_command import CommandStop
from kogniterm.runtime.scripts import changed_file, file_states
from kogniterm.runtime.steering import Steering
from kogniterm.runtime.turn import run_turn
from kogniterm.runtime.undo import UndoDesk
from kogniterm.sessions.fold import Note, SessionState
from kogniterm.sessions.records import Compacted, NodeRan, Noted, RecordBody
from kogniterm.settings import environment
from kogniterm.types import (
    ActionRequest,
    Answer,
    ApprovalMode,
    CommandResult,
    Decision,
    LeftRunning,
    ModelInfo,
    Plan,
    PlanMode,
    RiskReport,
    Text,
    ToolSpec,
    Usage,
    UserInput,
    Verdict,
)

if TYPE_CHECKING:
    from kogniterm.memory.forget import Wish
    from kogniterm.sessions.journal import Journal
    from kogniterm.text.redact import Redactor


@dataclass(slots=True)
class LiveSession:
    """One session, open in this process. Built by `runtime.build.open_session`."""

    journal: Journal
    chat_model: Model
    executor: CommandExecutor
    tools: Mapping[str, Tool]
    policy: PolicyDesk
    vault: Redactor
    undo: UndoDesk
    system: SystemMessage
    clock: Clock
    budget: Budget
    env_hash: str
    command_timeout: float | None
    open_model: OpenModels
    release: Callable[[], None]
    cabinet: Cabinet
    asker: PersonDesk
    forgetting: ForgetDesk
    memory: MemoryDesk | None = None
    notices: tuple[Text, ...] = ()
    mode: ApprovalMode = "manual"
    plan_mode: PlanMode = "auto"
    plans: PlanDesk = field(default_factory=PlanDesk)
    steering: Steering = field(default_factory=Steering)
    window: Window = field(default_factory=Window)
    stopping: CommandStop = field(init=False)
    _tokens: int = 0
    _ids: int = 0
    _closed: bool = field(default=False)

    def __post_init__(self) -> None:
        self.stopping = CommandStop(self.executor.stop)
        self._tokens = compaction.estimate_tokens(self.state.messages)

    # --- what the user interface sees ---------------------------------------------------------

    @property
    def state(self) -> SessionState:
        """Folded from the journal."""
        return self.journal.state

    @property
    def id(self) -> str:
        """The session's id."""
        return self.state.session_id

    @property
    def folder(self) -> str:
        """The workspace: the folder the session was opened in."""
        return self.state.folder

    @property
    def cwd(self) -> str:
        """The folder the next command starts in."""
        return self.executor.cwd

    @property
    def title(self) -> str:
        """Made from the first task, unless renamed."""
        return self.state.title

    @property
    def model(self) -> ModelInfo:
        """What is asked."""
        return self.chat_model.info

    @property
    def plan(self) -> Plan | None:
        """The current plan."""
        return self.state.plan

    @property
    def context_tokens(self) -> int:
        """About how many tokens of the model's window the next call takes at least."""
        return self._tokens + compaction.message_tokens(self.system)

    @property
    def usage(self) -> Usage:
        """Tokens of the whole session."""
        return self.state.usage

    async def run(
        self,
        user_input: UserInput | None,
        *,
        approver: Approver,
        sink: EventSink,
        terminal: Terminal | None = None,
        recover: Recover | None = None,
        ask: Ask | None = None,
    ) -> Answer:
        """One turn; None goes on with the turn that was open. Cancel the task to stop it.

        Raises `UsageError` when only a plan is wanted of a model that cannot plan.
        """
        if only_plans(self) and self.model.one_command:
            raise UsageError("The model {model} is too small to plan.", model=self.model.name)
        money = (self.budget.limits.dollars, self.budget.session.dollars)
        if money != (None, None) and self.price(Usage()) is None:
            sink(events.Notice(unknown_price(self.model.name, PRICES_DATE), "warning"))
        self.asker.ask_now = ask
        wish = self.forgetting.wish(user_input) if user_input is not None else None
        if wish is not None and not self.state.open_turn:
            return await self._forget(wish, sink)
        await self.open_model.close(but=self.chat_model)  # those left for another one
        answer = await run_turn(self, user_input, Front(approver, sink, terminal, recover))
        if self.memory is not None:
            self.memory.turn_ended(answer.text)
        return answer

    async def _forget(self, wish: Wish, sink: EventSink) -> Answer:
        """A turn that only forgets: nothing of it is journaled, and no model is asked."""
        sink(events.TurnStarted(self.id, self.state.turn, self.model.name, self.cwd))
        answer = await self.forgetting.answer(wish, sink)
        sink(events.TurnEnded(answer))
        return answer

    async def finish(self) -> None:
        """Let what is still being learnt end, release the model; call before `close`."""
        if self.memory is not None:
            await self.memory.finish()
        self.cabinet.expire()
        await self.open_model.close()

    async def run_shell(
        self, command: str, *, sink: EventSink, terminal: Terminal | None = None
    ) -> CommandResult:
        """A command of the person's own: run without asking, journaled, shown to the model."""
        return await run_own_command(self, command, sink=sink, terminal=terminal)

    def keep_draft(self, text: str) -> None:
        """Keep what the person has typed and not sent, for whoever resumes the session."""
        self.cabinet.store.save_draft(self.id, self.redact(text))

    def steer(self, text: str) -> None:
        """Say something to the running turn; the model has it with its next call."""
        self.steering.add(self.redact(text))

    def stop_command(self) -> None:
        """End the running command; the turn goes on and the model is told."""
        self.stopping.wish()

    def warm(self) -> None:
        """Load what the first model call needs; to be called on a thread."""
        preload(self.chat_model)

    def offers(self, report: RiskReport) -> tuple[Offer, ...]:
        """The leases that may be granted together with an approval."""
        return self.policy.offers(report, self.cwd)

    def grant(
        self,
        report: RiskReport,
        kind: LeaseKind,
        *,
        uses: int | None = None,
        seconds: float | None = None,
    ) -> Lease:
        """Grant a lease and journal it."""
        lease = self.policy.grant(report, kind, self.cwd, uses=uses, seconds=seconds)
        self.record(Noted("lease", {"granted": lease.id, "text": str(lease.text)}))
        return lease

    def revoke(self, lease_id: str) -> Lease:
        """Take a lease back and journal it. Raises `UsageError` for an unknown id."""
        lease = self.policy.revoke(lease_id)
        self.record(Noted("lease", {"revoked": lease.id}))
        return lease

    def use_model(self, name: str) -> None:
        """Ask another model from the next call on. Raises `UsageError` or `ModelError`."""
        self.chat_model, self.window = self.open_model(name), Window()
        self.record(Note.MODEL.record(self.chat_model.info.name))

    def use_mode(self, mode: ApprovalMode) -> None:
        """Change the approval mode."""
        self.mode = mode
        self.record(Note.MODE.record(mode))

    def use_plan_mode(self, mode: PlanMode) -> None:
        """Change when plans are made."""
        self.plan_mode = mode
        self.record(Note.PLAN_MODE.record(mode))

    def offered_tools(self) -> tuple[ToolSpec, ...]:
        """The tools the model may call."""
        return offered_tools(self._context(lambda agent: None))

    def end_jobs(self) -> tuple[LeftRunning, ...]:
        """End what commands left running and is not to stay; returns what became of all of it.

        No command can run after it, where anything was left; nothing is done otherwise.
        """
        if any(job.state == "running" for job in self.executor.jobs()):
            self.executor.close()
        return tuple(self._told_left(one) for one in self.executor.left)

    def _told_left(self, one: LeftRunning) -> LeftRunning:
        """What was left, with secrets of its command line replaced."""
        return replace(one, command=self.redact(one.command))

    def close(self) -> None:
        """End what still runs and let others open the session. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        self.executor.close()
        if self.memory is not None:
            self.memory.close()
        self.release()

    # --- what a turn works with ---------------------------------------------------------------

    def record(self, body: RecordBody, *, durable: bool = False) -> None:
        """Append to the journal and advance the state by the same record."""
        before = len(self.state.messages)
        self.journal.append(body, durable=durable)
        if isinstance(body, NodeRan):
            self.steering.journaled(body.update.agent)
        if not isinstance(body, Compacted):
            self._tokens += compaction.estimate_tokens(self.state.messages[before:])
        else:
            self._tokens = compaction.estimate_tokens(self.state.messages)

    def settle_kept(self) -> None:
        """Write the outcomes that the database could not take before.

        Raises `OutcomeNotWrittenError`.
        """
        before = len(self.state.messages)
        self.journal.settle_kept()
        self._tokens += compaction.estimate_tokens(self.state.messages[before:])

    def new_id(self) -> str:
        """An action request id that is unique in the session, also after a resume."""
        self._ids += 1
        return f"{self.state.seq + 1}-{self._ids}"

    def redact(self, text: str) -> str:
        """Replace secrets by placeholders."""
        return self.vault.redact(text)

    def reveal(self, command: str) -> str:
        """Replace placeholders by the values, for the executor alone."""
        return self.vault.restore(command)

    def redact_input(self, user_input: UserInput) -> UserInput:
        """The input as it may be kept and sent."""
        data = user_input.data
        return replace(
            user_input,
            text=self.redact(user_input.text),
            data=self.redact(data) if data is not None else None,
        )

    def redact_result(self, result: CommandResult) -> CommandResult:
        """The result as it may be kept and sent, small enough for the model's window."""
        text = self.redact(result.text)
        limit = observation_limit(self.model.context_window)
        return replace(
            result,
            command=self.redact(result.command),
            text=compaction.clip(text, limit),
            omitted_bytes=result.omitted_bytes + max(0, len(text) - limit),
        )

    def learn_outcome(self, result: CommandResult) -> None:
        """Keep how a command ended, for similar tasks."""
        if self.memory is not None:
            self.memory.record_outcome(result)

    def recall(self, user_input: UserInput) -> Attached:
        """What the files named in this input hold, and what memory adds to it."""
        limit, named = observation_limit(self.model.context_window), user_input.attachments
        files = attached(named, Path(self.folder), limit, self.redact, self.model)
        remembered = self.memory.recall(user_input) if self.memory is not None else ""
        unfit = self.memory.why_not_kept(user_input) if self.memory is not None else None
        texts, notices = [files.text, remembered], files.notices
        if unfit is not None:
            notice = Text("Memory did not keep this: {reason}.", {"reason": unfit})
            texts.append(f"[{notice} Tell the user so.]")
            notices = (*notices, notice)
        return replace(files, text="\n\n".join(filter(None, texts)), notices=notices)

    def price(self, usage: Usage) -> float | None:
        """What a model call cost in US dollars; None when the price is not known."""
        known = price_of(self.model.name)
        return known.cost(usage) if known is not None else None

    async def make_room(self, front: Front, count: TurnCount) -> None:
        """Compact the history when it nears the model's window."""
        fixed = self._fixed_tokens()
        if not compaction.needs_compaction(self._tokens, fixed, self.window.tokens(self.model)):
            return
        before = self._tokens
        count.add_usage(await self._compact(asked=False))
        text = Text(
            "History compacted: about {before} tokens became {after}.",
            {"before": before, "after": self._tokens},
        )
        front.sink(events.Notice(text))

    async def compact_now(self, *, asked: bool = False) -> tuple[int, int]:
        """Compact the history, needed or not; how many tokens it had and has, about."""
        before = self._tokens
        await self._compact(asked=asked)
        return before, self._tokens

    async def _compact(self, *, asked: bool) -> Usage:
        """What the summary cost."""
        window = self.window.whole(self.model)
        body = await compact(self.state, self.chat_model, window, asked=asked)
        self.record(body, durable=True)
        self.system = system_message(self.journal)
        if self.memory is not None:
            self.memory.context.history_was_shortened()
        return body.usage

    def think_context(self, count: TurnCount) -> ThinkContext:
        """The ports of one graph invocation."""
        return self._context(lambda agent: count.may_continue())

    def _context(self, may_continue: Callable[[str], Text | None]) -> ThinkContext:
        return ThinkContext(
            model=self.chat_model,
            tools=self.tools,
            system=self.system,
            plan_mode="always" if only_plans(self) else self.plan_mode,
            may_continue=may_continue,
            new_id=self.new_id,
            clean=self._clean,
            has_room=lambda messages: has_room(
                messages, self._fixed_tokens(), self.window.tokens(self.model)
            ),
            plan_only=only_plans(self),
            review_plans=self.plans.asks(self.mode) and not only_plans(self),
            delegates=True,
            said_meanwhile=self.steering.take,
            window=self.window,
            agents=self.state.agents,
        )

    def _clean(self, text: str) -> str:
        """What a tool inside the graph returned, as it may be kept and sent."""
        return compaction.clip(self.redact(text), observation_limit(self.model.context_window))

    def _fixed_tokens(self) -> int:
        """What every request takes besides the history."""
        return compaction.message_tokens(self.system) + tools_tokens(self.offered_tools())

    def assess(self, request: ActionRequest) -> RiskReport:
        """Facts about a request."""
        return self.policy.assess(request, self.cwd)

    def judge(self, request: ActionRequest, report: RiskReport) -> Verdict:
        """Policy's word on a request."""
        again = bool(runs_repeated(self, request))
        return self.policy.judge(
            request, report, self.mode, self.model, self.cwd, unknown_outcome=again
        )

    def file_states(self, request: ActionRequest, report: RiskReport) -> Mapping[str, str]:
        """The state of every file that decides what the request runs, by name."""
        if request.effect != "command":
            return {}
        return file_states(report, self.folder, environment().get("PATH", ""))

    def changed_file(self, request: ActionRequest) -> str | None:
        """The first of these files that is not as it was when the request was judged, or None."""
        requested = self.state.requested.get(request.id)
        return changed_file(requested.script_hashes, self.folder) if requested else None

    def confine(self, decision: Decision, report: RiskReport) -> Sandbox | None:
        """Let the executor run the next command in the sandbox this decision calls for."""
        self.executor.sandbox = box = self.policy.sandbox.choose(decision, report)
        self.policy.sandbox.begin(box, report)
        return box

    def keep_preimages(self, request: ActionRequest, report: RiskReport) -> None:
        """Keep what the request will overwrite or delete."""
        self.undo.keep(request, report)

    def preview(self, request: ActionRequest, report: RiskReport) -> tuple[Text, ...]:
        """What the request would do to this disk, and whether that can be undone."""
        promise = self.undo.promise(request, report)
        lines = preview(report, self.folder)
        return (*lines, promise) if promise is not None else lines
