"""Logging in to a provider: check a key, try it, and keep it in the user's own settings file.

The key is only in memory until `save` writes it to `.env` of the configuration folder. No error
repeats it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm import prompts
from kogniterm.errors import ModelError, ModelKeyMissingError, SettingsError, UsageError
from kogniterm.models.catalog import BY_NAME, PROVIDERS, Provider
from kogniterm.models.model_registry import default_name, is_installed, open_model
from kogniterm.runtime.opening import KEY_SETTINGS, URL_SETTINGS, has_weights, model_options
from kogniterm.settings.layers import read_env_file, remove_variables, save_setting, save_variable
from kogniterm.types import Phrase

if TYPE_CHECKING:
    from kogniterm.models.model_lists import ModelListing
    from kogniterm.paths import Paths
    from kogniterm.settings import Settings

TEST_SECONDS = 20.0
"""Wait for the reply to the test call."""
TEST_TOKENS = 64
SHORTEST_KEY = 16
OLLAMA = BY_NAME["ollama"]
OPENAI = BY_NAME["openai"]
KEYED = tuple(BY_NAME[name] for name in KEY_SETTINGS)
"""The providers that need a key."""
ACCOUNTS = (*KEYED, OLLAMA)
"""The providers that a variable in `.env` configures."""
LOGINS = tuple(one.name for one in PROVIDERS if one in ACCOUNTS or one.name == "local")
_ALIASES = {"gemini": "google_genai", "google": "google_genai", "claude": "anthropic"}
_PLACEHOLDERS = ("…", "...", "your", "<")


def provider_called(name: str) -> Provider:
    """Return the provider that a user calls `name`. Raises `UsageError` naming the known ones."""
    provider = BY_NAME.get(_ALIASES.get(name.lower(), name.lower()))
    if provider is None or provider.name not in LOGINS:
        raise UsageError(
            "Unknown provider {name}. Choose from {names}.",
            name=name,
            names=", ".join(LOGINS),
        )
    return provider


def needs_set_up(settings: Settings, paths: Paths) -> bool:
    """Return whether no model is named, no provider is configured and no weights are there."""
    if settings.model is not None:
        return False
    options = model_options(settings, paths, Path("/"))
    try:
        return default_name(options) == "local" and not has_weights(options)
    except ModelKeyMissingError:
        return not options.keys


def model_in_use(settings: Settings, paths: Paths) -> str:
    """Return the model that a session started now would use. Raises `ModelKeyMissingError`."""
    return settings.model or default_name(model_options(settings, paths, Path("/")))


def key_problem(provider: Provider, key: str, *, own_server: bool) -> Phrase | None:
    """Return why `key` cannot be a key of `provider`; None when it may be one.

    A compatible server of the user's own may use keys of any form.
    """
    if not key:
        return Phrase("No key was entered.")
    if "=" in key and key.split("=")[0].strip().isidentifier():
        return Phrase("Enter the key alone, without NAME= in front of it.")
    if not (key.isascii() and key.isprintable() and " " not in key):
        return Phrase("This is not a key: it contains spaces or unusual characters.")
    if own_server:
        return None
    for other in KEYED:
        if other is not provider and key.startswith(other.key_starts):
            return Phrase("This looks like a key for {provider}.", {"provider": other.label})
    if key.lower().startswith(_PLACEHOLDERS) or len(key) < SHORTEST_KEY:
        return Phrase("This is not a key: it is too short or a placeholder.")
    return None


def own_server(settings: Settings, provider: Provider) -> bool:
    """Return whether requests to `provider` go to another address than its own."""
    return getattr(settings, URL_SETTINGS[provider.name]) is not None


def test_model(settings: Settings, provider: Provider) -> str:
    """Return the model for the test call; empty where only the user knows the server's models."""
    if settings.model and settings.model.partition(":")[0] == provider.name:
        return settings.model
    if provider.name == "openai" and own_server(settings, provider):
        return ""
    return f"{provider.name}:{provider.default_model}"


