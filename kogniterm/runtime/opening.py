"""The user's store of sessions and the models, opened as the settings say, without a session."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm import __version__
from kogniterm.errors import SettingsError
from kogniterm.host.identity import account_name
from kogniterm.types import Phrase

if TYPE_CHECKING:
    from kogniterm.models.calling import ModelOptions
    from kogniterm.models.model_lists import ModelLists
    from kogniterm.models.rate_limits import Pacing
    from kogniterm.paths import Paths
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


def open_user_store(settings: Settings, paths: Paths) -> tuple[SessionStore, tuple[Phrase, ...]]:
    """Open the user's sessions, in SQLite or at `database_url`; return them with notices."""
    from kogniterm.sessions.journal.journal import parse_fault
    from kogniterm.sessions.session_database import open_store

    shared = settings.database_url
    store, recovery = open_store(
        shared.get_secret_value() if shared is not None else paths.database,
        user=account_name(),
        version=__version__,
        folders=paths.of_sessions,
        heads=paths.data,
        spool=paths.spool,
        fault=parse_fault(settings.faults),
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


def model_lists(settings: Settings, paths: Paths) -> ModelLists:
    """Return the lists of models of the providers that the settings configure."""
    from kogniterm.models.model_lists import ModelLists

    return ModelLists(model_options(settings, paths, Path("/")))


def has_weights(options: ModelOptions) -> bool:
    """Return whether weights for the embedded model are there or set, intact or not."""
    from kogniterm.models.embedded import embedded_model

    embedded = embedded_model()
    return embedded is not None and embedded.is_here(options)
