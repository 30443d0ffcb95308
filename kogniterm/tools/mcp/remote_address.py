"""Addresses and headers of remote servers: what may be used, and how much of it is shown."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping

import httpx2

from kogniterm.tools.mcp.mcp_errors import McpError, show_words

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


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


def checked_headers(headers: Mapping[str, str], server: str) -> dict[str, str]:
    """Return `headers`, or raise without showing a value: it may be a key."""
    for name, value in headers.items():
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise McpError(
                "The header {name} of the MCP server {server} has characters that no header can "
                "have.",
                name=show_words(name),
                server=server,
            )
    return {name: value.strip() for name, value in headers.items()}


def may_open(address: str, server_url: str) -> bool:
    """Return whether a browser may open `address`: a web page, over https unless it is local."""
    try:
        url = httpx2.URL(address)
    except httpx2.InvalidURL:
        return False
    if not address.isascii() or not address.isprintable() or " " in address or url.userinfo:
        return False
    local = is_loopback(url.host) and is_loopback(httpx2.URL(server_url).host)
    return bool(url.host) and (url.scheme == "https" or (url.scheme == "http" and local))


def origin(url: httpx2.URL) -> str:
    """Return scheme, host and port: the path and the query may hold a key."""
    return str(url.copy_with(userinfo=b"", path="", query=None, fragment=None)).rstrip("/")


def host_of(address: str) -> str:
    """Return the host of `address`, with its port if it names one."""
    return httpx2.URL(address).netloc.decode()
