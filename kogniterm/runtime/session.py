"""A live session: opened, driven turn by turn and closed by REPL, one-shot and scripted mode."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from kogniterm import logs, prompts
from kogniterm.agent.plan.plan_tools import MAKE_PLAN
from kogniterm.approval import Lease, Offer
from kogniterm.approval.policy.permission_file import Permission
from kogniterm.errors import EXIT_REFUSED, UsageError
from kogniterm.execution.executor import CommandExecutor
from kogniterm.models import OpenModels, preload
from kogniterm.models.catalog import PRICES_DATE
from kogniterm.models.model_registry import no_such_effort
from kogniterm.prompts import PromptFile
from kogniterm.protocols import Approver, EventSink, Terminal
from kogniterm.runtime.budgets import Budget, unknown_price
from kogniterm.runtime.context import ContextService
from kogniterm.runtime.extensions.hooks.hook_points import Hooks
from kogniterm.runtime.extensions.hooks.hook_service import HookService
from kogniterm.runtime.extensions.servers.mcp_servers import McpServers
from kogniterm.runtime.extensions.servers.server_elicitation import ServerQuestions
from kogniterm.runtime.extensions.skills.skill_service import SkillService
from kogniterm.runtime.gate import Gate
from kogniterm.runtime.runner import Runner
from kogniterm.runtime.services.archive import SessionArchive
from kogniterm.runtime.services.forget_service import ForgetService
from kogniterm.runtime.services.memory_service import MemoryService
from kogniterm.runtime.services.policy_service import PolicyService
from kogniterm.runtime.services.side_by_side import SideBySide
from kogniterm.runtime.services.tool_service import ToolService
from kogniterm.runtime.services.undo_service import UndoService
from kogniterm.runtime.services.user_secrets import AskSecret
from kogniterm.runtime.session_plans import use_mode
from kogniterm.runtime.telemetry.telemetry_session import Telemetry
from kogniterm.runtime.turn import TurnServices, run_turn
from kogniterm.runtime.turn_journal import TurnJournal, secrets_told
from kogniterm.runtime.turn_ports import Ask, AskPort, AtLimit, Recover, SessionModes, TurnIO
from kogniterm.sessions.fold import Note, SessionState
from kogniterm.sessions.records import Noted
from kogniterm.text.session_ids import SessionId
from kogniterm.types import (
    Answer,
    ApprovalMode,
    CommandResult,
    LeftRunning,
    ModelInfo,
    Phrase,
    PlanMode,
    RiskReport,
    Usage,
    UserInput,
    events,
)


@dataclass(slots=True)
class LiveSession:
    """One session, open in this process. Built by `runtime.build.open_session`."""

    journal: TurnJournal
    gate: Gate
    runner: Runner
    context: ContextService
    modes: SessionModes
    budget: Budget
    executor: CommandExecutor
    policy: PolicyService
    undo: UndoService
    forgetting: ForgetService
    archive: SessionArchive
    asker: AskPort
    open_model: OpenModels
    tools: ToolService
    hooks: Hooks
    hook_service: HookService
    skills: SkillService
    run_other: Callable[[LiveSession, UserInput | None, TurnIO], Awaitable[Answer]]
    """Runs a turn that does more than ask the model, see `UserInput.beyond_model`."""
    beside: SideBySide | None = None
    memory: MemoryService | None = None
    servers: McpServers | None = None
    telemetry: Telemetry | None = None
    """Observes the turns; None where the environment asks for none."""
    prompts: Mapping[str, PromptFile] = field(default_factory=dict)
    """The user's own texts for the model, which a session keeps."""
    notices: tuple[Phrase, ...] = ()
    declined: set[str] = field(default_factory=set)
    """The custom commands whose permissions the user did not grant."""
    _closed: bool = field(default=False)

    @property
    def services(self) -> TurnServices:
        """Return what a turn of this session works with."""
        return TurnServices(
            self.journal, self.gate, self.runner, self.context, self.modes, self.budget, self.beside
        )

    @property
    def state(self) -> SessionState:
        """Return the state of the session, folded from its journal."""
        return self.journal.state

    @property
    def id(self) -> SessionId:
        return SessionId(self.state.session_id)

    @property
    def folder(self) -> str:
        """Return the workspace: the folder that the session was opened in."""
        return self.state.folder

    @property
    def model(self) -> ModelInfo:
        """Return the model in use."""
        return self.modes.model.info

    async def run(
        self,
        user_input: UserInput | None,
        *,
        approver: Approver,
        sink: EventSink,
        terminal: Terminal | None = None,
        recover: Recover | None = None,
        ask: Ask | None = None,
        at_limit: AtLimit | None = None,
        at_prompt: bool = False,
        park: Ask | None = None,
        ask_secret: AskSecret | None = None,
    ) -> Answer:
        """Run one turn; None resumes the turn that is open. Cancel the task to stop it.

        With `at_prompt` a user sits at the prompt; see `TurnIO`. `park` takes questions of the
        model, see `AskPort`, and `ask_secret` for the value of a secret, without an echo.

        Raises `UsageError` when only a plan is wanted of a model that cannot plan.
        """
        if self.services.only_plans or self.modes.in_plan_mode:
            self._require_planning()
        sink = _logged(self.id, sink)
        sink = self.telemetry.watching(sink) if self.telemetry is not None else sink
        self._warn_of_unknown_price(sink)
        prompts.use(self.prompts)
        self.asker.ask_now, self.asker.park, self.journal.given.ask = ask, park, ask_secret
        if self.servers is not None:
            self.servers.attendant = ServerQuestions(self.asker) if ask is not None else None
            self.servers.progress = lambda tool, text: sink(events.ActionProgress(tool, text))
        await self.hooks.begin(sink, resumed=bool(self.state.turn))
        if user_input is not None:
            why = await self.hooks.input_given(user_input, sink)
            if why is not None:
                return self._without_model(sink, partial(_refused, why))
        forget = self.forgetting.requested_in(user_input) if user_input is not None else None
        if forget is not None and not self.state.open_turn:
            choice = await self.forgetting.decide(forget)
            do = partial(self.forgetting.answer, forget, choice, sink)
            return self._without_model(sink, do)
        if user_input is not None and not self.state.open_turn:
            news = self._only_preferences(user_input)
            if news:
                return self._without_model(sink, partial(_told, news, sink))
        await self.open_model.close(but=self.modes.model)  # models that were switched away from
        if user_input is not None and not self.state.open_turn:
            self.context.offer_skills(self.skills.catalogue())
        self.context.agents.models.clear()
        if user_input is not None and self.servers is not None:
            self.context.resources = await self.servers.read_named(user_input.text)
        io = TurnIO(approver, sink, terminal, recover, at_limit, at_prompt)
        given = user_input or self.state.open_input
        if given is not None and given.beyond_model:
            answer = await self.run_other(self, user_input, io)
        else:
            answer = await run_turn(self.services, user_input, io)
        if self.memory is not None:
            self.memory.turn_ended(answer.text, at_prompt=at_prompt)
        return answer

    def _warn_of_unknown_price(self, sink: EventSink) -> None:
        money = (self.budget.limits.dollars, self.budget.session.dollars)
        if money != (None, None) and self.budget.price(Usage(), "") is None:
            sink(events.Notice(unknown_price(self.model.name, PRICES_DATE), "warning"))

    def _only_preferences(self, user_input: UserInput) -> tuple[Phrase, ...]:
        """Set what an input of preferences alone says, for a model that only writes commands."""
        memory = self.memory
        if memory is None or not self.model.one_command or not memory.only_prefers(user_input):
            return ()
        return memory.set_preferences(user_input)

    def _without_model(self, sink: EventSink, do: Callable[[], Answer]) -> Answer:
        """Run a turn that is not journaled, and for which no model is asked."""
        sink(events.TurnStarted(self.id, self.state.turn, self.model.name, self.executor.cwd))
        answer = do()
        sink(events.TurnEnded(answer))
        return answer

    async def run_shell(
        self, command: str, *, sink: EventSink, terminal: Terminal | None = None
    ) -> CommandResult:
        """Run a command of the user's own: not judged, but journaled and shown to the model."""
        return await self.runner.run_own(self.executor, command, sink, terminal)

    def steer(self, text: str) -> None:
        """Send `text` to the running turn, with its next model call."""
        given = self.journal.given
        text = self.journal.redact(given.named_in(text))
        told = secrets_told(given.untold())
        self.journal.steering.add("\n\n".join(filter(None, (text, told))))

    def keep_draft(self, text: str) -> None:
        """Keep what the user has typed and not sent, for the resume of the session."""
        self.archive.store.save_draft(self.id, self.journal.redact(text))

    def warm(self) -> None:
        """Load what the first model call needs, memories included. Called on a thread."""
        preload(self.modes.model)
        if self.memory is not None:
            self.memory.preload()

    def grant(self, report: RiskReport, offer: Offer) -> Lease:
        """Grant what was offered for this session, and journal it."""
        lease = self.policy.grant(report, offer, self.executor.cwd)
        self._note_lease(lease)
        return lease

    def save_permission(self, report: RiskReport, offer: Offer) -> Permission:
        """Grant what was offered for the project, and journal it.

        Raises `KognitermError` when it cannot be saved.
        """
        permission = self.policy.save(report, offer, self.executor.cwd)
        self._note_lease(permission.lease)
        return permission

    def _note_lease(self, lease: Lease) -> None:
        self.journal.record(Noted("lease", {"granted": lease.id, "text": str(lease.text)}))

    def revoke(self, lease_id: str) -> Lease:
        """Revoke a lease and journal it. Raises `UsageError` for an unknown id."""
        lease = self.policy.revoke(lease_id)
        self.journal.record(Noted("lease", {"revoked": lease.id}))
        return lease

    def use_model(self, name: str, effort: str | None = None) -> None:
        """Use another model from the next call on, with the effort if it has it.

        Without an `effort` the one in use is kept where the model has it, too; an empty one is the
        provider's default. Raises `UsageError` or `ModelError`.
        """
        model = self.open_model(name, self.model.effort if effort is None else effort)
        if effort and model.info.effort != effort:
            raise no_such_effort(model.info, effort)
        self.budget.settle(self.state.usage, self.state.others_usage)
        self.modes.use_model(model)
        if self.memory is not None:
            self.memory.use_model(model)
        self.journal.record(Note.MODEL.record(self.model.name))

    def use_mode(self, mode: ApprovalMode) -> None:
        """Change the approval mode, from the next action on.

        Raises `UsageError` for plan mode with a model that cannot plan.
        """
        if mode == "plan":
            self._require_planning()
        use_mode(self.journal, self.modes, mode)

    def _require_planning(self) -> None:
        """Raise `UsageError` when the model cannot plan."""
        if self.model.one_command:
            raise UsageError(
                "Model {model} is too small to make plans. Choose another with --model.",
                model=self.model.name,
            )
        why = self.tools.refusal(MAKE_PLAN.name)
        if why is not None:
            raise UsageError("The tool {name} is switched off: {why}", name=MAKE_PLAN.name, why=why)

    def use_plan_mode(self, mode: PlanMode) -> None:
        """Change when plans are made."""
        self.modes.planning = mode
        self.journal.record(Note.PLAN_MODE.record(mode))

    def end_jobs(self) -> tuple[LeftRunning, ...]:
        """End what commands left running, unless it is to stay; return what became of each.

        Where anything was running, no command can run afterwards.
        """
        if any(job.state == "running" for job in self.executor.jobs()):
            self.executor.close()
        redact = self.journal.redact_command
        return tuple(replace(one, command=redact(one.command)) for one in self.executor.left)

    async def finish(self, reason: str = "other") -> None:
        """Stop learning and release the model. Call before `close`.

        `reason` is what hooks are told about the end.
        """
        await self.hooks.end(reason, lambda event: None)
        if self.memory is not None:
            await self.memory.finish()
        if self.servers is not None:
            await self.servers.close()
        self.archive.expire()
        await self.open_model.close()
        if self.telemetry is not None:
            await self.telemetry.finish()

    def close(self) -> None:
        """End what still runs and release the session for others. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        self.executor.close()
        if self.telemetry is not None:
            self.telemetry.end()
        if self.memory is not None:
            self.memory.close()
        self.journal.journal.close()
        self.archive.store.close()


def _logged(session_id: str, sink: EventSink) -> EventSink:
    """Return `sink`, with each event logged first where debug lines are wanted.

    All log lines of this task get the ID of the session.
    """
    logs.SESSION.set(session_id)
    if not logging.getLogger(__name__).isEnabledFor(logging.DEBUG):
        return sink
    from kogniterm.runtime.turn_log import logging_sink

    return logging_sink(sink)


def _refused(why: Phrase) -> Answer:
    """Return the answer to an input that a hook refused."""
    return Answer("", "refused", EXIT_REFUSED, why, refused_by="hook")


def _told(news: tuple[Phrase, ...], sink: EventSink) -> Answer:
    """Tell each of `news`; the answer of such a turn is empty."""
    for one in news:
        sink(events.Notice(one))
    return Answer("")
