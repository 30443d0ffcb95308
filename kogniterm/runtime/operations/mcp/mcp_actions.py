"""MCP servers: what `kogniterm mcp`, /mcp and an editor's session do, and how they show it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kogniterm.errors import ToolError, UnusableValueError, UsageError
from kogniterm.host.safe_files import resolve_path
from kogniterm.runtime.extensions.servers.mcp_servers import (
    McpServers,
    Server,
    Surroundings,
    open_servers,
)
from kogniterm.runtime.operations.action import Report, Shown
from kogniterm.runtime.trust.trust_store import trusted_files
from kogniterm.settings import environment
from kogniterm.settings.user_files import entries_data, entries_in, read_if_there
from kogniterm.storage.folders import write_private
from kogniterm.text.file_text import unified_diff
from kogniterm.text.shorten import cut, one_line
from kogniterm.text.visible import clean
from kogniterm.tools.mcp.server_config import ServerConfig, parse_server
from kogniterm.tools.mcp.server_tools import tool_name
from kogniterm.tools.mcp.server_values import Listing, ServerTool
from kogniterm.types import Phrase

if TYPE_CHECKING:
    from kogniterm.paths import Paths
    from kogniterm.settings import Settings


MOST_LINES = 60
"""Lines shown of all changes to a server's tools together."""


@asynccontextmanager
async def servers_of_folder(
    settings: Settings, paths: Paths, folder: str
) -> AsyncIterator[McpServers]:
    """Yield the servers that a session in `folder` would have.

    Those that were started are ended. Raises `KognitermError`.
    """
    from kogniterm.runtime.services.policy_service import open_sandbox

    files, told = trusted_files(paths, Path(folder))
    bounds = None if settings.sandbox == "off" else open_sandbox(settings, paths, folder)[0]
    with tempfile.TemporaryDirectory(prefix="kogniterm-mcp-") as temporary:
        place = Surroundings(folder, environment(), bounds, lambda: temporary, files)
        servers = open_servers(paths, place)
        servers.problems += told
        try:
            yield servers
        finally:
            await servers.close()


def list_servers(servers: McpServers, file: Path) -> Report:
    """List the servers with their state; `file` is where the user's own would be."""
    found = list(servers.servers.values())
    none = Phrase(
        "No MCP servers. Add one with `kogniterm mcp add NAME -- COMMAND`, or in {file}.",
        {"file": file},
    )
    rows = [
        (
            server.config.name,
            _state(server),
            one_line(server.failure if server.state == "failed" else server.config.shown, 100),
        )
        for server in found
    ]
    notes = [*servers.problems, *([] if found else [none])]
    return Report([server_json(one) for one in found], rows=rows, notes=notes)


def _state(server: Server) -> Phrase:
    state = {
        "off": Phrase("off"),
        "new": Phrase("not trusted"),
        "changed": Phrase("changed"),
        "ready": Phrase("starts when needed"),
        "running": Phrase("running"),
        "failed": Phrase("failed"),
    }[server.state]
    if not server.usable:
        return state
    return Phrase("{state} · {count} tools", {"state": state, "count": len(server.tools)})


def show_server(server: Server) -> Report:
    """Show how a server is started, and its tools."""
    notes = [Phrase("{text}", {"text": server.failure})] if server.failure else []
    if server.new_tools:
        values = {"name": server.config.name, "tools": ", ".join(server.new_tools)}
        new = Phrase("New since you trusted it (kogniterm mcp trust {name}): {tools}", values)
        notes.append(new)
    rows = tool_rows(server, server.tools)
    notes += _left_out(server.record.listing)
    return Report(server_json(server), launch_lines(server.config), rows, notes)


def _left_out(listing: Listing) -> list[Phrase]:
    reasons = (
        (Phrase("Left out, because they are not valid: {names}"), listing.left_out),
        (Phrase("Left out, because they run only as tasks of MCP: {names}"), listing.task_only),
    )
    return [Phrase(why.template, {"names": ", ".join(names)}) for why, names in reasons if names]


Agree = Callable[[Phrase, Sequence[Shown], Phrase], Awaitable[bool]]
"""Ask a question about some lines, with the words that agree; return whether the user does."""


async def trust_server(
    servers: McpServers,
    server: Server,
    agree: Agree,
    *,
    start: Callable[[Server], Awaitable[Listing]] | None = None,
    most: int | None = MOST_LINES,
) -> Report | None:
    """Start a server and trust its tools, as far as the user agrees; None where they do not.

    `most` lines of changed tools are shown. Raises `UsageError` for a server that does not start.
    """
    name = {"name": server.config.name}
    known = server.record.launches(server.config)
    if not known:
        lines: list[Shown] = [*launch_lines(server.config), *_diff_lines(_launch_change(server))]
        if not await agree(Phrase("Start the MCP server {name}?", name), lines, Phrase("start it")):
            return None
    listing = await await_listing((start or servers.list_anew)(server))
    changes = _changes_of(server, listing)
    told = Phrase("MCP server {name} is trusted as it is.", name)
    if changes or not known:
        lines = _change_lines(server, changes, most)
        title = Phrase("Trust the tools of {name}?", name)
        if not await agree(title, lines, Phrase("trust them")):
            await servers.stop(server)
            return None
        servers.trust(server, listing)
        values = {**name, "count": len(server.tools)}
        told = Phrase("MCP server {name} is trusted; {count} tools can be used.", values)
    data = {"server": server.config.name, "tools": [tool.name for tool in server.tools]}
    return Report(data, [told, *_left_out(listing)])


