"""Chat models of LangChain as KogniTerm models; clients of OpenAI, Anthropic and Ollama.

Anthropic caches a prompt only where the request says so, up to four times. The marks stand at the
end of what changes least: the tools, the system text, and the last message, since an append-only
history makes each request the beginning of the next. A compaction or a sub-agent, with another
history, still finds the first two. OpenAI caches by itself, and finds a prompt again more often by
a key that requests with the same beginning share.

A further provider is one entry in `CLIENTS` and a row of `catalog.PROVIDERS`. Their packages agree
on little about failures but this: an error with a status code and a response, an error that wraps a
broken connection, or a reply whose finish reason says that it is no answer.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.error import URLError
from urllib.request import urlopen

from kogniterm.errors import (
    ModelBlockedError,
    ModelError,
    ModelNotFoundError,
    ModelQuotaError,
    ModelUnavailableError,
)
from kogniterm.models.calling import Caller, ModelOptions
from kogniterm.models.catalog import (
    ANY_IMAGES,
    BY_NAME,
    UNKNOWN_WINDOW,
    always_thinks,
    thinking_tokens,
)
from kogniterm.models.providers.compatible_stream import MendedStream
from kogniterm.models.providers.provider_model import (
    CUT,
    ProviderModel,
    adjust_error,
    checked_key,
    checked_url,
    detail,
    from_status,
    from_transport,
    hooks,
    host_of,
    machine_network,
    overflows,
    read_through,
    retry_after,
    too_long,
)
from kogniterm.settings import certificates
from kogniterm.types import ModelInfo, ModelRequest, ToolSpec

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
    from langchain_core.runnables import Runnable


class ProviderClient(NamedTuple):
    """A provider's chat model, what closes its connections, and what each call adds."""

    chat: BaseChatModel
    close: Callable[[], Awaitable[None]]
    extra: Mapping[str, Any]


CACHED: Mapping[str, Any] = {"cache_control": {"type": "ephemeral"}}
"""Anthropic's mark of the end of a part to be cached, for five minutes after its last use."""


