"""The executor's end of the supervisor: starts it once, asks it to start commands."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
import termios
import threading
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from kogniterm.errors import ExecutionError, why
from kogniterm.execution.process import pty
from kogniterm.execution.process.descriptors import Descriptors
from kogniterm.execution.process.pty import ALL_ENDED, SHELL_ENDED
from kogniterm.host.processes import end_tree, signal_processes
from kogniterm.types import Phrase

_BOOT = (
    "import sys; sys.path.extend(sys.argv[5:]); "
    "from kogniterm.execution.process.supervisor import main; "
    "main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4])"
)
_DESCRIPTORS = {"ready": 3, "spawned": 1}
"""The number that comes with a message."""
_GOODBYE = 30.0
"""Seconds a supervisor gets to end its trees before it is killed, and they are left to themselves.

What cannot be killed costs it ten; more is the time of a machine that stands still.
"""
_STANDARD_ERROR = 2
_ATTEMPTS = 3
"""Leaders standing by that may be found dead, one after the other."""


class Order(NamedTuple):
    """A command to start: `argv` with `env` in `cwd`, on a terminal of `size` (rows, columns).

    With `newlines` the terminal translates them. `descriptors` are what the shell is to have
    open beside its terminal. `real` is what `cwd` must be without links. With `view` it runs in
    that sandbox (`Sandbox.view`), without `descriptors`. `handed` are the shell's files, by the
    numbers of their descriptors in there.
    """

    argv: list[str]
    env: dict[str, str]
    cwd: str
    size: tuple[int, int]
    newlines: bool
    descriptors: Descriptors
    real: str | None = None
    view: Mapping[str, object] | None = None
    handed: Mapping[int, int] = MappingProxyType({})


class Launched(NamedTuple):
    """A started command: its leader's pid, its terminal's master, the pipe of the reports.

    `channel` leads to what was to become the shell, and tells why it did not.
    """

    leader: int
    master: int
    reports: int
    channel: socket.socket | None = None

    def close(self) -> None:
        os.close(self.master)
        os.close(self.reports)
        self.let_go()

    def let_go(self) -> None:
        """Close the channel; nothing is told through it any more."""
        if self.channel is not None:
            self.channel.close()


_A_WHILE = 1.0


class Reports:
    """Reads one leader's reports. Safe to use from several threads.

    `status` is the shell's wait status once it has ended; `left` that of what it left running, 0
    only if all of it ended so; `gone` means that no process of the command is left.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.status: int | None = None
        self.left: int | None = None
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
                    self.status, self.left = int(status), None
                elif int(status) or self.left is None:
                    self.left = int(status)

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


