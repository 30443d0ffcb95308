"""The warm server: loads the libraries, and forks a session for each client.

    python -P -m kogniterm.addons.warm.warm_server LOCK SOCKET [CLIENT …]

CLIENT is a client library that was used before. The server reads no settings, key or file of a
project: it imports modules, and its environment holds the home, the locale and what the interpreter
reads. It never reads a word of a client, so no client can hold it up.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from kogniterm.addons.warm.warm_place import socket_name
from kogniterm.host.processes import process_file
from kogniterm.host.stand_ins import keep_out

IDLE_SECONDS = 20 * 60
"""Seconds without a session after which the server ends."""
LOOK_SECONDS = 60
"""Seconds between two looks whether its folder is still there."""
WAITING = 32
"""Clients that may wait; one more is told at once that the server is busy."""
PRELOADED = (
    "kogniterm.cli.main",
    "kogniterm.cli.open_prompt",
    "kogniterm.cli.text_output",
    "kogniterm.cli.user_screen",
    "kogniterm.addons.warm.warm_session",
    "kogniterm.ui.prompt.terminal_front",
    "kogniterm.approval.analysis.analyser",
    "kogniterm.approval.analysis.footprint",
    "kogniterm.approval.analysis.same_command",
    "kogniterm.approval.analysis.sandbox_failures",
)
"""Modules that lead, with `FIRST_TURN`, to most that a turn imports; the rest takes much memory."""
_SAMPLE = "I always do this with asthma. password=0 ghp_0 00000000:AA"
"""Text that has the patterns made that turns need: it begins like what each of them looks for."""
_PEER = struct.Struct("3i")
"""The process, the user and the group at the other end, as the kernel noted them."""

_INHERITED = (
    b"Uid", b"Gid", b"Groups", b"Cap", b"NoNewPrivs", b"Seccomp", b"Cpus_allowed", b"Mems_allowed",
    b"TracerPid",
)  # fmt: skip
"""Beginnings of lines of `/proc/PID/status` about what a process has from its parent."""
_INHERITED_FILES = (
    "limits", "attr/current", "loginuid", "oom_score_adj", "personality",
)  # fmt: skip
"""Such files of `/proc/PID`; not every kernel has each. Each login has another `sessionid`, so it
is none of them."""


def main(lock: int, bound: int, clients: Sequence[str], idle: float = IDLE_SECONDS) -> None:
    """Serve at the socket `bound` until there was no session for `idle` seconds.

    `clients` are of `CLIENT_LIBRARIES`, and loaded too. Both descriptors are from `warm_start`; the
    process holds the lock.
    """
    os.umask(0o077)
    os.pwrite(lock, b"%-9d" % os.getpid(), 0)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, bound)
    if Path(os.fsdecode(listener.getsockname())).name == socket_name():
        _serve(listener, lock, clients, idle)


def _serve(listener: socket.socket, lock: int, clients: Sequence[str], idle: float) -> None:
    files = _load(clients)
    stamps = _stamps(files)
    from kogniterm.addons.warm.warm_session import be_session

    # What a fork shares stays shared only as long as nobody writes to it.
    gc.freeze()
    # A child does not have the pages of files that loading read: a tenth of the memory.
    if os.fork():
        os._exit(0)
    os.pwrite(lock, b"%-9d" % os.getpid(), 0)  # over a longer number too
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for sessions
    listener.listen(WAITING)
    server, ends = os.getpid(), time.monotonic() + idle
    # It ends too when its folder is gone, as that of a home that was made for one call.
    while (left := ends - time.monotonic()) > 0 and os.fstat(lock).st_nlink:
        listener.settimeout(min(left, LOOK_SECONDS))
        # Without room for one more descriptor or process, the client starts by itself.
        with suppress(OSError), listener.accept()[0] as connection:
            peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
            client = _PEER.unpack(peer)[0]
            if list(_inherited_state("self")) != list(_inherited_state(client)):
                continue
            ends = time.monotonic() + idle
            if os.fork() == 0:
                os.close(lock)
                listener.close()
                be_session(connection, client, server, lambda: _stamps(files) == stamps)


def _load(clients: Sequence[str]) -> str:
    """Import the libraries; return the names of all files that this depends on, with NUL between.

    It is one string, because to use the names that the modules have would copy the memory around
    them in every session.
    """
    from kogniterm.prompts import shipped_files
    from kogniterm.runtime.build import FIRST_TURN

    gc.disable()
    keep_out()
    for module in (*PRELOADED, *FIRST_TURN, *clients):
        importlib.import_module(module)
        gc.collect(0)
    _prepare()
    package = Path(sys.modules["kogniterm"].__file__ or "").parent
    modules = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    own = [file for file in package.rglob("*.*") if file.suffix != ".pyc"]
    prompts = [file.path for file in shipped_files().values()]
    return "\0".join(
        {str(one) for one in (*modules, *own, *prompts, *sys.path, sys.executable) if one}
    )


def _prepare() -> None:
    """Do once what each session would do again: schemas of tools and patterns."""
    from kogniterm.memory import preference_statements, statements
    from kogniterm.memory.sensitive_topics import personal_kind
    from kogniterm.text.redact import find_secrets
    from kogniterm.tools.tool_registry import listed_tools

    listed_tools()
    preference_statements.preferences_in(_SAMPLE)
    statements.find_statements(_SAMPLE)
    statements.forget_request(_SAMPLE)
    find_secrets(_SAMPLE)
    personal_kind(_SAMPLE)


def _stamps(files: str) -> list[object]:
    """Return what tells whether a file has changed since it was loaded."""
    stamps = list[object]()
    for file in files.split("\0"):
        with suppress(OSError):  # then there are fewer stamps
            found = os.stat(file)  # noqa: PTH116  # pathlib doubles the time of a start's check
            stamps.append((found.st_ino, found.st_size, found.st_mtime_ns))
    return stamps


def _inherited_state(pid: int | str) -> Iterator[object]:
    """Yield what a process has from its parent: rights, namespaces, limits and scheduling.

    Raises `OSError` where it may not be read.
    """
    for line in process_file(pid, "status").splitlines():
        if line.startswith(_INHERITED):
            yield line
    for name in _INHERITED_FILES:
        with suppress(OSError):  # a kernel without a security module has no label
            yield process_file(pid, name)
    folder = f"/proc/{pid}"
    for link in ("root", *(f"ns/{name}" for name in sorted(os.listdir(f"{folder}/ns")))):  # noqa: PTH208 - as above
        yield os.readlink(f"{folder}/{link}")  # noqa: PTH115 - as above
    number = 0 if pid == "self" else int(pid)
    yield os.sched_getscheduler(number), os.getpriority(os.PRIO_PROCESS, number)


if __name__ == "__main__":
    if os.fork() == 0:  # whoever started the server has nothing to wait for
        main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
