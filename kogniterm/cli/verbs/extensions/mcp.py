"""`kogniterm mcp`: add, trust and try MCP servers, sign in to them, and be one for other agents."""

from __future__ import annotations

import asyncio
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kogniterm.cli.options import JSON, YES, CallOptions, Subparsers, add_actions, current_folder
from kogniterm.cli.verb_helpers import agrees, ask_agreement, paths_in_use, text_of, visible
from kogniterm.errors import UsageError
from kogniterm.installed import parts_of
from kogniterm.runtime.operations.action import Action, Argument, Report, Shown
from kogniterm.types import Phrase
from kogniterm.ui.locale import _, mark, translate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from kogniterm.runtime.extensions.servers.mcp_servers import McpServers, Server
    from kogniterm.tools.mcp.server_values import Listing
    from kogniterm.tools.mcp.sign_in_front import SignInRequest

T = TypeVar("T")

DOWNLOADERS = ("npx", "bunx", "uvx", "pipx", "docker", "podman")
_SERVER = Argument("name", "Name of the MCP server", "NAME")
_DISPLAY = (
    "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "XDG_CURRENT_DESKTOP",
    "DBUS_SESSION_BUS_ADDRESS",
)  # fmt: skip


def add_parser(subparsers: Subparsers) -> None:
    """Add `mcp` and its actions."""
    add_actions(subparsers, "mcp", ACTIONS)


def _list(call: CallOptions) -> Report:
    from kogniterm.runtime.operations.mcp.mcp_actions import list_servers

    async def read(servers: McpServers) -> Report:
        return list_servers(servers, paths_in_use().extensions.mcp_servers)

    return _with_servers(call, read)


def _with_servers(
    call: CallOptions,
    use: Callable[[McpServers], Awaitable[T]],
) -> T:
    """Return what `use` makes of the servers of the folder, which are ended then."""
    from kogniterm.runtime.operations.mcp.mcp_actions import servers_of_folder

    settings, paths = call.load_settings(), paths_in_use()

    async def used() -> T:
        async with servers_of_folder(settings, paths, call.folder()) as servers:
            return await use(servers)

    return asyncio.run(used())


def _add(
    call: CallOptions,
    name: str,
    command: list[str],
    env: list[str] | None,
    header: list[str] | None,
    network: bool,
    project: bool,
) -> Report:
    from kogniterm.runtime.operations.mcp.mcp_actions import add_server

    file = _file(call, of_project=project)
    entry: dict[str, Any]
    if command[0].startswith(("https://", "http://")) and len(command) == 1:
        entry = {"type": "http", "url": command[0], "headers": _pairs(header, ":")}
    else:
        entry = {"command": command[0], "args": command[1:], "env": _pairs(env, "=")}
        if network or _may_download(command[0]):
            entry["network"] = True
    add_server(file, name, {k: v for k, v in entry.items() if v}, of_project=project)
    lines = [Phrase("MCP server {name} added to {file}.", {"name": name, "file": file})]
    if project:
        lines.append(Phrase("Trust the folder to use it: kogniterm trust"))
    lines.append(Phrase("Trust it to use it: kogniterm mcp trust {name}", {"name": name}))
    return Report({"server": name, "file": str(file)}, lines)


def _may_download(program: str) -> bool:
    """Ask whether a server that its program downloads may use the network."""
    if program.rpartition("/")[2] not in DOWNLOADERS or not sys.stdin.isatty():
        return False
    return ask_agreement(_("{program} needs the network. Allow it?").format(program=program))


def _file(call: CallOptions, *, of_project: bool) -> Path:
    from kogniterm.runtime.extensions.servers.mcp_servers import PROJECT_FILE

    if of_project:
        return Path(call.folder()) / PROJECT_FILE
    return paths_in_use().extensions.mcp_servers


def _pairs(words: Sequence[str] | None, mark: str) -> dict[str, str]:
    """Return NAME=VALUE words as pairs. Raises `UsageError` for another word."""
    found = {}
    for word in words or ():
        name, between, value = word.partition(mark)
        if not between or not name.strip():
            raise UsageError("{word} is not NAME{mark}VALUE.", word=word, mark=mark)
        found[name.strip()] = value.strip()
    return found


