"""The supervisor: a small process of one thread that outlives its executor just long enough.

It starts commands for the executor, keeps every command's terminal open, drains the terminals
of jobs into their files, and, when the executor is gone for whatever reason (closed, killed
with -9), ends every tree that was not kept on purpose. It is started with `python -I -S -c` and
imports the standard library and ptyprocess only.

Messages: `next` asks for a leader that stands by. It is answered by `ready` with the terminal's
master, the pipe of the reports and the channel of the shell-to-be, or by `failed`. `spawn` starts a
command in a sandbox, where nothing waits for orders: with it come the report pipe, the channel for
what is wrong, and what the command is to have open; it is answered by `spawned` with the terminal's
master, by `refused`, or by `unbuilt` when the sandbox cannot be made.
`build` is answered by nothing: it has a sandbox built for a command that is about to come.
`adopt` (drain this master into a file) and `keep` (outlive the executor) have no answer; `sync` is
answered by `synced` when everything written so far by adopted commands is in their files; `close`
(the executor ends) by `left`: what stays, what was ended, and whether the supervisor stays too. It
ends when the executor lets go of the channel, and removes what that has left of its folder.

What stays is let go of, so that it depends on no process of ours. Only where it still writes to its
terminal its leader and the supervisor stay with it, and go on moving what it writes to its file.
When the supervisor itself is killed, every leader ends its own command by the same rules, and every
sandbox ends with all that runs in it.

Sandboxes are built for the first command that needs them, or just ahead of it, and entered by later
ones of the same `view`: those of the session together, any other one only while nothing runs in it.
What needs a wider one gets another, so nothing widens for what runs.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import select
import signal
import socket
import sys

from kogniterm.execution.process import pty
from kogniterm.execution.process.outliving import (
    NOTHING,
    once_begun,
    outliving,
    programs,
    terminal_number,
    write_to,
)
from kogniterm.execution.process.pty import STATUSES, Standby
from kogniterm.host.kernel_calls import become_subreaper
from kogniterm.host.processes import (
    ProcessState,
    descendants,
    end_tree,
    process_state,
    signal_processes,
)

# Set here and not imported: the supervisor starts in half the time without `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from kogniterm.execution.sandbox.namespaces import BuiltSandbox


LOCK = "held"
"""The file in an executor's private folder that is locked as long as it or its supervisor lives."""
_READ_SIZE = 1 << 16
_READS_AT_ONCE = 256
_MOST_ATTEMPTS = 3
_MOST_IDLE = 4
"""Sandboxes in which nothing runs that are kept for later commands."""


class _LedCommand:
    """A command the supervisor started; `sink` is the file its output goes to once adopted.

    `kept` is whether all of it is to outlive the executor, `sandbox` what it runs in, `stays`
    whether it does outlive the executor, with its terminal.
    """

    def __init__(self, leader: int, master: int, sandbox: BuiltSandbox | None = None) -> None:
        self.leader = leader
        self.master = master
        self.sandbox = sandbox
        self.kept = False
        self.stays = False
        self.sink: int | None = None
        self.room = 0

    def write_to(self, path: str, room: int) -> None:
        """Append its output to the file `path`, at most `room` bytes more."""
        self.room = room
        with contextlib.suppress(OSError):
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self.sink = os.open(path, flags, 0o600)

    def drain(self) -> bool:
        """Move waiting output into the file; False at the end of the terminal."""
        try:
            data = os.read(self.master, _READ_SIZE)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if self.sink is not None and self.room > 0:
            written = data[: self.room]
            self.room -= len(written)
            with contextlib.suppress(OSError):
                os.write(self.sink, written)
        return bool(data)

    def drain_all(self) -> None:
        """Move what waits now; bounded, for a job may write without end."""
        for _ in range(_READS_AT_ONCE):
            if not select.select([self.master], [], [], 0)[0] or not self.drain():
                return

    def close(self) -> None:
        for fd in (self.master, self.sink):
            if fd is not None:
                with contextlib.suppress(OSError):
                    os.close(fd)
        self.sink = None


