"""The models that each provider offers: its live list, else the names in the catalog.

Nothing is asked before the user asks for the list. A provider that does not answer in time, or
that refuses, is no failure: its names come from `catalog.toml`, and the list says so.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from kogniterm.errors import (
    ModelAuthError,
    ModelError,
    ModelUnavailableError,
    SettingsError,
)
from kogniterm.models.calling import ModelOptions
from kogniterm.models.catalog import (
    BY_NAME,
    CURRENT,
    GEMINI_API,
    Price,
    Provider,
    efforts_of,
    price_of,
    window_of,
)
from kogniterm.models.embedded import WeightsState, embedded_model
from kogniterm.models.providers.provider_model import (
    checked_url,
    from_transport,
    host_of,
    machine_network,
)
from kogniterm.settings import certificates
from kogniterm.types import Phrase

LIST_SECONDS = 4.0
"""Wait for one provider's list; the user can pick from the catalog's names meanwhile."""
MOST_BYTES = 8_000_000
MOST_MODELS = 500
_NO_CHAT = re.compile(
    r"audio|babbage|computer-use|dall-e|davinci|deep-research|embed|image|imagen|instruct|live|"
    r"lyria|moderation|native|omni|realtime|robotics|search|sora|transcri|tts|veo|whisper"
)
"""Parts of names that only models for other purposes than chat have."""
_DATED = re.compile(r"-(?:20\d{6}|20\d\d-\d\d-\d\d|\d{4}|\d\d\d)$")
"""The end of a name that pins a version of a model which has a shorter name, too."""


class ListedModel(NamedTuple):
    """A model that can be chosen. The window is in tokens; an unknown price is None."""

    name: str
    provider: str
    window: int
    price: Price | None
    efforts: tuple[str, ...] = ()


class ModelListing(NamedTuple):
    """The models of one provider; `problem` is why its live list is not here."""

    provider: str
    models: tuple[ListedModel, ...]
    live: bool = False
    problem: Phrase | None = None


class ModelLists:
    """The listings of the providers that `options` configure.

    `patience` is the wait for one provider in seconds.
    """

    def __init__(self, options: ModelOptions, patience: float = LIST_SECONDS) -> None:
        self.options, self.patience = options, patience

    @property
    def providers(self) -> tuple[Provider, ...]:
        """The providers that can be used: a key, an address or weights are there."""
        options = self.options
        found = [
            provider
            for provider in BY_NAME.values()
            if options.keys.get(provider.name) or options.base_urls.get(provider.name)
        ]
        return (*found, BY_NAME["local"]) if _weights(options) else tuple(found)

    @property
    def asked(self) -> tuple[Provider, ...]:
        return tuple(provider for provider in self.providers if provider.name in _LISTS)

    def list_known(self, provider: Provider, problem: Phrase | None = None) -> ModelListing:
        """Return what is known without asking; `problem` is why that is all."""
        names = CURRENT.get(provider.name, ())
        if provider.name == "local":
            names = tuple(_weights(self.options))
        elif provider.name == "openai" and self.options.base_urls.get("openai"):
            names = ()  # another service has other models
        return _listing(provider, names, self.options, problem=problem)

    def live(self, provider: Provider) -> ModelListing:
        """Ask the provider; takes up to twice the patience, so call it on a thread."""
        url = (self.options.base_urls.get(provider.name) or provider.url).rstrip("/")
        try:
            fetch = partial(_fetch, provider.label, self.patience)
            names = _LISTS[provider.name](fetch, url, self.options.keys.get(provider.name) or "")
        except (ModelError, SettingsError) as error:
            return self.list_known(provider, error.text)
        except (KeyError, TypeError, AttributeError):
            return self.list_known(provider, _unreadable(provider.label).text)
        return _listing(provider, _order_names(provider.name, names), self.options, live=True)


def _listing(
    provider: Provider, names: Sequence[str], options: ModelOptions, **more: Any
) -> ModelListing:
    models = tuple(_as_listed_model(provider, name, options) for name in names[:MOST_MODELS])
    return ModelListing(provider.name, models, **more)


def _as_listed_model(provider: Provider, name: str, options: ModelOptions) -> ListedModel:
    window = options.context_window or window_of(provider.name, name)[0]
    if provider.name == "local":
        window = _weights(options)[name].context_window
    full = f"{provider.name}:{name}"
    return ListedModel(full, provider.name, window, price_of(full), efforts_of(provider.name, name))


def _weights(options: ModelOptions) -> dict[str, WeightsState]:
    """Return the weights that are on this machine, by name."""
    folder, embedded = options.weights_folder, embedded_model()
    if folder is None or embedded is None:
        return {}
    return {one.name: one for one in embedded.states(folder) if one.state == "ready"}


def _order_names(provider: str, names: Sequence[str]) -> list[str]:
    """Return the catalog's names first, then the newest; versions pinned by date last."""
    current = {name: number for number, name in enumerate(CURRENT.get(provider, ()))}
    if provider == "ollama":
        return list(dict.fromkeys(names))  # the one changed last comes first

    def rank(name: str) -> tuple[int, bool]:
        return current.get(name, len(current)), bool(_DATED.search(name))

    newest = sorted(dict.fromkeys(names), key=_by_version, reverse=True)
    return sorted(newest, key=rank)


