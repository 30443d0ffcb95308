"""Runs commands in real bash inside a sandbox, and tells which of them changed a file."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from kogniterm.execution.sandbox.confinement import Sandbox
from tests.support.programs import require_sandbox

_DRIVER = """
number=0
while [ -d "$number" ]; do
  ( cd "$number/in" || exit
    exec timeout -k 1 5 bash --norc --noprofile -c '
      for __one in ../command*; do eval "$(<"$__one")"; done' bash ) </dev/null >/dev/null 2>&1 &
  number=$((number + 1))
  [ $((number % 20)) -gt 0 ] || wait
done
wait
"""
"""Runs what lies in each numbered folder: its commands one after another in one shell."""


class RealShell:
    """A folder in which commands are run, each in a folder of its own with the same files.

    Only `folder` can be written inside; there is no network. Where no sandbox works, the running
    test is skipped.
    """

    def __init__(self, folder: Path, files: Mapping[str, str]) -> None:
        found = require_sandbox("auto")
        self._folder = folder
        self._files = files
        home = folder / "home"
        home.mkdir(parents=True)
        (folder / "files").mkdir()
        work = folder / "work"
        work.mkdir()
        self._box = Sandbox(found.kind, str(work), str(home), program=found.program)

    def changing(self, rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
        """Return the rows of commands after which a file is new, changed or gone."""
        work = self._folder / "work"
        for number, row in enumerate(rows):
            inside = work / str(number) / "in"
            inside.mkdir(parents=True)
            for name, text in self._files.items():
                (inside / name).parent.mkdir(parents=True, exist_ok=True)
                (inside / name).write_text(text)
            for place, command in enumerate(row):
                (work / str(number) / f"command{place}").write_text(command)
        shell_files = str(self._folder / "files")
        argv = self._box.wrap(
            ["bash", "--norc", "--noprofile", "-c", _DRIVER],
            cwd=str(work), shell_files=shell_files, temporary=shell_files,
        )  # fmt: skip
        environ = {"PATH": os.environ["PATH"], "HOME": str(self._folder / "home"), "LANG": "C.UTF-8"}
        subprocess.run(
            argv, cwd=work, env=environ, stdin=subprocess.DEVNULL, capture_output=True, check=True,
            start_new_session=True, timeout=60 + 6 * len(rows),
        )  # fmt: skip
        return [row for number, row in enumerate(rows) if self._changed(work / str(number) / "in")]

    def _changed(self, inside: Path) -> bool:
        found = {
            str(path.relative_to(inside)): path.read_text("utf-8", "replace")
            for path in inside.rglob("*")
            if path.is_file()
        }
        return found != dict(self._files)
