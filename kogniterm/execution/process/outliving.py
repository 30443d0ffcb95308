"""Processes that may outlive an executor, and those that a closed terminal takes along.

What would outlive an ordinary terminal may outlive an executor: processes that ignore the hang-up
(`nohup`), have left the terminal's session (`setsid`, daemons that fork twice) or were disowned,
with all that they started. A plain `command &` would be hung up there, and is ended here.

This module runs inside the supervisor too, and imports as little as that needs.
"""

from __future__ import annotations

import contextlib
import fcntl
import struct
import time

from kogniterm.host.processes import (
    ProcessState,
    descendants,
    descriptor_name,
    descriptors_of,
    process_file,
    process_words,
)

# Set here and not imported: the supervisor starts in half the time without `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

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
    disowned = _disowned_pids(statuses)
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
    """Return the processes below `leader` once forked shells are programs; waits up to a second."""
    deadline = time.monotonic() + _BEGIN
    while True:
        states = descendants(leader)
        if not any(state.begins for state in states) or time.monotonic() >= deadline:
            return states
        time.sleep(_PAUSE)


def _disowned_pids(statuses: str) -> frozenset[int]:
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
    return [(group, process_words(pid) or [names[pid]]) for pid, group in groups.items()]


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
            numbers = descriptors_of(pid)
        except FileNotFoundError:
            continue
        except OSError:
            return True
        for number in numbers:
            if number == 0:
                continue  # what would read there without a terminal meets its end
            with contextlib.suppress(OSError):
                if descriptor_name(pid, number) in names:
                    return True
    return False


def _ignores_hangup(pid: int) -> bool:
    try:
        lines = process_file(pid, "status").splitlines()
    except OSError:
        return False
    ignored = next((line for line in lines if line.startswith(b"SigIgn:")), b"SigIgn: 0")
    return bool(int(ignored.split()[1], 16) & _HANGUP_BIT)
