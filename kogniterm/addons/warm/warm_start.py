"""Start the warm server for the next call, find the running ones, and end them."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kogniterm.addons.warm.warm_place import (
    KEYED_NAMES,
    address,
    is_private,
    may_be_warm,
    socket_folder,
)
from kogniterm.errors import KognitermError
from kogniterm.host.helper_programs import start_apart
from kogniterm.host.processes import children, process_file
from kogniterm.settings import environment, quick

_PASSED_ON = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", *KEYED_NAMES)
"""Variables that the server gets: the home for the user's own modules, the locale, and the
interpreter's. It needs no keys, nor anything else of the environment."""
_USED = "kogniterm.agent.graph"


class WarmServer(NamedTuple):
    """A running server. `memory` is its proportional share in bytes; None where it is not told."""

    pid: int
    memory: int | None
    sessions: int


def start_for_next_call() -> None:
    """Start the server in the background if this call would have been faster with it.

    Does nothing where one runs, where warm starts are off or not possible, and after a call that
    loaded no libraries.
    """
    if _USED not in sys.modules or not may_be_warm(sys.argv[1:]):
        return
    environ = environment()
    folder = socket_folder(environ)
    with suppress(KognitermError, OSError):
        if folder is None or quick(environ).warm == "off":
            return
        path = address(folder)
        if _holder(Path(f"{path}.lock")) is not None:
            return
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # as multiprocessing does
        start_apart(
            [sys.executable, *flags, "-P", "-m", "kogniterm.addons.warm.warm_server", path],
            env={name: environ[name] for name in _PASSED_ON if name in environ},
        )  # which forks the server and ends


def running_servers() -> list[WarmServer]:
    """Return the user's running servers, of every installation."""
    folder = socket_folder(environment())
    if folder is None or not is_private(folder):
        return []
    holders = [_holder(lock) for lock in sorted(Path(folder).glob("warm-*.sock.lock"))]
    return [WarmServer(pid, _memory(pid), len(children(pid))) for pid in holders if pid is not None]


def stop_servers() -> list[WarmServer]:
    """End the user's servers and return them; sessions that were forked from them go on."""
    found = running_servers()
    for server in found:
        with suppress(ProcessLookupError):
            os.kill(server.pid, signal.SIGTERM)
    return found


def _holder(lock: Path) -> int | None:
    """Return the process that holds a server's lock; None where none does."""
    with suppress(OSError), lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(file.read() or 0) or None
    return None


def _memory(pid: int) -> int | None:
    with suppress(OSError, ValueError):
        for line in process_file(pid, "smaps_rollup").splitlines():
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * 1024
    return None
