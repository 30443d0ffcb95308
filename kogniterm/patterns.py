"""Regular expressions that somebody else wrote, bounded: a pattern like `(a+)+$` never ends.

Python's engine looks for signals while it matches, so a timer of CPU time can stop it. Time on
the clock would not do: it depends on what else the machine does.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from kogniterm.errors import ToolError

SECONDS = 2.0
"""CPU time that matching may take."""


@contextlib.contextmanager
def bounded(seconds: float = SECONDS) -> Iterator[None]:
    """Matching in here ends after `seconds` of this process's CPU time with a `ToolError`.

    Only the main thread gets signals; on another one nothing is bounded.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise ToolError("The pattern takes too long to match; write a simpler one.")

    before = signal.signal(signal.SIGVTALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
