"""Running commands in tests, one by one, with time limits that hold on a slow machine."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kogniterm.execution import open_executor
from kogniterm.execution.executor import CommandExecutor
from kogniterm.execution.sandbox.confinement import Sandbox, SandboxKind
from kogniterm.host.processes import descendants, process_state, process_words
from kogniterm.types import CommandResult, Waiting
from tests.support.programs import require_sandbox

PATIENCE = 60.0
"""A guard against hanging, not a measure: every wait ends with what it waits for."""


def run_each(folder: Path, steps: Iterable[tuple[str, str]]) -> list[CommandResult]:
    """Return the results of commands that one user gives one after the other.

    Each step is a command and the text the model must see, blanks around it aside.
    """
    results = []
    with open_executor(folder) as executor:
        for command, text in steps:
            result = executor.run(command, timeout=PATIENCE)
            assert result.text.strip() == text, command
            results.append(result)
    return results


class Sink:
    """A sink that records its events."""

    def __init__(self) -> None:
        self.data = b""
        self.waits: list[Waiting | None] = []
        self.changed = threading.Condition()

    def output(self, data: bytes) -> None:
        with self.changed:
            self.data += data
            self.changed.notify_all()

    def waiting(self, waiting: Waiting | None) -> None:
        with self.changed:
            self.waits.append(waiting)
            self.changed.notify_all()

    def until(self, condition: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, PATIENCE)


KINDS: tuple[SandboxKind, ...] = ("namespaces", "bubblewrap", "container", "landlock")
BUILT = KINDS[:3]
"""Those that are built of namespaces."""


@contextmanager
def outside_tmp() -> Iterator[Path]:
    """Yield a folder outside of /tmp, because sandboxes have a private /tmp."""
    place = Path(tempfile.mkdtemp(prefix="kogniterm-test-", dir="/var/tmp"))
    try:
        yield place
    finally:
        shutil.rmtree(place)


def sandbox_round(kind: SandboxKind, workspace: Path, home: Path) -> Sandbox:
    """Return a sandbox of this kind around a folder; skip the test where none works."""
    program = require_sandbox(kind).program
    return Sandbox(kind, str(workspace), str(home), program=program)


def session(kind: SandboxKind, work: Path) -> CommandExecutor:
    """Return an executor in a sandbox around `work`, with a home beside that."""
    box = sandbox_round(kind, work, work.parent / "home")
    return open_executor(work, sandbox=box, workspace=work)


def ran(shell: CommandExecutor, command: str) -> CommandResult:
    """Return the result of a command that has the time it needs."""
    return shell.run(command, timeout=PATIENCE)


def alive(pid: int) -> bool:
    """Return whether the process runs; one that has ended may still wait to be reaped."""
    state = process_state(pid)
    return state is not None and state.state not in "ZX"


def processes_executing(command: str) -> list[int]:
    """Return the processes that execute `command`, which has no quotes."""
    numbers = (int(one.name) for one in Path("/proc").glob("[0-9]*"))
    words = command.split()
    return [pid for pid in numbers if process_words(pid) == words and alive(pid)]


def private_folder_of(executor: CommandExecutor) -> Path:
    """Return the folder with the files that the executor's shells read and write."""
    return Path(executor.temporary_folder).parent


def timed_out(
    executor: CommandExecutor, command: str, arrived: Callable[[CommandResult], bool]
) -> CommandResult:
    """Return the result of `command`, ended by its time limit where it hangs.

    The time until then depends on the machine, so the limit grows until it has `arrived`.
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


def first_processes() -> set[int]:
    """Return the first process of each sandbox below this process, and the leaders in it."""
    states = descendants(os.getpid())
    inside = {state.pid for state in states if state.name == "sandbox"}
    return {state.pid for state in states if state.pid in inside and state.parent not in inside}
