"""Convert each message once: the wire form of a growing history, for the Gemini client.

`ChatGoogleGenerativeAI` converts and validates the whole history at every call, which costs a
hundred milliseconds at two hundred messages and grows with every step. Here the client is
handed only the messages it has not converted before; the transport below it keeps the JSON
of what was converted, and joins it to the new part just before the bytes leave. The same is
done with the constant part of the request (system text, tools, generation settings), which is
put in front of the contents, so that one request body is the beginning of the next.

The client's public interface is all that is used. Its one cross-message rule, the stand-in
signature that Gemini 3 gets for function calls without one, is applied when a message is
converted and then kept: the plain client would take it away in the next turn, and change the
prefix the provider has cached.

Imports httpx and LangChain at the top: only ever imported by an open Gemini model.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from operator import is_
from typing import Any

import httpx
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from kogniterm.models.providers.gemini_cache import PrefixCache, Stored
from kogniterm.models.providers.provider_model import hooks, machine_network
from kogniterm.settings import certificates, proxies

CALL_HEADER = "x-kogniterm-call"
"""Names the call a request belongs to, between client and transport; never sent."""
NOT_STORED = frozenset({400, 403, 404})
"""Status of a request whose stored content is not there any more, or does not fit it."""
LEAST_KEPT = 2000
"""Groups kept converted at least; more when one history holds more."""


class WireChangedError(Exception):
    """The client's request has another shape than expected; nothing was sent."""


class MessageGroup:
    """Messages that convert together: the user's, or the model's with its tools' answers.

    `data` is their wire form, once known. `messages` never changes: a group that gets another
    answer is replaced by a new one.
    """

    def __init__(self, messages: tuple[BaseMessage, ...]) -> None:
        self.messages = messages
        self.data: bytes | None = None

    @property
    def key(self) -> object:
        """Return a key that finds the group again when the history is built anew."""
        first = self.messages[0]
        return first.id or id(first)

    @property
    def entries(self) -> int:
        return 2 if len(self.messages) > 1 else 1

    def equals(self, other: MessageGroup) -> bool:
        return len(self.messages) == len(other.messages) and all(
            mine is theirs or mine == theirs
            for mine, theirs in zip(self.messages, other.messages, strict=True)
        )


class History:
    """A history taken apart: system messages, groups in order, and who asked for which answer."""

    def __init__(self, messages: tuple[BaseMessage, ...] = ()) -> None:
        self.messages = messages
        self.system: list[BaseMessage] = []
        self.groups: list[MessageGroup] = []
        self.asked: dict[str, int] = {}

    def grown_to(self, messages: tuple[BaseMessage, ...]) -> History | None:
        """Return the history continued by `messages`; None where that is not possible.

        It is not where they do not continue it, or hold a kind that the join does not know.

        An answer goes with the model message that asked, wherever it stands in the history;
        an answer to no call and a user's empty message are not sent, as the client
        does it. System messages count only when the first message is one.
        """
        old = len(self.messages)
        if len(messages) < old or not all(map(is_, self.messages, messages)):
            return None
        grown = History(messages)
        grown.system, grown.groups = self.system, list(self.groups)
        grown.asked = dict(self.asked)
        for message in messages[old:]:
            if not grown._add(message):
                return None
        return grown

    def _add(self, message: BaseMessage) -> bool:
        if isinstance(message, ToolMessage):
            place = self.asked.get(message.tool_call_id)
            if place is not None:
                self.groups[place] = MessageGroup((*self.groups[place].messages, message))
        elif isinstance(message, SystemMessage):
            if isinstance(self.messages[0], SystemMessage):
                self.system = [*self.system, message]
        elif isinstance(message, AIMessage):
            for call in message.tool_calls:
                self.asked[str(call["id"])] = len(self.groups)
            self.groups.append(MessageGroup((message,)))
        elif isinstance(message, HumanMessage):
            if message.content:
                self.groups.append(MessageGroup((message,)))
        else:
            return False
        return True


