"""Sign in to and out of MCP servers that the user or a trusted folder configured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kogniterm.errors import UnusableValueError, UsageError
from kogniterm.runtime.extensions.servers.mcp_servers import load_servers, unknown_server
from kogniterm.runtime.trust.trust_store import trusted_files
from kogniterm.settings import environment
from kogniterm.tools.mcp.server_config import ServerConfig
from kogniterm.tools.mcp.token_files import TokenFile, TokenFiles

if TYPE_CHECKING:
    from kogniterm.paths import Paths
    from kogniterm.tools.mcp.sign_in_front import SignInFront


def remote_server(paths: Paths, folder: Path, name: str) -> ServerConfig:
    """Return the server called `name` with its variables filled in; the user's own comes first.

    Raises `UsageError` when there is none, or when it is a program of this machine.
    """
    files, _told = trusted_files(paths, folder)
    listed = load_servers(paths.extensions.mcp_servers, files, folder)
    servers = {one.name: one for one in listed.servers}
    found = servers.get(name)
    if found is None:
        for problem in listed.problems:  # the server may be in what cannot be read
            raise UsageError("{problem}", problem=problem)
        raise unknown_server(name, servers)
    if found.local:
        raise UsageError(
            "The MCP server {name} is a program on this machine, which needs no sign-in.",
            name=name,
        )
    try:
        return found.resolve(environment())
    except UnusableValueError as error:
        raise UsageError(
            "MCP server {name} cannot be used: {why}.", name=name, why=error.text
        ) from error


async def sign_in_to(
    paths: Paths, config: ServerConfig, front: SignInFront
) -> Literal["signed in", "already", "not needed"]:
    """Sign in. Raises `McpError`."""
    from kogniterm.tools.mcp.oauth import sign_in

    return await sign_in(config, _file(paths, config), front)


def sign_out_of(paths: Paths, config: ServerConfig) -> bool:
    """Delete the tokens and the registered client; returns whether there was a sign-in."""
    return _file(paths, config).delete()


def _file(paths: Paths, config: ServerConfig) -> TokenFile:
    return TokenFiles(paths.extensions.mcp_tokens).of(config.url)
