"""A session that plays prepared events, with the interface of `runtime.session.LiveSession`.

For tests of the screen alone, where the timing of events matters; flows use the real thing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, ClassVar

from kogniterm.approval.policy.leases import Lease, Offer
from kogniterm.approval.policy.permission_file import Permission
from kogniterm.approval.policy.verdict import Circumstances
from kogniterm.errors import KognitermError
from kogniterm.paths import ExtensionPaths
from kogniterm.runtime.extensions.extension_port import ExtensionPort
from kogniterm.runtime.trust.project_places import ProjectFile
from kogniterm.runtime.turn_journal import Steering
from kogniterm.sessions.records import Record
from kogniterm.types import (
    ActionRequest,
    Answer,
    ApprovalMode,
    CommandResult,
    Decision,
    Effect,
    Job,
    LeftRunning,
    ModelInfo,
    Phrase,
    Plan,
    RiskReport,
    ToolSpec,
    Usage,
    UserInput,
    Verdict,
)
from kogniterm.types import events as ev
from kogniterm.ui.screen.paint import Painter
from kogniterm.ui.screen.screen_preferences import choose_theme

PLAIN = Painter(choose_theme("plain", color=False, background=None), attributes=False)
"""A painter of plain text."""
Play = Callable[["PlayedSession", UserInput | None, Any, Any], Awaitable[None]]


@dataclass
class PlayedExecutor:
    """An executor without processes, with a list of jobs."""

    cwd: str = "/work/project"
    running: tuple[Job, ...] = ()

    def jobs(self) -> tuple[Job, ...]:
        return self.running


@dataclass
class PlayedState:
    open_turn: bool = False
    unknown: tuple[object, ...] = ()
    turn: int = 0
    messages: tuple[()] = ()
    draft: str = ""
    title: str = "a title"
    usage: Usage = field(default_factory=Usage)
    others_usage: Mapping[str, Usage] = field(default_factory=dict)
    plan: Plan | None = None


@dataclass
class PlayedModes:
    approval: ApprovalMode = "manual"
    planning: str = "auto"


@dataclass
class PlayedStop:
    requested: asyncio.Event = field(default_factory=asyncio.Event)

    def request(self, by: str = "") -> None:
        self.requested.set()


@dataclass
class PlayedRunner:
    stopping: PlayedStop = field(default_factory=PlayedStop)


@dataclass
class PlayedJournal:
    steering: Steering = field(default_factory=Steering)

    def redact(self, text: str) -> str:
        return text

    def show_request(self, request: ActionRequest) -> ActionRequest:
        return request

    def shown_judgement(self, report: RiskReport, verdict: Verdict) -> tuple[RiskReport, Verdict]:
        return report, verdict

    def redact_command(self, command: str) -> str:
        return command

    def records(self) -> Sequence[Record]:
        return ()


@dataclass
class PlayedContext:
    used_tokens: int = 0
    extensions: ExtensionPort = field(default_factory=ExtensionPort)

    def offered_tools(self) -> tuple[ToolSpec, ...]:
        return (ToolSpec("read_file", "Read a file.", {}),)


@dataclass
class PlayedBudget:
    def price(self, usage: Usage) -> float | None:
        return 0.0123

    def total(self, used: Usage, others: Mapping[str, Usage]) -> float | None:
        return self.price(used)


@dataclass
class PlayedUndo:
    """An undo service without files."""

    def preview(self, request: ActionRequest, report: RiskReport) -> Sequence[Phrase] | None:
        return None


@dataclass
class PlayedPolicy:
    sandboxed: bool = True
    auto_works: bool = True
    offered: tuple[Offer, ...] = ()
    savable: bool = True
    circumstances: Circumstances = field(default_factory=Circumstances)
    granted: list[tuple[str, bool]] = field(default_factory=list)
    refuses_to_save: bool = False

    def grant(self, report: RiskReport, offer: Offer, cwd: str) -> None:
        self.granted.append((offer.kind, False))

    def save(self, report: RiskReport, offer: Offer, cwd: str) -> Permission:
        if self.refuses_to_save:
            raise KognitermError("The permission was not saved: no space left.")
        self.granted.append((offer.kind, True))
        return Permission(Lease("p1", "exact", report, cwd, cwd), "1:2", date(2026, 1, 2))

    def offers(self, request: ActionRequest, report: RiskReport, cwd: str) -> tuple[Offer, ...]:
        return self.offered

    def can_be_saved(self, report: RiskReport, offer: Offer, cwd: str) -> bool:
        return self.savable


@dataclass
class PlayedPaths:
    config: Path = Path("/nowhere")
    config_file: Path = Path("/nowhere/config.toml")
    permissions_file: Path = Path("/nowhere/permissions.toml")

    @property
    def extensions(self) -> ExtensionPaths:
        return ExtensionPaths(self.config, self.config)


class PlayedStore:
    """A store of sessions of which none was used yet."""

    def is_used(self, session_id: str) -> bool:
        return False


@dataclass
class PlayedArchive:
    """An archive without stored files, with the names and texts of a trusted project's commands."""

    paths: PlayedPaths = field(default_factory=PlayedPaths)
    commands: tuple[tuple[str, str], ...] = ()
    store: Any = field(default_factory=PlayedStore)

    def project_commands(self) -> tuple[ProjectFile, ...]:
        return tuple(ProjectFile(name, "command", "", text) for name, text in self.commands)


