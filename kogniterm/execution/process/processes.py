"""Processes as /proc shows them, the end of whole trees, and what may outlive an executor.

A command's tree is everything below its session leader. The leader is a child subreaper
(prctl(2)), so daemons that call setsid and lose their parents stay below it.

What would outlive an ordinary terminal may outlive an executor: processes that ignore the hang-up
(`nohup`), have left the terminal's session (`setsid`, daemons that fork twice) or were disowned,
with all that they started. A plain `command &` would be hung up there, and is ended here.

This module runs inside the supervisor too, and imports as little as that needs.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import struct
import time

# Set here and not imported: the supervisor starts in half the time without `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Spare = Callable[[list["ProcessState"]], set[int]]

KILL_AFTER = 0.2
"""Seconds between TERM and KILL."""

_SWEEP_PAUSE = 0.005
_SWEEPS = 400
_FORKED_ONLY = 0x40
"""PF_FORKNOEXEC (linux/sched.h): the process is a copy of its parent, which executed nothing."""


class ProcessState:
    """One line of /proc/PID/stat (proc(5)): `cpu` is user plus system time in clock ticks.

    `terminal` is the device number of its controlling terminal, 0 without one.

    A plain class, for `dataclasses` takes longer to import than all else a supervisor needs.
    """

    __slots__ = ("begins", "cpu", "group", "name", "parent", "pid", "session", "state", "terminal")

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


def process_state(pid: int) -> ProcessState | None:
    """Return the state of process `pid`; None when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - hot path, no Path objects
            data = file.read()
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
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:  # noqa: PTH123 - hot path
                found.extend(map(int, file.read().split()))
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


DISOWNED = "disowned"
"""The file in the folder of exit codes that a shell's `disown` adds the numbers of processes to."""
KEPT, DETACHED, NOTHING = "kept", "detached", "nothing"
"""Processes that may outlive an executor: kept jobs alone, detached ones too, or nothing."""
_DETACHERS = frozenset({"nohup", "setsid"})
_HANGUP_BIT = 1
_TIOCGPTN = 0x80045430
"""Asks a pseudo-terminal's master for its number (ioctl_tty(2))."""
_BEGIN = 1.0
_PAUSE = 0.005


def outliving(states: list[ProcessState], leader: int, outlives: str, statuses: str) -> set[int]:
    """Return those of `states`, a tree below `leader` with parents first, that may outlive it.

    `outlives` is what it lets, `statuses` its folder of exit codes.
    """
    if outlives != DETACHED:
        return set()
    disowned = _disowned(statuses)
    found: set[int] = set()
    for state in states:
        # A session with a terminal of its own is that of a program which lends it: sudo, script.
        elsewhere = state.session != leader and state.terminal == 0
        if (
            state.parent in found
            or elsewhere
            or state.pid in disowned
            or state.name in _DETACHERS
            or _ignores_hangup(state.pid)
        ):
            found.add(state.pid)
    return found


def once_begun(leader: int) -> list[ProcessState]:
    """Return what runs below `leader` once forked shells are programs; waits a second at most."""
    deadline = time.monotonic() + _BEGIN
    while True:
        states = descendants(leader)
        if not any(state.begins for state in states) or time.monotonic() >= deadline:
            return states
        time.sleep(_PAUSE)


def _disowned(statuses: str) -> frozenset[int]:
    """Return the processes that shells disowned, by the executor's folder of exit codes."""
    try:
        with open(f"{statuses}/{DISOWNED}", "rb") as file:  # noqa: PTH123 - no pathlib here
            return frozenset(int(word) for word in file.read().split() if word.isdigit())
    except OSError:
        return frozenset()


def programs(states: list[ProcessState], pids: set[int]) -> list[tuple[list[int], list[str]]]:
    """Return each program of `pids` that no other of them started: its pids and its words."""
    groups: dict[int, list[int]] = {}
    top: dict[int, int] = {}
    for state in states:
        if state.pid in pids:
            top[state.pid] = top.get(state.parent, state.pid)
            groups.setdefault(top[state.pid], []).append(state.pid)
    names = {state.pid: state.name for state in states}
    return [(group, _words(pid) or [names[pid]]) for pid, group in groups.items()]


def terminal_number(master: int) -> int | None:
    """Return the number of the terminal whose master this is; None when unknown."""
    try:
        return int(struct.unpack("I", fcntl.ioctl(master, _TIOCGPTN, bytes(4)))[0])
    except OSError:
        return None


def write_to(terminal: int | None, pids: Iterable[int]) -> bool:
    """Return whether one of `pids` may have this terminal open as more than its input."""
    names = ("/dev/tty", f"/dev/pts/{terminal}")
    for pid in pids:
        try:
            entries = os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208 - no pathlib here
        except FileNotFoundError:
            continue
        except OSError:
            return True
        for entry in entries:
            if entry == "0":
                continue  # what would read there without a terminal meets its end
            with contextlib.suppress(OSError):
                target = os.readlink(f"/proc/{pid}/fd/{entry}")  # noqa: PTH115 - no pathlib here
                if target in names:
                    return True
    return False


def _ignores_hangup(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/status", "rb") as file:  # noqa: PTH123 - no pathlib here
            for line in file:
                if line.startswith(b"SigIgn:"):
                    return bool(int(line.split()[1], 16) & _HANGUP_BIT)
    except OSError:
        pass
    return False


def _words(pid: int) -> list[str]:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123 - no pathlib here
            return [word.decode("utf-8", "replace") for word in file.read().split(b"\0")[:-1]]
    except OSError:
        return []
