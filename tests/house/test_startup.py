"""Modules loaded at start, checked by name instead of by time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pexpect

WATCH = '''
"""Run kogniterm, note which third-party packages are loaded as the prompt is written, and end."""

import io
import json
import os
import sys

NOTES = sys.argv.pop(1)


class Watched(io.FileIO):
    def write(self, data):
        if PROMPT in bytes(data):
            loaded = {name.partition(".")[0] for name in sys.modules}
            foreign = loaded - set(sys.stdlib_module_names) - {"kogniterm", "__main__"}
            with open(NOTES, "w") as notes:
                json.dump(sorted(foreign), notes)
            os._exit(0)
        return super().write(data)


PROMPT = "\\u203a".encode()
sys.stdout = io.TextIOWrapper(io.BufferedWriter(Watched(1, "w")), "utf-8", write_through=True)

from kogniterm.__main__ import main

sys.exit(main())
'''
STAND_INS = {"langsmith", "langgraph_sdk", "requests"}
ALLOWED = STAND_INS | {"prompt_toolkit", "wcwidth", "_distutils_hack", "sitecustomize"}
"""prompt_toolkit and its dependencies; the last two are added by an installed setuptools and by the
Python of Debian."""


def loaded_at_the_prompt(folder: Path, before: str = "") -> set[str]:
    """Return third-party packages loaded at the prompt; `before` runs ahead of KogniTerm."""
    program, notes = folder / "watch.py", folder / "notes.json"
    program.write_text(before + WATCH, encoding="utf-8")
    environ = {
        "HOME": str(folder),
        "PATH": os.environ["PATH"],
        "TMPDIR": os.environ["TMPDIR"],
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
    }
    child = pexpect.spawn(
        sys.executable,
        [str(program), str(notes)],
        env=environ,
        cwd=str(folder),
        dimensions=(30, 100),
        timeout=120,
    )
    child.expect(pexpect.EOF)
    assert child.wait() == 0, child.before
    child.close()
    return set(json.loads(notes.read_text()))


def test_the_prompt_is_drawn_with_prompt_toolkit_alone(tmp_path: Path) -> None:
    loaded = loaded_at_the_prompt(tmp_path)
    assert "prompt_toolkit" in loaded
    assert loaded <= ALLOWED


def test_a_heavier_start_would_be_seen(tmp_path: Path) -> None:
    assert "rich" in loaded_at_the_prompt(tmp_path, "import rich\n")


def test_a_session_loads_no_more_than_it_uses(tmp_path: Path) -> None:
    """It draws nothing off a terminal, and of the local model only its face is loaded."""
    script = tmp_path / "hello.yaml"
    script.write_text("replies: [{text: Hello.}]")
    program = """
import sys
from kogniterm.__main__ import main
status = main()
loaded = [name for name in sys.modules if name.startswith("kogniterm.addons.local_model.")]
print({name.rpartition(".")[2] for name in loaded} - {"embedding"})
print({"kogniterm.approval.analysis.analyser", "kogniterm.ui.screen.renderer"} & set(sys.modules))
sys.exit(status)
"""
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    done = subprocess.run(
        [sys.executable, "-c", program, "run", "--model", f"scripted:{script}", "hi"],
        env=environ,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "Hello.\nset()\nset()\n"
