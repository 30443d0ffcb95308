"""Reach a streamable HTTP server: bounded, on its own origin, and no call is ever sent twice.

The SDK speaks the protocol. `_Limited` keeps the limits of time and size, also for the requests of
a sign-in. `_Client` answers a request that fails with our own error, which the SDK passes on: an
exception would end the connection with all its other requests.

The SDK continues a broken stream from the last event (a GET, which repeats nothing). It sends a
call again only after a server rejected its headers; `_Messages` replaces that rejection, however
it came, so that nothing but the caller decides on a second call.

Importing this module loads the SDK: import it where a server is contacted.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import re
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from httpx2 import AsyncByteStream, Request, Response
from mcp.client.auth import OAuthFlowError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import HEADER_MISMATCH, ErrorData
from mcp_types.jsonrpc import JSONRPCError
from pydantic_core import from_json

from kogniterm import __version__
from kogniterm.errors import KognitermError
from kogniterm.errors import why as reason
from kogniterm.tools.mcp.mcp_errors import (
    CALL,
    McpError,
    McpRefusedError,
    McpSessionEndedError,
    McpSignInFailedError,
    McpSignInNeededError,
    McpStaleToolsError,
    McpUnreachableError,
    lost,
    sealed,
    shown,
    sign_in_needed,
)

MAX_MESSAGE = 16 * 1024 * 1024
"""Bytes of one answer, or of one event of a stream."""
MAX_SIGN_IN = 1024 * 1024
"""Bytes of one answer of an authorization server."""
CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 60.0
"""Time for the whole answer to any request but a tool call, whose limit the caller knows."""
IDLE_SECONDS = 600.0
"""Time without a byte after which a stream counts as broken."""

_UNLIMITED = (CALL, "subscriptions/listen")
_SESSION = "mcp-session-id"
_LIMIT = "kogniterm"
"""The name under which a request carries its limits to `_Limited`."""
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


class _Bounded(AsyncByteStream):
    """A body with a limit of bytes and of time; None is no limit."""

    def __init__(self, body: AsyncByteStream, most: int | None, until: float | None) -> None:
        self._body = body
        self._most = most
        self._until = until

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces = aiter(self._body)
        count = 0
        while True:
            try:
                async with asyncio.timeout_at(self._until):
                    piece = await anext(pieces, None)
            except TimeoutError as error:
                raise httpx2.ReadTimeout("the answer took too long") from error
            if piece is None:
                return
            count += len(piece)
            if self._most is not None and count > self._most:
                raise httpx2.ReadError(f"the answer is larger than {self._most // 2**20} MB")
            yield piece

    async def aclose(self) -> None:
        await self._body.aclose()


class _Limited(httpx2.AsyncHTTPTransport):
    """Sends one request, within the limits, to where it may go."""

    def __init__(self, url: httpx2.URL, *, insecure: bool) -> None:
        # As for the other tools: no proxy of the environment, no certificates named there.
        super().__init__(trust_env=False)
        self._plain = {url.host} if insecure or is_loopback(url.host) else set()

    async def handle_async_request(self, request: Request) -> Response:
        host = request.url.host
        if request.url.scheme != "https" and not (
            host in self._plain or (self._plain and is_loopback(host))
        ):
            raise httpx2.UnsupportedProtocol(f"{_origin(request.url)} is not https")
        seconds, most = request.extensions.get(_LIMIT, (ANSWER_SECONDS, MAX_SIGN_IN))
        until = None if seconds is None else asyncio.get_running_loop().time() + seconds
        try:
            async with asyncio.timeout_at(until):
                response = await super().handle_async_request(request)
        except TimeoutError as error:
            raise httpx2.ReadTimeout("no answer in time") from error
        body = response.stream
        assert isinstance(body, AsyncByteStream)
        if response.headers.get("content-encoding", "identity").lower() not in ("identity", ""):
            await body.aclose()
            raise httpx2.ReadError("the answer is compressed, which was not asked for")
        # The SDK bounds the events of a stream; a stream as a whole may be of any length.
        kind = response.headers.get("content-type", "").lower()
        streams = response.status_code == 200 and kind.startswith("text/event-stream")
        response.stream = _Bounded(body, None if streams else most, until)
        return response


class _Client(httpx2.AsyncClient):
    """The client that the SDK sends with: a request that fails is answered with our error."""

    server: str
    signs_in: bool
    seconds: float
    reached = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.calls: set[object] = set()
        """The IDs of the calls that were not answered yet."""

    async def send(self, request: Request, *args: Any, **options: Any) -> Response:
        body = json.loads(request.content) if request.method == "POST" else {}
        method = body.get("method", "") if "id" in body else ""
        if method == CALL:
            self.calls.add(body["id"])
        unlimited = request.method == "GET" or method in _UNLIMITED
        request.extensions[_LIMIT] = (None if unlimited else self.seconds, MAX_MESSAGE)
        try:
            response = await super().send(request, *args, **options)
            if method and response.next_request is None:
                await self._check(response, method)
                self.reached = True
        except (
            httpx2.HTTPError,
            httpx2.InvalidURL,
            httpx2.StreamError,
            OAuthFlowError,
            KognitermError,
            OSError,
            ValueError,
        ) as error:
            failure = _failure(error, request, method, self.server)
            if not self.reached and isinstance(
                failure, McpUnreachableError | McpSignInNeededError | McpSignInFailedError
            ):
                # After an answer the SDK would try an older revision; this ends the connection.
                raise failure from error
            failure.method = method
            answer = {"jsonrpc": "2.0", "id": body.get("id"), "error": sealed(failure)}
            return Response(500, json=answer if method else None, request=request)
        return response

    async def _check(self, response: Response, method: str) -> None:
        """Raise `McpError` for a `response` that the SDK would not, or must not, take as it is."""
        status, kind = response.status_code, response.headers.get("content-type", "").lower()
        is_json = kind.startswith("application/json")
        try:
            code = _error_code(await response.aread()) if is_json else None
            if status == 401 and (self.signs_in or "www-authenticate" in response.headers):
                raise sign_in_needed(self.server)
            if status == 404 and _SESSION in response.request.headers:
                raise McpSessionEndedError(
                    "The session with the MCP server {server} ended; the next call opens a new "
                    "one.",
                    server=self.server,
                )
            streams = kind.startswith("text/event-stream")
            answered = code is not None or (status == 200 and (is_json or streams))
            if answered and status != 401:
                return
            if 400 <= status < 500:
                raise McpRefusedError(
                    "The MCP server {server} refused {method} (HTTP status {status}); check its "
                    "URL and headers in the configuration.",
                    server=self.server,
                    method=method,
                    status=status,
                )
            if method == CALL:
                raise lost(self.server, f"HTTP {status} {kind}".strip())
            raise McpError(
                "{url} did not answer as an MCP server does (HTTP status {status}); check the URL "
                "of {server}, or try again later.",
                url=_origin(response.request.url),
                status=status,
                server=self.server,
            )
        except BaseException:
            await response.aclose()
            raise


class _Messages:
    """Messages of the server, with our error in place of a rejection of a call's headers."""

    def __init__(self, messages: Any, client: _Client) -> None:
        self._messages, self._client = messages, client

    @property
    def last_context(self) -> Any:
        """The context of the message that was read last, for the SDK."""
        return getattr(self._messages, "last_context", None)

    async def __aenter__(self) -> _Messages:
        await self._messages.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._messages.__aexit__(*error)

    def __aiter__(self) -> _Messages:
        return self

    async def __anext__(self) -> Any:
        item = await self._messages.__anext__()
        message: Any = getattr(item, "message", None)  # a failure to read one has none
        called = getattr(message, "id", None) in self._client.calls
        if called and not hasattr(message, "method"):  # an answer, not a request of the server
            self._client.calls.discard(message.id)
            if isinstance(message, JSONRPCError) and message.error.code == HEADER_MISMATCH:
                stale = McpStaleToolsError(
                    "A tool of the MCP server {server} changed since it was listed; list its tools "
                    "again, then repeat the call.",
                    server=self._client.server,
                )
                stale.method = CALL
                message.error = ErrorData.model_validate(sealed(stale))
        return item


