"""What goes wrong with OpenAI, Anthropic and Ollama, in our words.

Their packages agree on little but this: an error with a status code and a response, an error
that wraps a broken connection, or a reply whose finish reason says that it is no answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kogniterm.errors import (
    ModelBlockedError,
    ModelError,
    ModelQuotaError,
    ModelUnavailableError,
)
from kogniterm.models.providers.failures import (
    CUT,
    adjusted,
    detail,
    from_status,
    from_transport,
    overflows,
    retry_after,
    too_long,
)

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage

BLOCKED = frozenset({"content_filter", "refusal"})
CUT_FINISHES = frozenset({"length", "max_tokens"})
OVERFLOWED = frozenset({"model_context_window_exceeded"})


def foreign(provider: str) -> tuple[type[Exception], ...]:
    """The exceptions a provider's client lets out: its own, its HTTP layer's, and what parsing
    an odd reply raises."""
    import httpx
    from langchain_core.exceptions import LangChainException

    kinds: list[type[Exception]] = [
        LangChainException,
        httpx.HTTPError,
        httpx.InvalidURL,
        ConnectionError,
        ValueError,
        TypeError,
        KeyError,
    ]
    if provider == "openai":
        import openai

        kinds.append(openai.OpenAIError)
    elif provider == "anthropic":
        import anthropic

        kinds.append(anthropic.AnthropicError)
    elif provider == "ollama":
        import ollama

        kinds += [ollama.ResponseError, ollama.RequestError]
    if provider in {"openai", "anthropic"}:
        import httpx2

        kinds += [httpx2.HTTPError, httpx2.InvalidURL]
    return tuple(kinds)


def from_exception(error: Exception, *, model: str, provider: str, host: str) -> ModelError:
    """The failure behind an exception of a provider's client."""
    from langchain_core.exceptions import ContextOverflowError as ForeignOverflowError

    message = _message(error)
    if isinstance(error, ForeignOverflowError):
        return too_long(model, message)
    status = getattr(error, "status_code", None)
    if isinstance(status, int) and 300 <= status < 400:
        redirected = ModelUnavailableError(
            "The address {host} of {provider} cannot be used (it redirects elsewhere).",
            host=host,
            provider=provider,
        )
        return adjusted(redirected, retryable=False)
    if isinstance(status, int) and status >= 400:
        return _from_status(error, status, message, model=model, provider=provider)
    for cause in _causes(error):
        broken = from_transport(cause, provider=provider, host=host)
        if broken is not None:
            return broken
        if "APITimeoutError" in {kind.__name__ for kind in type(cause).__mro__}:
            return ModelUnavailableError(
                "{provider} at {host} went silent.", provider=provider, host=host
            )
    if overflows(message):
        return too_long(model, message)
    return ModelUnavailableError(
        "{provider} sent a reply that cannot be used ({detail}).",
        provider=provider,
        detail=detail(message),
    )


def _from_status(
    error: Exception, status: int, message: str, *, model: str, provider: str
) -> ModelError:
    response: Any = getattr(error, "response", None)
    wait = retry_after(getattr(response, "headers", None) or {})
    found = from_status(status, message, model=model, provider=provider, wait=wait)
    if isinstance(found, ModelQuotaError) and getattr(error, "code", "") == "insufficient_quota":
        return adjusted(found, retryable=False)
    return found


def _message(error: Exception) -> str:
    """The provider's own words, without the dump of the response around them."""
    body = getattr(error, "body", None)
    if isinstance(body, dict):
        inner = body.get("error")
        found = inner.get("message") if isinstance(inner, dict) else body.get("message", inner)
        if found:
            return str(found)
    return str(getattr(error, "message", None) or getattr(error, "error", None) or error)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """`error` and what it was raised from."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def problem(message: AIMessage) -> str:
    """Return in words for the model why a reply cannot be used, or nothing."""
    return CUT if _finish(message) in CUT_FINISHES else ""


def _finish(message: AIMessage) -> str:
    metadata = message.response_metadata
    reasons = (metadata.get(name) for name in ("finish_reason", "stop_reason", "done_reason"))
    return str(next(filter(None, reasons), ""))


def no_reply(message: AIMessage, *, model: str, provider: str) -> ModelError | None:
    """Return why a stream that ended brought no reply of the model; None when it did."""
    finish = _finish(message)
    called = bool(message.tool_calls or message.invalid_tool_calls)
    empty = not message.text.strip() and not called
    refusal = message.additional_kwargs.get("refusal")
    if finish in BLOCKED or (refusal and empty):
        return ModelBlockedError(
            "The safety filter of {provider} stopped the reply ({reason}); "
            "word the task differently.",
            provider=provider,
            reason=detail(refusal or finish),
        )
    if finish in OVERFLOWED:
        return too_long(model, finish)
    if not finish:
        return ModelUnavailableError(
            "The connection to {provider} was cut before the reply was complete.",
            provider=provider,
        )
    return None
