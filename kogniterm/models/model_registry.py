"""From a name such as `google_genai:gemini-flash-latest` to a model ready to be asked.

Nothing heavy is imported before the model is used: `preload` does it ahead of time, on a
thread behind the prompt.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from kogniterm.errors import ModelKeyMissingError, UsageError
from kogniterm.models.calling import ModelOptions
from kogniterm.models.catalog import (
    ANY_IMAGES,
    BY_NAME,
    PROVIDERS,
    Provider,
    efforts_of,
    images_of,
    searches,
    window_of,
)
from kogniterm.models.embedded import embedded_model
from kogniterm.protocols import Model
from kogniterm.storage.folders import expand_path
from kogniterm.text.spelling import closest_word
from kogniterm.types import ModelInfo, Phrase


def open_model(name: str, options: ModelOptions) -> Model:
    """Return the model called `name` (`provider:model`; `local` alone means its default weights).

    Raises `UsageError` for a name, file or extra that is not there, `ModelKeyMissingError` for a
    missing key; both say in one sentence what to do.
    """
    provider, argument = parse_name(name)
    if not is_installed(provider.name):
        from kogniterm.host.installation import install_command

        raise UsageError(
            "{title} needs the package {package}, which is not installed. Run `{command}`.",
            title=Phrase(provider.label),
            package=provider.distribution,
            command=install_command(provider.distribution or ""),
        )
    model = OPENERS[provider.name](provider, argument, options)
    if options.text_calls or not (model.info.calls_tools or model.info.one_command):
        from kogniterm.models.text_tool_calls import TextCallModel

        model = TextCallModel(model)
    return model


def parse_name(name: str) -> tuple[Provider, str]:
    """Return the provider and argument of a model's name. Raises `UsageError` with a suggestion."""
    start, colon, argument = name.strip().partition(":")
    provider = BY_NAME.get(start)
    if provider is None:
        raise _unknown_model(name, start, bool(colon))
    if not argument and provider.name not in ("local", "ollama"):
        if not provider.default_model:
            raise UsageError(
                "The model name {name} needs a file after the colon, as in {provider}:FILE.",
                name=name,
                provider=provider.name,
            )
        argument = provider.default_model
    return provider, argument


def _unknown_model(name: str, start: str, has_colon: bool) -> UsageError:
    names = [provider.name for provider in PROVIDERS]
    if not has_colon:
        for provider, prefix in (("google_genai", "gem"), ("openai", "gpt"), ("anthropic", "cl")):
            if name.startswith(prefix):
                return UsageError(
                    "The model name {name} has no provider. Did you mean {guess}?",
                    name=name,
                    guess=f"{provider}:{name}",
                )
    close = closest_word(start, names, cutoff=0.7)
    if close:
        return UsageError(
            "Unknown provider {start}. Did you mean {guess}?", start=start, guess=close
        )
    return UsageError(
        "Unknown provider {start}. Known providers: {names}; example: "
        "google_genai:gemini-flash-latest.",
        start=start,
        names=", ".join(names),
    )


def default_name(options: ModelOptions) -> str:
    """Return the model used when none is named.

    That is the default model of the first provider in the catalog with a key, else Ollama where its
    address is set, else the embedded model. Raises `ModelKeyMissingError` without any, or
    when the key belongs to a compatible service whose models are not known, with the ways out.
    """
    for provider in PROVIDERS:
        if not options.keys.get(provider.name):
            continue
        if provider.name == "openai" and options.base_urls.get(provider.name):
            raise ModelKeyMissingError(
                "The service at OPENAI_BASE_URL has no default model; "
                "specify one with --model openai:MODEL or the setting model."
            )
        return f"{provider.name}:{provider.default_model}"
    if options.base_urls.get("ollama"):
        return "ollama"
    if is_installed("local"):
        return "local"
    from kogniterm.host.installation import install_command

    raise no_model(install_command("xllamacpp"))


def no_model(command: str) -> ModelKeyMissingError:
    """Return the error that no model is set; `command` gets what the embedded one lacks."""
    if "local" not in BY_NAME:
        return ModelKeyMissingError(
            "No model is configured. Run `kogniterm login`, or set GOOGLE_API_KEY, "
            "OPENAI_API_KEY, ANTHROPIC_API_KEY or OLLAMA_HOST."
        )
    return ModelKeyMissingError(
        "No model is configured. Run `kogniterm login`, or set GOOGLE_API_KEY, OPENAI_API_KEY, "
        "ANTHROPIC_API_KEY or OLLAMA_HOST; for the embedded model, which needs no key, run "
        "`{command}`.",
        command=command,
    )


def is_installed(provider: str) -> bool:
    """Return whether the packages of `provider` are there; imports nothing."""
    entry = BY_NAME.get(provider)
    return entry is not None and (entry.package is None or find_spec(entry.package) is not None)


