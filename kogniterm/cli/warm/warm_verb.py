"""`kogniterm warm`: show the process that makes starts fast, or end it."""

from __future__ import annotations

import argparse

from kogniterm.cli.options import JSON, Action, Subparsers, add_actions
from kogniterm.cli.verb_helpers import Report, write_report
from kogniterm.cli.warm.warm_place import plain_variables, socket_folder
from kogniterm.cli.warm.warm_start import running_servers, stop_servers
from kogniterm.settings import environment, quick
from kogniterm.types import Phrase
from kogniterm.ui.locale import mark, size, translate


def add_parser(subparsers: Subparsers) -> None:
    """Add `warm status` and `warm stop`."""
    add_actions(subparsers, "warm", ACTIONS, JSON)


def run(args: argparse.Namespace) -> int:
    """Show or end the servers; return the exit status."""
    return write_report(args, args.perform(args))


def warm_state() -> list[Phrase]:
    """Return what is known of warm starts here: the servers, or why there are none."""
    off = _why_off()
    servers = [
        Phrase(
            "warm starts: server {pid}, {memory}, open sessions: {count}",
            {
                "pid": server.pid,
                "memory": "?" if server.memory is None else size(server.memory),
                "count": server.sessions,
            },
        )
        for server in running_servers()
    ]
    if off is not None:
        return [Phrase("warm starts: off ({why})", {"why": off}), *servers]
    return servers or [Phrase("warm starts: on; the server starts after the first use")]


def _why_off() -> Phrase | None:
    environ = environment()
    if quick(environ).warm == "off":
        return Phrase("the setting warm")
    if names := plain_variables(environ):
        return Phrase("the environment sets {names}", {"names": ", ".join(sorted(names))})
    if socket_folder(environ) is None:
        return Phrase("no private folder in XDG_RUNTIME_DIR")
    return None


def _status(_args: argparse.Namespace) -> Report:
    off, servers = _why_off(), [server._asdict() for server in running_servers()]
    return Report(
        {"off": translate(off) if off else None, "servers": servers},
        [translate(line) for line in warm_state()],
    )


def _stop(_args: argparse.Namespace) -> Report:
    stopped = stop_servers()
    told = Phrase("No warm server is running.")
    if stopped:
        pids = ", ".join(str(server.pid) for server in stopped)
        told = Phrase("Ended: {pids}. Open sessions continue.", {"pids": pids})
    return Report({"stopped": [server._asdict() for server in stopped]}, [translate(told)])


ACTIONS = (
    Action(
        "status",
        mark("Show the process that keeps the libraries loaded, and its memory"),
        _status,
        examples=("kogniterm warm status",),
    ),
    Action(
        "stop",
        mark("End that process; open sessions continue"),
        _stop,
        examples=("kogniterm warm stop",),
    ),
)
