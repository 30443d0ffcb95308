"""Children that go on without the worker that started them."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from kogniterm.sessions.journal.ownership import Holder, start_of


def stop_child(task_id: str, holder: Holder, number: int = signal.SIGTERM) -> bool:
    """Stop the process of this machine that has the session of a task open, as a worker would.

    Only a child of a worker is stopped, never a terminal in which you opened the session. Returns
    whether it is one.
    """
    if not _is_child(task_id, holder.pid) or start_of(holder.pid) != holder.started:
        return False
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(holder.pid, number)
    return True


def _is_child(task_id: str, pid: int) -> bool:
    with suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        named = pairwise(words)
        return ("--session", task_id) in named and "--park" in words and os.getpgid(pid) == pid
    return False