@asynccontextmanager
async def open_http(
    url: str,
    *,
    server: str,
    headers: Mapping[str, str] | None = None,
    auth: httpx2.Auth | None = None,
    insecure: bool = False,
    answer_seconds: float = ANSWER_SECONDS,
    idle_seconds: float = IDLE_SECONDS,
) -> AsyncIterator[Any]:
    """Open the streams to the server at `url`, as `mcp.Client` takes them.

    `server` is its name in messages; `auth` signs in. Requests fail with an `MCPError` of the SDK;
    `mcp_errors.failure_of` gives our error for it. Raises `McpError` for a URL or a header that
    cannot be used. Nothing is sent before the session's first request.
    """
    address = checked_address(url, server, insecure=insecure)
    client = _Client(
        headers={
            "User-Agent": f"KogniTerm/{__version__}",
            **_checked_headers(headers or {}, server),
            # A small answer could be packed twice, and be larger than all memory.
            "Accept-Encoding": "identity",
        },
        auth=auth,
        timeout=httpx2.Timeout(answer_seconds, connect=CONNECT_SECONDS, read=idle_seconds),
        trust_env=False,
        transport=_Limited(address, insecure=insecure),
    )
    client.server, client.signs_in, client.seconds = server, auth is not None, answer_seconds
    async with (
        client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MAX_MESSAGE) as streams,
    ):
        received, *sent = streams
        yield (_Messages(received, client), *sent)


