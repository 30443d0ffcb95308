"""/mcp: the MCP servers there are, their state and tools, and what the user decides about them.

Also the words of `kogniterm mcp`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kogniterm.errors import ToolError, UsageError
from kogniterm.text.shorten import one_line
from kogniterm.types import Phrase
from kogniterm.ui.commands.registry import first_word, one_of, table
from kogniterm.ui.locale import _, translate
from kogniterm.ui.questions.question import Option
from kogniterm.ui.repl import Repl

if TYPE_CHECKING:
    from kogniterm.runtime.extensions.servers.mcp_servers import McpServers, Server

ACTIONS = ("show", "trust", "retry", "off", "on")


async def mcp(repl: Repl, argument: str) -> None:
    """Run /mcp [show|trust|retry|off|on NAME]."""
    word, name = first_word(argument)
    servers = repl.session.extensions.servers
    if not word:
        _list(repl, servers)
        return
    action = one_of(word, ACTIONS)
    if not name:
        raise UsageError("Specify a server: /mcp {action} NAME", action=action)
    server = servers.find(name)
    if action == "show":
        _show(repl, server)
    elif action == "trust":
        await _trust(repl, servers, server)
    elif action == "retry":
        if not server.usable:
            raise UsageError("Trust the server first: /mcp trust {name}", name=server.config.name)
        try:
            listing = await servers.restart(server)
        except ToolError as error:
            raise UsageError("{why}", why=error) from error
        repl.display.say(
            Phrase(
                "MCP server {name} runs; it has {count} tools.",
                {"name": server.config.name, "count": len(listing.tools)},
            )
        )
    else:
        await servers.stop(server)
        server.off = action == "off"
        on = Phrase("MCP server {name} is on in this session.", {"name": name})
        off = Phrase("MCP server {name} is off in this session.", {"name": name})
        repl.display.say(off if server.off else on)


def choices(repl: Repl) -> Iterable[str]:
    """Return what completes /mcp."""
    for name in repl.session.extensions.servers.servers:
        yield from (f"{action} {name}" for action in ACTIONS)


def _list(repl: Repl, servers: McpServers) -> None:
    if not servers.servers:
        file = repl.session.archive.paths.extensions.mcp_servers
        repl.display.say(
            Phrase(
                "No MCP servers. Add one with `kogniterm mcp add`, or in {file}.", {"file": file}
            )
        )
        return
    repl.display.write(table(server_rows(servers.servers.values()), ("accent", "", "muted")))
    waiting = [n for n, one in servers.servers.items() if one.state in ("new", "changed")]
    failed = [n for n, one in servers.servers.items() if one.state == "failed"]
    if waiting:
        repl.display.say(Phrase("To use one: /mcp trust {name}", {"name": waiting[0]}))
    if failed:
        repl.display.say(Phrase("To start one again: /mcp retry {name}", {"name": failed[0]}))


def server_rows(servers: Iterable[Server]) -> list[tuple[str, str, str]]:
    """Return name, state and command or address of each server."""
    return [
        (
            server.config.name,
            state_text(server),
            one_line(server.failure if server.state == "failed" else server.config.shown, 100),
        )
        for server in servers
    ]


def state_text(server: Server) -> str:
    """Return the state of a server in words, with the number of its tools."""
    words = {
        "off": _("off"),
        "new": _("not trusted"),
        "changed": _("changed"),
        "ready": _("starts when needed"),
        "running": _("running"),
        "failed": _("failed"),
    }
    text = words[server.state]
    if not server.usable:
        return text
    count = len(server.tools)
    return f"{text} · {_('{count} tools').format(count=count)}"


def _show(repl: Repl, server: Server) -> None:
    from kogniterm.runtime.extensions.servers.server_setup import launch_lines, tool_rows

    for line in launch_lines(server.config):
        repl.display.say(line)
    if server.failure:
        repl.display.say(Phrase("{text}", {"text": server.failure}), "warning")
    rows = tool_rows(server, server.tools)
    if rows:
        repl.display.write(table(rows, ("accent", "muted")))
    if server.new_tools:
        repl.display.say(
            Phrase(
                "New since you trusted it (/mcp trust {name}): {tools}",
                {"name": server.config.name, "tools": ", ".join(server.new_tools)},
            )
        )


async def _trust(repl: Repl, servers: McpServers, server: Server) -> None:
    from kogniterm.runtime.extensions.servers.server_setup import (
        change_lines,
        changes_of,
        diff_lines,
        launch_change,
        launch_lines,
        server_catalogue,
    )

    if not server.record.launches(server.config):
        lines = [translate(line) for line in launch_lines(server.config)]
        lines += diff_lines(launch_change(server))
        title = _("Start the MCP server {name}?").format(name=server.config.name)
        if not await _agreed(repl, title, lines, _("start it")):
            return
    try:
        listing = await servers.list_anew(server)
    except ToolError as error:
        raise UsageError("{why}", why=error) from error
    changes = changes_of(server, listing)
    if server.record.launches(server.config) and not changes:
        repl.display.say(
            Phrase("MCP server {name} is trusted as it is.", {"name": server.config.name})
        )
        return
    title = _("Trust the tools of {name}?").format(name=server.config.name)
    if not await _agreed(repl, title, change_lines(server, changes, translate), _("trust them")):
        await servers.stop(server)
        return
    servers.trust(server, listing)
    session = repl.session
    session.context.instruct(servers=server_catalogue(servers, session.journal, session.model))
    repl.read_custom_commands()
    repl.display.say(
        Phrase(
            "MCP server {name} is trusted; {count} tools can be used.",
            {"name": server.config.name, "count": len(server.tools)},
        )
    )


async def _agreed(repl: Repl, title: str, lines: Sequence[str], yes: str) -> bool:
    options = [Option("yes", yes, "yes"), Option("no", _("no"), "no")]
    if await repl.choose(title, lines, options) == "yes":
        return True
    repl.display.say(Phrase("Nothing changed."))
    return False
