"""One running command: its terminal, its reports, its end."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import termios
import threading
import time

from kogniterm.execution.descriptors import Farewell
from kogniterm.execution.feed import LiveFeed
from kogniterm.execution.interactive import SIZE_LOOK, HandOver, ModeTracker, needs_person
from kogniterm.execution.keys import KeySequence, Outgoing
from kogniterm.execution.launcher import Launched
from kogniterm.execution.output import OutputKeeper
from kogniterm.execution.processes import (
    KILL_AFTER,
    children,
    descendants,
    process_state,
    signal_processes,
)
from kogniterm.execution.reports import Reports
from kogniterm.execution.terms import Company, Ending, RunLimits
from kogniterm.execution.waiting import QUIET, Watch
from kogniterm.protocols import Terminal
from kogniterm.types import Ended, Waiting

_READ_SIZE = 1 << 18
_FULL_READ = 4000
_READS_AT_ONCE = 32
_STRAGGLERS = 0.15
"""Seconds that what the shell left behind gets to end by itself before it becomes a job."""
_TERMINAL_HOLDS = 128 << 10
"""Bytes, more than a terminal takes in before its writers have to wait."""
_MOST_KILLS = 150
"""How often a process is killed before it is taken for one that cannot be, and left alone."""
_READY_POLL = 0.02
_PERSON_LOOK = 0.1
"""Seconds between looks whether a program needs the person who is there."""
_SHOWN = 8 << 10


class RunningCommand:
    """Drives one command in the caller's thread; `stop`, `detach` and `send` come from others."""

    def __init__(self, launched: Launched, keeper: OutputKeeper, farewell: Farewell) -> None:
        self.leader = launched.leader
        self.master = launched.master
        self.reports = Reports(launched.reports)
        self._farewell = farewell
        self.keeper = keeper
        self.outgoing = Outgoing(launched.master)
        self.started = time.monotonic()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        self._lock = threading.Lock()
        self._orders: list[str] = []
        self._typed: list[bytes] = []
        self._terminal_open = True
        self._last_output = self.started
        self._kill_at: float | None = None
        self._kills = 0
        self._ending: Ending | None = None
        self._poll = select.poll()
        self._company = Company(KeySequence(()), LiveFeed(None))
        self._modes = ModeTracker()
        self._hand: HandOver | None = None
        self._offered: Terminal | None = None
        self._person_look = self.started
        self.notes: list[str] = []

    # --- from other threads ---------------------------------------------------------------

    def stop(self) -> None:
        """End the command's tree."""
        self._order("stop")

    def detach(self) -> None:
        """Let the command go on as a job."""
        self._order("detach")

    def send(self, data: bytes) -> None:
        """Type `data` into the command."""
        with self._lock:
            self._typed.append(data)
        self._order("type")

    def _order(self, order: str) -> None:
        with self._lock:
            self._orders.append(order)
            if self._wake_write >= 0:
                with contextlib.suppress(OSError):
                    os.write(self._wake_write, b".")

    def send_to_job(self, data: bytes) -> None:
        """Type `data` into what runs on in the background; what has ended takes no more."""
        with self._lock:
            if self.master >= 0:
                self.outgoing.send(data)

    def take_over(self, terminal: Terminal) -> None:
        """Hand the command over to the person at `terminal`."""
        with self._lock:
            self._offered = terminal
        self._order("hand over")

    # --- the loop -------------------------------------------------------------------------

    def run(self, limits: RunLimits, company: Company) -> Ending:
        """Serve the command until it has ended or is detached."""
        self._company = company
        self._poll.register(self._wake_read, select.POLLIN)
        self._poll.register(self.reports.fd, select.POLLIN)
        self._poll.register(self.master, select.POLLIN)
        self._poll.register(self._farewell.asked, select.POLLIN)
        watch = Watch(self.leader, self.master, company.sink)
        try:
            if company.terminal is not None and company.at_once:
                self._hand_over(company.terminal)
            self._loop(limits, company, watch)
            watch.goes_on()
            self._drain()
            company.feed.flush()
        finally:
            self._hand_back()
        return self._conclude()

    def _loop(self, limits: RunLimits, company: Company, watch: Watch) -> None:
        deadline = None if limits.timeout is None else self.started + limits.timeout
        settle: float | None = None
        while not self.reports.gone and not self._detached:
            self._poll_once(self._next_event(deadline, settle, company, watch))
            now = time.monotonic()
            if company.feed.due is not None and now >= company.feed.due:
                company.feed.flush()
            if self._ending is not None:
                if self._kill(now):
                    return
            elif self.reports.status is not None:
                settle = settle or now + _STRAGGLERS
                if now >= settle:
                    return
            else:
                self._obey(now)
                self._attend(limits, company, watch, now)
                if deadline is not None and now >= deadline and self._ending is None:
                    self._begin_end("timeout", now, watch.last)

    @property
    def _detached(self) -> bool:
        return self._ending is not None and self._ending.ended == "detached"

    def _attend(self, limits: RunLimits, company: Company, watch: Watch, now: float) -> None:
        """What a running command may need: prepared keys, a person, a diagnosis."""
        if self._hand is not None:
            self._hand.follow_size()
            if self._hand.hung_up:
                self._begin_end("stopped", now)
            elif self._suspended():
                self.notes.append("The person suspended it; it goes on as a job.")
                self._ending = Ending("detached", None, left_running=True)
            return
        self._send_due_keys(company.keys, now, watch)
        if company.terminal is not None and not company.keys.pending and now >= self._person_look:
            quiet = now - self._last_output
            self._person_look = now + max(_PERSON_LOOK, quiet / 4)
            if needs_person(self.master) or (quiet >= _PERSON_LOOK and watch.reads_terminal()):
                self._read()  # what it said before, which is not for the person's terminal
                watch.goes_on()
                self._hand_over(company.terminal)
                return
        self._check_waiting(limits, company.keys, watch, now)

    def _next_event(
        self, deadline: float | None, settle: float | None, company: Company, watch: Watch
    ) -> float | None:
        """Milliseconds until the loop has something to do by itself."""
        now = time.monotonic()
        moments = [m for m in (deadline, settle, company.feed.due, self._kill_at) if m is not None]
        if self.reports.status is None and self._ending is None:
            due = company.keys.due()
            if self._hand is not None:
                moments.append(now + SIZE_LOOK)
            else:
                moments.append(watch.next_look(self._last_output))
                if company.terminal is not None and not company.keys.pending:
                    moments.append(self._person_look)
                if due is not None:
                    moments.append(max(due, now + _READY_POLL))
        return max(0.0, (min(moments) - now) * 1000) + 0.5 if moments else None

    def _poll_once(self, timeout: float | None) -> None:
        if self._terminal_open:
            self._poll.modify(self.master, self._interest())
        for fd, event in self._poll.poll(timeout):
            if fd == self._wake_read:
                with contextlib.suppress(BlockingIOError):
                    os.read(fd, 4096)
            elif fd == self.reports.fd:
                self.reports.read()
            elif fd == self._farewell.asked:
                self.notes += self._farewell.answer(self.leader, self.master)
            elif fd == self.master:
                if event & select.POLLOUT:
                    self.outgoing.flush()
                if event & ~select.POLLOUT and not self._read():
                    self._poll.unregister(self.master)
                    self._terminal_open = False
            elif self._hand is not None and self._hand.pass_keys():
                self._ending = Ending("detached", None, left_running=True)

    def _interest(self) -> int:
        return select.POLLIN | (select.POLLOUT if self.outgoing.waiting else 0)

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
        company = self._company
        self._modes.saw(data)
        company.keys.saw(data)
        if self._hand is not None:
            self._hand.show(data)
        else:
            company.feed.add(data)
        return True

    def _read_on(self) -> bytes:
        """More of a flood, which comes some 4 KB at a read, to be handled in one go."""
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

    def _suspended(self) -> bool:
        """Whether Ctrl-Z stopped the shell; it is continued, for a job cannot be resumed."""
        for child in children(self.leader):
            state = process_state(child)
            if state is not None and state.state == "T":
                signal_processes([s.pid for s in descendants(self.leader)], signal.SIGCONT)
                return True
        return False

    # --- a person -------------------------------------------------------------------------

    def _hand_over(self, terminal: Terminal) -> None:
        self._company.terminal = terminal
        self._company.feed.flush()
        hand = HandOver(terminal, self.master, self.outgoing, self._modes)
        try:
            hand.begin(self.keeper.last(_SHOWN))
        except (OSError, termios.error):
            # A terminal that cannot be taken is none: the command goes on without a person.
            self._company.terminal = None
            return
        self._hand = hand
        self._poll.register(hand.input, select.POLLIN)

    def _hand_back(self) -> None:
        hand, self._hand = self._hand, None
        if hand is not None:
            with contextlib.suppress(KeyError, ValueError):
                self._poll.unregister(hand.input)
            hand.end(over=self.reports.gone)
            self.notes += hand.notes()

    # --- ending ---------------------------------------------------------------------------

    def _obey(self, now: float) -> None:
        """Follow the orders of other threads."""
        with self._lock:
            orders, self._orders = self._orders, []
            typed, self._typed = self._typed, []
            offered, self._offered = self._offered, None
        for data in typed:
            self.outgoing.send(data)
        if "stop" in orders:
            self._begin_end("stopped", now)
        elif "detach" in orders:
            self._ending = Ending("detached", None, left_running=True)
        elif offered is not None and self._hand is None:
            self._hand_over(offered)

    def _begin_end(self, ended: Ended, now: float, waiting: Waiting | None = None) -> None:
        """TERM to the whole tree; KILL follows."""
        victims = descendants(self.leader)
        pids = [victim.pid for victim in victims]
        self._ending = Ending(ended, None, tuple(victims), waiting)
        signal_processes(pids, signal.SIGTERM)
        signal_processes(pids, signal.SIGCONT)
        self._kill_at = now + KILL_AFTER

    def _kill(self, now: float) -> bool:
        """KILL when it is time, again and again; True when it is of no use."""
        if self._kill_at is None or now < self._kill_at:
            return False
        signal_processes([state.pid for state in descendants(self.leader)], signal.SIGKILL)
        self._kill_at = now + _READY_POLL
        self._kills += 1
        return self._kills > _MOST_KILLS

    def _conclude(self) -> Ending:
        self.reports.read()
        if self._ending is not None:
            self._ending.left_running = not self.reports.gone
            return self._ending
        if self.reports.status is None:
            # The leader is gone without a report: somebody killed it, and the shell with it.
            return Ending("signaled", signal.SIGKILL)
        ended: Ended = "signaled" if os.WIFSIGNALED(self.reports.status) else "exited"
        return Ending(ended, self.reports.status, left_running=not self.reports.gone)

    # --- waiting --------------------------------------------------------------------------

    def _send_due_keys(self, keys: KeySequence, now: float, watch: Watch) -> None:
        due = keys.due()
        if due is None or now < due:
            return
        begins = keys.signals and watch.begins()
        text = keys.take(now, reading=watch.reads_terminal(), begins=begins)
        if text is not None:
            self.outgoing.send(text.encode("utf-8", "surrogateescape"))
            self._last_output = now
            watch.goes_on()

    def _check_waiting(
        self, limits: RunLimits, keys: KeySequence, watch: Watch, now: float
    ) -> None:
        """Diagnose a quiet command; one that waits for input nobody sends is ended or detached."""
        if now - self._last_output < QUIET:
            watch.goes_on()
            return
        waiting = watch.look(now, self._last_output, self.keeper.last_lines)
        if (
            waiting is None
            or waiting.kind not in ("terminal", "password")
            or keys.due() is not None
        ):
            return
        if limits.detach_on_wait and not keys.pending:
            self._ending = Ending("detached", None, waiting=waiting, left_running=True)
        elif limits.input_wait is not None and watch.waited(now) >= limits.input_wait:
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
