"""Running commands in tests: one after the other, with time limits that hold on a slow machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from kogniterm.execution import open_executor
from kogniterm.execution.executor import CommandExecutor
from kogniterm.types import CommandResult

PATIENCE = 60.0
"""A guard against hanging, not a measure: every wait ends with what it waits for."""


def run_each(folder: Path, steps: Iterable[tuple[str, str]]) -> list[CommandResult]:
    """The results of commands that one person gives one after the other.

    Each step is a command and the text the model must see, blanks around it aside.
    """
    results = []
    with open_executor(folder) as executor:
        for command, text in steps:
            result = executor.run(command, timeout=PATIENCE)
            assert result.text.strip() == text, command
            results.append(result)
    return results


def timed_out(
    executor: CommandExecutor, command: str, arrived: Callable[[CommandResult], bool]
) -> CommandResult:
    """The result of `command`, ended by its time limit where it hangs.

    How long it takes to get there is the machine's affair: the limit grows until it has `arrived`.
    """
    limit = 0.5
    while True:
        result = executor.run(command, timeout=limit)
        assert (result.ended, result.exit_code) == ("timeout", None)
        assert result.duration >= limit
        if arrived(result):
            return result
        assert limit < PATIENCE, result
        limit *= 2
