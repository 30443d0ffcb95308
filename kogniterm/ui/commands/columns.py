"""What several commands share: tables of plain columns, and words that become arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from kogniterm.ui.commands.registry import ReplContext

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table

LONGEST_CELL = 100
LEAST_ROOM = 24
"""Columns below which a sentence beside its word would be a thin strip."""


@dataclass(frozen=True, slots=True)
class Explained:
    """(word, sentence) rows: beside each other, or below where the screen is narrow."""

    rows: Sequence[tuple[str, str]]
    style: str

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
    """Columns in the given styles, one style a column; no cell can act on the terminal."""
    from rich.table import Table
    from rich.text import Text

    from kogniterm.text.visible import one_line

    grid = Table.grid(padding=(0, 2))
    for number in range(len(styles)):
        grid.add_column(no_wrap=number == 0)
    for row in rows:
        cells = [one_line(cell, LONGEST_CELL) for cell in row]
        grid.add_row(*(Text(cell, style) for cell, style in zip(cells, styles, strict=True)))
    return grid


def write_table(context: ReplContext, rows: Sequence[Sequence[str]], styles: Sequence[str]) -> None:
    """Write a table into the scrollback."""
    context.write(table(rows, styles))


def first_word(argument: str) -> tuple[str, str]:
    """("add", "I use fish") from "add I use fish"."""
    word, _space, rest = argument.strip().partition(" ")
    return word, rest.strip()


def local_time(moment: float) -> str:
    """A moment (seconds since the epoch) as people here read it."""
    return datetime.fromtimestamp(moment).astimezone().strftime("%Y-%m-%d %H:%M")
