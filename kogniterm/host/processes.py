"""Processes as /proc shows them (proc(5)), and the end of whole trees of them.

A command's tree is everything below its session leader. The leader is a child subreaper
(prctl(2)), so daemons that call setsid and lose their parents stay below it.

This module runs inside the supervisor too, and imports as little as that needs.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

# Set here and not imported: the supervisor starts in half the time without `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Spare = Callable[[list["ProcessState"]], set[int]]

KILL_AFTER = 0.2
"""Seconds between TERM and KILL."""

LOOK_SECONDS = 0.05
"""Time between two looks whether a program waits for a named pipe in place of a file."""

_SWEEP_PAUSE = 0.005
_SWEEPS = 400
_FORKED_ONLY = 0x40
"""PF_FORKNOEXEC (linux/sched.h): the process is a copy of its parent, which executed nothing."""


def process_file(pid: int | str, name: str) -> bytes:
    """Return the content of a file of /proc/PID. Raises `OSError`."""
    with open(f"/proc/{pid}/{name}", "rb") as file:  # noqa: PTH123 - hot path, no Path objects
        return file.read()


class ProcessState:
    """One line of /proc/PID/stat (proc(5)): `cpu` is user plus system time in clock ticks.

    `terminal` is the device number of its controlling terminal, 0 without one; `started` the
    ticks from the boot of the machine to its start.

    A plain class, for `dataclasses` takes longer to import than all else a supervisor needs.
    """

    __slots__ = ("begins", "cpu", "group", "name", "parent", "pid", "session", "started", "state",
                 "terminal")  # fmt: skip

    def __init__(self, pid: int, name: str, fields: list[bytes]) -> None:
        self.pid = pid
        self.name = name
        self.state = fields[0].decode("ascii")
        self.parent = int(fields[1])
        self.group = int(fields[2])
        self.session = int(fields[3])
        self.terminal = int(fields[4])
        # A copy of a shell on its way to be a program, unless it is a subshell that computes.
        self.begins = bool(int(fields[6]) & _FORKED_ONLY) and self.state in "RD"
        self.cpu = int(fields[11]) + int(fields[12])
        self.started = fields[19].decode("ascii")


def process_state(pid: int) -> ProcessState | None:
    """Return the state of process `pid`; None when there is no such process."""
    try:
        data = process_file(pid, "stat")
    except OSError:
        return None
    opening, closing = data.find(b"("), data.rfind(b")")
    fields = data[closing + 2 :].split()
    if len(fields) < 20:
        return None
    return ProcessState(pid, data[opening + 1 : closing].decode("utf-8", "replace"), fields)


def children(pid: int) -> list[int]:
    """Return the direct children of `pid`, zombies included."""
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - hot path, no Path objects
    except OSError:
        return found
    for thread in threads:
        try:
            found.extend(map(int, process_file(pid, f"task/{thread}/children").split()))
        except FileNotFoundError:
            if os.path.exists(f"/proc/{pid}/task/{thread}"):  # noqa: PTH110 - hot path
                return _children_by_scan(pid)
        except OSError:
            continue
    return found


def _children_by_scan(pid: int) -> list[int]:
    """Find children on kernels built without CONFIG_PROC_CHILDREN."""
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208 - hot path
        if name.isdigit():
            state = process_state(int(name))
            if state is not None and state.parent == pid:
                found.append(state.pid)
    return found


def descendants(pid: int) -> list[ProcessState]:
    """Return every living process below `pid`, parents before children; zombies are left out."""
    found: list[ProcessState] = []
    queue = children(pid)
    seen = {pid}
    while queue:
        child = queue.pop(0)
        if child in seen:
            continue
        seen.add(child)
        state = process_state(child)
        if state is None:
            continue
        if state.state not in "ZXx":
            found.append(state)
        queue.extend(children(child))
    return found


def signal_processes(pids: list[int], number: int) -> None:
    """Send signal `number` to each of `pids`; those already gone or not ours are passed over."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def end_tree(leader: int, *, spare: Spare | None = None) -> None:
    """End everything below `leader`: TERM, then KILL 200 ms later.

    Stopped processes are continued so that they can act on TERM; in a sandbox what runs there may
    have stopped the leader, too. The KILL sweep repeats until nothing is left, because a process
    may fork while it is being killed. What `spare` picks out of
    the tree is left alone.
    """

    def rest() -> list[ProcessState]:
        states = descendants(leader)
        spared = spare(states) if spare is not None and states else ()
        return [state for state in states if state.pid not in spared]

    pids = [state.pid for state in rest()]
    signal_processes(pids, signal.SIGTERM)
    signal_processes([*pids, leader], signal.SIGCONT)
    deadline = time.monotonic() + KILL_AFTER
    while rest() and time.monotonic() < deadline:
        time.sleep(_SWEEP_PAUSE)
    for _ in range(_SWEEPS):
        alive = rest()
        if not alive:
            return
        signal_processes([state.pid for state in alive], signal.SIGKILL)
        time.sleep(_SWEEP_PAUSE)


