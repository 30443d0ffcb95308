"""From rich renderables to the bytes of a terminal, for one width, theme and colour depth.

This module and those that build renderables are loaded behind the prompt: rich costs more than
the time to the first key. The environment is never consulted: everything is a parameter.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text
from rich.theme import Theme as RichTheme

from kogniterm.text.visible import clean
from kogniterm.ui.locale import plural
from kogniterm.ui.screen.screen_preferences import ROLES, Theme

_TRAILING = re.compile(r" +((?:\x1b\[[0-9;]*m)*)(?= *$)", re.MULTILINE)
_MARKDOWN = {
    "markdown.code": "code",
    "markdown.block_quote": "muted",
    "markdown.link": "link",
    "markdown.link_url": "link",
    "markdown.hr": "muted",
    "markdown.item.bullet": "accent",
    "markdown.item.number": "accent",
    "markdown.table.border": "muted",
    "markdown.table.header": "heading",
    **{f"markdown.h{level}": "heading" for level in range(1, 8)},
}
ColorSystem = Literal["standard", "256", "truecolor"]


PROSE_COLUMNS = 100
"""Longer lines are hard to read; code, tables and diffs keep the terminal's width."""


class Readable:
    """Sentences, which end at `PROSE_COLUMNS` of a wider screen."""

    def __init__(self, content: RenderableType) -> None:
        self.content = content

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = min(options.max_width, PROSE_COLUMNS)
        yield from console.render(self.content, options.update(width=width))


class _Page(io.StringIO):
    """A page for rich; its encoding decides whether boxes are lines or ASCII."""

    encoding = "utf-8"


class Painter(NamedTuple):
    """Draws renderables. Styles are named by role (`theme.ROLES`): "[muted]…[/muted]".

    `attributes` False writes no escape sequence at all (pipes, TERM=dumb, screen readers).
    """

    theme: Theme
    color: bool = True
    attributes: bool = True
    unicode: bool = True
    system: ColorSystem = "256"

    def console(self, width: int, file: io.StringIO) -> Console:
        """Return a rich console that writes to `file` and asks nobody anything."""
        styles = {role: self.theme.style(role) for role in ROLES}
        return Console(
            file=file,
            width=max(width, 10),
            height=1000,
            force_terminal=self.attributes,
            force_jupyter=False,
            force_interactive=False,
            color_system=self.system if self.attributes else None,
            no_color=not self.color,
            theme=RichTheme(styles | {name: styles[role] for name, role in _MARKDOWN.items()}),
            highlight=False,
            emoji=False,
            markup=False,
            soft_wrap=False,
            legacy_windows=False,
            safe_box=True,
            _environ={},
        )

    def paint(
        self, renderable: RenderableType, width: int, *, end: str = "\n", exact: bool = False
    ) -> str:
        """Return `renderable` at `width` columns, with escape sequences as allowed.

        Blanks at the ends of lines are dropped, unless `exact`.
        """
        file = _Page()
        file.encoding = "utf-8" if self.unicode else "ascii"
        if isinstance(renderable, Readable) and isinstance(renderable.content, Text):
            # Of all renderables only a text itself is printed with the given end.
            renderable, width = renderable.content, min(width, PROSE_COLUMNS)
        # Printing copies a text and forgets whether it may wrap.
        text = renderable if isinstance(renderable, Text) else Text()
        self.console(width, file).print(
            renderable, end=end, no_wrap=text.no_wrap, overflow=text.overflow
        )
        return file.getvalue() if exact else _TRAILING.sub(r"\1", file.getvalue())

    def lines(self, renderable: RenderableType, width: int) -> list[str]:
        """Return the same, as lines without their newline."""
        return self.paint(renderable, width, end="").split("\n")

    def key_parts(self, parts: Sequence[Text], width: int) -> list[str]:
        """Return keys with their words, two blanks apart, in lines that keep both together.

        What is longer than a line continues below its words.
        """
        rows: list[Text] = []
        for part in parts:
            if rows and cell_len(f"{rows[-1].plain}  {part.plain}") <= width:
                rows[-1] = Text.assemble(rows[-1], "  ", part)
            else:
                rows.append(part)
        drawn: list[str] = []
        for row in rows:
            if cell_len(row.plain) <= width:
                drawn += self.lines(row, width)
            else:  # its other lines hang behind the key
                first, *others = self.lines(row, width - _KEY_WIDTH)
                drawn += [first, *(" " * _KEY_WIDTH + line for line in others)]
        return drawn

    def symbol(self, name: str) -> str:
        """Return a sign by name, in ASCII where the terminal has no Unicode."""
        return (SYMBOLS if self.unicode else ASCII_SYMBOLS)[name]


_KEY_WIDTH = len("[1] ")
SYMBOLS = {
    "done": "✓", "failed": "✗", "active": "▸", "pending": "○", "skipped": "–", "bullet": "•",
    "top": "╭", "side": "│", "bottom": "╰", "line": "─", "more": "…", "warn": "!", "arrow": "→",
}  # fmt: skip
ASCII_SYMBOLS = {
    "done": "+", "failed": "x", "active": ">", "pending": "o", "skipped": "-", "bullet": "*",
    "top": "+", "side": "|", "bottom": "+", "line": "-", "more": "...", "warn": "!", "arrow": "->",
}  # fmt: skip
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
ASCII_SPINNER = "|/-\\"


LINES = 20
CHARACTERS = 2_000
"""Most characters of one line."""


def paint_input(text: str, painter: Painter) -> Text:
    """Return `text` behind the prompt's sign, at most about `LINES` lines of it."""
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
