"""The parts of a live session, put together. Heavy: imported when a session is opened."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from secrets import token_bytes
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from kogniterm import prompts
from kogniterm.agent.compaction import observation_limit
from kogniterm.approval.analysis.paths_and_variables import is_secret
from kogniterm.errors import StorageError
from kogniterm.execution import open_executor
from kogniterm.execution.command_output import KeptOutputs, OutputStore
from kogniterm.execution.executor import CommandExecutor
from kogniterm.execution.hosts.ansible_hosts import AnsibleHosts
from kogniterm.execution.undo import PreimageStore
from kogniterm.host.safe_files import resolved
from kogniterm.memory import open_memory
from kogniterm.memory.contexts import SessionContext
from kogniterm.memory.project.project_profile import project_root
from kogniterm.memory.search.minilm import vectors_installed
from kogniterm.models import OpenModels
from kogniterm.models.catalog import cost_of
from kogniterm.models.local.bank import LearnedExamples
from kogniterm.paths import Paths
from kogniterm.prompts import PromptFile
from kogniterm.protocols import Model, SystemClock
from kogniterm.runtime.budgets import Budget, Limits
from kogniterm.runtime.context import ContextService, system_message, use_instructions
from kogniterm.runtime.extensions.hooks.hook_points import Hooks
from kogniterm.runtime.extensions.hooks.hook_service import HookService
from kogniterm.runtime.extensions.hooks.hook_setup import (
    HookSurroundings,
    known_secrets,
    open_hooks,
)
from kogniterm.runtime.extensions.servers.mcp_servers import McpServers
from kogniterm.runtime.extensions.servers.open_servers import Surroundings, open_servers
from kogniterm.runtime.extensions.session_agents import session_agents
from kogniterm.runtime.extensions.skills.skill_service import SkillService
from kogniterm.runtime.extensions.skills.skill_sources import SkillSources
from kogniterm.runtime.gate import Gate
from kogniterm.runtime.runner import Runner
from kogniterm.runtime.services.archive import FirstWalk, SessionArchive
from kogniterm.runtime.services.forget_service import ForgetService
from kogniterm.runtime.services.host_commands import (
    DEFAULT_TIMEOUT,
    HostCommands,
    inventory_files,
    session_inventory,
)
from kogniterm.runtime.services.memory_service import MemoryService
from kogniterm.runtime.services.policy_service import PolicyService, open_policy, states_of
from kogniterm.runtime.services.session_prompts import prompts_of_session
from kogniterm.runtime.services.side_by_side import SideBySide
from kogniterm.runtime.services.tool_service import ToolService, ToolSet, gather_tools
from kogniterm.runtime.services.undo_service import UndoService
from kogniterm.runtime.services.user_secrets import (
    LEAST_HIDDEN,
    UserSecrets,
    own_parts,
    without_own,
)
from kogniterm.runtime.session import LiveSession
from kogniterm.runtime.telemetry.telemetry_session import (
    Telemetry,
    missing_packages,
    not_installed,
)
from kogniterm.runtime.trust.instruction_texts import NestedInstructions, in_force, too_much
from kogniterm.runtime.trust.project_places import ProjectFile, walk
from kogniterm.runtime.trust.project_scanner import ProjectScanner
from kogniterm.runtime.trust.trust_store import (
    TrustStore,
    policy_texts,
    trusted_files,
)
from kogniterm.runtime.turn_journal import JournalLookup, TurnJournal
from kogniterm.runtime.turn_ports import (
    AskPort,
    ModelQuestions,
    ModelSearch,
    PlanSettings,
    SessionModes,
    TurnIO,
)
from kogniterm.sessions.fold import Note, SessionState
from kogniterm.sessions.journal.journal import SessionJournal
from kogniterm.sessions.records import Noted
from kogniterm.sessions.store import SessionStore, conversation
from kogniterm.settings import Settings
from kogniterm.settings.telemetry_variables import TelemetryVariables
from kogniterm.storage.folders import private_folder
from kogniterm.storage.user_key import read_key
from kogniterm.text.redact import Redactor, labels_in, redact, session_label
from kogniterm.text.session_ids import SessionId
from kogniterm.tools.mcp.server_config import ServerConfig
from kogniterm.tools.tool_registry import ToolPorts, session_tools
from kogniterm.types import Answer, ApprovalMode, Phrase, UserInput

if TYPE_CHECKING:
    from kogniterm.execution.command_script import CommandScript

_SETTLED = (
    Phrase(
        "{count} outcome that could not be saved to the database earlier is now in the journal."
    ),
    Phrase(
        "{count} outcomes that could not be saved to the database earlier are now in the journal."
    ),
)
"""The notice for one outcome, and for several."""
_DAMAGED = (
    Phrase("{count} damaged record of this session was left out: {numbers}."),
    Phrase("{count} damaged records of this session were left out: {numbers}."),
)


@dataclass(frozen=True, slots=True)
class SessionInputs:
    """The inputs of a session besides its journal; `notices` are shown to the user."""

    settings: Settings
    paths: Paths
    environ: Mapping[str, str]
    user: str
    opened: ExitStack
    """Closes what was opened for a session that cannot be completed."""
    telemetry: TelemetryVariables
    """The telemetry that the environment asks for."""
    notices: tuple[Phrase, ...] = ()
    prompts: Mapping[str, PromptFile] = field(default_factory=dict)
    """The user's own texts for the model, for a new session."""
    commands: CommandScript | None = None
    """Answers commands; without it they run."""
    tools: Sequence[Callable[..., Any]] = ()
    """Functions of the program that runs the agent, marked as tools."""
    servers: Sequence[ServerConfig] = ()
    """MCP servers that the user's editor names, besides those of files."""


