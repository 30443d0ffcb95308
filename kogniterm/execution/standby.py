"""A session leader and its shell-to-be, forked ahead of need.

Two forks of an interpreter and a new terminal are most of what a command costs. The supervisor
makes them while a command runs or nothing does; the next command then only has to be executed.
Both processes wait on a channel of their own and end when it closes, so that a supervisor which
is killed leaves none of them behind.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket

from kogniterm.execution import pty, wire

# Set here and not imported: the supervisor starts in half the time without `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_LONGEST_ERROR = 4096
_CANNOT_START = 71
"""EX_OSERR of sysexits.h."""
_SIZE = (24, 80)


class Standby:
    """What waits for one command. Use it once: `start` or `discard`."""

    def __init__(self) -> None:
        """Fork; raises OSError or pty.SpawnError."""
        self._leader_channel, leader_end = socket.socketpair()
        self._shell_channel, shell_end = socket.socketpair()
        try:
            self.leader, self.master = pty.open_terminal(
                lambda: _stand_by(leader_end, shell_end),
                (leader_end.fileno(), shell_end.fileno()),
                _SIZE,
            )
        except (OSError, pty.SpawnError):
            self._close()
            raise
        finally:
            leader_end.close()
            shell_end.close()

    def start(self, request: pty.SpawnRequest) -> tuple[int, int]:
        """Start the command; returns (the leader's pid, the terminal's master descriptor).

        Raises pty.SpawnError when the program cannot be executed or the folder entered, and
        OSError when the processes are gone; neither leaves anything behind.
        """
        order = {
            "argv": request.argv,
            "env": request.env,
            "cwd": request.cwd,
            "output_processing": request.output_processing,
        }
        try:
            self._must_be_whole()
            pty.set_size(self.master, request.rows, request.columns)
            wire.send(self._leader_channel, {"statuses": request.statuses}, (request.report,))
        except OSError:
            self.discard()
            raise
        error = b""
        # From here on the leader tells what becomes of the shell: it must not be started twice.
        with contextlib.suppress(OSError):
            wire.send(self._shell_channel, order)
            # Execution closes the other end; an error is written to it.
            error = self._shell_channel.recv(_LONGEST_ERROR)
        self._close()
        if error:
            os.close(self.master)
            raise pty.SpawnError(error.decode("utf-8", "replace"))
        return self.leader, self.master

    def _must_be_whole(self) -> None:
        """Raise OSError when one of the two is gone; neither says anything before its order."""
        if select.select([self._leader_channel, self._shell_channel], [], [], 0)[0]:
            raise ConnectionResetError

    def discard(self) -> None:
        """End both processes and wait until they are gone."""
        self._close()
        os.close(self.master)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.leader, 0)

    def _close(self) -> None:
        self._leader_channel.close()
        self._shell_channel.close()


def _stand_by(leader_channel: socket.socket, shell_channel: socket.socket) -> NoReturn:
    """In the session leader: fork the shell-to-be, then wait for the order. Never returns."""
    try:
        pty.become_leader()
        shell = os.fork()
        if shell:
            pty.close_all_but(0, leader_channel.fileno())
            _lead_when_ordered(leader_channel, shell)
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        pty.default_signals()
        pty.close_all_but(0, 1, 2, shell_channel.fileno())
        _execute_when_ordered(shell_channel)
    finally:
        os._exit(_CANNOT_START)


def _lead_when_ordered(channel: socket.socket, shell: int) -> None:
    received = wire.receive(channel)
    if received is None:
        os.kill(shell, signal.SIGKILL)
        os.waitpid(shell, 0)
        os._exit(0)
    message, fds = received
    pty.lead(shell, fds[0], message["statuses"])


def _execute_when_ordered(channel: socket.socket) -> None:
    received = wire.receive(channel)
    if received is None:
        return
    order, _fds = received
    try:
        if order["output_processing"] is False:
            pty.set_output_processing(0, on=False)
        os.chdir(order["cwd"])
        os.execve(order["argv"][0], order["argv"], order["env"])
    except (OSError, ValueError) as error:
        channel.sendall(str(error).encode("utf-8", "replace")[:_LONGEST_ERROR])
