"""`kogniterm warm stop`: end the process that makes starts fast; `doctor` shows it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from kogniterm.cli.options import JSON, Subparsers, add_actions
from kogniterm.cli.run_options import CallOptions
from kogniterm.cli.warm.warm_place import plain_variables, socket_folder
from kogniterm.cli.warm.warm_start import WarmServer, running_servers, stop_servers
from kogniterm.runtime.operations.action import Action, Report
from kogniterm.settings import environment, quick
from kogniterm.types import Phrase
from kogniterm.ui.locale import mark, size, translate


def add_parser(subparsers: Subparsers) -> None:
    """Add `warm stop`."""
    add_actions(subparsers, "warm", ACTIONS, JSON)


def warm_state() -> list[Phrase]:
    """Return what is known of warm starts here: the servers, or why there are none."""
    off = _why_off()
    servers = running_servers()
    if off is not None:
        return [Phrase("warm starts: off ({why})", {"why": off}), *map(_told, servers)]
    if servers:
        return [_told(server) for server in servers]
    return [Phrase("warm starts: on; the server starts after the first use")]


def _told(server: WarmServer) -> Phrase:
    return Phrase(
        "warm starts: server {pid}, {memory}, open sessions: {count}",
        {
            "pid": server.pid,
            "memory": "?" if server.memory is None else size(server.memory),
            "count": server.sessions,
        },
    )


def _why_off() -> Phrase | None:
    environ = environment()
    if quick(environ).warm == "off":
        return Phrase("the setting warm")
    names = plain_variables(environ)
    if names:
        return Phrase("the environment sets {names}", {"names": ", ".join(sorted(names))})
    if socket_folder(environ) is None:
        return Phrase("no private folder in XDG_RUNTIME_DIR")
    if not os.path.isdir("/proc/self/ns"):  # noqa: PTH112  # no folder of the user
        return Phrase("only Linux has what they need")
    return None


def _stop(call: CallOptions) -> Report:
    stopped = stop_servers()
    told = Phrase("Ended: {pids}. Open sessions continue.",
                  {"pids": ", ".join(str(server.pid) for server in stopped)})  # fmt: skip
    nothing = Phrase("No warm server is running.")
    return Report({"stopped": _data(stopped)}, [translate(told if stopped else nothing)])


def _data(servers: Sequence[WarmServer]) -> list[dict[str, int | None]]:
    return [{"pid": one.pid, "memory": one.memory, "sessions": one.sessions} for one in servers]


ACTIONS = (
    Action(
        "stop",
        mark("End that process; open sessions continue"),
        _stop,
        examples=("kogniterm warm stop",),
    ),
)