def _remove(call: CallOptions, name: str, project: bool) -> Report:
    from kogniterm.runtime.operations.mcp.mcp_actions import remove_server

    file = _file(call, of_project=project)
    remove_server(file, name, of_project=project)
    told = Phrase("MCP server {name} removed from {file}.", {"name": name, "file": file})
    return Report({"server": name, "file": str(file)}, [told])


def _test(call: CallOptions, name: str) -> Report:
    from kogniterm.runtime.operations.mcp.mcp_actions import await_listing, launch_lines, tool_rows

    async def test(servers: McpServers) -> Report:
        server = servers.find(name)
        for line in launch_lines(server.config):
            _write(translate(line))
        listing = await await_listing(_list_server(servers, server))
        rows = tool_rows(server, listing.tools)
        data = {"server": name, "title": listing.title, "tools": [tool for tool, _about in rows]}
        values = {"name": listing.title or name, "count": len(rows)}
        notes = [Phrase("{name} answers; it has {count} tools.", values)]
        return Report(data, rows=rows, notes=notes)

    return _with_servers(call, test)


async def _list_server(servers: McpServers, server: Server) -> Listing:
    """Start a server and return what it offers; what it says meanwhile is shown, line by line."""
    _write(_("Starting {name}. A first start may download it.").format(name=server.config.name))
    starting, said = asyncio.ensure_future(servers.list_anew(server)), ""
    while not (await asyncio.wait({starting}, timeout=1.0))[0]:
        line = server.connection.last_line if server.connection is not None else ""
        if line != said:
            _write(f"  {line}")
            said = line
    return starting.result()


def _trust(call: CallOptions, name: str, yes: bool) -> Report:
    from kogniterm.runtime.operations.mcp.mcp_actions import trust_server

    async def agree(title: Phrase, lines: Sequence[Shown], _yes: Phrase) -> bool:
        if yes:
            return True
        if not sys.stdin.isatty():
            raise UsageError("Trusting a server needs a terminal to ask at, or --yes.")
        for line in lines:
            _write(text_of(line))
        return await agrees(translate(title), _line)

    async def trust(servers: McpServers) -> Report:
        start = partial(_list_server, servers)
        report = await trust_server(servers, servers.find(name), agree, start=start, most=None)
        if report is None:
            raise UsageError("Nothing changed.")
        return report

    return _with_servers(call, trust)


def _login(call: CallOptions, name: str) -> Report:
    from kogniterm.runtime.operations.mcp.mcp_sign_in import remote_server, sign_in_to

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("kogniterm mcp login needs a terminal: it asks before it signs in.")
    paths = paths_in_use()
    config = remote_server(paths, current_folder(), name)
    done = asyncio.run(sign_in_to(paths, config, _TerminalFront()))
    values = {"name": name}
    said = {
        "signed in": Phrase("Signed in to {name}.", values),
        "already": Phrase("You are already signed in to {name}.", values),
        "not needed": Phrase("{name} does not ask for a sign-in.", values),
    }
    return Report({"server": name, "result": done}, [said[done]])


def _logout(call: CallOptions, name: str) -> Report:
    from kogniterm.runtime.operations.mcp.mcp_sign_in import remote_server, sign_out_of

    paths = paths_in_use()
    was = sign_out_of(paths, remote_server(paths, current_folder(), name))
    values = {"name": name}
    out = Phrase("Signed out of {name}.", values)
    told = out if was else Phrase("You were not signed in to {name}.", values)
    return Report({"server": name, "signed_out": was}, [told])


class _TerminalFront:
    """Asks on the terminal. Lines are read by the loop, so that Ctrl-C ends the sign-in at once."""

    async def agree(self, request: SignInRequest) -> bool:
        scopes = ", ".join(request.scopes) or _("the server's own choice")
        rows = (
            (_("Server:"), f"{request.server} ({request.server_host})"),
            (_("Signs in at:"), request.host),
            (_("Permissions:"), scopes),
            (_("Address:"), request.address),
        )
        width = max(len(name) for name, _value in rows)
        for name, value in rows:
            _write(f"{name:{width}} {value}")
        return await agrees(_("Open this address and sign in?"), _line)

    async def visit(self, request: SignInRequest) -> None:
        if open_in_browser(request.address):
            _write(_("The address was opened in your browser."))
        else:
            _write(_("Open the address in a browser, on any machine."))
        _write(
            _(
                "Waiting for the sign-in. If the browser cannot reach this machine, paste the "
                "address where it ended, and press Enter."
            )
        )

    async def pasted(self, *, again: bool) -> str:
        if again:
            _write(_("This is not the address where a sign-in ends; it contains code= and state=."))
        return await _line()

    def page(self, *, done: bool) -> str:
        if done:
            return _("Signed in. Close this page and return to the terminal.")
        return _("Not signed in. Return to the terminal, which says why.")


