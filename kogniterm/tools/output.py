"""`read_output`: page through or search the whole output of an earlier command."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

from pydantic import Field

from kogniterm.errors import ToolError
from kogniterm.tools.base import Arguments, SchemaTool

MAX_LINES = 400
MAX_CHARS = 20_000
MAX_LINE = 2_000


class OutputArguments(Arguments):
    """Which lines of which kept output."""

    path: str = Field(description="as named in the observation")
    start: int = Field(default=1, ge=1, description="first line")
    lines: int = Field(default=100, ge=1, le=MAX_LINES)
    pattern: str | None = Field(default=None, description="only lines that match this regex")


def read_output(outputs: Path) -> SchemaTool[OutputArguments]:
    """The tool over the folder that keeps command outputs; nothing outside it can be read."""

    async def run(arguments: OutputArguments) -> str:
        path = Path(arguments.path).resolve()
        if not path.is_relative_to(outputs.resolve()) or not path.is_file():
            raise ToolError("{path} is no kept command output.", path=arguments.path)
        return page(path, arguments)

    return SchemaTool(
        "read_output",
        "Read lines of a command's whole output when the observation left bytes out.",
        OutputArguments,
        run,
    )


def page(path: Path, arguments: OutputArguments) -> str:
    """The wanted lines, numbered, with a last line that says where to go on."""
    try:
        matches = re.compile(arguments.pattern).search if arguments.pattern else None
    except re.error as error:
        raise ToolError("The pattern is no regular expression: {why}.", why=error) from None
    shown: list[str] = []
    size = 0
    more = False
    with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
        for number, line in enumerate(islice(file, arguments.start - 1, None), arguments.start):
            text = line.rstrip("\r\n")[:MAX_LINE]
            if matches is not None and not matches(text):
                continue
            if len(shown) == arguments.lines or size > MAX_CHARS:
                more = True
                shown.append(f"[more from line {number}]")
                break
            shown.append(f"{number}: {text}")
            size += len(text)
    if not shown:
        return "[no line matches]" if matches else "[no such line]"
    return "\n".join(shown if more else [*shown, "[end]"])