HeadKey = tuple[tuple[BaseMessage, ...], Mapping[str, Any]]
"""The system messages and settings that the constant part of a request depends on."""


class WireCall:
    """One request to be joined: what the client gets, and what goes in front of it."""

    def __init__(
        self,
        number: str,
        messages: list[BaseMessage],
        settings: dict[str, Any],
        groups: list[MessageGroup] | None = None,
        fresh: Sequence[MessageGroup] = (),
        head: HeadKey | None = None,
    ) -> None:
        self.number, self.messages, self.settings = number, messages, settings
        self.groups, self.fresh, self.head = groups, fresh, head
        self.response: httpx.Response | None = None
        self.fixed = b""
        self.stored: Stored | None = None

    @property
    def parts(self) -> list[bytes]:
        """Return the wire forms of its groups, once it was joined."""
        return [group.data or b"" for group in self.groups or ()]

    def join(self, stored: Stored | None) -> bytes:
        """Return the body; with `stored`, only what comes after the stored content."""
        self.stored = stored
        if stored is None:
            return b"{" + self.fixed + b'"contents":[' + b",".join(self.parts) + b"]}"
        name = json.dumps(stored.name).encode()
        rest = b",".join(self.parts[len(stored.groups) :])
        return b'{"cachedContent":' + name + b"," + stored.rest + b'"contents":[' + rest + b"]}"


