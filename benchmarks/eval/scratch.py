"""Scratch folder in which commands cannot affect the rest of the machine.

Commands run in the product's own sandbox: only the folder can be written, and there is no network.
What a model proposes runs only where other processes are hidden, too. The table's own commands are
known and run in any kind of sandbox. Without one nothing is run.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kogniterm.execution.process.confined_program import run_confined
from kogniterm.execution.sandbox.confinement import Sandbox, SandboxKind
from kogniterm.execution.sandbox_probe import Probe, probe

SECONDS = 20


@dataclass(frozen=True, slots=True)
class Done:
    """Output of a command (both streams, in order) and its exit code."""

    output: str
    code: int


@dataclass(frozen=True, slots=True)
class Scratch:
    """A folder for one task, seen inside the sandbox under the same name."""

    folder: Path
    temporary: Path

    def run(self, command: str) -> Done:
        """Run `command` with bash in the folder; 124 when it takes too long."""
        box, temporary = self._sandbox(), str(self.temporary)
        try:
            done = run_confined(
                ["bash", "-c", f"exec 2>&1; {command}"],
                env={**os.environ, "LC_ALL": "C.UTF-8"},
                cwd=str(self.folder),
                sandbox=box,
                temporary=temporary,
                seconds=SECONDS,
            )
        except TimeoutError:
            return Done("", 124)
        return Done(done.output.decode("utf-8", "replace"), done.status)

    def _sandbox(self) -> Sandbox:
        found = _found()
        if found.kind == "none":
            raise RuntimeError("no sandbox works here: nothing is run")
        return Sandbox(found.kind, str(self.folder), str(Path.home()), program=found.program)


def kind() -> SandboxKind:
    """Return the kind of sandbox that can be made here."""
    return _found().kind


@cache
def _found() -> Probe:
    with tempfile.TemporaryDirectory(prefix="kogniterm-eval-", dir="/var/tmp") as folder:
        return probe(Path(folder))


@contextlib.contextmanager
def scratch(setup: str) -> Iterator[Scratch]:
    """Make a folder with the task's content, deleted afterwards."""
    with (
        tempfile.TemporaryDirectory(prefix="kogniterm-eval-") as name,
        tempfile.TemporaryDirectory(prefix="kogniterm-eval-") as temporary,
    ):
        place = Scratch(Path(name), Path(temporary))
        ready = place.run(setup)
        if ready.code != 0:
            raise RuntimeError(f"the set-up failed ({ready.code}): {ready.output}")
        yield place
