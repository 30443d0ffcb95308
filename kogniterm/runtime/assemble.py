"""Puts a live session together from its parts. Imported when a session is opened: it is heavy."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from kogniterm.approval.places import is_secret
from kogniterm.execution import open_executor
from kogniterm.execution.executor import CommandExecutor
from kogniterm.execution.preimages import PreimageStore
from kogniterm.execution.store import OutputStore
from kogniterm.memory import open_memory
from kogniterm.memory.contexts import SessionContext
from kogniterm.memory.project import project_root
from kogniterm.memory.vectors import vectors_installed
from kogniterm.models import OpenModels
from kogniterm.models.local.learned import LearnedExamples
from kogniterm.paths import Paths
from kogniterm.protocols import Model, Tool
from kogniterm.runtime.asking import PersonDesk
from kogniterm.runtime.cabinet import Cabinet
from kogniterm.runtime.examples import ExampleDesk
from kogniterm.runtime.forget_desk import ForgetDesk
from kogniterm.runtime.history_desk import HistoryDesk
from kogniterm.runtime.instructions import system_message, tell
from kogniterm.runtime.limits import Budget, Limits
from kogniterm.runtime.memory_desk import MemoryDesk
from kogniterm.runtime.person import person
from kogniterm.runtime.plans import PlanDesk
from kogniterm.runtime.policy_desk import open_policy
from kogniterm.runtime.sandbox_service import SandboxService
from kogniterm.runtime.session import LiveSession
from kogniterm.runtime.toolbox import ToolPlaces, session_tools
from kogniterm.runtime.trust import (
    TrustStore,
    instructions_text,
    policy_texts,
    trusted_files,
)
from kogniterm.runtime.undo import UndoDesk
from kogniterm.sessions.fold import SessionState
from kogniterm.sessions.journal import SessionJournal
from kogniterm.sessions.store import SessionStore
from kogniterm.settings import Settings
from kogniterm.text.redact import Redactor, redact
from kogniterm.types import ApprovalMode, Text


class SystemClock:
    """The machine's clocks."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that never jump."""
        return time.monotonic()


@dataclass(frozen=True, slots=True)
class Given:
    """What a session is built from besides its journal; `notices` are told to the person."""

    settings: Settings
    paths: Paths
    environ: Mapping[str, str]
    notices: tuple[Text, ...] = ()


def assemble(
    given: Given,
    journal: SessionJournal,
    store: SessionStore,
    open_model: OpenModels,
    model: Model | None = None,
) -> LiveSession:
    """The session of `journal`, ready for a turn; with the model it names, unless one is given."""
    settings, paths, state = given.settings, given.paths, journal.state
    clock, workspace = SystemClock(), Path(state.folder)
    model = model or open_model(state.model)
    project, told = trusted_files(TrustStore(paths.trust_file), workspace)
    rules, vault = policy_texts(project), Redactor(_known_secrets(settings))
    policy = open_policy(settings, paths, state.folder, now=clock.now, project_rules=rules)
    policy.sandbox.was_told(message.text for message in state.messages)
    tell(journal, journal.append, vault.redact(instructions_text(project)))
    executor = _executor(given, state, policy.sandbox)
    memory, asker = _memory(given, journal, model, clock), PersonDesk()
    cabinet = Cabinet(store, journal, paths, settings.session_max_age_days)
    forgetting = ForgetDesk(cabinet, memory, asker)
    undo = UndoDesk(
        PreimageStore(paths.data / "undo"), state.session_id, workspace, lambda: executor.cwd
    )
    outputs, past = _outputs(given), HistoryDesk(journal.records)
    places = ToolPlaces(
        lambda: executor.cwd, state.folder, outputs, is_secret, executor, asker,
        memory.context.for_tools() if memory is not None else None, past,
        forgetting if memory is not None else None,
    )  # fmt: skip

    def release() -> None:
        journal.close()
        store.close()

    session = LiveSession(
        journal=journal,
        chat_model=model,
        executor=executor,
        tools=_tools(places, settings),
        policy=policy,
        vault=vault,
        undo=undo,
        system=system_message(journal),
        clock=clock,
        budget=Budget(limits_of(settings), session_limits_of(settings)),
        env_hash=_environment_hash(given.environ),
        command_timeout=settings.command_timeout or None,
        open_model=open_model,
        release=release,
        cabinet=cabinet,
        asker=asker,
        forgetting=forgetting,
        memory=memory,
        notices=(*given.notices, *_found(journal, settings.approval_mode), *told),
        mode=settings.approval_mode,
        plan_mode=settings.plan,
        plans=PlanDesk(approval=settings.plan_approval),
    )
    _keep_modes(session)
    return session


def _tools(places: ToolPlaces, settings: Settings) -> Mapping[str, Tool]:
    return session_tools(
        places,
        brave_key=_secret(settings.brave_api_key),
        github_token=_secret(settings.github_token),
    )


