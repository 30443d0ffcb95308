"""Opening the MCP servers of a folder: their files, their trust, and how each is reached."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kogniterm.runtime.extensions.servers.mcp_servers import (
    McpServers,
    load_servers,
    plugins_by_origin,
)
from kogniterm.runtime.trust.plugin_folders import PROJECT
from kogniterm.runtime.trust.project_places import ProjectFile
from kogniterm.tools.mcp.server_config import ServerConfig
from kogniterm.tools.mcp.server_records import ServerRecords

if TYPE_CHECKING:
    from kogniterm.execution.sandbox.confinement import Sandbox
    from kogniterm.paths import Paths
    from kogniterm.runtime.extensions.servers.server_process import StartedServer
    from kogniterm.tools.mcp.connection import OpenRemote


class Surroundings(NamedTuple):
    """The place of a session's servers: its folder, environment, sandbox and private /tmp.

    `project` are the trusted files of the folder. `bounds` is None where the user
    switched the sandbox off.
    """

    workspace: str
    environ: Mapping[str, str]
    bounds: Sandbox | None
    temporary: Callable[[], str]
    project: Sequence[ProjectFile] = ()


def open_servers(
    paths: Paths, place: Surroundings, more: Sequence[ServerConfig] = ()
) -> McpServers:
    """Return the servers of a folder and `more` of the user's; none is started."""
    places = paths.extensions
    environ = {**place.environ, PROJECT: place.workspace}
    found = load_servers(places.mcp_servers, place.project, place.workspace, more)

    async def start(config: ServerConfig) -> StartedServer:
        from kogniterm.runtime.extensions.servers.server_process import ServerStarter

        return await ServerStarter(
            place.workspace, place.bounds, place.temporary, paths.cache / "mcp", environ
        ).start(config)

    records = ServerRecords(places.mcp_data / "servers")
    remote = open_remote(places.mcp_tokens)
    made = McpServers.of(found, records, start, remote, place.workspace, environ)
    made.plugins = plugins_by_origin(place.project, place.workspace)
    return made


def open_remote(tokens: Path) -> OpenRemote:
    """Return what opens the streams of a remote server, signed in with the user's `tokens`.

    A server that asks for a new sign-in is refused: `kogniterm mcp login` is for that.
    """

    @asynccontextmanager
    async def streams(config: ServerConfig) -> AsyncIterator[Any]:
        from kogniterm.tools.mcp.http_transport import open_http
        from kogniterm.tools.mcp.oauth import SignIn
        from kogniterm.tools.mcp.token_files import TokenFiles

        signed = None
        if not any(name.lower() == "authorization" for name in config.headers):
            file = TokenFiles(tokens).of(config.url)
            signed = SignIn(config.name, config.url, file, config.oauth, insecure=config.insecure)
        opened = open_http(
            config.url,
            server=config.name,
            headers=config.headers,
            auth=signed,
            insecure=config.insecure,
        )
        async with opened as found:
            yield found

    return streams
