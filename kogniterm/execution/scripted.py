"""An executor that runs nothing: it answers from recorded results, for replay and tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from kogniterm.errors import ExecutionError
from kogniterm.protocols import OutputSink, Terminal
from kogniterm.types import CommandResult, Job, Keystrokes


class ScriptedExecutor:
    """Implements `protocols.Executor` from `results`, given in the order they are asked for.

    A command that is not the next recorded one, or one too many, raises ExecutionError: a
    replay that has come apart must say so. `ran` holds the commands asked for.
    """

    def __init__(self, results: Iterable[CommandResult], cwd: str = "/") -> None:
        self._results = list(results)
        self._cwd = cwd
        self._jobs: tuple[Job, ...] = ()
        self._closed = False
        self.ran: list[str] = []

    @property
    def cwd(self) -> str:
        """The folder of the last recorded result."""
        return self._cwd

    @property
    def next_output(self) -> str | None:
        """What is recorded has no file of its own."""
        return None

    def run(
        self,
        command: str,
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        keystrokes: Iterable[Keystrokes] = (),
        sink: OutputSink | None = None,
        terminal: Terminal | None = None,
    ) -> CommandResult:
        """The next recorded result; its text goes to `sink` at once."""
        del cwd, env, timeout, keystrokes, terminal  # what is recorded has already happened
        if self._closed:
            raise ExecutionError("The executor is closed.")
        self.ran.append(command)
        if len(self.ran) > len(self._results):
            raise ExecutionError("The recording has no result for: {command}", command=command)
        result = self._results[len(self.ran) - 1]
        if result.command != command:
            raise ExecutionError(
                "The recording expects {expected!r}, not {command!r}.",
                expected=result.command,
                command=command,
            )
        if sink is not None:
            sink.output(result.text.encode("utf-8", "replace"))
        self._cwd = result.cwd
        self._jobs = result.jobs
        return replace(result)

    def stop(self) -> None:
        """Nothing runs, so there is nothing to end."""

    def jobs(self) -> tuple[Job, ...]:
        """The jobs of the last recorded result."""
        return self._jobs

    def close(self) -> None:
        """No further command is answered."""
        self._closed = True
