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
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import SecretStr

from kogniterm import prompts
from kogniterm.agent.compaction import observation_limit
from kogniterm.approval.analysis.paths_and_variables import is_secret
from kogniterm.errors import StorageError
from kogniterm.execution import open_executor
from kogniterm.execution.command_output import KeptOutputs, OutputStore
from kogniterm.execution.effect_preview import UndoService
from kogniterm.execution.executor import CommandExecutor
from kogniterm.execution.undo import PreimageStore
from kogniterm.host.safe_files import resolve_path
from kogniterm.installed import parts
from kogniterm.memory import open_memory
from kogniterm.memory.contexts import SessionContext
from kogniterm.memory.project import ProjectScanner, project_root
from kogniterm.memory.user_memory import vectors_installed
from kogniterm.models import OpenModels
from kogniterm.models.catalog import cost_of
from kogniterm.models.embedded import embedded_model
from kogniterm.paths import Paths, SessionId
from kogniterm.prompts import PromptFile
from kogniterm.protocols import Model, SystemClock, Tool
from kogniterm.runtime.budgets import Budget, Limits
from kogniterm.runtime.context import ContextService, system_message, use_instructions
from kogniterm.runtime.extensions.extension_port import (
    ActingExtension,
    Extension,
    ExtensionPort,
    SessionBasis,
)
from kogniterm.runtime.extensions.hooks.hook_points import Hooks
from kogniterm.runtime.extensions.hooks.hook_setup import (
    HookSurroundings,
    known_secrets,
    open_hooks,
)
from kogniterm.runtime.extensions.servers.mcp_servers import McpServers, Surroundings, open_servers
from kogniterm.runtime.extensions.servers.session_servers import SessionServers
from kogniterm.runtime.extensions.session_agents import SessionAgents, session_agents
from kogniterm.runtime.extensions.skills.skill_service import SkillService
from kogniterm.runtime.extensions.skills.skill_sources import SkillSources
from kogniterm.runtime.extensions.tool_service import ToolService, gather_tools
from kogniterm.runtime.gate import Gate
from kogniterm.runtime.input_steps import INPUT_STEPS
from kogniterm.runtime.runner import Runner
from kogniterm.runtime.services.archive import FirstWalk, SessionArchive
from kogniterm.runtime.services.forget_service import ForgetService
from kogniterm.runtime.services.memory_service import MemoryService
from kogniterm.runtime.services.policy_service import PolicyService, open_policy
from kogniterm.runtime.services.session_prompts import prompts_of_session
from kogniterm.runtime.session import Extensions, LiveSession
from kogniterm.runtime.side_by_side import SideBySide
from kogniterm.runtime.trust.instruction_texts import NestedInstructions, in_force, too_much
from kogniterm.runtime.trust.project_places import ProjectFile, walk
from kogniterm.runtime.trust.trust_store import TrustStore, policy_texts, trusted_files
from kogniterm.runtime.turn import TurnServices
from kogniterm.runtime.turn_journal import JournalLookup, TurnJournal
from kogniterm.runtime.turn_ports import (
    AskPort,
    ModelQuestions,
    ModelSearch,
    PlanSettings,
    SessionModes,
)
from kogniterm.runtime.user_secrets import (
    LEAST_HIDDEN,
    UserSecrets,
    own_parts,
    without_own,
)
from kogniterm.sessions.fold import Note, SessionState
from kogniterm.sessions.journal.journal import SessionJournal
from kogniterm.sessions.records import Noted
from kogniterm.sessions.store import SessionStore, conversation
from kogniterm.settings import Settings, collector_keys
from kogniterm.settings.schema import names_of
from kogniterm.storage.folders import private_folder
from kogniterm.storage.user_key import read_key
from kogniterm.text.redact import Redactor, labels_in, redact, session_label
from kogniterm.tools.mcp.server_config import ServerConfig
from kogniterm.tools.tool_registry import ToolPorts, session_tools
from kogniterm.types import ApprovalMode, Phrase

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


EXTENSIONS: tuple[type[Extension], ...] = (
    Hooks, SkillService, SessionServers, SessionAgents,
)  # fmt: skip
"""The extensions of the core, in the order in which they are called; add-ons follow."""


