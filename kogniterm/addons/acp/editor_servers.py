"""The MCP servers that an editor names for a session, as servers of the user's own.

They are used like those of the user's file: none is started before the user has trusted it, and
what was trusted holds until the server or its tools change.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from acp.schema import AcpMcpServer, HttpMcpServer, McpServerStdio, SseMcpServer

from kogniterm.addons.acp.editor_questions import EditorQuestions
from kogniterm.errors import UnusableValueError, UsageError
from kogniterm.runtime.operations.action import Shown
from kogniterm.runtime.operations.mcp.mcp_actions import trust_server
from kogniterm.runtime.questions.approval_facts import Say
from kogniterm.text.shorten import one_line
from kogniterm.tools.mcp.server_config import ServerConfig, parse_server
from kogniterm.types import Phrase

if TYPE_CHECKING:
    from kogniterm.runtime.extensions.servers.mcp_servers import Server
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
    for name in names:
        server = session.extensions.servers.servers.get(name)
        if server is not None and server.config.origin == ORIGIN and not server.usable:
            await ask_trust(session, server, questions, say, tell)


async def ask_trust(
    session: LiveSession,
    server: Server,
    questions: EditorQuestions,
    say: Say,
    tell: Callable[[str], None],
) -> None:
    """Ask whether a server is to be trusted as it is now."""

    async def agree(title: Phrase, lines: Sequence[Shown], _yes: Phrase) -> bool:
        return await questions.agree(say(title), said(lines), Phrase("Allow"))

    def said(lines: Iterable[Shown]) -> str:
        return "\n".join(one if isinstance(one, str) else say(one) for one in lines)

    servers, name = session.extensions.servers, server.config.name
    try:
        report = await trust_server(servers, server, agree)
    except UsageError as error:
        tell(say(Phrase("MCP server {name}: {why}", {"name": name, "why": error})))
        return
    if report is not None:
        session.context.instruct()
        tell(said(report.lines))