def open_in_browser(address: str) -> bool:
    """Open `address` in the user's browser, in a window of its own; returns whether there is one.

    Without a screen a browser would take over the terminal, so none is started.
    """
    from kogniterm.host.helper_programs import start_apart
    from kogniterm.host.programs import find_program, find_user_program, host_environment
    from kogniterm.settings import environment

    own = environment()
    if not (own.get("DISPLAY") or own.get("WAYLAND_DISPLAY")):
        return False
    chosen = find_user_program(
        own.get("BROWSER", "").partition(":")[0] or "-", str(current_folder())
    )
    program = chosen or find_program("xdg-open")
    if program is None:
        return False
    try:
        start_apart([program, address], env=host_environment(*_DISPLAY))
    except OSError:
        return False
    return True


async def _line() -> str:
    """Return the next line of standard input. Raises `UsageError` at its end."""
    loop, typed, keyboard = asyncio.get_running_loop(), bytearray(), sys.stdin.fileno()
    while not typed.endswith(b"\n"):
        ready = asyncio.Event()
        loop.add_reader(keyboard, ready.set)
        try:
            await ready.wait()
        except asyncio.CancelledError:
            _write("")  # the shell's prompt belongs on a line of its own
            raise
        finally:
            loop.remove_reader(keyboard)
        # A terminal gives lines, so that nothing behind the line is read.
        more = os.read(keyboard, 65536)
        if not more:
            raise UsageError("The terminal was closed; nothing changed.")
        typed += more
    return typed.decode("utf-8", "replace")


def _write(text: str) -> None:
    sys.stderr.write(visible(text) + "\n")
    sys.stderr.flush()


_CWD = Argument("--cwd", "Folder of the session", "FOLDER", short="-C")
_PROJECT = Argument("--project", "Use the folder's .mcp.json instead of your own file")
_DASHES = Phrase("Put -- before the server's command: kogniterm mcp add NAME -- COMMAND")
ACTIONS = (
    Action("list", mark("List the MCP servers and their state"), _list, (_CWD, JSON),
           ("kogniterm mcp list",)),
    Action("add", mark("Add an MCP server: a command, or the address of a remote one"), _add,
           (_SERVER,
            Argument("command", "Command with its arguments, or an address", "COMMAND", nargs="+"),
            Argument("--env", "Variables; ${NAME} is filled in from yours", "NAME=VALUE",
                     nargs="+"),
            Argument("--header", "Headers of a remote server", "NAME:VALUE", nargs="+"),
            Argument("--network", "Let it use the network from within the sandbox"),
            _PROJECT, _CWD, JSON),
           ("kogniterm mcp add files -- npx -y @modelcontextprotocol/server-filesystem .",
            "kogniterm mcp add linear https://mcp.linear.app/mcp"), unknown_option=_DASHES),
    Action("remove", mark("Remove an MCP server from its file"), _remove,
           (_SERVER, _PROJECT, _CWD, JSON), ("kogniterm mcp remove files",)),
    Action("test", mark("Start an MCP server once and list its tools"), _test,
           (_SERVER, _CWD, JSON), ("kogniterm mcp test files",)),
    Action("trust", mark("Trust an MCP server and its tools as they are now"), _trust,
           (_SERVER, YES, _CWD, JSON), ("kogniterm mcp trust files",)),
    Action("login", "Sign in to an MCP server in your browser", _login, (_SERVER,),
           ("kogniterm mcp login linear",)),
    Action("logout", "Delete the sign-in to an MCP server", _logout, (_SERVER, JSON),
           ("kogniterm mcp logout linear",)),
    *parts_of("ACTIONS", "mcp"),
)  # fmt: skip