async def await_listing(listing: Awaitable[Listing]) -> Listing:
    """Return what a server offers. Raises `UsageError` for one that does not start."""
    try:
        return await listing
    except ToolError as error:
        raise UsageError("{why}", why=error) from error


# --- entries of mcp.json --------------------------------------------------------------------------


def add_server(file: Path, name: str, entry: Mapping[str, Any], *, of_project: bool) -> None:
    """Add an entry to a file of servers, and leave the rest of it as it is.

    Raises `UsageError` for an entry that cannot be used, or a name that the file has already.
    """
    try:
        parse_server(name, dict(entry), str(file), of_project=of_project)
    except UnusableValueError as error:
        raise UsageError(
            "MCP server {name} cannot be added: {why}.", name=name, why=error.text
        ) from error
    data = _read(file)
    entries = data.setdefault("mcpServers", {})
    if name in entries:
        raise UsageError(
            "{file} already has a server {name}; remove it first: kogniterm mcp remove {name}",
            file=file,
            name=name,
        )
    entries[name] = dict(entry)
    _write(file, data, private=not of_project)


def remove_server(file: Path, name: str, *, of_project: bool) -> None:
    """Remove an entry from a file of servers. Raises `UsageError` where it has none."""
    data = _read(file)
    if name not in data.get("mcpServers", {}):
        raise UsageError("{file} has no server {name}.", file=file, name=name)
    del data["mcpServers"][name]
    _write(file, data, private=not of_project)


def _read(file: Path) -> dict[str, Any]:
    return entries_in(file, read_if_there(file), "mcpServers")


def _write(file: Path, data: Mapping[str, Any], *, private: bool) -> None:
    if not private and not resolve_path(file).is_relative_to(resolve_path(file.parent)):
        away = Phrase("it leads out of the folder")
        raise UsageError("{file} was not changed: {why}.", file=file, why=away)
    write_private(file, entries_data(data), mode=0o600 if private else 0o644)


# --- what the user sees before trusting -----------------------------------------------------------


def launch_lines(config: ServerConfig) -> list[Phrase]:
    """Return what happens when a server is started, for the user to agree to."""
    lines = [
        Phrase("Runs: {command}", {"command": one_line(config.shown, 400)})
        if config.local
        else Phrase("Connects to: {command}", {"command": one_line(config.shown, 400)})
    ]
    names = ", ".join(sorted((*config.env, *config.headers)))
    if names:
        lines.append(Phrase("Gets the variables and headers: {names}", {"names": names}))
    if config.local and not config.sandbox:
        lines.append(Phrase("Runs outside the sandbox."))
    elif config.local and config.network:
        lines.append(Phrase("Runs in the sandbox, with network access."))
    elif config.local:
        lines.append(Phrase("Runs in the sandbox, without network access."))
    if config.own_home:
        lines.append(Phrase("Has an empty home folder of its own."))
    return lines


class ToolChange(NamedTuple):
    """A change that the user has not trusted: of a tool, or (None) the server's instructions.

    `diff` is "" for a tool that is new.
    """

    tool: ServerTool | None
    diff: str = ""


def _changes_of(server: Server, listing: Listing) -> list[ToolChange]:
    """Return what of a listing is new or changed since the user trusted it."""
    known = server.record.trusted
    told = (server.record.instructions, listing.instructions)
    instructions = unified_diff("instructions", *(f"{text}\n" if text else "" for text in told))
    tools = (
        ToolChange(
            tool,
            unified_diff(tool.name, f"{known[tool.name]}\n", f"{tool.text}\n")
            if tool.name in known
            else "",
        )
        for tool in server.record.untrusted_tools(listing)
    )
    return [*([ToolChange(None, instructions)] if instructions else ()), *tools]


def _launch_change(server: Server) -> str:
    """Return the diff of how a server is started, since the user trusted it; "" without one."""
    before, now = server.record.launch, server.config.launch
    if not before or before == now:
        return ""
    shown = (f"{json.dumps(dict(one), indent=1, ensure_ascii=False)}\n" for one in (before, now))
    return unified_diff(server.config.name, *shown)


def tool_rows(server: Server, tools: Sequence[ServerTool]) -> list[tuple[str, str]]:
    """Return the name that each tool has in a session, and what the server says of it."""
    return [
        (
            tool_name(server.config.name, tool.name),
            one_line(clean(tool.description.strip().split("\n")[0]), 200),
        )
        for tool in tools
    ]


def _change_lines(server: Server, changes: Sequence[ToolChange], most: int | None) -> list[Shown]:
    """Return what is new or changed in the tools of a server, at most so many lines."""
    new = [change.tool for change in changes if change.tool is not None and not change.diff]
    lines: list[Shown] = [f"{name}: {about}" for name, about in tool_rows(server, new)]
    for change in changes:
        lines += _diff_lines(change.diff)
    more = len(lines) - (most or len(lines))
    if more > 0:
        values = {"count": more, "name": server.config.name}
        rest = Phrase("… and {count} more lines: kogniterm mcp trust {name}", values)
        lines = [*lines[:most], rest]
    return lines or [Phrase("It has no tools.")]


def _diff_lines(diff: str) -> list[str]:
    """Return the lines of a diff, cut, without control characters."""
    return [cut(clean(line), 400) for line in diff.splitlines()]


def server_json(server: Server) -> dict[str, Any]:
    """Return a server as data for programs."""
    config = server.config
    return {
        "name": config.name,
        "state": server.state,
        "command": [config.command, *config.args] if config.local else None,
        "url": config.url or None,
        "origin": config.origin,
        "sandbox": config.sandbox if config.local else None,
        "network": config.network if config.local else None,
        "tools": [tool.name for tool in server.tools],
        "failure": server.failure or None,
    }
