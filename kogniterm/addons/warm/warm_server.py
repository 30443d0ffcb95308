"""The warm server: loads the libraries, and forks a session for each client.

    python -P -m kogniterm.addons.warm.warm_server SOCKET [SECONDS]

It reads no settings, no key and no file of a project: it imports modules, and its environment holds
the home and the locale alone. It never reads a word of a client, so no client can hold it up.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from kogniterm.addons.warm.warm_place import address, is_private
from kogniterm.host.langsmith_stand_in import keep_out
from kogniterm.host.processes import process_file

IDLE_SECONDS = 20 * 60
"""Seconds without a session after which the server ends."""
WAITING = 32
"""Clients that may wait; one more is told at once that the server is busy."""
PRELOADED = (
    "kogniterm.cli.main",
    "kogniterm.cli.open_prompt",
    "kogniterm.cli.text_output",
    "kogniterm.cli.user_screen",
    "kogniterm.addons.warm.warm_session",
    "kogniterm.ui.prompt.terminal_front",
    "kogniterm.runtime.assembly",
    "kogniterm.approval.analysis.analyser",
    "kogniterm.approval.analysis.footprint",
    "kogniterm.approval.analysis.same_command",
    "kogniterm.approval.analysis.sandbox_failures",
)
"""Modules that lead to most of what a turn imports. The rest, and the client libraries of the
providers, would take more memory than a server may have that perhaps waits in vain."""
_SAMPLE = "I always do this with asthma. password=0 ghp_0 00000000:AA"
"""Text that has the patterns made that turns need: it begins like what each of them looks for."""
_PEER = struct.Struct("3i")
"""The process, the user and the group at the other end, as the kernel noted them."""
_STATUS = (
    b"Uid", b"Gid", b"Groups", b"Cap", b"NoNewPrivs", b"Seccomp", b"Cpus_allowed", b"Mems_allowed",
    b"TracerPid",
)  # fmt: skip
"""Beginnings of lines of `/proc/PID/status` in which a client may not differ from its session."""
_FILES = ("limits", "attr/current", "loginuid", "sessionid", "oom_score_adj", "personality")
"""Files of `/proc/PID` in which they may not; not every kernel has each."""


def main(path: str, idle: float = IDLE_SECONDS) -> int:
    """Serve at the socket `path` until there was no session for `idle` seconds."""
    folder = Path(path).parent
    if address(str(folder)) != path:
        return 1
    os.umask(0o077)
    folder.mkdir(exist_ok=True)
    if not is_private(str(folder)):
        return 1
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:  # another one serves here, or is about to
        return 0
    os.ftruncate(lock, 0)
    os.write(lock, b"%d" % os.getpid())
    Path(path).unlink(missing_ok=True)  # of the one before
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    _serve(listener, lock, idle)
    return 0


def _serve(listener: socket.socket, lock: int, idle: float) -> None:
    files = _load()
    stamps = _stamps(files)
    from kogniterm.addons.warm.warm_session import be_session

    # What a fork shares stays shared only as long as nobody writes to it.
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for sessions
    listener.listen(WAITING)
    server, ends = os.getpid(), time.monotonic() + idle
    while (left := ends - time.monotonic()) > 0:
        listener.settimeout(left)
        # Without room for one more descriptor or process, the client starts by itself.
        with suppress(OSError), listener.accept()[0] as connection:
            peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
            client = _PEER.unpack(peer)[0]
            if list(_state("self")) != list(_state(client)):
                continue
            ends = time.monotonic() + idle
            if os.fork() == 0:
                os.close(lock)
                listener.close()
                be_session(connection, client, server, lambda: _stamps(files) == stamps)


def _state(pid: int | str) -> Iterator[object]:
    """Yield what a session has from the server and must have in common with its client.

    These are rights, namespaces, limits and scheduling. Raises `OSError` where it may not be read.
    """
    for line in process_file(pid, "status").splitlines():
        if line.startswith(_STATUS):
            yield line
    for name in _FILES:
        with suppress(OSError):  # a kernel without a security module has no label
            yield process_file(pid, name)
    folder = Path(f"/proc/{pid}")
    for link in (folder / "root", *sorted((folder / "ns").iterdir())):
        yield link.readlink()
    number = 0 if pid == "self" else int(pid)
    yield os.sched_getscheduler(number), os.getpriority(os.PRIO_PROCESS, number)


def _load() -> str:
    """Import the libraries; return the names of all files that this depends on, with NUL between.

    It is one string, because to use the names that the modules have would copy the memory around
    them in every session.
    """
    from kogniterm.prompts import shipped

    gc.disable()
    keep_out()
    for module in PRELOADED:
        importlib.import_module(module)
        gc.collect()
    _prepare()
    gc.collect()
    package = Path(sys.modules["kogniterm"].__file__ or "").parent
    modules = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    own = [file for file in package.rglob("*.*") if file.suffix != ".pyc"]
    prompts = [file.path for file in shipped().values()]
    return "\0".join(
        {str(one) for one in (*modules, *own, *prompts, *sys.path, sys.executable) if one}
    )


def _prepare() -> None:
    """Do once what each session would do again: schemas of tools and patterns."""
    from kogniterm.memory import statements
    from kogniterm.memory.extraction import preference_statements
    from kogniterm.memory.forgetter import forget_request
    from kogniterm.memory.sensitive_topics import personal_kind
    from kogniterm.text.redact import find_secrets
    from kogniterm.tools.tool_registry import listed_tools

    listed_tools()
    preference_statements.preferences_in(_SAMPLE)
    statements.find_statements(_SAMPLE)
    forget_request(_SAMPLE)
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


if __name__ == "__main__":
    if os.fork() == 0:  # whoever started the server has nothing to wait for
        sys.exit(main(sys.argv[1], *map(float, sys.argv[2:])))
