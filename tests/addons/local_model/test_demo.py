"""`make demo` leaves nothing that changes later runs, whether it completes or is interrupted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kogniterm.addons.local_model.weights import CATALOGUE
from kogniterm.paths import resolve
from tests.cli.conftest import KOGNITERM, PATIENCE, Shell, shell

__all__ = ["shell"]

DEMO = Path(__file__).parents[3] / "scripts" / "demo"
COUNT = "{run: wc -l README.md, purpose: Count the lines}"
ENDINGS = {
    "right": (f"replies: [{COUNT}, {{text: It has 3 lines.}}]", "exit 0", 0),
    "wrong": (f"replies: [{COUNT}, {{text: It has many.}}]", "exit 0", 1),
    "failed": ("replies: [{error: unavailable}]", "exit 0", 5),
    "stopped": (f"replies: [{COUNT}]", "kill -TERM $PPID; exit 0", 143),
}


def found_below(*folders: Path) -> dict[str, bytes | None]:
    """Return everything below the folders, with the contents of files."""
    paths = [path for folder in folders for path in folder.rglob("*")]
    return {str(path): path.read_bytes() if path.is_file() else None for path in paths}


def stand_in(shell: Shell, script: str, pull: str) -> Path:
    """Write a program that runs KogniTerm with a scripted model instead of the embedded one."""
    model = shell.script(script)
    program = shell.home / "stand-in"
    program.write_text(
        f'#!/bin/sh\ntest "$1" = models && {{ {pull}; }}\n'
        f'test "$1" = tour && exec \'{KOGNITERM}\' "$@"\nfor task; do :; done\n'
        f"exec '{KOGNITERM}' run --auto-approve --no-sandbox --model '{model}' \"$task\"\n"
    )
    python = shell.home / "python"  # beside it, as in an environment
    python.write_text(f"#!/bin/sh\nexec '{sys.executable}' \"$@\"\n")
    for file in (program, python):
        file.chmod(0o755)
    return program


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_demo_leaves_nothing_behind(shell: Shell, ending: str) -> None:
    script, pull, status = ENDINGS[ending]
    (shell.project / "README.md").write_text("1\n2\n3\n")
    # A session of the user's own, in the folder that the demo works in.
    own = shell.run("run", "hello", "--model", shell.script("replies: [{text: Hello.}]"))
    assert own.returncode == 0, own.stderr
    program = stand_in(shell, script, pull)
    temporary = shell.home / "tmp"
    temporary.mkdir()
    before = found_below(shell.home, shell.project)
    done = subprocess.run(
        ["sh", DEMO, program],
        cwd=shell.project,
        env=shell.environ | {"TMPDIR": str(temporary)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    after = found_below(shell.home, shell.project)
    assert after == before, sorted(after.keys() ^ before.keys())
    listed = json.loads(shell.run("sessions", "list", "--json").stdout)
    assert [one["title"] for one in listed] == ["hello"]


def test_the_demo_says_what_stays(shell: Shell) -> None:
    program = stand_in(shell, *ENDINGS["right"][:2])
    (shell.project / "README.md").write_text("1\n2\n3\n")
    done = subprocess.run(
        ["sh", DEMO, program],
        cwd=shell.project,
        env=shell.environ | {"TMPDIR": os.environ["TMPDIR"]},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert "That is right: 3 lines." in done.stdout
    assert "weights stay in the cache" in done.stdout
    assert "Restored: logs/2025" in done.stdout


def test_the_demo_announces_what_it_downloads(shell: Shell) -> None:
    announce = ["sh", DEMO, "--announce", shell.home / "installed"]

    def said() -> str:
        return subprocess.run(
            announce, env=shell.environ, capture_output=True, text=True, check=True
        ).stdout

    assert "MB of packages" in said()
    assert f"{CATALOGUE[0].size // 1_000_000} MB to download" in said()
    assert max(map(len, said().splitlines())) < 80
    (shell.home / "installed").touch()
    weights = resolve(shell.environ).weights
    weights.mkdir(parents=True)
    (weights / CATALOGUE[0].file).touch()
    assert "already done" in said()
    assert "already downloaded" in said()
