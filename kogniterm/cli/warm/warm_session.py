"""A session's process: forked from the server's, it becomes what its client is, and runs it.

It has all that the client handed over or that can be read of it, down to the number of each
descriptor. Only two things differ: its process ID, and that the controlling terminal is its
client's, which `host.terminal_owner` reaches.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import errno
import fcntl
import gc
import io
import locale
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from kogniterm.cli.warm import warm_messages as messages
from kogniterm.cli.warm.peer_state import enter_group
from kogniterm.cli.warm.warm_place import open_descriptors
from kogniterm.errors import KognitermError
from kogniterm.host.terminal_owner import use_client
from kogniterm.settings import environment, quick

_PR_SET_PDEATHSIG = 1
_PYTHON_IGNORES = (signal.SIGPIPE, signal.SIGXFSZ)
_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


class Request(NamedTuple):
    """A client's request. `kinds` are encoding and error handler of each standard stream.

    `descriptors` are those of the folder, of the connection to the client and, perhaps, of the
    terminal; `inherited` are the client's, by the number that each has there.
    """

    key: str
    argv: list[str]
    original_argv: list[str]
    variables: dict[bytes, bytes]
    path: list[str]
    ignored: frozenset[int]
    kinds: list[str]
    character_type: str
    umask: int
    descriptors: list[int]
    inherited: dict[int, int]

    @classmethod
    def parsed(cls, data: bytes, descriptors: list[int]) -> Request:
        """Return the request in a message. Raises `GarbledError`."""
        try:
            key, argv, original, environ, path, numbers, ignored, kinds, ctype, mask, terminal = (
                messages.unpacked(data)
            )
            own = 2 + int(terminal)
            names = [int(number) for number in messages.unpacked(numbers)]
            return cls(
                key=os.fsdecode(key),
                argv=_texts(argv),
                original_argv=_texts(original),
                variables=dict(_pair(one) for one in messages.unpacked(environ)),
                path=_texts(path),
                ignored=frozenset(int(number) for number in messages.unpacked(ignored)),
                kinds=_texts(kinds),
                character_type=os.fsdecode(ctype),
                umask=int(mask),
                descriptors=descriptors[:own],
                inherited=dict(zip(names, descriptors[own:], strict=True)),
            )
        except ValueError as error:
            raise messages.GarbledError from error


def _texts(data: bytes) -> list[str]:
    return [os.fsdecode(one) for one in messages.unpacked(data)]


def _pair(variable: bytes) -> tuple[bytes, bytes]:
    name, _equals, value = variable.partition(b"=")
    return name, value


def be_session(request: Request, client: int, keeper: socket.socket) -> NoReturn:
    """Become the client's process `client`, run its command line, and end with its exit status."""
    status = 1
    try:
        gate = _adopt(request, client, keeper)
        if _may_begin(gate):
            status = _run(request.argv[1:])
    except (OSError, ValueError):
        pass  # refused: the connection to the keeper ends
    finally:
        os._exit(status & 0xFF)


def _may_begin(gate: socket.socket) -> bool:
    """Return whether the client still waits, now that all is ready."""
    with gate:
        with contextlib.suppress(KognitermError):  # wrong settings are told by the session
            if quick(environment()).warm == "off":
                gate.send(bytes([messages.REFUSED]))
                return False
        gate.send(bytes([messages.READY]))
        return gate.recv(1) == bytes([messages.GO])


def _run(argv: Sequence[str]) -> int:
    from kogniterm.cli.main import main

    status = main(argv)
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    # As `multiprocessing` ends its processes: freeing all memory would copy what is shared.
    threading._shutdown()  # type: ignore[attr-defined]  # joins threads and runs what waits for that
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    return status


