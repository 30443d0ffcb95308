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

from kogniterm import __version__
from kogniterm.errors import ModelError, ModelKeyMissingError, SettingsError, UsageError
from kogniterm.host.identity import account_name, name_of
from kogniterm.types import Phrase

if TYPE_CHECKING:
    from kogniterm.execution.command_script import CommandScript
    from kogniterm.models.calling import ModelOptions, OpenModels
    from kogniterm.models.model_lists import ModelLists
    from kogniterm.models.rate_limits import Pacing
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


def preload() -> None:
    """Import what the first turn needs. Called on a thread while the user still types."""
    for module in ("kogniterm.agent.graph", "kogniterm.runtime.assembly"):
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
) -> LiveSession:
    """Open a session in `folder`: a new one, or the one called `session_id` ("last" too).

    With `create` it is made where there is none. `tools` are functions of the calling program,
    `servers` MCP servers that the user's editor names.

    Raises `SettingsError`, `UsageError`, `ModelError` or `StorageError`.
    """
    from kogniterm import paths as path_rules
    from kogniterm import prompts
    from kogniterm import settings as settings_room
    from kogniterm.models.calling import OpenModels
    from kogniterm.models.providers.provider_model import silence_tracing
    from kogniterm.runtime.assembly import SessionInputs, assemble
    from kogniterm.settings.telemetry_variables import telemetry_variables

    # Tracing variables of a shell must not export transcripts.
    silence_tracing()

    environ = settings_room.environment() if environ is None else environ
    paths = path_rules.resolve(environ)
    own_prompts = prompts.own_files(paths.prompts)
    commands = _command_script(settings.executor, folder)
    options = model_options(settings, paths, Path(folder))
    cache = reply_cache(settings, paths) if settings.model_cache else None
    open_model = OpenModels(partial(_open_model, options=options, cache=cache))
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
        journal = _open_journal(store, session_id, folder, name, create=create)
        opened.callback(journal.close)
        telemetry = telemetry_variables(environ, settings_room.environment())
        given = SessionInputs(
            settings, paths, environ, account_name(), opened, telemetry, notices, own_prompts,
            commands, tools, servers,
        )  # fmt: skip
        session = assemble(given, journal, store, open_model, model)
        session.notices += _effort_notices(options, session.model)
        if cache is not None:
            cache.use(session.id, session.journal.redact)
        opened.pop_all()
        return session


def _chosen_model(
    settings: Settings, options: ModelOptions, open_model: OpenModels, *, new: bool
) -> tuple[str | None, Model | None]:
    """Return the model of the settings, or the default of a new session; None for its own."""
    name = settings.model or (_default_model(options) if new else None)
    model = open_model(name) if name else None
    if model is not None:
        _check_effort(settings, options, model.info)
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
    from kogniterm.runtime.use_cases.recordings import recorded_file
    from kogniterm.sessions.records import Outcome

    records = recorded_file(path).records
    outcomes = (one.body for one in records if isinstance(one.body, Outcome))
    results = [one.result for one in outcomes if one.result is not None]
    script = CommandScript.of_results(path, results)
    if not script.commands:
        raise UsageError("The session in {path} ran no command.", path=path)
    return script


def _check_effort(settings: Settings, options: ModelOptions, info: ModelInfo) -> None:
    """Raise `UsageError` for an effort that was asked for now and that the model does not have."""
    if settings.origin("effort").kind == "flag":
        for problem in _effort_notices(options, info):
            raise UsageError(problem.template, **problem.values)


def _effort_notices(options: ModelOptions, info: ModelInfo) -> tuple[Phrase, ...]:
    """Return a notice for a configured effort that the model does not have."""
    from kogniterm.models.model_registry import no_such_effort

    chosen = not options.effort or options.effort == info.effort
    if chosen or info.provider in ("scripted", "replay"):
        return ()
    return (no_such_effort(info, options.effort).text,)


def _open_journal(
    store: SessionStore, session_id: str | None, folder: str, model: str | None, *, create: bool
) -> SessionJournal:
    if session_id is None:
        return store.create(folder=folder, model=model or "")
    if create:
        return store.open_or_create(session_id, folder=folder, model=model)
    if session_id == "last":
        session_id = store.find("last", folder=folder).id
    return store.open(session_id, model=model)


