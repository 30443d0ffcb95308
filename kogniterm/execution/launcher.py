"""The executor's end of the supervisor: starts it once, asks it to start commands."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kogniterm.errors import ExecutionError
from kogniterm.execution import wire

_BOOT = (
    "import sys; sys.path.extend(sys.argv[3:]); "
    "from kogniterm.execution.supervisor import main; main(int(sys.argv[1]), int(sys.argv[2]))"
)
_GOODBYE = 3.0
"""Seconds a supervisor gets to end its trees before it is killed."""
_STANDARD_ERROR = 2


@dataclass(frozen=True, slots=True)
class Launched:
    """A started command: its leader's pid, its terminal's master, the pipe of the reports."""

    leader: int
    master: int
    reports: int


class Launcher:
    """Owns the supervisor process. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._keeps_jobs = False

    def start(self) -> None:
        """Start the supervisor if it does not run; returns before it is ready."""
        with self._lock:
            self._start()

    def _start(self) -> socket.socket:
        if self._channel is not None and self._process is not None:
            if self._process.poll() is None:
                return self._channel
            self._channel.close()
        ours, theirs = _channel()
        try:
            self._process = subprocess.Popen(
                self._argv(theirs.fileno()),
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env={},
            )
        except OSError as error:
            ours.close()
            raise ExecutionError(
                "The supervisor of commands could not be started: {reason}.", reason=error
            ) from error
        finally:
            theirs.close()
        self._channel = ours
        return ours

    @staticmethod
    def _argv(channel: int) -> list[str]:
        from importlib.util import find_spec

        roots = [str(Path(__file__).resolve().parents[2])]
        spec = find_spec("ptyprocess")
        if spec is None or spec.origin is None:
            raise ExecutionError("The package ptyprocess is not installed; reinstall kogniterm.")
        roots.append(str(Path(spec.origin).resolve().parents[1]))
        options = ["-I", "-S", "-X", "utf8", "-c", _BOOT]
        return [sys.executable, *options, str(channel), str(os.getpid()), *roots]

    def launch(self, request: dict[str, Any]) -> Launched:
        """Start a command as `pty.SpawnRequest` describes; raises ExecutionError."""
        reports, report = os.pipe()
        try:
            with self._lock:
                channel = self._start()
                wire.send(channel, {"op": "spawn", **request}, (report,))
                received = wire.receive(channel)
        except OSError as error:
            os.close(reports)
            raise ExecutionError(
                "The supervisor of commands is gone: {reason}.", reason=error
            ) from error
        finally:
            os.close(report)
        if received is None:
            os.close(reports)
            raise ExecutionError("The supervisor of commands ended unexpectedly.")
        message, fds = received
        if message["op"] != "spawned":
            os.close(reports)
            raise ExecutionError(
                "The command could not be started: {reason}.", reason=message["error"]
            )
        os.set_blocking(fds[0], False)
        os.set_blocking(reports, False)
        return Launched(message["leader"], fds[0], reports)

    def adopt(self, leader: int, master: int, path: str, room: int) -> None:
        """Let the supervisor drain the terminal into `path`, at most `room` bytes more."""
        self._tell({"op": "adopt", "leader": leader, "path": path, "room": room}, (master,))

    def keep(self, leader: int) -> None:
        """Let this command outlive the executor."""
        self._keeps_jobs = True
        self._tell({"op": "keep", "leader": leader})

    def sync(self) -> None:
        """Wait until what jobs have written so far is in their files."""
        with self._lock:
            if self._channel is not None:
                with contextlib.suppress(OSError):
                    wire.send(self._channel, {"op": "sync"})
                    wire.receive(self._channel)

    def _tell(self, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        with self._lock:
            if self._channel is not None:
                with contextlib.suppress(OSError):
                    wire.send(self._channel, message, fds)

    def close(self) -> None:
        """Let the supervisor end every tree but the kept ones; waits until it has."""
        with self._lock:
            channel, process = self._channel, self._process
            self._channel = self._process = None
        if channel is not None:
            channel.close()
        if process is None:
            return
        if self._keeps_jobs:
            # It lives on with its jobs; a thread collects it so that no zombie is left.
            threading.Thread(target=process.wait, daemon=True, name="kept-jobs").start()
            return
        try:
            process.wait(_GOODBYE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _channel() -> tuple[socket.socket, socket.socket]:
    """A connected pair; the supervisor's end is not one of the standard streams.

    In a process that has closed its own, those numbers are free, and would be lost at the start.
    """
    ours, theirs = socket.socketpair()
    if theirs.fileno() > _STANDARD_ERROR:
        return ours, theirs
    moved = fcntl.fcntl(theirs.fileno(), fcntl.F_DUPFD_CLOEXEC, _STANDARD_ERROR + 1)
    theirs.close()
    return ours, socket.socket(fileno=moved)