def checked_address(url: str, server: str, *, insecure: bool = False) -> httpx2.URL:
    """Return `url` as it is used. Raises `McpError` for one that cannot or must not be used."""
    try:
        address = httpx2.URL(url)
    except httpx2.InvalidURL:
        address = httpx2.URL()
    if address.scheme not in ("http", "https") or not address.host:
        raise McpError("The URL of the MCP server {server} is not http or https.", server=server)
    if address.userinfo:
        raise McpError(
            "The URL of the MCP server {server} contains a user name or password; put it in a "
            "header.",
            server=server,
        )
    if address.scheme == "http" and not insecure and not is_loopback(address.host):
        raise McpError(
            "The URL of the MCP server {server} is plain http, so others could read and change "
            'what is sent; use https, or set "insecure": true for it.',
            server=server,
        )
    return address


def is_loopback(host: str) -> bool:
    """Return whether `host` is this machine, whatever a name server says."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _checked_headers(headers: Mapping[str, str], server: str) -> dict[str, str]:
    """Return `headers`, or raise without showing a value: it may be a key."""
    for name, value in headers.items():
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or not _VALUE.fullmatch(value):
            raise McpError(
                "The header {name} of the MCP server {server} has characters that no header can "
                "have.",
                name=shown(name),
                server=server,
            )
    return {name: value.strip() for name, value in headers.items()}


def _failure(error: Exception, request: Request, method: str, server: str) -> McpError:
    """Return our error for one that sending `request` raised."""
    if isinstance(error, McpError):
        return error
    why = str(error) or type(error).__name__
    if not isinstance(error, httpx2.RequestError):
        return McpSignInFailedError(
            "Signing in to the MCP server {server} failed: {why}.", server=server, why=shown(why)
        )
    if error.request is not request:
        return McpSignInFailedError(
            "Signing in to the MCP server {server} failed: {host} cannot be used ({why}).",
            server=server,
            host=_origin(error.request.url),
            why=shown(why),
        )
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout):
        return McpUnreachableError(
            "The MCP server {server} cannot be reached at {url}: {why}.",
            server=server,
            url=_origin(request.url),
            why=shown(_unreachable(error) or why),
        )
    if method == CALL:
        return lost(server, why)
    return McpError(
        "The connection to the MCP server {server} broke: {why}.", server=server, why=shown(why)
    )


def _unreachable(error: Exception) -> str:
    """Return why there was no connection, from the causes of `error`."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return f"no secure connection, {getattr(cause, 'verify_message', '') or cause.reason}"
        if isinstance(cause, socket.gaierror):
            return "the host was not found"
        if isinstance(cause, OSError) and cause.errno:
            return str(reason(cause))
        cause = cause.__cause__ or cause.__context__
    return ""


def _error_code(body: bytes) -> int | None:
    """Return the code of the JSON-RPC error in `body`; None if there is none."""
    try:
        code = from_json(body)["error"]["code"]
    except (ValueError, KeyError, TypeError):
        return None
    return code if isinstance(code, int) else None


def _origin(url: httpx2.URL) -> str:
    """Return scheme, host and port: the path and the query may hold a key."""
    return str(url.copy_with(userinfo=b"", path="", query=None, fragment=None)).rstrip("/")
