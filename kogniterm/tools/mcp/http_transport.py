"""Reach a streamable HTTP server: bounded, on its own origin, and no call is ever sent twice.

The SDK speaks the protocol. Three things stand around it. `_Client` turns each failure of a request
into an answer that the SDK passes on, with our own error as its data; otherwise one request that
fails would end the connection with all its other requests. `_Limited` keeps the limits of time and
size, also for what signing in requests. `_Answers` is the stream that the session reads, and says
which of the SDK's own errors mean that a call was lost.

The SDK continues a broken stream from the last event (a GET, which repeats nothing). It sends a
call again only after a server rejected its headers; that rejection is turned into an error here,
so that nothing but the caller decides on a second call.

Importing this module loads the SDK: import it where a server is contacted.
"""

from __future__ import annotations

import asyncio
import contextvars
import ipaddress
import json
import re
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING

import httpx2
from httpx2 import USE_CLIENT_DEFAULT, AsyncByteStream, Request, Response
from mcp.client.auth import OAuthFlowError
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import next_request_within_origin
from mcp.shared.message import SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCResponse,
    RequestId,
)
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
    shown,
    sign_in_needed,
)

if TYPE_CHECKING:
    from httpx2._client import UseClientDefault
    from httpx2._types import AuthTypes
    from mcp.client._transport import ReadStream, TransportStreams

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


@dataclass(slots=True)
class _Sent:
    """A request that has no answer yet; `failure` takes the place of whatever the SDK reports."""

    id: RequestId
    method: str
    failure: McpError | None = None

    @property
    def is_call(self) -> bool:
        return self.method == CALL


@dataclass(slots=True)
class _Requests:
    """The open requests of one connection.

    `down` is the failure that made the first request fail: the SDK tries an older revision then,
    which need not wait for the same failure again.
    """

    server: str
    signs_in: bool
    seconds: float
    open: dict[RequestId, _Sent] = field(default_factory=dict)
    reached: bool = False
    down: McpError | None = None

    def begin(self, request: Request) -> _Sent | None:
        """Return the JSON-RPC request in `request`; None for anything else."""
        if request.method != "POST":
            return None
        body = json.loads(request.content)
        if not isinstance(body, dict) or "method" not in body or "id" not in body:
            return None
        self.open[body["id"]] = sent = _Sent(body["id"], body["method"])
        return sent


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
        streams = response.status_code == 200 and _is_stream(response)
        response.stream = _Bounded(body, None if streams else most, until)
        return response


class _Client(httpx2.AsyncClient):
    """The client that the SDK sends with: every failure becomes an answer."""

    requests: _Requests

    async def send(
        self,
        request: Request,
        *,
        stream: bool = False,
        auth: AuthTypes | UseClientDefault | None = USE_CLIENT_DEFAULT,
        follow_redirects: bool | UseClientDefault = USE_CLIENT_DEFAULT,
    ) -> Response:
        requests = self.requests
        sent = requests.begin(request)
        if requests.down is not None and not requests.reached:
            return _failed(request, sent, requests.down)
        unlimited = request.method == "GET" or (sent is not None and sent.method in _UNLIMITED)
        request.extensions[_LIMIT] = (None if unlimited else requests.seconds, MAX_MESSAGE)
        try:
            response = await super().send(
                request, stream=stream, auth=auth, follow_redirects=follow_redirects
            )
            if sent is not None:
                await self._judge(response, sent)
        except (
            httpx2.HTTPError,
            httpx2.InvalidURL,
            httpx2.StreamError,
            OAuthFlowError,
            KognitermError,
            OSError,
            ValueError,
        ) as error:
            failure = _failure(error, request, sent, requests.server)
            if not requests.reached and isinstance(
                failure, McpUnreachableError | McpSignInNeededError | McpSignInFailedError
            ):
                requests.down = failure
            return _failed(request, sent, failure)
        return response

    async def _judge(self, response: Response, sent: _Sent) -> None:
        """Note why `response` is no answer to `sent`, unless the SDK passes the reason on."""
        requests, status = self.requests, response.status_code
        try:
            if _is_json(response):
                await response.aread()
            if status in (401, 403) and not requests.reached:
                requests.down = _refusal(response, sent, requests)
            sent.failure = self._problem(response, sent)
            requests.reached = requests.reached or sent.failure is None
        finally:
            if sent.failure is not None:
                await response.aclose()

    def _problem(self, response: Response, sent: _Sent) -> McpError | None:
        status, server = response.status_code, self.requests.server
        if status == 401 or (status == 404 and _SESSION in response.request.headers):
            return _refusal(response, sent, self.requests)
        if _is_answer(response) or next_request_within_origin(response) is not None:
            return None
        if response.next_request is not None:
            return McpRefusedError(
                "The MCP server {server} redirects to {origin}, which was not followed; if that is "
                "the right server, use its URL in the configuration.",
                server=server,
                origin=_origin(response.next_request.url),
            )
        if 400 <= status < 500:
            return _refusal(response, sent, self.requests)
        if sent.is_call:
            kind = response.headers.get("content-type", "")
            return lost(server, f"HTTP {status} {kind}".strip())
        if status >= 500:
            return McpError(
                "The MCP server {server} failed with HTTP status {status}; try again later.",
                server=server,
                status=status,
            )
        return McpError(
            "{url} did not answer as an MCP server does; check the URL of {server}.",
            url=_origin(response.request.url),
            server=server,
        )


