"""The MCP servers of a session: found in files, trusted, started at their first call.

A session opens with what is kept of each server, so that no prompt waits for one. A server is
started when it is first needed, and lists its tools then. A tool that is new, or whose definition
changed since the user trusted it, is shown and asked about before it is called.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from kogniterm.errors import SettingsError, ToolError, UnusableValueError, UsageError
from kogniterm.runtime.trust.plugin_folders import PROJECT, ROOT, PluginFolder
from kogniterm.runtime.trust.project_places import ProjectFile, is_unchanged
from kogniterm.settings.user_files import json_values, read_if_there
from kogniterm.text.file_text import unified_diff
from kogniterm.text.spelling import closest_word
from kogniterm.tools.mcp.server_config import ServerConfig, Servers, parse_servers
from kogniterm.tools.mcp.server_tools import (
    READ_RESOURCE,
    McpTool,
    resource_tool,
    server_prefix,
    tool_name,
)
from kogniterm.tools.mcp.server_values import (
    Answers,
    Listing,
    ServerPrompt,
    ServerQuestion,
    ServerRecord,
    ServerRecords,
    ServerTool,
)
from kogniterm.types import Observation, Phrase

if TYPE_CHECKING:
    from kogniterm.execution.sandbox.confinement import Sandbox
    from kogniterm.paths import Paths
    from kogniterm.runtime.extensions.servers.server_process import StartedServer
    from kogniterm.tools.mcp.connection import Connection, OpenRemote, StartServer

ServerState = Literal["off", "new", "changed", "ready", "running", "failed"]
MAX_FILE = 1024 * 1024
PROJECT_FILE = ".mcp.json"
MOST_RESOURCES = 10
"""Resources that one input may attach."""
_NAMED = re.compile(r"(?:^|(?<=\s))@([A-Za-z0-9][\w.-]*):(\S+)")


class NamedResource(NamedTuple):
    """A resource that an input names as @SERVER:URI: what it holds, or why it cannot be read."""

    name: str
    found: Observation | None = None
    problem: str = ""


class Attendant(Protocol):
    """A user who answers the questions of servers, and questions about them."""

    async def trust_tool(self, config: ServerConfig, tool: ServerTool, diff: str) -> bool:
        """Ask whether to trust a tool whose definition is new or changed, as the diff shows."""

    async def answer(self, question: ServerQuestion) -> Answers | None:
        """Return the answers to a question of a server; None where the user declines."""


def load_servers(
    user_file: Path,
    project: Iterable[ProjectFile],
    folder: Path | str,
    more: Sequence[ServerConfig] = (),
) -> Servers:
    """Return the servers of the user's file, then those of `project`, trusted files of `folder`.

    `more` are those that the user's editor names. The first of a name counts: the user's file, the
    editor, the project.
    """
    files = [user_servers(user_file)]
    files += _project_servers(project, folder)
    known: dict[str, ServerConfig] = {}
    for servers in (files[0].servers, more, *(one.servers for one in files[1:])):
        for server in servers:
            # Rules name the tools of a server by this, so that no other server has the same.
            known.setdefault(server_prefix(server.name), server)
    return Servers(tuple(known.values()), tuple(text for one in files for text in one.problems))


def _project_servers(project: Iterable[ProjectFile], folder: Path | str) -> list[Servers]:
    return [_servers_in(one, Path(folder)) for one in project if one.kind == "mcp"]


def missing_servers(servers: McpServers, files: Iterable[ProjectFile]) -> tuple[str, ...]:
    """Return the servers in `files` that another session will have, and this one not."""
    found = (one for here in _project_servers(files, servers.workspace) for one in here.servers)
    return tuple(one.name for one in found if one.name not in servers.servers)


def plugins_by_origin(
    project: Iterable[ProjectFile], folder: Path | str
) -> Mapping[str, PluginFolder]:
    """Return the plugins that servers of trusted files are from, by the origin of the servers."""
    files = (one for one in project if one.kind == "mcp")
    return {str(Path(folder) / one.name): one.plugin for one in files if one.plugin is not None}


def _servers_in(file: ProjectFile, folder: Path) -> Servers:
    """Return the servers in a trusted file; those of a plugin have its name before their own."""
    origin, plugin = str(folder / file.name), file.plugin
    if plugin is None:
        return parse_servers(file.text, origin, of_project=True)
    text = file.text.replace(f"${{{ROOT}}}", json.dumps(plugin.root)[1:-1])
    with suppress(SettingsError):  # which is a problem of the servers
        entries = json_values(origin, text).data
        text = json.dumps({"mcpServers": entries.get("mcpServers", entries)})
    found = parse_servers(text, origin, of_project=True)
    return found._replace(servers=tuple(_of_plugin(one, plugin) for one in found.servers))


def _of_plugin(server: ServerConfig, plugin: PluginFolder) -> ServerConfig:
    """Return a server of a plugin, whose relative paths mean its own folder and no workspace's."""
    name, command = f"plugin_{plugin.name}_{server.name}", server.command
    if not server.local:
        return replace(server, name=name)
    if "/" in command and command[0] not in "/~":
        command = str(Path(plugin.root) / command)
    return replace(server, name=name, command=command, env={ROOT: plugin.root, **server.env})


