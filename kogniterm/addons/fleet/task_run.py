"""One start of a task: a child `kogniterm run` in its folder, watched until it ends.

The child is a process group of its own, so that a crash stays with it and a cancelled task ends
whole. It writes to files, not to pipes of the worker: where the worker is killed, it goes on, and
whoever takes the task finds the session open, and later its answer.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from kogniterm import prompts
from kogniterm.addons.fleet.queue_values import QueuedTask, TaskEnd
from kogniterm.addons.fleet.task_workspaces import TaskWorkspaces, Workspace
from kogniterm.errors import EXIT_INTERRUPTED, KognitermError, why
from kogniterm.host.identity import Holder
from kogniterm.host.installation import own_command
from kogniterm.host.processes import process_state
from kogniterm.paths import SessionId
from kogniterm.storage.folders import private_folder
from kogniterm.types import Phrase

GRACE = 10.0
"""Seconds that a cancelled child has to end its command and write its end."""
FIRST_WAIT, LONGEST_WAIT, MOST_WAITS = 60.0, 3600.0, 24
"""Seconds of the first and the longest pause after a refusal without a time, and how many there
are in a row before the task has failed."""
_LONGEST_ARGUMENT = 100_000
"""Bytes; Linux takes 128 kB. A longer task goes in through standard input."""
_TAIL = 4_000


@dataclass(slots=True)
class TaskRun:
    """A child at work on a task. `outputs` is the folder for its two files."""

    task: QueuedTask
    outputs: Path
    workspaces: TaskWorkspaces
    cancelled: bool = False
    handed_over: bool = False
    _process: asyncio.subprocess.Process | None = None
    _began: float = field(default_factory=time.monotonic)

    async def run(self) -> TaskEnd:
        """Start the child in the folder of its task, and wait for its end."""
        private_folder(self.outputs)
        try:
            workspace = await self.workspaces.open(self.task)
        except KognitermError as error:
            return TaskEnd("failed", "not_done", error.exit_code, error.text)
        self.task = workspace.task
        return await self.workspaces.leave(self.task, await self._child(workspace))

    async def _child(self, workspace: Workspace) -> TaskEnd:
        if (stopped := self._stop_reason()) is not None:  # while its folder was made
            return stopped
        given = self._input()
        try:
            with self._file("jsonl") as out, self._file("log") as log:
                self._process = await asyncio.create_subprocess_exec(
                    *own_command(*self._words(given is not None, workspace.note)),
                    cwd=workspace.folder,
                    stdin=given if given is not None else asyncio.subprocess.DEVNULL,
                    stdout=out,
                    stderr=log,
                    start_new_session=True,
                )
        except OSError as error:
            reason = Phrase("The task could not be started: {detail}", {"detail": why(error)})
            return TaskEnd("failed", "not_done", 1, reason)
        finally:
            if given is not None:
                given.close()
        if self.cancelled or self.handed_over:
            self._signal(signal.SIGTERM)
        status = await self._process.wait()
        end = self._end(status)
        for kind in ("jsonl", "log", "in", "yaml"):
            with suppress(OSError):
                self._path(kind).unlink()
        return end

    def _stop_reason(self) -> TaskEnd | None:
        if self.cancelled:
            return TaskEnd("cancelled", "interrupted", EXIT_INTERRUPTED)
        return TaskEnd("queued") if self.handed_over else None

    def cancel(self) -> None:
        """End the child with everything it started."""
        self.cancelled = True
        self._stop()

    def hand_over(self) -> None:
        """End the child so that another worker continues its session."""
        self.handed_over = True
        self._stop()

    def _stop(self) -> None:
        self._signal(signal.SIGTERM)
        asyncio.get_running_loop().call_later(GRACE, self._signal, signal.SIGKILL)

    def _signal(self, number: int) -> None:
        process = self._process
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)

    # --- what the child gets -----------------------------------------------------------------

    def _words(self, piped: bool, note: str) -> list[str]:
        task = self.task.task
        if task.recipe and self.task.turn == 1:  # a retry goes on in words after it
            files = [str(self._path("yaml")), "--inputs", str(self._path("in"))]
            named = ["--session", task.id, "--park", "--output", "stream-json"]
            return ["recipe", "run", *files, *named, *task.options]
        words = ["run", "--session", task.id, "--park", "--output", "stream-json", *task.options]
        words += ["--note", note] if note else []
        if piped and task.data is None:
            return words
        return [*words, "--", task.text]

    def _input(self) -> IO[bytes] | None:
        """Write the files that the child needs; returns its standard input, if it gets one."""
        task = self.task.task
        if task.recipe:
            for kind, text in (("yaml", task.recipe), ("in", task.data or "{}")):
                with self._file(kind) as file:
                    file.write(text.encode())
            return None
        data = task.data
        if data is None and len(task.text.encode()) > _LONGEST_ARGUMENT:
            data = task.text
        if data is None:
            return None
        path = self._path("in")
        with self._file("in") as file:
            file.write(data.encode())
        return path.open("rb")

    def _path(self, kind: str) -> Path:
        return self.outputs / f"{SessionId(self.task.id)}.{kind}"

    def _file(self, kind: str) -> IO[bytes]:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.fdopen(os.open(self._path(kind), flags, 0o600), "wb")

    # --- what became of it -------------------------------------------------------------------

    def _end(self, status: int) -> TaskEnd:
        seconds = time.monotonic() - self._began
        final = self._result()
        if final is None:
            if self.cancelled:
                return TaskEnd("cancelled", "interrupted", 128 + signal.SIGKILL, seconds=seconds)
            ended = Phrase("The process ended with status {status}.", {"status": status})
            reason = self._last_words() or ended
            return TaskEnd("queued", reason=reason, seconds=seconds, lost=True)
        return _end_of(final, self, seconds)

    def _result(self) -> dict[str, Any] | None:
        """Return the final object of the child's output; None where it was killed before."""
        with suppress(OSError, ValueError):
            last = self._path("jsonl").read_bytes().rstrip(b"\n").rpartition(b"\n")[2]
            found = json.loads(last)
            if isinstance(found, dict) and found.get("type") == "result":
                return found
        return None

    def _last_words(self) -> str:
        with suppress(OSError):
            text = self._path("log").read_bytes()[-_TAIL:].decode("utf-8", "replace")
            return text.strip().rpartition("\n")[2]
        return ""


