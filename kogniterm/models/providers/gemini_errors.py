"""What goes wrong with Gemini, in our words: exceptions of its client and unusable replies.

The client raises for what HTTP reports, and is silent about the rest: a blocked prompt, a
safety stop, a malformed function call or a cut stream all arrive as a short or empty message
whose response metadata alone tells. Both ways end here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kogniterm.errors import (
    ModelAuthError,
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
    retry_after,
    too_long,
)

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage

PROVIDER = "Gemini"
BLOCKED_FINISHES = frozenset(
    {
        "SAFETY",
        "RECITATION",
        "LANGUAGE",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
    }
)


def from_exception(error: Exception, *, model: str, host: str) -> ModelError:
    """The failure behind an exception of the Gemini client or of its HTTP layer."""
    from google.genai.errors import APIError
    from langchain_core.exceptions import ContextOverflowError as ForeignOverflowError

    broken = from_transport(error, provider=PROVIDER, host=host)
    if broken is not None:
        return broken
    found = error if isinstance(error, APIError) else error.__cause__
    if isinstance(error, ForeignOverflowError):
        return too_long(model, found.message if isinstance(found, APIError) else error)
    if isinstance(found, APIError):
        return _from_api(found, model)
    # Bytes that are no JSON, or JSON that is no reply: with a proxy in between this is a
    # broken connection more often than a broken model.
    return ModelUnavailableError(
        "Gemini sent a reply that cannot be read ({detail}).", detail=detail(error)
    )


def _from_api(error: Any, model: str) -> ModelError:
    code = int(error.code) if str(error.code).isdigit() else 500
    message = str(error.message or error.status or error)
    details = _details(error.details)
    reasons = {str(item.get("reason")) for item in details}
    if reasons & {"API_KEY_INVALID", "API_KEY_SERVICE_BLOCKED", "ACCESS_TOKEN_EXPIRED"} or (
        code == 400 and "api key" in message.lower()
    ):
        return ModelAuthError(
            "Gemini did not accept the API key ({detail}); set a valid GOOGLE_API_KEY.",
            detail=detail(message),
        )
    headers = getattr(error.response, "headers", None) or {}
    wait = retry_after(headers)
    if wait is None:
        wait = _retry_info(details)
    if code == 429 and _daily(details):
        return adjusted(
            ModelQuotaError(
                "The daily Gemini quota of {model} is used up ({detail}).",
                model=model,
                detail=detail(message),
            ),
            retryable=False,
            retry_after=wait,
        )
    return from_status(code, message, model=model, provider=PROVIDER, wait=wait)


def _details(body: object) -> list[Mapping[str, Any]]:
    """The `details` list of an API error, whatever shape the body has."""
    error = body.get("error", body) if isinstance(body, Mapping) else {}
    details = error.get("details") if isinstance(error, Mapping) else None
    items = details if isinstance(details, list) else []
    return [item for item in items if isinstance(item, Mapping)]


def _retry_info(details: list[Mapping[str, Any]]) -> float | None:
    """Seconds of a google.rpc.RetryInfo detail, such as "7s" or "0.5s"."""
    for item in details:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)s", str(item.get("retryDelay", "")))
        if match:
            return float(match[1])
    return None


def _daily(details: list[Mapping[str, Any]]) -> bool:
    """Whether a google.rpc.QuotaFailure names a quota per day: waiting seconds is no use."""
    violations = [
        violation
        for item in details
        for violation in item.get("violations") or []
        if isinstance(violation, Mapping)
    ]
    return any("PerDay" in str(violation.get("quotaId", "")) for violation in violations)


PROBLEMS = {
    "STOP": "",
    "MAX_TOKENS": CUT,
    "MALFORMED_FUNCTION_CALL": "its function call could not be read",
    "MALFORMED_RESPONSE": "it could not be read",
    "UNEXPECTED_TOOL_CALL": "it called a function although none was offered",
    "TOO_MANY_TOOL_CALLS": "it called too many functions in a row",
}
"""Explanations for the model, by finish reason (`Candidate.FinishReason` of the Gemini API)."""


def problem(message: AIMessage) -> str:
    """Return in words for the model why a reply cannot be used, or nothing."""
    finish = str(message.response_metadata.get("finish_reason") or "STOP")
    return PROBLEMS.get(finish, f"the provider ended it ({finish})")


def no_reply(message: AIMessage) -> ModelError | None:
    """Return why a stream that ended brought no reply of the model; None when it did."""
    metadata = message.response_metadata
    finish = str(metadata.get("finish_reason") or "")
    feedback = metadata.get("prompt_feedback")
    if feedback:
        reason = feedback.get("block_reason") if isinstance(feedback, Mapping) else feedback
        return ModelBlockedError(
            "Gemini's safety filter blocked the request ({reason}); word it differently.",
            reason=getattr(reason, "name", reason) or "no reason given",
        )
    if finish in BLOCKED_FINISHES:
        return ModelBlockedError(
            "Gemini's safety filter stopped the reply ({reason}); word the task differently.",
            reason=finish,
        )
    if not finish and (message.content or message.tool_calls or message.invalid_tool_calls):
        return ModelUnavailableError(
            "The connection to Gemini was cut before the reply was complete."
        )
    return None