class Launcher:
    """Owns the supervisor process. Safe to use from several threads.

    `private` is the executor's own folder; `held` an open file in it that is locked as long as
    either of the two processes lives. `outlives` is what may outlive the executor.
    """

    def __init__(self, private: Path, held: int, outlives: str) -> None:
        self._private = private
        self._outlives = outlives
        self._held = held
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._ready: Launched | None = None
        self._coming = False
        self._number = 0

    def prepare(self, view: Mapping[str, object] | None = None) -> None:
        """Have a leader made that stands by, and the supervisor started if it does not run.

        With `view` a sandbox is built, too. Returns before any of them is ready; a session without
        commands does without all.
        """
        with self._lock:
            channel = self._start()
            if view is not None:
                with contextlib.suppress(OSError):
                    pty.send_message(channel, {"op": "build", "view": view})
            if self._ready is None and not self._coming:
                self._ask_for_next()

    def _start(self) -> socket.socket:
        """Return the channel to the supervisor, which is started if it does not run."""
        if self._channel is not None and self._process is not None:
            if self._process.poll() is None:
                return self._channel
            self._forget()
        ours, theirs = _channel()
        try:
            self._process = subprocess.Popen(
                self._argv(theirs.fileno()),
                pass_fds=(theirs.fileno(), self._held),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                env={},
            )
        except OSError as error:
            ours.close()
            raise ExecutionError(
                "The command supervisor could not be started: {reason}.", reason=why(error)
            ) from error
        finally:
            theirs.close()
        self._channel = ours
        return ours

    def _forget(self) -> None:
        """Let go of a supervisor that is gone, and of what it had ready."""
        if self._channel is not None:
            self._channel.close()
        if self._ready is not None:
            self._ready.close()
        self._channel = self._ready = None
        self._coming = False

    def _argv(self, channel: int) -> list[str]:
        from importlib.util import find_spec

        roots = [str(Path(__file__).resolve().parents[3])]
        spec = find_spec("ptyprocess")
        if spec is None or spec.origin is None:
            raise ExecutionError("The package ptyprocess is not installed; reinstall kogniterm.")
        roots.append(str(Path(spec.origin).resolve().parents[1]))
        options = ["-I", "-S", "-X", "utf8", "-c", _BOOT]
        ours = [str(channel), str(os.getpid()), str(self._private), self._outlives]
        return [sys.executable, *options, *ours, *roots]

    def launch(self, order: Order) -> Launched:
        """Start a command; raises ExecutionError.

        That the program cannot be executed shows only later: see `refusal`.
        """
        try:
            with self._lock:
                if order.view is not None:
                    return self._launch_wrapped(order)
                return self._give(order)
        except OSError as error:
            raise ExecutionError(
                "The command supervisor is no longer running: {reason}.", reason=error
            ) from error

    def _give(self, order: Order) -> Launched:
        """Make the leader that stands by the command's."""
        for _ in range(_ATTEMPTS):
            ready = self._take()
            try:
                channel = _whole(ready)
                pty.set_size(ready.master, *order.size)
                if order.newlines:
                    pty.set_output_processing(ready.master, on=True)
                _give_descriptors(channel, order)
                what = {"argv": order.argv, "env": order.env, "cwd": order.cwd}
                pty.send_message(channel, {**what, "real": order.real})
            except (OSError, termios.error):
                ready.close()  # somebody ended it: the next one
            else:
                return ready
            finally:
                self._ask_for_next()
        raise ExecutionError("The command supervisor ended unexpectedly.")

    def _take(self) -> Launched:
        """Return the leader that stands by; waits for it."""
        channel = self._start()
        if self._ready is None and not self._coming:
            self._ask_for_next()
        while self._ready is None:
            self._receive(channel)
        ready, self._ready = self._ready, None
        return ready

    def _ask_for_next(self) -> None:
        if self._channel is not None:
            with contextlib.suppress(OSError):
                pty.send_message(self._channel, {"op": "next"})
                self._coming = True

    def _receive(self, channel: socket.socket) -> tuple[dict[str, Any], list[int]]:
        """Return the next message; a leader that stands by is put aside."""
        received = pty.receive_message(channel)
        if received is None:
            self._forget()
            raise ExecutionError("The command supervisor ended unexpectedly.")
        message, fds = received
        if len(fds) < _DESCRIPTORS.get(message["op"], 0):
            # The kernel hands over as many as may be opened here, and drops the rest.
            for descriptor in fds:
                os.close(descriptor)
            self._coming = False
            raise not_started(why(OSError(errno.EMFILE, os.strerror(errno.EMFILE))))
        if message["op"] == "ready":
            self._coming = False
            os.set_blocking(fds[1], False)
            self._ready = Launched(message["leader"], fds[0], fds[1], socket.socket(fileno=fds[2]))
        elif message["op"] == "failed":
            self._coming = False
            raise not_started(message["error"])
        return message, fds

    def _launch_wrapped(self, order: Order) -> Launched:
        reports, report = os.pipe()
        ours, theirs = socket.socketpair()
        try:
            channel = self._start()
            self._number += 1
            request = {
                "op": "spawn",
                "number": self._number,
                "view": order.view,
                "argv": order.argv,
                "env": order.env,
                "cwd": order.cwd,
                "real": order.real,
                "size": order.size,
                "newlines": order.newlines,
                "numbers": list(order.handed),
            }
            passed = (report, theirs.fileno(), *order.handed.values())
            pty.send_message(channel, request, passed)
            kinds = ("spawned", "refused", "unbuilt")
            message, fds = self._answer(channel, *kinds, number=self._number)
            if message["op"] == "refused":
                raise not_started(message["error"])
            if message["op"] == "unbuilt":
                raise ExecutionError(
                    "The sandbox could not start, so the command was not run: {reason}. "
                    "Run `kogniterm doctor` to see which sandbox works.",
                    reason=message["error"],
                )
        except BaseException:
            os.close(reports)
            ours.close()
            raise
        finally:
            os.close(report)
            theirs.close()
        os.set_blocking(fds[0], False)
        os.set_blocking(reports, False)
        return Launched(message["leader"], fds[0], reports, ours)

    def _answer(
        self, channel: socket.socket, *kinds: str, number: int = 0
    ) -> tuple[dict[str, Any], list[int]]:
        """Wait for a message of one of `kinds`, about the command of this number.

        One about an earlier command comes where an interrupt kept that from being waited for.
        """
        while True:
            message, fds = self._receive(channel)
            if message["op"] in kinds and message.get("number", 0) == number:
                return message, fds
            if message["op"] == "spawned":
                end_tree(message["leader"])
                signal_processes([message["leader"]], signal.SIGKILL)  # it may not have begun
                for fd in fds:
                    os.close(fd)

    def adopt(self, leader: int, master: int, path: str, room: int) -> None:
        """Let the supervisor drain the terminal into `path`, at most `room` bytes more."""
        self._tell({"op": "adopt", "leader": leader, "path": path, "room": room}, (master,))

    def keep(self, leader: int) -> None:
        """Let this command outlive the executor."""
        self._tell({"op": "keep", "leader": leader})

    def sync(self) -> None:
        """Wait until what jobs have written so far is in their files."""
        with self._lock:
            if self._channel is not None:
                with contextlib.suppress(OSError, ExecutionError):
                    pty.send_message(self._channel, {"op": "sync"})
                    self._answer(self._channel, "synced")

    def _tell(self, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        with self._lock:
            if self._channel is not None:
                with contextlib.suppress(OSError):
                    pty.send_message(self._channel, message, fds)

    def end_jobs(self) -> tuple[list[dict[str, Any]], bool]:
        """Let the supervisor end every tree but what stays; `close` has to follow.

        Returns what stays and what was ended, as the supervisor tells it, and whether it will live
        on; that nothing stays when it does not answer.
        """
        with self._lock, contextlib.suppress(OSError):
            if self._channel is None:
                return [], False
            self._channel.settimeout(_GOODBYE)
            pty.send_message(self._channel, {"op": "close"})
            while received := pty.receive_message(self._channel):
                message, fds = received
                for fd in fds:
                    os.close(fd)
                if message["op"] == "left":
                    return message["left"], message["stays"]
        return [], False

    def close(self, *, stays: bool) -> None:
        """Let the supervisor end; waits until it has, unless it `stays` with jobs."""
        with self._lock:
            process, self._process = self._process, None
            self._forget()
        if process is None:
            return
        if stays:
            # A thread collects it so that no zombie is left.
            threading.Thread(target=process.wait, daemon=True, name="kept-jobs").start()
            return
        try:
            process.wait(_GOODBYE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def refusal(launched: Launched) -> ExecutionError | None:
    """Return why the program could not be executed, once the command has ended; None if it was."""
    if launched.channel is None:
        return None
    reason = pty.complaint(launched.channel)
    return not_started(reason) if reason else None


def not_started(reason: Phrase | str) -> ExecutionError:
    """Return the error that a command could not be started."""
    return ExecutionError("The command could not be started: {reason}.", reason=reason)


def _give_descriptors(channel: socket.socket, order: Order) -> None:
    """Send what is open to the shell-to-be and close it here, before it is told to go on.

    The shell has it alone then: what it closes is closed, and its locks are let go.
    """
    held = {**order.descriptors.open, **order.handed}
    if not held:
        return
    sent = {n: fd for n, fd in held.items() if fd is not None}
    terminals = [n for n, fd in held.items() if fd is None]
    numbers = {"numbers": list(sent), "terminals": terminals}
    pty.send_message(channel, numbers, tuple(sent.values()))
    order.descriptors.hand_over()


def _whole(ready: Launched) -> socket.socket:
    """Return its channel. Raises OSError when a process is gone: it would say nothing yet else."""
    poll = select.poll()
    if ready.channel is None:
        raise ConnectionResetError
    for fd in (ready.channel.fileno(), ready.reports):
        poll.register(fd, select.POLLIN)
    if poll.poll(0):
        raise ConnectionResetError
    return ready.channel


def _channel() -> tuple[socket.socket, socket.socket]:
    """Return a connected pair; the supervisor's end is not one of the standard streams.

    In a process that has closed its own, those numbers are free, and would be lost at the start.
    """
    ours, theirs = socket.socketpair()
    if theirs.fileno() > _STANDARD_ERROR:
        return ours, theirs
    moved = fcntl.fcntl(theirs.fileno(), fcntl.F_DUPFD_CLOEXEC, _STANDARD_ERROR + 1)
    theirs.close()
    return ours, socket.socket(fileno=moved)
