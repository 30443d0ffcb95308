"""Try what a sandbox must refuse, from inside it; print a line for each attempt that succeeded.

One of them may succeed: `own_sockets`, a connection to a local socket of its own.

Run as a file by a bare interpreter: `attempts.py INSIDE OUTSIDE PORT PROCESS BEGAN`. INSIDE is the
workspace, OUTSIDE a home with a secret and a listening socket, PORT one that the machine listens
to, PROCESS one of the machine that began at the clock tick BEGAN. The last line is `done`.
"""

from __future__ import annotations

import _socket  # `socket` takes longer to load than all attempts take
import ctypes
import os
import sys

# Set here and not imported: this is started with every session.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_MS_REMOUNT, _MS_BIND = 32, 4096
_NOTHING = 0
DONE = "done"


def main(inside: str, outside: str, port: str, process: str, began: str) -> None:
    """Make every attempt; nothing of it changes the machine but an empty file in OUTSIDE."""
    tries: dict[str, Callable[[], None]] = {
        "write": lambda: _write(f"{outside}/written"),
        "remount": lambda: _remount(f"{outside}/written"),
        "secret": lambda: _read(f"{outside}/.ssh/key"),
        "git": lambda: _write(f"{inside}/.git/config"),
        "socket": lambda: _connect(outside),
        "network": lambda: _reach(int(port)),
        "signal": lambda: _signal(int(process), began),
        "kernel": _kernel,
        "own_sockets": lambda: _connect_to_itself(inside),
    }
    _write(f"{inside}/yes")
    for name, attempt in tries.items():
        try:
            attempt()
        except OSError:
            continue
        os.write(1, f"{name}\n".encode())
    os.write(1, DONE.encode())


def _write(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))


def _read(path: str) -> None:
    if not os.read(os.open(path, os.O_RDONLY), 1):
        raise FileNotFoundError(path)


def _remount(path: str) -> None:
    ctypes.CDLL(None).mount(b"none", b"/", None, _MS_REMOUNT | _MS_BIND, None)
    _write(path)


def _connect(folder: str) -> None:
    os.chdir(folder)  # the address of a socket is short
    _socket.socket(_socket.AF_UNIX).connect("s")


def _connect_to_itself(folder: str) -> None:
    os.chdir(folder)
    listener = _socket.socket(_socket.AF_UNIX)
    listener.bind("s")
    listener.listen()
    _socket.socket(_socket.AF_UNIX).connect("s")


def _reach(port: int) -> None:
    _socket.socket(_socket.AF_INET).connect(("127.0.0.1", port))


def _signal(process: int, began: str) -> None:
    os.kill(process, _NOTHING)
    line = os.read(os.open(f"/proc/{process}/stat", os.O_RDONLY), 4096)
    # Of this sandbox's own processes, one may have the same number.
    if line.rpartition(b")")[2].split()[19] != began.encode():
        raise ProcessLookupError(process)


def _kernel() -> None:
    if os.geteuid() != 0:
        raise PermissionError
    os.close(os.open("/proc/sys/vm/swappiness", os.O_WRONLY))


if __name__ == "__main__":
    main(*sys.argv[1:])
