"""The MCP servers that an editor names for a session, as servers of the user's own.

They are used like those of the user's file: none is started before the user has trusted it, and
what was trusted holds until the server or its tools change.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from acp.schema import AcpMcpServer, HttpMcpServer, McpServerStdio, SseMcpServer

from kogniterm.acp.editor_questions import EditorQuestions
from kogniterm.errors import ToolError, UnusableValueError
from kogniterm.runtime.extensions.servers.server_setup import (
    change_lines,
    changes_of,
    diff_lines,
    launch_change,
    launch_lines,
    server_catalogue,
)
from kogniterm.runtime.questions.approval_facts import Say
from kogniterm.text.shorten import one_line
from kogniterm.tools.mcp.server_config import ServerConfig, parse_server
from kogniterm.types import Phrase

if TYPE_CHECKING:
    from kogniterm.runtime.extensions.servers.mcp_servers import McpServers, Server
    from kogniterm.runtime.session import LiveSession

log = logging.getLogger(__name__)

Named: TypeAlias = HttpMcpServer | SseMcpServer | AcpMcpServer | McpServerStdio
ORIGIN = "editor"
_MOST = 50


def read_servers(named: Iterable[Named]) -> tuple[tuple[ServerConfig, ...], tuple[Phrase, ...]]:
    """Return the servers that can be used, and a sentence about each other one."""
    found: list[ServerConfig] = []
    problems: list[Phrase] = []
    for one in list(named)[:_MOST]:
        name = "-".join(one.name.replace("__", "_").split())
        try:
            found.append(parse_server(name, _entry(one), ORIGIN))
        except UnusableValueError as error:
            values = {"name": one_line(one.name, 60), "why": error.text}
            problems.append(Phrase("MCP server {name} of the editor is not used: {why}.", values))
    return tuple(found), tuple(problems)


def _entry(one: Named) -> dict[str, Any]:
    if isinstance(one, McpServerStdio):
        env = {pair.name: pair.value for pair in one.env}
        return {"command": one.command, "args": list(one.args), "env": env}
    if isinstance(one, HttpMcpServer):
        headers = {pair.name: pair.value for pair in one.headers}
        return {"type": "http", "url": one.url, "headers": headers}
    raise UnusableValueError("only stdio and HTTP servers can be used")


async def offer_trust(
    session: LiveSession,
    names: Sequence[str],
    questions: EditorQuestions,
    say: Say,
    tell: Callable[[str], None],
) -> None:
    """Ask about each of these servers that the user has not trusted as it is now."""
    servers = session.extensions.servers
    for name in names:
        server = servers.servers.get(name)
        if server is None or server.config.origin != ORIGIN or server.usable:
            continue
        try:
            if await _trusted(servers, server, questions, say):
                told = server_catalogue(servers, session.journal, session.model)
                session.context.instruct(servers=told)
                values = {"name": name, "count": len(server.tools)}
                tell(
                    say(Phrase("MCP server {name} is trusted; {count} tools can be used.", values))
                )
        except ToolError as error:
            tell(say(Phrase("MCP server {name}: {why}", {"name": name, "why": error})))


async def _trusted(
    servers: McpServers, server: Server, questions: EditorQuestions, say: Say
) -> bool:
    """Return whether the user lets the server start, and then trusts its tools."""
    name = {"name": server.config.name}
    lines = [say(line) for line in launch_lines(server.config)]
    lines += diff_lines(launch_change(server))
    start = say(Phrase("Start the MCP server {name}?", name))
    if not await questions.agree(start, "\n".join(lines), Phrase("Start it")):
        return False
    listing = await servers.list_anew(server)
    told = "\n".join(change_lines(server, changes_of(server, listing), say))
    trust = say(Phrase("Trust the tools of {name}?", name))
    if not await questions.agree(trust, told, Phrase("Trust them")):
        await servers.stop(server)
        return False
    servers.trust(server, listing)
    return True