def process_words(pid: int) -> list[str]:
    """Return the command line of process `pid`; empty where it has none or is gone."""
    try:
        data = process_file(pid, "cmdline")
    except OSError:
        return []
    return [word.decode("utf-8", "replace") for word in data.split(b"\0")[:-1]]


def process_memory(pid: int, address: int, size: int) -> bytes:
    """Return bytes of the memory of process `pid`. Raises `OSError`."""
    if address == 0 or size == 0:
        return b""
    with open(f"/proc/{pid}/mem", "rb", 0) as file:  # noqa: PTH123 - hot path
        file.seek(address)
        return file.read(size)


def descriptors_of(pid: int) -> list[int]:
    """Return the numbers of the descriptors that process `pid` has. Raises `OSError`."""
    return sorted(int(name) for name in os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 - hot path


def descriptor_name(pid: int, number: int) -> str:
    """Return the name of what descriptor `number` of process `pid` leads to. Raises `OSError`."""
    return os.readlink(f"/proc/{pid}/fd/{number}")  # noqa: PTH115 - hot path


def descriptor_device(pid: int, number: int) -> int:
    """Return the device that a descriptor leads to, 0 for all but devices. Raises `OSError`."""
    return os.stat(f"/proc/{pid}/fd/{number}").st_rdev  # noqa: PTH116 - hot path


def closes_on_execution(pid: int, number: int) -> bool:
    """Return whether execve(2) closes descriptor `number` of process `pid`. Raises `OSError`."""
    for line in process_file(pid, f"fdinfo/{number}").splitlines():
        if line.startswith(b"flags:"):
            return bool(int(line.split()[1], 8) & os.O_CLOEXEC)
    return False


def waits_for_writer(pid: int) -> bool:
    """Return whether a program waits for the other end of a named pipe that it opened to read."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - names are enough
        return b"wait_for_partner" in [process_file(pid, f"task/{one}/wchan") for one in threads]
    except OSError:
        return False


def start_of(pid: int) -> str | None:
    """Return the start of the process in ticks since boot; None when there is no such process.

    Together with the number it identifies a process: numbers are reused, this pair is not.
    """
    state = process_state(pid)
    if state is not None:
        return None if state.state in "ZX" else state.started
    return None if os.path.exists("/proc/self") else _start_without_proc(pid)  # noqa: PTH110 - as above


def _start_without_proc(pid: int) -> str | None:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    return "unknown"


def this_boot() -> str:
    """Return the boot of this machine and the space of its process numbers; "unknown" without."""
    try:
        boot = process_file("sys", "kernel/random/boot_id").decode("ascii").strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}"  # noqa: PTH115 - no Path objects here
    except OSError:
        return "unknown"
