"""The main flow in a real terminal, as text: what a person sees at each width and language.

`UPDATE_SCREENS=1 pytest tests/ui/test_screens.py` writes the captures anew.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[1] / "data" / "screens"
UPDATE = bool(os.environ.get("UPDATE_SCREENS"))
PATIENCE_SECONDS = 90
PROMPT = "· ~/project\n"
"""The end of the line below the prompt: keys pressed from here on are the prompt's."""

pytestmark = [
    pytest.mark.tmux,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]


class Tmux:
    """One tmux server with one window that runs the prompt."""

    def __init__(self, columns: int, rows: int, *arguments: str, **environment: str) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="kt-", dir="/tmp"))
        self.project = self.home / "project"
        (self.project / "draft").mkdir(parents=True)
        (self.project / "notes.txt").write_text("one two three four five\n")
        (self.project / "draft" / "a.txt").write_text("x\n")
        shutil.copy(DATA / "demo.yaml", self.project)
        self._socket = f"kogniterm-{uuid.uuid4().hex}"
        given = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8"}
        given |= {"TERM": "tmux-256color"} | environment
        words = [f"{name}={value}" for name, value in given.items()]
        program = [sys.executable, "-m", "kogniterm", *arguments]
        self._tmux(
            "-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows),
            "-c", str(self.project), "env", "-i", *words, *program,
        )  # fmt: skip
        self._tmux("set-option", "-g", "remain-on-exit", "on")

    def keys(self, *keys: str) -> None:
        """Press keys, by tmux's names, or type text."""
        self._tmux("send-keys", *keys)

    def capture(self, *options: str) -> str:
        """Scrollback and screen, with what differs between runs made alike."""
        text = self._tmux("capture-pane", "-p", "-S", "-", *options)
        lines = [line.rstrip() for line in text.replace(self.home.name, "kt-home").split("\n")]
        text = "\n".join(lines).strip("\n") + "\n"
        text = re.sub(r"· [0-9a-f]{8} ·", "· 00000000 ·", text)
        text = re.sub(r"\(\d+-\d+, exit", "(0-0, exit", text)
        return without_figures(text)

    def until(self, words: str, *, at_the_end: bool = False) -> str:
        """Wait until `words` are there, below everything else if so wanted; the capture."""
        end = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < end:
            text = self.capture()
            if text.endswith(words) if at_the_end else words in text:
                return text
            time.sleep(0.05)
        raise AssertionError(f"never: {words}\n{self.capture()}")

    def settled(self) -> str:
        """The capture once it has stayed the same for a second: for making golden captures."""
        text, since = self.capture(), time.monotonic()
        while time.monotonic() - since < 1:
            time.sleep(0.05)
            now = self.capture()
            if now != text:
                text, since = now, time.monotonic()
        return text

    def status(self) -> int:
        """Wait for the program's end; its exit status."""
        end = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < end:
            dead, status = self._tmux(
                "display-message", "-p", "#{pane_dead} #{pane_dead_status}"
            ).split(" ")
            if dead == "1" and status.strip():
                return int(status)
            if dead == "1":
                # tmux may have missed the end of its child; it looks again when another ends.
                self._tmux("run-shell", "true")
            time.sleep(0.05)
        raise AssertionError(f"still running\n{self.capture()}")

    def close(self) -> None:
        """End the server and what runs in it."""
        self._tmux("kill-server")
        shutil.rmtree(self.home, ignore_errors=True)

    def _tmux(self, *arguments: str) -> str:
        done = subprocess.run(
            ["tmux", "-L", self._socket, *arguments],
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        )
        return done.stdout


def without_figures(text: str) -> str:
    """`text` without times, and without tokens: they count every word of prompts and tools."""
    text = re.sub(
        r"\b\d+([.,]\d)?k\b|\b\d+(?= tokens)", lambda found: re.sub(r"\d", "0", found[0]), text
    )
    return re.sub(r"\b\d+(\.\d)? s\b", "0.0 s", text)


@pytest.fixture
def terminals() -> Iterator[list[Tmux]]:
    opened: list[Tmux] = []
    yield opened
    for terminal in opened:
        terminal.close()


def same(terminal: Tmux, name: str, words: str) -> None:
    """Wait until the capture equals the golden one called `name`, which ends with `words`.

    A program draws in more than one step: only the last one is compared.
    """
    file = DATA / f"{name}.txt"
    text = terminal.until(words)
    if UPDATE:
        text = terminal.settled()
        file.write_text(text, encoding="utf-8")
    golden = file.read_text(encoding="utf-8")
    end = time.monotonic() + PATIENCE_SECONDS
    while text != golden and time.monotonic() < end:
        time.sleep(0.05)
        text = terminal.capture()
    assert text == golden