@dataclass(frozen=True, slots=True)
class SessionInputs:
    """The inputs of a session besides its journal; `notices` are shown to the user."""

    settings: Settings
    paths: Paths
    environ: Mapping[str, str]
    user: str
    opened: ExitStack
    """Closes what was opened for a session that cannot be completed."""
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
    state, settings = journal.state, given.settings
    # What a turn that only plans was told holds until the user ends it.
    approval = "plan" if _still_planning(state) else settings.approval_mode
    plans = PlanSettings(approval=settings.plan_approval)
    modes = SessionModes(model or open_model(state.model), approval, settings.plan, plans)
    stored = _open_storage(given, journal, store, modes.model)
    acting = _open_execution(given, stored)
    extensions = _open_extensions(given, stored, acting, modes, open_model)
    services = _turn_services(given, stored, acting, extensions, modes)
    session = LiveSession(
        services, open_model, acting.policy, acting.executor, acting.undo, stored.archive,
        stored.memory, stored.forgetting, extensions, INPUT_STEPS,
        (*given.notices, *_found(journal, modes.approval), *stored.notices,
         *extensions.tools.known.notices,
         *(told for one in extensions.port.extensions for told in one.notices),
         *_told_of_script(given, stored.journal)),
    )  # fmt: skip
    state = session.state
    if modes.approval != state.mode:  # the process before had others
        session.use_mode(modes.approval)
    if modes.planning != state.plan_mode:
        session.use_plan_mode(modes.planning)
    return session


class SessionStorage(NamedTuple):
    """Storage and memory of a session, and the files of its project that are trusted."""

    journal: TurnJournal
    secrets: Redactor
    memory: MemoryService | None
    archive: SessionArchive
    forgetting: ForgetService
    project: tuple[ProjectFile, ...]
    prompts: Mapping[str, PromptFile]
    notices: tuple[Phrase, ...]


def _open_storage(
    given: SessionInputs, journal: SessionJournal, store: SessionStore, model: Model
) -> SessionStorage:
    settings, paths, state = given.settings, given.paths, journal.state
    workspace, secrets = Path(state.folder), _known_secrets(given)
    seen = walk(workspace)
    project, told = trusted_files(paths, workspace, seen)
    # A fork goes on with the history of another session, whose placeholders it is to know.
    others = labels_in(one.text for one in state.messages) if state.parent else ()
    redactor = Redactor(
        secrets, label=session_label(state.session_id), after=state.secret_numbers, others=others
    )
    variables = {name for field in Settings.model_fields for name in names_of(field)}
    written = TurnJournal(
        journal, redactor, SystemClock(), _user_key(paths), UserSecrets(secrets, variables)
    )
    texts, of_prompts = prompts_of_session(written, given.prompts, paths.prompts)
    prompts.use(texts)
    memory = _open_memory(given, written, journal, store, model)
    google_key = _secret(settings.google_api_key) or ""
    archive = SessionArchive(
        store, journal, paths, settings.session_max_age_days, google_key, FirstWalk(seen)
    )
    forgetting = ForgetService(archive, memory, AskPort())
    notices = (*told, *of_prompts, *too_much(project))
    return SessionStorage(written, redactor, memory, archive, forgetting, project, texts, notices)


def _open_memory(
    given: SessionInputs,
    written: TurnJournal,
    journal: SessionJournal,
    store: SessionStore,
    model: Model,
) -> MemoryService | None:
    """Return memory bound to this user and folder; None when it is switched off.

    The steps of plans find the user's preferences through `written`.
    """
    settings, paths, state = given.settings, given.paths, journal.state
    if settings.memory == "off":
        return None
    folder, shared, clock = Path(state.folder), settings.database_url, written.clock
    memory = open_memory(
        shared.get_secret_value() if shared is not None else paths.database,
        user=given.user,
        project=str(project_root(folder)),
        vectors=vectors_installed(),
        clock=clock,
        redact=redact,
        key_file=paths.data / "memory-key",
        heads=paths.data,
        paths=(paths.data,),
    )
    context = SessionContext(memory, state.session_id, mode=settings.memory)
    context.resumed(message.text for message in state.messages)
    trust = TrustStore(paths.trust_file)
    scanner = ProjectScanner(
        resolve_path(folder),
        clock,
        lambda: trust.knows(folder),
        lambda: memory.projects if context.mode == "full" else None,
    )
    scanner.look()  # begins where the user trusts the folder
    real = given.commands is None
    embedded = embedded_model() if settings.learn_commands and real else None
    keep = partial(embedded.keep_example, paths.learned_examples) if embedded else None
    service = MemoryService(
        context, journal, scanner, partial(conversation, store), keep, real_commands=real
    )
    given.opened.callback(service.close)
    service.use_model(model)
    written.preferences = service.preferences
    return service


