"""Commands classified as safe change nothing when a real shell runs them."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from kogniterm.execution.shell.shell_state import PROPOSED
from tests.approval.corpus import commands
from tests.support.programs import installed, needs

pytestmark = needs("bash")

_WAITS = (
    "tail -f",
    "tail -F",
    "timeout 5 tail",
    "watch",
    "sleep",
    "top -d",
    "yes",
    "script",
    "vmstat",
    "iostat",
    "journalctl",
)
_DEAR = ("pip", "apt", "apt-cache", "npm")
"""Slow programs, of about a second each: one command for each of their verbs is enough."""
_TOGETHER = 50
_PARTS = 4
"""Number of parts, so that several workers share the commands."""
_SHELL = """
__all=("$@"); set --
for __one in "${__all[@]}"; do ( eval "$__one"; wait ); done
"""
"""Runs each command in a subshell, so that no folder, variable or option passes to the next one."""


def _tried() -> list[str]:
    """Return the commands that end by themselves and do not search the whole disk."""
    dear: dict[tuple[str, ...], str] = {}
    cheap = []
    for command in commands("safe"):
        if command.startswith(_WAITS) or " / " in command:
            continue
        program, *rest = command.split()
        if program in _DEAR:
            dear.setdefault((program, *rest[:1]), command)
        else:
            cheap.append(command)
    return [*dear.values(), *cheap]


class _Place:
    """A project and a home with files, which remembers their original content."""

    def __init__(self, root: Path) -> None:
        self.folder, self.home = root / "work", root / "home"
        (self.folder / "src").mkdir(parents=True)
        # top creates its empty settings folder on its first run; nothing else may appear.
        (self.home / ".config" / "procps").mkdir(parents=True)
        for name in ("a", "b", "f", "file", "x", "data", "a.txt", "b.txt", "f.json", "script.sh"):
            (self.folder / name).write_text("3 b c\n1 foo d\n2 x y\n")
        (self.folder / "src" / "m.py").write_text("def f(): pass\n")
        if installed("git"):
            init = ["git", "init", "-q", str(self.folder)]
            subprocess.run(init, check=True, env={"HOME": str(self.home)})
        self._made = self._content()

    @property
    def changed(self) -> bool:
        return self._content() != self._made

    def _content(self) -> dict[str, bytes | None]:
        found: dict[str, bytes | None] = {}
        for folder in (self.folder, self.home):
            for path in folder.rglob("*"):
                is_file = path.is_file() and not path.is_symlink()
                found[str(path)] = path.read_bytes() if is_file else None
        return found

    def run(self, together: list[str], *, seconds: int) -> bool:
        """Run commands in one shell, in order; return whether all ended within the time."""
        environ = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8"}
        process = subprocess.Popen(
            ["bash", "-c", _SHELL, "bash", *together], cwd=self.folder, env=environ | PROPOSED,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        try:
            process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return False
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return True


def _changing(together: list[str], root: Path) -> list[str]:
    """Return the commands that change a file; run each alone only if all together did or hung."""
    place = _Place(root / "together")
    ended = place.run(together, seconds=60)
    if ended and not place.changed:
        return []
    found = []
    for number, command in enumerate(together):
        alone = _Place(root / str(number))
        alone.run([command], seconds=60 if ended else 2)
        if alone.changed:
            found.append(command)
    return found or (together if place.changed else [])


@pytest.mark.parametrize("part", range(_PARTS))
def test_what_is_judged_safe_changes_nothing(part: int, tmp_path: Path) -> None:
    tried = _tried()[part::_PARTS]
    batches = [tried[start : start + _TOGETHER] for start in range(0, len(tried), _TOGETHER)]
    changing = [
        command
        for number, batch in enumerate(batches)
        for command in _changing(batch, tmp_path / str(number))
    ]
    assert changing == []


def test_a_change_among_many_commands_is_found(tmp_path: Path) -> None:
    harmful = ["touch new", "echo x >> a.txt", "mkdir ~/made", "rm b"]
    harmless = ["ls", "cd src; x=y; set -e; exit 3", "[ ! -e m.py ] || rm *", "exec cat a", "$x 1"]
    tried = [*harmless[:3], *harmful[:2], *harmless[3:], *harmful[2:]]
    assert _changing(tried, tmp_path / "both") == harmful
    assert _changing(harmless, tmp_path / "harmless") == []
