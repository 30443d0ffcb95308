"""Any chat model of LangChain behind our port; the clients of OpenAI, Anthropic and Ollama.

One adapter: the client streams chunks, `chunks` joins them strictly, `calling` retries, and
`langchain_errors` says what went wrong. A further provider is one entry in `CLIENTS` and a row of
`catalog.PROVIDERS`. Light to
import; a client's package is loaded by `preload` or the first call.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

from kogniterm.errors import ModelError
from kogniterm.models.calling import Caller
from kogniterm.models.catalog import BY_NAME
from kogniterm.models.model_options import ModelOptions
from kogniterm.models.providers.connection import (
    LongEventError,
    checked_key,
    checked_url,
    hooks,
    host_of,
)
from kogniterm.models.providers.failures import detail
from kogniterm.types import ModelEvent, ModelInfo, ModelRequest, Reply, ToolSpec

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessageChunk, BaseMessage
    from langchain_core.runnables import Runnable


@dataclass(frozen=True, slots=True)
class Client:
    """A provider's chat model, what closes its connections, and what each call adds."""

    chat: BaseChatModel
    close: Callable[[], Awaitable[None]]
    extra: Mapping[str, Any]


class LangChainModel:
    """A model behind LangChain's interface; `caller` is given by tests to keep waits short."""

    def __init__(self, info: ModelInfo, options: ModelOptions, caller: Caller | None = None):
        self._info = info
        self._options = options
        url = options.base_urls.get(info.provider) or BY_NAME[info.provider].url
        if info.provider == "ollama" and "://" not in url:
            url = _ollama_address(url)
        self._url = checked_url(url, self._title)
        # A server of one's own often wants no key, and the clients insist on some text.
        self._key = checked_key(options.keys.get(info.provider) or "none", self._title)
        self._caller = caller or Caller(info.name, options)
        self._lock = Lock()
        self._client: Client | None = None
        self._bound: tuple[tuple[ToolSpec, ...], Runnable[Any, Any]] | None = None

    @property
    def info(self) -> ModelInfo:
        """Name, window and abilities."""
        return self._info

    def preload(self) -> None:
        """Import and construct the client; safe to call from any thread, more than once."""
        self._open()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Ask; see `protocols.Model`."""
        if self._client is None:
            # On a thread, so that the loop stays alive, and before the deadline starts.
            await asyncio.to_thread(self.preload)
        async with aclosing(self._caller.call(lambda: self._attempt(request))) as events:
            async for event in events:
                yield event

    async def aclose(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()
            self._client = self._bound = None

    def _open(self) -> Client:
        with self._lock:
            if self._client is None:
                from kogniterm.models.providers.connection import silence_tracing

                silence_tracing()
                make = CLIENTS[self._info.provider]
                try:
                    self._client = make(self._info, self._key, self._options, self._url)
                except (ImportError, ValueError, TypeError) as error:
                    raise ModelError(
                        "The client of {provider} cannot be set up ({detail}).",
                        provider=self._title,
                        detail=detail(error),
                    ) from error
            return self._client

    async def _attempt(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        from kogniterm.models.providers import langchain_errors
        from kogniterm.models.providers.chunks import Gathered, cleaned, deltas, usage_of

        names = {"model": self._info.name, "provider": self._title}
        host = host_of(self._url)
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
        except langchain_errors.foreign(self._info.provider) as error:
            raise langchain_errors.from_exception(error, host=host, **names) from error
        failure = None if gathered.problem else langchain_errors.no_reply(message, **names)
        if failure is not None:
            raise failure
        problem = gathered.problem or langchain_errors.problem(message)
        yield Reply(cleaned(message, problem), usage_of(message))

    async def _chunks(self, request: ModelRequest) -> AsyncGenerator[AIMessageChunk, None]:
        client = self._open()
        asked = self._with_tools(client, request.tools)
        extra = dict(client.extra)
        if request.schema is not None:
            extra.update(_schema(self._info.provider, request.schema))
        messages: list[BaseMessage] = list(request.messages)
        # LangChain calls this an iterator; it is a generator, and closing it ends the request.
        stream = cast("AsyncGenerator[AIMessageChunk, None]", asked.astream(messages, **extra))
        async with aclosing(stream):
            async for chunk in stream:
                yield chunk

    def _with_tools(self, client: Client, tools: tuple[ToolSpec, ...]) -> Runnable[Any, Any]:
        """The chat model with `tools` bound; bound once for as long as they stay the same."""
        from kogniterm.models.providers.chunks import tool_form

        if not tools:
            return client.chat
        if self._bound is None or self._bound[0] != tools:
            forms = [tool_form(tool) for tool in tools]
            self._bound = tools, client.chat.bind_tools(forms)
        return self._bound[1]

    @property
    def _title(self) -> str:
        return BY_NAME[self._info.provider].title.partition(",")[0]


def _ollama_address(host: str) -> str:
    """The address behind a bare `HOST` or `HOST:PORT`, as Ollama's own programs take it."""
    address = f"http://{host}"
    return address if host.rpartition(":")[2].isdigit() else f"{address}:11434"