class SessionExecution(NamedTuple):
    """Approval and execution of a session's actions."""

    policy: PolicyService
    executor: CommandExecutor
    undo: UndoService
    outputs: KeptOutputs


def _open_execution(given: SessionInputs, stored: SessionStorage) -> SessionExecution:
    settings, journal = given.settings, stored.journal
    state = journal.state
    policy = open_policy(
        settings,
        given.paths,
        state.folder,
        now=journal.clock.now,
        project_rules=policy_texts(stored.project),
        answered_from=_answers(given),
    )
    policy.secrets, policy.note = journal.given, journal.record
    policy.sandbox.was_told(message.text for message in state.messages)
    outputs = given.paths.of_sessions.outputs / SessionId(state.session_id)
    executor = _open_executor(given, journal, outputs)
    if given.commands is None:
        policy.executor, policy.sandbox.temporary = executor, executor.temporary_folder
    readable = outputs / "readable"
    if policy.sandbox.box is not None:
        private_folder(readable)  # only one that exists is shown
        box = policy.sandbox.box
        policy.sandbox.box = replace(box, shown=(*box.shown, str(readable)))
    preimages = PreimageStore(given.paths.of_sessions.undo / SessionId(state.session_id))
    undo = UndoService(preimages, Path(state.folder))
    policy.created, policy.undo_covers = preimages.created, undo.covers
    return SessionExecution(policy, executor, undo, KeptOutputs(readable, stored.secrets))


def _open_executor(given: SessionInputs, journal: TurnJournal, outputs: Path) -> CommandExecutor:
    state, secrets = journal.state, _known_secrets(given)
    folder = state.cwd if Path(state.cwd).is_dir() else state.folder
    journal.outputs = outputs
    if given.commands is not None:
        from kogniterm.execution.command_script import AnsweringExecutor

        executor: CommandExecutor = AnsweringExecutor(given.commands, folder, outputs=outputs)
    else:
        executor = open_executor(
            folder,
            env=without_own(given.environ, secrets),
            outputs=outputs,
            workspace=state.folder,
            input_wait=given.settings.input_wait_limit,
            outlives="nothing" if given.settings.end_jobs else "detached",
        )
        long = (one for one in own_parts(secrets) if len(one) > LEAST_HIDDEN)
        executor.withheld = tuple(_as_printed(long))  # a short one is part of any line
    given.opened.callback(executor.close)
    journal.given.tell = partial(_hide, journal, executor)
    return executor


def _open_extensions(
    given: SessionInputs,
    stored: SessionStorage,
    acting: SessionExecution,
    modes: SessionModes,
    open_model: OpenModels,
) -> Extensions:
    settings, paths, journal = given.settings, given.paths, stored.journal
    policy, executor, asker = acting.policy, acting.executor, stored.forgetting.asker
    workspace = journal.state.folder

    def folders() -> tuple[str, str]:
        return executor.cwd, str(Path(executor.temporary_folder).with_name("hooks"))

    environ = without_own(given.environ, _known_secrets(given))
    surroundings = HookSurroundings(settings, paths, workspace, environ, folders, policy.bounds)
    hook_service = open_hooks(
        settings, paths, journal, modes, stored.project, surroundings,
        enabled=given.commands is None,  # none runs where no command does
    )  # fmt: skip
    hooks = Hooks(hook_service, journal.show_request, hook_service.notices)
    bounds = None if settings.sandbox == "off" else policy.bounds
    place = Surroundings(
        policy.workspace, given.environ, bounds, lambda: executor.temporary_folder, stored.project
    )
    servers = open_servers(paths, place, given.servers)
    sources = SkillSources(paths, Path(workspace), Path.home())
    skills = SkillService(sources, journal, modes, policy, asker, stored.archive.first_walk.seen)
    known = gather_tools(settings, policy.in_force, workspace, given.tools, servers)
    basis = SessionBasis(settings, paths, given.environ, journal, given.opened)
    opened = [one.open(basis) for one in parts("EXTENSIONS")]
    added: list[Extension] = [one for one in opened if one is not None]
    acts = {one.tool: one for one in added if isinstance(one, ActingExtension)}
    known = known.with_session(_built_in_tools(given, stored, acting, modes, skills, servers, acts))
    agents = session_agents(
        paths.extensions.agents, stored.project, known.tools, open_model.share, skills.preloaded
    )
    if agents.named:
        journal.record(agents.note(journal.redact))
    made = (SessionServers(servers, journal, modes, asker), skills, agents, hooks)
    own: list[Extension] = sorted(made, key=lambda one: EXTENSIONS.index(type(one)))
    port = ExtensionPort([*own, *added])
    use_instructions(journal, journal.redact(in_force(paths, stored.project)), port)
    tools = ToolService(known, policy, modes, lambda: executor.cwd, port)
    hooks.tool_of = tools.find
    return Extensions(port, hook_service, skills, agents, servers, tools, asker, stored.prompts)


