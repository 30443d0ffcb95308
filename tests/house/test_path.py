"""The path of a turn: the modules that one scripted turn with a command enters.

`path.txt` holds them. The list changes only on purpose: a module more on it is a module more that
a reader has to follow, from the input to the answer. What runs the command on the executor's own
threads is left out, because how much of it is entered depends on the machine's load.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PATH = Path(__file__).with_name("path.txt")
UPDATE = bool(os.environ.get("UPDATE_PATH"))
FUNCTION = 0x1  # CO_OPTIMIZED: functions have it, bodies of modules and classes do not
TURN = """
import asyncio, sys
from kogniterm.approval import Unattended
from kogniterm.runtime import build
from kogniterm.settings import environment, load
from kogniterm.types import UserInput

entered = set()

def enter(frame, event, argument):
    code, name = frame.f_code, frame.f_globals.get("__name__", "")
    function = code.co_flags & FUNCTION and not code.co_name.startswith("<")
    if event == "call" and function and name.startswith("kogniterm."):
        entered.add(name)

async def turn():
    flags = {"model": "scripted:" + sys.argv[1], "sandbox": "off"}
    settings = load(flags, environ=environment())
    build.preload()
    session = build.open_session(settings, folder=".")
    session.use_mode("auto")
    sys.setprofile(enter)
    approver = Unattended()
    answer = await session.run(UserInput("go"), approver=approver, sink=lambda event: None)
    sys.setprofile(None)
    await session.finish()
    session.close()
    return answer

answer = asyncio.run(turn())
assert answer.text == "Done.", answer
print("\\n".join(sorted(entered)))
"""


def entered_by_a_turn(folder: Path) -> list[str]:
    """Return the modules of a turn with one command, from the input to the answer."""
    script = folder / "script.yaml"
    script.write_text("replies: [{run: echo one, purpose: Look}, {text: Done.}]", encoding="utf-8")
    environ = {"HOME": str(folder), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    environ |= {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", TURN.replace("FUNCTION", str(FUNCTION)), str(script)],
        env=environ,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_the_path_of_a_turn_changes_on_purpose_only(tmp_path: Path) -> None:
    entered = entered_by_a_turn(tmp_path)
    if UPDATE:
        PATH.write_text("\n".join(entered) + "\n", encoding="utf-8")
    stored = PATH.read_text(encoding="utf-8").split()
    more, fewer = set(entered) - set(stored), set(stored) - set(entered)
    assert (more, fewer) == (set(), set()), "run it with UPDATE_PATH=1 if that is meant"
