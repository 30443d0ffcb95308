"""Running commands in tests: waiting for what no event tells, limits that a slow machine meets."""

from __future__ import annotations

import time
from collections.abc import Callable

from kogniterm.execution.executor import CommandExecutor
from kogniterm.types import CommandResult

PATIENCE = 60.0
"""A guard against hanging, not a measure: every wait ends with what it waits for."""


def until(condition: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Wait for what another process does; nothing tells of it."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


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
