"""The controlling terminal of the user's job, which a warm session reaches through its client.

A warm session was forked by a server and has no controlling terminal: `/dev/tty` is not there for
it, and a program that it starts could not be stopped by Ctrl-Z. So its client, which is in the
shell's job, lends the terminal and starts such programs. A plain start does both by itself.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Protocol


class TerminalClient(Protocol):
    """The process of the shell's job."""

    def open_terminal(self) -> int:
        """Return a new descriptor of the controlling terminal. Raises `OSError`."""

    def run(self, command: Sequence[str], keyboard: int | None) -> int:
        """Run a program of the job to its end; return its exit status. Raises `OSError`."""

    def await_foreground(self) -> None:
        """Return when the job is in the foreground."""


_clients: list[TerminalClient] = []


def use_client(client: TerminalClient) -> None:
    """Reach the terminal through this client from now on."""
    _clients[:] = [client]


def open_terminal() -> int:
    """Return a new descriptor to read the controlling terminal. Raises `OSError`."""
    if _clients:
        return _clients[0].open_terminal()
    return os.open("/dev/tty", os.O_RDONLY | os.O_CLOEXEC)


def run_in_job(command: Sequence[str], keyboard: int | None = None) -> int:
    """Run a program on the user's terminal to its end; return its exit status.

    `keyboard` is its standard input, by default this process's. Raises `OSError`.
    """
    if _clients:
        return _clients[0].run(command, keyboard)
    import subprocess

    return subprocess.run(list(command), stdin=keyboard, check=False).returncode


def await_foreground() -> None:
    """Return when the user's job may use its terminal; the kernel sees to it in a plain start."""
    if _clients:
        _clients[0].await_foreground()
