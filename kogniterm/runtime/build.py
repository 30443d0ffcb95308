"""The one place that joins settings to objects. Heavy imports happen here, inside functions."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kogniterm.errors import ModelError, ModelKeyMissingError, UsageError
from kogniterm.host.identity import account_name, name_of
from kogniterm.runtime.opening import (
    KEY_SETTINGS,
    has_weights,
    model_options,
    open_user_store,
)
from kogniterm.types import Phrase

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from kogniterm.execution.command_script import CommandScript
    from kogniterm.models.calling import ModelOptions, OpenModels
    from kogniterm.models.reply_cache import ReplyCache
    from kogniterm.paths import Paths
    from kogniterm.protocols import Model
    from kogniterm.runtime.session import LiveSession
    from kogniterm.sessions.journal.journal import SessionJournal
    from kogniterm.sessions.store import SessionStore
    from kogniterm.settings import Settings
    from kogniterm.tools.mcp.server_config import ServerConfig
    from kogniterm.types import ModelInfo
    from kogniterm.types.model_calls import Recording


def keys_not_read(settings: Settings, paths: Paths, folder: Path) -> Phrase | None:
    """Return a notice that the working folder's `.env` names keys, where no key is set otherwise.

    A project's file sets nothing: its author would choose whose account is used and what a command
    may do. Only its names are read, not its values.
    """
    from kogniterm.settings import names_in

    file = folder / ".env"
    if any(getattr(settings, field) is not None for field in KEY_SETTINGS.values()):
        return None
    if not file.is_file() or file.resolve() == paths.env_file.resolve():
        return None
    found = names_in(file, tuple(KEY_SETTINGS.values()))
    if not found:
        return None
    return Phrase(
        "{file} sets {names}, but it was not read: KogniTerm does not take "
        "API keys from a project's files. To use it, start with --env-file "
        "{file}, or copy the line to {own}.",
        {"file": file, "names": ", ".join(found), "own": paths.env_file},
    )


FIRST_TURN = (
    "kogniterm.agent.graph",
    "kogniterm.runtime.assembly",
    "kogniterm.runtime.session_plans",
    "kogniterm.agent.plan.evaluate",
    "kogniterm.approval.policy.permission_file",
    "kogniterm.approval.analysis.shell_changes",
    "kogniterm.execution.process.confined_program",
    "kogniterm.execution.sandbox.namespaces",
)
"""Modules that lead to what a turn with a plan, a question or a sandboxed command needs."""


def preload() -> None:
    """Import what the first turn needs. Called on a thread while the user still types."""
    for module in FIRST_TURN:
        importlib.import_module(module)


def open_session(
    settings: Settings,
    *,
    folder: str,
    session_id: str | None = None,
    create: bool = False,
    environ: Mapping[str, str] | None = None,
    tools: Sequence[Callable[..., Any]] = (),
    servers: Sequence[ServerConfig] = (),
    chat: BaseChatModel | None = None,
) -> LiveSession:
    """Open a session in `folder`: a new one, or the one called `session_id` ("last" too).

    With `create` it is made where there is none. `tools` are functions of the calling program,
    `servers` MCP servers that the user's editor names; `chat` is its own model, if it has one.

    Raises `SettingsError`, `UsageError`, `ModelError` or `StorageError`.
    """
    from kogniterm import paths as path_rules
    from kogniterm import prompts
    from kogniterm import settings as settings_package
    from kogniterm.models.calling import OpenModels, silence_tracing
    from kogniterm.models.reply_cache import ReplyCache
    from kogniterm.runtime.assembly import SessionInputs, assemble

    # Tracing variables of a shell must not export transcripts.
    silence_tracing()

    environ = settings_package.environment() if environ is None else environ
    paths = path_rules.resolve(environ)
    own_prompts = prompts.own_files(paths.prompts)
    commands = _command_script(settings.executor, folder)
    options = replace(model_options(settings, paths, Path(folder)), read_recording=_read_recording)
    cache = ReplyCache(paths.of_sessions.model_replies) if settings.model_cache else None
    if chat is not None:
        from kogniterm.models.providers.langchain import given_name

        settings = settings.model_copy(update={"model": given_name(chat)})
    open_model = OpenModels(partial(_open_model, options=options, cache=cache, chat=chat))
    store, notices = open_user_store(settings, paths)
    borrowed = borrowed_home(environ.get("HOME", ""), paths.data)
    unread = None if settings.model else keys_not_read(settings, paths, Path(folder))
    notices += tuple(one for one in (borrowed, unread) if one is not None)
    with ExitStack() as opened:
        opened.callback(store.close)
        # A model that cannot be opened must not leave an empty session behind.
        with _with_hint(unread):
            new = session_id is None or (create and store.info(session_id) is None)
            name, model = _chosen_model(settings, options, open_model, new=new)
        journal, moved = _open_journal(store, session_id, folder, name, create=create)
        notices += moved
        opened.callback(journal.close)
        given = SessionInputs(
            settings, paths, environ, account_name(), opened, notices, own_prompts,
            commands, tools, servers,
        )  # fmt: skip
        session = assemble(given, journal, store, open_model, model)
        session.notices += _effort_notices(options, session.model)
        if cache is not None:
            cache.use(session.id, session.journal.redact)
        session.opened = opened.pop_all()
        return session


def _chosen_model(
    settings: Settings, options: ModelOptions, open_model: OpenModels, *, new: bool
) -> tuple[str | None, Model | None]:
    """Return the model of the settings, or the default of a new session; None for its own."""
    name = settings.model or (_default_model(options) if new else None)
    model = open_model(name) if name else None
    if model is not None and settings.origin("effort").kind == "flag":
        for problem in _effort_notices(options, model.info):
            raise UsageError(problem.template, **problem.values)
    return name, model


def _command_script(name: str | None, folder: str) -> CommandScript | None:
    """Return the file that answers commands instead of running them; None where none does.

    An export or a bug report answers as its session did. Raises `UsageError`.
    """
    if name is None:
        return None
    from kogniterm.execution.command_script import CommandScript, read_command_script
    from kogniterm.storage.folders import expand_path

    path = expand_path(folder, name.removeprefix("scripted:"))
    if path.suffix != ".jsonl":
        return read_command_script(path)
    from kogniterm.runtime.operations.recordings import recorded_file
    from kogniterm.sessions.history import SessionHistory

    turns = SessionHistory(recorded_file(path).records).all_turns
    results = (action.result for turn in turns for action in turn.ended)
    script = CommandScript.of_results(path, [one for one in results if one is not None])
    if not script.commands:
        raise UsageError("The session in {path} ran no command.", path=path)
    return script


def _effort_notices(options: ModelOptions, info: ModelInfo) -> tuple[Phrase, ...]:
    """Return a notice for a configured effort that the model does not have."""
    from kogniterm.models.model_registry import no_such_effort

    chosen = not options.effort or options.effort == info.effort
    if chosen or info.provider in ("scripted", "replay"):
        return ()
    return (no_such_effort(info, options.effort).text,)


def _open_journal(
    store: SessionStore, session_id: str | None, folder: str, model: str | None, *, create: bool
) -> tuple[SessionJournal, tuple[Phrase, ...]]:
    """Return the journal, and a sentence where the session goes on in another folder."""
    if session_id is None:
        return store.create(folder=folder, model=model or ""), ()
    if create:
        return store.open_or_create(session_id, folder=folder, model=model), ()
    from kogniterm.sessions.session_search import storable

    info = store.find(session_id, folder=folder)
    journal = store.open(info.id, model=model, folder=folder)
    if journal.state.folder != folder or info.folder == storable(folder):
        return journal, ()
    values = {"before": info.folder, "folder": folder}
    told = Phrase("{before} does not exist any more; the session now works in {folder}.", values)
    return journal, (told,)


@contextmanager
def _with_hint(unread: Phrase | None) -> Iterator[None]:
    """Add the notice about an unread key to the error of a model that cannot be opened."""
    try:
        yield
    except ModelError as error:
        if unread is None:
            raise
        if isinstance(error, ModelKeyMissingError):
            raise ModelKeyMissingError(
                "{problem} {hint}", problem=error.text, hint=unread
            ) from error
        raise ModelError("{problem} {hint}", problem=error.text, hint=unread) from error


def _default_model(options: ModelOptions) -> str:
    from kogniterm.models.model_registry import default_name, no_model

    name = default_name(options)
    if name == "local" and not has_weights(options):
        raise no_model("kogniterm models pull")
    return name


def _read_recording(file: Path) -> Recording:
    from kogniterm.runtime.operations.recordings import read_recording

    return read_recording(file)


def _open_model(
    name: str,
    effort: str | None,
    *,
    options: ModelOptions,
    cache: ReplyCache | None = None,
    chat: BaseChatModel | None = None,
) -> Model:
    from kogniterm.models.model_registry import open_model
    from kogniterm.models.reply_cache import caching

    if chat is not None:
        from kogniterm.models.providers.langchain import GivenModel, given_name

        if name == given_name(chat):
            return GivenModel(chat, options)
    options = options if effort is None else replace(options, effort=effort)
    return caching(open_model(name, options), cache, options)


def borrowed_home(home: str, data: Path) -> Phrase | None:
    """Return a warning for root whose `home` is another user's, when `data` is kept there."""
    if os.geteuid() != 0 or not data.is_relative_to(home):
        return None
    try:
        owner = Path(home).stat().st_uid
    except OSError:
        return None
    if owner == 0:
        return None
    return Phrase(
        "You are running as root in the home folder of {owner}: new files "
        "there will belong to root, and {owner} may be unable to use them. "
        "Use sudo -H to give root its own home folder.",
        {"owner": name_of(owner)},
    )
