"""Tools of MCP servers as a session offers them: directly where they are few, else to be found.

`find_tools` looks through the tools that the user trusts and returns their arguments; `call_tool`
calls one. Both stay the same whatever servers there are, so that the beginning of the model's
requests does too. Whatever a server says of a tool, a call of it needs approval.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import urlsplit

from pydantic import Field

from kogniterm import prompts
from kogniterm.errors import ToolError
from kogniterm.protocols import Tool
from kogniterm.text.language import stems_of
from kogniterm.text.shorten import one_line
from kogniterm.text.spelling import closest_word
from kogniterm.text.visible import clean
from kogniterm.tools.base import Arguments, SchemaTool
from kogniterm.tools.mcp.server_config import ServerConfig
from kogniterm.tools.mcp.server_values import ServerResource, ServerTool
from kogniterm.tools.net import mark_untrusted
from kogniterm.tools.plugins import MAX_LINE, Plugin
from kogniterm.types import CALL_TOOL, FIND_TOOLS, EffectClass, Observation, ToolSpec

MOST_FOUND = 8
MOST_RESOURCES = 30
"""Resources of a server that are listed at once."""
MAX_SCHEMA = 20_000
"""Characters of a tool's arguments as the model gets them; more are left to the server."""
READ_RESOURCE = "read_resource"
"""A tool that each server with resources has here, unless it has its own of that name."""
_LONGEST = 64
_NAME = re.compile(r"[^a-zA-Z0-9_-]")


class CallPort(Protocol):
    """Calls a tool of a server that was approved."""

    async def call(self, server: str, tool: str, arguments: Mapping[str, Any]) -> Observation:
        """Return the observation. Raises `ToolError`."""


def server_prefix(server: str) -> str:
    """Return how the names of a server's tools begin here, by which rules name all of them."""
    return f"mcp__{_NAME.sub('_', server)}"


def tool_name(server: str, tool: str) -> str:
    """Return the name of a server's tool here: mcp__SERVER__TOOL, at most 64 characters."""
    name = f"{server_prefix(server)}__{_NAME.sub('_', tool)}"
    if len(name) <= _LONGEST and name == f"mcp__{server}__{tool}":
        return name
    mark = hashlib.sha256(f"{server}\0{tool}".encode("utf-8", "surrogatepass")).hexdigest()[:6]
    return f"{name[: _LONGEST - 7]}_{mark}"


def resource_tool() -> ServerTool:
    """Return the tool that reads a resource of a server."""
    uri = {"type": "object", "properties": {"uri": {"type": "string"}}, "required": ["uri"]}
    return ServerTool(READ_RESOURCE, prompts.text("servers.read_resource"), uri, read_only=True)