def user_servers(file: Path) -> Servers:
    """Return the servers in the user's file; none where there is no such file."""
    try:
        text = read_if_there(file, MAX_FILE)
    except SettingsError as error:
        return Servers((), (error.text,))
    return Servers() if text is None else parse_servers(text, str(file))


class Server:
    """One server of a session; `failure` is why it could not be started last."""

    def __init__(self, config: ServerConfig, record: ServerRecord) -> None:
        self.config = config
        self.record = record
        self.connection: Connection | None = None
        self.failure = ""
        self.off = False
        self.checked = False
        """True once its list of tools was compared since it was started."""
        self.listed_at = 0.0
        self.told = False
        """True once the model was told that its tools changed, until they are read again."""

    @property
    def state(self) -> ServerState:
        if self.off or not self.config.enabled:
            return "off"
        if not self.record.launch:
            return "new"
        if not self.record.launches(self.config):
            return "changed"
        if self.connection is not None and self.connection.is_open:
            return "running"
        return "failed" if self.failure else "ready"

    @property
    def usable(self) -> bool:
        """Return whether its tools may be offered."""
        return self.state in ("ready", "running", "failed")

    @property
    def tools(self) -> tuple[ServerTool, ...]:
        """Return the tools that may be offered, as the user trusts them."""
        if not self.usable:
            return ()
        return tuple(tool for tool in self.record.tools if self.config.offers(tool.name))

    @property
    def reads_resources(self) -> bool:
        """Return whether a tool to read its resources is offered beside its own."""
        listing, name = self.record.listing, READ_RESOURCE
        has_own = any(tool.name == name for tool in (*listing.tools, *self.record.tools))
        return self.usable and bool(listing.resources) and not has_own and self.config.offers(name)

    @property
    def new_tools(self) -> tuple[str, ...]:
        """Return the names of tools that the server has by now, and the user has not seen."""
        names = (tool.name for tool in self.record.listing.tools)
        return tuple(name for name in names if name not in self.record.trusted)


