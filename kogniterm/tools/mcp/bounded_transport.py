"""The limits of time, of size and of place for all that is sent to remote MCP servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Any, TypeVar

import httpx2
from httpx2 import AsyncByteStream, Request, Response

from kogniterm.errors import SettingsError
from kogniterm.settings import certificates, proxies
from kogniterm.tools.mcp.mcp_errors import McpError
from kogniterm.tools.mcp.remote_address import is_loopback, origin

T = TypeVar("T")

MAX_MESSAGE = 16 * 1024 * 1024
"""Bytes of one answer, or of one event of a stream."""
MAX_SIGN_IN = 1024 * 1024
"""Bytes of one answer of an authorization server."""
CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 60.0
"""Time for the whole answer to any request but a tool call, whose limit the caller knows."""
IDLE_SECONDS = 600.0
"""Time without a byte after which a stream counts as broken."""

LIMIT = "kogniterm"
"""The name under which a request carries its limits to `BoundedTransport`."""


class _Bounded(AsyncByteStream):
    """A body with a limit of bytes and of time; None is no limit."""

    def __init__(self, body: AsyncByteStream, most: int | None, until: float | None) -> None:
        self._body, self._most, self._until = body, most, until

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces, count = aiter(self._body), 0
        while (piece := await _in_time(anext(pieces, None), self._until)) is not None:
            count += len(piece)
            if self._most is not None and count > self._most:
                raise httpx2.ReadError(f"the answer is larger than {self._most // 2**20} MB")
            yield piece

    async def aclose(self) -> None:
        await self._body.aclose()


async def _in_time(waiting: Awaitable[T], until: float | None) -> T:
    try:
        async with asyncio.timeout_at(until):
            return await waiting
    except TimeoutError as error:
        raise httpx2.ReadTimeout("the answer took too long") from error


def bounded_network(url: httpx2.URL, *, insecure: bool) -> dict[str, Any]:
    """Return the arguments of a client that sends through this machine's proxies, bounded.

    A server of this machine is reached without a proxy. Raises `McpError` for a proxy or for
    certificates that cannot be used.
    """
    try:
        found = {} if is_loopback(url.host) else proxies()
        mounts = {
            pattern: BoundedTransport(url, insecure=insecure, proxy=proxy) if proxy else None
            for pattern, proxy in found.items()
        }
        direct = BoundedTransport(url, insecure=insecure)
    except SettingsError as error:
        raise McpError("{problem}", problem=error) from error
    return {"trust_env": False, "transport": direct, "mounts": mounts}


class BoundedTransport(httpx2.AsyncHTTPTransport):
    """Sends one request, within the limits, to where it may go."""

    def __init__(self, url: httpx2.URL, *, insecure: bool, proxy: str | None = None) -> None:
        verify = certificates(httpx2.create_ssl_context)
        super().__init__(verify=verify, trust_env=False, proxy=proxy)
        self._plain = {url.host} if insecure or is_loopback(url.host) else set()

    async def handle_async_request(self, request: Request) -> Response:
        host = request.url.host
        plain = host in self._plain or (self._plain and is_loopback(host))
        if request.url.scheme != "https" and not plain:
            raise httpx2.UnsupportedProtocol(f"{origin(request.url)} is not https")
        seconds, most = request.extensions.get(LIMIT, (ANSWER_SECONDS, MAX_SIGN_IN))
        until = None if seconds is None else asyncio.get_running_loop().time() + seconds
        response = await _in_time(super().handle_async_request(request), until)
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
