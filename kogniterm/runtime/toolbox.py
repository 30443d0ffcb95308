"""Which tools a session offers, in an order that never changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from kogniterm.protocols import Tool
from kogniterm.tools.files import read_file
from kogniterm.tools.output import read_output
from kogniterm.tools.shell import execute_command


def session_tools(
    cwd: Callable[[], str], workspace: str, outputs: Path, is_secret: Callable[[str], bool]
) -> Mapping[str, Tool]:
    """The tools by name."""
    tools: tuple[Tool, ...] = (
        execute_command(),
        read_file(cwd, workspace, is_secret),
        read_output(outputs),
    )
    return {tool.spec.name: tool for tool in tools}
