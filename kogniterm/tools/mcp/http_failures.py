"""Errors of HTTP: an answer that no MCP server gives, and a request that was not answered."""

from __future__ import annotations

import socket
import ssl

import httpx2
from httpx2 import Request, Response
from pydantic_core import from_json

from kogniterm.errors import why as reason
from kogniterm.tools.mcp.mcp_errors import (
    CALL,
    McpError,
    McpRefusedError,
    McpSessionEndedError,
    McpSignInFailedError,
    McpUnreachableError,
    lost_call,
    show_words,
    sign_in_needed,
)
from kogniterm.tools.mcp.remote_address import origin


async def check_answer(response: Response, method: str, server: str, *, signs_in: bool) -> None:
    """Raise `McpError` for a `response` that the SDK would not, or must not, take as it is."""
    status, kind = response.status_code, response.headers.get("content-type", "").lower()
    is_json = kind.startswith("application/json")
    is_error = is_json and _is_error(await response.aread())
    if status == 401 and (signs_in or "www-authenticate" in response.headers):
        raise sign_in_needed(server)
    if status == 404 and "mcp-session-id" in response.request.headers:
        raise McpSessionEndedError(
            "The session with the MCP server {server} ended; the next call opens a new one.",
            server=server,
        )
    answers = status == 200 and (is_json or kind.startswith("text/event-stream"))
    if (answers or is_error) and status != 401:
        return
    if 400 <= status < 500:
        raise McpRefusedError(
            "The MCP server {server} refused {method} (HTTP status {status}); check its URL and "
            "headers in the configuration.",
            server=server,
            method=method,
            status=status,
        )
    if method == CALL:
        raise lost_call(server, f"HTTP {status} {kind}".strip())
    raise McpError(
        "{url} did not answer as an MCP server does (HTTP status {status}); check the URL of "
        "{server}, or try again later.",
        url=origin(response.request.url),
        status=status,
        server=server,
    )


def _is_error(body: bytes) -> bool:
    """Return whether `body` is an error of JSON-RPC, which the SDK passes on at any status."""
    try:
        return isinstance(from_json(body)["error"]["code"], int)
    except (ValueError, KeyError, TypeError):
        return False


def request_failure(error: Exception, request: Request, method: str, server: str) -> McpError:
    """Return our error for one that sending `request` raised."""
    if isinstance(error, McpError):
        return error
    why = str(error) or type(error).__name__
    if not isinstance(error, httpx2.RequestError):
        return McpSignInFailedError(
            "Signing in to the MCP server {server} failed: {why}.",
            server=server,
            why=show_words(why),
        )
    if error.request is not request:
        return McpSignInFailedError(
            "Signing in to the MCP server {server} failed: {host} cannot be used ({why}).",
            server=server,
            host=origin(error.request.url),
            why=show_words(why),
        )
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout):
        return McpUnreachableError(
            "The MCP server {server} cannot be reached at {url}: {why}.",
            server=server,
            url=origin(request.url),
            why=show_words(_unreachable(error) or why),
        )
    if method == CALL:
        return lost_call(server, why)
    return McpError(
        "The connection to the MCP server {server} broke: {why}.",
        server=server,
        why=show_words(why),
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
