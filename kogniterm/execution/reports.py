"""The leader's reports, as they come through its pipe: who ended, and with which status."""

from __future__ import annotations

import contextlib
import os
import select
import threading

from kogniterm.execution.pty import ALL_ENDED, SHELL_ENDED

_A_WHILE = 1.0


class Reports:
    """Reads one leader's reports. Safe to use from several threads.

    `status` is the shell's wait status once it has ended; `last_child` that of the orphan that
    ended last; `gone` means that no process of the command is left.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.status: int | None = None
        self.last_child: int | None = None
        self.gone = False
        self._partial = b""
        self._lock = threading.Lock()

    def read(self) -> None:
        """Take in what has been reported, without waiting."""
        with self._lock:
            if self.gone:
                return
            try:
                data = os.read(self.fd, 1 << 16)
            except BlockingIOError:
                return
            if not data:
                self.gone = True
                return
            *lines, self._partial = (self._partial + data).split(b"\n")
            for line in lines:
                kind, _pid, status = line.decode("ascii").split()
                if kind == ALL_ENDED:
                    self.gone = True
                elif kind == SHELL_ENDED:
                    self.status = int(status)
                else:
                    self.last_child = int(status)

    def wait(self, timeout: float | None) -> None:
        """Wait a while for the next report, at most `timeout` seconds, and take it in.

        Another thread may close the pipe meanwhile, and its number may name something else then:
        so it is never waited for without end.
        """
        with contextlib.suppress(ValueError, OSError):
            select.select(
                [self.fd], [], [], _A_WHILE if timeout is None else min(timeout, _A_WHILE)
            )
        self.read()

    def close(self) -> None:
        """Release the pipe, once; the command then counts as gone."""
        with self._lock:
            self.gone = True
            fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)
