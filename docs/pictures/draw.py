"""Draw the README's pictures from a real run in tmux: `python docs/pictures/draw.py`.

The prompt runs the commands of plan.yaml for real, in a scratch folder; what the terminal
shows is captured with its colours and exported as SVG.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

HERE = Path(__file__).resolve().parent
WIDTH, HEIGHT = 100, 34
PATIENCE = 60.0


class Terminal:
    """A tmux session that takes keys and shows its screen."""

    def __init__(self, name: str, command: str) -> None:
        self.name = name
        size = ["-x", str(WIDTH), "-y", str(HEIGHT)]
        subprocess.run(["tmux", "new-session", "-d", "-s", name, *size, command], check=True)

    def keys(self, *keys: str) -> None:
        subprocess.run(["tmux", "send-keys", "-t", self.name, *keys], check=True)

    def screen(self) -> str:
        capture = ["tmux", "capture-pane", "-t", self.name, "-p", "-e"]
        return subprocess.run(capture, check=True, capture_output=True, text=True).stdout

    def until(self, words: str) -> str:
        deadline = time.monotonic() + PATIENCE
        while words not in Text.from_ansi(self.screen()).plain:
            if time.monotonic() > deadline:
                raise SystemExit(f"{words!r} did not appear on the screen:\n{self.screen()}")
            time.sleep(0.1)
        return self.screen()

    def answer(self, question: str) -> str:
        """Wait for a question, pause as a user who reads it, and approve it."""
        self.until(question)
        screen = self.until("[y] ")
        time.sleep(1.0)  # a key answers only after half a second without keys
        self.keys("y")
        return screen

    def close(self) -> None:
        subprocess.run(["tmux", "kill-session", "-t", self.name], check=False)


def save(screen: str, name: str) -> None:
    """Export a captured screen as docs/pictures/NAME.svg."""
    console = Console(record=True, width=WIDTH, file=open(os.devnull, "w"), force_terminal=True)  # noqa: SIM115, PTH123 - lives as long as the program
    console.print(Text.from_ansi(screen.rstrip()))
    svg = console.export_svg(title="kogniterm", theme=MONOKAI, unique_id=f"kogniterm-{name}")
    (HERE / f"{name}.svg").write_text(svg, encoding="utf-8")


def draw(scratch: Path) -> None:
    """Run the demonstration in `scratch`, capture the terminal, and draw the pictures."""
    home = scratch / "ana"
    work = home / "shop"
    work.mkdir(parents=True)
    shutil.copy(HERE / "plan.yaml", home / "demo")
    for file in HERE.glob("*.py.txt"):
        (work / file.name.removesuffix(".txt")).write_text(file.read_text())
    program = Path(sys.executable).with_name("kogniterm")
    folders = " ".join(f"KOGNITERM_{k}_DIR={scratch}/{k}" for k in ("CONFIG", "DATA", "CACHE"))
    terminal = Terminal(
        f"kogniterm-picture-{os.getpid()}",
        f"cd {work} && env {folders} HOME={home} COLORFGBG='15;0' COLORTERM=truecolor "
        f"{program} --model scripted:../demo --lang en",
    )
    try:
        terminal.until("/help")
        terminal.keys("the tests fail; find out why and fix it", "Enter")
        terminal.answer("Start this plan?")
        save(terminal.answer("Run the test suite"), "approval")
        terminal.answer("edit /")
        terminal.answer("Check s3")
        save(terminal.until("restores it"), "answer")
    finally:
        terminal.close()


def main() -> None:
    """Draw the pictures in a scratch folder with a short name, which is seen in them."""
    scratch = Path(tempfile.gettempdir(), "demo")
    scratch.mkdir()
    try:
        draw(scratch)
    finally:
        shutil.rmtree(scratch)


if __name__ == "__main__":
    main()
