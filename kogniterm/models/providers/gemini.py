"""Gemini through langchain-google-genai: streaming, function calls, failures in our words.

The client raises for what HTTP reports, and is silent about the rest: a blocked prompt, a safety
stop, a malformed function call or a cut stream all arrive as a short or empty message whose
response metadata alone tells. Both ways are mapped here.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from kogniterm.errors import (
    ModelAuthError,
    ModelBlockedError,
    ModelError,
    ModelQuotaError,
    ModelUnavailableError,
)
from kogniterm.models.calling import Caller, ModelOptions
from kogniterm.models.catalog import BY_NAME, GEMINI_API, cached_start, efforts_of, thinking_tokens
from kogniterm.models.providers.provider_model import (
    CUT,
    ProviderModel,
    adjust_error,
    checked_key,
    checked_url,
    detail,
    from_status,
    from_transport,
    host_of,
    retry_after,
    too_long,
)
from kogniterm.types import ModelEvent, ModelInfo, ModelRequest, Phrase, Reply, ToolSpec

if TYPE_CHECKING:
    from google.genai.types import Tool
    from langchain_core.messages import AIMessage, AIMessageChunk
    from langchain_google_genai import ChatGoogleGenerativeAI

    from kogniterm.models.providers.gemini_cache import PrefixCache
    from kogniterm.models.providers.gemini_wire import Wire

PROVIDER = "Gemini"


class GeminiModel(ProviderModel["ChatGoogleGenerativeAI"]):
    """A Gemini model."""

    def __init__(self, info: ModelInfo, options: ModelOptions, caller: Caller | None = None):
        super().__init__(info, options, caller)
        provider = BY_NAME[info.provider]
        key = options.keys.get(info.provider) or ""
        self._key = checked_key(key, PROVIDER, provider)
        url = provider.url
        # An explicit address also keeps a tracing gateway in the environment out of the way.
        self._url = checked_url(options.base_urls.get(info.provider) or url, PROVIDER)
        self._wire: Wire | None = None
        self._declared: tuple[tuple[ToolSpec, ...], list[Tool]] = ((), [])

    def _connect(self) -> ChatGoogleGenerativeAI:
        from google.genai import Client
        from google.genai.types import HttpOptions
        from langchain_google_genai import ChatGoogleGenerativeAI
        from pydantic import SecretStr

        from kogniterm.models.providers.gemini_wire import Wire

        secure = self._url.startswith("https:")
        wire = self._wire = Wire(idle=self._options.idle, secure=secure)
        wire.prefixes = self._prefix_cache(wire)
        # `verify` and `ssl` keep the client from loading certificates twice more.
        http = {"transport": wire, "verify": wire.certificates, "ssl": wire.certificates}
        chat = ChatGoogleGenerativeAI(
            model=self._info.name.partition(":")[2],
            api_key=SecretStr(self._key),
            base_url=self._url,
            api_version=GEMINI_API,
            vertexai=False,
            # Six silent tries are the client's default; ours are visible (see calling).
            max_retries=1,
            timeout=self._options.deadline,
            temperature=self._options.temperature,
            max_output_tokens=self._options.max_output,
            client_args=http,
            **self._thinking(),
        )
        if chat.client is not None and chat.client.vertexai:
            # GOOGLE_GENAI_USE_VERTEXAI moves the inner client, although it was told otherwise.
            chat.client = Client(
                vertexai=False,
                api_key=self._key,
                http_options=HttpOptions(
                    base_url=self._url,
                    api_version=GEMINI_API,
                    client_args=http,
                    async_client_args=http,
                ),
            )
        return chat

    def _prefix_cache(self, wire: Wire) -> PrefixCache | None:
        """Return the cache for the beginning of requests, for a model that allows it."""
        from kogniterm.models.providers.gemini_cache import PrefixCache, ProviderCaches

        provider, _colon, model = self._info.name.partition(":")
        least = cached_start(provider, model)
        if least is None or not self._options.prompt_cache:
            return None
        folder = self._options.provider_caches

        async def send(
            method: str, path: str, body: Mapping[str, Any] | None
        ) -> tuple[int, Mapping[str, Any]]:
            address = f"{self._url.rstrip('/')}/{GEMINI_API}/{path}"
            return await wire.ask(method, address, self._key, body)

        listed = ProviderCaches(folder) if folder is not None else None
        return PrefixCache(model, self._url, least, send, listed)

    def _thinking(self) -> dict[str, Any]:
        """Return the settings of thinking: a budget before Gemini 3, a level since."""
        _provider, _colon, model = self._info.name.partition(":")
        effort = self._info.effort
        tokens = thinking_tokens(self._info.provider, model, effort)
        settings: dict[str, Any] = {}
        if tokens is not None:
            settings["thinking_budget"] = tokens
        elif effort:
            settings["reasoning_effort"] = effort
        if self._options.thoughts and tokens != 0 and efforts_of(self._info.provider, model):
            settings["include_thoughts"] = True
        return settings

    def _no_client(self, why: str) -> ModelError:
        return ModelError("The Gemini client cannot be set up ({detail}).", detail=why)

    async def aclose(self) -> None:
        if self._wire is not None:
            await self._wire.aclose()

    async def _chunks(self, request: ModelRequest) -> AsyncGenerator[AIMessageChunk, None]:
        from kogniterm.models.providers.gemini_wire import CALL_HEADER, WireChangedError

        client = self._open()
        assert self._wire is not None
        for _ in range(2):
            call = self._wire.plan(request.messages, self._settings(request))
            tokens = cached = 0
            try:
                async for chunk in client.astream(
                    call.messages,
                    http_options={"headers": {CALL_HEADER: call.number}},
                    **call.settings,
                ):
                    counted: Mapping[str, Any] = chunk.usage_metadata or {}
                    tokens += counted.get("input_tokens") or 0
                    cached += (counted.get("input_token_details") or {}).get("cache_read") or 0
                    yield chunk
                if self._wire.prefixes is not None and request.tools and call.fixed:
                    self._wire.prefixes.note_reply(
                        call.head, call.fixed, call.parts, tokens=tokens, cached=cached
                    )
                return
            except WireChangedError:
                # A client with another request shape: it works, only slower.
                self._wire.plain = True
            finally:
                await self._wire.end(call)

    def _settings(self, request: ModelRequest) -> dict[str, Any]:
        settings: dict[str, Any] = {}
        if request.purpose == "web_search":
            settings["tools"] = [{"google_search": {}}]
        elif request.tools:
            if self._declared[0] != request.tools:
                from google.genai.types import Tool

                from kogniterm.models.providers.chunks import valid_schema

                forms = [
                    {
                        "name": tool.name,
                        "description": tool.description,
                        "parameters_json_schema": valid_schema(tool.parameters),
                    }
                    for tool in request.tools
                ]
                made = Tool.model_validate({"function_declarations": forms})
                self._declared = request.tools, [made]
            settings["tools"] = self._declared[1]
        if request.schema is not None:
            settings["response_mime_type"] = "application/json"
            settings["response_schema"] = dict(request.schema)
        return settings

    async def _attempt(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        async with aclosing(super()._attempt(request)) as events:
            async for event in events:
                if isinstance(event, Reply) and self._wire is not None and self._wire.prefixes:
                    owed = self._wire.prefixes.take_owed()
                    event = event._replace(usage=event.usage + owed)
                yield event

    def _foreign(self) -> tuple[type[Exception], ...]:
        import httpx
        from google.genai.errors import APIError
        from langchain_google_genai.chat_models import ChatGoogleGenerativeAIError

        own = (APIError, ChatGoogleGenerativeAIError)
        return (httpx.HTTPError, httpx.InvalidURL, *own, ValueError, TypeError)

    def _failure(self, error: Exception) -> ModelError:
        from google.genai.errors import APIError
        from langchain_core.exceptions import ContextOverflowError as ForeignOverflowError

        broken = from_transport(error, provider=PROVIDER, host=host_of(self._url))
        if broken is not None:
            return broken
        found = error if isinstance(error, APIError) else error.__cause__
        if isinstance(error, ForeignOverflowError):
            return too_long(
                self._info.name, found.message if isinstance(found, APIError) else error
            )
        if isinstance(found, APIError):
            return _from_api(found, self._info.name)
        # Bytes that are no JSON, or JSON that is no reply: with a proxy in between this is a
        # broken connection more often than a broken model.
        return ModelUnavailableError(
            "Gemini sent a reply that cannot be read ({detail}).", detail=detail(error)
        )

    def _no_reply(self, message: AIMessage) -> ModelError | None:
        metadata = message.response_metadata
        finish = str(metadata.get("finish_reason") or "")
        feedback = metadata.get("prompt_feedback")
        if feedback:
            reason = feedback.get("block_reason") if isinstance(feedback, Mapping) else feedback
            return ModelBlockedError(
                "Gemini's safety filter blocked the request ({reason}); rephrase it.",
                reason=getattr(reason, "name", reason) or Phrase("no reason given"),
            )
        if finish in BLOCKED_FINISHES:
            return ModelBlockedError(
                "Gemini's safety filter stopped the reply ({reason}); rephrase the task.",
                reason=finish,
            )
        if not finish and (message.content or message.tool_calls or message.invalid_tool_calls):
            return ModelUnavailableError(
                "The connection to Gemini was cut before the reply was complete."
            )
        return None

    def _problem(self, message: AIMessage) -> str:
        finish = str(message.response_metadata.get("finish_reason") or "STOP")
        return PROBLEMS.get(finish, f"the provider ended it ({finish})")


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


def _from_api(error: Any, model: str) -> ModelError:
    code = int(error.code) if str(error.code).isdigit() else 500
    message = str(error.message or error.status or error)
    details = _details(error.details)
    reasons = {str(item.get("reason")) for item in details}
    if reasons & {"API_KEY_INVALID", "API_KEY_SERVICE_BLOCKED", "ACCESS_TOKEN_EXPIRED"} or (
        code == 400 and "api key" in message.lower()
    ):
        return ModelAuthError(
            "Gemini rejected the API key ({detail}); set a valid GOOGLE_API_KEY.",
            detail=detail(message),
        )
    headers = getattr(error.response, "headers", None) or {}
    wait = retry_after(headers)
    if wait is None:
        wait = _retry_info(details)
    if code == 429 and _daily(details):
        return adjust_error(
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
    """Return the `details` list of an API error, whatever shape the body has."""
    error = body.get("error", body) if isinstance(body, Mapping) else {}
    details = error.get("details") if isinstance(error, Mapping) else None
    items = details if isinstance(details, list) else []
    return [item for item in items if isinstance(item, Mapping)]


def _retry_info(details: list[Mapping[str, Any]]) -> float | None:
    """Return the seconds of a google.rpc.RetryInfo detail, such as "7s" or "0.5s"."""
    for item in details:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)s", str(item.get("retryDelay", "")))
        if match:
            return float(match[1])
    return None


def _daily(details: list[Mapping[str, Any]]) -> bool:
    """Return whether a quota per day is used up (QuotaFailure): waiting seconds is no use."""
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
    "MALFORMED_FUNCTION_CALL": str(Phrase("its function call could not be read")),
    "MALFORMED_RESPONSE": str(Phrase("it could not be read")),
    "UNEXPECTED_TOOL_CALL": str(Phrase("it called a function although none was offered")),
    "TOO_MANY_TOOL_CALLS": str(Phrase("it called too many functions in a row")),
}
"""Explanations for the model, by finish reason (`Candidate.FinishReason` of the Gemini API)."""
