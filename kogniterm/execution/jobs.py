"""Commands that run on in the background: what earlier commands left, and detached ones."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from pathlib import Path

from kogniterm.errors import ExecutionError
from kogniterm.execution.command import RunningCommand
from kogniterm.execution.output import OutputKeeper, OutputLimits
from kogniterm.execution.processes import descendants, end_tree
from kogniterm.execution.results import exit_code
from kogniterm.types import Job

_MOST_ENDED = 50
"""Ended jobs that stay listed."""
_REPORTED = 30.0
"""Seconds until a leader with nothing left to lead has said so: at once, where it gets its turn."""


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
        self.running.reports.read()
        ended = self.running.reports.gone
        if ended:
            self.running.close()
        else:
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
        reports = self.running.reports
        status = reports.status if self._detached else reports.last_child
        return None if status is None else exit_code(status)

    def wait(self, timeout: float | None) -> None:
        """Return when it has ended or `timeout` seconds have passed."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self.running.reports.gone:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return
            self.running.reports.wait(left)

    def stop(self) -> None:
        """End its tree: TERM, KILL 200 ms later; returns when that has been reported."""
        self.running.reports.read()
        if self.running.reports.gone:
            return  # the number of its leader may be somebody else's by now
        end_tree(self.running.leader)
        if not descendants(self.running.leader):
            self.wait(_REPORTED)

    def send(self, data: bytes) -> None:
        """Type `data` into it."""
        self.running.send_to_job(data)


class JobTable:
    """The jobs of one executor, by id. Safe to use from several threads."""

    def __init__(self, limits: OutputLimits, size: tuple[int, int]) -> None:
        self._limits = limits
        self._size = size
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._jobs: dict[str, BackgroundCommand] = {}

    def adopt(self, command: str, running: RunningCommand, path: Path, *, detached: bool) -> None:
        """Take in what `command` left running, or the command itself when it was detached."""
        name = f"j{next(self._numbers)}"
        job = BackgroundCommand(name, command, running, path, detached=detached)
        with self._lock:
            self._jobs[name] = job
            ended = [key for key, old in self._jobs.items() if old.running.reports.gone]
            for key in ended[:-_MOST_ENDED]:
                del self._jobs[key]

    def all(self) -> tuple[Job, ...]:
        """Every job, oldest first."""
        with self._lock:
            return tuple(job.job() for job in self._jobs.values())

    def read(self, job_id: str) -> str:
        """A job's output as a screen would show it, clipped."""
        job = self._find(job_id)
        keeper = OutputKeeper(None, self._limits, self._size)
        with contextlib.suppress(FileNotFoundError), job.path.open("rb") as file:
            while data := file.read(1 << 20):
                keeper.add(data)
        return keeper.render().text

    def wait(self, job_id: str, timeout: float | None) -> Job:
        """Wait until a job has ended, at most `timeout` seconds."""
        job = self._find(job_id)
        job.wait(timeout)
        return job.job()

    def stop(self, job_id: str) -> Job:
        """End a job's tree."""
        job = self._find(job_id)
        job.stop()
        return job.job()

    def send(self, job_id: str, data: bytes) -> None:
        """Type `data` into a job."""
        self._find(job_id).send(data)

    def keep(self, job_id: str) -> int:
        """Mark a job as one that outlives the executor; returns its leader's pid."""
        job = self._find(job_id)
        job.kept = True
        return job.running.leader

    def close(self) -> bool:
        """Release the descriptors; returns whether any job was kept."""
        with self._lock:
            for job in self._jobs.values():
                job.running.close()
            return any(job.kept for job in self._jobs.values())

    def _find(self, job_id: str) -> BackgroundCommand:
        with self._lock:
            job = self._jobs.get(job_id)
        if job is None:
            raise ExecutionError("There is no job {job}.", job=job_id)
        return job
