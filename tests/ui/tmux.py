"""The program in its own terminal, its keys and its screen: in tmux if it is installed."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from tests.support.picture import Picture
from tests.support.programs import installed

DATA = Path(__file__).resolve().parents[1] / "data" / "screens"
UPDATE = bool(os.environ.get("UPDATE_SCREENS"))
"""Write new golden captures instead of comparing with them."""
PATIENCE_SECONDS = 240
"""A guard against hanging, not a measure: every wait ends with what it waits for."""

_GUARD = 'read -r _; tmux -S "$0" kill-server; rm -rf "$1"'
"""Waits until its input ends, by `close` or with the process of the test."""


class Window:
    """The prompt in its own terminal, in a project with `files`."""

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
        given = {name: os.environ[name] for name in ("PATH", "TMPDIR", "LANG")}
        given |= {"HOME": str(self.home), "TERM": "tmux-256color"} | environment
        self._plain = given["TERM"] == "dumb"
        words = [f"{name}={value}" for name, value in given.items()]
        program = ["env", "-i", *words, sys.executable, "-m", "kogniterm", *arguments]
        self._open(columns, rows, program)

    def _open(self, columns: int, rows: int, program: list[str]) -> None:
        """Run `program` in the project, in a terminal of this size."""
        raise NotImplementedError

    def keys(self, *keys: str) -> None:
        """Press keys, by tmux's names, or type text."""
        raise NotImplementedError

    def painted(self, *, whole: bool = False) -> str:
        """Return the screen with styles; with `whole` also the scrollback."""
        raise NotImplementedError

    def status(self) -> int:
        """Wait for the program's end; return its exit status."""
        raise NotImplementedError

    def close(self) -> None:
        """End the terminal and the programs in it."""
        raise NotImplementedError

    def _text(self) -> str:
        """Return the scrollback and the screen."""
        raise NotImplementedError

    def capture(self) -> str:
        """Return scrollback and screen, with values that differ between runs replaced."""
        text = self._text().replace(self.home.name, "kt-home")
        text = "\n".join(line.rstrip() for line in text.split("\n")).strip("\n") + "\n"
        text = re.sub(r"· [0-9a-f]{8} ·", "· 00000000 ·", text)
        return without_figures(text)

    def until(self, words: str, *, at_the_end: bool = False) -> str:
        """Wait until `words` are shown, with `at_the_end` as the last ones; return the capture."""
        end = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < end:
            text = self.capture()
            if text.endswith(words) if at_the_end else words in text:
                return text
            time.sleep(0.05)
        raise AssertionError(f"never: {words}\n{self.capture()}")

    def ready(self) -> None:
        """Wait for the first prompt, which takes the keys pressed from here on.

        The toolbar, which names the model, is drawn with it. Where lines are all there is, the
        prompt is what was written last.
        """
        self.until("scripted:")
        if self._plain:
            self.until("\n>\n", at_the_end=True)


class Tmux(Window):
    """One tmux server with one window."""

    def _open(self, columns: int, rows: int, program: list[str]) -> None:
        self._socket = str(self.home / "tmux")
        self._guard = subprocess.Popen(
            ["sh", "-c", _GUARD, self._socket, str(self.home)],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a signal to the tests' process group does not reach it
        )
        self._tmux(
            "-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows),
            "-c", str(self.project), *program,
        )  # fmt: skip
        self._tmux("set-option", "-g", "remain-on-exit", "on")

    def keys(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def painted(self, *, whole: bool = False) -> str:
        return self._tmux("capture-pane", "-e", "-p", *(("-S", "-") if whole else ()))

    def status(self) -> int:
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
        self._guard.communicate()

    def _text(self) -> str:
        return self._tmux("capture-pane", "-p", "-S", "-")

    def _tmux(self, *arguments: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", self._socket, *arguments],
            capture_output=True,
            text=True,
            check=True,
            timeout=PATIENCE_SECONDS,
        )
        return done.stdout


class Drawn(Window):
    """A pseudo-terminal that is drawn by a library, where tmux is not installed."""

    _KEYS: ClassVar[Mapping[str, str]] = {"Enter": "\r", "C-c": "\x03", "C-d": "\x04"}

    def _open(self, columns: int, rows: int, program: list[str]) -> None:
        self._picture = Picture(rows, columns)
        self._drawn: str | None = None
        self._status: int | None = None
        self._pid, self._master = pty.fork()
        if self._pid == 0:
            try:
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
                os.chdir(self.project)
                os.execvp(program[0], program)
            finally:
                os._exit(70)

    def keys(self, *keys: str) -> None:
        os.write(self._master, "".join(self._KEYS.get(key, key) for key in keys).encode())

    def painted(self, *, whole: bool = False) -> str:
        self._draw()
        return self._picture.painted(whole=whole)

    def status(self) -> int:
        end = time.monotonic() + PATIENCE_SECONDS
        while self._wait(os.WNOHANG) is None:
            assert time.monotonic() < end, f"still running\n{self.capture()}"
            self._draw()
            time.sleep(0.05)
        assert self._status is not None
        return os.waitstatus_to_exitcode(self._status)

    def close(self) -> None:
        os.close(self._master)
        self._wait()
        shutil.rmtree(self.home)

    def _wait(self, options: int = 0) -> int | None:
        """Return the wait status of the program, or None while it runs."""
        if self._status is None:
            pid, status = os.waitpid(self._pid, options)
            self._status = status if pid else None
        return self._status

    def _text(self) -> str:
        self._draw()
        if self._drawn is None:
            self._drawn = self._picture.text
        return self._drawn

    def _draw(self) -> None:
        """Read the output; report the cursor position when it is asked for, as a terminal does."""
        while select.select([self._master], [], [], 0)[0]:
            try:
                data = os.read(self._master, 65536)
            except OSError:  # the program has ended
                return
            self._drawn = None
            self._picture.feed(data)
            for _ in range(data.count(b"\x1b[6n")):
                os.write(self._master, b"\x1b[%d;1R" % max(1, len(self._picture.lines)))


def open_window(columns: int, rows: int, *arguments: str, **more: Any) -> Window:
    """Open a window of tmux, or one that is drawn here if tmux is missing."""
    kind = Tmux if installed("tmux") else Drawn
    return kind(columns, rows, *arguments, **more)


def without_figures(text: str) -> str:
    """Return `text` without times, and without token counts, which depend on prompts and tools."""
    text = re.sub(
        r"\b\d+([.,]\d)?k\b|\b\d+(?= tokens)", lambda found: re.sub(r"\d", "0", found[0]), text
    )
    return re.sub(r"\b(\d+ min )?\d+(\.\d)? s\b", "0.0 s", text)


def same(terminal: Window, file: Path, words: str, looks: Callable[[], str]) -> None:
    """Wait until the screen has `words` and, as `looks` gives it, equals the golden `file`.

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
    """Return the screen once it has stayed the same for a second."""
    text, since = looks(), time.monotonic()
    while time.monotonic() - since < 1:
        time.sleep(0.05)
        now = looks()
        if now != text:
            text, since = now, time.monotonic()
    return text