async def try_key(settings: Settings, paths: Paths, name: str, key: str) -> bool:
    """Ask the model `name` for a word, with `key`; True. Raises `ModelError` or `UsageError`.

    A reply of any kind counts: one that was cut proves the key as well.
    """
    from langchain_core.messages import HumanMessage

    from kogniterm.models.calling import close_model, silence_tracing
    from kogniterm.types import ModelRequest

    silence_tracing()
    prompts.use(prompts.own_files(paths.prompts))
    provider = name.partition(":")[0]
    options = model_options(settings, paths, Path("/"))
    keys: Mapping[str, str] = {provider: key}
    options = replace(
        options, keys=keys, deadline=TEST_SECONDS, idle=TEST_SECONDS, tries=1,
        max_output=TEST_TOKENS, effort="", text_calls=False,
    )  # fmt: skip
    try:
        model = open_model(name, options)
        try:
            request = ModelRequest((HumanMessage(prompts.text("check_key")),))
            async for _event in model.stream(request):
                pass
        finally:
            await close_model(model)
    except ModelError as error:
        values = {name: _without(key, value) for name, value in error.text.values.items()}
        raise type(error)(error.text.template, **values) from None
    return True


def _without(key: str, value: object) -> object:
    """Return `value` without `key`, which some services quote in their errors."""
    from kogniterm.text.redact import Redactor

    return Redactor([key]).redact(str(value)) if key in str(value) else value


def models_at(settings: Settings, paths: Paths, address: str, key: str) -> ModelListing:
    """Return the models of an OpenAI-compatible service; takes seconds, so call it on a thread."""
    from kogniterm.models.model_lists import ModelLists

    options = model_options(settings, paths, Path("/"))
    keys: Mapping[str, str] = {"openai": key}
    return ModelLists(replace(options, keys=keys, base_urls={"openai": address})).live(OPENAI)


def save_service(paths: Paths, address: str, key: str, model: str) -> None:
    """Keep an OpenAI-compatible service and its model. Raises `SettingsError` or `StorageError`.

    Without a key another word is saved, so that it never gets a key for OpenAI itself.
    """
    from kogniterm.settings.schema import names_of

    names = names_of(URL_SETTINGS[OPENAI.name])
    save_variable(paths.env_file, names, "OPENAI_BASE_URL", address)
    save(paths, OPENAI, key or "none")
    save_setting(paths.config_file, "model", model)


def save(paths: Paths, provider: Provider, value: str) -> None:
    """Keep the provider's key, or Ollama's address. Raises `SettingsError` or `StorageError`."""
    save_variable(paths.env_file, _variables(provider), variable_of(provider), value)


def list_configured(paths: Paths) -> list[Provider]:
    """Return the providers that the settings file configures. Raises `SettingsError`."""
    if not paths.env_file.exists():
        return []
    there = read_env_file(paths.env_file)
    return [one for one in ACCOUNTS if any(name in there for name in _variables(one))]


def forget(paths: Paths, provider: Provider) -> bool:
    """Remove the provider's key from the settings file; return whether it was there."""
    if not paths.env_file.exists():
        return False
    return bool(remove_variables(paths.env_file, _variables(provider)))


def other_origin(settings: Settings, provider: Provider, paths: Paths) -> Phrase | str:
    """Return where the provider's key also stands, outside the settings file; or nothing."""
    field = KEY_SETTINGS.get(provider.name) or URL_SETTINGS[provider.name]
    origin = settings.origin(field)
    return "" if origin.kind == "default" or origin.file == paths.env_file else origin.shown


def ollama_models(settings: Settings) -> tuple[str, list[str]]:
    """Return the address where Ollama answers, and its models; an empty address where it does not.

    Asks the configured address, else the usual one on this machine.
    """
    from kogniterm.models.providers.langchain import list_pulled

    url = settings.ollama_base_url or OLLAMA.url
    try:
        return url, list_pulled(url)
    except (ModelError, SettingsError):
        return "", []


def missing_package(provider: Provider) -> str:
    """Return the command that installs what `provider` needs; empty where it is there."""
    from kogniterm.host.installation import install_command

    return "" if is_installed(provider.name) else install_command(provider.distribution or "")


def variable_of(provider: Provider) -> str:
    """Return the variable that `save` writes."""
    return provider.key or "OLLAMA_HOST"


def _variables(provider: Provider) -> tuple[str, ...]:
    from kogniterm.settings.schema import names_of

    return names_of(KEY_SETTINGS.get(provider.name) or URL_SETTINGS[provider.name])