class McpTool:
    """A tool of a server: every call of it leaves the graph to be approved."""

    def __init__(
        self,
        config: ServerConfig,
        own: ServerTool,
        port: CallPort,
        resources: Sequence[ServerResource] = (),
    ) -> None:
        self.config, self.own, self.port, self.resources = config, own, port, resources

    @property
    def name(self) -> str:
        """Return its name in a session, which its `spec` has too."""
        return tool_name(self.config.name, self.own.name)

    @property
    def spec(self) -> ToolSpec:
        schema = dict(self.own.schema)
        if len(json.dumps(schema, default=str)) > MAX_SCHEMA or schema.get("type") != "object":
            schema = {"type": "object"}
        told = clean(self.own.description) or self.name
        return ToolSpec(self.name, told, schema, effect="external")

    def check(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        from kogniterm.tools.mcp.call_results import check_arguments

        check_arguments(self.name, self.own.schema, dict(arguments))
        return dict(arguments)

    def effect_of(self, arguments: Mapping[str, Any]) -> EffectClass:
        return "external"

    def describe(self, arguments: Mapping[str, Any]) -> tuple[str, str]:
        """Return the call, and the server's own words as the purpose."""
        given = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
        line = one_line(clean(f"{self.config.name}: {self.own.name}({given})"), MAX_LINE)
        return line, one_line(clean(self.own.description.split("\n\n")[0]), 300)

    def detail(self, arguments: Mapping[str, Any]) -> str:
        text = json.dumps(dict(arguments), ensure_ascii=False, indent=1, default=str)
        return clean(text) if len(text) > MAX_LINE else ""

    def hosts(self, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        host = urlsplit(self.config.url).hostname if self.config.url else None
        return (host,) if host else ()

    async def run(self, arguments: Mapping[str, Any]) -> Observation:
        return await self.port.call(self.config.name, self.own.name, arguments)


def as_plugin(tool: McpTool) -> Plugin:
    """Return the tool with where it is from, as policy and screens know tools of others."""
    return Plugin(tool, tool.config.name, "", "external", server=tool.config.name)


# --- finding and calling --------------------------------------------------------------------------


class FindArguments(Arguments):
    """A search for tools."""

    query: str = Field(max_length=500)


class CallArguments(Arguments):
    """A call of a tool that was found."""

    tool: str = Field(max_length=200)
    arguments: dict[str, Any] = Field(default_factory=dict)


class ServersPort(Protocol):
    """The servers of a session, as the tools see them."""

    def tools(self) -> Sequence[McpTool]:
        """Return the tools that the user trusts now."""

    async def look_again(self) -> None:
        """List the tools of the servers that told of changes."""

    def waiting(self) -> Sequence[str]:
        """Return a line about each server that is configured and cannot be used yet."""


def find_tools(servers: ServersPort) -> SchemaTool[FindArguments]:
    """Return the tool that finds tools of MCP servers by what they do."""

    async def run(arguments: FindArguments) -> str:
        await servers.look_again()
        known = servers.tools()
        found = rank_tools(arguments.query, known)[:MOST_FOUND]
        parts = [prompts.text("servers.found")] if found else []
        parts += map(_describe_tool, found)
        if len(known) > len(found):
            names = ", ".join(tool.name for tool in known if tool not in found)
            parts.append(f"Others: {one_line(names, 3_000)}")
        parts += servers.waiting()
        return "\n".join(parts) or "There are no tools of MCP servers."

    return SchemaTool(FIND_TOOLS, FindArguments, run)


def rank_tools(query: str, tools: Sequence[McpTool]) -> list[McpTool]:
    """Return the tools that hold words of `query`, those with more and rarer ones first."""
    wanted = set(stems_of(query))
    words = [set(stems_of(_words(tool))) for tool in tools]
    if not wanted:
        return list(tools)
    rare = {term: 1 / (1 + sum(term in one for one in words)) for term in wanted}
    scores = [sum(rare[term] for term in wanted & one) for one in words]
    order = sorted(range(len(tools)), key=lambda at: -scores[at])
    return [tools[at] for at in order if scores[at] > 0]


def _words(tool: McpTool) -> str:
    spoken = re.sub(r"([a-z])([A-Z])|[_\W]+", r"\1 \2", f"{tool.config.name} {tool.own.name}")
    names = " ".join(map(str, tool.own.schema.get("properties", {})))
    names += " ".join(f" {one.name} {one.description}" for one in tool.resources)
    return f"{spoken} {tool.own.description} {names}"


def _describe_tool(tool: McpTool) -> str:
    spec = tool.spec
    schema = json.dumps(spec.parameters, ensure_ascii=False, separators=(",", ":"), default=str)
    told = f"{spec.name}: {one_line(spec.description, 600)}\narguments: {schema}"
    listed = [one_line(" ".join(one), 300) for one in tool.resources[:MOST_RESOURCES]]
    if len(tool.resources) > MOST_RESOURCES:
        listed.append(f"[{len(tool.resources) - MOST_RESOURCES} more]")
    source = f"MCP server {tool.config.name}, resources"
    return f"{told}\n{mark_untrusted(source, chr(10).join(listed))}" if listed else told


def call_tool() -> SchemaTool[CallArguments]:
    """Return the tool that calls another; see `target_of`, which takes its place."""

    async def run(arguments: CallArguments) -> str:
        raise ToolError("There is no tool {name}.", name=arguments.tool)

    return SchemaTool(CALL_TOOL, CallArguments, run, effect="external")


def target_of(
    arguments: Mapping[str, Any], caller: Tool, known: Mapping[str, Tool]
) -> tuple[Tool, Mapping[str, Any]]:
    """Return the tool that a `call_tool` call means, and its arguments. Raises `ToolError`."""
    checked = caller.check(arguments)
    name = str(checked["tool"])
    if name in known:
        return known[name], checked["arguments"]
    near = closest_word(name, sorted(known))
    if near:
        raise ToolError("There is no tool {name}; did you mean {near}?", name=name, near=near)
    raise ToolError("There is no tool {name}; use find_tools to find one.", name=name)
