"""Gemini through langchain-google-genai: streaming, function calls, failures in our words.

Light to import; the client (about a second of CPU) is loaded by `preload` or the first call.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from threading import Lock
from typing import TYPE_CHECKING, Any

from kogniterm.errors import ModelError
from kogniterm.models.calling import Caller
from kogniterm.models.catalog import BY_NAME
from kogniterm.models.model_options import ModelOptions
from kogniterm.models.providers.connection import checked_key, checked_url, host_of
from kogniterm.models.providers.failures import detail
from kogniterm.types import ModelEvent, ModelInfo, ModelRequest, Reply

if TYPE_CHECKING:
    from langchain_core.messages import AIMessageChunk
    from langchain_google_genai import ChatGoogleGenerativeAI

    from kogniterm.models.providers.gemini_wire import Wire


class GeminiModel:
    """A Gemini model; `caller` is given by tests to keep its waits short.

    The client is made once and used for every call. Calls belong to one event loop at a time;
    `aclose` on that loop closes its connections.
    """

    def __init__(self, info: ModelInfo, options: ModelOptions, caller: Caller | None = None):
        self._info = info
        self._key = checked_key(options.keys.get(info.provider) or "", "Gemini")
        self._options = options
        url = BY_NAME[info.provider].url
        # An explicit address also keeps a tracing gateway in the environment out of the way.
        self._url = checked_url(options.base_urls.get(info.provider) or url, "Gemini")
        self._caller = caller or Caller(info.name, options)
        self._lock = Lock()
        self._client: ChatGoogleGenerativeAI | None = None
        self._wire: Wire | None = None

    @property
    def info(self) -> ModelInfo:
        """Name, window and abilities."""
        return self._info

    def preload(self) -> None:
        """Import and construct the client; safe to call from any thread, more than once.

        Raises `ModelError` when that fails.
        """
        with self._lock:
            if self._client is None:
                try:
                    self._construct()
                except (ImportError, ValueError, TypeError) as error:
                    raise ModelError(
                        "The Gemini client cannot be set up ({detail}).", detail=detail(error)
                    ) from error

    def _construct(self) -> None:
        from google.genai import Client
        from google.genai.types import HttpOptions
        from langchain_google_genai import ChatGoogleGenerativeAI
        from pydantic import SecretStr

        from kogniterm.models.providers.connection import silence_tracing
        from kogniterm.models.providers.gemini_wire import Wire

        silence_tracing()
        secure = self._url.startswith("https:")
        wire = self._wire = Wire(idle=self._options.idle, secure=secure)
        # `verify` and `ssl` keep the client from loading certificates twice more.
        http = {"transport": wire, "verify": wire.certificates, "ssl": wire.certificates}
        chat = ChatGoogleGenerativeAI(
            model=self._info.name.partition(":")[2],
            api_key=SecretStr(self._key),
            base_url=self._url,
            vertexai=False,
            # Six silent tries are the client's default; ours are visible (see calling).
            max_retries=1,
            timeout=self._options.deadline,
            temperature=self._options.temperature,
            max_output_tokens=self._options.max_output,
            include_thoughts=True if self._options.thoughts else None,
            client_args=http,
        )
        if chat.client is not None and chat.client.vertexai:
            # GOOGLE_GENAI_USE_VERTEXAI moves the inner client, although it was told otherwise.
            chat.client = Client(
                vertexai=False,
                api_key=self._key,
                http_options=HttpOptions(
                    base_url=self._url, client_args=http, async_client_args=http
                ),
            )
        self._client = chat

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
        if self._wire is not None:
            await self._wire.aclose()

    async def _attempt(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        import httpx
        from google.genai.errors import APIError
        from langchain_google_genai.chat_models import ChatGoogleGenerativeAIError

        from kogniterm.models.providers import gemini_errors
        from kogniterm.models.providers.chunks import Gathered, cleaned, deltas, usage_of
        from kogniterm.models.providers.connection import LongEventError

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
        except (
            httpx.HTTPError,
            httpx.InvalidURL,
            APIError,
            ChatGoogleGenerativeAIError,
            ValueError,
            TypeError,
        ) as error:
            raise gemini_errors.from_exception(
                error, model=self.info.name, host=host_of(self._url)
            ) from error
        failure = None if gathered.problem else gemini_errors.no_reply(message)
        if failure is not None:
            raise failure
        problem = gathered.problem or gemini_errors.problem(message)
        yield Reply(cleaned(message, problem), usage_of(message))

    async def _chunks(self, request: ModelRequest) -> AsyncGenerator[AIMessageChunk, None]:
        """The client's chunks for `request`, its connection left when they are left."""
        from kogniterm.models.providers.gemini_wire import CALL_HEADER, WireChangedError

        assert self._client is not None
        assert self._wire is not None
        for _ in range(2):
            call = self._wire.plan(request.messages, _settings(request))
            try:
                async for chunk in self._client.astream(
                    call.messages,
                    http_options={"headers": {CALL_HEADER: call.number}},
                    **call.settings,
                ):
                    yield chunk
                return
            except WireChangedError:
                # A client with another request shape: it works, only slower.
                self._wire.plain = True
            finally:
                await self._wire.end(call)


def _settings(request: ModelRequest) -> dict[str, Any]:
    """What shapes the request beside its messages, as the client's keyword arguments."""
    from kogniterm.models.providers.chunks import tool_form

    settings: dict[str, Any] = {}
    if request.tools:
        settings["tools"] = [tool_form(tool) for tool in request.tools]
    if request.schema is not None:
        settings["response_mime_type"] = "application/json"
        settings["response_schema"] = dict(request.schema)
    return settings
