"""A live session: opened, driven turn by turn and closed by REPL, one-shot and scripted mode.

`runtime/input_steps.py` holds what happens to an input before its turn.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from kogniterm.agent.plan.plan_tools import MAKE_PLAN
from kogniterm.errors import UsageError
from kogniterm.execution.effect_preview import UndoService
from kogniterm.execution.executor import CommandExecutor
from kogniterm.models import OpenModels, preload
from kogniterm.models.model_registry import no_such_effort
from kogniterm.paths import SessionId
from kogniterm.prompts import PromptFile
from kogniterm.protocols import Approver, EventSink, Terminal
from kogniterm.runtime.context import ContextService
from kogniterm.runtime.extensions.extension_port import ExtensionPort
from kogniterm.runtime.extensions.hooks.hook_service import HookService
from kogniterm.runtime.extensions.servers.mcp_servers import McpServers
from kogniterm.runtime.extensions.session_agents import SessionAgents
from kogniterm.runtime.extensions.skills.skill_service import SkillService
from kogniterm.runtime.extensions.tool_service import ToolService
from kogniterm.runtime.services.archive import SessionArchive
from kogniterm.runtime.services.forget_service import ForgetService
from kogniterm.runtime.services.memory_service import MemoryService
from kogniterm.runtime.services.policy_service import PolicyService
from kogniterm.runtime.turn import TurnServices, run_turn
from kogniterm.runtime.turn_journal import TurnJournal, secrets_told
from kogniterm.runtime.turn_ports import Ask, AskPort, AtLimit, Recover, SessionModes, TurnIO
from kogniterm.runtime.user_secrets import AskSecret
from kogniterm.sessions.fold import Note, SessionState
from kogniterm.types import (
    Answer,
    ApprovalMode,
    CommandResult,
    LeftRunning,
    ModelInfo,
    Phrase,
    PlanMode,
    UserInput,
)


class InputStep(NamedTuple):
    """A step between an input and its turn, see `runtime/input_steps.py`."""

    name: str
    take: Callable[[LiveSession, Any, TurnIO], Awaitable[Answer | None]]
    """Returns an answer where there is no turn. The input is None where a turn is resumed."""
    runs: Literal["always", "input", "new turn"] = "always"
    answers: str = ""
    """The answer that it may give."""
    stops: str = ""
    """The part of the turn that it may keep from happening."""

    def concerns(self, user_input: UserInput | None, state: SessionState) -> bool:
        """Return whether it is taken for this input."""
        if self.runs == "always":
            return True
        return user_input is not None and not (self.runs == "new turn" and state.open_turn)


@dataclass(slots=True)
class Extensions:
    """The additions of the user, the project and other programs to one session."""

    port: ExtensionPort
    hook_service: HookService
    skills: SkillService
    agents: SessionAgents
    servers: McpServers
    tools: ToolService
    asker: AskPort
    """Asks the user on behalf of a tool, a skill, a server or a custom command."""
    prompts: Mapping[str, PromptFile] = field(default_factory=dict)
    """The user's own texts for the model, which a session keeps."""
    declined: set[str] = field(default_factory=set)
    """The custom commands whose permissions the user did not grant."""


@dataclass(slots=True)
class LiveSession:
    """One session, open in this process. Built by `runtime.build.open_session`."""

    services: TurnServices
    open_model: OpenModels
    policy: PolicyService
    executor: CommandExecutor
    undo: UndoService
    archive: SessionArchive
    memory: MemoryService | None
    forgetting: ForgetService
    extensions: Extensions
    steps: Sequence[InputStep]
    notices: tuple[Phrase, ...] = ()
    opened: ExitStack = field(default_factory=ExitStack)
    """Releases what was opened for the session, the last of it first."""

    @property
    def journal(self) -> TurnJournal:
        return self.services.journal

    @property
    def context(self) -> ContextService:
        return self.services.context

    @property
    def modes(self) -> SessionModes:
        return self.services.modes

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
        work: Callable[[LiveSession, TurnIO], Awaitable[Answer]] | None = None,
    ) -> Answer:
        """Run one turn; None resumes the turn that is open. Cancel the task to stop it.

        With `at_prompt` a user sits at the prompt; see `TurnIO`. `park` takes questions of the
        model, see `AskPort`, and `ask_secret` for the value of a secret, without an echo. `work`
        does the input in place of the model; no turn begins but behind the steps.

        Raises `UsageError` where a step refuses the input.
        """
        io = TurnIO(approver, sink, terminal, recover, at_limit, at_prompt, ask, park, ask_secret)
        for step in self.steps:
            if step.concerns(user_input, self.state):
                answer = await step.take(self, user_input, io)
                if answer is not None:
                    return answer
        if work is not None:
            return await work(self, io)
        return await run_turn(self.services, user_input, io)

    async def run_shell(
        self, command: str, *, sink: EventSink, terminal: Terminal | None = None
    ) -> CommandResult:
        """Run a command of the user's own: not judged, but journaled and shown to the model."""
        return await self.services.runner.run_own(self.executor, command, sink, terminal)

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

    def use_model(self, name: str, effort: str | None = None) -> None:
        """Use another model from the next call on, with the effort if it has it.

        Without an `effort` the one in use is kept where the model has it, too; an empty one is the
        provider's default. Raises `UsageError` or `ModelError`.
        """
        model = self.open_model(name, self.model.effort if effort is None else effort)
        if effort and model.info.effort != effort:
            raise no_such_effort(model.info, effort)
        self.services.budget.settle(self.state.usage, self.state.others_usage)
        self.modes.use_model(model)
        if self.memory is not None:
            self.memory.use_model(model)
        self.journal.record(Note.MODEL.record(self.model.name))

    def use_mode(self, mode: ApprovalMode) -> None:
        """Change the approval mode, from the next action on.

        Raises `UsageError` for plan mode with a model that cannot plan.
        """
        if mode == "plan":
            self.require_planning()
        self.modes.use_approval(mode, self.journal.record)

    def require_planning(self) -> None:
        """Raise `UsageError` when the model cannot plan."""
        if self.model.one_command:
            raise UsageError(
                "Model {model} is too small to make plans. Choose another with --model.",
                model=self.model.name,
            )
        why = self.extensions.tools.refusal(MAKE_PLAN.name)
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
        return tuple(one._replace(command=redact(one.command)) for one in self.executor.left)

    async def finish(self, reason: str = "other") -> tuple[Phrase, ...]:
        """Stop learning and release the model; return what the user is told. Call before `close`.

        `reason` is what extensions are told about the end.
        """
        told = await self.extensions.port.closed(reason)
        if self.memory is not None:
            await self.memory.finish()
        self.archive.expire()
        await self.open_model.close()
        return told

    def close(self) -> None:
        """End what still runs and release the session for others. Safe to call twice."""
        self.opened.close()