def _adopt(request: Request, client: int, keeper: socket.socket) -> socket.socket:
    """Take over everything that the client has; return the connection to the keeper.

    Raises `OSError` or `ValueError` where this process may not have it.
    """
    os.setpgid(0, 0)
    _end_with(os.getppid())
    enter_group(client)
    gate, lent = _take_descriptors(request, keeper)
    os.umask(request.umask)
    os.environ.clear()
    os.environb.update(request.variables)
    time.tzset()
    with contextlib.suppress(locale.Error):
        locale.setlocale(locale.LC_CTYPE, request.character_type)
    sys.argv[:], sys.path[:] = request.argv, request.path
    sys.orig_argv[:] = request.original_argv
    _take_signals(request.ignored)
    _open_streams(request.kinds)
    use_client(_JobClient(socket.socket(fileno=lent[0]), lent[1] if lent[1:] else None))
    gc.enable()
    gc.set_threshold(50_000, 10, 10)
    return gate


def _end_with(keeper: int) -> None:
    """Let the kernel kill this process when its keeper is killed."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != keeper:
        raise ProcessLookupError


def _take_descriptors(request: Request, keeper: socket.socket) -> tuple[socket.socket, list[int]]:
    """Give each descriptor its number, and close all that is not the client's.

    Returns the connection to the keeper and the rest of what was lent: connection and terminal.
    """
    above = max(request.inherited, default=2) + 1
    gate, folder, *lent = (
        fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, above)
        for number in (keeper.fileno(), *request.descriptors)
    )
    sources = {
        target: fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, above)
        for target, number in request.inherited.items()
    }
    keeper.detach()
    os.fchdir(folder)
    for target, source in sources.items():
        os.dup2(source, target, inheritable=True)
    kept = {gate, *lent, *sources}
    for number in open_descriptors():
        if number not in kept:
            with contextlib.suppress(OSError):  # the list's own
                os.close(number)
    return socket.socket(fileno=gate), lent


def _take_signals(ignored: frozenset[int]) -> None:
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, *_PYTHON_IGNORES}:
        signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _open_streams(kinds: Sequence[str]) -> None:
    """Open the standard streams as the interpreter does at its start."""
    for number, (name, mode) in enumerate(_STREAMS):
        binary = open(number, f"{mode}b", closefd=False)  # noqa: SIM115  # stays open
        text = io.TextIOWrapper(
            binary,
            kinds[2 * number],
            kinds[2 * number + 1],
            newline=None if mode == "r" else "\n",
            line_buffering=name == "stderr" or os.isatty(number),
        )
        vars(text)["mode"] = mode
        setattr(sys, name, text)
        setattr(sys, f"__{name}__", text)


class _JobClient:
    """Implements `host.terminal_owner.Client` by messages to the client."""

    def __init__(self, connection: socket.socket, terminal: int | None) -> None:
        self._connection, self._terminal = connection, terminal
        self._lock = threading.Lock()

    def open_terminal(self) -> int:
        """Return a new descriptor of the client's controlling terminal. Raises `OSError`."""
        if self._terminal is None:
            raise OSError(errno.ENXIO, os.strerror(errno.ENXIO))
        return fcntl.fcntl(self._terminal, fcntl.F_DUPFD_CLOEXEC, 3)

    def run(self, command: Sequence[str], keyboard: int | None) -> int:
        """Let the client run a program; return its exit status. Raises `OSError`."""
        argv = messages.packed(map(os.fsencode, command))
        environ = messages.packed(b"%b=%b" % pair for pair in os.environb.items())
        folder = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            lent = [folder] if keyboard is None else [folder, keyboard]
            reply = self._asked(messages.packed((b"run", argv, environ)), lent)
        finally:
            os.close(folder)
        if reply.startswith(b"!"):
            number = int(reply[1:])
            raise OSError(number, os.strerror(number), command[0])
        return int(reply)

    def await_foreground(self) -> None:
        """Return when the client's job is in the foreground."""
        with contextlib.suppress(OSError):
            self._asked(messages.packed((b"foreground",)))

    def _asked(self, message: bytes, lent: Sequence[int] = ()) -> bytes:
        with self._lock:
            messages.send(self._connection, message, lent)
            reply = self._connection.recv(32)
        if not reply:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
        return reply
