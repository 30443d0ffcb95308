"""A scratch folder in which commands can do no harm to the rest of the machine.

Only the folder can be written, and there is no network. Bubblewrap also hides other processes:
what a model proposes runs only in there. The table's own commands are known; where bubblewrap does
not work, they run under Landlock, which needs nothing installed. Without either nothing is run.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from kogniterm.execution import landlock
from kogniterm.system_programs import find_program

SECONDS = 20
Kind = Literal["bubblewrap", "landlock", "none"]
_CONFINE = """\
import os, sys
sys.path.append(sys.argv[1])
from kogniterm.execution.landlock import restrict
restrict(sys.argv[2:4], network=False)
os.execvp(sys.argv[4], sys.argv[4:])
"""
_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Done:
    """What a command printed (both streams, in order) and its exit code."""

    output: str
    code: int


@dataclass(frozen=True, slots=True)
class Scratch:
    """A folder for one task, seen inside the sandbox under the same name."""

    folder: Path
    temporary: Path

    def run(self, command: str) -> Done:
        """Run `command` with bash in the folder; 124 when it takes too long."""
        process = subprocess.Popen(
            [*self._sandbox(), "bash", "-c", command],
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        with process:
            try:
                output, code = process.communicate(timeout=SECONDS)[0], process.returncode
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                output, code = process.communicate()[0], 124
        return Done(output.decode("utf-8", "replace"), code)

    def _environment(self) -> Mapping[str, str]:
        given = os.environ | {"LC_ALL": "C.UTF-8"}
        return given | {"TMPDIR": str(self.temporary)} if kind() == "landlock" else given

    def _sandbox(self) -> list[str]:
        folder = str(self.folder)
        if kind() == "landlock":
            confine = [sys.executable, "-I", "-S", "-c", _CONFINE, str(_ROOT)]
            return [*confine, folder, str(self.temporary)]
        sandbox = [_bwrap(), "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
        sandbox += ["--tmpfs", "/tmp", "--bind", folder, folder]
        sandbox += ["--unshare-all", "--die-with-parent", "--new-session"]
        return [*sandbox, "--chdir", folder]


@cache
def kind() -> Kind:
    """Return the kind of sandbox that can be made here."""
    if program := find_program("bwrap"):
        probe = [program, "--ro-bind", "/", "/", "--unshare-all", "true"]
        if subprocess.run(probe, check=False, capture_output=True).returncode == 0:
            return "bubblewrap"
    return "landlock" if landlock.available() else "none"


def _bwrap() -> str:
    program = find_program("bwrap")
    if program is None or kind() != "bubblewrap":
        raise RuntimeError("neither bubblewrap nor Landlock works here: nothing is run")
    return program


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
