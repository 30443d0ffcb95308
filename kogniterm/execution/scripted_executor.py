"""An executor that runs nothing: it answers from recorded results, for replay and tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from kogniterm.errors import ExecutionError
from kogniterm.protocols import Executor, OutputSink, Terminal
from kogniterm.types import CommandResult, Job, Keystrokes


class ScriptedExecutor:
    """Implements `protocols.Executor` from `results`, given in the order they are asked for.

    A command that is not the next recorded one, or one too many, raises ExecutionError: a
    replay that has come apart must say so. With `live` each command is really run by it all the
    same. `ran` holds the commands asked for.
    """

    def __init__(
        self,
        results: Iterable[CommandResult] = (),
        cwd: str = "/",
        live: Executor | None = None,
    ) -> None:
        self._results = iter(results)
        self._cwd = cwd
        self._live = live
        self._jobs: tuple[Job, ...] = ()
        self._closed = False
        self.ran: list[str] = []

    @property
    def cwd(self) -> str:
        """Return the folder of the last recorded result."""
        return self._cwd if self._live is None else self._live.cwd

    @property
    def next_output(self) -> str | None:
        """Return None: what is recorded has no file of its own."""
        return None

    def result_of(self, command: str) -> CommandResult:
        """Return the recorded result of `command`, the next one. Raises ExecutionError."""
        result = next(self._results, None)
        if result is None:
            raise no_result(command)
        if result.command != command:
            raise ExecutionError(
                "The recording expects {expected!r}, not {command!r}.",
                expected=result.command,
                command=command,
            )
        return result

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
        on_wait: Literal["stop", "detach"] = "stop",
    ) -> CommandResult:
        """Return the next recorded result; its text goes to `sink` at once."""
        del cwd, env, keystrokes, terminal, on_wait  # what is recorded has already happened
        if self._closed:
            raise ExecutionError("The executor is closed.")
        self.ran.append(command)
        result = self.result_of(command)
        if self._live is not None:
            return self._live.run(command, timeout=timeout, sink=sink)
        if sink is not None:
            sink.output(result.text.encode("utf-8", "replace"))
        self._cwd, self._jobs = result.cwd, result.jobs
        return result

    def stop(self) -> None:
        """End what really runs, if anything does."""
        if self._live is not None:
            self._live.stop()

    def detach(self) -> bool:
        """Return False: what is recorded does not go on."""
        return False

    def jobs(self) -> tuple[Job, ...]:
        """Return the jobs of the last recorded result."""
        return self._jobs if self._live is None else self._live.jobs()

    def close(self) -> None:
        """Answer no further command."""
        self._closed = True
        if self._live is not None:
            self._live.close()


def no_result(command: str) -> ExecutionError:
    """Return the error that nothing is recorded of `command`."""
    return ExecutionError("The recording has no result for: {command}", command=command)
