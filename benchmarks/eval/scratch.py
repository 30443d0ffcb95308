"""A scratch folder in which proposed commands can do no harm: bubblewrap, without network.

A model's command runs with the machine read-only around it and only the scratch folder
writable. Without bubblewrap nothing is run at all.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SECONDS = 20


@dataclass(frozen=True, slots=True)
class Done:
    """What a command printed (both streams, in order) and its exit code."""

    output: str
    code: int


@dataclass(frozen=True, slots=True)
class Scratch:
    """A folder for one task, seen inside the sandbox under the same name."""

    folder: Path

    def run(self, command: str) -> Done:
        """Run `command` with bash in the folder; 124 when it takes too long."""
        sandbox = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
        sandbox += ["--tmpfs", "/tmp", "--bind", str(self.folder), str(self.folder)]
        sandbox += ["--unshare-all", "--die-with-parent", "--new-session"]
        sandbox += ["--chdir", str(self.folder), "--setenv", "LC_ALL", "C.UTF-8"]
        try:
            done = subprocess.run(
                [*sandbox, "bash", "-c", command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            return Done((error.stdout or b"").decode("utf-8", "replace"), 124)
        return Done(done.stdout.decode("utf-8", "replace"), done.returncode)


def available() -> bool:
    """Whether the sandbox can be made here."""
    if shutil.which("bwrap") is None:
        return False
    probe = ["bwrap", "--ro-bind", "/", "/", "--unshare-all", "true"]
    return subprocess.run(probe, check=False, capture_output=True).returncode == 0


@contextlib.contextmanager
def scratch(setup: str) -> Iterator[Scratch]:
    """A new folder with the task's content, deleted afterwards."""
    with tempfile.TemporaryDirectory(prefix="kogniterm-eval-") as name:
        place = Scratch(Path(name))
        ready = place.run(setup)
        if ready.code != 0:
            raise RuntimeError(f"the set-up failed ({ready.code}): {ready.output}")
        yield place