class PlayedSkills:
    """No skills at all."""

    def commands(self, taken: object) -> tuple[tuple[str, str], ...]:
        return ()


class PlayedServers:
    """No MCP servers at all."""

    servers: ClassVar[Mapping[str, object]] = {}

    def resource_names(self) -> tuple[tuple[str, str], ...]:
        return ()


@dataclass
class PlayedExtensions:
    skills: PlayedSkills = field(default_factory=PlayedSkills)
    servers: PlayedServers = field(default_factory=PlayedServers)
    port: ExtensionPort = field(default_factory=ExtensionPort)


@dataclass
class PlayedServices:
    runner: PlayedRunner = field(default_factory=PlayedRunner)
    budget: PlayedBudget = field(default_factory=PlayedBudget)


@dataclass
class PlayedSession:
    """A session that calls `play` for each turn with (session, input, approver, sink)."""

    play: Play
    id: str = "20260101-abcdef"
    folder: str = "/work/project"
    model: ModelInfo = field(
        default_factory=lambda: ModelInfo("scripted:demo.yaml", "scripted", 32_000, 4_000)
    )
    executor: PlayedExecutor = field(default_factory=PlayedExecutor)
    state: PlayedState = field(default_factory=PlayedState)
    inputs: list[UserInput | None] = field(default_factory=list)
    shells: list[str] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    stopped: int = 0
    closed: bool = False
    memory: None = None
    undo: Any = field(default_factory=PlayedUndo)
    policy: PlayedPolicy = field(default_factory=PlayedPolicy)
    archive: PlayedArchive = field(default_factory=PlayedArchive)
    extensions: PlayedExtensions = field(default_factory=PlayedExtensions)
    services: PlayedServices = field(default_factory=PlayedServices)
    modes: PlayedModes = field(default_factory=PlayedModes)
    journal: PlayedJournal = field(default_factory=PlayedJournal)
    context: PlayedContext = field(default_factory=PlayedContext)

    @property
    def command_stopped(self) -> asyncio.Event:
        return self.services.runner.stopping.requested

    async def run(
        self, user_input: UserInput | None, *, approver: Any, sink: Any, **_: Any
    ) -> Answer:
        self.inputs.append(user_input)
        sink(ev.TurnStarted(self.id, len(self.inputs), self.model.name, self.folder))
        try:
            await self.play(self, user_input, approver, sink)
            answer = Answer("", usage=Usage(1200, 340, 800, 2))
        except asyncio.CancelledError:
            self.stopped += 1
            answer = Answer("", "interrupted", 130, Phrase("The turn was stopped."))
        sink(ev.TurnEnded(answer))
        return answer

    async def run_shell(self, command: str, *, sink: Any, **_: Any) -> CommandResult:
        self.shells.append(command)
        return show_command(sink, command, b"mine\n")

    def keep_draft(self, text: str) -> None:
        self.state.draft = text

    def steer(self, text: str) -> None:
        self.journal.steering.add(text)

    def end_jobs(self) -> tuple[LeftRunning, ...]:
        return ()

    def use_model(self, name: str) -> None:
        self.model = ModelInfo(name, name.partition(":")[0], 32_000, 4_000)

    def use_mode(self, mode: ApprovalMode) -> None:
        self.modes.approval = mode

    def use_plan_mode(self, mode: str) -> None:
        self.modes.planning = mode

    async def finish(self, reason: str = "other") -> tuple[Phrase, ...]:
        return ()

    def close(self) -> None:
        self.closed = True


def request(command: str, **changes: Any) -> ActionRequest:
    """Return an action request to run `command`."""
    given: dict[str, Any] = {"id": "1-1", "call_id": "c1", "tool": "execute_command"}
    given |= {"command": command, "purpose": "to see what happens"} | changes
    return ActionRequest(**given)


def report(command: str, label: str = "needs_approval") -> RiskReport:
    """Return a risk report with a reason and an effect."""
    return RiskReport(
        command,
        label,  # type: ignore[arg-type]
        (Phrase("{program} deletes files", {"program": "rm"}),),
        (Effect("delete", "build", False),),
        (("rm", "-r", "build"),),
    )


ASK = Verdict("ask", (Phrase("manual mode asks before every command"),))


async def ask(
    session: PlayedSession, approver: Any, sink: Any, command: str, label: str = "needs_approval"
) -> Decision:
    """Propose `command` as the runtime would: an edit is classified and asked about again."""
    asked = request(command)
    while True:
        judged = report(asked.command, label)
        sink(ev.ActionProposed(asked, judged, ASK, session.executor.cwd))
        decision: Decision = await approver.decide(asked, judged, ASK)
        session.decisions.append(decision)
        if decision.kind != "edit":
            sink(ev.ActionDecided(asked, decision))
            return decision
        asked = request(decision.command)


def show_command(sink: Any, command: str, output: bytes, exit_code: int = 0) -> CommandResult:
    """Show a command that runs and ends at once."""
    result = CommandResult(
        command, "exited", exit_code, output.decode(), 0.5, "/work/project",
        output_bytes=len(output),
    )  # fmt: skip
    sink(ev.CommandStarted("1-1", command, "/work/project"))
    sink(ev.CommandOutput("1-1", output))
    sink(ev.CommandEnded("1-1", result))
    return result


async def nothing(*_given: object) -> None:
    """Play no turn."""
