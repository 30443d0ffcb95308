"""`execute_command`: the schema only. The executor runs it, outside the graph."""

from __future__ import annotations

from pydantic import Field, field_validator

from kogniterm.errors import ToolError
from kogniterm.tools.base import Arguments, SchemaTool

MAX_COMMAND = 100_000


class CommandArguments(Arguments):
    """One shell command and what it is for."""

    command: str = Field(description="bash; may be several lines")
    purpose: str = Field(default="", description="one sentence for the person")

    @field_validator("command")
    @classmethod
    def _usable(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("is empty")
        if len(value) > MAX_COMMAND:
            raise ValueError(f"is longer than {MAX_COMMAND} characters; write a script file")
        if "\0" in value:
            raise ValueError("contains a NUL byte, which no shell can run")
        return value


async def _never(arguments: CommandArguments) -> str:
    raise ToolError("Commands are run by the executor.")


def execute_command() -> SchemaTool[CommandArguments]:
    """The tool every session offers."""
    return SchemaTool(
        "execute_command",
        "Run a command in the person's shell after they approve it.",
        CommandArguments,
        _never,
        effect="command",
        describe=lambda arguments: (arguments.command, arguments.purpose),
    )
