"""`kogniterm warm stop`: end the process that makes starts fast; `doctor` shows it."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from kogniterm.addons.warm.warm_place import plain_variables, socket_folder
from kogniterm.addons.warm.warm_start import WarmServer, make_folder, running_servers
from kogniterm.cli.options import JSON, CallOptions, Subparsers, add_actions
from kogniterm.runtime.operations.action import Action, Report
from kogniterm.settings import environment, quick
from kogniterm.types import Phrase
from kogniterm.ui.locale import mark, size, translate

if TYPE_CHECKING:
    from kogniterm.runtime.operations.health_checks import Finding


def add_parser(subparsers: Subparsers) -> None:
    """Add `warm stop`."""
    add_actions(subparsers, "warm", ACTIONS, JSON)


def warm_state() -> list[Finding]:
    """Return what is known of warm starts here: the servers, or why there are none."""
    from kogniterm.runtime.operations.health_checks import Finding

    off = _why_off()
    found = [
        Finding(
            "ok",
            Phrase(
                "warm starts: server {pid}, {memory}, open sessions: {count}",
                {
                    "pid": server.pid,
                    "memory": "?" if server.memory is None else size(server.memory),
                    "count": server.sessions,
                },
            ),
        )
        for server in running_servers()
    ]
    if off is not None:
        found.insert(0, Finding("note", Phrase("warm starts: off ({why})", {"why": off})))
    elif not found:
        found = [Finding("note", Phrase("warm starts: on; the server starts after the first use"))]
    return found


def _why_off() -> Phrase | None:
    environ = environment()
    if quick(environ).warm == "off":
        return Phrase("the setting warm")
    if names := plain_variables(environ):
        return Phrase("the environment sets {names}", {"names": ", ".join(sorted(names))})
    with suppress(OSError):
        if (folder := make_folder(environ)) is not None:
            os.close(folder)
            return None
    named = socket_folder(environ) or "XDG_RUNTIME_DIR"
    return Phrase("no private folder {folder}", {"folder": named})


def _stop(call: CallOptions) -> Report:
    stopped, latest = dict[int, WarmServer](), time.monotonic() + 2.0
    # One that has just loaded becomes another process. Sessions that were forked from it go on.
    while (running := running_servers()) and time.monotonic() < latest:
        for server in running:
            stopped[server.pid] = server
            with suppress(ProcessLookupError):
                os.kill(server.pid, signal.SIGTERM)
        time.sleep(0.01)
    told = Phrase("No warm server is running.")
    if stopped:
        pids = ", ".join(map(str, stopped))
        told = Phrase("Ended: {pids}. Open sessions continue.", {"pids": pids})
    return Report({"stopped": [one._asdict() for one in stopped.values()]}, [translate(told)])


ACTIONS = (
    Action(
        "stop",
        mark("End that process; open sessions continue"),
        _stop,
        examples=("kogniterm warm stop",),
    ),
)
