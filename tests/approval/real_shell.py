"""Runs commands in real bash inside a sandbox, and tells which of them changed a file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

from kogniterm.approval import ShellValues, classify, values_after
from kogniterm.approval.analysis.arguments import READING, Rules, rule_table
from kogniterm.execution.process.confined_program import run_confined
from kogniterm.execution.sandbox.confinement import Sandbox
from tests.approval.corpus import WORKSPACE
from tests.approval.generated import composed, program_call
from tests.support.programs import installed, require_sandbox

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
                (inside / name).chmod(0o755)
            for place, command in enumerate(row):
                (work / str(number) / f"command{place}").write_text(command)
        environ = {
            "PATH": os.environ["PATH"] + ":.",
            "HOME": str(self._folder / "home"),
            "LANG": "C.UTF-8",
        }
        done = run_confined(
            ["bash", "--norc", "--noprofile", "-c", _DRIVER],
            env=environ,
            cwd=str(work),
            sandbox=self._box,
            temporary=str(self._folder / "files"),
            seconds=60 + 6 * len(rows),
        )
        assert done.status == 0, done.complaints
        return [row for number, row in enumerate(rows) if self._changed(work / str(number) / "in")]

    def _changed(self, inside: Path) -> bool:
        found = {
            str(path.relative_to(inside)): path.read_text("utf-8", "replace")
            for path in inside.rglob("*")
            if path.is_file()
        }
        return found != dict(self._files)


def read_only_rows(seed: int, count: int) -> list[tuple[str, ...]]:
    """Return what is judged read-only of `count` generated rows of commands."""
    random = Random(seed)
    rows = dict.fromkeys(composed(random) for _ in range(count))
    return [row for row in rows if _is_read_only(row)]


def read_only_calls(seed: int, count: int) -> list[tuple[str, ...]]:
    """Return `count` calls of installed programs that are judged read-only."""
    random, table = Random(seed), rule_table("known_programs")
    programs = [name for name, rules in table.items() if _reads(name, rules)]
    found: dict[tuple[str, ...], None] = {}
    while len(found) < count:
        program = random.choice(programs)
        longs = tuple(name for name in table[program].options if len(name) > 1)
        row = (program_call(random, program, longs or ("version",)),)
        if _is_read_only(row):
            found[row] = None
    return list(found)


_ENDLESS = frozenset({"yes", "sleep", "top", "watch", "pip", "pip3", "apt-cache"})
"""Programs that take long, or do not end."""
_OTHERS = frozenset(
    {"tar", "compress", "unzip", "sevenzip", "man", "awk", "patterns", "find", "echo"}
)


def _reads(name: str, rules: Rules) -> bool:
    return name not in _ENDLESS and rules.base in READING | _OTHERS and installed(name)


def _is_read_only(row: tuple[str, ...]) -> bool:
    values = ShellValues()
    for command in row:
        if classify(command, cwd=WORKSPACE, values=values).label != "safe_readonly":
            return False
        values = values_after(command, cwd=WORKSPACE, values=values)
    return True
