"""A session leader and its shell-to-be, forked ahead of need.

Two forks of an interpreter and a new terminal are most of what a command costs. The supervisor
makes them while a command runs or nothing does, and hands the executor all there is to them: the
terminal, the pipe of the reports, and the channel on which the shell-to-be waits for its order.
The next command then takes one message. The shell-to-be ends when its channel closes, and both
end with the supervisor, so that nothing is left of them when it is killed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket

from kogniterm.execution import pty, wire

# Set here and not imported: the supervisor starts in half the time without `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

STATUSES = "statuses"
"""The folder in the executor's private one where exit codes of background processes are noted."""
_LONGEST_ERROR = 4096
CANNOT_START = 71
"""How the shell-to-be ends when it cannot become the shell: EX_OSERR of sysexits.h."""
_SIZE = (24, 80)


class Standby:
    """What waits for one command, as the supervisor made it."""

    def __init__(self, statuses: str, outlives: str) -> None:
        """Fork; raises OSError or pty.SpawnError."""
        leading = pty.Leading(os.getpid(), statuses, outlives)
        channel, theirs = socket.socketpair()
        self.reports, report = os.pipe()
        try:
            self.leader, self.master = pty.open_terminal(
                lambda: _stand_by(theirs, report, leading), (theirs.fileno(), report), _SIZE
            )
        except (OSError, pty.SpawnError):
            channel.close()
            os.close(self.reports)
            raise
        finally:
            theirs.close()
            os.close(report)
        self.channel = channel.detach()

    def handed_on(self) -> None:
        """Close what is the executor's alone from now on."""
        os.close(self.channel)
        os.close(self.reports)


def complaint(channel: socket.socket) -> str:
    """Why it could not become the shell; to be asked after it has ended with CANNOT_START."""
    with contextlib.suppress(OSError):
        channel.setblocking(False)
        return channel.recv(_LONGEST_ERROR).decode("utf-8", "replace")
    return ""


def _stand_by(channel: socket.socket, report: int, leading: pty.Leading) -> NoReturn:
    """In the session leader: fork the shell-to-be, then lead. Never returns."""
    try:
        pty.become_leader(leading.supervisor)
        leader = os.getpid()
        pty.set_output_processing(0, on=False)
        shell = os.fork()
        if shell:
            pty.lead(shell, report, leading)
        pty.die_with(leader)
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        pty.default_signals()
        pty.close_all_but(0, 1, 2, channel.fileno())
        _execute_when_ordered(channel)
    finally:
        os._exit(CANNOT_START)


def _execute_when_ordered(channel: socket.socket) -> None:
    """Become the shell of the next message: `argv` with `env` in `cwd`.

    `real` is what `cwd` must be without links: what it was when the command was judged.
    Before it there may be one with descriptors: `numbers` are what they are to be here,
    `terminals` those that are to be the terminal.
    """
    try:
        received = wire.receive(channel)
        if received is not None and "numbers" in received[0]:
            what, fds = received
            channel = _place(channel, fds, what["numbers"], what["terminals"])
            received = wire.receive(channel)
        if received is None:
            return
        what, _fds = received
        os.chdir(what["cwd"])
        if what["real"] not in (None, os.getcwd()):  # noqa: PTH109 - pathlib loads slowly
            raise OSError(errno.ESTALE, "the folder is another one now", what["cwd"])
        pty.live_on()
        os.execve(what["argv"][0], what["argv"], what["env"])
    except (OSError, ValueError) as error:
        channel.sendall(str(error).encode("utf-8", "replace")[:_LONGEST_ERROR])


def _place(
    channel: socket.socket, fds: list[int], numbers: list[int], terminals: list[int]
) -> socket.socket:
    """Give the descriptors the numbers they had in the shell before; returns the channel, moved."""
    above = max((*numbers, *terminals)) + 1
    moved = fcntl.fcntl(channel.fileno(), fcntl.F_DUPFD_CLOEXEC, above)
    os.close(channel.detach())
    pty.renumber(fds, numbers, above)
    for number in terminals:
        os.dup2(0, number)
    return socket.socket(fileno=moved)
