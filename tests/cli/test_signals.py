"""A signal while the program starts: it ends silently, with the signal's status."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.forge import until

HOOK = """
import os, signal, sys

class Moment:
    left, number = int(os.environ["TEST_MODULES"]), int(os.environ["TEST_SIGNAL"])

    def find_spec(self, name, path=None, target=None):
        Moment.left -= 1
        if Moment.left == 0:
            os.kill(os.getpid(), Moment.number)
        return None

sys.meta_path.insert(0, Moment())
"""
"""A `sitecustomize` that sends a signal when that many modules were looked up."""
WRITING = """
import os, signal, sys

class Interrupted:
    def write(self, text):
        os.kill(os.getpid(), signal.SIGINT)

    def flush(self):
        pass

sys.stdout = Interrupted()
"""
"""A `sitecustomize` that sends an interrupt when something is written."""
HALF_MADE = """
import os, signal, socket

def interrupted(*given):
    os.kill(os.getpid(), signal.SIGINT)

socket.socketpair = interrupted
"""
"""A `sitecustomize` that sends an interrupt while an event loop is made."""
SCRIPT = "replies: [{run: 'touch ran'}, {text: Done.}]"


def started(
    place: Path, modules: int, number: int, *words: str
) -> subprocess.CompletedProcess[str]:
    """Run `kogniterm WORDS` with a signal at the nth module that it looks up."""
    for name in ("hook", "home", "tmp", "project"):
        (place / name).mkdir(exist_ok=True)
    (place / "hook" / "sitecustomize.py").write_text(HOOK)
    (place / "script.yaml").write_text(SCRIPT)
    variables = {
        "HOME": str(place / "home"),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{place / 'hook'}:{Path(__file__).parents[2]}",
        "TMPDIR": str(place / "tmp"),
        "TEST_MODULES": str(modules),
        "TEST_SIGNAL": str(number),
    }
    return subprocess.run(
        [sys.executable, "-m", "kogniterm", *words],
        env=variables,
        cwd=place / "project",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


RUN = ("run", "-y", "--no-sandbox", "--model", "scripted:../script.yaml", "go")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("modules", [20, 400, 750])
def test_a_signal_while_modules_are_read_ends_it_silently(
    tmp_path: Path, modules: int, number: int
) -> None:
    ended = started(tmp_path, modules, number, *RUN)
    assert ended.returncode in (-number, 128 + number), ended
    assert (ended.stdout, ended.stderr) == ("", "")
    assert not (tmp_path / "project" / "ran").exists()
    until(lambda: not any((tmp_path / "tmp").iterdir()))


@pytest.mark.parametrize(
    ("words", "hook", "status"),
    [(("--version",), WRITING, -signal.SIGINT), (("mcp", "list"), HALF_MADE, 130)],
)
def test_what_is_half_written_or_half_made_ends_silently_too(
    tmp_path: Path, words: tuple[str, ...], hook: str, status: int
) -> None:
    (tmp_path / "sitecustomize.py").write_text(hook)
    path = f"{tmp_path}:{Path(__file__).parents[2]}"
    ended = subprocess.run(
        [sys.executable, "-m", "kogniterm", *words],
        env={**os.environ, "PYTHONPATH": path, "KOGNITERM_WARM": "off"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (status, "", "")
