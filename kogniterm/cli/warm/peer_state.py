"""The state of a client's process that its session must have too: compared, or its group taken."""

from __future__ import annotations

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


def same_state(pid: int) -> bool:
    """Return whether process `pid` has this process's rights, namespaces, limits and scheduling.

    False where its state may not be read.
    """
    try:
        return (
            list(_kept("self")) == list(_kept(pid))
            and os.sched_getscheduler(pid) == os.sched_getscheduler(0)
            and os.sched_getaffinity(pid) == os.sched_getaffinity(0)
            and os.getpriority(os.PRIO_PROCESS, pid) == os.getpriority(os.PRIO_PROCESS, 0)
            and all(resource.prlimit(pid, one) == resource.getrlimit(one) for one in _LIMITS)
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


def enter_group(pid: int) -> None:
    """Enter the control group of process `pid`. Raises `OSError` where that is not permitted."""
    wanted = process_text(pid, "cgroup")
    if wanted == process_text("self", "cgroup"):
        return
    group = next(line[3:] for line in wanted.splitlines() if line.startswith("0::"))
    (_GROUPS / group.lstrip("/") / "cgroup.procs").write_text(str(os.getpid()))
    if process_text("self", "cgroup") != wanted:
        raise PermissionError
