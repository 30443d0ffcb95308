"""Scratch folder in which commands cannot affect the rest of the machine.

Commands run in the product's own sandbox: only the folder can be written, and there is no network.
Bubblewrap also hides other processes: what a model proposes runs only in there. The table's own
commands are known and run under Landlock too. Without either nothing is run.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kogniterm.execution.process.processes import end_tree
from kogniterm.execution.sandbox.confinement import Probe, Sandbox, SandboxKind, probe

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
        argv = ["bash", "-c", command]
        process = subprocess.Popen(
            box.wrap(argv, cwd=box.workspace, shell_files=temporary, temporary=temporary),
            cwd=self.folder,
            env={**os.environ, "LC_ALL": "C.UTF-8", **box.variables(temporary)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        with process:
            try:
                output, code = process.communicate(timeout=SECONDS)[0], process.returncode
            except subprocess.TimeoutExpired:
                end_tree(process.pid)
                output, code = process.communicate()[0], 124
        return Done(output.decode("utf-8", "replace"), code)

    def _sandbox(self) -> Sandbox:
        found = _found()
        if found.kind == "none":
            raise RuntimeError("neither bubblewrap nor Landlock works here: nothing is run")
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