def assemble(
    given: SessionInputs,
    journal: SessionJournal,
    store: SessionStore,
    open_model: OpenModels,
    model: Model | None = None,
) -> LiveSession:
    """Return the session of `journal`, ready for a turn, with `model` or the model it names."""
    settings, paths, state = given.settings, given.paths, journal.state
    clock, workspace, key = SystemClock(), Path(state.folder), _user_key(paths)
    modes = _modes(settings, state, model or open_model(state.model))
    seen, secrets = walk(workspace), _redactor(given, journal)
    project, told = trusted_files(TrustStore(paths.trust_file), workspace, seen)
    written = TurnJournal(journal, secrets, clock, key, _user_secrets(given))
    texts, of_prompts = prompts_of_session(written, given.prompts, paths.prompts)
    prompts.use(texts)
    policy = _policy(given, state, clock, policy_texts(project), written.given)
    hook_service = _hooks(given, written, modes, policy, project)
    executor = _executor(given, written, policy)
    servers = _servers(given, policy, executor, project)
    known = gather_tools(settings, policy.in_force, state.folder, given.tools, servers)
    memory, asker = _memory(given, written, journal, store, modes.model, clock), AskPort()
    sources = SkillSources(paths, workspace, Path.home())
    skills = SkillService(sources, written, modes, policy, asker)
    instructions = written.redact(in_force(paths, project))
    use_instructions(written, instructions, skills.catalogue(seen))
    days, google_key = settings.session_max_age_days, _secret(settings.google_api_key) or ""
    archive = SessionArchive(store, journal, paths, days, google_key, FirstWalk(seen))
    forget = ForgetService(archive, memory, asker)
    kept = PreimageStore(paths.of_sessions.undo / SessionId(state.session_id))
    policy.created = kept.created
    undo, hosts = UndoService(kept, workspace), _hosts(given, written, policy)
    known = _tools(known, given, written, policy, executor, forget, modes, skills, servers, hosts)
    hooks = Hooks(hook_service, shown=written.shown)
    tools = ToolService(known, policy, modes, lambda: executor.cwd, skills.unneeded, hooks, servers)
    agents = session_agents(
        paths.extensions.agents, project, known.tools, open_model, skills.preloaded
    )
    if agents.named:
        written.record(agents.note(written.redact))
    budget, environment = _budget(settings, modes), _environment_hash(given.environ)
    nested = NestedInstructions(str(resolved(workspace)), project)
    session = LiveSession(
        journal=written,
        gate=Gate(written, policy, modes, executor, environment, hooks, executor.prepare),
        runner=Runner(
            written, policy, modes, executor, tools.runnable, budget, hooks,
            keep_preimages=undo.keep, note_left=undo.note_left, answered_from=_answers(given),
            command_timeout=settings.command_timeout or None, env_hash=environment,
            of_skill=skills.runs_from, hosts=hosts, keep=_kept(written, policy, secrets).run,
        ),
        context=ContextService(
            written, modes, memory, system_message(written), tools, nested, agents, hooks,
            policy.sandbox.was_told, resumed=state.turn > 0,
        ),
        hooks=hooks, hook_service=hook_service, modes=modes, budget=budget,
        executor=executor, policy=policy, undo=undo,
        forgetting=forget, archive=archive, asker=asker,
        open_model=open_model,
        run_other=_run_other,
        beside=SideBySide(policy, modes, executor, settings.parallel_commands),
        memory=memory,
        tools=tools,
        skills=skills,
        servers=servers,
        telemetry=_telemetry(given, written),
        prompts=texts,
        notices=(*given.notices, *_found(journal, modes.approval), *told, *of_prompts,
                 *too_much(project), *known.notices, *agents.notices, *hook_service.notices,
                 *_told_of_script(given, written), *_told_of_telemetry(given)),
    )  # fmt: skip
    _keep_modes(session)
    return session


