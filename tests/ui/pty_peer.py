"""The program on a real PTY, with the terminal's side played here: it draws, answers, resizes
and hangs up as a terminal does."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pyte

PATIENCE_SECONDS = 60


class PtyPeer:
    """KogniTerm with `arguments` on a PTY; `answers` are (what it asks, what we say to it)."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        rows: int = 24,
        columns: int = 80,
        answers: tuple[tuple[bytes, tuple[bytes, ...]], ...] = (),
        environment: Mapping[str, str] | None = None,
        program: tuple[str, ...] = ("-m", "kogniterm"),
    ) -> None:
        self.raw = b""
        self.answered: list[bytes] = []
        self._answers = answers
        self._screen = pyte.HistoryScreen(columns, rows, history=5000)
        self._stream = pyte.ByteStream(self._screen)
        given = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8"}
        given |= {"TERM": "xterm-256color", **(environment or {})}
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execve(sys.executable, [sys.executable, *program, *arguments], given)
        self.resize(rows, columns)
        self.status: int | None = None

    def resize(self, rows: int, columns: int) -> None:
        """Give the window another size; the program gets SIGWINCH."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._screen.resize(rows, columns)

    def send(self, keys: str | bytes) -> None:
        """Type, or say what a terminal says."""
        os.write(self.master, keys.encode() if isinstance(keys, str) else keys)

    def until(self, test: Callable[[], bool] | str) -> None:
        """Read until `test` holds, or until the text stands on the screen or above it."""
        check = (lambda: test in self.text) if isinstance(test, str) else test
        end = time.monotonic() + PATIENCE_SECONDS
        while not check():
            if time.monotonic() > end or not self._read():
                raise AssertionError(f"never: {test}\n{self.text}")

    def ended(self) -> int:
        """Read to the program's end; its exit status, negative for a signal."""
        while self._read():
            pass
        return self.wait()

    def wait(self) -> int:
        """Wait for the program's end; its exit status, negative for a signal."""
        if self.status is None:
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.status

    def hang_up(self) -> None:
        """Close the terminal's side, as a closed window does."""
        os.close(self.master)
        self.master = -1

    def close(self) -> None:
        """Leave nothing behind."""
        if self.status is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self.wait()
        if self.master >= 0:
            self.hang_up()

    @property
    def shown(self) -> list[str]:
        """The screen's lines, without trailing blanks."""
        lines = [line.rstrip() for line in self._screen.display]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    @property
    def text(self) -> str:
        """Scrollback and screen."""
        width = self._screen.columns
        top = [
            "".join(line[column].data for column in range(width)).rstrip()
            for line in self._screen.history.top
        ]
        return "\n".join([*top, *self.shown])

    def colours_of(self, text: str) -> set[str]:
        """The foreground colours in which `text` stands on the screen the last time."""
        for row, line in reversed(list(enumerate(self._screen.display))):
            start = line.find(text)
            if start >= 0:
                cells = self._screen.buffer[row]
                return {cells[start + offset].fg for offset in range(len(text))}
        return set()

    def _read(self) -> bool:
        """Take what is there, waiting a moment for it; False at the end."""
        ready, _, _ = select.select([self.master], [], [], 0.2)
        if not ready:
            return True
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        if not data:
            return False
        self.raw += data
        # pyte does not know these, which a terminal swallows without a trace.
        self._stream.feed(data.replace(b"\x1b[>", b"\x1b[?").replace(b"\x1b[ q", b""))
        for question, pieces in self._answers:
            if question in self.raw and question not in self.answered:
                self.answered.append(question)
                for piece in pieces:
                    self.send(piece)
        return True


@contextmanager
def peer(folder: Path, *arguments: str, **more: object) -> Iterator[PtyPeer]:
    """A peer that is closed at the end."""
    opened = PtyPeer(folder, *arguments, **more)  # type: ignore[arg-type]  # as they came
    try:
        yield opened
    finally:
        opened.close()
