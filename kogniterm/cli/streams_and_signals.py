"""The standard streams and the signals of the process.

Signals unwind the stack, but never in the middle of an import. An exception out of an import can
come out as another one (a class that is being made, a library that tries a module and does without
it), or not at all. So a signal waits until the modules that are being read have been read.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import signal
import sys
from types import FrameType

from kogniterm.errors import EXIT_NOT_DONE, why
from kogniterm.types import Phrase
from kogniterm.ui.locale import translate

_LOOK_AGAIN = 0.01
"""Seconds until it is looked again whether an import is over."""
_IMPORTING = "<frozen importlib._bootstrap>"
_received: list[int] = []


def hold_standard_streams() -> None:
    """Let no other file take the place of a standard stream that was closed at the start.

    With `>&-` the database could become descriptor 1 or 2, and the next message corrupt it. An
    input that can only be written to is empty too: nohup gives one in place of a terminal.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None or (number == 0 and _only_written(number)):
            descriptor = os.open(os.devnull, os.O_RDWR)
            if descriptor != number:
                os.dup2(descriptor, number)
                os.close(descriptor)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def _only_written(descriptor: int) -> bool:
    return fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY


def write_what_the_encoding_lacks() -> None:
    """Write characters that the output's encoding has not, or half ones, as backslashes and hex.

    An answer with one of them would be lost whole otherwise.
    """
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def complain(text: Phrase) -> None:
    """Write one sentence on standard error, without control characters."""
    line = "".join(c if c.isprintable() or c == "\n" else "�" for c in translate(text))
    with contextlib.suppress(OSError):
        sys.stderr.write(f"kogniterm: {line}\n")
        sys.stderr.flush()


def is_of_output(error: Exception) -> bool:
    """Return whether `error` is that standard output takes nothing, as `flush_output` will say."""
    try:
        sys.stdout.flush()
    except OSError as again:
        return isinstance(error, OSError) and error.errno == again.errno
    return False


def flush_output(status: int) -> int:
    """Return `status`, once standard output has taken everything; else say why, and fail."""
    try:
        sys.stdout.flush()
    except OSError as error:
        return give_up_output(error, status)
    return status


def give_up_output(error: OSError, status: int = 0) -> int:
    """Say why standard output takes nothing more; returns `status`, or that of a failure.

    A reader that has left is not worth a word: other programs of a pipe end quietly too.
    """
    if isinstance(error, BrokenPipeError):
        status = status or 128 + signal.SIGPIPE
    else:
        complain(Phrase("Standard output cannot be written: {why}.", {"why": why(error)}))
        status = status or EXIT_NOT_DONE
    # Python flushes once more when it ends, and would complain in its own way.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    return status


def end_on_signals() -> None:
    """Let INT, TERM, HUP and QUIT unwind the stack: commands are ended, the journal is closed."""
    _received.clear()
    signal.signal(signal.SIGALRM, lambda _number, frame: _unwind(frame))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        # nohup starts us with HUP ignored, and that is to stay; a shell's "&" with INT.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)


def status_of_signal() -> int | None:
    """Return the exit status for the first signal that was received; None without one."""
    return 128 + _received[0] if _received else None


def _end(number: int, frame: FrameType | None) -> None:
    _received.append(number)
    if "--debug" not in sys.argv:
        # What is only half made, such as an event loop, would complain when it is taken apart.
        sys.unraisablehook = lambda _failure: None
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