def _built_in_tools(
    given: SessionInputs,
    stored: SessionStorage,
    acting: SessionExecution,
    modes: SessionModes,
    skills: SkillService,
    servers: McpServers,
    added: Mapping[str, Extension],
) -> Mapping[str, Tool]:
    """Return the built-in tools, able to run."""
    settings, journal, executor = given.settings, stored.journal, acting.executor
    memory, forgetting = stored.memory, stored.forgetting
    outputs = OutputStore(
        given.paths.of_sessions.outputs,
        quota_bytes=settings.output_quota_mb * 1_000_000,
        max_age=settings.output_max_age_days * 86_400,
    )
    outputs.prune()
    ports = ToolPorts(
        lambda: executor.cwd, journal.state.folder, outputs, is_secret, executor,
        ModelQuestions(forgetting.asker),
        memory.context.for_tools() if memory is not None else None, JournalLookup(journal),
        forgetting if memory is not None else None, ModelSearch(modes), skills, servers,
        added, journal.secrets.carry,
        lambda: observation_limit(modes.model.info.context_window), acting.policy.sandbox.of_job,
    )  # fmt: skip
    return session_tools(
        ports,
        brave_key=_secret(settings.brave_api_key),
        github_token=_secret(settings.github_token),
    )


def _turn_services(
    given: SessionInputs,
    stored: SessionStorage,
    acting: SessionExecution,
    extensions: Extensions,
    modes: SessionModes,
) -> TurnServices:
    """Return the model, the agent and what a turn of theirs goes through."""
    settings, journal = given.settings, stored.journal
    policy, executor, port = acting.policy, acting.executor, extensions.port
    tools, skills = extensions.tools, extensions.skills
    budget = Budget(
        Limits(
            steps=settings.max_steps,
            seconds=settings.max_seconds,
            tokens=settings.max_tokens,
            dollars=settings.max_cost_usd,
        ),
        Limits(tokens=settings.max_session_tokens, dollars=settings.max_session_cost_usd),
        price=lambda usage, model: cost_of(model or modes.model.info.name, usage),
    )
    variables = "\0".join(f"{key}={value}" for key, value in sorted(given.environ.items()))
    environment = hashlib.sha256(variables.encode("utf-8", "surrogateescape")).hexdigest()
    workspace = str(resolve_path(Path(journal.state.folder)))
    return TurnServices(
        journal,
        Gate(journal, policy, modes, executor, environment, port, executor.prepare),
        Runner(
            journal, policy, modes, executor, tools.runnable, budget, port,
            keep_preimages=acting.undo.keep, note_left=acting.undo.note_left,
            answered_from=_answers(given), command_timeout=settings.command_timeout or None,
            env_hash=environment, of_skill=skills.runs_from, keep=acting.outputs.run,
        ),
        ContextService(
            journal, modes, stored.memory, system_message(journal), tools,
            NestedInstructions(workspace, stored.project), port,
            policy.sandbox.was_told, resumed=journal.state.turn > 0,
        ),
        modes,
        budget,
        SideBySide(policy, modes, executor, settings.parallel_commands),
    )  # fmt: skip


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


def _still_planning(state: SessionState) -> bool:
    """Return whether a turn that began in plan mode is open, with no plan started."""
    return state.open_turn and state.mode == "plan"


def _found(journal: SessionJournal, mode: ApprovalMode) -> Iterator[Phrase]:
    """Yield notices about the state in which the session was found."""
    before = journal.state.mode
    if _still_planning(journal.state):
        yield Phrase(
            "The last turn was in plan mode and stays in it; to end it: /mode ask at the prompt of "
            "kogniterm resume"
        )
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


def _user_key(paths: Paths) -> bytes:
    """Return the user's key; where none can be kept, one for this process alone."""
    try:
        return read_key(paths.user_key)
    except StorageError:
        return token_bytes(32)


def _secret(value: SecretStr | None) -> str | None:
    return value.get_secret_value() if value is not None else None


def _known_secrets(given: SessionInputs) -> tuple[str, ...]:
    """Return every secret of the settings, and those for a collector in the environment."""
    return (*known_secrets(given.settings), *collector_keys(given.environ))


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
