"""Diagnosis of a quiet command, from the state of its processes and not from a timer alone.

What a process does is read from /proc (proc(5)): the system call it is blocked in with its
arguments, the descriptors those name, processor time used between two looks, and the terminal's
own modes and foreground process group. Where the kernel does not let us look (a setuid program
such as sudo), the terminal's modes and the shape of the last line have to do.
"""

from __future__ import annotations

import contextlib
import os
import platform
import struct
from collections.abc import Callable
from typing import NamedTuple

from kogniterm.execution.process.outliving import terminal_number
from kogniterm.execution.process.pty import line_modes
from kogniterm.host.processes import (
    ProcessState,
    descendants,
    descriptor_device,
    descriptor_name,
    process_file,
    process_memory,
)
from kogniterm.protocols import OutputSink
from kogniterm.types import Waiting, WaitKind

QUIET = 1.0
"""Seconds without output after which a command is looked at."""
_LOOK_EVERY = 0.5
_BUSY_TICKS = 5
"""Processor time between two looks, in clock ticks, above which a process counts as busy."""
_PTS_MAJOR = 136

_CALLS = {
    "x86_64": {
        0: "read", 19: "read", 45: "receive", 47: "receive", 42: "connect", 43: "accept",
        288: "accept", 7: "poll", 271: "poll", 23: "select", 270: "select", 232: "epoll",
        281: "epoll", 441: "epoll", 35: "sleep", 230: "sleep", 34: "sleep", 61: "wait", 247: "wait",
        130: "sleep", 128: "sleep", 202: "lock", 1: "write", 44: "send", 46: "send",
    },
    "aarch64": {
        63: "read", 65: "read", 207: "receive", 212: "receive", 203: "connect", 202: "accept",
        242: "accept", 73: "poll", 72: "select", 22: "epoll", 441: "epoll", 101: "sleep",
        115: "sleep", 260: "wait", 95: "wait", 133: "sleep", 137: "sleep", 98: "lock", 64: "write",
        206: "send", 211: "send",
    },
}  # fmt: skip
"""System call numbers (linux/arch/*/entry/syscalls) by what they wait for."""


class _WaitFinding(NamedTuple):
    kind: WaitKind
    program: str
    evidence: str


_ORDER: tuple[WaitKind, ...] = ("password", "terminal", "busy", "network", "stopped", "sleeping")


class Watch:
    """Looks at a quiet command twice a second and tells a sink when the answer changes."""

    def __init__(self, leader: int, master: int, sink: OutputSink | None) -> None:
        self._leader = leader
        self._master = master
        self._sink = sink
        self._told: WaitKind | None = None
        self._next = 0.0
        self._cpu: dict[int, int] = {}
        self._input_since: float | None = None
        self.last: Waiting | None = None

    def next_look(self, last_output: float) -> float:
        """Return when the command is to be looked at next (monotonic seconds)."""
        return max(self._next, last_output + QUIET)

    def goes_on(self) -> None:
        """Return the command has written or ended: whatever it waited for is over."""
        self._input_since = None
        self.last = None
        if self._told is not None:
            self._told = None
            if self._sink is not None:
                self._sink.waiting(None)

    def waiting_time(self, now: float) -> float:
        """Return the seconds since the command was first seen waiting for input."""
        return 0.0 if self._input_since is None else now - self._input_since

    def look(self, now: float, last_output: float, last_lines: Callable[[], str]) -> Waiting | None:
        """Return the diagnosis now, or the last one when it is not yet time for another look."""
        if now < self._next:
            return self.last
        self._next = now + _LOOK_EVERY
        finding = self._diagnose()
        if finding is None:
            return self.last
        if finding.kind in ("terminal", "password"):
            self._input_since = self._input_since or last_output
        else:
            self._input_since = None
        self.last = Waiting(
            finding.kind, now - last_output, finding.program, finding.evidence, last_lines()
        )
        if finding.kind != self._told:
            self._told = finding.kind
            if self._sink is not None:
                self._sink.waiting(self.last)
        return self.last

    def reads_terminal(self) -> bool:
        """Return whether a foreground process is blocked reading the terminal at this moment."""
        group = _foreground(self._master)
        terminal = terminal_device(self._master)
        return any(
            _reads(state.pid, terminal)
            for state in descendants(self._leader)
            if state.group == group and state.state == "S"
        )

    def begins(self) -> bool:
        """Return whether a foreground process is just becoming the program it was forked for."""
        group = _foreground(self._master)
        return any(state.begins and state.group == group for state in descendants(self._leader))

    def _diagnose(self) -> _WaitFinding | None:
        group = _foreground(self._master)
        terminal = terminal_device(self._master)
        echo, canonical = line_modes(self._master)
        findings = []
        states = descendants(self._leader)
        for state in states:
            finding = self._inspect(state, group, terminal)
            if finding.kind == "terminal" and not echo and canonical:
                finding = _WaitFinding("password", finding.program, finding.evidence + ", echo off")
            findings.append(finding)
        self._cpu = {state.pid: state.cpu for state in states}
        if not findings:
            return None
        # Of those in the same state the last one: its parents wait for it.
        return min(reversed(findings), key=lambda finding: _ORDER.index(finding.kind))

    def _inspect(self, state: ProcessState, group: int, terminal: int) -> _WaitFinding:
        pid, name = state.pid, state.name
        if state.state in "Tt":
            return _WaitFinding("stopped", name, f"process {pid} is stopped")
        used = state.cpu - self._cpu.get(pid, state.cpu)
        if state.state in "RD" or used >= _BUSY_TICKS:
            what = "waits for the disk" if state.state == "D" else "is computing"
            return _WaitFinding("busy", name, f"process {pid} {what}")
        foreground = state.group == group
        call = _system_call(pid)
        if call is None:  # the kernel does not let us look
            echo, canonical = line_modes(self._master)
            asks = foreground and not echo and canonical
            evidence = f"process {pid} cannot be inspected"
            return _WaitFinding("terminal" if asks else "sleeping", name, evidence)
        what, arguments = call
        fds = _waited_for(pid, what, arguments)
        if foreground and any(_is_terminal(pid, fd, terminal) for fd in fds):
            return _WaitFinding(
                "terminal", name, f"process {pid} is blocked in {what} on the terminal"
            )
        if any(_is_socket(pid, fd) for fd in fds):
            return _WaitFinding("network", name, f"process {pid} is blocked in {what} on a socket")
        return _WaitFinding("sleeping", name, f"process {pid} is blocked in {what}")