def open_user_store(settings: Settings, paths: Paths) -> tuple[SessionStore, tuple[Phrase, ...]]:
    """Open the user's sessions, in SQLite or at `database_url`; return them with notices."""
    from kogniterm.sessions.journal.journal import armed
    from kogniterm.sessions.session_database import open_store

    shared = settings.database_url
    store, recovery = open_store(
        shared.get_secret_value() if shared is not None else paths.database,
        user=account_name(),
        version=__version__,
        folders=paths.of_sessions,
        heads=paths.data,
        spool=paths.spool,
        fault=armed(settings.faults),
    )
    recovered = (recovery.text,) if recovery is not None else ()
    return store, (*recovered, *store.anchor.notices)


def model_options(settings: Settings, paths: Paths, folder: Path) -> ModelOptions:
    """Return the settings of models as plain values."""
    from kogniterm.models.calling import ModelOptions

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
        effort="" if settings.effort == "default" else settings.effort,
        prompt_cache=settings.prompt_cache,
        provider_caches=paths.provider_caches,
        text_calls=settings.text_calls,
        thoughts=settings.thoughts != "off",
        images=settings.model_images,
        context_window=settings.context_window,
        weights_folder=paths.weights,
        examples_file=paths.learned_examples if settings.learn_commands else None,
        base_folder=folder,
        read_recording=_read_recording,
        pacing=_pacing(settings, paths),
    )


def _pacing(settings: Settings, paths: Paths) -> Pacing | None:
    """Return what keeps the limits of providers; None where there are none.

    Raises `SettingsError` for a provider that does not exist.
    """
    requests, tokens = (
        _by_provider(settings.requests_per_minute),
        _by_provider(settings.tokens_per_minute),
    )
    if not requests and not tokens:
        return None
    from kogniterm.models.catalog import BY_NAME
    from kogniterm.models.rate_limits import RATES, Pacing, Rate
    from kogniterm.storage.database import Database

    names = {**requests, **tokens}
    for name in names:
        if name not in BY_NAME:
            raise SettingsError(
                "The settings limit the requests or tokens of {name}, which is no provider; use "
                "{names}.",
                name=name,
                names=", ".join(BY_NAME),
            )
    shared = settings.database_url
    location = shared.get_secret_value() if shared is not None else paths.database
    return Pacing(
        {name: Rate(requests.get(name), tokens.get(name)) for name in names},
        partial(Database, location, RATES, user=account_name(), heads=paths.data),
    )


def _by_provider(rates: Sequence[str]) -> dict[str, int]:
    pairs = (one.partition("=") for one in rates)
    return {name: int(number) for name, _, number in pairs}


def _read_recording(file: Path) -> Recording:
    from kogniterm.runtime.use_cases.recordings import read_recording

    return read_recording(file)


def model_lists(settings: Settings, paths: Paths) -> ModelLists:
    """Return the lists of models of the providers that the settings configure."""
    from kogniterm.models.model_lists import ModelLists

    return ModelLists(model_options(settings, paths, Path("/")))


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
    from kogniterm.models.model_registry import default_name

    name = default_name(options)
    if name == "local" and not has_weights(options):
        raise ModelKeyMissingError(
            "No model is configured. Run `kogniterm login`, or set GOOGLE_API_KEY, "
            "OPENAI_API_KEY, ANTHROPIC_API_KEY or OLLAMA_HOST; for the embedded model, which needs "
            "no key, run `{command}`.",
            command="kogniterm models pull",
        )
    return name


def has_weights(options: ModelOptions) -> bool:
    """Return whether weights for the embedded model are there or set, intact or not."""
    from kogniterm.models.local.weights import default_weights

    if options.weights_file is not None:  # if it is wrong, opening the model tells
        return True
    folder = options.weights_folder
    return folder is not None and (folder / default_weights(folder).file).is_file()


def reply_cache(settings: Settings, paths: Paths) -> ReplyCache:
    """Return the replies of models that are kept, within the limits of the settings."""
    from kogniterm.models.reply_cache import ReplyCache

    return ReplyCache(
        paths.of_sessions.model_replies,
        quota=settings.model_cache_mb * 1_000_000,
        max_age=settings.model_cache_max_age_days * 86_400.0,
    )


def _open_model(
    name: str, effort: str | None, *, options: ModelOptions, cache: ReplyCache | None = None
) -> Model:
    from kogniterm.models.model_registry import open_model
    from kogniterm.models.reply_cache import caching

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
