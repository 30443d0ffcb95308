"""One running command: the loop that serves it, its end, and its result."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import termios
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple

from kogniterm.execution.command_output import LiveFeed, OutputKeeper
from kogniterm.execution.process.command_input import (
    SIZE_LOOK,
    HandOver,
    KeySequence,
    ModeTracker,
    Outgoing,
)
from kogniterm.execution.process.descriptors import Descriptors
from kogniterm.execution.process.launcher import Launched, Reports
from kogniterm.execution.process.pty import line_modes
from kogniterm.execution.process.wait_diagnosis import QUIET, Watch
from kogniterm.host.processes import (
    KILL_AFTER,
    ProcessState,
    children,
    descendants,
    process_state,
    signal_processes,
)
from kogniterm.protocols import OutputSink, Terminal
from kogniterm.types import CommandResult, Ended, Job, Waiting


@dataclass(slots=True)
class Ending:
    """The end of a command: `status` as waitpid gives it, None when it was not waited for."""

    ended: Ended
    status: int | None
    victims: tuple[ProcessState, ...] = ()
    waiting: Waiting | None = None
    left_running: bool = False


class RunOptions(NamedTuple):
    """Time limits of a command in seconds, None for no limit, and who is with it.

    `timeout` is for all of it, `input_wait` for waiting for keys nobody sends; with
    `detach_on_wait` a command that waits for input becomes a job. `keys` are prepared, `sink`
    watches. `terminal` is the user's: it is handed over from the start with `at_once`, otherwise
    when the program needs the user.
    """

    keys: KeySequence
    timeout: float | None = None
    input_wait: float | None = None
    detach_on_wait: bool = False
    sink: OutputSink | None = None
    terminal: Terminal | None = None
    at_once: bool = False
    secrets: Mapping[str, str] = MappingProxyType({})
    """Variables for this command alone, whose values get into no file."""


_READ_SIZE = 1 << 18
_FULL_READ = 4000
_READS_AT_ONCE = 32
_STRAGGLERS = 0.15
"""Seconds that what the shell left behind gets to end by itself before it becomes a job."""
_TERMINAL_HOLDS = 128 << 10
"""Bytes, more than a terminal takes in before its writers have to wait."""
_MOST_KILLS = 150
"""Attempts to kill a process before it is taken for one that cannot be, and left alone."""
_READY_POLL = 0.02
_USER_LOOK = 0.1
"""Seconds between looks whether a program needs the user who is there."""
_SHOWN = 8 << 10


class RunningCommand:
    """Drives one command in the caller's thread; the rest comes from others."""

    def __init__(
        self,
        launched: Launched,
        keeper: OutputKeeper,
        descriptors: Descriptors,
        options: RunOptions,
    ) -> None:
        self.leader = launched.leader
        self.master = launched.master
        self.reports = Reports(launched.reports)
        self.keeper = keeper
        self._descriptors = descriptors
        self._options = options
        self._keys = options.keys
        self._terminal = options.terminal
        self._feed = LiveFeed(options.sink, keeper.hidden)
        self._watch = Watch(self.leader, self.master, options.sink)
        self.outgoing = Outgoing(launched.master)
        self.started = time.monotonic()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        self._lock = threading.Lock()
        self._orders: list[str] = []
        self._terminal_open = True
        self._last_output = self.started
        self._kill_at: float | None = None
        self._kills = 0
        self._ending: Ending | None = None
        self._poll = select.poll()
        self._modes = ModeTracker()
        self._hand: HandOver | None = None
        self._offered: Terminal | None = None
        self._user_look = self.started
        self.notes: list[str] = []

    # --- from other threads ---------------------------------------------------------------

    def stop(self) -> None:
        """End the command's tree."""
        self._order("stop")

    def detach(self) -> None:
        self._order("detach")

    def _order(self, order: str) -> None:
        with self._lock:
            self._orders.append(order)
            if self._wake_write >= 0:
                with contextlib.suppress(OSError):
                    os.write(self._wake_write, b".")

    def send(self, data: bytes) -> None:
        """Type `data` into what runs on in the background; what has ended takes no more."""
        with self._lock:
            if self.master >= 0:
                self.outgoing.send(data)

    def hides_input(self) -> bool:
        """Return whether what is typed now would not be shown: a password, or another secret."""
        with self._lock:
            echo, canonical = line_modes(self.master) if self.master >= 0 else (True, True)
        return canonical and not echo

    def asks(self) -> Literal["", "terminal", "password"]:
        """Return whether what runs on is blocked reading its terminal: what was typed is read."""
        with self._lock:
            if self.master < 0 or self.outgoing.waiting:
                return ""
            if not self._watch.reads_terminal():
                return ""
        return "password" if self.hides_input() else "terminal"

    def take_over(self, terminal: Terminal) -> None:
        """Hand the command over to the user at `terminal`."""
        with self._lock:
            self._offered = terminal
        self._order("hand over")

    # --- the loop -------------------------------------------------------------------------

    def run(self) -> Ending:
        """Serve the command until it has ended or is detached."""
        for fd in (self._wake_read, self.reports.fd, self.master, self._descriptors.asked):
            self._poll.register(fd, select.POLLIN)
        try:
            if self._terminal is not None and self._options.at_once:
                self._hand_over(self._terminal)
            self._loop()
            self._watch.goes_on()
            self._drain()
            self._feed.flush()
        finally:
            hand, self._hand = self._hand, None
            if hand is not None:
                with contextlib.suppress(KeyError, ValueError):
                    self._poll.unregister(hand.input)
                hand.end(over=self.reports.gone)
                self.notes += hand.notes()
        self.reports.read()
        if self._ending is not None:
            self._ending.left_running = not self.reports.gone
            return self._ending
        if self.reports.status is None:
            # The leader is gone without a report: somebody killed it, and the shell with it.
            return Ending("signaled", signal.SIGKILL)
        ended: Ended = "signaled" if os.WIFSIGNALED(self.reports.status) else "exited"
        return Ending(ended, self.reports.status, left_running=not self.reports.gone)

    def _loop(self) -> None:
        timeout = self._options.timeout
        deadline = None if timeout is None else self.started + timeout
        settle: float | None = None
        while not self.reports.gone:
            if self._ending is not None and self._ending.ended == "detached":
                return
            self._poll_once(self._next_event(deadline, settle))
            now = time.monotonic()
            if self._feed.due is not None and now >= self._feed.due:
                self._feed.flush()
            if self._ending is not None:
                if self._kill(now):
                    return
            elif self.reports.status is not None:
                settle = settle or now + _STRAGGLERS
                if now >= settle:
                    return
            else:
                with self._lock:  # they are those of other threads
                    orders, self._orders = self._orders, []
                    offered, self._offered = self._offered, None
                if "stop" in orders:
                    self._begin_end("stopped", now)
                elif "detach" in orders:
                    self._ending = Ending("detached", None, left_running=True)
                elif offered is not None and self._hand is None:
                    self._hand_over(offered)
                self._attend(now)
                if deadline is not None and now >= deadline and self._ending is None:
                    self._begin_end("timeout", now, self._watch.last)

    def _attend(self, now: float) -> None:
        """Serve a running command: prepared keys, a user, a diagnosis."""
        if self._hand is not None:
            self._hand.follow_size()
            if self._hand.hung_up:
                self._begin_end("stopped", now)
            elif self._resume_suspended():
                self.notes.append("The user suspended it; it continues as a job.")
                self._ending = Ending("detached", None, left_running=True)
            return
        self._send_due_keys(now)
        if self._awaits_user and now >= self._user_look:
            quiet = now - self._last_output
            self._user_look = now + max(_USER_LOOK, quiet / 4)
            needs_user = not line_modes(self.master)[1]  # as full-screen programs do
            if needs_user or (quiet >= _USER_LOOK and self._watch.reads_terminal()):
                self._read()  # what it said before, which is not for the user's terminal
                if self._terminal is not None and self._hand_over(self._terminal):
                    self._watch.goes_on()
                    return
        self._check_waiting(now)

    @property
    def _awaits_user(self) -> bool:
        return self._terminal is not None and not self._keys.pending

    def _next_event(self, deadline: float | None, settle: float | None) -> float | None:
        """Return the milliseconds until the loop has something to do by itself."""
        now = time.monotonic()
        moments = [m for m in (deadline, settle, self._feed.due, self._kill_at) if m is not None]
        if self.reports.status is None and self._ending is None:
            due = self._keys.due()
            if self._hand is not None:
                moments.append(now + SIZE_LOOK)
            else:
                moments.append(self._watch.next_look(self._last_output))
                if self._awaits_user:
                    moments.append(self._user_look)
                if due is not None:
                    moments.append(max(due, now + _READY_POLL))
        return max(0.0, (min(moments) - now) * 1000) + 0.5 if moments else None

    def _poll_once(self, timeout: float | None) -> None:
        if self._terminal_open:
            wanted = select.POLLIN | (select.POLLOUT if self.outgoing.waiting else 0)
            self._poll.modify(self.master, wanted)
        for fd, event in self._poll.poll(timeout):
            if fd == self._wake_read:
                with contextlib.suppress(BlockingIOError):
                    os.read(fd, 4096)
            elif fd == self.reports.fd:
                self.reports.read()
            elif fd == self._descriptors.asked:
                self.notes += self._descriptors.answer(self.leader, self.master)
            elif fd == self.master:
                if event & select.POLLOUT:
                    self.outgoing.flush()
                if event & ~select.POLLOUT and not self._read():
                    self._poll.unregister(self.master)
                    self._terminal_open = False
            elif self._hand is not None and self._hand.pass_keys():
                self._ending = Ending("detached", None, left_running=True)

    def _read(self) -> bool:
        """Take in waiting output; False at the end of the terminal."""
        try:
            data = os.read(self.master, _READ_SIZE)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not data:
            return False
        if len(data) >= _FULL_READ:
            data += self._read_on()
        self._last_output = time.monotonic()
        self.keeper.add(data)
        self._modes.saw(data)
        self._keys.saw(data)
        if self._hand is not None:
            self._hand.show(data)
        else:
            self._feed.add(data)
        return True

    def _read_on(self) -> bytes:
        """Return more of a flood, which comes some 4 KB at a read, to be handled in one go."""
        parts: list[bytes] = []
        for _ in range(_READS_AT_ONCE):
            try:
                data = os.read(self.master, _READ_SIZE)
            except OSError:
                break  # nothing now, or the end, which the next read meets again
            parts.append(data)
            if len(data) < _FULL_READ:
                break
        return b"".join(parts)

    def _drain(self) -> None:
        """Read what is left without waiting; bounded in time for a job that goes on writing.

        All that the terminal held at the end is read, however late this process gets to it.
        """
        stop, held = time.monotonic() + _STRAGGLERS, self.keeper.total + _TERMINAL_HOLDS
        while self._terminal_open and (self.keeper.total < held or time.monotonic() < stop):
            before = self.keeper.total
            if not self._read() or self.keeper.total == before:
                return

    def _resume_suspended(self) -> bool:
        """Return whether Ctrl-Z stopped the shell; it is continued, for jobs cannot be resumed."""
        for child in children(self.leader):
            state = process_state(child)
            if state is not None and state.state == "T":
                signal_processes([s.pid for s in descendants(self.leader)], signal.SIGCONT)
                return True
        return False

    # --- a user --------------------------------------------------------------------------

    def _hand_over(self, terminal: Terminal) -> bool:
        """Give the terminal to the program; False while another command has it."""
        self._terminal = terminal
        self._feed.flush()
        hand = HandOver(terminal, self.master, self.outgoing, self._modes)
        try:
            hand.begin(self.keeper.last(_SHOWN))
        except BlockingIOError:
            return False
        except (OSError, termios.error):
            # A terminal that cannot be taken is none: the command goes on without a user.
            self._terminal = None
            return True
        self._hand = hand
        self._poll.register(hand.input, select.POLLIN)
        return True

    # --- ending ---------------------------------------------------------------------------

    def _begin_end(self, ended: Ended, now: float, waiting: Waiting | None = None) -> None:
        """Send TERM to the whole tree; KILL follows."""
        victims = descendants(self.leader)
        pids = [victim.pid for victim in victims]
        self._ending = Ending(ended, None, tuple(victims), waiting)
        signal_processes(pids, signal.SIGTERM)
        signal_processes([*pids, self.leader], signal.SIGCONT)
        self._kill_at = now + KILL_AFTER

    def _kill(self, now: float) -> bool:
        """Send KILL when it is time, again and again; returns whether it is of no use."""
        if self._kill_at is None or now < self._kill_at:
            return False
        signal_processes([state.pid for state in descendants(self.leader)], signal.SIGKILL)
        self._kill_at = now + _READY_POLL
        self._kills += 1
        return self._kills > _MOST_KILLS

    # --- waiting --------------------------------------------------------------------------

    def _send_due_keys(self, now: float) -> None:
        due = self._keys.due()
        if due is None or now < due:
            return
        begins = self._keys.signals and self._watch.begins()
        text = self._keys.take(now, reading=self._watch.reads_terminal(), begins=begins)
        if text is not None:
            self.outgoing.send(text.encode("utf-8", "surrogateescape"))
            self._last_output = now
            self._watch.goes_on()

    def _check_waiting(self, now: float) -> None:
        """Diagnose a quiet command; one that waits for input nobody sends is ended or detached."""
        watch, options = self._watch, self._options
        if now - self._last_output < QUIET:
            watch.goes_on()
            return
        waiting = watch.look(now, self._last_output, self.keeper.last_lines)
        waits = waiting is not None and waiting.kind in ("terminal", "password")
        if not waits or self._keys.due() is not None:
            return
        if options.detach_on_wait and not self._keys.pending:
            self._ending = Ending("detached", None, waiting=waiting, left_running=True)
        elif options.input_wait is not None and watch.waiting_time(now) >= options.input_wait:
            self._begin_end("stopped", now, waiting)

    def close(self) -> None:
        """Release the descriptors, once. The supervisor holds the terminal of a job."""
        self.reports.close()
        with self._lock:
            fds = (self._wake_read, self._wake_write, self.master)
            self._wake_read = self._wake_write = self.master = -1
        for fd in fds:
            if fd >= 0:
                os.close(fd)


