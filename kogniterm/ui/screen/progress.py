"""A progress bar for long transfers: on a terminal a bar, elsewhere one line per tenth.

rich is imported only when a bar is really drawn.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol, TextIO

from kogniterm.types import Phrase
from kogniterm.ui.locale import _, translate

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


_NARROW = 90
"""Columns below which only the name, the bar and the bytes have room."""


class Transfer(Protocol):
    """Shows how far a transfer is."""

    def update(self, done: int, total: int, doing: Phrase) -> None:
        """Show that `done` of `total` bytes are complete; `doing` names the current step."""


class ProgressLines:
    """Display for logs and pipes: a line for each tenth, and for each new step."""

    def __init__(self, title: str, stream: TextIO) -> None:
        self._title = title
        self._stream = stream
        self._said: tuple[int, str] | None = None

    def update(self, done: int, total: int, doing: Phrase) -> None:
        """Write a line if it tells something new."""
        tenth = 10 * done // total if total else 0
        now = (tenth, translate(doing))
        if now == self._said:
            return
        self._said = now
        line = _("{title}: {done} of {total} MB ({doing})").format(
            title=self._title, done=done // 1_000_000, total=total // 1_000_000, doing=now[1]
        )
        self._stream.write(f"{line}\n")
        self._stream.flush()


class Bar:
    """Display for terminals: a bar with rate and remaining time."""

    def __init__(self, title: str, progress: Progress, *, narrow: bool) -> None:
        self._title = title
        self._progress = progress
        self._narrow = narrow
        self._task: TaskID | None = None

    def update(self, done: int, total: int, doing: Phrase) -> None:
        """Move the bar. What was there at the first call does not count towards the rate."""
        words = self._title if self._narrow else f"{self._title} ({translate(doing)})"
        if self._task is None:
            self._task = self._progress.add_task(words, total=total, completed=done)
        else:
            self._progress.update(self._task, description=words, completed=done)


@contextlib.contextmanager
def transfer(title: str, stream: TextIO | None = None) -> Iterator[Transfer]:
    """Return a display for one transfer on `stream` (standard error unless given)."""
    stream = sys.stderr if stream is None else stream
    if not stream.isatty():
        yield ProgressLines(title, stream)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    console = Console(file=stream)
    if console.is_dumb_terminal:
        yield ProgressLines(title, stream)
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn())
    rates = (TransferSpeedColumn(), TimeRemainingColumn())
    narrow = console.width < _NARROW
    with Progress(*columns, *(() if narrow else rates), console=console) as progress:
        yield Bar(title, progress, narrow=narrow)