def _telemetry(given: SessionInputs, journal: TurnJournal) -> Telemetry | None:
    """Return what observes the session; None where it was not asked for, or is not installed."""
    usable = given.telemetry.exporters and not missing_packages(given.telemetry)
    return Telemetry(given.telemetry, journal.redact) if usable else None


def _told_of_telemetry(given: SessionInputs) -> Iterator[Phrase]:
    """Yield notices about telemetry that was asked for and cannot be sent."""
    if given.telemetry.exporters and (missing := missing_packages(given.telemetry)):
        yield not_installed(missing)


async def _run_other(session: LiveSession, user_input: UserInput | None, io: TurnIO) -> Answer:
    """Run the turn of a custom command or a sub-agent, or continue that of a recipe."""
    open_input = session.state.open_input
    given = user_input or open_input
    if user_input is None and open_input is not None and open_input.source == "recipe":
        from kogniterm.runtime.use_cases.run_recipe import continue_in_session

        return await continue_in_session(session, io)
    if given is not None and given.agent:
        from kogniterm.runtime.extensions.agent_turn import run_agent

        return await run_agent(session, user_input, io)
    from kogniterm.runtime.extensions.command_lines import run_custom_command

    return await run_custom_command(session, user_input, io)


def _hooks(
    given: SessionInputs,
    journal: TurnJournal,
    modes: SessionModes,
    policy: PolicyService,
    project: Sequence[ProjectFile],
) -> HookService:
    """Return the hooks of the session; none run where no command does."""
    settings = given.settings

    def folders() -> tuple[str, str]:
        assert policy.executor is not None, "hooks run where commands run"
        temporary = Path(policy.executor.temporary_folder).with_name("hooks")
        return policy.executor.cwd, str(temporary)

    surroundings = HookSurroundings(
        settings, given.paths, journal.state.folder,
        without_own(given.environ, _known_secrets(given)), folders, policy.bounds,
    )  # fmt: skip
    enabled = given.commands is None
    return open_hooks(settings, given.paths, journal, modes, project, surroundings, enabled=enabled)


def _answers(given: SessionInputs) -> Path | None:
    return given.commands.path if given.commands is not None else None