@dataclass(slots=True)
class McpServers:
    """The servers of one session.

    `start` and `open_remote` reach a server whose variables are filled in from `environ`.
    `attendant` is None where nobody can be asked. `progress` takes what a server tells of a call
    that runs.
    """

    servers: dict[str, Server]
    records: ServerRecords
    start: StartServer
    open_remote: OpenRemote
    workspace: str
    environ: Mapping[str, str]
    attendant: Attendant | None = None
    progress: Callable[[str, str], None] = lambda server, text: None
    now: Callable[[], float] = time.time
    problems: tuple[Phrase, ...] = ()
    """The mistakes in the files of servers."""
    plugins: Mapping[str, PluginFolder] = field(default_factory=dict)
    """The plugins as they were trusted, by the origin of their servers."""
    dropped: dict[str, Server] = field(default_factory=dict)
    """The servers of files that were trusted when the session opened, and are not now."""

    @classmethod
    def of(
        cls, found: Servers, records: ServerRecords, start: StartServer,
        open_remote: OpenRemote, workspace: str, environ: Mapping[str, str],
    ) -> McpServers:  # fmt: skip
        """Return the servers with what is kept of each; none is started."""
        servers = {one.name: Server(one, records.read(one)) for one in found.servers}
        made = cls(servers, records, start, open_remote, workspace, environ)
        made.problems = found.problems
        return made

    # --- what is offered ------------------------------------------------------------------------

    def tools(self) -> list[McpTool]:
        """Return the tools that the user trusts, in the order of the configuration."""
        found = []
        for server in self.servers.values():
            found += [McpTool(server.config, tool, self) for tool in server.tools]
            if server.reads_resources:
                resources = server.record.listing.resources
                found.append(McpTool(server.config, resource_tool(), self, resources))
        return found

    def unlisted_prefixes(self) -> tuple[str, ...]:
        """Return how the tools begin of servers that are not trusted, or switched off."""
        return tuple(server_prefix(name) for name, one in self.servers.items() if not one.tools)

    @property
    def any_enabled(self) -> bool:
        """Return whether a server is configured and not switched off."""
        return any(server.state != "off" for server in self.servers.values())

    def notices(self) -> tuple[Phrase, ...]:
        """Return what the user is told when a session opens: mistakes, and who waits for trust."""
        new = ", ".join(n for n, one in self.servers.items() if one.state == "new")
        changed = ", ".join(n for n, one in self.servers.items() if one.state == "changed")
        found = list(self.problems)
        if new:
            found.append(
                Phrase(
                    "MCP servers not used until you trust them (/mcp trust NAME, or in a shell "
                    "kogniterm mcp trust NAME): {names}.",
                    {"names": new},
                )
            )
        if changed:
            found.append(
                Phrase(
                    "MCP servers changed since you trusted them (/mcp trust NAME, or in a shell "
                    "kogniterm mcp trust NAME): {names}.",
                    {"names": changed},
                )
            )
        return tuple(found)

    def waiting(self) -> list[str]:
        """Return a line for the model about each server that cannot be used yet."""
        found = []
        for server in self.servers.values():
            if server.state in ("new", "changed"):
                found.append(
                    f"[MCP server {server.config.name}: not trusted yet; the user can trust it "
                    f"with: kogniterm mcp trust {server.config.name}]"
                )
            elif server.failure:
                found.append(f"[MCP server {server.config.name}: {server.failure}]")
            elif server.usable and server.new_tools:
                found.append(
                    f"[MCP server {server.config.name}: {len(server.new_tools)} new tools, not "
                    f"trusted yet; the user can trust them with: kogniterm mcp trust "
                    f"{server.config.name}]"
                )
        return found

    async def look_again(self) -> None:
        """List what the servers offer that told of changes; what is new is not trusted by that."""
        for server in self.servers.values():
            if server.usable and server.connection is not None and server.connection.changed:
                with suppress(ToolError):  # kept as the server's failure
                    listing = await self.list_anew(server)
                    self._keep(server, server.record._replace(listing=listing))

    def take_changed(self) -> list[str]:
        """Return the names of the servers that told of changed tools, each once for a change."""
        changed = [
            one
            for one in self.servers.values()
            if one.connection is not None
            and one.connection.tools_changed
            and one.checked
            and not one.told
        ]
        for one in changed:
            one.told = True
        return [one.config.name for one in changed]

    def find(self, name: str) -> Server:
        """Return the server called `name`. Raises `UsageError`."""
        if name in self.servers:
            return self.servers[name]
        raise unknown_server(name, self.servers)

    # --- trust ----------------------------------------------------------------------------------

    async def list_anew(self, server: Server) -> Listing:
        """Start a server and return what it offers now, whatever is trusted. Raises `ToolError`."""
        connection = self._connection(server)
        try:
            listing = await connection.listing()
        except ToolError as error:
            server.failure = str(error)
            raise
        server.failure, server.checked, server.listed_at = "", True, self.now()
        server.told = False
        return listing

    async def use_project(self, files: Sequence[ProjectFile]) -> None:
        """Keep of a project's servers those that its trusted `files` have now; end the others."""
        self.plugins = plugins_by_origin(files, self.workspace)
        found = _project_servers(files, self.workspace)
        trusted = {(one.name, one.origin): one for here in found for one in here.servers}
        every, self.servers, self.dropped = {**self.servers, **self.dropped}, {}, {}
        for name, server in every.items():
            old = server.config
            config = trusted.get((name, old.origin)) if old.of_project else old
            if config != old:
                await self.stop(server)
            server.config = config or old
            (self.servers if config is not None else self.dropped)[name] = server

    def trust(self, server: Server, listing: Listing) -> None:
        """Trust the launch of a server, its instructions, and all tools that it offers now."""
        record = ServerRecord(server.config.launch, {}, listing, listing.instructions)
        self._keep(server, record.trusting(listing.tools))

    def _keep(self, server: Server, record: ServerRecord) -> None:
        server.record = record
        self.records.write(server.config, record)

    async def _trusted_tool(self, server: Server, name: str) -> ServerTool:
        """Return a tool as the server defines it now, which the user trusts. Raises `ToolError`."""
        connection = self._connection(server)
        if not connection.is_open:
            server.checked = False
        age = self.now() - server.listed_at
        stale = 0 < server.record.listing.valid_for < age
        if not server.checked or connection.changed or stale:
            listing = await self.list_anew(server)
            self._keep(server, server.record._replace(listing=listing))
        tool = server.record.listing.tool(name)
        if tool is None or not server.config.offers(name):
            raise ToolError(
                "The MCP server {server} has no tool {name} any more.",
                server=server.config.name,
                name=name,
            )
        if not server.record.trusts(tool):
            await self._ask(server, tool)
        return tool

    async def _ask(self, server: Server, tool: ServerTool) -> None:
        diff = unified_diff(
            tool.name, f"{server.record.trusted.get(tool.name, '')}\n", f"{tool.text}\n"
        )
        user = self.attendant
        if user is None or not await user.trust_tool(server.config, tool, diff):
            raise ToolError(
                "Not called: the definition of {tool} changed, and the user has not trusted it "
                "(kogniterm mcp trust {server}).",
                tool=tool.name,
                server=server.config.name,
            )
        self._keep(server, server.record.trusting([tool]))

    # --- calls ----------------------------------------------------------------------------------

    async def call(self, server: str, tool: str, arguments: Mapping[str, object]) -> Observation:
        """Call a tool that was approved, once.

        It is called again where nothing of it reached the server; and where the connection broke,
        if the server marks the tool as read-only or repeatable. Raises `McpCallLostError` where the
        end of the call is not known, and `ToolError`.
        """
        from kogniterm.tools.mcp import mcp_errors

        found = self._usable(server)
        if tool == READ_RESOURCE and found.reads_resources:
            return await self.read_resource(server, str(arguments["uri"]))
        current = await self._trusted_tool(found, tool)
        try:
            return await self._call(found, current, arguments)
        except (
            mcp_errors.McpUnreachableError,
            mcp_errors.McpSessionEndedError,
            mcp_errors.McpStaleToolsError,
        ):
            await self.stop(found)
        except mcp_errors.McpCallLostError:
            if not current.may_be_repeated:
                raise
        current = await self._trusted_tool(found, tool)
        return await self._call(found, current, arguments)

    async def _call(
        self, server: Server, tool: ServerTool, arguments: Mapping[str, object]
    ) -> Observation:
        connection = self._connection(server)
        name = tool_name(server.config.name, tool.name)
        result, failed = await connection.call(
            tool, dict(arguments), lambda text: self.progress(name, text)
        )
        if failed:
            raise ToolError("{answer}", answer=result.text)
        return result

    async def read_resource(self, server: str, uri: str) -> Observation:
        """Return a resource of a trusted server. Raises `ToolError`."""
        return await self._connection(self._usable(server)).read_resource(uri)

    async def read_named(self, text: str) -> list[NamedResource]:
        """Return the resources of trusted servers that the user's words name, each once."""
        named = dict.fromkeys(
            (server, uri.rstrip(".,;:!?)]}\"'"))
            for server, uri in _NAMED.findall(text)
            if server in self.servers
        )
        found = []
        for server, uri in list(named)[:MOST_RESOURCES]:
            name = f"{server}:{uri}"
            try:
                found.append(NamedResource(name, await self.read_resource(server, uri)))
            except ToolError as error:
                found.append(NamedResource(name, problem=str(error)))
        return found

    def resource_names(self) -> list[tuple[str, str]]:
        """Return each known resource as an input names it, with its title."""
        return [
            (f"{server.config.name}:{one.uri}", one.description or one.name)
            for server in self.servers.values()
            if server.usable
            for one in server.record.listing.resources
            if "{" not in one.uri
        ]

    async def prompt(self, server: str, name: str, arguments: Mapping[str, str]) -> str:
        """Return a prompt of a trusted server. Raises `ToolError`."""
        return await self._connection(self._usable(server)).prompt(name, dict(arguments))

    def _usable(self, name: str) -> Server:
        why = why_unusable(self, name)
        if why is not None:
            raise ToolError("{why}", why=why)
        return self.servers[name]

    def _connection(self, server: Server) -> Connection:
        from kogniterm.tools.mcp.connection import Connection

        plugin = self.plugins.get(server.config.origin)
        is_open = server.connection is not None and server.connection.is_open
        if plugin is not None and not is_open and not is_unchanged(plugin):
            raise ToolError(
                "The MCP server {name} was not started: its plugin changed since it was trusted.",
                name=server.config.name,
            )
        if server.connection is None:
            try:
                config = server.config.resolve(self.environ)
            except UnusableValueError as error:
                server.failure = str(error.text)
                raise ToolError(
                    "The MCP server {name} could not be started: {why}.",
                    name=server.config.name,
                    why=error.text,
                ) from error
            server.connection = Connection(config, self.start, self.open_remote, self.workspace)
        user = self.attendant
        server.connection.elicit = user.answer if user is not None else None
        return server.connection

    # --- their lives ----------------------------------------------------------------------------

    async def restart(self, server: Server) -> Listing:
        """End a server, start it again, and return what it offers. Raises `ToolError`."""
        await self.stop(server)
        return await self.list_anew(server)

    async def stop(self, server: Server) -> None:
        """Disconnect a server; it is started again when it is needed."""
        connection, server.connection = server.connection, None
        server.checked = False
        if connection is not None:
            await connection.close()

    async def close(self) -> None:
        """End all servers."""
        await asyncio.gather(*(self.stop(one) for one in self.servers.values()))


