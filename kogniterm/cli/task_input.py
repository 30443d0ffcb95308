"""From argv and standard input to the one `UserInput` of a task, or a sentence that says why not.

A user at the terminal never has to wait for standard input; a pipe is read to its end.
"""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Callable, Sequence
from typing import BinaryIO

from kogniterm.errors import UsageError
from kogniterm.types import UserInput
from kogniterm.ui.prompt.attachments import mentions

MAX_TASK = 100_000
"""Longest task in characters: what a user says, not what they attach."""
MAX_DATA = 1_000_000
"""Most bytes read from standard input; more belongs in a file that the task names."""
PATIENCE = 2.0
"""Seconds an open but silent standard input is waited for before the user is told."""


def read_task(
    words: Sequence[str],
    stdin: BinaryIO | None,
    tell_waiting: Callable[[], None],
    *,
    needed: bool = True,
    folder: str = "",
) -> UserInput | None:
    """The task in `words`, with standard input as its data; without words, or with a lone "-",
    standard input is the task.

    `stdin` is None when it is a terminal. Files that the words name with @ are attached, seen
    from `folder`. A task that is not `needed` and not there is None:
    a resumed session may have one. Raises `UsageError` for a task that is
    missing, empty, too long or not text, and for data that is too long or not text.
    """
    from_stdin = not words or list(words) == ["-"]
    piped = "" if stdin is None else _decode(_read(stdin, tell_waiting))
    if from_stdin and not needed and not piped.strip():
        return None
    if from_stdin and stdin is None:
        raise UsageError('There is no task; give one: kogniterm run "…", or pipe it in.')
    text = piped if from_stdin else _argument(" ".join(words))
    if not text.strip():
        raise UsageError("The task is empty; say what is to be done.")
    if len(text) > MAX_TASK:
        raise UsageError(
            "The task has {length} characters, and {most} is the most; put long text in a file "
            "and name it, or pipe it in beside a short task.",
            length=len(text),
            most=MAX_TASK,
        )
    data = None if from_stdin or not piped else piped
    # Only what stands on the command line names files: piped text may be anybody's.
    named = () if from_stdin else mentions(text, folder)
    return UserInput(text.strip(), data=data, source="run", attachments=named)


def standard_input() -> BinaryIO | None:
    """Standard input as bytes, or None when it is a terminal."""
    return None if sys.stdin.isatty() else sys.stdin.buffer


def keyboard() -> int | None:
    """Return the descriptor a user types on: standard input, or the terminal beside data.

    Data comes from a pipe or a file. None when nobody is there: a run from cron or CI has no
    terminal, and `</dev/null` says that nobody wants to be asked.
    """
    if sys.stdin.isatty():
        return sys.stdin.fileno()
    mode = os.fstat(sys.stdin.fileno()).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISREG(mode)):
        return None
    try:
        return os.open("/dev/tty", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def _read(stdin: BinaryIO, tell_waiting: Callable[[], None]) -> bytes:
    if _is_silent(stdin):
        tell_waiting()
    data = stdin.read(MAX_DATA + 1)
    if len(data) > MAX_DATA:
        raise UsageError(
            "Standard input has more than {most} bytes; save it to a file and name the file in "
            "the task.",
            most=MAX_DATA,
        )
    return data


def _is_silent(stdin: BinaryIO) -> bool:
    """Whether a pipe or socket has neither data nor an end after `PATIENCE`."""
    try:
        mode = os.fstat(stdin.fileno()).st_mode
    except (OSError, ValueError):
        return False
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return False
    ready, _writable, _failed = select.select([stdin], [], [], PATIENCE)
    return not ready


def _decode(data: bytes) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(
            "Standard input is not UTF-8 text (byte 0x{byte} at offset {offset}); convert it with "
            "iconv, or save it to a file and name the file in the task.",
            byte=f"{data[error.start]:02x}",
            offset=error.start,
        ) from error
    if "\0" in text:
        raise UsageError(
            "Standard input is binary (a zero byte at offset {offset}); save it to a file and "
            "name the file in the task.",
            offset=data.index(0),
        )
    return text


def _argument(text: str) -> str:
    """An argument whose bytes were not UTF-8 arrives with lone surrogates in it."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UsageError(
            "The task is not UTF-8 text (after {before} characters).", before=error.start
        ) from error
    return text