def _schema(provider: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """How a provider is asked for JSON of a schema; {} where the prompt has to do."""
    if provider == "openai":
        form = {"name": "reply", "schema": dict(schema), "strict": False}
        # In the body alone: as an argument it makes the client parse the stream on its own.
        return {"extra_body": {"response_format": {"type": "json_schema", "json_schema": form}}}
    if provider == "ollama":
        return {"format": dict(schema)}
    return {}


def _openai(info: ModelInfo, key: str, options: ModelOptions, url: str) -> Client:
    import openai
    from langchain_openai import ChatOpenAI
    from pydantic import SecretStr

    # LangChain shares one connection pool per address and never closes it: ours is our own.
    # Redirects are not followed, because they would take the key along.
    http = openai.DefaultAsyncHttpxClient(
        timeout=options.idle, follow_redirects=False, event_hooks=hooks()
    )
    chat = ChatOpenAI(
        model=info.name.partition(":")[2],
        api_key=SecretStr(key),
        base_url=url,
        max_retries=0,
        timeout=options.idle,
        temperature=options.temperature,
        max_completion_tokens=options.max_output,
        stream_usage=True,
        http_async_client=http,
    )
    return Client(chat, http.aclose, {})


def _anthropic(info: ModelInfo, key: str, options: ModelOptions, url: str) -> Client:
    import anthropic
    from langchain_anthropic import ChatAnthropic
    from pydantic import SecretStr

    http = anthropic.DefaultAsyncHttpxClient(
        timeout=options.idle, follow_redirects=False, event_hooks=hooks()
    )
    own = anthropic.AsyncAnthropic(api_key=key, base_url=url, max_retries=0, http_client=http)

    class OwnedChatAnthropic(ChatAnthropic):
        """With a connection pool of its own, because the shared one can never be closed."""

        @cached_property
        def _async_client(self) -> anthropic.AsyncAnthropic:
            return own

    chat = OwnedChatAnthropic(
        model_name=info.name.partition(":")[2],
        api_key=SecretStr(key),
        base_url=url,
        max_retries=0,
        timeout=options.idle,
        temperature=options.temperature,
        max_tokens_to_sample=info.max_output,
        stop=None,
    )
    # Anthropic caches a prompt's prefix only where it is told to; an append-only history
    # makes the last block the right place at every call.
    return Client(chat, own.close, {"cache_control": {"type": "ephemeral"}})


def _ollama(info: ModelInfo, _: str, options: ModelOptions, url: str) -> Client:
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
        client_kwargs={"timeout": options.idle},
        async_client_kwargs={"transport": transport, "event_hooks": hooks()},
    )
    return Client(chat, transport.aclose, {})


CLIENTS: Mapping[str, Callable[[ModelInfo, str, ModelOptions, str], Client]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "ollama": _ollama,
}