def _foreground(master: int) -> int:
    try:
        return os.tcgetpgrp(master)
    except OSError:
        return -1


def terminal_device(master: int) -> int:
    """Return the device number of the terminal's other end."""
    number = terminal_number(master)
    return -1 if number is None else os.makedev(_PTS_MAJOR, number)


def _system_call(pid: int) -> tuple[str, list[int]] | None:
    """Return the call that `pid` is blocked in and its arguments; None when it cannot be seen."""
    try:
        fields = process_file(pid, "syscall").split()
    except OSError:
        return None
    if not fields or not fields[0].isdigit():
        return "running", []
    names = _CALLS.get(platform.machine(), {})
    number = int(fields[0])
    return names.get(number, f"system call {number}"), [int(field, 16) for field in fields[1:7]]


def _reads(pid: int, terminal: int) -> bool:
    call = _system_call(pid)
    return call is not None and any(
        _is_terminal(pid, fd, terminal) for fd in _waited_for(pid, *call)
    )


def _waited_for(pid: int, what: str, arguments: list[int]) -> list[int]:
    """Return the descriptors whose input the blocked call waits for."""
    if what in ("read", "receive", "connect", "accept"):
        return [arguments[0]]
    try:
        if what == "poll":
            pollin = 1
            data = process_memory(pid, arguments[0], 8 * min(arguments[1], 1024))
            entries = struct.iter_unpack("=ihh", data[: len(data) // 8 * 8])
            return [fd for fd, events, _ in entries if fd >= 0 and events & pollin]
        if what == "select":
            size = (min(arguments[0], 1024) + 7) // 8
            bits = int.from_bytes(process_memory(pid, arguments[1], size), "little")
            return [fd for fd in range(size * 8) if bits >> fd & 1]
        if what == "epoll":
            lines = process_file(pid, f"fdinfo/{arguments[0]}").splitlines()
            return [int(line.split()[1]) for line in lines if line.startswith(b"tfd:")]
    except OSError:
        return []
    return []


def _is_terminal(pid: int, fd: int, terminal: int) -> bool:
    """Return whether descriptor `fd` of `pid` is its terminal, by whatever name it was opened."""
    with contextlib.suppress(OSError):
        return descriptor_device(pid, fd) in (terminal, os.makedev(5, 0))
    return False


def _is_socket(pid: int, fd: int) -> bool:
    try:
        return descriptor_name(pid, fd).startswith("socket:")
    except OSError:
        return False