def _by_version(name: str) -> list[tuple[int, float | str]]:
    """Return a key that orders `gpt-5.10` behind `gpt-5.9`."""
    parts = re.findall(r"\d+|[^\d]+", name)
    return [(1, float(part)) if part.isdigit() else (0, part) for part in parts]


Fetch = Callable[[str, Mapping[str, str]], dict[str, Any]]
"""Returns the JSON object at an address, asked with these headers."""


# --- one provider each -------------------------------------------------------------------------


def _gemini(fetch: Fetch, url: str, key: str) -> list[str]:
    """Ask Gemini (https://ai.google.dev/api/models#method:-models.list)."""
    answer = fetch(f"{url}/{GEMINI_API}/models?pageSize=1000", {"x-goog-api-key": key})
    return [
        str(one["name"]).removeprefix("models/")
        for one in answer["models"]
        if "generateContent" in one.get("supportedGenerationMethods", ())
        and not _NO_CHAT.search(str(one["name"]))
    ]


def _openai(fetch: Fetch, url: str, key: str) -> list[str]:
    """Ask OpenAI (https://platform.openai.com/docs/api-reference/models/list) or one like it."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    names = [str(one["id"]) for one in fetch(f"{url}/models", headers)["data"]]
    if url != BY_NAME["openai"].url:  # a server of the user's own: everything it has is meant
        return names
    chat = re.compile(r"gpt-|chatgpt-|o\d")
    return [name for name in names if chat.match(name) and not _NO_CHAT.search(name)]


def _anthropic(fetch: Fetch, url: str, key: str) -> list[str]:
    """Ask Anthropic (https://docs.claude.com/en/api/models-list)."""
    headers = {"x-api-key": key, "anthropic-version": "2023-06-01"}
    answer = fetch(f"{url}/v1/models?limit=1000", headers)
    return [str(one["id"]) for one in answer["data"]]


def _ollama(_fetch: Fetch, url: str, _key: str) -> list[str]:
    from kogniterm.models.providers.langchain import list_pulled

    return list_pulled(url)


_LISTS: Mapping[str, Callable[[Fetch, str, str], list[str]]] = {
    "google_genai": _gemini,
    "openai": _openai,
    "anthropic": _anthropic,
    "ollama": _ollama,
}


def require_answer(provider: Provider, url: str, patience: float) -> None:
    """Ask `url` without a key, on the way of a session. Raises `ModelError`, `SettingsError`."""
    import httpx

    title, host = provider.label, host_of(checked_url(url, provider.label))
    network: dict[str, Any] = {"trust_env": False}
    if provider.name != "ollama":
        network = machine_network(httpx.HTTPTransport, certificates(httpx.create_ssl_context))
    try:
        with httpx.Client(timeout=patience, **network) as client:
            client.head(url)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise from_transport(error, provider=title, host=host) or _unreadable(title) from error


def _fetch(title: str, patience: float, url: str, headers: Mapping[str, str]) -> dict[str, Any]:
    """Return the JSON object at `url`. Raises `ModelError` where none comes in time."""
    import httpx

    host = host_of(checked_url(url, title))
    try:
        network = machine_network(httpx.HTTPTransport, certificates(httpx.create_ssl_context))
        with (
            httpx.Client(timeout=patience, **network) as client,
            client.stream("GET", url, headers=dict(headers)) as answer,
        ):
            if answer.status_code >= 300:
                raise _status_error(answer.status_code, title, host)
            # An answer that trickles, or does not end, is given up.
            deadline = time.monotonic() + patience
            whole = b""
            for piece in answer.iter_bytes():
                whole += piece
                if len(whole) > MOST_BYTES or time.monotonic() > deadline:
                    raise TimeoutError
            found = json.loads(whole)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise from_transport(error, provider=title, host=host) or _unreadable(title) from error
    except (ValueError, TimeoutError) as error:
        raise _unreadable(title) from error
    if not isinstance(found, dict):
        raise _unreadable(title)
    return found


def _status_error(status: int, title: str, host: str) -> ModelError:
    if status in {401, 403}:
        return ModelAuthError("{provider} rejected the API key.", provider=title)
    return ModelUnavailableError(
        "{provider} at {host} has no list of models (status {status}).",
        provider=title,
        host=host,
        status=status,
    )


def _unreadable(title: str) -> ModelError:
    return ModelUnavailableError("{provider} sent no list that can be read.", provider=title)
