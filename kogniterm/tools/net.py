"""The one network client of the tools: bounded, and never a way into the user's own network.

Names are resolved here, all addresses of an answer are checked, and the connection goes to the very
address that was checked, so that a name cannot mean something else a moment later. Every redirect
is checked like a first request.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Callable, Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import TYPE_CHECKING, NamedTuple, Protocol
from urllib.parse import quote, urljoin, urlsplit

from kogniterm import __version__
from kogniterm.errors import SettingsError, ToolError
from kogniterm.settings import certificates

if TYPE_CHECKING:
    import httpx

_V4_REFUSED = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",  # private
            "100.64.0.0/10",  # carrier-grade NAT, and the metadata service of Alibaba Cloud
            "127.0.0.0/8",  # loopback
            "168.63.129.16/32",  # the wire server of Azure
            "169.254.0.0/16",  # link-local, and the metadata services of most clouds
            "172.16.0.0/12",  # private
            "192.0.0.0/24",  # protocol assignments, and the metadata service of Oracle Cloud
            "192.0.2.0/24",  # documentation
            "192.31.196.0/24",  # AS112
            "192.52.193.0/24",  # AMT
            "192.88.99.0/24",  # relays of 6to4
            "192.168.0.0/16",  # private
            "192.175.48.0/24",  # AS112
            "198.18.0.0/15",  # benchmarks
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and broadcast
        ),
    )
)
_V6_GLOBAL = IPv6Network("2000::/3")
"""All that was ever assigned to the public internet; the rest is refused unnamed."""
_V6_REFUSED = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # protocol assignments: Teredo, benchmarks, ORCHID
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4
            "2620:4f:8000::/48",  # AS112
            "3ffe::/16",  # the former 6bone
            "3fff::/20",  # documentation
        ),
    )
)
_NAT64 = IPv6Network("64:ff9b::/96")
_ISATAP = re.compile(r"[0-9a-f]{16}0[02]005efe[0-9a-f]{8}")
_NUMERIC = re.compile(r"(?:0x[0-9a-f]*|\d+)\Z")


def is_public(address: str) -> bool:
    """Return whether `address`, as a resolver gives it, is one of the public internet."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(found, IPv4Address):
        return _is_public_v4(found)
    if found.scope_id is not None:
        return False
    if found in _NAT64:
        return _is_public_v4(IPv4Address(int(found) & 0xFFFFFFFF))
    if found not in _V6_GLOBAL or any(found in network for network in _V6_REFUSED):
        return False
    return not _ISATAP.fullmatch(f"{int(found):032x}")


def _is_public_v4(address: IPv4Address) -> bool:
    return not any(address in network for network in _V4_REFUSED)


def canonical_host(host: str) -> str:
    """Return the host of a URL as it is looked up: in ASCII, lower case, without the final dot.

    Raises `ValueError` for what is no host's name, and for every way to write an IPv4 address but
    the usual one: programs do not agree on what 0177.1 or 2130706433 means.
    """
    if ":" in host:
        return str(IPv6Address(host))
    name = host.encode("idna").decode("ascii").lower().removesuffix(".")
    if not re.fullmatch(r"[a-z0-9._-]+", name) or ".." in name:
        raise ValueError(f"{host} is no host's name")
    if _NUMERIC.match(name.rpartition(".")[2]):
        return str(IPv4Address(name))
    return name


MAX_BYTES = 2 * 1024 * 1024
MAX_REDIRECTS = 5
CONNECT_SECONDS = 10.0
TOTAL_SECONDS = 30.0
REDIRECTS = frozenset({301, 302, 303, 307, 308})

HARMLESS_HEADERS = frozenset({"accept", "user-agent"})

_STRANGE = re.compile(r"[\x00-\x20\x7f\\]")
"""Characters that parsers of addresses read in different ways."""


class Resolver(Protocol):
    """Finds the addresses of a host."""

    async def __call__(self, host: str, port: int) -> list[str]:
        """Return every address of `host`. Raises `OSError` for one that is not known."""


