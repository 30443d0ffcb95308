"""The state of a client's process that its session must have too: compared, or taken over."""

from __future__ import annotations

import ctypes
import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from kogniterm.cli.warm.warm_place import process_text

_SAME = (
    "Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs",
    "Seccomp", "Seccomp_filters", "Mems_allowed", "TracerPid",
)  # fmt: skip
"""Lines of `/proc/PID/status` in which the two may not differ."""
_FILES = ("attr/current", "loginuid", "sessionid", "oom_score_adj", "personality")
"""Files of `/proc/PID` in which the two may not differ; not every kernel has each."""
_LINKS = ("root", "ns/cgroup", "ns/ipc", "ns/mnt", "ns/net", "ns/pid", "ns/pid_for_children",
          "ns/time", "ns/time_for_children", "ns/user", "ns/uts")  # fmt: skip
_LIMITS = sorted({value for name, value in vars(resource).items() if name.startswith("RLIMIT_")})
_GROUPS = Path("/sys/fs/cgroup")
_INPUT_OUTPUT_CALLS = {
    "aarch64": (30, 31), "armv7l": (314, 315), "i686": (289, 290), "ppc64le": (273, 274),
    "riscv64": (30, 31), "s390x": (282, 283), "x86_64": (251, 252),
}  # fmt: skip
"""The numbers of `ioprio_set` and `ioprio_get` (ioprio_set(2)), for which there is no function."""
_OF_PROCESS = 1


def same_state(pid: int) -> bool:
    """Return whether process `pid` has this process's rights, namespaces and scheduling.

    False where its state may not be read.
    """
    try:
        return (
            list(_kept("self")) == list(_kept(pid))
            and os.sched_getscheduler(pid) == os.sched_getscheduler(0)
            and os.getpriority(os.PRIO_PROCESS, pid) >= os.getpriority(os.PRIO_PROCESS, 0)
        )
    except OSError:
        return False


def _kept(pid: int | str) -> Iterator[str]:
    for line in process_text(pid, "status").splitlines():
        if line.partition(":")[0] in _SAME:
            yield line
    for name in _LINKS:
        with suppress(FileNotFoundError):
            yield str(Path(f"/proc/{pid}/{name}").readlink())
    for name in _FILES:
        try:
            yield process_text(pid, name)
        except OSError as error:  # a kernel without a security module refuses to read its label
            yield str(error.errno)


def take_over(pid: int) -> None:
    """Take over the limits, priority, processors and control group of process `pid`.

    Raises `OSError` or `ValueError` where that is not permitted.
    """
    _enter_group(pid)
    for limit in _LIMITS:
        wanted = resource.prlimit(pid, limit)
        if resource.getrlimit(limit) != wanted:
            resource.setrlimit(limit, wanted)
    os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, pid))
    _take_input_output_priority(pid)
    os.sched_setaffinity(0, os.sched_getaffinity(pid))


def _take_input_output_priority(pid: int) -> None:
    calls = _INPUT_OUTPUT_CALLS.get(os.uname().machine)
    if calls is None:
        raise ValueError
    give, ask = calls
    syscall = ctypes.CDLL(None).syscall
    wanted, own = syscall(ask, _OF_PROCESS, pid), syscall(ask, _OF_PROCESS, 0)
    if wanted != own and (wanted < 0 or syscall(give, _OF_PROCESS, 0, wanted) != 0):
        raise PermissionError


def _enter_group(pid: int) -> None:
    wanted = process_text(pid, "cgroup")
    if wanted == process_text("self", "cgroup"):
        return
    group = next(line[3:] for line in wanted.splitlines() if line.startswith("0::"))
    (_GROUPS / group.lstrip("/") / "cgroup.procs").write_text(str(os.getpid()))
    if process_text("self", "cgroup") != wanted:
        raise PermissionError