def stop_child(holder: Holder, number: int = signal.SIGTERM) -> None:
    """Stop a process of this machine that has the session of a task open, as a worker would.

    It is stopped only where it leads a process group without a terminal, as a worker's children
    do: never a terminal in which you opened the session.
    """
    process = process_state(holder.pid)
    if process is None or (process.started, process.group) != (holder.started, holder.pid):
        return
    if process.terminal == 0:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(holder.pid, number)


def _end_of(final: dict[str, Any], run: TaskRun, seconds: float) -> TaskEnd:
    """Return the end that a result object tells of."""
    usage = final.get("usage") or {}
    stop = str(final.get("stop"))
    common: dict[str, Any] = {
        "stop": stop,
        "exit_code": int(final.get("exit_code") or 0),
        "reason": str(final.get("reason") or ""),
        "answer": str(final.get("answer") or ""),
        "tokens": int(usage.get("input", 0)) + int(usage.get("output", 0)),
        "cost": final.get("cost"),
        "seconds": seconds,
    }
    if stop in ("parked", "unknown"):
        return TaskEnd("parked" if stop == "parked" else "unknown", **common)
    if stop in ("done", "plan_only"):
        return TaskEnd("done", **common)
    if stop == "interrupted":
        return TaskEnd("cancelled" if run.cancelled else "queued", **common)
    if stop == "storage_unavailable":  # as after a crash
        return TaskEnd("queued", **common, lost=True)
    if stop == "model_failed" and final.get("passes"):
        return _later(final.get("retry_after"), run.task, common)
    return TaskEnd("failed", **common)


def _later(wait: object, task: QueuedTask, common: dict[str, Any]) -> TaskEnd:
    """Return the end of a start that a provider refused: it goes on when that takes requests again.

    Where the provider does not say when, the pauses double, up to an hour.
    """
    waits = 0
    if not isinstance(wait, int | float):
        waits = task.waits + 1
        if waits > MOST_WAITS:
            return TaskEnd("failed", **common)
        seconds = min(FIRST_WAIT * 2 ** (waits - 1), LONGEST_WAIT)
    else:
        seconds = float(wait)
    if task.task.recipe:  # its turn was left open at the node that got no reply
        common |= {"stop": ""}
    return TaskEnd("queued", due=time.time() + seconds, waits=waits, **common)


def next_words(task: QueuedTask) -> str:
    """Return the input of the next turn of a task that goes on after a turn that has ended."""
    return prompts.text("queue.go_on", turn=task.turn + 1)
