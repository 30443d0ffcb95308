"""Commands that run on in the background: what earlier commands left, and detached ones."""

from __future__ import annotations

import os
import time
from pathlib import Path

from kogniterm.execution.command import RunningCommand
from kogniterm.execution.processes import descendants, end_tree
from kogniterm.types import Job


def exit_code(status: int) -> int:
    """A shell's view of a wait status: the code, or 128 plus the signal's number."""
    if os.WIFSIGNALED(status):
        return 128 + os.WTERMSIG(status)
    return os.WEXITSTATUS(status)


class BackgroundCommand:
    """A job: the supervisor drains its terminal into its file; here it is asked and told."""

    def __init__(
        self, name: str, command: str, running: RunningCommand, path: Path, *, detached: bool
    ) -> None:
        self.id = name
        self.command = command
        self.path = path
        self.running = running
        self.started = time.time() - (time.monotonic() - running.started)
        self.kept = False
        self._detached = detached
        self._pids = tuple(state.pid for state in descendants(running.leader))

    def job(self) -> Job:
        """What is known of it now."""
        self.running.read_reports()
        ended = self.running.gone
        if not ended:
            self._pids = tuple(state.pid for state in descendants(self.running.leader))
        return Job(
            self.id,
            self.command,
            "ended" if ended else "running",
            self._pids,
            self.started,
            self._exit_code() if ended else None,
            str(self.path),
        )

    def _exit_code(self) -> int | None:
        """The detached shell's code, or that of the process that ended last."""
        if self._detached and self.running.status is not None:
            return exit_code(self.running.status)
        statuses = list(self.running.child_statuses.values())
        return exit_code(statuses[-1]) if statuses else None

    def wait(self, timeout: float | None) -> None:
        """Return when it has ended or `timeout` seconds have passed."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self.running.gone:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return
            self.running.await_report(left)

    def stop(self) -> None:
        """End its tree: TERM, KILL 200 ms later."""
        end_tree(self.running.leader)
        self.running.read_reports()

    def send(self, data: bytes) -> None:
        """Type `data` into it."""
        self.running.outgoing.send(data)
