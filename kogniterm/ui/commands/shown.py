"""What several commands share: tables of plain columns, and words that become arguments."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from kogniterm.ui.context import ReplContext

if TYPE_CHECKING:
    from rich.table import Table

LONGEST_CELL = 100


def table(rows: Sequence[Sequence[str]], styles: Sequence[str]) -> Table:
    """Columns in the given styles, one style a column; no cell can act on the terminal."""
    from rich.table import Table
    from rich.text import Text as RichText

    from kogniterm.ui.clean import one_line

    grid = Table.grid(padding=(0, 2))
    for number in range(len(styles)):
        grid.add_column(no_wrap=number == 0)
    for row in rows:
        cells = [one_line(cell, LONGEST_CELL) for cell in row]
        grid.add_row(*(RichText(cell, style) for cell, style in zip(cells, styles, strict=True)))
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
