"""Running commands in tests: time limits that hold on a slow machine too."""

from __future__ import annotations

from collections.abc import Callable

from kogniterm.execution.executor import CommandExecutor
from kogniterm.types import CommandResult

PATIENCE = 60.0
"""A guard against hanging, not a measure: every wait ends with what it waits for."""


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
