"""Reach a streamable HTTP server: bounded, on its own origin, and no call is ever sent twice.

The SDK speaks the protocol. A request that fails is answered by `_HttpClient`, because an exception
would end the connection with all its other requests; `_Messages` puts our error into the answer.

The SDK continues a broken stream from the last event (a GET, which repeats nothing). It sends a
call again only after a server rejected its headers; `_Messages` replaces that rejection, however
it came, so that nothing but the caller decides on a second call.

Importing this module loads the SDK: import it where a server is contacted.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from httpx2 import Request, Response
from mcp.client.auth import OAuthFlowError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import HEADER_MISMATCH, INTERNAL_ERROR, ErrorData
from mcp_types.jsonrpc import JSONRPCError

from kogniterm import __version__
from kogniterm.errors import KognitermError
from kogniterm.tools.mcp.bounded_transport import (
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    IDLE_SECONDS,
    LIMIT,
    MAX_MESSAGE,
    bounded_network,
)
from kogniterm.tools.mcp.http_failures import check_answer, request_failure
from kogniterm.tools.mcp.mcp_errors import (
    CALL,
    McpError,
    McpSignInFailedError,
    McpSignInNeededError,
    McpStaleToolsError,
    McpUnreachableError,
)
from kogniterm.tools.mcp.remote_address import checked_address, checked_headers
from kogniterm.tools.mcp.server_values import leave_out_invalid

_UNLIMITED = (CALL, "subscriptions/listen")


class _HttpClient(httpx2.AsyncClient):
    """The client that the SDK sends with: a request that fails is answered with our error."""

    def __init__(
        self, server: str, seconds: float, auth: httpx2.Auth | None, **options: Any
    ) -> None:
        super().__init__(auth=auth, **options)
        self.server, self.seconds, self.signs_in = server, seconds, auth is not None
        self.reached = False
        self.calls: set[object] = set()
        """The IDs of the calls of this connection."""
        self.failures: dict[object, McpError] = {}
        """The errors of requests that failed, by their IDs, until `_Messages` passes them on."""

    async def send(self, request: Request, *args: Any, **options: Any) -> Response:
        body = json.loads(request.content) if request.method == "POST" else {}
        method = body.get("method", "") if "id" in body else ""
        if method == CALL:
            self.calls.add(body["id"])
        unlimited = request.method == "GET" or method in _UNLIMITED
        request.extensions[LIMIT] = (None if unlimited else self.seconds, MAX_MESSAGE)
        try:
            response = await super().send(request, *args, **options)
            if method and response.next_request is None:
                await self._check(response, method)
        except (
            httpx2.HTTPError,
            httpx2.InvalidURL,
            httpx2.StreamError,
            OAuthFlowError,
            KognitermError,
            OSError,
            ValueError,
        ) as error:
            failure = request_failure(error, request, method, self.server)
            if not self.reached and isinstance(
                failure, McpUnreachableError | McpSignInNeededError | McpSignInFailedError
            ):
                # After an answer the SDK would try an older revision; this ends the connection.
                raise failure from error
            failure.method = method
            if method:
                self.failures[body["id"]] = failure
            return Response(500, request=request)
        return response

    async def _check(self, response: Response, method: str) -> None:
        try:
            await check_answer(response, method, self.server, signs_in=self.signs_in)
        except BaseException:
            await response.aclose()
            raise
        self.reached = True


class _Messages:
    """Messages of the server, with our error in place of one that the SDK would not explain."""

    def __init__(self, messages: Any, client: _HttpClient) -> None:
        self._messages, self._client = messages, client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._messages, name)

    async def __aenter__(self) -> _Messages:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._messages.aclose()

    def __aiter__(self) -> _Messages:
        return self

    async def __anext__(self) -> Any:
        item = await anext(self._messages)
        answer = getattr(item, "message", None)  # a failure to read one has none
        leave_out_invalid(getattr(answer, "result", None))
        if isinstance(answer, JSONRPCError) and (failure := self._failure(answer)) is not None:
            answer.error = ErrorData(code=INTERNAL_ERROR, message=str(failure), data=failure)
        return item

    def _failure(self, answer: JSONRPCError) -> McpError | None:
        if answer.id in self._client.failures:
            return self._client.failures.pop(answer.id)
        if answer.error.code != HEADER_MISMATCH or answer.id not in self._client.calls:
            return None
        stale = McpStaleToolsError(
            "A tool of the MCP server {server} changed since it was listed; list its tools again, "
            "then repeat the call.",
            server=self._client.server,
        )
        stale.method = CALL
        return stale


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
    client = _HttpClient(
        server,
        answer_seconds,
        auth,
        headers={
            "User-Agent": f"KogniTerm/{__version__}",
            **checked_headers(headers or {}, server),
            # A small answer could be packed twice, and be larger than all memory.
            "Accept-Encoding": "identity",
        },
        timeout=httpx2.Timeout(answer_seconds, connect=CONNECT_SECONDS, read=idle_seconds),
        **bounded_network(address, insecure=insecure),
    )
    async with (
        client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MAX_MESSAGE) as streams,
    ):
        received, *sent = streams
        yield (_Messages(received, client), *sent)
