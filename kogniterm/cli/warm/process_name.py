"""The command line and the name under which `ps`, `pgrep` and `top` show a process.

A fork keeps those of the server. A session has the ones of its client, so that it is found and
ended by what the user typed.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress

from kogniterm.cli.warm.warm_place import process_text

ROOM = " " * 4096
"""The last argument of a server. The kernel shows the bytes of the arguments that a process was
started with, so a session has as much room as its server had arguments."""
_PR_SET_NAME = 15
_START, _END = 45, 46
"""Fields of `/proc/PID/stat`, after the name, with the bounds of these bytes (proc(5))."""


def show_without_room() -> None:
    """Show the command line of this process without `ROOM`."""
    with suppress(OSError, ValueError, IndexError):
        _write(process_text("self", "cmdline").replace(f"{ROOM}\0", ""))


def show_as(pid: int) -> None:
    """Show this process with the command line and the name of process `pid`, as far as possible."""
    with suppress(OSError, ValueError, IndexError):
        name = os.fsencode(process_text(pid, "comm").rstrip("\n"))
        ctypes.CDLL(None).prctl(_PR_SET_NAME, name, 0, 0, 0)
        _write(process_text(pid, "cmdline"))


def _write(command_line: str) -> None:
    fields = process_text("self", "stat").rpartition(")")[2].split()
    start, room = int(fields[_START]), int(fields[_END]) - int(fields[_START])
    shown = os.fsencode(command_line)[: room - 1]  # the last byte has to be NUL
    ctypes.memmove(start, shown.ljust(room, b"\0"), room)
