"""Children that go on without the worker that started them."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from itertools import pairwise

from kogniterm.host.processes import process_words, start_of
from kogniterm.sessions.journal.ownership import Holder


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
    words = process_words(pid)
    with suppress(ProcessLookupError):
        named = ("--session", task_id) in pairwise(words)
        return named and "--park" in words and os.getpgid(pid) == pid
    return False
