"""The one place that joins settings to objects. Heavy imports happen here, inside functions."""

from __future__ import annotations

import getpass
import hashlib
import platform
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm import __version__, prompts
from kogniterm.runtime.limits import Limits
from kogniterm.types import Text

if TYPE_CHECKING:
    from kogniterm.models.options import ModelOptions
    from kogniterm.paths import Paths
    from kogniterm.protocols import Approver, Model
    from kogniterm.runtime.memory_desk import MemoryDesk
    from kogniterm.runtime.session import LiveSession
    from kogniterm.sessions.journal import SessionJournal
    from kogniterm.sessions.store import SessionStore
    from kogniterm.settings import Settings

KEY_SETTINGS = {
    "google_genai": "google_api_key",
    "openai": "openai_api_key",
    "anthropic": "anthropic_api_key",
}
URL_SETTINGS = {
    "google_genai": "google_base_url",
    "openai": "openai_base_url",
    "anthropic": "anthropic_base_url",
    "ollama": "ollama_base_url",
}


class SystemClock:
    """The machine's clocks."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that never jump."""
        return time.monotonic()


def preload() -> None:
    """Import what the first turn needs. Called on a thread while the person still types."""
    from kogniterm.models.tracing import silence_tracing

    # Tracing variables of a shell must not export transcripts.
    silence_tracing()
    import kogniterm.agent.graph
    import kogniterm.runtime.session  # noqa: F401