class Wire(httpx.AsyncBaseTransport):
    """The transport under the Gemini client; also plans what the client is to convert.

    Requests go out through a client of its own, so that proxies and certificates of the
    machine apply as usual. One connection pool per event loop. `idle` is the longest silence
    in seconds: the client knows one time-out only, which it also tells the server as the time
    the whole reply may take.
    """

    def __init__(self, *, idle: float, secure: bool = True) -> None:
        self._idle = idle
        self._calls: dict[str, WireCall] = {}
        self._count = 0
        self._last = History()
        self._kept: OrderedDict[object, MessageGroup] = OrderedDict()
        self._heads: list[tuple[HeadKey, bytes]] = []
        self._client: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        # Loading the authorities takes 30 ms: once for all, and never for plain http. A
        # context without authorities trusts no server, should a request be led to https after all.
        self.certificates = (
            certificates(httpx.create_ssl_context)
            if secure
            else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        )
        proxies()  # a wrong one is reported before the first request, which the client would wrap
        self.plain = False
        self.prefixes: PrefixCache | None = None

    def plan(self, messages: Sequence[BaseMessage], settings: Mapping[str, Any]) -> WireCall:
        """Return the messages for the client with which the joined request holds all of `messages`.

        `settings` are the keyword arguments that shape the request: tools and reply schema.
        """
        self._count += 1
        number = str(self._count)
        history = None if self.plain else self._history(tuple(messages))
        if history is None or not history.groups:
            return WireCall(number, list(messages), dict(settings))
        head = (tuple(history.system), settings)
        known = any(key == head for key, _ in self._heads)
        # The client converts at least one message: a request of nothing new (a retry) has to
        # have contents too.
        fresh = [group for group in history.groups if group.data is None] or history.groups[-1:]
        call = WireCall(
            number,
            ([] if known else history.system) + [m for group in fresh for m in group.messages],
            {} if known else dict(settings),
            history.groups,
            fresh,
            head,
        )
        self._calls[number] = call
        return call

    async def end(self, call: WireCall) -> None:
        """Leave the call's connection now, before the garbage collector would."""
        self._calls.pop(call.number, None)
        if call.response is not None:
            await call.response.aclose()

    def _history(self, messages: tuple[BaseMessage, ...]) -> History | None:
        """Return `messages` split up, with every wire form that is known.

        Usually the last request's history has grown. One built anew (a compaction, another
        purpose, a session read from disk) finds its groups again by their first message.
        """
        history = self._last.grown_to(messages)
        if history is None:
            history = History().grown_to(messages)
            for group in history.groups if history is not None else ():
                kept = self._kept.get(group.key)
                if kept is not None and kept.equals(group):
                    group.data = kept.data
        if history is not None:
            self._last = history
        return history

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the joined request; the response is streamed."""
        call = self._calls.get(request.headers.pop(CALL_HEADER, ""))
        content = request.content
        if call is not None:
            content = self._join(call, content)
        response = await self._send(request, content)
        if call is not None and call.stored is not None and response.status_code in NOT_STORED:
            # It has expired or was deleted: nobody has to know, the whole request is sent.
            await response.aclose()
            if self.prefixes is not None:
                self.prefixes.note_lost(call.stored)
            response = await self._send(request, call.join(None))
        if call is not None:
            call.response = response
        if response.has_redirect_location:
            # Following it would send the key to the server that it names.
            await response.aclose()
            where = response.headers["location"]
            raise httpx.UnsupportedProtocol(f"it redirects to {where}", request=request)
        return response

    async def _send(self, request: httpx.Request, content: bytes) -> httpx.Response:
        headers = [item for item in request.headers.raw if item[0].lower() != b"content-length"]
        timeout = {**request.extensions.get("timeout", {}), "read": self._idle}
        whole = httpx.Request(
            request.method,
            request.url,
            headers=headers,
            content=content,
            extensions={**request.extensions, "timeout": timeout},
        )
        return await self._pool().send(whole, stream=True)

    async def ask(
        self, method: str, url: str, key: str, body: Mapping[str, Any] | None
    ) -> tuple[int, Mapping[str, Any]]:
        """Send a small request beside those of the client; raises `OSError` when that fails."""
        content = b"" if body is None else _wire(body)
        headers = {"x-goog-api-key": key, "content-type": "application/json"}
        try:
            response = await self._pool().request(
                method, url, content=content, headers=headers, timeout=self._idle
            )
            reply = response.json() if response.content else {}
        except (httpx.HTTPError, ValueError) as error:
            raise OSError(str(error)) from error
        return response.status_code, reply if isinstance(reply, Mapping) else {}

    def _join(self, call: WireCall, content: bytes) -> bytes:
        """Return the whole request body, with the client's new part learned."""
        assert call.groups is not None
        assert call.head is not None
        body: dict[str, Any] = json.loads(content)
        entries = body.pop("contents", None)
        if not isinstance(entries, list) or len(entries) != sum(g.entries for g in call.fresh):
            raise WireChangedError
        for group in call.fresh:
            mine, entries = entries[: group.entries], entries[group.entries :]
            group.data = _wire(mine)[1:-1]
            self._kept[group.key] = group
            self._kept.move_to_end(group.key)
        while len(self._kept) > max(LEAST_KEPT, 2 * len(call.groups)):
            self._kept.popitem(last=False)
        call.fixed = self._head(call.head, body)
        covers = self.prefixes.covering if self.prefixes is not None else None
        return call.join(covers(call.head, call.parts) if covers is not None else None)

    def _head(self, key: HeadKey, body: dict[str, Any]) -> bytes:
        """Return the constant part with a comma behind it, from the first body that has it."""
        for known, data in self._heads:
            if known == key:
                return data
        data = _wire(body)[1:-1] + b"," if body else b""
        self._heads = [(key, data), *self._heads[:7]]
        return data

    def _pool(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            # Time-outs come with each request.
            network = machine_network(httpx.AsyncHTTPTransport, self.certificates)
            self._client = httpx.AsyncClient(timeout=None, event_hooks=hooks(), **network)
            self._loop = loop
        return self._client

    def close(self) -> None:
        """Return the blocking twin the client's cleanup expects; there is nothing to close."""

    async def aclose(self) -> None:
        if self.prefixes is not None:
            await self.prefixes.aclose()
        if self._client is not None and self._loop is asyncio.get_running_loop():
            await self._client.aclose()
            self._client = None


def _wire(value: object) -> bytes:
    """Return JSON without blanks and escapes, a sixteenth smaller than the client's own."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")  # half a character is no UTF-8
