"""A command as lines: whole, wrapped at the cell, everything invisible made visible."""

from __future__ import annotations

from rich.cells import chop_cells
from rich.text import Text

from kogniterm.ui.paint import Painter


def command_lines(
    command: str, painter: Painter, width: int, *, dollar: bool = True, top: bool = False
) -> list[str]:
    """`command` in lines of at most `width` cells, with a gutter that tells a line that was
    wrapped from a line of the command. `top` draws the gutter's first sign as a corner."""
    from kogniterm.approval.display import render, render_line

    lines = []
    # Only a command has lines: the name of a file or an address is one row.
    shown = render(command).split("\n") if dollar else [render_line(command)]
    for number, line in enumerate(shown):
        for part, piece in enumerate(chop_cells(line, max(width - 4, 8)) or [""]):
            first = number == 0 and part == 0
            text = Text()
            text.append(f"{painter.symbol('top' if top and first else 'side')} ", "frame")
            wrapped = "↪ " if painter.unicode else "> "
            text.append(wrapped if part else "$ " if first and dollar else "  ", "accent")
            text.append(piece, "command")
            lines.append(painter.paint(text, width + 4, end="", exact=True))
    return lines