class LangChainModel(ProviderModel[ProviderClient]):
    """A model behind LangChain's interface."""

    def __init__(self, info: ModelInfo, options: ModelOptions, caller: Caller | None = None):
        super().__init__(info, options, caller)
        provider = BY_NAME[info.provider]
        self._title = provider.label
        url = options.base_urls.get(info.provider) or provider.url
        self._url = checked_url(url, self._title)
        # A server of one's own often wants no key, and the clients insist on some text.
        key = options.keys.get(info.provider) or "none"
        self._key = checked_key(key, self._title, provider)
        self._bound: tuple[tuple[ToolSpec, ...], Runnable[Any, Any]] | None = None
        self._marks = options.prompt_cache and info.provider == "anthropic"
        # A compatible service may refuse a field that it does not know.
        own = options.base_urls.get(info.provider)
        self._keyed = options.prompt_cache and info.provider == "openai" and not own

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = self._bound = None

    def _connect(self) -> ProviderClient:
        return CLIENTS[self._info.provider](self._info, self._key, self._options, self._url)

    def _no_client(self, why: str) -> ModelError:
        return ModelError(
            "The client of {provider} cannot be set up ({detail}).",
            provider=self._title,
            detail=why,
        )

    async def _chunks(self, request: ModelRequest) -> AsyncGenerator[AIMessageChunk, None]:
        client = self._open()
        if request.purpose == "web_search":
            asked = client.chat.bind_tools([SEARCH_TOOLS[self._info.provider]])
        else:
            asked = self._with_tools(client, request.tools)
        extra = dict(client.extra)
        if request.schema is not None:
            extra.update(_schema(self._info.provider, request.schema))
        if self._keyed:
            # Requests with the same system text and tools share a key.
            system = [message.text for message in request.messages[:1] if message.type == "system"]
            names = [tool.name for tool in request.tools]
            digest = hashlib.sha256(json.dumps([system, names]).encode()).hexdigest()
            extra["prompt_cache_key"] = f"kogniterm-{digest[:24]}"
        messages: list[BaseMessage] = list(request.messages)
        if self._marks:
            from langchain_core.messages import SystemMessage

            if messages and isinstance(messages[0], SystemMessage) and messages[0].text:
                # The mark stands at the end of the system text.
                block = {"type": "text", "text": messages[0].text, **CACHED}
                messages[0] = SystemMessage([block])
        # LangChain calls this an iterator; it is a generator, and closing it ends the request.
        stream = cast("AsyncGenerator[AIMessageChunk, None]", asked.astream(messages, **extra))
        async with aclosing(stream):
            async for chunk in stream:
                yield chunk

    def _with_tools(
        self, client: ProviderClient, tools: tuple[ToolSpec, ...]
    ) -> Runnable[Any, Any]:
        """Return the chat model with `tools` bound, once as long as they stay the same."""
        from kogniterm.models.providers.chunks import tool_form

        if not tools:
            return client.chat
        if self._bound is None or self._bound[0] != tools:
            forms = [tool_form(tool) for tool in tools]
            if self._marks:
                form = forms[-1]["function"]
                last = {"name": form["name"], "description": form["description"]}
                forms[-1] = {**last, "input_schema": form["parameters"], **CACHED}
            self._bound = tools, client.chat.bind_tools(forms)
        return self._bound[1]

    def _foreign(self) -> tuple[type[Exception], ...]:
        import httpx
        from langchain_core.exceptions import LangChainException

        # The last three are what parsing an odd reply raises.
        odd = (ValueError, TypeError, KeyError)
        common = (LangChainException, httpx.HTTPError, httpx.InvalidURL, ConnectionError, *odd)
        if self._info.provider == "ollama":
            import ollama

            return (*common, ollama.ResponseError, ollama.RequestError)
        import httpx2

        own = (httpx2.HTTPError, httpx2.InvalidURL)
        if self._info.provider == "openai":
            import openai

            return (*common, *own, openai.OpenAIError)
        import anthropic

        return (*common, *own, anthropic.AnthropicError)

    def _failure(self, error: Exception) -> ModelError:
        from langchain_core.exceptions import ContextOverflowError as ForeignOverflowError

        model, provider, host = self._info.name, self._title, host_of(self._url)
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
            return adjust_error(redirected, retryable=False)
        if isinstance(status, int) and status >= 400:
            response: Any = getattr(error, "response", None)
            wait = retry_after(getattr(response, "headers", None) or {})
            found = from_status(status, message, model=model, provider=provider, wait=wait)
            if (
                isinstance(found, ModelQuotaError)
                and getattr(error, "code", "") == "insufficient_quota"
            ):
                return adjust_error(found, retryable=False)
            return found
        for cause in _causes(error):
            broken = from_transport(cause, provider=provider, host=host)
            if broken is not None:
                return broken
            if "APITimeoutError" in {kind.__name__ for kind in type(cause).__mro__}:
                return ModelUnavailableError(
                    "{provider} at {host} stopped responding.", provider=provider, host=host
                )
        if overflows(message):
            return too_long(model, message)
        return ModelUnavailableError(
            "{provider} sent a reply that cannot be used ({detail}).",
            provider=provider,
            detail=detail(message),
        )

    def _no_reply(self, message: AIMessage) -> ModelError | None:
        finish = _finish(message)
        called = bool(message.tool_calls or message.invalid_tool_calls)
        empty = not message.text.strip() and not called
        refusal = message.additional_kwargs.get("refusal")
        if finish in BLOCKED or (refusal and empty):
            return ModelBlockedError(
                "The safety filter of {provider} stopped the reply ({reason}); rephrase the task.",
                provider=self._title,
                reason=detail(refusal or finish),
            )
        if finish in OVERFLOWED:
            return too_long(self._info.name, finish)
        if not finish or finish in BROKEN:
            return ModelUnavailableError(
                "The connection to {provider} was cut before the reply was complete.",
                provider=self._title,
            )
        return None

    def _problem(self, message: AIMessage) -> str:
        return CUT if _finish(message) in CUT_FINISHES else ""


