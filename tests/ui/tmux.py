"""The program in a real terminal: a tmux server of its own, its keys and what it shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.support.programs import needs

DATA = Path(__file__).resolve().parents[1] / "data" / "screens"
UPDATE = bool(os.environ.get("UPDATE_SCREENS"))
"""Write the golden captures anew instead of comparing with them."""
PATIENCE_SECONDS = 240
"""A guard against hanging, not a measure: every wait ends with what it waits for."""

_GUARD = 'read -r _; tmux -S "$0" kill-server; rm -rf "$1"'
"""Waits until its input ends, by `close` or with the process of the test, however that ends."""

NEEDS_TMUX = needs("tmux")


class Tmux:
    """One tmux server with one window that runs the prompt in a project with `files`."""

    def __init__(
        self,
        columns: int,
        rows: int,
        *arguments: str,
        files: Mapping[str, str] | None = None,
        **environment: str,
    ) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="kt-", dir="/tmp"))
        self.project = self.home / "project"
        (self.project / "draft").mkdir(parents=True)
        (self.project / "notes.txt").write_text("one two three four five\n")
        (self.project / "draft" / "a.txt").write_text("x\n")
        shutil.copy(DATA / "demo.yaml", self.project)
        for name, content in (files or {}).items():
            (self.project / name).write_text(content)
        self._socket = str(self.home / "tmux")
        self._guard = subprocess.Popen(
            ["sh", "-c", _GUARD, self._socket, str(self.home)],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # what ends the tests from a terminal leaves it alone
        )
        given = {name: os.environ[name] for name in ("PATH", "TMPDIR", "LANG")}
        given |= {"HOME": str(self.home)}
        given |= {"TERM": "tmux-256color"} | environment
        self._plain = given["TERM"] == "dumb"
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

    def painted(self) -> str:
        """The screen, styles included, as tmux words them."""
        return self._tmux("capture-pane", "-e", "-p")

    def until(self, words: str, *, at_the_end: bool = False) -> str:
        """Wait until `words` are there, below everything else if so wanted; the capture."""
        end = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < end:
            text = self.capture()
            if text.endswith(words) if at_the_end else words in text:
                return text
            time.sleep(0.05)
        raise AssertionError(f"never: {words}\n{self.capture()}")

    def ready(self) -> None:
        """Wait for the first prompt: keys pressed from here on are its own.

        The toolbar, which names the model, is drawn with it. Where lines are all there is, the
        prompt is what was written last.
        """
        self.until("scripted:")
        if self._plain:
            self.until("\n>\n", at_the_end=True)

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
        self._guard.communicate()

    def _tmux(self, *arguments: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", self._socket, *arguments],
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE_SECONDS,
        )
        return done.stdout


def without_figures(text: str) -> str:
    """`text` without times, and without tokens: they count every word of prompts and tools."""
    text = re.sub(
        r"\b\d+([.,]\d)?k\b|\b\d+(?= tokens)", lambda found: re.sub(r"\d", "0", found[0]), text
    )
    return re.sub(r"\b(\d+ min )?\d+(\.\d)? s\b", "0.0 s", text)


def same(terminal: Tmux, file: Path, words: str, looks: Callable[[], str]) -> None:
    """Wait until the screen has `words` and, as `looks` gives it, is the golden one in `file`.

    A program draws in more than one step: only the last one is compared.
    """
    terminal.until(words)
    if UPDATE:
        file.write_text(_settled(looks), encoding="utf-8")
    golden = file.read_text(encoding="utf-8")
    end = time.monotonic() + PATIENCE_SECONDS
    while (text := looks()) != golden and time.monotonic() < end:
        time.sleep(0.05)
    assert text == golden, f"not as in {file.name}:\n{text}"


def _settled(looks: Callable[[], str]) -> str:
    """The screen once it has stayed the same for a second."""
    text, since = looks(), time.monotonic()
    while time.monotonic() - since < 1:
        time.sleep(0.05)
        now = looks()
        if now != text:
            text, since = now, time.monotonic()
    return text
