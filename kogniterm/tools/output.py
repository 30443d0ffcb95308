"""`read_output`: page through or search the whole output of an earlier command."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from pydantic import Field

from kogniterm.tools.base import Arguments, SchemaTool

MAX_LINES = 400


class OutputPage(Protocol):
    """Lines of an output, and whether others follow."""

    @property
    def last(self) -> int:
        """Number of the last line."""

    @property
    def text(self) -> str:
        """The lines."""

    @property
    def more(self) -> bool:
        """Whether others follow."""


class OutputMatch(Protocol):
    """A line that matches."""

    @property
    def line(self) -> int:
        """Its number."""

    @property
    def text(self) -> str:
        """The line."""


class Outputs(Protocol):
    """The kept outputs, by the path an observation names. Raises `ToolError` kinds."""

    def page(self, path: str, start_line: int = 1, count: int = 200) -> OutputPage:
        """Lines from `start_line` on; a negative start counts from the end."""

    def search(self, path: str, pattern: str, *, limit: int = 50) -> Sequence[OutputMatch]:
        """Lines that match a regular expression."""


class OutputArguments(Arguments):
    """Which lines of which kept output."""

    path: str = Field(description="as named in the observation")
    start: int = Field(default=1, description="first line; -50: the last 50")
    lines: int = Field(default=100, ge=1, le=MAX_LINES)
    pattern: str | None = Field(default=None, description="only lines that match this regex")


def read_output(outputs: Outputs) -> SchemaTool[OutputArguments]:
    """The tool over the kept outputs."""

    async def run(arguments: OutputArguments) -> str:
        if arguments.pattern is not None:
            found = await asyncio.to_thread(
                outputs.search, arguments.path, arguments.pattern, limit=arguments.lines
            )
            return (
                "\n".join(f"{match.line}: {match.text}" for match in found) or "[no line matches]"
            )
        page = outputs.page(arguments.path, arguments.start, arguments.lines)
        if not page.text:
            return "[no such line]"
        return f"{page.text}\n[more from line {page.last + 1}]" if page.more else page.text

    return SchemaTool(
        "read_output",
        "Read lines of a command's whole output when the observation left bytes out.",
        OutputArguments,
        run,
    )