def exit_code(status: int) -> int:
    """Return a shell's view of a wait status: the code, or 128 plus the signal's number."""
    if os.WIFSIGNALED(status):
        return 128 + os.WTERMSIG(status)
    return os.WEXITSTATUS(status)


def signal_name(status: int | None) -> str | None:
    """Return the name of the signal that ended a process; None when none did."""
    if status is None or not os.WIFSIGNALED(status):
        return None
    number = os.WTERMSIG(status)
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"  # real-time signals between the named ones


def command_result(
    command: str,
    ending: Ending,
    keeper: OutputKeeper,
    duration: float,
    *,
    cwd: str,
    jobs: tuple[Job, ...],
    notes: list[str],
    ours: Mapping[str, str],
    not_outside: tuple[str, ...] = (),
) -> CommandResult:
    """Return the result of `command`; `ours` are texts that bash prints of us, with substitutes."""
    rendered = keeper.render()
    text = rendered.text
    for printed, instead in ours.items():
        if printed in text:
            text = text.replace(printed, instead).rstrip("\n")
    notes = list(notes)
    if keeper.cut_file:
        notes.append("The output file does not hold all of the output.")
    if ending.victims:
        killed = ", ".join(f"{s.name} ({s.pid})" for s in ending.victims[:_MOST_NAMED])
        if len(ending.victims) > _MOST_NAMED:
            killed += f" and {len(ending.victims) - _MOST_NAMED} more"
        notes.append(f"Ended after {duration:.1f} s: {killed}.")
    if rendered.full_screen and ending.victims:
        # It was on when the command was ended; that the program then cleaned up says nothing.
        text = f"{rendered.full_screen}\n{text}" if text else rendered.full_screen
    elif rendered.full_screen:
        notes.append(f"The full screen last showed:\n{rendered.full_screen[-_FULL_SCREEN:]}")
    return CommandResult(
        command=command,
        ended=ending.ended,
        exit_code=None if ending.status is None else exit_code(ending.status),
        text=text,
        duration=duration,
        cwd=cwd,
        signal=signal_name(ending.status),
        output_path=keeper.path,
        output_bytes=keeper.total,
        omitted_bytes=rendered.omitted,
        jobs=tuple(jobs),
        waiting=ending.waiting,
        notes=tuple(notes),
        not_outside=not_outside,
    )


_MOST_NAMED = 20
_FULL_SCREEN = 4000
"""Characters of a full-screen program's last screen that are told."""