class _Answers:
    """The stream that a session reads, with our errors in the place of the SDK's."""

    def __init__(self, inner: ReadStream[SessionMessage | Exception], requests: _Requests) -> None:
        self._inner = inner
        self._requests = requests

    @property
    def last_context(self) -> contextvars.Context | None:
        """Return the context of what was received last, in which it is handled."""
        found: contextvars.Context | None = getattr(self._inner, "last_context", None)
        return found

    async def receive(self) -> SessionMessage | Exception:
        return self._read(await self._inner.receive())

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> _Answers:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return self._read(await self._inner.__anext__())

    async def __aenter__(self) -> _Answers:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    def _read(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        if not isinstance(item, SessionMessage):
            return item
        answer = item.message
        if not isinstance(answer, JSONRPCResponse | JSONRPCError) or answer.id is None:
            return item
        sent = self._requests.open.pop(answer.id, None)
        if sent is None or isinstance(answer, JSONRPCResponse):
            return item
        failure = sent.failure or self._lost(answer.error, sent)
        if failure is None:
            return item
        failure.method = sent.method
        code = INVALID_REQUEST if isinstance(failure, McpRefusedError) else INTERNAL_ERROR
        error = ErrorData(code=code, message=str(failure), data=failure)
        return SessionMessage(JSONRPCError(jsonrpc="2.0", id=answer.id, error=error))

    def _lost(self, error: ErrorData, sent: _Sent) -> McpError | None:
        """Return what an error about a call means for it, when it is not the server's own."""
        if not sent.is_call:
            return None
        if error.code == HEADER_MISMATCH:
            return McpStaleToolsError(
                "A tool of the MCP server {server} changed since it was listed; list its tools "
                "again, then repeat the call.",
                server=self._requests.server,
            )
        broken = error.code == CONNECTION_CLOSED and error.message.startswith("SSE stream")
        unread = error.code == PARSE_ERROR and error.message.startswith("Failed to parse")
        return lost(self._requests.server, error.message) if broken or unread else None


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
) -> AsyncIterator[TransportStreams]:
    """Open the streams to the server at `url`, as `mcp.Client` takes them.

    `server` is its name in messages; `auth` signs in. Requests fail with an `MCPError` of the SDK;
    `mcp_errors.failure_of` gives our error for it. Raises `McpError` for a URL or a header that
    cannot be used. Nothing is sent before the session's first request.
    """
    address = checked_address(url, server, insecure=insecure)
    requests = _Requests(server, signs_in=auth is not None, seconds=answer_seconds)
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
    client.requests = requests
    async with (
        client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MAX_MESSAGE) as streams,
    ):
        read, write = streams
        yield _Answers(read, requests), write


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


def _failed(request: Request, sent: _Sent | None, failure: McpError) -> Response:
    """Return an answer with which the SDK ends `sent`; `_Answers` puts `failure` in its place."""
    if sent is not None:
        sent.failure = failure
    return Response(502, request=request)


