"""Count approvals, keys and seconds of ten everyday tasks in each mode, and attack the questions.

    python -m benchmarks.keyboard [--program kogniterm] [--alone] [--only tasks|words]

A user at a real terminal gives a scripted model ten tasks, in a small Python library with a git
repository and pytest, and answers each question as soon as its keys are shown. Printed are the
questions, the keys that answered them, and the seconds from a question to its answer. Then words
are typed at five speeds, as drafts and as pastes, before and while a question appears; the script
fails if any of them approves.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from tests.support.picture import Picture

PATIENCE = 60.0
SPEEDS = (0.04, 0.08, 0.15, 0.22, 0.3)
"""Seconds from key to key."""
WORDS = ("yes it is", "by", "ya", "why do you want this?", "y y y", "y\x7f", "y\x15")
PASTES = ("y\r", "y\n", "yes\r\r", "\x1b[200~y\r\x1b[201~")
_KEYS = "[y] approve"
_KEYS_SHOWN = re.compile(r"\[[y1]\] ")
_STOPPED = "The turn was stopped."

LIBRARY = {
    "src/sizes.py": 'def naturalsize(n):\n    """Return n as a size."""\n    return f"{n} B"\n\n\n'
    'def filesize(n):\n    """Size."""\n    return naturalsize(n)\n',
    "src/number.py": "def intcomma(n):\n    return f'{n:,}'\n",
    "tests/test_filesize.py": "def test_size():\n    assert True\n",
    "tests/test_number.py": "def test_intcomma():\n    assert True\n",
}


def _run(command: str) -> dict[str, object]:
    return {"tool": "execute_command", "arguments": {"command": command, "purpose": "As asked"}}


def _call(tool: str, **arguments: object) -> dict[str, object]:
    return {"tool": tool, "arguments": arguments}


TASKS: tuple[tuple[str, list[dict[str, object]]], ...] = (
    ("What does naturalsize do?", [_call("read_file", path="src/sizes.py")]),
    ("Show git status", [_run("git status --short && git log --oneline -3")]),
    (
        "How many lines of Python are here?",
        [_run("find src -name '*.py' | xargs wc -l | tail -1")],
    ),
    (
        "Reword the docstring of filesize",
        [_call("edit_file", path="src/sizes.py", old='"""Size."""', new='"""Return a size."""')],
    ),
    ("Run all tests", [_run("python3 -m pytest -q tests")]),
    ("Run one test of size", [_run("python3 -m pytest -q tests/test_filesize.py -k size")]),
    ("Write NOTES.md", [_call("write_file", path="NOTES.md", content="Notes.\n")]),
    ("Commit it", [_run("git add -A && git commit -q -m 'Reword'")]),
    (
        "Where is intcomma used?",
        [
            _call("search_text", pattern="intcomma", path="src"),
            _run("grep -rn intcomma tests | head -5"),
        ],
    ),
    ("Run the number tests again", [_run("python3 -m pytest -q tests/test_number.py")]),
)
MODES = {
    "ask": [],
    "ask, read-only without asking": ["--allow-reads"],
    "accept-edits, read-only without asking": ["--mode", "accept-edits", "--allow-reads"],
    "auto": ["--mode", "auto"],
}


class Figures(NamedTuple):
    """The questions of ten tasks, the keys that answered them, and the seconds these took."""

    questions: int
    keys: int
    seconds: float


class Terminal:
    """A prompt on a terminal of its own, and the user at it."""

    def __init__(self, program: str, place: Path, script: object, options: list[str]) -> None:
        home = place / "home"
        home.mkdir()
        self.folder = place / "project"
        self.folder.mkdir()
        for name, text in LIBRARY.items():
            file = self.folder / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "Begin"]):
            git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
            subprocess.run(git, cwd=self.folder, check=True)
        (home / ".gitconfig").write_text("[user]\nname = a\nemail = a@b\n")
        model = home / "model.json"
        model.write_text(json.dumps(script))
        argv = [*shlex.split(program), "--memory", "off", "--model", f"scripted:{model}", *options]
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        environ = kept | {"HOME": str(home), "TERM": "xterm-256color", "KOGNITERM_WARM": "off"}
        self._picture = Picture(40, 120)
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.chdir(self.folder)
            os.execvpe(argv[0], argv, environ)
        termios.tcsetwinsize(self.master, (40, 120))
        self.until(lambda: "Describe a task" in self.text and " · " in self.screen)

    @property
    def screen(self) -> str:
        """The lines on the screen."""
        return "\n".join(self._picture.lines)

    @property
    def text(self) -> str:
        """The scrollback and the screen."""
        return self._picture.text

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._read(left)

    def until(self, holds: Callable[[], bool]) -> None:
        """Draw what comes until something holds."""
        end = time.monotonic() + PATIENCE
        while not holds():
            if time.monotonic() > end:
                raise SystemExit(f"This did not come:\n{self.screen}")
            self._read(0.5)

    def close(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.master)

    def _read(self, seconds: float) -> None:
        if select.select([self.master], [], [], seconds)[0]:
            self._picture.feed(os.read(self.master, 65536))


def ten_tasks(program: str, options: list[str], place: Path, *, alone: bool) -> Figures:
    """Do the ten tasks. The first question about tests grants the others.

    Where keys are pressed `alone`, without Enter, nothing is granted.
    """
    replies: list[dict[str, object]] = []
    for task, calls in TASKS:
        replies += [{"when": {"last_contains": task}, "calls": [calls[0]]}]
        replies += [{"calls": [call]} for call in calls[1:]]
        replies += [{"text": f"Finished: {task}"}]
    terminal = Terminal(program, place, {"replies": replies, "at_end": "fail"}, options)
    questions = keys = 0
    seconds = 0.0
    try:
        for task, _calls in TASKS:
            ended = f"Finished: {task}"
            terminal.press(task)
            terminal.pause(0.6)  # typing ends, as it does while a model thinks
            terminal.press("\r")
            while True:
                terminal.until(lambda e=ended: _KEYS in terminal.screen or e in terminal.text)
                if _KEYS not in terminal.screen:
                    break
                began, asked = time.monotonic(), terminal.screen.rpartition("?  ")[2]
                questions += 1
                presses = "a\r1\r" if "pytest" in asked else "y\r"
                for key in "y" if alone else presses:
                    terminal.until(lambda k=key: k == "\r" or f"[{k}]" in terminal.screen)
                    terminal.press(key)
                    terminal.pause(0.1)
                    keys += 1
                terminal.until(lambda: not _KEYS_SHOWN.search(terminal.screen))
                seconds += time.monotonic() - began
    finally:
        terminal.close()
    return Figures(questions, keys, seconds)


def attack(program: str, place: Path) -> int:
    """Type words, drafts and pastes at questions; return how many approved."""
    script = {
        "delays": True,
        "replies": [
            {"when": {"last_contains": "go"}, "delay": 0.4, "run": "touch ran", "repeat": "forever"}
        ],
    }
    terminal = Terminal(program, place, script, [])
    approved = tried = 0
    ran = terminal.folder / "ran"
    attacks = [(words, every) for every in SPEEDS for words in WORDS]
    attacks += [(paste, 0.0) for paste in PASTES]
    try:
        for words, every in attacks:
            for wait in (0.0, 0.35, 0.9):  # before the question, as it appears, on it
                stops = terminal.text.count(_STOPPED)
                terminal.press("go\r")
                terminal.pause(wait)
                pressed = []
                for key in words if every else [words]:
                    terminal.press(key)
                    pressed.append(time.monotonic())
                    terminal.pause(every)
                terminal.pause(1.2)
                tried += 1
                if ran.exists():
                    approved += 1
                    ran.unlink()
                    longest = max((b - a for a, b in pairwise(pressed)), default=0.0)
                    print(
                        f"approved by {words!r} at {every * 1000:.0f} ms "
                        f"(really up to {longest * 1000:.0f} ms), {wait} s after the task"
                    )
                for _ in range(40):
                    if terminal.text.count(_STOPPED) > stops:
                        break
                    terminal.press("\x03")
                    terminal.pause(0.3)
                terminal.press("\x03")
                terminal.pause(0.3)
    finally:
        terminal.close()
    print(f"{tried} attacks, {approved} approved")
    return approved


def main() -> int:
    """Parse the command line, measure, and attack."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=f"{sys.executable} -m kogniterm")
    parser.add_argument("--alone", action="store_true", help="press keys without Enter")
    parser.add_argument("--only", choices=("tasks", "words"))
    options = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="keyboard-", dir="/var/tmp"))
    approved = 0
    try:
        if options.only != "words":
            print("| mode | questions | keys | seconds |\n|---|---|---|---|")
            for number, (name, flags) in enumerate(MODES.items()):
                folder = place / str(number)
                folder.mkdir()
                found = ten_tasks(options.program, flags, folder, alone=options.alone)
                print(f"| {name} | {found.questions} | {found.keys} | {found.seconds:.1f} |")
        if options.only != "tasks":
            (place / "words").mkdir()
            approved = attack(options.program, place / "words")
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return 1 if approved else 0


if __name__ == "__main__":
    sys.exit(main())