@pytest.mark.parametrize(
    ("name", "columns", "words", "environment"),
    [
        ("en-60", 60, ("[y] work on it", "[y] approve", "tokens in"), {}),
        ("en-80", 80, ("[y] work on it", "[y] approve", "tokens in"), {}),
        ("en-160", 160, ("[y] work on it", "[y] approve", "tokens in"), {}),
        (
            "es-60",
            60,
            ("[y] seguirlo", "[y] aprobar", "tokens de entrada"),
            {"LANG": "es_ES.UTF-8"},
        ),
        (
            "es-80",
            80,
            ("[y] seguirlo", "[y] aprobar", "tokens de entrada"),
            {"LANG": "es_ES.UTF-8"},
        ),
        ("en-80-no-color", 80, ("[y] work on it", "[y] approve", "tokens in"), {"NO_COLOR": "1"}),
        ("en-80-dumb", 80, ("Your decision", "[y = yes", "tokens in"), {"TERM": "dumb"}),
        ("en-80-light", 80, ("[y] work on it", "[y] approve", "tokens in"), {"COLORFGBG": "0;15"}),
    ],
)
def test_the_main_flow(
    terminals: list[Tmux],
    name: str,
    columns: int,
    words: tuple[str, str, str],
    environment: dict[str, str],
) -> None:
    plan, question, end = words
    enter = ("Enter",) if name.endswith("dumb") else ()
    terminal = Tmux(
        columns, 40, "--no-sandbox", "--memory", "off",
        "--model", "scripted:demo.yaml", **environment,
    )  # fmt: skip
    terminals.append(terminal)
    terminal.until("scripted:")
    terminal.keys("How long are my notes?", "Enter")
    same(terminal, f"{name}-plan", plan)
    terminal.keys("y", *enter)
    terminal.until(question)
    terminal.keys("y", *enter)
    terminal.until("rm -r draft")
    same(terminal, f"{name}-question", question)
    terminal.keys("y", *enter)
    same(terminal, f"{name}-answer", end)
    if name == "en-80-no-color":
        assert not re.search(r"\x1b\[[0-9;]*(3[0-7]|9[0-7]|38)", terminal.capture("-e"))
    if name == "en-80":
        assert re.search(r"\x1b\[[0-9;]*3[0-7]", terminal.capture("-e"))


def test_ctrl_c_stops_a_real_command_and_the_session_goes_on(terminals: list[Tmux]) -> None:
    terminal = Tmux(80, 30, "--no-sandbox", "--memory", "off", "--model", "scripted:demo.yaml")
    terminals.append(terminal)
    terminal.until("scripted:")
    terminal.keys("!sleep 987", "Enter")
    # The command's own from here on: nothing stands below it.
    terminal.until("› !sleep 987\n", at_the_end=True)
    terminal.keys("C-c")
    terminal.until("\n╰ ✗ ended by SIGINT · 0.0 s\n")
    terminal.until(PROMPT, at_the_end=True)
    terminal.keys("!echo still $((40 + 2)) here", "Enter")
    terminal.until("here\nstill 42 here\n")
    terminal.until(PROMPT, at_the_end=True)
    terminal.keys("C-d")
    assert terminal.status() == 0


def test_what_is_typed_while_a_command_runs_is_read_by_it_or_by_the_prompt(
    terminals: list[Tmux],
) -> None:
    terminal = Tmux(80, 30, "--no-sandbox", "--memory", "off", "--model", "scripted:demo.yaml")
    terminals.append(terminal)
    terminal.until("scripted:")
    terminal.keys("!read -r line; echo got $line; until [ -e go ]; do sleep 0.1; done", "Enter")
    terminal.until("done\n", at_the_end=True)
    terminal.keys("mine", "Enter")
    terminal.until("got mine\n", at_the_end=True)
    terminal.keys("!echo typed $((1 + 1)) ahead", "Enter", "half a")
    terminal.until("half a\n", at_the_end=True)
    (terminal.project / "go").touch()
    terminal.until("\ntyped 2 ahead\n╰ ✓ exit 0")
    terminal.until("› half a\n")


def test_a_command_of_the_model_that_reads_the_keyboard_gets_it(terminals: list[Tmux]) -> None:
    terminal = Tmux(60, 24, "--no-sandbox", "--memory", "off", "--model", "scripted:hand.yaml")
    terminals.append(terminal)
    asks = "import readline; n = input(chr(78) + 'ame: '); print('hello ' + n); input(chr(62))"
    run = f'echo before; {sys.executable} -c "{asks}"'
    script = {"replies": [{"run": run, "purpose": "ask"}, "Fine."]}
    (terminal.project / "hand.yaml").write_text(json.dumps(script))
    terminal.until("scripted:")
    terminal.keys("go", "Enter")
    terminal.until("[y] approve")
    terminal.keys("y")
    shown = terminal.until("\nName:")
    assert "│ before\n" in shown
    assert "Ctrl-]" in shown
    terminal.keys("ana", "Enter")
    # The line editor gave the terminal back its old modes; lines must start at the left.
    terminal.until("Name: ana\nhello ana\n>")
    terminal.keys("Enter")
    terminal.until("\n╰ ✓ exit 0")
    terminal.until("\nFine.")