def _failure(error: Exception, request: Request, sent: _Sent | None, server: str) -> McpError:
    """Return our error for one that sending a request raised."""
    if isinstance(error, McpError):
        return error
    why = str(error) or type(error).__name__
    if isinstance(error, OAuthFlowError | KognitermError | OSError | ValueError):
        return McpSignInFailedError(
            "Signing in to the MCP server {server} failed: {why}.", server=server, why=shown(why)
        )
    if isinstance(error, httpx2.RequestError):
        other = _other_host(error, request)
        if other is not None:
            return McpSignInFailedError(
                "Signing in to the MCP server {server} failed: {host} cannot be used ({why}).",
                server=server,
                host=other,
                why=shown(why),
            )
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout):
        return _unreachable(error, why, request, server)
    if sent is not None and sent.is_call:
        return lost(server, why)
    return McpError(
        "The connection to the MCP server {server} broke: {why}.", server=server, why=shown(why)
    )


def _other_host(error: httpx2.RequestError, request: Request) -> str | None:
    """Return the origin of the sign-in that failed, when it was not `request` that did."""
    try:
        failed = error.request
    except RuntimeError:
        return None
    return None if failed is request else _origin(failed.url)


def _unreachable(error: Exception, why: str, request: Request, server: str) -> McpUnreachableError:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return McpUnreachableError(
                "No secure connection to the MCP server {server}: {why}.",
                server=server,
                why=shown(getattr(cause, "verify_message", "") or cause.reason or why),
            )
        if isinstance(cause, socket.gaierror):
            why = "the host was not found"
        elif isinstance(cause, OSError) and cause.errno:
            why = str(reason(cause))
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, httpx2.ConnectTimeout):
        why = f"no answer within {CONNECT_SECONDS:.0f} s"
    return McpUnreachableError(
        "The MCP server {server} cannot be reached at {url}: {why}.",
        server=server,
        url=_origin(request.url),
        why=shown(why),
    )


def _refusal(response: Response, sent: _Sent, requests: _Requests) -> McpRefusedError:
    """Return the error of a request that was refused with a 4xx status."""
    server, status = requests.server, response.status_code
    if status == 401 and not requests.signs_in and "www-authenticate" not in response.headers:
        return McpRefusedError(
            "The MCP server {server} did not accept the key (HTTP status 401); check its headers "
            "in the configuration.",
            server=server,
        )
    if status == 401:
        return sign_in_needed(server)
    if status == 403:
        return McpRefusedError(
            "The MCP server {server} does not permit this (HTTP status 403).", server=server
        )
    if status == 404 and _SESSION in response.request.headers:
        return McpSessionEndedError(
            "The session with the MCP server {server} ended; the next call opens a new one.",
            server=server,
        )
    if status == 404:
        return McpRefusedError(
            "There is no MCP server at {url} (HTTP status 404); check the URL of {server}.",
            url=_origin(response.request.url) + response.request.url.path,
            server=server,
        )
    return McpRefusedError(
        "The MCP server {server} refused {method} (HTTP status {status}).",
        server=server,
        method=sent.method,
        status=status,
    )


def _is_answer(response: Response) -> bool:
    """Return whether the SDK finds an answer, or the server's own error, in `response`."""
    if response.status_code == 200:
        return _is_json(response) or _is_stream(response)
    if response.status_code < 400 or not _is_json(response):
        return False
    body = from_json(response.content)
    error = body.get("error") if isinstance(body, dict) else None
    return isinstance(error, dict) and isinstance(error.get("code"), int)


def _is_json(response: Response) -> bool:
    kind: str = response.headers.get("content-type", "")
    return kind.lower().startswith("application/json")


def _is_stream(response: Response) -> bool:
    kind: str = response.headers.get("content-type", "")
    return kind.lower().startswith("text/event-stream")


def _origin(url: httpx2.URL) -> str:
    """Return scheme, host and port: the path and the query may hold a key."""
    return str(url.copy_with(userinfo=b"", path="", query=None, fragment=None)).rstrip("/")
