"""The part of a provider's model that is the same for every client.

`ProviderModel` opens the client, streams its chunks and retries visibly. Beside it stand the checks
of address and key, the limit on the length of one event, and the mapping of foreign failures to
`ModelError` kinds.
"""

from __future__ import annotations

import asyncio
import math
import time
from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import SplitResult, urlsplit

from kogniterm.errors import (
    ContextOverflowError,
    ModelAuthError,
    ModelError,
    ModelNotFoundError,
    ModelQuotaError,
    ModelUnavailableError,
    SettingsError,
)
from kogniterm.models.calling import Caller, ModelOptions, silence_tracing
from kogniterm.models.catalog import Provider
from kogniterm.settings import proxies, proxy_variables
from kogniterm.text.shorten import gist
from kogniterm.types import ModelEvent, ModelInfo, ModelRequest, Phrase, Reply

if TYPE_CHECKING:
    from ssl import SSLContext

    from langchain_core.messages import AIMessage, AIMessageChunk

Client = TypeVar("Client")
Kind = TypeVar("Kind", bound=ModelError)


class ProviderModel(Generic[Client]):
    """A model behind a provider's client; `caller` is given by tests to keep its waits short.

    Light to construct: `preload` or the first call imports and makes the client, once. Calls belong
    to one event loop at a time; `aclose` on that loop closes the connections.
    """

    def __init__(self, info: ModelInfo, options: ModelOptions, caller: Caller | None) -> None:
        self._info = info
        self._options = options
        self._caller = caller or Caller(info.name, options)
        self._lock = Lock()
        self._client: Client | None = None

    @property
    def info(self) -> ModelInfo:
        return self._info

    def preload(self) -> None:
        """Import and construct the client; safe to call from any thread, more than once.

        Raises `ModelError` when that fails.
        """
        self._open()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        if self._client is None:
            # On a thread, so that the loop stays alive, and before the deadline starts.
            await asyncio.to_thread(self.preload)
        async with aclosing(self._caller.call(lambda: self._attempt(request), request)) as events:
            async for event in events:
                yield event

    def _open(self) -> Client:
        with self._lock:
            if self._client is None:
                try:
                    silence_tracing()
                    self._client = self._connect()
                except SettingsError as error:
                    raise ModelError("{problem}", problem=error) from error
                except ImportError as error:
                    raise self._no_client(detail(error)) from error
                except self._foreign() as error:
                    raise self._no_client(detail(error)) from error
            return self._client

    async def _attempt(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        from kogniterm.models.providers.chunks import (
            Gathered,
            clean_message,
            deltas,
            sources_of,
            usage_of,
        )

        gathered = Gathered()
        try:
            async with aclosing(self._chunks(request)) as stream:
                async for chunk in stream:
                    if not gathered.take(chunk):
                        break
                    for delta in deltas(chunk):
                        yield delta
            message = gathered.message()
        except LongEventError:
            message = gathered.leave()
        except TimeoutError as error:  # the client's own: the caller's deadline cancels
            raise self._failure(error) from error
        except self._foreign() as error:
            raise self._failure(error) from error
        failure = None if gathered.problem else self._no_reply(message)
        if failure is not None:
            raise failure
        problem = gathered.problem or self._problem(message)
        sources = sources_of(message) if request.purpose == "web_search" else ()
        yield Reply(clean_message(message, problem), usage_of(message), sources)

    @abstractmethod
    def _connect(self) -> Client:
        """Import the provider's package and construct the client."""

    @abstractmethod
    def _no_client(self, why: str) -> ModelError:
        """Return the error for a client that cannot be constructed."""

    @abstractmethod
    def _chunks(self, request: ModelRequest) -> AsyncGenerator[AIMessageChunk, None]:
        """Stream the client's chunks; closing the stream ends the request."""

    @abstractmethod
    def _foreign(self) -> tuple[type[Exception], ...]:
        """Return the exceptions the client lets out, its HTTP layer's included."""

    @abstractmethod
    def _failure(self, error: Exception) -> ModelError:
        """Return the failure behind one of these exceptions."""

    @abstractmethod
    def _no_reply(self, message: AIMessage) -> ModelError | None:
        """Return why a stream that ended brought no reply of the model; None when it did."""

    @abstractmethod
    def _problem(self, message: AIMessage) -> str:
        """Return why a reply cannot be used, in words for the model; "" when it can."""


def checked_url(url: str, provider: str) -> str:
    """Return `url` if it is an http or https address. Raises `SettingsError` for anything else."""
    parts = _split(url)
    if parts is None or parts.scheme not in {"http", "https"} or not parts.hostname:
        raise SettingsError(
            "The base URL {url} of {provider} is not a valid address; use https://HOST/PATH.",
            url=url,
            provider=provider,
        )
    return url


def host_of(url: str) -> str:
    """Return host and port in `url`, without a user name or password before them."""
    parts = _split(url)
    return parts.netloc.rpartition("@")[2] if parts is not None else url


def checked_key(key: str, title: str, provider: Provider) -> str:
    """Return `key` stripped, if it can go into a header. No error contains the key.

    Raises `ModelAuthError`.
    """
    key = key.strip()
    if not key:
        raise ModelAuthError(
            "{title} needs an API key. Run `kogniterm login {provider}`, or set {key}.",
            title=title,
            provider=provider.name,
            key=provider.key,
        )
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise ModelAuthError(
            "The API key for {provider} contains invalid characters; copy it again.",
            provider=title,
        )
    return key


def _split(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        _ = parts.port  # checked only when it is asked for
    except ValueError:
        return None
    return parts


LONGEST_EVENT = 16_000_000
"""Bytes of one line of a stream: the longest reply (`chunks.LONGEST_REPLY`) with every character
escaped, and room for signatures of thoughts."""


class LongEventError(Exception):
    """A line of a provider's stream is longer than `LONGEST_EVENT`; the rest was not read."""


def machine_network(transport: Callable[..., Any], certificates: SSLContext) -> dict[str, Any]:
    """Return the arguments of a client of httpx, or of a fork, for this machine's proxies."""
    mounts = {
        pattern: transport(proxy=url, verify=certificates) if url else None
        for pattern, url in proxies().items()
    }
    return {"trust_env": False, "verify": certificates, "mounts": mounts}


def hooks() -> dict[str, list[Callable[..., Awaitable[None]]]]:
    """Return the event hooks for an httpx client whose responses are to be limited."""
    return {"response": [limit]}


async def limit(response: Any) -> None:
    """Let reading `response` raise `LongEventError` as soon as one line of it is too long.

    Raises `ModelUnavailableError` for a web page, as a network's sign-in or a wrong path sends it.
    """
    if response.is_success and response.headers.get("content-type", "").startswith("text/html"):
        page = ModelUnavailableError(
            "{host} answered with a web page, not as a model does; check the base URL, or sign in "
            "to the network.",
            host=host_of(str(response.url)),
        )
        raise adjust_error(page, retryable=False)
    read_through(_Limited, response)


def read_through(stream: type, response: Any) -> None:
    """Let what is read of `response` pass through a stream of this class.

    Takes a response of httpx or of a fork of it, as some providers' clients bring one.
    """
    kinds = type(response.stream).__mro__
    plain = next((kind for kind in kinds if kind.__name__ == "AsyncByteStream"), None)
    if plain is not None:
        response.stream = type("ReadThrough", (stream, plain), {})(response.stream)


class _Limited:
    """A response's bytes, as long as its lines have an end."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for data in self._stream:
            end = data.rfind(b"\n")
            size = size + len(data) if end < 0 else len(data) - end - 1
            if size > LONGEST_EVENT:
                raise LongEventError
            yield data

    async def aclose(self) -> None:
        await self._stream.aclose()


LONGEST_DETAIL = 300
"""Characters of a provider's own words that a message repeats."""
CUT = str(
    Phrase("it reached the output limit before it was complete; say less at once, in several steps")
)
"""Explanation for the model of why a cut reply cannot be used."""
OVERFLOW_SIGNS = (
    "context length",
    "context window",
    "context_length_exceeded",
    "maximum number of tokens",
    "maximum context",
    "prompt is too long",
    "token limit",
    "too many tokens",
)
"""Words of providers for a request that does not fit; compared in lower case."""


def adjust_error(
    error: Kind, *, retryable: bool | None = None, retry_after: float | None = None
) -> Kind:
    """Return `error` with the details of this failure about another try."""
    if retryable is not None:
        error.retryable = retryable
    if retry_after is not None:
        error.retry_after = retry_after
    return error


def detail(text: object) -> str:
    """Return a provider's words on one short line, without a closing full stop."""
    return gist(str(text), LONGEST_DETAIL).rstrip(".") or "no reason given"


LONGEST_WAIT = 366 * 86_400.0
"""Seconds; a longer time is no pause, but one of another clock or in another unit."""


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds in `Retry-After`: a number or an HTTP date (RFC 9110 10.2.3)."""
    value = headers.get("retry-after") or headers.get("Retry-After")
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        from email.utils import parsedate_to_datetime

        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return max(seconds, 0.0) if seconds <= LONGEST_WAIT else None


def too_long(model: str, words: object) -> ContextOverflowError:
    """Return the failure of a request that exceeds the context window, in the provider's words."""
    return ContextOverflowError(
        "The conversation does not fit the context window of {model} ({detail}).",
        model=model,
        detail=detail(words),
    )


def overflows(message: str) -> bool:
    """Return whether a provider's message says that the request exceeds the context window."""
    lowered = message.lower()
    return any(sign in lowered for sign in OVERFLOW_SIGNS)


_LONG_WAIT = 60.0
"""Seconds from which a wait that the provider asks for is part of the message."""


def from_status(
    status: int, message: str, *, model: str, provider: str, wait: float | None = None
) -> ModelError:
    """Return the failure behind an HTTP status; `wait` is the provider's request in seconds."""
    words = detail(message)
    values = {"model": model, "provider": provider, "detail": words, "status": status}
    if status == 413 or (status == 400 and overflows(message)):
        return too_long(model, message)
    if status in {401, 403}:
        return ModelAuthError(
            "{provider} rejected the API key ({detail}); set a valid one.", **values
        )
    if status == 404:
        return ModelNotFoundError(
            "Model {model} not found at {provider} ({detail}); choose another with --model.",
            **values,
        )
    if status == 429:
        limited = ModelQuotaError(
            "Rate limit or quota of {model} at {provider} reached ({detail}).", **values
        )
        if wait is not None and wait >= _LONG_WAIT:
            hours, minutes = round(wait / 3600), math.ceil(wait / 60)
            limited = ModelQuotaError(
                "Rate limit or quota of {model} at {provider} reached ({detail}); requests are "
                "taken again in {time}.",
                **values,
                time=f"{hours} h" if hours > 1 else f"{minutes} min",
            )
        return adjust_error(limited, retry_after=wait)
    if status >= 500 or status in {408, 409}:
        broken = ModelUnavailableError(
            "{provider} failed with status {status} ({detail}).", **values
        )
        return adjust_error(broken, retry_after=wait)
    return ModelError("{provider} refused the request with status {status} ({detail}).", **values)


def from_transport(error: BaseException, *, provider: str, host: str) -> ModelError | None:
    """Return the failure behind a connection that failed or broke; None for other errors.

    Goes by the names of httpx's exception classes, because some provider packages bring a
    fork of httpx with the same classes under another module.
    """
    if isinstance(error, ModelError):  # raised by a hook of the client
        return error
    kinds = {kind.__name__ for kind in type(error).__mro__}
    values: dict[str, object] = {"provider": provider, "host": host, "detail": detail(error)}
    if kinds & {"ConnectError", "ConnectTimeout", "ProxyError", "ConnectionError"}:
        if variables := proxy_variables():
            return ModelUnavailableError(
                "Cannot reach {provider} at {host} ({detail}); check the network, the address and "
                "the proxy in {variables}.",
                **values,
                variables=", ".join(variables),
            )
        return ModelUnavailableError(
            "Cannot reach {provider} at {host} ({detail}); check the network and the address.",
            **values,
        )
    if kinds & {"TimeoutException", "TimeoutError"}:
        return ModelUnavailableError("{provider} at {host} stopped responding.", **values)
    if kinds & {"UnsupportedProtocol", "InvalidURL"}:
        unusable = ModelUnavailableError(
            "The address {host} of {provider} cannot be used ({detail}).", **values
        )
        return adjust_error(unusable, retryable=False)
    if kinds & {"TransportError", "RemoteProtocolError"}:
        return ModelUnavailableError(
            "The connection to {provider} at {host} was cut before the reply was complete.",
            **values,
        )
    return None
