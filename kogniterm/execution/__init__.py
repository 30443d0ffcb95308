"""Execution: runs commands in a real PTY, one session leader each.

`open_executor` is the library face: stable, without a terminal, from any thread.
"""

from __future__ import annotations

# Set here and not imported: the supervisor imports this package and starts in half the time
# without `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from typing import Any

    from kogniterm.execution.executor import CommandExecutor

__all__ = ["CommandExecutor", "open_executor"]


def open_executor(
    cwd: str | os.PathLike[str], env: Mapping[str, str] | None = None, **options: Any
) -> CommandExecutor:
    """Return an executor whose first command starts in `cwd` with the environment `env`.

    Without `env` commands inherit this process's environment; our own API keys are taken out
    either way. `options` are those of `CommandExecutor`. Close it, or use it in a `with`.
    """
    from kogniterm.execution.executor import CommandExecutor

    return CommandExecutor(cwd, env, **options)


def __getattr__(name: str) -> Any:
    """Load the executor on first use: the supervisor imports this package too, and is small."""
    if name == "CommandExecutor":
        from kogniterm.execution.executor import CommandExecutor

        return CommandExecutor
    raise AttributeError(name)
