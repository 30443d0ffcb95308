"""How a piece of Markdown looks: rich's renderer with quiet headings and flush-left titles."""

from __future__ import annotations

from typing import Any, ClassVar

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement, TableElement
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table

from kogniterm.ui.clean import clean
from kogniterm.ui.code_style import code_style
from kogniterm.ui.paint import Painter
from kogniterm.ui.theme import Theme


class _Heading(Heading):
    """A heading as bold text on the left; the hash signs' number shows as weight only."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        self.text.stylize("heading")
        yield self.text


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


class Answer(Markdown):
    """The model's Markdown as KogniTerm shows it."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _Code,
        "code_block": _Code,
        "table_open": _Table,
    }


def markdown(source: str, theme: Theme) -> Any:
    """A renderable of `source`; links show their address, control characters are gone."""
    return Answer(
        clean(source),
        code_theme=theme.code,
        hyperlinks=False,
        inline_code_theme=None,
        style="none",
    )


def markdown_lines(source: str, painter: Painter, columns: int) -> list[str]:
    """Markdown as painted lines, without empty ones around it."""
    lines = painter.lines(markdown(source, painter.theme), columns)
    while lines and not lines[-1].strip():
        lines.pop()
    while lines and not lines[0].strip():
        lines.pop(0)
    return lines
