"""A slash command, its lookup by name, and the REPL as commands see it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from kogniterm.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table


LONGEST_CELL = 100
LEAST_ROOM = 24
"""Columns below which a sentence beside its word would be a thin strip."""


class Explained:
    """(word, sentence) rows: beside each other, or below where the screen is narrow."""

    def __init__(self, rows: Sequence[tuple[str, str]], style: str) -> None:
        self.rows, self.style = rows, style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw it as wide as it may be."""
        from rich.cells import cell_len
        from rich.padding import Padding
        from rich.table import Table
        from rich.text import Text

        widest = max((cell_len(word) for word, _sentence in self.rows), default=0) + 1
        if options.max_width - widest - 2 < LEAST_ROOM:
            for word, sentence in self.rows:
                yield Text(f" {word}", self.style)
                yield Padding(Text(sentence, "muted"), (0, 0, 0, 4))
            return
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True)
        table.add_column()
        for word, sentence in self.rows:
            table.add_row(Text(f" {word}", self.style), Text(sentence, "muted"))
        yield table


def table(rows: Sequence[Sequence[str]], styles: Sequence[str]) -> Table:
    """Return columns in the given styles, one style a column; no cell can act on the terminal."""
    from rich.table import Table
    from rich.text import Text

    from kogniterm.text.shorten import one_line

    grid = Table.grid(padding=(0, 2))
    for number in range(len(styles)):
        grid.add_column(no_wrap=number == 0)
    for row in rows:
        cells = [one_line(cell, LONGEST_CELL) for cell in row]
        grid.add_row(*(Text(cell, style) for cell, style in zip(cells, styles, strict=True)))
    return grid


def first_word(argument: str) -> tuple[str, str]:
    """Return ("add", "I use fish") for "add I use fish"."""
    word, _space, rest = argument.strip().partition(" ")
    return word, rest.strip()


_Word = TypeVar("_Word", bound=str)


def one_of(value: str, allowed: Sequence[_Word]) -> _Word:
    """Return `value` if it is one of the `allowed` words. Raises `UsageError`."""
    from kogniterm.text.spelling import meant

    for word in allowed:
        if word == value:
            return word
    if not value:
        raise UsageError("Specify one of: {allowed}.", allowed=", ".join(allowed))
    near = meant(value, allowed)
    if near:
        raise UsageError("Unknown value: {value}. Did you mean {near}?", value=value, near=near)
    raise UsageError(
        "Unknown value: {value}. Use one of: {allowed}.", value=value, allowed=", ".join(allowed)
    )


def local_time(moment: float) -> str:
    """Return a moment (seconds since the epoch) in the local time zone."""
    return datetime.fromtimestamp(moment).astimezone().strftime("%Y-%m-%d %H:%M")