def _keep_modes(session: LiveSession) -> None:
    """Journal the modes of this process, where the process before had others."""
    if session.mode != session.state.mode:
        session.use_mode(session.mode)
    if session.plan_mode != session.state.plan_mode:
        session.use_plan_mode(session.plan_mode)


def _found(journal: SessionJournal, mode: ApprovalMode) -> Iterator[Text]:
    """What a resumed session has to say about how it was found."""
    if journal.state.mode == "auto" and mode == "manual":
        # A mode is a permission: it ends with the process that it was given to.
        yield Text(
            "This session was in auto-approve mode before. It asks before commands again; "
            "/mode auto, or --auto-approve at the start, switches back."
        )
    if journal.taken_from is not None:
        dead = journal.taken_from
        yield Text(
            "This session was open in a process that ended without closing it ({process} on "
            "{host}); it was taken over.",
            {"process": dead.pid, "host": dead.host},
        )
    if journal.settled:
        yield Text(
            "{count} outcomes that the database could not take before are in the journal now.",
            {"count": journal.settled},
        )
    if journal.damaged:
        yield Text(
            "{count} records of this session were damaged and are left out: {numbers}.",
            {
                "count": len(journal.damaged),
                "numbers": ", ".join(map(str, journal.damaged[:10])),
            },
        )


def _examples(settings: Settings, paths: Paths, state: SessionState) -> ExampleDesk | None:
    """What keeps approved commands as examples, unless the person wants none kept."""
    if not settings.learn_commands:
        return None
    return ExampleDesk(LearnedExamples(paths.learned_examples), state.seq)


def _outputs(given: Given) -> OutputStore:
    """Where whole outputs are kept; what is too old or too much goes now."""
    settings = given.settings
    outputs = OutputStore(
        given.paths.outputs,
        quota_bytes=settings.output_quota_mb * 1_000_000,
        max_age=settings.output_max_age_days * 86_400,
    )
    outputs.prune()
    return outputs


def _executor(given: Given, state: SessionState, sandbox: SandboxService) -> CommandExecutor:
    executor = open_executor(
        state.cwd if Path(state.cwd).is_dir() else state.folder,
        env=dict(given.environ),
        outputs=given.paths.outputs,
        workspace=state.folder,
        input_wait=given.settings.input_wait_limit,
        outlives="nothing" if given.settings.end_jobs else "detached",
    )
    sandbox.temporary = executor.temporary_folder
    return executor


def _memory(
    given: Given, journal: SessionJournal, model: Model, clock: SystemClock
) -> MemoryDesk | None:
    """Memory bound to this person and folder; None when it is switched off."""
    settings, paths, state = given.settings, given.paths, journal.state
    if settings.memory == "off":
        return None
    shared = settings.database_url
    memory = open_memory(
        shared.get_secret_value() if shared is not None else paths.database,
        user=person(),
        project=str(project_root(Path(state.folder))),
        vectors=vectors_installed(),
        clock=clock,
        redact=redact,
        key_file=paths.data / "memory-key",
        heads=paths.data,
        paths=(paths.data,),
    )
    # A model that only writes commands cannot read for facts; explicit wishes still work.
    reader = None if model.info.one_command or model.info.provider == "scripted" else model
    context = SessionContext(memory, state.session_id, mode=settings.memory, model=reader)
    context.resumed(message.text for message in state.messages)
    examples = _examples(settings, paths, state)
    return MemoryDesk(context, journal, Path(state.folder), clock, examples, seen=state.seq)


def limits_of(settings: Settings) -> Limits:
    """The budgets of one turn."""
    output = settings.max_output_mb
    return Limits(
        steps=settings.max_steps,
        seconds=settings.max_seconds,
        tokens=settings.max_tokens,
        dollars=settings.max_cost_usd,
        commands=settings.max_commands,
        output_bytes=int(output * 1_000_000) if output is not None else None,
    )


def session_limits_of(settings: Settings) -> Limits:
    """The budgets of a whole session."""
    return Limits(tokens=settings.max_session_tokens, dollars=settings.max_session_cost_usd)


def _secret(value: SecretStr | None) -> str | None:
    return value.get_secret_value() if value is not None else None


def _known_secrets(settings: Settings) -> tuple[str, ...]:
    """Every secret among the settings: none of them may reach journal, log or model."""
    return tuple(
        value.get_secret_value()
        for name in type(settings).model_fields
        if isinstance(value := getattr(settings, name), SecretStr)
    )


def _environment_hash(environ: Mapping[str, str]) -> str:
    """A digest that tells whether the environment was the same, and nothing else about it."""
    text = "\0".join(f"{key}={value}" for key, value in sorted(environ.items()))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