def _told_of_script(given: SessionInputs, journal: TurnJournal) -> Iterator[Phrase]:
    """Journal that commands are answered from a file, and yield a notice of it."""
    file = _answers(given)
    if file is None:
        return
    journal.record(Noted("executor", {"answers": str(file)}))
    yield Phrase(
        "No command runs in this session: {file} answers them. Tools for files and the web are "
        "real.",
        {"file": file},
    )


def _modes(settings: Settings, state: SessionState, model: Model) -> SessionModes:
    """Return the modes that the session begins with.

    A turn that only plans goes on doing so: what it was told holds until the user ends it.
    """
    approval = "plan" if _still_planning(state) else settings.approval_mode
    plans = PlanSettings(approval=settings.plan_approval)
    return SessionModes(model, approval, settings.plan, plans)


def _policy(
    given: SessionInputs,
    state: SessionState,
    clock: SystemClock,
    rules: Mapping[str, str],
    secrets: UserSecrets,
) -> PolicyService:
    policy = open_policy(
        given.settings,
        given.paths,
        state.folder,
        now=clock.now,
        project_rules=rules,
        answered_from=_answers(given),
    )
    policy.secrets = secrets
    policy.sandbox.was_told(message.text for message in state.messages)
    return policy


def _budget(settings: Settings, modes: SessionModes) -> Budget:
    of_turn = Limits(
        steps=settings.max_steps,
        seconds=settings.max_seconds,
        tokens=settings.max_tokens,
        dollars=settings.max_cost_usd,
    )
    of_session = Limits(tokens=settings.max_session_tokens, dollars=settings.max_session_cost_usd)
    return Budget(
        of_turn,
        of_session,
        price=lambda usage, model: cost_of(model or modes.model.info.name, usage),
    )


def _tools(
    known: ToolSet,
    given: SessionInputs,
    journal: TurnJournal,
    policy: PolicyService,
    executor: CommandExecutor,
    forgetting: ForgetService,
    modes: SessionModes,
    skills: SkillService,
    servers: McpServers,
    hosts: HostCommands,
) -> ToolSet:
    """Return the tools that are `known`, those of the session able to run."""
    settings, memory = given.settings, forgetting.memory
    ports = ToolPorts(
        lambda: executor.cwd, journal.state.folder, _outputs(given), is_secret, executor,
        ModelQuestions(forgetting.asker),
        memory.context.for_tools() if memory is not None else None, JournalLookup(journal),
        forgetting if memory is not None else None, ModelSearch(modes), skills, servers, hosts,
        journal.secrets.carry, lambda: observation_limit(modes.model.info.context_window),
        policy.sandbox.of_job,
    )  # fmt: skip
    usable = session_tools(
        ports,
        brave_key=_secret(settings.brave_api_key),
        github_token=_secret(settings.github_token),
    )
    return known.with_session(usable)


def _hosts(given: SessionInputs, journal: TurnJournal, policy: PolicyService) -> HostCommands:
    """Return the hosts of the session, which are looked up once they are needed."""
    settings, workspace = given.settings, journal.state.folder
    known = None
    if settings.hosts_inventory is not None:
        trust = given.paths.trust_file
        known = session_inventory(settings.hosts_inventory, workspace, trust)
        policy.inventory_states = states_of(inventory_files(known), policy.workspace)
    runner = partial(AnsibleHosts, journal.redact)  # and with the user's passwords
    return HostCommands(
        journal, known, runner, settings.hosts_limit,
        int(settings.command_timeout) or DEFAULT_TIMEOUT,
    )  # fmt: skip


def _servers(
    given: SessionInputs,
    policy: PolicyService,
    executor: CommandExecutor,
    project: Sequence[ProjectFile],
) -> McpServers:
    """Return the session's MCP servers, of which none is started."""
    bounds = None if given.settings.sandbox == "off" else policy.bounds
    place = Surroundings(
        policy.workspace, given.environ, bounds, lambda: executor.temporary_folder, project
    )
    return open_servers(given.paths, place, given.servers)


