"""Errors of MCP servers, each with one sentence for the user, and what it says of a tool call.

    McpError                      the server cannot be used, or answered with an error
    ├── McpUnreachableError       nothing was sent: a call did not happen
    ├── McpRefusedError           the server refused the request: a call did not happen
    │   ├── McpSessionEndedError  the server forgot the session; a new connection gets a new one
    │   ├── McpStaleToolsError    the tool changed since it was listed
    │   ├── McpAddressNeededError the user has to open an address first
    │   └── McpSignInNeededError  the user has to sign in
    ├── McpSignInFailedError      signing in did not work: a call did not happen
    └── McpCallLostError          the call was sent and no result came: its outcome is unknown

Nothing of the SDK is imported here before an error of it has to be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kogniterm.errors import ToolError
from kogniterm.text.redact import redact
from kogniterm.text.shorten import one_line
from kogniterm.types import Phrase

if TYPE_CHECKING:
    from mcp import MCPError

CALL = "tools/call"


class McpError(ToolError):
    """An MCP server cannot be used, or answered a request with an error.

    `method` is the request that failed, where that is known: the SDK may list the tools after a
    call, and a refused list says nothing of the call.
    """

    method = ""


class McpUnreachableError(McpError):
    """No connection to the server; nothing was sent."""


class McpRefusedError(McpError):
    """The server refused a request without acting on it."""


class McpSessionEndedError(McpRefusedError):
    """The server does not know the session any more; connect again."""


class McpStaleToolsError(McpRefusedError):
    """The tool changed since it was listed; list the tools again before another call."""


class McpAddressNeededError(McpRefusedError):
    """The server did not run a call, because the user has to open addresses first.

    `wanted` are the SDK's questions with these addresses.
    """

    wanted: Sequence[Any] = ()


class McpSignInNeededError(McpRefusedError):
    """The server asks for a sign-in, and nobody is there for it."""


class McpSignInFailedError(McpError):
    """Signing in failed, or the user did not want it."""


class McpCallLostError(McpError):
    """A call was sent and its result did not arrive, so its outcome is unknown.

    KogniTerm never sends such a call again by itself. One of a tool that only reads, or that may be
    repeated, can be sent again by whoever knows that.
    """


def failure_of(error: BaseException, server: str, *, called: bool = False) -> McpError:
    """Return our error for one that the SDK raised, also in a group of its tasks.

    `called` says that it was a tool call, whose outcome a broken connection leaves unknown.
    """
    from mcp import MCPError
    from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST, PARSE_ERROR, REQUEST_TIMEOUT

    error = first_error(error)
    if isinstance(error, MCPError) and isinstance(error.data, McpError):
        error = error.data  # put there by our transport: what a server sends is plain JSON
    if isinstance(error, McpError):
        if called and error.method not in ("", CALL):
            return lost_call(server, str(error))
        return error
    if not isinstance(error, MCPError):
        return _broken(server, type(error).__name__, called=called)
    # -32000 is also what many servers take for errors of their own.
    closed = error.code == CONNECTION_CLOSED and error.message.startswith(_CLOSED)
    unread = called and error.code == PARSE_ERROR and error.message.startswith("Failed to parse")
    if closed or unread or error.code == REQUEST_TIMEOUT:
        return _broken(server, error.message, called=called)
    if error.code == INVALID_REQUEST:
        return McpRefusedError(
            "The MCP server {server} refused the request: {message}",
            server=server,
            message=show_words(error.message),
        )
    if called and (wanted := _wanted_addresses(error)):
        needed = McpAddressNeededError(
            "The MCP server {server} did not run the call: the user has to open {addresses} first, "
            "and declined or could not be asked.",
            server=server,
            addresses=show_words(" ".join(one.url for one in wanted)),
        )
        needed.wanted = wanted
        return needed
    return McpError(
        "The MCP server {server} answered with an error: {message}",
        server=server,
        message=show_words(error.message),
    )


_CLOSED = ("Connection closed", "SSE stream")


def first_error(error: BaseException) -> BaseException:
    """Return the first error of a group that tells more than that a task was cancelled."""
    while isinstance(error, BaseExceptionGroup):
        leaves = error.exceptions
        error = next((one for one in leaves if isinstance(one, Exception)), leaves[0])
    return error


def _broken(server: str, why: str, *, called: bool) -> McpError:
    if called:
        return lost_call(server, why)
    return McpError(
        "The connection to the MCP server {server} broke: {why}.",
        server=server,
        why=show_words(why),
    )


def _wanted_addresses(error: MCPError) -> Sequence[Any]:
    """Return the SDK's questions with the addresses that a refused call needs to be opened."""
    from mcp import UrlElicitationRequiredError

    try:
        return UrlElicitationRequiredError.from_error(error.error).elicitations
    except (ValueError, AttributeError, TypeError):  # another error, or a malformed one
        return ()


def sign_in_needed(server: str) -> McpSignInNeededError:
    """Return the error of a server that asks for a sign-in while nobody is there for it."""
    return McpSignInNeededError(
        "The MCP server {server} needs you to sign in; run: kogniterm mcp login {server}",
        server=server,
    )


def more_needed(server: str, scopes: str = "") -> McpSignInNeededError:
    """Return the error of a server that wants more permissions than the user gave it."""
    if not scopes:
        return McpSignInNeededError(
            "The MCP server {server} needs more permissions for this, and does not say which; its "
            "operator can tell you.",
            server=server,
        )
    return McpSignInNeededError(
        "The MCP server {server} needs more permissions for this ({scopes}). To give them, sign in "
        "again: kogniterm mcp login {server}",
        server=server,
        scopes=show_words(scopes),
    )


def lost_call(server: str, why: str | Phrase) -> McpCallLostError:
    """Return the error of a call whose result did not arrive."""
    return McpCallLostError(
        "The call was sent to the MCP server {server}, but its result did not arrive ({why}); it "
        "may or may not have been carried out.",
        server=server,
        why=why if isinstance(why, Phrase) else show_words(why),
    )


def show_words(text: str) -> str:
    """Return a server's words for a sentence: on one line, clipped, without secrets."""
    return one_line(redact(text)).rstrip(".")