class GivenModel(LangChainModel):
    """A chat model that the calling program made, and keeps: it is never closed here."""

    def __init__(self, chat: BaseChatModel, options: ModelOptions, caller: Caller | None = None):
        profile: Mapping[str, Any] = getattr(chat, "profile", None) or {}
        window = options.context_window or profile.get("max_input_tokens") or UNKNOWN_WINDOW[0]
        output = min(profile.get("max_output_tokens") or window, window // 4)
        takes_images = profile.get("image_inputs") if options.images is None else options.images
        info = ModelInfo(
            name=given_name(chat),
            provider="langchain",
            context_window=window,
            max_output=min(options.max_output or output, output),
            images=ANY_IMAGES if takes_images else (),
        )
        ProviderModel.__init__(self, info, options, caller)
        self._chat, self._title, self._url = chat, type(chat).__name__, ""
        self._bound = None
        self._marks = self._keyed = False

    async def aclose(self) -> None:
        self._client = self._bound = None

    def _connect(self) -> ProviderClient:
        return ProviderClient(self._chat, self.aclose, {})

    async def _chunks(self, request: ModelRequest) -> AsyncGenerator[AIMessageChunk, None]:
        from langchain_core.messages import AIMessageChunk

        async with aclosing(super()._chunks(request)) as chunks:
            async for one in chunks:
                # A model that does not stream gives its whole message.
                whole = not isinstance(one, AIMessageChunk)
                yield AIMessageChunk(**one.model_dump(exclude={"type"})) if whole else one

    def _foreign(self) -> tuple[type[Exception], ...]:
        # The packages behind it are unknown, so any error of theirs is one of the model.
        return (Exception,)

    def _no_reply(self, message: AIMessage) -> ModelError | None:
        # Models of programs, such as those of tests, often name no reason for their end.
        return super()._no_reply(message) if _finish(message) else None


def given_name(chat: BaseChatModel) -> str:
    """Return the name of a program's chat model, by which sessions keep it."""
    named = getattr(chat, "model_name", "") or getattr(chat, "model", "")
    return f"langchain:{named if isinstance(named, str) and named else type(chat).__name__}"


def _schema(provider: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that ask for JSON of a schema; none where the prompt has to do."""
    if provider == "openai":
        form = {"name": "reply", "schema": dict(schema), "strict": False}
        # In the body alone: as an argument it makes the client parse the stream on its own.
        return {"extra_body": {"response_format": {"type": "json_schema", "json_schema": form}}}
    if provider == "ollama":
        return {"format": dict(schema)}
    return {}


def _openai(info: ModelInfo, key: str, options: ModelOptions, url: str) -> ProviderClient:
    import httpx2
    import openai
    from langchain_openai import ChatOpenAI
    from pydantic import SecretStr

    # LangChain shares one connection pool per address and never closes it: ours is our own.
    # Redirects are not followed, because they would take the key along.
    seen = hooks()
    if options.base_urls.get("openai"):
        seen["response"].append(_mend)
    network = machine_network(httpx2.AsyncHTTPTransport, certificates(httpx2.create_ssl_context))
    http = openai.DefaultAsyncHttpxClient(
        timeout=options.idle, follow_redirects=False, event_hooks=seen, **network
    )
    chat = ChatOpenAI(
        model=info.name.partition(":")[2],
        api_key=SecretStr(key),
        base_url=url,
        max_retries=0,
        timeout=options.idle,
        stream_chunk_timeout=options.idle,
        temperature=options.temperature,
        max_completion_tokens=options.max_output,
        reasoning_effort=info.effort or None,
        stream_usage=True,
        http_async_client=http,
        # Never used; the client would make one of its own.
        http_client=openai.DefaultHttpxClient(**{**network, "mounts": {}}),
    )
    return ProviderClient(chat, http.aclose, {})


async def _mend(response: Any) -> None:
    """Let the client read what a compatible service sends as OpenAI would have sent it."""
    if response.status_code == 200 and not response.headers.get("content-encoding"):
        read_through(MendedStream, response)


def _anthropic(info: ModelInfo, key: str, options: ModelOptions, url: str) -> ProviderClient:
    import anthropic
    import httpx2
    from langchain_anthropic import ChatAnthropic
    from pydantic import SecretStr

    network = machine_network(httpx2.AsyncHTTPTransport, certificates(httpx2.create_ssl_context))
    http = anthropic.DefaultAsyncHttpxClient(
        timeout=options.idle, follow_redirects=False, event_hooks=hooks(), **network
    )
    own = anthropic.AsyncAnthropic(api_key=key, base_url=url, max_retries=0, http_client=http)

    class OwnedChatAnthropic(ChatAnthropic):
        """Return the client with its own connection pool; the shared one cannot be closed."""

        @cached_property
        def _async_client(self) -> anthropic.AsyncAnthropic:
            return own

    thinking = _anthropic_thinking(info, options)
    # With a budget of thinking, the service takes no temperature.
    budgeted = thinking.get("thinking", {}).get("type") == "enabled"
    chat = OwnedChatAnthropic(
        model_name=info.name.partition(":")[2],
        api_key=SecretStr(key),
        base_url=url,
        max_retries=0,
        timeout=options.idle,
        temperature=None if budgeted else options.temperature,
        max_tokens_to_sample=info.max_output,
        stop=None,
        **thinking,
    )
    return ProviderClient(chat, own.close, CACHED if options.prompt_cache else {})


LEAST_THINKING = 1_024
"""Tokens of the smallest budget that Anthropic takes."""


def _anthropic_thinking(info: ModelInfo, options: ModelOptions) -> dict[str, Any]:
    """Return the settings of thinking: a budget for older models, an effort for newer ones."""
    model = info.name.partition(":")[2]
    tokens = thinking_tokens(info.provider, model, info.effort)
    if tokens is not None:
        # The budget is part of the output, which needs room for the reply, too.
        tokens = min(tokens, info.max_output - LEAST_THINKING)
        if tokens < LEAST_THINKING:
            return {}
        return {"thinking": {"type": "enabled", "budget_tokens": tokens}}
    if info.effort:
        return {"reasoning_effort": info.effort}
    if options.thoughts and always_thinks(info.provider, model):
        return {"thinking": {"type": "adaptive", "display": "summarized"}}
    return {}


def _ollama_thinking(info: ModelInfo, options: ModelOptions) -> bool | str | None:
    """Return Ollama's `think`: on, off or a level; None for a model that does not think."""
    if not info.effort:
        return True if options.thoughts and info.efforts else None
    if "none" not in info.efforts:
        return info.effort
    return info.effort != "none"


def _ollama(info: ModelInfo, _: str, options: ModelOptions, url: str) -> ProviderClient:
    import httpx
    from langchain_ollama import ChatOllama

    transport = httpx.AsyncHTTPTransport()
    chat = ChatOllama(
        model=info.name.partition(":")[2],
        base_url=url,
        temperature=options.temperature,
        num_predict=options.max_output,
        # Ollama cuts longer prompts silently at its own small default, so it is told the
        # window that the rest of the program counts on.
        num_ctx=info.context_window,
        reasoning=_ollama_thinking(info, options),
        client_kwargs={"timeout": options.idle, "transport": httpx.HTTPTransport()},
        async_client_kwargs={"transport": transport, "event_hooks": hooks()},
    )
    return ProviderClient(chat, transport.aclose, {})


CLIENTS: Mapping[str, Callable[[ModelInfo, str, ModelOptions, str], ProviderClient]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "ollama": _ollama,
}


SEARCH_TOOLS: Mapping[str, dict[str, Any]] = {
    "openai": {"type": "web_search"},
    "anthropic": {"type": "web_search_20250305", "name": "web_search", "max_uses": 2},
}
"""The search of the web of each provider that has one (`ModelInfo.search_host`)."""

BLOCKED = frozenset({"content_filter", "refusal"})
BROKEN = frozenset({"error", "abort"})
"""Reasons of compatible services for a reply that failed in the middle."""
CUT_FINISHES = frozenset({"length", "max_tokens", "max_output_tokens"})
OVERFLOWED = frozenset({"model_context_window_exceeded"})


def _message(error: Exception) -> str:
    """Return the provider's own words, without the dump of the response around them."""
    body = getattr(error, "body", None)
    if isinstance(body, dict):
        inner = body.get("error")
        found = inner.get("message") if isinstance(inner, dict) else body.get("message", inner)
        if found:
            return str(found)
    return str(getattr(error, "message", None) or getattr(error, "error", None) or error)


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def _finish(message: AIMessage) -> str:
    metadata = message.response_metadata
    reasons = (metadata.get(name) for name in ("finish_reason", "stop_reason", "done_reason"))
    return str(next(filter(None, reasons), "")) or _status(metadata)


def _status(metadata: Mapping[str, Any]) -> str:
    """Return how a response of OpenAI's Responses API ended; newer models use that API."""
    status = metadata.get("status")
    details = metadata.get("incomplete_details")
    if status == "incomplete" and isinstance(details, Mapping):
        return str(details.get("reason") or "")
    return "stop" if status == "completed" else ""


LIST_SECONDS = 2.0
"""Wait for the list; the server reads it from a folder of its own."""
MOST_BYTES = 4_000_000


def list_pulled(url: str) -> list[str]:
    """Return the names of the models at `url`, the one changed last first.

    https://docs.ollama.com/api/tags. Raises `SettingsError` for an address that is none, and
    `ModelUnavailableError` when no list comes from there.
    """
    address = checked_url(url, "Ollama").rstrip("/")
    values = {"provider": "Ollama", "host": host_of(url)}
    try:
        with urlopen(f"{address}/api/tags", timeout=LIST_SECONDS) as answer:
            listed = json.loads(answer.read(MOST_BYTES))["models"]
        dated = [(str(one.get("modified_at", "")), str(one["name"])) for one in listed]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = error.reason if isinstance(error, URLError) else error
        raise ModelUnavailableError(
            "Cannot reach {provider} at {host} ({detail}); check the network and the address.",
            **values,
            detail=detail(reason),
        ) from error
    return [name for _, name in sorted(dated, reverse=True)]


def latest_pulled(url: str) -> str:
    """Return the model changed last at `url`. Raises `ModelNotFoundError` where there is none."""
    names = list_pulled(url)
    if not names:
        raise ModelNotFoundError(
            "Ollama at {host} has no model; pull one there with: ollama pull MODEL",
            host=host_of(url),
        )
    return names[0]