def _keep_modes(session: LiveSession) -> None:
    """Journal the modes of this process, where the process before had others."""
    modes, before = session.modes, session.state
    if modes.approval != before.mode:
        session.use_mode(modes.approval)
    if modes.planning != before.plan_mode:
        session.use_plan_mode(modes.planning)


def _still_planning(state: SessionState) -> bool:
    """Return whether a turn that began in plan mode is open, with no plan started."""
    return state.open_turn and state.mode == "plan"


def _found(journal: SessionJournal, mode: ApprovalMode) -> Iterator[Phrase]:
    """Yield notices about the state in which the session was found."""
    before = journal.state.mode
    if _still_planning(journal.state):
        yield Phrase("The last turn was in plan mode and stays in it; to end it: /mode ask")
    elif before != "manual" and mode == "manual":
        # A mode is a permission, which ends with the process that it was given to.
        yield Phrase(
            "This session was in {mode} mode. It now asks before commands "
            "again; to switch back, use /mode {mode}, or start with "
            "--mode {mode}.",
            {"mode": before},
        )
    if journal.taken_from is not None:
        dead = journal.taken_from
        yield Phrase(
            "KogniTerm ended unexpectedly the last time this session was open "
            "(process {process} on {host}).",
            {"process": dead.pid, "host": dead.host},
        )
    if journal.settled:
        yield Phrase(_SETTLED[journal.settled > 1].template, {"count": journal.settled})
    if journal.damaged:
        count = len(journal.damaged)
        more = ", …" if count > 10 else ""
        numbers = ", ".join(map(str, journal.damaged[:10])) + more
        yield Phrase(_DAMAGED[count > 1].template, {"count": count, "numbers": numbers})


def _outputs(given: SessionInputs) -> OutputStore:
    """Return the store of whole outputs, after removing what is too old or too much."""
    settings = given.settings
    outputs = OutputStore(
        given.paths.of_sessions.outputs,
        quota_bytes=settings.output_quota_mb * 1_000_000,
        max_age=settings.output_max_age_days * 86_400,
    )
    outputs.prune()
    return outputs


def _executor(given: SessionInputs, written: TurnJournal, policy: PolicyService) -> CommandExecutor:
    state = written.state
    folder = state.cwd if Path(state.cwd).is_dir() else state.folder
    outputs = written.outputs = given.paths.of_sessions.outputs / SessionId(state.session_id)
    if given.commands is not None:
        from kogniterm.execution.command_script import AnsweringExecutor

        answering = AnsweringExecutor(given.commands, folder, outputs=outputs)
        written.given.tell = partial(_hide, written, answering)
        return answering
    executor = open_executor(
        folder,
        env=without_own(given.environ, _known_secrets(given)),
        outputs=outputs,
        workspace=state.folder,
        input_wait=given.settings.input_wait_limit,
        outlives="nothing" if given.settings.end_jobs else "detached",
    )
    given.opened.callback(executor.close)
    long = (one for one in own_parts(_known_secrets(given)) if len(one) > LEAST_HIDDEN)
    executor.withheld = tuple(_as_printed(long))  # a short one is part of any line
    written.given.tell = partial(_hide, written, executor)
    policy.executor, policy.sandbox.temporary = executor, executor.temporary_folder
    return executor


def _kept(written: TurnJournal, policy: PolicyService, secrets: Redactor) -> KeptOutputs:
    """Return what copies whole outputs to where the sandbox of this session shows them."""
    assert written.outputs is not None
    folder, box = written.outputs / "readable", policy.sandbox.box
    if box is not None:
        private_folder(folder)  # only one that exists is shown
        policy.sandbox.box = replace(box, shown=(*box.shown, str(folder)))
    return KeptOutputs(folder, secrets)


