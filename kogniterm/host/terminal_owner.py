"""The user's job, which owns the terminal: this process's, or that of a warm session's client.

A warm session was forked by a server and has no controlling terminal: `/dev/tty` is not there for
it, and a program that it starts could not be stopped by Ctrl-Z. So its client, which is in the
shell's job, hands over the terminal and starts such programs.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence


class TerminalJob:
    """The job of this process: a plain start."""

    def open_terminal(self) -> int:
        """Return a new descriptor to read the controlling terminal. Raises `OSError`."""
        return os.open("/dev/tty", os.O_RDONLY | os.O_CLOEXEC)

    def run(self, command: Sequence[str], keyboard: int | None) -> int:
        """Run a program on the user's terminal to its end; return its exit status.

        `keyboard` is its standard input, by default this process's. Raises `OSError`.
        """
        import subprocess

        return subprocess.run(list(command), stdin=keyboard, check=False).returncode

    def await_foreground(self) -> None:
        """Return when the job may use its terminal; the kernel sees to it in a plain start."""

    def stop(self) -> None:
        """Stop the whole job, and return when it was continued."""
        os.kill(0, signal.SIGTSTP)


_current = [TerminalJob()]


def user_job() -> TerminalJob:
    """Return the job that owns the user's terminal."""
    return _current[0]


def set_user_job(job: TerminalJob) -> None:
    """Reach the terminal through this job from now on."""
    _current[:] = [job]