OUTPUT_SHARE = 4
"""Part of the context window that is kept for the reply where the table's longest does not fit."""


def info_of(provider: Provider, argument: str, options: ModelOptions) -> ModelInfo:
    """Return the facts about a provider's model, of the settings first, then of the tables.

    Raises `UsageError` for settings that leave a request no room.
    """
    window, output = window_of(provider.name, argument)
    window = options.context_window or window
    if options.max_output and options.max_output * 2 > window:
        raise UsageError(
            "max_output_tokens ({output}) is more than half of the context "
            "window ({window}); lower it, or raise context_window.",
            output=options.max_output,
            window=window,
        )
    if output * 2 > window:  # a window that was set smaller than the model's own
        output = window // OUTPUT_SHARE
    images = images_of(provider.name, argument)
    if options.images is not None:
        images = (images or ANY_IMAGES) if options.images else ()
    efforts = efforts_of(provider.name, argument)
    return ModelInfo(
        name=f"{provider.name}:{argument}",
        provider=provider.name,
        context_window=window,
        max_output=min(options.max_output or output, output),
        images=images,
        efforts=efforts,
        effort=options.effort if options.effort in efforts else "",
        search_host=_search_host(provider, argument, options),
        server=_server(options.base_urls.get(provider.name) or provider.url),
    )


def no_such_effort(info: ModelInfo, effort: str) -> UsageError:
    """Return the error for an effort that a model does not have."""
    if not info.efforts:
        return UsageError("The model {name} has no setting for reasoning effort.", name=info.name)
    return UsageError(
        "The model {name} has no reasoning effort {effort}. Choose from: {efforts}.",
        name=info.name,
        effort=effort,
        efforts=", ".join(info.efforts),
    )


def _server(url: str) -> str:
    """Return the host of an address, with the port if it names one, and nothing else of it."""
    return urlsplit(url).netloc.rpartition("@")[2]


def _search_host(provider: Provider, argument: str, options: ModelOptions) -> str:
    """Return the host at which a model's provider searches the web; "" where it does not."""
    own = options.base_urls.get(provider.name)
    if not searches(provider.name, argument) or (own and provider.name != "google_genai"):
        return ""  # a compatible service need not have the search of the one it imitates
    return _server(own or provider.url)


def _require_key(provider: Provider, options: ModelOptions) -> None:
    if provider.key and not options.keys.get(provider.name):
        raise ModelKeyMissingError(
            "{title} needs an API key. Run `kogniterm login {provider}`, or set {key}.",
            title=Phrase(provider.label),
            provider=provider.name,
            key=provider.key,
        )


def _gemini(provider: Provider, argument: str, options: ModelOptions) -> Model:
    from kogniterm.models.providers.gemini import GeminiModel

    _require_key(provider, options)
    return GeminiModel(info_of(provider, argument, options), options)


def _langchain(provider: Provider, argument: str, options: ModelOptions) -> Model:
    from kogniterm.models.providers.langchain import LangChainModel

    # A compatible server of one's own often wants no key at all.
    if not options.base_urls.get(provider.name):
        _require_key(provider, options)
    return LangChainModel(info_of(provider, argument, options), options)


def _ollama(provider: Provider, argument: str, options: ModelOptions) -> Model:
    from kogniterm.models.providers.langchain import latest_pulled

    url = options.base_urls.get(provider.name) or provider.url
    return _langchain(provider, argument or latest_pulled(url), options)


def _local(_: Provider, argument: str, options: ModelOptions) -> Model:
    embedded = embedded_model()
    assert embedded is not None  # else the catalog has no such provider
    return embedded.open(argument, options)


def _open_scripted(_: Provider, argument: str, options: ModelOptions) -> Model:
    from kogniterm.models.scripted_model import open_scripted

    return open_scripted(_file(argument, options), options)


def _replay(_: Provider, argument: str, options: ModelOptions) -> Model:
    from kogniterm.models.replay_model import ReplayModel

    if options.read_recording is None:
        raise UsageError("A replay model needs ModelOptions(read_recording=…).")
    file = _file(argument, options)
    return ReplayModel(options.read_recording(file), file)


def _file(argument: str, options: ModelOptions) -> Path:
    """Return the path without parts like `shop/../demo`, because it is shown and stored."""
    path = Path(os.path.normpath(expand_path("", argument)))
    return (
        path if options.base_folder is None else Path(os.path.normpath(options.base_folder / path))
    )


OPENERS: Mapping[str, Callable[[Provider, str, ModelOptions], Model]] = {
    "google_genai": _gemini,
    "openai": _langchain,
    "anthropic": _langchain,
    "ollama": _ollama,
    "local": _local,
    "scripted": _open_scripted,
    "replay": _replay,
}
