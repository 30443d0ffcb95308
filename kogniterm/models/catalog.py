"""The tables of models: providers, list prices, and the windows and images of models by name.

The data stands in `catalog.toml`; help, completion, `doctor` and the docs are made from it too.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from kogniterm.installed import rows
from kogniterm.types import Usage

_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))

PRICES_DATE: str = _TABLES["prices_date"]


class Price(NamedTuple):
    """US dollars for a million tokens.

    `cached` is the part of the input served from a cache, `written` the part that is stored in one.
    Of the latter's price, `extra` would not have been paid without the cache. `stored` is the price
    of a million tokens kept for an hour.
    """

    input: float
    output: float
    cached: float
    written: float
    extra: float = 0.0
    stored: float = 0.0

    def cost(self, usage: Usage) -> float:
        """Return the cost of the calls in US dollars, without those that were reused."""
        fresh = max(0, usage.input - usage.cached - usage.written)
        total = fresh * self.input + usage.cached * self.cached + usage.written * self.written
        total += usage.output * self.output + self._storage(usage)
        return total / 1_000_000

    def saving(self, usage: Usage) -> float:
        """Return how many US dollars more the same calls would have cost without caches.

        Negative where a provider's cache has cost more than it has saved so far.
        """
        total = usage.cached * (self.input - self.cached) - usage.written * self.extra
        total += usage.reused_input * self.input + usage.reused_output * self.output
        return (total - self._storage(usage)) / 1_000_000

    def _storage(self, usage: Usage) -> float:
        return usage.stored / 3600 * self.stored


FREE = Price(0, 0, 0, 0)
FREE_PROVIDERS = ("local", "ollama", "scripted", "replay")


def _price(name: str, dollars: Sequence[float]) -> Price:
    fresh, output, cached = dollars
    provider, _colon, model = name.partition(":")
    write = _fitting(model, _TABLES["cache_writes"].get(provider, {}).items()) or NO_WRITE_PRICE
    storage = _fitting(model, _TABLES["cache_storage"].get(provider, {}).items()) or 0.0
    written, extra = (factor * fresh for factor in write)
    return Price(fresh, output, cached, written, extra, storage)


NO_WRITE_PRICE = (1.0, 0.0)
"""Price of what a provider stores in its cache for nothing: that of any other input."""


def price_of(name: str) -> Price | None:
    """Return the price of `provider:model`; None when it is not known."""
    provider = name.partition(":")[0]
    if provider in FREE_PROVIDERS:
        return FREE
    matches = [known for known in PRICES if name == known or name.startswith(f"{known}-")]
    return PRICES[max(matches, key=len)] if matches else None


def cost_of(name: str, usage: Usage) -> float | None:
    """Return the cost of model calls in US dollars; None when the price is not known."""
    price = price_of(name)
    return price.cost(usage) if price is not None else None


def cached_start(provider: str, model: str) -> int | None:
    """Return the fewest tokens that a provider stores on request; None where it stores nothing."""
    return _fitting(model, _TABLES["cache_least"].get(provider, {}).items())


class Provider(NamedTuple):
    """A service, or a way to run a model, as it is chosen by `name:model`.

    `package` is the module that must be importable, and `distribution` the package of the index
    that brings it (None for what always works); `package_size` is its download in MB, where it is
    worth saying. `key` names the environment variable with the
    key; None where no key is needed. `default_model` is what is used when nothing stands
    behind the colon. `url` is where a service is reached unless the
    settings say otherwise. `label` is its name on screens, `key_page` the address where a user
    gets a key, and `key_starts` are beginnings that only keys of this provider have.
    """

    name: str
    label: str
    package: str | None = None
    distribution: str | None = None
    package_size: int = 0
    key: str | None = None
    default_model: str = ""
    url: str = ""
    key_page: str = ""
    key_starts: tuple[str, ...] = ()
    note: str = ""


PROVIDERS = tuple(
    Provider(**{**row, "key_starts": tuple(row.get("key_starts", ()))})
    for row in _TABLES["providers"]
    if row["name"] != "local" or rows("EMBEDDED_MODEL")
)
BY_NAME = {provider.name: provider for provider in PROVIDERS}

GEMINI_API = "v1beta"
"""The version of Gemini's API that every request is for. It is not left to google-genai, whose
default became `v1` with version 3: requests and what is stored for them must be of one version."""

WINDOWS: tuple[tuple[str, str, int, int], ...] = tuple(
    (provider, start, window, output)
    for provider, rows in _TABLES["windows"].items()
    for start, (window, output) in rows.items()
)
"""Provider, beginning of the model's name, context window and longest output in tokens."""
UNKNOWN_WINDOW = (32_768, 4_096)
"""For a model not in the table: small enough for nearly every model served today, so that
compaction comes early instead of an overflow. `context_window` in the settings overrides it."""

CURRENT: Mapping[str, tuple[str, ...]] = {
    provider: tuple(names) for provider, names in _TABLES["current"].items()
}
"""The names of models to offer where the provider's own list cannot be had."""
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""Every effort of reasoning, the least first; each model has some of them or none."""

_WEB = ("image/png", "image/jpeg", "image/webp")
ANY_IMAGES = (*_WEB, "image/gif")
"""For a model that the settings say takes images."""
_IMAGES = {"web": _WEB, "all": ANY_IMAGES, "none": ()}

Row = TypeVar("Row")


def window_of(provider: str, model: str) -> tuple[int, int]:
    """Return (context window, longest output) of a model, in tokens."""
    rows = (
        (start, (window, output)) for name, start, window, output in WINDOWS if name == provider
    )
    return _fitting(model, rows) or UNKNOWN_WINDOW


def efforts_of(provider: str, model: str) -> tuple[str, ...]:
    """Return the efforts of reasoning that a model has, the least first."""
    return tuple(_efforts(provider, model))


def thinking_tokens(provider: str, model: str, effort: str) -> int | None:
    """Return the budget of thinking that an effort means; None where it goes by its name."""
    found = _efforts(provider, model)
    return found.get(effort) if isinstance(found, dict) else None


def always_thinks(provider: str, model: str) -> bool:
    """Return whether a model thinks also where no effort is set, and can summarise it."""
    return bool(_fitting(model, _TABLES["always_thinks"].get(provider, {}).items()))


def _efforts(provider: str, model: str) -> Sequence[str] | dict[str, int]:
    rows: Mapping[str, Any] = _TABLES["efforts"].get(provider, {})
    return _fitting(model, rows.items()) or ()


def images_of(provider: str, model: str) -> tuple[str, ...]:
    """Return the media types of images that a model takes; none for an unknown model."""
    return _IMAGES[_fitting(model, _TABLES["images"].get(provider, {}).items()) or "none"]


def searches(provider: str, model: str) -> bool:
    return _fitting(model, _TABLES["search"].get(provider, {}).items()) or False


def _fitting(model: str, rows: Iterable[tuple[str, Row]]) -> Row | None:
    """Return the row of the longest beginning that fits the model's name."""
    name = model.removeprefix("models/")
    found = {start: row for start, row in rows if name.startswith(start)}
    return found[max(found, key=len)] if found else None


PRICES = {name: _price(name, dollars) for name, dollars in _TABLES["prices"].items()}
