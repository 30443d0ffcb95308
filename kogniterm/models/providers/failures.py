"""Foreign failures in our words: what several adapters need to map them once, at the port."""

from __future__ import annotations

import email.utils
import math
import time
from collections.abc import Mapping
from typing import TypeVar

from kogniterm.errors import (
    ContextOverflowError,
    ModelAuthError,
    ModelError,
    ModelNotFoundError,
    ModelQuotaError,
    ModelUnavailableError,
)

Kind = TypeVar("Kind", bound=ModelError)
LONGEST_DETAIL = 300
"""Characters of a provider's own words that a message repeats."""
CUT = "it reached the output limit before it was complete; say less at once, in several steps"
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
"""How providers word that a request does not fit; compared in lower case."""


def adjusted(
    error: Kind, *, retryable: bool | None = None, retry_after: float | None = None
) -> Kind:
    """`error` with what this one failure says about asking again."""
    if retryable is not None:
        error.retryable = retryable
    if retry_after is not None:
        error.retry_after = retry_after
    return error


def detail(text: object) -> str:
    """A provider's words on one short line, without a closing full stop."""
    line = " ".join(str(text).split())
    if len(line) > LONGEST_DETAIL:
        line = line[: LONGEST_DETAIL - 1] + "…"
    return line.rstrip(".") or "no reason given"


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds the `Retry-After` header asks to wait: a number or an HTTP date (RFC 9110 10.2.3)."""
    value = headers.get("retry-after") or headers.get("Retry-After")
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
        except ValueError:
            return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def too_long(model: str, words: object) -> ContextOverflowError:
    """The failure of a request that exceeds the context window, in the provider's words."""
    return ContextOverflowError(
        "The conversation does not fit the context window of {model} ({detail}).",
        model=model,
        detail=detail(words),
    )


def overflows(message: str) -> bool:
    """Whether a provider's message says that the request exceeds the context window."""
    lowered = message.lower()
    return any(sign in lowered for sign in OVERFLOW_SIGNS)


def from_status(
    status: int, message: str, *, model: str, provider: str, wait: float | None = None
) -> ModelError:
    """The failure behind an HTTP status; `wait` is the provider's wish in seconds."""
    words = detail(message)
    values = {"model": model, "provider": provider, "detail": words, "status": status}
    if status == 413 or (status == 400 and overflows(message)):
        return too_long(model, message)
    if status in {401, 403}:
        return ModelAuthError(
            "{provider} did not accept the API key ({detail}); set a valid one.", **values
        )
    if status == 404:
        return ModelNotFoundError(
            "{provider} does not know the model {model} ({detail}); choose another with --model.",
            **values,
        )
    if status == 429:
        limited = ModelQuotaError(
            "{provider} limits the rate or quota of {model} ({detail}).", **values
        )
        return adjusted(limited, retry_after=wait)
    if status >= 500 or status in {408, 409}:
        broken = ModelUnavailableError(
            "{provider} failed with status {status} ({detail}).", **values
        )
        return adjusted(broken, retry_after=wait)
    return ModelError("{provider} refused the request with status {status} ({detail}).", **values)


def from_transport(error: BaseException, *, provider: str, host: str) -> ModelError | None:
    """The failure behind a connection that could not be made or broke; None for other errors.

    Goes by the names of httpx's exception classes, because some provider packages bring a
    fork of httpx with the same classes under another module.
    """
    kinds = {kind.__name__ for kind in type(error).__mro__}
    values: dict[str, object] = {"provider": provider, "host": host, "detail": detail(error)}
    if kinds & {"ConnectError", "ConnectTimeout", "ProxyError", "ConnectionError"}:
        return ModelUnavailableError(
            "Cannot reach {provider} at {host} ({detail}); check the network and the address.",
            **values,
        )
    if "TimeoutException" in kinds:
        return ModelUnavailableError("{provider} at {host} went silent.", **values)
    if kinds & {"UnsupportedProtocol", "InvalidURL"}:
        unusable = ModelUnavailableError(
            "The address {host} of {provider} cannot be used ({detail}).", **values
        )
        return adjusted(unusable, retryable=False)
    if kinds & {"TransportError", "RemoteProtocolError"}:
        return ModelUnavailableError(
            "The connection to {provider} at {host} was cut before the reply was complete.",
            **values,
        )
    return None