def open_session(
    settings: Settings,
    *,
    folder: str,
    session_id: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> LiveSession:
    """A session that works in `folder`: a new one, or the one called `session_id` ("last" too).

    Raises `SettingsError`, `UsageError`, `ModelError` or `StorageError`.
    """
    from kogniterm import paths as path_rules
    from kogniterm import settings as settings_room

    environ = settings_room.environment() if environ is None else environ
    paths = path_rules.resolve(environ)
    options = model_options(settings, paths, Path(folder))
    open_model = partial(_open_model, options=options)
    store, notices = open_person_store(settings, paths)
    try:
        journal = _open_journal(store, session_id, folder, settings, options)
        return _assemble(settings, paths, environ, journal, store, open_model, notices)
    except BaseException:
        store.close()
        raise


def _open_journal(
    store: SessionStore,
    session_id: str | None,
    folder: str,
    settings: Settings,
    options: ModelOptions,
) -> SessionJournal:
    if session_id is None:
        return store.create(folder=folder, model=settings.model or _default_model(options))
    if session_id == "last":
        session_id = store.find("last", folder=folder).id
    return store.open(session_id, model=settings.model)


def _assemble(
    settings: Settings,
    paths: Paths,
    environ: Mapping[str, str],
    journal: SessionJournal,
    store: SessionStore,
    open_model: partial[Model],
    notices: tuple[Text, ...],
) -> LiveSession:
    from langchain_core.messages import SystemMessage

    from kogniterm.approval.places import is_secret
    from kogniterm.approval.redact import Redactor
    from kogniterm.execution import open_executor
    from kogniterm.execution.preimages import PreimageStore
    from kogniterm.runtime.policy_desk import open_policy
    from kogniterm.runtime.session import LiveSession
    from kogniterm.runtime.toolbox import ToolPlaces, session_tools
    from kogniterm.runtime.trust import TrustStore, instructions_text, trusted_files
    from kogniterm.runtime.undo import UndoDesk

    state, clock = journal.state, SystemClock()
    model = open_model(state.model)
    opened = next(iter(journal.records())).time
    project, standing = trusted_files(TrustStore(paths.trust_file), Path(state.folder))
    executor = open_executor(
        state.cwd or state.folder,
        env=dict(environ),
        outputs=paths.outputs,
        input_wait=settings.input_wait_limit,
    )

    def release() -> None:
        journal.close()
        store.close()

    return LiveSession(
        journal=journal,
        chat_model=model,
        executor=executor,
        tools=session_tools(
            ToolPlaces(lambda: executor.cwd, state.folder, paths.outputs, is_secret)
        ),
        policy=open_policy(
            settings,
            paths,
            state.folder,
            now=clock.now,
            project_rules={file.name: file.text for file in project if file.kind == "policy"},
        ),
        vault=Redactor(_known_secrets(settings)),
        undo=UndoDesk(
            PreimageStore(paths.data / "undo"),
            state.session_id,
            Path(state.folder),
            lambda: executor.cwd,
        ),
        system=SystemMessage(system_text(state.folder, opened, instructions_text(project))),
        clock=clock,
        limits=limits_of(settings),
        env_hash=_environment_hash(environ),
        command_timeout=settings.command_timeout or None,
        open_model=open_model,
        release=release,
        memory=_memory_desk(settings, paths, journal, model),
        notices=(*notices, *standing),
        mode=settings.approval_mode,
        plan_mode=settings.plan,
    )


def _memory_desk(
    settings: Settings, paths: Paths, journal: SessionJournal, model: Model
) -> MemoryDesk | None:
    """Memory bound to this person and folder; None when it is switched off."""
    if settings.memory == "off":
        return None
    from kogniterm.approval.redact import redact
    from kogniterm.memory import open_memory
    from kogniterm.memory.contexts import SessionContext
    from kogniterm.runtime.memory_desk import MemoryDesk

    clock = SystemClock()
    shared = settings.database_url
    memory = open_memory(
        shared.get_secret_value() if shared is not None else paths.database,
        user=getpass.getuser(),
        project=journal.state.folder,
        clock=clock,
        redact=redact,
        key_file=paths.data / "memory-key",
        paths=(paths.data,),
    )
    # A model that only writes commands cannot read for facts; explicit wishes still work.
    reader = None if model.info.one_command or model.info.provider == "scripted" else model
    context = SessionContext(memory, journal.state.session_id, mode=settings.memory, model=reader)
    return MemoryDesk(context, journal, Path(journal.state.folder), clock)


def open_person_store(settings: Settings, paths: Paths) -> tuple[SessionStore, tuple[Text, ...]]:
    """The sessions of this person, in SQLite or where `database_url` points; what to tell them."""
    from kogniterm.sessions.faults import armed
    from kogniterm.sessions.opening import open_store

    shared = settings.database_url
    store, recovery = open_store(
        shared.get_secret_value() if shared is not None else paths.database,
        user=getpass.getuser(),
        version=__version__,
        outputs=paths.outputs,
        fault=armed(settings.faults),
    )
    return store, (recovery.text,) if recovery is not None else ()


def model_options(settings: Settings, paths: Paths, folder: Path) -> ModelOptions:
    """What the settings say about models, as plain values."""
    from kogniterm.models.options import ModelOptions

    keys = {
        provider: secret.get_secret_value()
        for provider, field in KEY_SETTINGS.items()
        if (secret := getattr(settings, field)) is not None
    }
    urls = {
        provider: url
        for provider, field in URL_SETTINGS.items()
        if (url := getattr(settings, field)) is not None
    }
    return ModelOptions(
        keys=keys,
        weights_file=Path(settings.local_weights) if settings.local_weights else None,
        base_urls=urls,
        deadline=settings.model_deadline,
        tries=settings.model_retries + 1,
        temperature=settings.temperature,
        max_output=settings.max_output_tokens,
        weights_folder=paths.weights,
        base_folder=folder,
    )


def _default_model(options: ModelOptions) -> str:
    from kogniterm.models.registry import default_name

    return default_name(options)


def _open_model(name: str, *, options: ModelOptions) -> Model:
    from kogniterm.models.registry import open_model

    return open_model(name, options)


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


def system_text(folder: str, opened: float, instructions: str = "") -> str:
    """The system message: fixed for the session, so that the prompt prefix never changes.

    `opened` is when the session was begun, in seconds since the epoch, also after a resume.
    """
    day = datetime.fromtimestamp(opened, UTC).date().isoformat()
    system = f"{platform.system()} {platform.machine()}, bash"
    text = prompts.load("system").format(system=system, folder=folder, date=day)
    return f"{text}\n\n{instructions}" if instructions else text


def unattended_approver(settings: Settings) -> Approver:
    """Stands in where nobody can be asked: what policy does not allow is refused."""
    from kogniterm.approval import Unattended

    return Unattended()


def _known_secrets(settings: Settings) -> tuple[str, ...]:
    return tuple(
        secret.get_secret_value()
        for field in KEY_SETTINGS.values()
        if (secret := getattr(settings, field)) is not None
    )


def _environment_hash(environ: Mapping[str, str]) -> str:
    """A digest that tells whether the environment was the same, and nothing else about it."""
    text = "\0".join(f"{key}={value}" for key, value in sorted(environ.items()))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
