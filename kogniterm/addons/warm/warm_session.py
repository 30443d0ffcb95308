"""A session's process: forked from the server's, it becomes what its client is, and runs it.

Only two things differ: its process ID, and that the controlling terminal is its client's, which
`host.terminal_owner` reaches.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import fcntl
import gc
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import NoReturn

from kogniterm.__main__ import run_here
from kogniterm.addons.warm import warm_place as place
from kogniterm.addons.warm.warm_start import replace_server
from kogniterm.errors import KognitermError
from kogniterm.host.processes import process_file
from kogniterm.host.terminal_owner import TerminalJob, set_user_job
from kogniterm.settings import environment, quick

REQUEST_SECONDS = 2.0


def be_session(
    connection: socket.socket, client: int, server: int, is_current: Callable[[], bool]
) -> NoReturn:
    """Become the client's process `client`, run its command line, and end with its exit status."""
    status = 1
    try:
        os.setsid()
        for number in (signal.SIGCHLD, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        connection.settimeout(REQUEST_SECONDS)
        connection.send(b"%d" % os.getpid())
        _adopt(connection, client)
        with contextlib.suppress(KognitermError):  # wrong settings are told by the session
            if not is_current() or quick(environment()).warm == "off":
                os.kill(server, signal.SIGTERM)
                os._exit(1)
        connection.send(place.READY)
        if connection.recv(20) == place.GO:
            connection.settimeout(None)
            before = place.loaded_clients()
            status = _run() & 0xFF
            if place.loaded_clients() != before:
                replace_server(server)
            connection.send(b"%d" % status)
    except (OSError, ValueError):
        pass  # the client is gone, or is none
    finally:
        os._exit(status)


def _adopt(connection: socket.socket, client: int) -> None:
    """Take over what the client has. Raises `OSError` or `ValueError` where that is refused."""
    data, descriptors, flags, _address = socket.recv_fds(
        connection, place.LARGEST, 5, socket.MSG_CMSG_CLOEXEC
    )
    key, umask, count, *words = data.split(b"\0")
    if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC) or key != place.start_key():
        raise ValueError
    *streams, watched, terminal = (*descriptors, -1)[:5]
    for target, source in enumerate(streams):
        os.dup2(source, target)
        os.close(source)
    # The other end is the client's alone: the kernel kills this process when that has ended.
    fcntl.fcntl(watched, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(watched, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(watched, fcntl.F_SETFL, os.O_ASYNC)
    # Its end is that of the session for the client, so nothing that is forked may keep it open.
    os.register_at_fork(after_in_child=connection.close)
    os.chdir(f"/proc/{client}/cwd")
    os.umask(int(umask))
    _enter_group_of(client)
    sys.argv[:] = map(os.fsdecode, words[: int(count)])
    os.environ.clear()
    os.environb.update(dict(word.split(b"=", 1) for word in words[int(count) :]))
    time.tzset()
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        old = getattr(sys, name)
        by_line = 1 if name == "stderr" or os.environ.get("PYTHONUNBUFFERED") else -1
        stream = open(number, mode, by_line, old.encoding, old.errors, closefd=False)  # noqa: SIM115  # stays open
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    set_user_job(_ClientJob(connection, terminal))
    gc.enable()


def _run() -> int:
    status = run_here()
    # As `multiprocessing` ends its processes: freeing all memory would copy what is shared.
    threading._shutdown()  # type: ignore[attr-defined]  # joins threads and runs what waits for that
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    return status


class _ClientJob(TerminalJob):
    """The job of the client, which is asked by messages."""

    def __init__(self, connection: socket.socket, terminal: int) -> None:
        self._connection, self._terminal = connection, terminal
        self._lock = threading.Lock()

    def open_terminal(self) -> int:
        return os.dup(self._terminal)

    def run(self, command: Sequence[str], keyboard: int | None) -> int:
        status = self._read_request(b"run", *map(os.fsencode, command))
        if status.startswith(b"!"):
            number = int(status[1:])
            raise OSError(number, os.strerror(number), command[0])
        return int(status)

    def await_foreground(self) -> None:
        self._read_request(b"foreground")

    def stop(self) -> None:
        self._read_request(b"stop")

    def _read_request(self, *words: bytes) -> bytes:
        with self._lock, contextlib.suppress(OSError):
            self._connection.send(b"\0".join(words))
            if reply := self._connection.recv(20):
                return reply
        return b"!%d" % errno.EPIPE  # this process is about to be killed


def _enter_group_of(pid: int) -> None:
    """Enter the control group of a process. Raises `OSError` where that is not permitted."""
    wanted = process_file(pid, "cgroup")
    if wanted == process_file("self", "cgroup"):
        return
    group = next((line[3:] for line in wanted.splitlines() if line.startswith(b"0::")), b"")
    with open(b"/sys/fs/cgroup" + group + b"/cgroup.procs", "wb", 0) as file:  # noqa: PTH123 - as above
        file.write(b"%d" % os.getpid())
    if process_file("self", "cgroup") != wanted:
        raise PermissionError
