"""Markdown with quiet headings and flush-left titles, whole or as it streams."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement, Paragraph, TableElement
from rich.padding import Padding
from rich.style import Style
from rich.syntax import ANSI_LIGHT, ANSISyntaxTheme, Syntax, SyntaxTheme
from rich.table import Table

from kogniterm.text.visible import clean
from kogniterm.ui.screen.paint import PROSE_COLUMNS, Painter, Readable
from kogniterm.ui.screen.screen_preferences import Theme

_LIGHT: Mapping[str, str] = {
    "Comment": "italic bright_black",
    "Keyword": "blue",
    "Keyword.Type": "magenta",
    "Operator.Word": "blue",
    "Name.Builtin": "magenta",
    "Name.Class": "bold",
    "Name.Decorator": "magenta",
    "Name.Exception": "magenta",
    "Name.Function": "bold",
    "Name.Tag": "blue",
    "Literal.Number": "red",
    "Literal.String": "green",
    "Generic.Deleted": "red",
    "Generic.Inserted": "green",
    "Generic.Heading": "bold",
    "Generic.Subheading": "bold",
    "Error": "underline red",
}
_EITHER: Mapping[str, str] = {
    **_LIGHT,
    "Comment": "italic dim",
    "Keyword": "bold",
    "Operator.Word": "bold",
    "Name.Tag": "bold",
    "Name.Class": "underline",
    "Name.Function": "underline",
}
_OWN = {"light": _LIGHT, "either": _EITHER}


def code_style(name: str) -> str | SyntaxTheme:
    """Return the value for rich's `Syntax` of the code style called `name` in a theme."""
    table = _OWN.get(name)
    if table is None:
        return name
    styles = {token: table.get(repr(token).removeprefix("Token.")) for token in ANSI_LIGHT}
    return ANSISyntaxTheme({token: Style.parse(style) for token, style in styles.items() if style})


class _Prose(Paragraph):
    """A paragraph, also of a list or a quotation, that ends at `PROSE_COLUMNS` of the screen."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        indent = console.width - options.max_width
        width = min(options.max_width, max(PROSE_COLUMNS - indent, 1))
        self.text.justify = "left"
        yield from console.render(self.text, options.update(width=width))


class _Heading(Heading):
    """A heading as bold text on the left; the hash signs' number shows as weight only."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        self.text.stylize("heading")
        yield Readable(self.text)


class _Code(CodeBlock):
    """A code block, indented by two, in the terminal's own colours."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        yield Padding(
            Syntax(
                code,
                self.lexer_name,
                theme=code_style(self.theme),
                word_wrap=True,
                background_color="default",
            ),
            (0, 0, 0, 2),
        )


class _Table(TableElement):
    """A table with ruled header; narrow terminals fold its cells."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="heading")
        header = self.header.row.cells if self.header and self.header.row else []
        for column in header:
            table.add_column(column.content, overflow="fold")
        for row in self.body.rows if self.body else []:
            table.add_row(*(cell.content for cell in row.cells))
        yield table


class AnswerMarkdown(Markdown):
    """The model's Markdown as KogniTerm shows it."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "paragraph_open": _Prose,
        "heading_open": _Heading,
        "fence": _Code,
        "code_block": _Code,
        "table_open": _Table,
    }


def markdown(source: str, theme: Theme, style: str = "none") -> Any:
    """Return a renderable of `source`; links show their address, control characters are gone."""
    return AnswerMarkdown(
        clean(source),
        code_theme=theme.code,
        hyperlinks=False,
        inline_code_theme=None,
        style=style,
    )


def markdown_lines(source: str, painter: Painter, columns: int, style: str = "none") -> list[str]:
    """Return markdown as painted lines, without empty ones around it."""
    lines = painter.lines(markdown(source, painter.theme, style), columns)
    while lines and not lines[-1].strip():
        lines.pop()
    while lines and not lines[0].strip():
        lines.pop(0)
    return lines


_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_HEADING = re.compile(r" {0,3}#{1,6}(\s|$)")
_LIST = re.compile(r" {0,3}([-*+]|\d{1,9}[.)])(\s|$)")


class MarkdownStream:
    """Splits streamed Markdown into finished blocks and the open rest."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._partial = ""
        self._fence = ""
        self._blank = False

    @property
    def open_text(self) -> str:
        """The source of the block that is still open."""
        return "".join(f"{line}\n" for line in self._lines) + self._partial

    def open_tail(self, lines: int) -> str:
        """Return the last `lines` source lines of the open block; a cut fence is opened again."""
        tail = self._lines[-lines:]
        text = "".join(f"{line}\n" for line in tail) + self._partial
        cut = len(self._lines) > lines
        if cut and self._fence:
            opening = self._lines[0]
            return f"{opening}\n{text}"
        return text

    def feed(self, piece: str) -> list[str]:
        """Take a piece of the stream; returns the blocks that are finished by it, in order."""
        *complete, self._partial = (self._partial + piece).split("\n")
        finished = []
        for line in complete:
            finished.extend(self._line(line))
        between = self._lines and self._blank and not self._fence
        if self._partial.strip() and between and not _LIST.match(self._lines[0]):
            # The unfinished line begins a new block, whatever else it will hold.
            finished.append(self._take())
        return finished

    def finish(self) -> str:
        """Return the rest of the stream, and begin anew."""
        rest = self.open_text
        self._lines, self._partial, self._fence, self._blank = [], "", "", False
        return rest if rest.strip() else ""

    def _line(self, line: str) -> list[str]:
        if self._fence:
            self._lines.append(line)
            closing = line.strip()
            closes = closing.startswith(self._fence) and not closing.strip(self._fence[0])
            if not closes:
                return []
            self._fence = ""
            inside_list = bool(_LIST.match(self._lines[0]))
            return [] if inside_list else [self._take()]
        if not line.strip():
            self._blank = bool(self._lines)
            if self._blank:
                self._lines.append("")
            return []
        out = []
        if self._lines and self._starts_new(line):
            out.append(self._take())
        self._blank = False
        self._lines.append(line)
        opening = _FENCE.match(line)
        if opening and not ("`" in opening[2] and opening[1].startswith("`")):
            # A fence may follow a paragraph without a blank line: keep them in one block.
            self._fence = opening[1]
        elif _HEADING.match(line):
            out.append(self._take())
        return out

    def _starts_new(self, line: str) -> bool:
        """Return whether `line` begins a block of its own after the lines that are open."""
        if _HEADING.match(line):
            return True
        if not self._blank:
            return False
        if not _LIST.match(self._lines[0]):
            return True
        return not (_LIST.match(line) or line.startswith(("  ", "\t")))

    def _take(self) -> str:
        text = "".join(f"{line}\n" for line in self._lines)
        self._lines, self._blank = [], False
        return text