def why_unusable(servers: McpServers, name: str) -> Phrase | None:
    """Return why the tools of a server cannot be called; None if they can."""
    values, server = {"name": name}, servers.servers.get(name)
    if server is not None and server.usable:
        return None
    if name in servers.dropped:
        return Phrase("The MCP server {name} is not used: its file is no longer trusted.", values)
    if server is not None and server.state == "off":
        return Phrase("The MCP server {name} is switched off.", values)
    return Phrase(
        "The MCP server {name} is not trusted as it is configured now; the user can trust it "
        "with: kogniterm mcp trust {name}",
        values,
    )


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


def prompt_arguments(prompt: ServerPrompt, line: str) -> dict[str, str]:
    """Return the words of a line as a prompt's arguments: the last one takes the rest.

    Raises `UsageError` where a required one is missing.
    """
    names = [name for name, _required in prompt.arguments]
    words = line.split(maxsplit=max(0, len(names) - 1)) if names else []
    given = dict(zip(names, words, strict=False))
    missing = [name for name, required in prompt.arguments if required and name not in given]
    if missing:
        raise UsageError(
            "The prompt {name} needs: {missing}", name=prompt.name, missing=", ".join(missing)
        )
    return given


def unknown_server(name: str, names: Collection[str]) -> UsageError:
    """Return that no server is called `name`, with the one that may be meant."""
    near = closest_word(name, sorted(names))
    if near:
        return UsageError(
            "There is no MCP server {name}; did you mean {near}?", name=name, near=near
        )
    return UsageError("There is no MCP server {name}; `kogniterm mcp list` lists them.", name=name)
