"""Start the warm server for the next call, and find the running ones."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

from kogniterm.addons.warm import warm_place as place
from kogniterm.errors import KognitermError
from kogniterm.host.helper_programs import start_apart
from kogniterm.host.kernel_calls import closing_descriptor
from kogniterm.host.processes import children, process_file
from kogniterm.settings import environment, quick
from kogniterm.storage.folders import private_folder

_PASSED_ON = ("HOME", "LANG", "LC_ALL", "LC_CTYPE")
"""Variables that the server gets beside the interpreter's: its own modules, and the locale."""
_SERVER = ("-P", "-m", "kogniterm.addons.warm.warm_server")
_USED = "kogniterm.agent.graph"


class WarmServer(NamedTuple):
    """A running server. `memory` is its proportional share in bytes; None where it is not told."""

    pid: int
    memory: int | None
    sessions: int


def start_for_next_call() -> None:
    """Start the server in the background if none runs and it would have made this call faster."""
    # A container ends with its first process, and the server with it.
    if _USED in sys.modules and os.getpid() != 1 and place.may_be_warm(sys.argv[1:]):
        _start()


def replace_server(server: int) -> None:
    """Replace the server that this session was forked from by one with its client libraries too."""
    with suppress(OSError):
        opened = os.pidfd_open(server)
        with closing_descriptor(opened):
            if os.getppid() == server:  # else it has ended, or another session has replaced it
                signal.pidfd_send_signal(opened, signal.SIGTERM)
                ended = select.poll()
                ended.register(opened, select.POLLIN)
                ended.poll(1000)  # milliseconds
                _start()


def _start() -> None:
    environ = environment()
    with suppress(KognitermError, OSError):
        if quick(environ).warm == "off" or (folder := make_folder(environ)) is None:
            return
        with closing_descriptor(folder), ExitStack() as closing:
            taken = take_socket(folder, closing)
            words = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # as multiprocessing does
            given = {name: environ[name] for name in _PASSED_ON if name in environ}
            if sys.flags.utf8_mode and "PYTHONUTF8" not in environ:
                given["LC_CTYPE"] = "C"  # for which this interpreter has set another
            start_apart(
                [sys.executable, *words, *_SERVER, *map(str, taken), *place.loaded_clients()],
                env=given | place.interpreter_variables(environ),
                descriptors=taken,
            )  # which forks the server and ends


def make_folder(environ: Mapping[str, str]) -> int | None:
    """Return the folder of the server's socket; None if it is not private. Raises `OSError`."""
    folder = place.socket_folder(environ) or ""
    private_folder(Path(folder))
    return place.open_private(folder)


def take_socket(folder: int, closing: ExitStack) -> tuple[int, int]:
    """Return a server's lock and its socket, which does not listen yet.

    Raises `OSError` where one runs, of whatever key, and in a file system without these.
    """
    path = Path(place.below(folder, f"{place.server_name()}.lock"))
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    closing.enter_context(closing_descriptor(lock))
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.ftruncate(lock, 0)
    for old in path.parent.glob("warm-*.lock"):  # before a restart, or of a container
        if old == path or _holder(old) is None:
            for file in (*path.parent.glob(f"{old.stem}-*.sock"), *[old] * (old != path)):
                file.unlink(missing_ok=True)
    bound = closing.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    bound.bind(place.below(folder, place.socket_name()))
    return lock, bound.fileno()


def running_servers() -> list[WarmServer]:
    """Return the user's running servers here, of every installation."""
    folder = place.open_private(place.socket_folder(environment()) or "")
    if folder is None:
        return []
    here = place.server_name().rpartition("-")[0]
    locks = sorted(Path(place.below(folder, "")).glob(f"{here}-*.lock"))
    holders = [_holder(lock) for lock in locks]
    os.close(folder)
    return [WarmServer(pid, _memory_share(pid), len(children(pid))) for pid in holders if pid]


def _holder(lock: Path) -> int | None:
    """Return the process that holds a server's lock, 0 if that is just starting; or None."""
    with suppress(OSError, ValueError), lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(file.read() or 0)
    return None


def _memory_share(pid: int) -> int | None:
    """Return the proportional share (PSS) of a process in bytes; None if it is not told."""
    with suppress(OSError, ValueError):
        for line in process_file(pid, "smaps_rollup").splitlines():
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) * 1024
    return None
