"""Words and what they mean, as /help and /keys list them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

LEAST_ROOM = 24
"""Columns below which a sentence beside its word would be a thin strip."""


@dataclass(frozen=True, slots=True)
class Explained:
    """(word, sentence) rows: beside each other, or below where the screen is narrow."""

    rows: Sequence[tuple[str, str]]
    style: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw it as wide as it may be."""
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
