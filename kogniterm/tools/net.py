"""The one network client of the tools: bounded, and never a way into the person's own network.

Names are resolved here and the connection goes to the very address that was checked, so that a
name cannot mean something else a moment later. Every redirect is checked like a first request.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from kogniterm import __version__
from kogniterm.errors import ToolError

if TYPE_CHECKING:
    import httpx

MAX_BYTES = 2 * 1024 * 1024
MAX_REDIRECTS = 5
CONNECT_SECONDS = 10.0
TOTAL_SECONDS = 30.0
REDIRECTS = frozenset({301, 302, 303, 307, 308})

HARMLESS_HEADERS = frozenset({"accept", "user-agent"})

Resolve = Callable[[str, int], Awaitable[list[str]]]


@dataclass(frozen=True, slots=True)
class Page:
    """What came back. `body` is cut at `MAX_BYTES`; `url` is where the redirects ended."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    cut: bool


class NetClient:
    """Fetches over HTTP and HTTPS. `allowed` names private hosts a person has opened."""

    def __init__(
        self, *, allowed: frozenset[str] = frozenset(), resolve: Resolve | None = None
    ) -> None:
        self._allowed = allowed
        self._resolve = resolve or _resolve

    async def get(self, url: str, headers: Mapping[str, str] | None = None) -> Page:
        """GET `url`. Raises `ToolError` for what is refused, unreachable or too slow."""
        try:
            return await asyncio.wait_for(self._follow(url, dict(headers or {})), TOTAL_SECONDS)
        except TimeoutError as error:
            raise ToolError(
                "{url} did not answer within {seconds:.0f} s.", url=url, seconds=TOTAL_SECONDS
            ) from error

    async def _follow(self, url: str, headers: dict[str, str]) -> Page:
        first_host = urlsplit(url).hostname
        for _ in range(MAX_REDIRECTS + 1):
            page = await self._once(url, headers)
            target = page.headers.get("location")
            if page.status not in REDIRECTS or not target:
                return page
            url = urljoin(url, target)
            if urlsplit(url).hostname != first_host:
                # Keys and tokens are for the host they were given for.
                headers = {k: v for k, v in headers.items() if k.lower() in HARMLESS_HEADERS}
        raise ToolError("{url} redirects more than {count} times.", url=url, count=MAX_REDIRECTS)

    async def _once(self, url: str, headers: dict[str, str]) -> Page:
        import httpx

        request, extensions = await self._request(url, headers)
        timeout = httpx.Timeout(TOTAL_SECONDS, connect=CONNECT_SECONDS)
        try:
            # trust_env is off: a proxy from the environment would resolve the name itself.
            async with httpx.AsyncClient(timeout=timeout, trust_env=False) as client:
                sent = client.build_request("GET", request, headers=headers, extensions=extensions)
                response = await client.send(sent, stream=True)
                try:
                    body, cut = await _read(response)
                finally:
                    await response.aclose()
        except httpx.HTTPError as error:
            raise ToolError(
                "{url} cannot be fetched: {why}.", url=url, why=str(error) or type(error).__name__
            ) from error
        return Page(url, response.status_code, response.headers, body, cut)

    async def _request(self, url: str, headers: dict[str, str]) -> tuple[str, dict[str, str]]:
        """The URL with the checked address in place of the name, and how to greet it."""
        parts = urlsplit(url)
        host = parts.hostname
        if parts.scheme not in ("http", "https") or not host:
            raise ToolError("{url} is no http or https address.", url=url)
        if parts.username or parts.password:
            raise ToolError("Addresses with a user name or password are refused.")
        try:
            port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError as error:
            raise ToolError("{url} has no valid port.", url=url) from error
        address = await self._checked(host, port)
        headers.setdefault("User-Agent", f"KogniTerm/{__version__}")
        headers["Host"] = parts.netloc
        shown = f"[{address}]" if ":" in address else address
        path = parts.path or "/"
        query = f"?{parts.query}" if parts.query else ""
        return f"{parts.scheme}://{shown}:{port}{path}{query}", {"sni_hostname": host}

    async def _checked(self, host: str, port: int) -> str:
        try:
            addresses = [host] if _is_address(host) else await self._resolve(host, port)
        except OSError as error:
            raise ToolError("The host {host} is not known.", host=host) from error
        if host not in self._allowed:
            for address in addresses:
                if not ipaddress.ip_address(address.partition("%")[0]).is_global:
                    raise ToolError(
                        "{host} is a private address ({address}); tools do not go there.",
                        host=host,
                        address=address,
                    )
        return addresses[0]


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


async def _resolve(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(item[4][0]) for item in found]


async def _read(response: httpx.Response) -> tuple[bytes, bool]:
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) > MAX_BYTES:
            return bytes(body[:MAX_BYTES]), True
    return bytes(body), False


def untrusted(source: str, text: str) -> str:
    """Text from elsewhere, marked so that the model does not take it for the person's words."""
    safe = text.replace("</untrusted>", "</ untrusted>")
    return f'<untrusted source="{source}">\n{safe}\n</untrusted>'