class Supervisor:
    """The loop: requests from `channel`, ends of leaders, output of adopted terminals."""

    def __init__(self, channel: socket.socket, host: int, private: str, outlives: str) -> None:
        self._channel = channel
        self._host = host
        self._private = private
        self._statuses = f"{private}/{STATUSES}"
        self._outlives = outlives
        self._alone = False
        self._left: list[dict[str, Any]] = []
        self._commands: dict[int, _LedCommand] = {}
        self._sandboxes: list[tuple[object, BuiltSandbox]] = []
        self._poll = select.poll()
        self._draining: dict[int, _LedCommand] = {}
        self._orphaned = False
        self._watch = -1

    def run(self) -> None:
        """Serve until the executor is gone and nothing that stays needs its terminal."""
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_read, False)
        os.set_blocking(wake_write, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        self._poll.register(wake_read, select.POLLIN)
        self._poll.register(self._channel, select.POLLIN)
        self._watch = self._watch_host()
        while not self._alone or self._commands:
            for fd, _event in self._poll.poll():
                if fd == wake_read:
                    with contextlib.suppress(BlockingIOError):
                        os.read(wake_read, 4096)
                elif fd == self._channel.fileno():
                    self._serve()
                elif fd == self._watch:
                    self.host_left()
                elif fd in self._draining and not self._draining[fd].drain():
                    self._stop_draining(fd)
            self._reap()

    def _watch_host(self) -> int:
        """Return a descriptor that becomes readable when the executor's process ends, or -1.

        The channel's end of file says so too, unless a fork of that process keeps it open.
        """
        try:
            host = os.pidfd_open(self._host)
        except OSError:
            return -1
        self._poll.register(host, select.POLLIN)
        return host

    def _serve(self) -> None:
        try:
            received = pty.receive_message(self._channel)
        except OSError:
            received = None
        if received is None:
            self.host_left()
            return
        message, fds = received
        match message["op"]:
            case "spawn":
                self._spawn(message, fds)
            case "adopt":
                self._adopt(message, fds)
            case "keep":
                if message["leader"] in self._commands:
                    self._commands[message["leader"]].kept = True
            case "next":
                self._prepare()
            case "build":
                with contextlib.suppress(OSError):  # the command tells why
                    self._sandbox(message["view"])
            case "close":
                self.end()
                stays = any(command.stays for command in self._commands.values())
                self._answer({"op": "left", "left": self._left, "stays": stays})
            case "sync":
                self._reap()
                for command in list(self._draining.values()):
                    command.drain_all()
                self._answer({"op": "synced"})

    def _spawn(self, message: dict[str, Any], fds: list[int]) -> None:
        from kogniterm.execution.sandbox.namespaces import BuildError

        answer: dict[str, Any] = {"op": "spawned", "number": message["number"]}
        master: tuple[int, ...] = ()
        try:
            if len(fds) != 2 + len(message["numbers"]):  # the kernel drops what may not be opened
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            report, complaints, *descriptors = fds
            handed = dict(zip(message["numbers"], descriptors, strict=True))
            command = self._start(message, report, complaints, handed)
            self._commands[command.leader] = command
            answer["leader"], master = command.leader, (command.master,)
        except OSError as error:
            if isinstance(error, BuildError):
                answer |= {"op": "unbuilt", "error": str(error)}
            else:
                answer |= {"op": "refused", "error": error.strerror}
        finally:
            for fd in fds:
                os.close(fd)
        self._answer(answer, master)

    def _start(
        self, order: dict[str, Any], report: int, complaints: int, handed: dict[int, int]
    ) -> _LedCommand:
        """Start a command in its sandbox, in a new one where that just ended by force.

        Raises OSError or BuildError.
        """
        from kogniterm.execution.sandbox.namespaces import BuildError

        attempts = _MOST_ATTEMPTS
        while True:
            try:
                sandbox = self._sandbox(order["view"])
                leader, master = pty.start_inside(sandbox, order, report, complaints, handed)
                os.set_blocking(master, False)
                return _LedCommand(leader, master, sandbox)
            except BuildError:
                attempts -= 1
                if not attempts or not any(one.gone for _, one in self._sandboxes):
                    raise

    def _sandbox(self, view: dict[str, Any]) -> BuiltSandbox:
        """Return the sandbox of a command, as it has to be now. Raises BuildError.

        What is to be protected from the command is from all that runs in others, too.
        """
        from kogniterm.execution.sandbox.namespaces import build

        self._reap()
        used = [command.sandbox for command in self._commands.values() if command.sandbox]
        whole = {sandbox for _, sandbox in self._sandboxes if sandbox.whole}
        for one in list(self._sandboxes):
            if one[1].gone or one[1] not in {*used, *whole}:
                self._discard(one)  # what ran in it ends with it
        key = tuple(view[name] for name in ("kind", "network", "shared", "mounts"))
        for known, sandbox in self._sandboxes:
            if known == key and sandbox in whole and (view["shared"] or sandbox not in used):
                break
        else:
            idle = [one for one in self._sandboxes if one[1] not in used]
            for one in idle[: -_MOST_IDLE + 1]:
                self._discard(one)
            sandbox = build(view)
            self._sandboxes.append((key, sandbox))
        for other in {sandbox, *used}:
            other.protect(view["protection"])
        return sandbox

    def _discard(self, one: tuple[object, BuiltSandbox]) -> None:
        self._sandboxes.remove(one)
        one[1].close()

    def _prepare(self) -> None:
        """Have a leader ready for the next command, and hand it to the executor."""
        try:
            standby = Standby(self._statuses, self._outlives)
        except (OSError, pty.SpawnError) as error:
            self._answer({"op": "failed", "error": str(error)})
            return
        os.set_blocking(standby.master, False)
        self._commands[standby.leader] = _LedCommand(standby.leader, standby.master)
        fds = (standby.master, standby.reports, standby.channel)
        self._answer({"op": "ready", "leader": standby.leader}, fds)
        standby.close_own()

    def _answer(self, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        with contextlib.suppress(OSError):
            pty.send_message(self._channel, message, fds)

    def _adopt(self, message: dict[str, Any], masters: list[int]) -> None:
        """Write to a file from now on what comes from a terminal, whose master is in `masters`.

        The command may have ended on the way here: what it said last then stands in that.
        """
        command = self._commands.get(message["leader"])
        if command is not None:
            command.write_to(message["path"], message["room"])
            self._drain(command)
        for master in masters:  # none where no more may be opened here
            late = _LedCommand(message["leader"], master)
            if command is None:
                late.write_to(message["path"], message["room"])
                late.drain_all()
            late.close()

    def _drain(self, command: _LedCommand) -> None:
        self._draining[command.master] = command
        self._poll.register(command.master, select.POLLIN)

    def _stop_draining(self, fd: int) -> None:
        if self._draining.pop(fd, None) is not None:
            self._poll.unregister(fd)

    def _reap(self) -> None:
        """Collect ended leaders: one that ended by itself had nothing left to lead."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            killed = self._commands.get(pid) if os.WIFSIGNALED(status) else None
            command = self._commands.pop(pid, None)
            if command is not None:
                if command.master in self._draining:
                    command.drain_all()
                self._stop_draining(command.master)
                command.close()
            if killed is not None and not (killed.kept or self._orphaned):
                self._end_orphans()

    def _end_orphans(self) -> None:
        """End what leaders that were killed have left: the kernel gave it to this process.

        That of a sandbox went to its first process. Most of it ends with its terminal, but not what
        ignores the hang-up, nor a shell that was not in the foreground yet.
        """
        end_tree(os.getpid(), spare=self._with_leaders)
        for _, sandbox in self._sandboxes:
            if sandbox.init and not sandbox.gone:
                end_tree(sandbox.init)

    def _with_leaders(self, states: list[ProcessState]) -> set[int]:
        """Return the leaders among `states`, parents first, and all that is below them."""
        found = set(self._commands).union(*(one.children for _, one in self._sandboxes))
        for state in states:
            if state.parent in found:
                found.add(state.pid)
        return found

    def end(self) -> None:
        """End every tree but what stays: the executor is gone."""
        if self._orphaned:
            return
        self._orphaned = True
        staying = [command for command in list(self._commands.values()) if self._end_tree(command)]
        self._end_orphans()
        for command in staying:
            terminal = terminal_number(command.master)
            for item in self._left:
                if item["leader"] == command.leader:
                    item["writes"] = write_to(terminal, item["pids"])
            pids = [state.pid for state in descendants(command.leader)]
            if not write_to(terminal, pids):
                signal_processes([command.leader], pty.LET_GO)
                continue
            command.stays = True
            if command.master not in self._draining:
                self._drain(command)
        for _, sandbox in self._sandboxes:
            sandbox.close()
        self._sandboxes.clear()

    def _end_tree(self, command: _LedCommand) -> bool:
        """End what does not stay of a command; returns whether anything does."""
        states = once_begun(command.leader)
        stays, everything = self._outliving(command, states), {state.pid for state in states}
        why = "kept" if command.kept else "detached"
        self._tell_of(command, states, stays, why)
        self._tell_of(command, states, everything - stays, self._why_ended(command))
        end_tree(command.leader, spare=lambda now: self._outliving(command, now))
        if stays and descendants(command.leader):
            return True
        # Nothing is left to lead: it goes even if a child cannot be killed.
        signal_processes([command.leader], signal.SIGKILL)
        return False

    def _outliving(self, command: _LedCommand, states: list[ProcessState]) -> set[int]:
        """Return what of a command outlives the executor; inside a sandbox nothing can."""
        if self._outlives == NOTHING or command.sandbox is not None:
            return set()
        if command.kept:
            return {state.pid for state in states}
        return outliving(states, command.leader, self._outlives, self._statuses)

    def _why_ended(self, command: _LedCommand) -> str:
        if command.sandbox is not None:
            return "sandbox"
        return "asked" if self._outlives == NOTHING else "background"

    def _tell_of(
        self, command: _LedCommand, states: list[ProcessState], pids: set[int], why: str
    ) -> None:
        """Note for the executor what becomes of `pids`."""
        self._left += (
            {"leader": command.leader, "pids": group, "words": words, "why": why, "writes": False}
            for group, words in programs(states, pids)
        )

    def host_left(self) -> None:
        """End, because the executor has ended."""
        for fd in (self._channel, self._watch):
            with contextlib.suppress(KeyError, ValueError):
                self._poll.unregister(fd)
        self._alone = True
        self.end()

    def leave(self) -> None:
        """Let go of what still stays, and remove the folder, at the end of this process.

        An executor that had the time to has removed it, and one that lives still needs it.
        """
        self.end()
        for command in self._commands.values():
            if command.stays:
                signal_processes([command.leader], pty.LET_GO)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(command.leader, 0)  # or the kernel kills it first
        if self._alone and os.path.lexists(self._private):
            remove_folder(self._private)


def main(channel_fd: int, host: int, private: str, outlives: str) -> None:
    """Run as the supervisor of the process `host`, which holds the other end of the channel.

    `private` is the folder of its executor; it goes when the executor was killed. `outlives` is
    what may run on then (`processes.outliving`).
    """
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the executor's thread may block some
    os.chdir("/")
    become_subreaper()
    channel = socket.socket(fileno=channel_fd)
    channel.set_inheritable(False)
    gc.disable()
    gc.freeze()  # forked leaders share these pages as long as the collector does not write to them
    supervisor = Supervisor(channel, host, private, outlives)

    def finish(*_: object) -> None:
        sys.exit(0)

    signal.signal(signal.SIGTERM, finish)
    try:
        if process_state(host) is None:
            supervisor.host_left()
        else:
            supervisor.run()
    finally:
        supervisor.leave()


def remove_folder(folder: str | os.PathLike[str]) -> None:
    """Remove an executor's private folder; what cannot be removed stays.

    The lock, which says whose it is, goes last: a folder that still has it and that nobody holds
    is removed by the next executor.
    """
    import shutil  # loaded only now: every forked leader would have it too

    path = os.fspath(folder)
    try:
        entries = os.listdir(path)  # noqa: PTH208 - the supervisor has no use for pathlib
    except OSError:
        return
    for entry in sorted(entries, key=lambda name: name == LOCK):
        whole = f"{path}/{entry}"
        if os.path.isdir(whole) and not os.path.islink(whole):  # noqa: PTH112, PTH114 - as above
            shutil.rmtree(whole, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                os.unlink(whole)  # noqa: PTH108 - as above
    with contextlib.suppress(OSError):
        os.rmdir(path)  # noqa: PTH106 - as above
