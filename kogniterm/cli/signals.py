"""Signals that end the program: they unwind the stack, but never in the middle of an import.

An exception out of an import can come out as another one (a class that is being made, a library
that tries a module and does without it), or not at all. So a signal waits until the modules that
are being read have been read.
"""

from __future__ import annotations

import signal
from types import FrameType

_LOOK_AGAIN = 0.01
"""Seconds until it is looked again whether an import is over."""
_IMPORTING = "<frozen importlib._bootstrap>"
_received: list[int] = []


def end_on_signals() -> None:
    """Let INT, TERM and HUP unwind the stack: commands are ended, the journal is closed."""
    _received.clear()
    signal.signal(signal.SIGALRM, _again)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # nohup starts us with HUP ignored, and that is to stay; a shell's "&" with INT.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)


def status_of_signal() -> int | None:
    """The exit status for the first signal that was received; None without one."""
    return 128 + _received[0] if _received else None


def _end(number: int, frame: FrameType | None) -> None:
    _received.append(number)
    _unwind(frame)


def _again(_number: int, frame: FrameType | None) -> None:
    _unwind(frame)


def _unwind(frame: FrameType | None) -> None:
    if _imports(frame):
        signal.setitimer(signal.ITIMER_REAL, _LOOK_AGAIN)
    elif _received[-1:] == [signal.SIGINT]:
        raise KeyboardInterrupt
    elif _received:
        raise SystemExit(128 + _received[-1])


def _imports(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == _IMPORTING:
            return True
        frame = frame.f_back
    return False
