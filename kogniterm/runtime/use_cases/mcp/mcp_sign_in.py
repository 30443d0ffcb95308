"""Sign in to and out of MCP servers that the user or a trusted folder configured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kogniterm.errors import UnusableValueError, UsageError, why
from kogniterm.runtime.trust.trust_store import TrustStore, trusted_files
from kogniterm.settings import environment
from kogniterm.text.spelling import meant
from kogniterm.tools.mcp.server_config import ServerConfig, parse_servers
from kogniterm.tools.mcp.token_files import TokenFile, TokenFiles

if TYPE_CHECKING:
    from kogniterm.paths import Paths
    from kogniterm.tools.mcp.oauth import SignInFront


def remote_server(paths: Paths, folder: Path, name: str) -> ServerConfig:
    """Return the server called `name` with its variables filled in; the user's own comes first.

    Raises `UsageError` when there is none, or when it is a program of this machine.
    """
    servers = _servers(paths, folder)
    found = servers.get(name)
    if found is None:
        near = meant(name, tuple(servers))
        if near:
            raise UsageError(
                "There is no MCP server {name}; did you mean {near}?", name=name, near=near
            )
        raise UsageError(
            "There is no MCP server {name}; its entry belongs in {file}.",
            name=name,
            file=paths.extensions.mcp_servers,
        )
    if found.local:
        raise UsageError(
            "The MCP server {name} is a program on this machine, which needs no sign-in.",
            name=name,
        )
    try:
        return found.resolved(environment())
    except UnusableValueError as error:
        raise UsageError(
            "MCP server {name} cannot be used: {why}.", name=name, why=error.text
        ) from error


def _servers(paths: Paths, folder: Path) -> dict[str, ServerConfig]:
    texts = [
        (file.name, file.text, True)
        for file in trusted_files(TrustStore(paths.trust_file), folder)[0]
        if file.kind == "mcp"
    ]
    own = paths.extensions.mcp_servers
    try:
        texts.append((str(own), own.read_text("utf-8", "replace"), False))
    except FileNotFoundError:
        pass
    except OSError as error:
        raise UsageError("{file} cannot be read: {why}.", file=own, why=why(error)) from error
    return {
        server.name: server
        for origin, text, of_project in texts
        for server in parse_servers(text, origin, of_project=of_project).servers
    }


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
