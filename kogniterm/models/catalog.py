"""The tables of the models room: providers, and the windows of models known by name.

Pure data: help, completion, `doctor` and the docs are made from it too.
"""

from __future__ import annotations

from dataclasses import dataclass

from kogniterm.types import Usage

PRICES_DATE = "2025-08-01"
"""When the list prices below were noted; providers change them without notice."""


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for a million tokens; `cached` is the part of the input served from a cache."""

    input: float
    output: float
    cached: float

    def cost(self, usage: Usage) -> float:
        fresh = max(0, usage.input - usage.cached)
        total = fresh * self.input + usage.cached * self.cached + usage.output * self.output
        return total / 1_000_000


FREE = Price(0, 0, 0)
FREE_PROVIDERS = ("local", "ollama", "scripted", "replay")

# Longest matching prefix wins, so that dated versions find their family.
PRICES: dict[str, Price] = {
    "google_genai:gemini-2.5-pro": Price(1.25, 10.00, 0.31),
    "google_genai:gemini-2.5-flash": Price(0.30, 2.50, 0.075),
    "google_genai:gemini-2.5-flash-lite": Price(0.10, 0.40, 0.025),
    "google_genai:gemini-2.0-flash": Price(0.10, 0.40, 0.025),
    "google_genai:gemini-2.0-flash-lite": Price(0.075, 0.30, 0.075),
    "openai:gpt-4o": Price(2.50, 10.00, 1.25),
    "openai:gpt-4o-mini": Price(0.15, 0.60, 0.075),
    "openai:gpt-4.1": Price(2.00, 8.00, 0.50),
    "openai:gpt-4.1-mini": Price(0.40, 1.60, 0.10),
    "openai:gpt-4.1-nano": Price(0.10, 0.40, 0.025),
    "openai:o3": Price(2.00, 8.00, 0.50),
    "openai:o4-mini": Price(1.10, 4.40, 0.275),
    "anthropic:claude-opus-4": Price(15.00, 75.00, 1.50),
    "anthropic:claude-sonnet-4": Price(3.00, 15.00, 0.30),
    "anthropic:claude-3-7-sonnet": Price(3.00, 15.00, 0.30),
    "anthropic:claude-3-5-haiku": Price(0.80, 4.00, 0.08),
}


def price_of(name: str) -> Price | None:
    """The price of `provider:model`; None when it is not known."""
    provider = name.partition(":")[0]
    if provider in FREE_PROVIDERS:
        return FREE
    matches = [known for known in PRICES if name == known or name.startswith(f"{known}-")]
    return PRICES[max(matches, key=len)] if matches else None


def cost_of(name: str, usage: Usage) -> float | None:
    """Return what model calls cost in US dollars; None when the price is not known."""
    price = price_of(name)
    return price.cost(usage) if price is not None else None


@dataclass(frozen=True, slots=True)
class Provider:
    """A service, or a way to run a model, as it is chosen by `name:model`.

    `package` is the module that must be importable and `extra` the extra of KogniTerm that
    brings it (None for what always works). `key` names the environment variable to set,
    None where no key is needed. `argument` says what stands behind the colon. `url` is where a
    service is reached unless the settings say otherwise.
    """

    name: str
    title: str
    argument: str
    package: str | None = None
    extra: str | None = None
    key: str | None = None
    default_model: str = ""
    url: str = ""
    note: str = ""


PROVIDERS: tuple[Provider, ...] = (
    Provider(
        "google_genai",
        "Google Gemini",
        "a Gemini model",
        package="langchain_google_genai",
        key="GOOGLE_API_KEY",
        default_model="gemini-flash-latest",
        url="https://generativelanguage.googleapis.com",
        note="the default when its key is set",
    ),
    Provider(
        "openai",
        "OpenAI, or anything with an OpenAI-compatible address",
        "a model of that service",
        package="langchain_openai",
        extra="openai",
        key="OPENAI_API_KEY",
        url="https://api.openai.com/v1",
        note="another service by its base URL; the key may be left out then",
    ),
    Provider(
        "anthropic",
        "Anthropic",
        "a Claude model",
        package="langchain_anthropic",
        extra="anthropic",
        key="ANTHROPIC_API_KEY",
        url="https://api.anthropic.com",
    ),
    Provider(
        "ollama",
        "Ollama on this machine or another",
        "a model that Ollama has pulled",
        package="langchain_ollama",
        extra="ollama",
        url="http://127.0.0.1:11434",
        note="needs no key; the base URL defaults to http://127.0.0.1:11434",
    ),
    Provider(
        "local",
        "the embedded model, without key or network",
        "a name from `kogniterm models list`, or nothing",
        package="xllamacpp",
        extra="local",
        note="the default when no key is set",
    ),
    Provider(
        "scripted",
        "answers written by hand",
        "a YAML file",
        note="for tests, demos and bug reports; see docs/scripted.md",
    ),
    Provider(
        "replay",
        "answers recorded from another model",
        "a recording",
        note="plays a recorded session again without its provider",
    ),
)

BY_NAME = {provider.name: provider for provider in PROVIDERS}

WINDOWS: tuple[tuple[str, str, int, int], ...] = (
    # as the providers published them on 2026-11-21
    # provider, beginning of the model's name, context window, longest output (tokens);
    # the longest beginning that fits decides
    ("google_genai", "gemini-", 1_048_576, 65_536),
    ("google_genai", "gemini-2.5-computer-use", 128_000, 64_000),
    ("google_genai", "gemini-2.0", 1_048_576, 8_192),
    ("google_genai", "gemma-", 262_144, 32_768),
    ("openai", "gpt-3.5-turbo", 16_385, 4_096),
    ("openai", "gpt-4", 8_192, 8_192),
    ("openai", "gpt-4-turbo", 128_000, 4_096),
    ("openai", "gpt-4o", 128_000, 16_384),
    ("openai", "gpt-4.1", 1_047_576, 32_768),
    ("openai", "gpt-5", 272_000, 128_000),
    ("openai", "gpt-5.4", 1_050_000, 128_000),
    ("openai", "gpt-5.4-mini", 400_000, 128_000),
    ("openai", "gpt-5.4-nano", 400_000, 128_000),
    ("openai", "gpt-5.5", 1_050_000, 128_000),
    ("openai", "gpt-5.6", 1_050_000, 128_000),
    ("openai", "gpt-6", 1_050_000, 128_000),
    ("openai", "o1", 200_000, 100_000),
    ("openai", "o3", 200_000, 100_000),
    ("openai", "o4", 200_000, 100_000),
    ("anthropic", "claude-", 200_000, 64_000),
    ("anthropic", "claude-opus-4-6", 1_000_000, 128_000),
    ("anthropic", "claude-opus-4-7", 1_000_000, 128_000),
    ("anthropic", "claude-opus-4-8", 1_000_000, 128_000),
    ("anthropic", "claude-opus-5", 1_000_000, 128_000),
    ("anthropic", "claude-sonnet-4-6", 1_000_000, 128_000),
    ("anthropic", "claude-sonnet-5", 1_000_000, 128_000),
    ("anthropic", "claude-haiku-5", 1_000_000, 128_000),
    ("anthropic", "claude-fable-5", 1_000_000, 128_000),
)
UNKNOWN_WINDOW = (32_768, 4_096)
"""For a model not in the table: small enough for nearly every model served today, so that
compaction comes early instead of an overflow. `context_window` in the settings overrides it."""

_WEB = ("image/png", "image/jpeg", "image/webp")
_ALL = (*_WEB, "image/gif")
IMAGES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    # provider, beginning of the model's name, media types of images it takes; the longest
    # beginning that fits decides, and a model that is not here takes none
    ("google_genai", "gemini-", _WEB),
    ("google_genai", "gemma-", _WEB),
    ("google_genai", "gemma-3-1b", ()),
    ("openai", "gpt-4-turbo", _ALL),
    ("openai", "gpt-4o", _ALL),
    ("openai", "gpt-4.1", _ALL),
    ("openai", "gpt-4.5", _ALL),
    ("openai", "gpt-5", _ALL),
    ("openai", "gpt-6", _ALL),
    ("openai", "o1", _ALL),
    ("openai", "o1-mini", ()),
    ("openai", "o1-preview", ()),
    ("openai", "o3", _ALL),
    ("openai", "o3-mini", ()),
    ("openai", "o4", _ALL),
    ("anthropic", "claude-", _ALL),
    ("anthropic", "claude-2", ()),
    ("anthropic", "claude-instant", ()),
    ("ollama", "gemma3", _WEB),
    ("ollama", "gemma3:1b", ()),
    ("ollama", "gemma3:270m", ()),
    ("ollama", "granite3.2-vision", _WEB),
    ("ollama", "llama3.2-vision", _WEB),
    ("ollama", "llama4", _WEB),
    ("ollama", "llava", _WEB),
    ("ollama", "bakllava", _WEB),
    ("ollama", "minicpm-v", _WEB),
    ("ollama", "mistral-small3", _WEB),
    ("ollama", "moondream", _WEB),
    ("ollama", "qwen2.5vl", _WEB),
    ("ollama", "qwen3-vl", _WEB),
)
ANY_IMAGES = _ALL
"""For a model that the settings say takes images."""


def provider_called(name: str) -> Provider | None:
    """The provider of that name."""
    return BY_NAME.get(name)


def window_of(provider: str, model: str) -> tuple[int, int]:
    """(context window, longest output) of a model, in tokens."""
    fitting = [
        (len(start), window, output)
        for name, start, window, output in WINDOWS
        if name == provider and model.removeprefix("models/").startswith(start)
    ]
    return max(fitting)[1:] if fitting else UNKNOWN_WINDOW


def images_of(provider: str, model: str) -> tuple[str, ...]:
    """The media types of images that a model takes; none for one that is not in the table."""
    fitting = [
        (len(start), kinds)
        for name, start, kinds in IMAGES
        if name == provider and model.removeprefix("models/").startswith(start)
    ]
    return max(fitting)[1] if fitting else ()
