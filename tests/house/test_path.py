"""The path of a turn: the modules that one scripted turn with a command enters.

`path.txt` holds them. The list changes only on purpose: a module more on it is a module more that
a reader has to follow, from the input to the answer. What runs the command on the executor's own
threads is left out, because how much of it is entered depends on the machine's load. Of two calls
of the command line only the number of modules behind the parser is stored, and of a key at an
approval that of the modules up to the decision, but for those that draw; both may only fall.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from kogniterm.types import UserInput
from tests.ui.face import ASK, PlayedSession, report, request
from tests.ui.live import keyboard, live_repl

PATH = Path(__file__).with_name("path.txt")
UPDATE = bool(os.environ.get("UPDATE_PATH"))
FUNCTION = 0x1  # CO_OPTIMIZED: functions have it, bodies of modules and classes do not
ENTER = """
import sys

entered = set()

def enter(frame, event, argument):
    code, name = frame.f_code, frame.f_globals.get("__name__", "")
    function = code.co_flags & FUNCTION and not code.co_name.startswith("<")
    if event == "call" and function and name.startswith("kogniterm."):
        entered.add(name)
"""
TURN = """
import asyncio
from kogniterm.approval import Unattended
from kogniterm.runtime import build
from kogniterm.settings import environment, load
from kogniterm.types import UserInput

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


CALL = """
import contextlib, io
from kogniterm.cli import main, options

for words in sys.argv[1:-1]:
    main.dispatch(words.split())
words = sys.argv[-1].split()
verb = options.find(words[0])
call, arguments = options.read_call(main.build_parser(verb).parse_args(words))
perform = arguments.pop("perform")
with contextlib.redirect_stdout(io.StringIO()):
    sys.setprofile(enter)
    perform(call, **arguments)
    sys.setprofile(None)
print("MODULES", *sorted(entered))
"""
CALLS = {
    ("queue add one", "queue add two"): 30,
    ("memory add tea", "memory add rice", "memory forget m1 --yes", "memory forget m2 --yes"): 47,
}
"""Calls before one, that one, and the modules that it enters once everything is imported."""
KEY = 12
"""Modules that a key at an approval enters."""


def run_script(code: str, folder: Path, *words: str) -> str:
    """Return the output of a script that watches which modules are entered."""
    environ = {"HOME": str(folder), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    environ |= {"PYTHONPATH": str(Path(__file__).parents[2])}
    environ["TMPDIR"] = str(folder)  # `forget` looks at what other processes left beside its own
    done = subprocess.run(
        [sys.executable, "-c", (ENTER + code).replace("FUNCTION", str(FUNCTION)), *words],
        env=environ,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("calls", CALLS)
def test_a_call_of_the_command_line_enters_no_more_modules(
    calls: tuple[str, ...], tmp_path: Path
) -> None:
    entered = run_script(CALL, tmp_path, *calls).rpartition("MODULES ")[2].split()
    assert len(entered) <= CALLS[calls], entered


def test_the_path_of_a_turn_changes_on_purpose_only(tmp_path: Path) -> None:
    script = tmp_path / "script.yaml"
    script.write_text("replies: [{run: echo one, purpose: Look}, {text: Done.}]", encoding="utf-8")
    entered = run_script(TURN, tmp_path, str(script)).split()
    if UPDATE:
        PATH.write_text("\n".join(entered) + "\n", encoding="utf-8")
    stored = PATH.read_text(encoding="utf-8").split()
    more, fewer = set(entered) - set(stored), set(stored) - set(entered)
    assert (more, fewer) == (set(), set()), "run it with UPDATE_PATH=1 if that is meant"


async def test_a_key_at_an_approval_enters_no_more_modules() -> None:
    entered, drawing = set[str](), 0

    def enter(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal drawing
        code, name = frame.f_code, str(frame.f_globals.get("__name__"))
        if code.co_name == "_redraw":
            drawing += (event == "call") - (event == "return")
        function = code.co_flags & FUNCTION and not code.co_name.startswith("<")
        if event == "call" and function and name.startswith("kogniterm.") and not drawing:
            entered.add(name)

    async def play(
        session: PlayedSession, _input: UserInput | None, approver: Any, _sink: Any
    ) -> None:
        asked = request("rm -r build")
        session.decisions.append(await approver.decide(asked, report(asked.command), ASK))
        sys.setprofile(None)

    with keyboard() as keys:
        live, session = live_repl(keys, play)
        await live.until("/work/project")
        live.press("go\r")
        await live.until("Run this command?")
        await live.ready()
        sys.setprofile(enter)
        live.press("y")
        await live.until(lambda: bool(session.decisions))
        await live.leave()
    assert [one.kind for one in session.decisions] == ["approve"]
    assert len(entered) <= KEY, sorted(entered)