def _memory(
    given: SessionInputs,
    written: TurnJournal,
    journal: SessionJournal,
    store: SessionStore,
    model: Model,
    clock: SystemClock,
) -> MemoryService | None:
    """Return memory bound to this user and folder; None when it is switched off.

    The steps of plans find the user's preferences through `written`.
    """
    settings, paths, state = given.settings, given.paths, journal.state
    if settings.memory == "off":
        return None
    shared = settings.database_url
    memory = open_memory(
        shared.get_secret_value() if shared is not None else paths.database,
        user=given.user,
        project=str(project_root(Path(state.folder))),
        vectors=vectors_installed(),
        clock=clock,
        redact=redact,
        key_file=paths.data / "memory-key",
        heads=paths.data,
        paths=(paths.data,),
    )
    context = SessionContext(memory, state.session_id, mode=settings.memory)
    context.resumed(message.text for message in state.messages)
    learns = settings.learn_commands and given.commands is None
    examples = LearnedExamples(paths.learned_examples) if learns else None
    scanner = _scanner(given, state, clock, context)
    real = given.commands is None
    service = MemoryService(
        context, journal, scanner, partial(conversation, store), examples, real_commands=real
    )
    service.use_model(model)
    written.preferences = service.preferences
    return service


def _scanner(
    given: SessionInputs, state: SessionState, clock: SystemClock, context: SessionContext
) -> ProjectScanner:
    """Return what scans the workspace; it has begun where the user trusts the folder."""
    folder = Path(state.folder)
    trust, profiles = TrustStore(given.paths.trust_file), context.memory.projects
    scanner = ProjectScanner(
        resolved(folder),
        clock,
        lambda: trust.knows(folder),
        lambda: profiles if context.mode == "full" else None,
    )
    scanner.look()
    return scanner


def _user_key(paths: Paths) -> bytes:
    """Return the user's key; where none can be kept, one for this process alone."""
    try:
        return read_key(paths.user_key)
    except StorageError:
        return token_bytes(32)


def _secret(value: SecretStr | None) -> str | None:
    return value.get_secret_value() if value is not None else None


def _redactor(given: SessionInputs, journal: SessionJournal) -> Redactor:
    """Return what replaces secrets; placeholders of earlier processes get no new meaning."""
    state = journal.state
    # A fork goes on with the history of another session, whose placeholders it is to know.
    others = labels_in(one.text for one in state.messages) if state.parent else ()
    label = session_label(state.session_id)
    return Redactor(_known_secrets(given), label=label, after=state.secret_numbers, others=others)


def _known_secrets(given: SessionInputs) -> tuple[str, ...]:
    """Return every secret of the settings, and those for a collector in the environment."""
    return (*known_secrets(given.settings), *given.telemetry.secrets)


def _user_secrets(given: SessionInputs) -> UserSecrets:
    """Return the place of the user's secrets; none has the name of a setting's variable."""
    from kogniterm.settings.schema import names_of

    reserved = {name for field in Settings.model_fields for name in names_of(field)}
    return UserSecrets(_known_secrets(given), reserved)


def _hide(journal: TurnJournal, executor: CommandExecutor, values: Mapping[str, str]) -> None:
    """Let nothing show or keep the values of the user's secrets."""
    journal.secrets.know(values.values())
    if new := [name for name in values if name not in journal.state.user_secrets]:
        journal.record(Noted(Note.USER_SECRETS, {Note.USER_SECRETS: new}))
    shown = {value: journal.redact(value) for value in values.values()}
    executor.hidden = {
        as_printed.encode("utf-8", "surrogateescape"): mark.encode()
        for value, mark in shown.items()
        if mark != value
        for as_printed in (value, value.replace("\n", "\r\n"))
    }


def _as_printed(values: Iterable[str]) -> Iterator[bytes]:
    """Yield values as they are, and as a shell prints them in double quotes."""
    for value in values:
        yield value.encode("utf-8", "surrogateescape")
        yield re.sub(r'([\\"$`])', r"\\\1", value).encode("utf-8", "surrogateescape")


def _environment_hash(environ: Mapping[str, str]) -> str:
    """Return a digest that only shows whether two environments are the same."""
    text = "\0".join(f"{key}={value}" for key, value in sorted(environ.items()))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
