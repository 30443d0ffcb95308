"""`kogniterm mcp`: sign in to MCP servers, and be one for other agents."""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm.cli.options import JSON, Action, Argument, Subparsers, add_actions, here
from kogniterm.cli.verb_helpers import Report, paths_in_use, visible, write_report
from kogniterm.errors import UsageError
from kogniterm.ui.locale import _

if TYPE_CHECKING:
    from kogniterm.tools.mcp.oauth import SignInRequest

_SERVER = Argument("server", "Name of the MCP server", "NAME")
_DISPLAY = (
    "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "XDG_CURRENT_DESKTOP",
    "DBUS_SESSION_BUS_ADDRESS",
)  # fmt: skip


def add_parser(subparsers: Subparsers) -> None:
    """Add `mcp` and its actions."""
    add_actions(subparsers, "mcp", ACTIONS)


def run(args: argparse.Namespace) -> int:
    """Run the action."""
    return write_report(args, args.perform(args))


def _login(args: argparse.Namespace) -> Report:
    from kogniterm.runtime.use_cases.mcp_sign_in import remote_server, sign_in_to

    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("kogniterm mcp login needs a terminal: it asks before it signs in.")
    paths = paths_in_use()
    config = remote_server(paths, Path(here()), args.server)
    done = asyncio.run(sign_in_to(paths, config, _TerminalFront()))
    said = {
        "signed in": _("Signed in to {name}."),
        "already": _("You are already signed in to {name}."),
        "not needed": _("{name} does not ask for a sign-in."),
    }
    return Report({"server": args.server, "result": done}, [said[done].format(name=args.server)])


def _logout(args: argparse.Namespace) -> Report:
    from kogniterm.runtime.use_cases.mcp_sign_in import remote_server, sign_out_of

    paths = paths_in_use()
    was = sign_out_of(paths, remote_server(paths, Path(here()), args.server))
    line = _("Signed out of {name}.") if was else _("You were not signed in to {name}.")
    return Report({"server": args.server, "signed_out": was}, [line.format(name=args.server)])


class _TerminalFront:
    """Asks on the terminal. Lines are read by the loop, so that Ctrl-C ends the sign-in at once."""

    async def agree(self, request: SignInRequest) -> bool:
        from kogniterm.ui.prompt.user_terminal import typed_before
        from kogniterm.ui.questions.question import Option, chosen

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
        await typed_before(sys.stdin.fileno())
        _write(_("Open this address and sign in? [yes/no]") + " ", end="")
        return chosen((Option("yes", "", "yes"),), await _line()) is not None

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
    from kogniterm.host.programs import find_program, find_user_program, host_environment
    from kogniterm.settings import environment

    own = environment()
    if not (own.get("DISPLAY") or own.get("WAYLAND_DISPLAY")):
        return False
    chosen = find_user_program(own.get("BROWSER", "").partition(":")[0] or "-", str(here()))
    program = chosen or find_program("xdg-open")
    if program is None:
        return False
    try:
        subprocess.Popen(
            [program, address],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=host_environment(*_DISPLAY),
            start_new_session=True,
        )
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
            raise UsageError("Not signed in: the terminal was closed.")
        typed += more
    return typed.decode("utf-8", "replace")


def _write(text: str, end: str = "\n") -> None:
    sys.stderr.write(visible(text) + end)
    sys.stderr.flush()


ACTIONS = (
    Action("login", "Sign in to an MCP server in your browser", _login, (_SERVER,),
           ("kogniterm mcp login linear",)),
    Action("logout", "Delete the sign-in to an MCP server", _logout, (_SERVER, JSON),
           ("kogniterm mcp logout linear",)),
)  # fmt: skip