class WebPage(NamedTuple):
    """A response. `body` is cut at `MAX_BYTES`; `url` is where the redirects ended."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    cut: bool


class NetClient:
    """Fetches over HTTP and HTTPS. `allowed` names private hosts that the user has opened."""

    def __init__(
        self, *, allowed: frozenset[str] = frozenset(), resolve: Resolver | None = None
    ) -> None:
        self._allowed = allowed
        self._resolve = resolve or _resolve

    async def get(self, url: str, headers: Mapping[str, str] | None = None) -> WebPage:
        """GET `url`. Raises `ToolError` for what is refused, unreachable or too slow."""
        try:
            return await asyncio.wait_for(self._follow(url, dict(headers or {})), TOTAL_SECONDS)
        except TimeoutError as error:
            raise ToolError(
                "{url} did not respond within {seconds:.0f} s.", url=url, seconds=TOTAL_SECONDS
            ) from error

    async def _follow(self, url: str, headers: dict[str, str]) -> WebPage:
        for _ in range(MAX_REDIRECTS + 1):
            page = await self._once(url, headers)
            target = page.headers.get("location")
            if page.status not in REDIRECTS or not target:
                return page
            before = _origin(url)
            try:
                url = urljoin(url, target)
                here = _origin(url)
            except ValueError as error:
                raise ToolError("{url} is not an http or https URL.", url=target) from error
            if here != before:
                # Keys and tokens are for the host they were given for, and not for plain HTTP.
                headers = {k: v for k, v in headers.items() if k.lower() in HARMLESS_HEADERS}
        raise ToolError("{url} redirects more than {count} times.", url=url, count=MAX_REDIRECTS)

    async def _once(self, url: str, headers: dict[str, str]) -> WebPage:
        import httpx

        request, extensions = await self._request(url, headers)
        try:
            verify = certificates(httpx.create_ssl_context)
        except SettingsError as error:
            raise ToolError("{problem}", problem=error) from error
        timeout = httpx.Timeout(TOTAL_SECONDS, connect=CONNECT_SECONDS)
        try:
            # trust_env is off: a proxy from the environment would resolve the name itself.
            async with httpx.AsyncClient(timeout=timeout, trust_env=False, verify=verify) as client:
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
        return WebPage(url, response.status_code, response.headers, body, cut)

    async def _request(self, url: str, headers: dict[str, str]) -> tuple[str, dict[str, str]]:
        """Return the URL with the checked address in place of the name, and how to greet it."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise ToolError("{url} is not an http or https URL.", url=url) from error
        if parts.scheme not in ("http", "https") or not host or _STRANGE.search(url):
            raise ToolError("{url} is not an http or https URL.", url=url)
        if "@" in parts.netloc:
            raise ToolError("Addresses with a user name or password are refused; leave them out.")
        name, address = await self._check_address(
            host, port or (443 if parts.scheme == "https" else 80)
        )
        shown_port = f":{port}" if port else ""
        headers.setdefault("User-Agent", f"KogniTerm/{__version__}")
        headers["Accept-Encoding"] = "gzip"
        headers["Host"] = (f"[{name}]" if ":" in name else name) + shown_port
        shown = f"[{address}]" if ":" in address else address
        path = parts.path or "/"
        query = f"?{parts.query}" if parts.query else ""
        return f"{parts.scheme}://{shown}{shown_port}{path}{query}", {"sni_hostname": name}

    async def _check_address(self, host: str, port: int) -> tuple[str, str]:
        """Return the host's name as it is looked up, and the address to connect to."""
        try:
            name = canonical_host(host)
        except ValueError as error:
            raise ToolError("{host} is not a valid host name or address.", host=host) from error
        try:
            is_address = ":" in name or name.replace(".", "").isdigit()
            addresses = [name] if is_address else await self._resolve(name, port)
        except OSError as error:
            raise ToolError("The host {host} was not found.", host=name) from error
        if not addresses:
            raise ToolError("The host {host} was not found.", host=name)
        if name not in self._allowed:
            for address in addresses:
                if not is_public(address):
                    raise ToolError(
                        "{host} is a private address ({address}), which web tools cannot reach.",
                        host=name,
                        address=address,
                    )
        return name, addresses[0]


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.lower()


async def _resolve(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(item[4][0]) for item in found]


async def _read(response: httpx.Response) -> tuple[bytes, bool]:
    """Return the body, unpacked, and whether it was cut.

    It is unpacked here: a small body can be packed twice, and be larger than all memory.
    """
    unpack = _unpacker(response)
    body = bytearray()
    async for piece in response.aiter_raw():
        body += unpack(piece, MAX_BYTES + 1 - len(body))
        if len(body) > MAX_BYTES:
            return bytes(body[:MAX_BYTES]), True
    return bytes(body), False


def _unpacker(response: httpx.Response) -> Callable[[bytes, int], bytes]:
    """Return a function that unpacks pieces, with at most so many bytes of each."""
    import zlib

    packing = response.headers.get("content-encoding", "").strip().lower()
    if packing in ("", "identity"):
        return lambda piece, most: piece
    if packing not in ("gzip", "x-gzip"):
        raise ToolError("{url} is packed as {packing}.", url=response.url, packing=packing)
    stream = zlib.decompressobj(zlib.MAX_WBITS | 16)

    def unpack(piece: bytes, most: int) -> bytes:
        try:
            return stream.decompress(piece, most)
        except zlib.error as error:
            raise ToolError("{url} is packed in a damaged way.", url=response.url) from error

    return unpack


def mark_untrusted(source: str, text: str) -> str:
    """Mark text from elsewhere, so that the model does not take it for the user's words."""
    safe = re.sub(r"</(\s*untrusted\s*>)", r"</ \1", text, flags=re.IGNORECASE)
    name = quote(source, safe="/:?#[]@!$&'()*+,;=%~ ")
    return f'<untrusted source="{name}">\n{safe}\n</untrusted>'
