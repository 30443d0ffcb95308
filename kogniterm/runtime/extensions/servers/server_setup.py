"""MCP servers for the user: what there are, adding and removing entries, trying and trusting one.

`/mcp` and `kogniterm mcp` share this.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kogniterm import prompts
from kogniterm.agent.messages import note
from kogniterm.errors import UnusableValueError, UsageError
from kogniterm.host.safe_files import resolved
from kogniterm.runtime.extensions.servers.mcp_servers import McpServers, Server
from kogniterm.runtime.extensions.servers.open_servers import Surroundings, open_servers
from kogniterm.runtime.questions.approval_facts import Say
from kogniterm.runtime.trust.trust_store import TrustStore, trusted_files
from kogniterm.sessions.records import NodeRan
from kogniterm.settings import environment
from kogniterm.settings.user_files import entries_data, entries_in, read_if_there
from kogniterm.storage.folders import write_private
from kogniterm.text.file_text import unified_diff
from kogniterm.text.shorten import cut, one_line
from kogniterm.text.visible import clean
from kogniterm.tools.mcp.server_config import ServerConfig, parse_server
from kogniterm.tools.mcp.server_tools import tool_name
from kogniterm.tools.mcp.server_values import Listing, ServerPrompt, ServerTool
from kogniterm.types import NodeUpdate, Phrase

if TYPE_CHECKING:
    from kogniterm.paths import Paths
    from kogniterm.runtime.turn_journal import TurnJournal
    from kogniterm.settings import Settings


@asynccontextmanager
async def servers_of_folder(
    settings: Settings, paths: Paths, folder: str
) -> AsyncIterator[McpServers]:
    """Yield the servers that a session in `folder` would have.

    Those that were started are ended. Raises `KognitermError`.
    """
    from kogniterm.runtime.services.policy_service import open_sandbox

    files, told = trusted_files(TrustStore(paths.trust_file), Path(folder))
    bounds = None if settings.sandbox == "off" else open_sandbox(settings, paths, folder)[0]
    with tempfile.TemporaryDirectory(prefix="kogniterm-mcp-") as temporary:
        place = Surroundings(folder, environment(), bounds, lambda: temporary, files)
        servers = open_servers(paths, place)
        servers.problems += told
        try:
            yield servers
        finally:
            await servers.close()


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
    if not private and not resolved(file).is_relative_to(resolved(file.parent)):
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
    return lines


class ToolChange(NamedTuple):
    """A tool that the user has not trusted as it is; `diff` is "" for one that is new."""

    tool: ServerTool
    diff: str = ""


def changes_of(server: Server, listing: Listing) -> list[ToolChange]:
    """Return the tools of a listing that are new or changed since the user trusted them."""
    known = server.record.trusted
    return [
        ToolChange(
            tool,
            unified_diff(tool.name, f"{known[tool.name]}\n", f"{tool.text}\n")
            if tool.name in known
            else "",
        )
        for tool in server.record.untrusted(listing)
    ]


def launch_change(server: Server) -> str:
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


MOST_LINES = 60
"""Lines shown of all changes to a server's tools together."""


def change_lines(
    server: Server, changes: Sequence[ToolChange], say: Say, *, most: int | None = MOST_LINES
) -> list[str]:
    """Return what is new or changed in the tools of a server, at most so many lines."""
    new = [change.tool for change in changes if not change.diff]
    lines = [f"{name}: {about}" for name, about in tool_rows(server, new)]
    for change in changes:
        lines += diff_lines(change.diff)
    more = len(lines) - (most or len(lines))
    if more > 0:
        values = {"count": more, "name": server.config.name}
        rest = Phrase("… and {count} more lines: kogniterm mcp trust {name}", values)
        lines = [*lines[:most], say(rest)]
    return lines or [say(Phrase("It has no tools."))]


def diff_lines(diff: str) -> list[str]:
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


def tell_of_server(journal: TurnJournal, name: str) -> None:
    """Tell the model of a session that has begun that the user trusted a server."""
    if journal.state.turn:
        said = note(prompts.text("execute_tool.server_trusted", server=name))
        journal.record(NodeRan(NodeUpdate("instructions", (said,))))
