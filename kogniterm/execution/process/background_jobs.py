"""Commands that run on in the background: what earlier commands left, and detached ones."""

from __future__ import annotations

import contextlib
import itertools
import shlex
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kogniterm.errors import ExecutionError
from kogniterm.execution.command_output import OutputKeeper, OutputLimits
from kogniterm.execution.process.outliving import outliving
from kogniterm.execution.process.running_command import RunningCommand, exit_code
from kogniterm.host.processes import descendants, end_tree
from kogniterm.types import Job, JobFate, LeftRunning

_MOST_ENDED = 50
"""Ended jobs that stay listed."""
_LOOK = 0.1
"""Seconds between looks whether a job wants input."""
_REPORTED = 30.0
"""Seconds until a leader with nothing left to lead has said so: at once, where it gets its turn."""


class BackgroundCommand:
    """A job: the supervisor drains its terminal into its file; here it is asked and told.

    `wrapped` is whether it runs in a sandbox, `detached` whether its shell runs on. `outlives` is
    what its executor lets outlive it, `statuses` the folder of exit codes.
    """

    def __init__(
        self,
        id: str,
        command: str,
        running: RunningCommand,
        path: Path,
        wrapped: bool,
        detached: bool,
        outlives: str,
        statuses: str,
    ) -> None:
        self.id, self.command, self.running, self.path = id, command, running, path
        self.wrapped, self.detached, self.kept = wrapped, detached, False
        self.outlives, self.statuses = outlives, statuses
        self.started = time.time() - (time.monotonic() - running.started)
        self.end_returned = False
        """True once a caller has learned that it ended."""
        self._pids: tuple[int, ...]
        self._fate: JobFate
        self._look()

    def _look(self) -> None:
        """Note what runs below its leader, and what becomes of that when the executor ends."""
        leader = self.running.leader
        states = descendants(leader)
        self._pids = tuple(state.pid for state in states)
        if self.wrapped:
            self._fate = "sandbox"
        elif self.kept:
            self._fate = "kept"
        else:
            stays = outliving(states, leader, self.outlives, self.statuses)
            self._fate = "detached" if stays else "ends"

    def job(self) -> Job:
        """Return its present state."""
        self.running.reports.read()
        ended = self.running.reports.gone
        if ended:
            self.running.close()
        else:
            self._look()
        return Job(
            self.id,
            self.command,
            "ended" if ended else "running",
            self._pids,
            self.started,
            self._exit_code() if ended else None,
            str(self.path),
            self._fate,
        )

    def _exit_code(self) -> int | None:
        """Return the detached shell's code, or that of what the shell left; None if unknown."""
        reports = self.running.reports
        status = reports.status if self.detached else reports.left
        return None if status is None else exit_code(status)

    def wait(self, timeout: float | None) -> None:
        """Return when it has ended or `timeout` seconds have passed."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self.running.reports.gone:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return
            self.running.reports.wait(left)

    def settle(self, seconds: float, sync: Callable[[], object]) -> None:
        """Return when it has ended, or wants input and writes no more, or `seconds` have passed."""
        deadline, size = time.monotonic() + seconds, -1
        while not self.running.reports.gone and time.monotonic() < deadline:
            sync()
            before, size = size, self.size()
            if size == before and self.running.asks():
                return
            self.running.reports.wait(min(_LOOK, max(deadline - time.monotonic(), 0)))

    def size(self) -> int:
        """Return how many bytes it has written."""
        with contextlib.suppress(FileNotFoundError):
            return self.path.stat().st_size
        return 0

    def stop(self) -> None:
        """End its tree: TERM, KILL 200 ms later; returns when that has been reported."""
        self.running.reports.read()
        if self.running.reports.gone:
            return  # the number of its leader may be somebody else's by now
        end_tree(self.running.leader)
        if not descendants(self.running.leader):
            self.wait(_REPORTED)

    def output(self, limits: OutputLimits, size: tuple[int, int], start: int = 0) -> str:
        """Return its output from byte `start` on as a screen would show it, clipped."""
        keeper = OutputKeeper(None, limits, size)
        with contextlib.suppress(FileNotFoundError), self.path.open("rb") as file:
            file.seek(start)
            while data := file.read(1 << 20):
                keeper.add(data)
        return keeper.render().text

    def keep(self) -> int:
        """Mark it as one that outlives the executor; returns its leader's pid.

        Raises ExecutionError when it has ended or runs in a sandbox.
        """
        known = self.job()
        if known.state == "ended":
            raise ExecutionError("Job {job} has ended and cannot be kept.", job=self.id)
        if known.fate == "sandbox":
            raise ExecutionError(
                "Job {job} cannot be kept: it runs in the sandbox, which ends with KogniTerm. "
                "Only commands that the user approves run outside.",
                job=self.id,
            )
        self.kept = True
        return self.running.leader


class JobTable:
    """The jobs of one executor, by id. Safe to use from several threads."""

    def __init__(self, outlives: str, statuses: Path) -> None:
        self._outlives, self._statuses = outlives, str(statuses)
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._jobs: dict[str, BackgroundCommand] = {}

    def adopt(
        self, command: str, running: RunningCommand, path: Path, *, wrapped: bool, detached: bool
    ) -> None:
        """Take in what `command` left running, or the command itself when it was detached."""
        name = f"j{next(self._numbers)}"
        rules = (wrapped, detached, self._outlives, self._statuses)
        job = BackgroundCommand(name, command, running, path, *rules)
        with self._lock:
            self._jobs[name] = job
            ended = [key for key, old in self._jobs.items() if old.running.reports.gone]
            for key in ended[:-_MOST_ENDED]:
                del self._jobs[key]

    def all(self) -> tuple[Job, ...]:
        """Return every job, oldest first."""
        with self._lock:
            return tuple(job.job() for job in self._jobs.values())

    def news(self) -> tuple[Job, ...]:
        """Return the jobs that run, and those whose end nobody has been given yet."""
        with self._lock:
            found = []
            for one in self._jobs.values():
                job = one.job()
                if job.state == "running" or not one.end_returned:
                    found.append(job)
                one.end_returned = job.state == "ended"
            return tuple(found)

    def by_leader(self) -> dict[int, BackgroundCommand]:
        """Return the jobs that have not ended, by their leaders' pids."""
        with self._lock:
            jobs = [job for job in self._jobs.values() if not job.running.reports.gone]
            return {job.running.leader: job for job in jobs}

    @staticmethod
    def find_left(
        told: list[dict[str, Any]], jobs: Mapping[int, BackgroundCommand]
    ) -> tuple[LeftRunning, ...]:
        """Return what the supervisor `told` of processes of `jobs`, as they were."""
        found = {}
        for item in told:
            job = jobs.get(item["leader"])
            if job is None:
                continue  # a prepared shell without a command
            inside, words = item["why"] == "sandbox", item["words"]
            # The words of a detached command's own shell are no words of the user.
            given = inside or (job.detached and words[1:3] == ["--norc", "--noprofile"])
            one = LeftRunning(
                tuple(item["pids"]),
                job.command if given else shlex.join(words),
                item["why"],
                job.id,
                str(job.path) if item["writes"] else None,
            )
            found[(one.job, one.command if inside else one.pids)] = one
        return tuple(found.values())

    def close(self) -> None:
        with self._lock:
            for job in self._jobs.values():
                job.running.close()

    def find(self, job_id: str) -> BackgroundCommand:
        """Return the job of this id. Raises ExecutionError when there is none."""
        with self._lock:
            job = self._jobs.get(job_id)
        if job is None:
            raise ExecutionError("Job {job} not found.", job=job_id)
        return job
