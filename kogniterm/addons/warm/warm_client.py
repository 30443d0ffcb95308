"""The process that the shell started: it hands itself over to a warm session and waits for it.

It stays in the shell's job, so signals, Ctrl-Z, `fg` and the exit status are those of a plain
start. Everything that is not as usual makes `attempt` return None, and the start is a plain one.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` takes as long as the whole hand-over
import _socket
import os
import select
import sys
from array import array

from kogniterm.addons.warm import warm_place as place

TYPE_CHECKING = False  # as in `typing`, which is not loaded before the hand-over
if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = 0.3
"""Seconds that a server may take to answer at all: one that is stopped must delay nobody."""
READINESS = 1.5
"""Seconds that a session may take to be ready after that; a plain start would take longer."""
_ENDING = (_signal.SIGHUP, _signal.SIGINT, _signal.SIGQUIT, _signal.SIGTERM)
_STOPPING = (_signal.SIGTSTP, _signal.SIGTTIN, _signal.SIGTTOU)
"""Signals whose effect on a plain process the session has too, as it has of SIGWINCH. All others
end the client or nothing."""


def around_call(argv: list[str], run: Callable[[], int]) -> int:
    """Give the call to a warm server; without one, run it here and start one for the next."""
    if not place.may_be_warm(argv):
        return run()
    status = _attempt()
    if status is None:
        status = run()
        from kogniterm.addons.warm.warm_start import start_for_next_call

        start_for_next_call()
    return status


def _attempt() -> int | None:
    """Run this command line in a warm session; None where it has to be run in this process."""
    folder = place.open_private(place.socket_folder(os.environ) or "")
    if folder is None:
        return None
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        terminal = -1
    # The kernel kills the session when `lifeline` is closed: at the end of this process.
    watched, lifeline = os.pipe()
    try:
        session = _hand_over(connection, folder, terminal, watched)
    except OSError:
        session = 0
    os.close(folder)
    os.close(watched)
    if session:
        return _Client(connection, session, terminal).serve()
    connection.close()
    os.close(lifeline)
    if terminal != -1:
        os.close(terminal)
    return None


def _hand_over(connection: _socket.socket, folder: int, terminal: int, watched: int) -> int:
    """Return the process ID of a session that waits to begin; 0 if there is none.

    Raises `OSError`.
    """
    connection.settimeout(PATIENCE)
    connection.connect(place.below(folder, place.socket_name()))
    # A server of a file system may have made of the socket's name a link to another's.
    peer = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)
    if int.from_bytes(peer[4:8], sys.byteorder) != os.geteuid():
        return 0
    # Descriptors are given only to a session that is there to take them: in the queue of a server
    # that hangs, they would keep the reader of a pipe waiting.
    session = int(connection.recv(20) or b"0")
    if not session:
        return 0
    os.umask(mask := os.umask(0o077))
    argv = [os.fsencode(word) for word in sys.argv]
    environ = [b"%b=%b" % pair for pair in os.environb.items()]
    request = (place.start_key(), b"%d" % mask, b"%d" % len(argv), *argv, *environ)
    passed = array("i", [0, 1, 2, watched] + [terminal] * (terminal != -1))
    connection.settimeout(READINESS)
    connection.sendmsg([b"\0".join(request)], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, passed)])
    return session if connection.recv(20) == place.READY else 0


class _Client:
    """The client of one session: passes signals on, stops with it, and runs its editor."""

    def __init__(self, connection: _socket.socket, session: int, terminal: int) -> None:
        self._connection, self._session, self._terminal = connection, session, terminal
        self._program = 0
        self._ended_by = int(_signal.SIGKILL)
        self._signals, written = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        for number in (*_ENDING, *_STOPPING, _signal.SIGWINCH, _signal.SIGCHLD):
            _signal.signal(number, _note)
        _signal.set_wakeup_fd(written, warn_on_full_buffer=False)

    def serve(self) -> int:
        """Let the session begin, and return its exit status. Dies as the session dies."""
        self._connection.settimeout(None)
        self._say(place.GO)
        poll = select.poll()
        poll.register(self._signals, select.POLLIN)
        poll.register(self._connection.fileno(), select.POLLIN)
        status = None
        while True:
            ready = {descriptor for descriptor, _events in poll.poll()}
            if self._signals in ready:
                for number in os.read(self._signals, 4096):
                    self._handle(number)
            if self._connection.fileno() in ready:
                try:
                    word = self._connection.recv(place.LARGEST)
                except OSError:
                    word = b""
                if not word:  # the session has ended
                    return self._die() if status is None else status
                if word.isdigit():
                    status = int(word)
                else:
                    self._do(word)

    def _handle(self, number: int) -> None:
        if number == _signal.SIGCHLD:
            pid, status = os.waitpid(self._program, os.WNOHANG) if self._program else (0, 0)
            if pid:
                self._program = 0
                self._say(b"%d" % os.waitstatus_to_exitcode(status))
        elif number in _STOPPING:
            self._stop(number, os.getpid())
        else:
            if number in _ENDING:
                self._ended_by = number
            self._signal(number)

    def _do(self, word: bytes) -> None:
        """Do what the session asks for."""
        what, *argv = word.split(b"\0")
        if what == b"run":
            self._run(argv)
            return
        if what == b"stop":
            self._stop(_signal.SIGTSTP, 0)
        elif what == b"foreground":
            self._await_foreground()
        self._say(b"0")

    def _stop(self, number: int, process: int) -> None:
        """Stop the session, and this process or its whole job (0), until that is continued."""
        self._signal(_signal.SIGSTOP)
        _signal.signal(number, _signal.SIG_DFL)
        os.kill(process, number)
        _signal.signal(number, _note)
        if process == 0:  # the session reads keys
            self._await_foreground()
        self._signal(_signal.SIGCONT)

    def _await_foreground(self) -> None:
        """Return when this job may use its terminal: the kernel stops it for this call."""
        _signal.signal(_signal.SIGTTOU, _signal.SIG_DFL)
        try:  # noqa: SIM105  # as below
            os.tcsetpgrp(self._terminal, os.getpgrp())
        except OSError:  # there is no terminal, nobody could continue this job, or it shall end
            pass
        _signal.signal(_signal.SIGTTOU, _note)

    def _run(self, argv: list[bytes]) -> None:
        """Start a program of this job: only that may own the terminal, as an editor has to."""
        keyboard = [] if os.isatty(0) else [(os.POSIX_SPAWN_DUP2, self._terminal, 0)]
        try:
            self._program = os.posix_spawn(
                argv[0], argv, os.environ, file_actions=keyboard, setsigdef=place.UNTOLD
            )
        except OSError as error:
            self._say(b"!%d" % (error.errno or 0))

    def _signal(self, number: int) -> None:
        """Send the session a signal; one of a terminal also to what it started in its group."""
        send = os.kill if number == _signal.SIGTERM else os.killpg
        try:  # noqa: SIM105  # contextlib takes as long as all of this
            send(self._session, number)
        except ProcessLookupError:
            pass  # its end is read from the connection

    def _say(self, word: bytes) -> None:
        try:  # noqa: SIM105  # as above
            self._connection.send(word)
        except OSError:
            pass  # as above

    def _die(self) -> int:
        """End by the signal that ended the session: one that was passed on, or as if killed."""
        if self._ended_by != _signal.SIGKILL:
            _signal.signal(self._ended_by, _signal.SIG_DFL)
        os.kill(os.getpid(), self._ended_by)
        return 128 + self._ended_by


def _note(_number: int, _frame: object) -> None:
    """Do nothing: the number is in the pipe of signals."""
