"""What a person sent, as it stays above the prompt: whole, or the two ends of a long paste."""

from __future__ import annotations

from rich.text import Text

from kogniterm.ui.clean import clean
from kogniterm.ui.locale import plural
from kogniterm.ui.paint import Painter

LINES = 20
CHARACTERS = 2_000
"""Of one line."""


def sent(text: str, painter: Painter) -> Text:
    """`text` behind the prompt's sign, at most about `LINES` lines of it."""
    lines = text.replace("\r\n", "\n").split("\n")
    hidden = len(lines) - LINES
    if hidden <= 1:
        head, tail = lines, []
    else:
        head, tail = lines[: LINES // 2], lines[-LINES // 2 :]
    shown = Text().append("› " if painter.unicode else "> ", "prompt")
    shown.append_text(_rows(head, painter))
    if tail:
        more = plural("{count} more line", "{count} more lines", hidden)
        shown.append(f"\n  {painter.symbol('more')} {more}\n  ", "muted")
        shown.append_text(_rows(tail, painter))
    return shown


def _rows(lines: list[str], painter: Painter) -> Text:
    rows = []
    for line in lines:
        rows.append(Text(clean(line[:CHARACTERS]), "bold"))
        if len(line) > CHARACTERS:
            rows[-1].append(painter.symbol("more"), "muted")
    return Text("\n  ").join(rows)
