"""The program on a real PTY, with the terminal's side played here.

It draws, answers, resizes and hangs up as a terminal does.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from tests.support.forge import Forge
from tests.support.picture import Picture
from tests.support.real_terminal import LOOKING_SECONDS

PATIENCE_SECONDS = 240
"""A guard against hanging, not a measure: every wait ends with what it waits for."""


class PtyPeer:
    """KogniTerm with `arguments` on a PTY; `answers` are pairs of a query and the reply to it.

    With `program` Python runs that instead, started as a user's shell starts it.
    """

    def __init__(
        self,
        forge: Forge,
        folder: Path,
        *arguments: str,
        rows: int = 24,
        columns: int = 80,
        answers: tuple[tuple[bytes, tuple[bytes, ...]], ...] = (),
        environment: Mapping[str, str] | None = None,
        program: tuple[str, ...] = (),
    ) -> None:
        self.raw = b""
        self.answered: list[bytes] = []
        self.status: int | None = None
        self._answers = answers
        self._picture = Picture(rows, columns)
        given = {name: os.environ[name] for name in ("PATH", "TMPDIR", "LANG")}
        given |= {"HOME": str(folder), "KOGNITERM_WARM": "off"}
        given |= {"TERM": "xterm-256color", **(environment or {})}
        self.master, terminal = pty.openpty()
        try:
            self.resize(rows, columns)
            if program:
                started = _as_a_shell_would(terminal, (*program, *arguments), given, folder)
                self.pid, self._wait = started.pid, started.wait
            else:
                name = Path(os.ttyname(terminal))
                forged = forge.start_on(name, arguments, environ=given, folder=folder)
                self.pid, self._wait = forged.pid, forged.wait
        finally:
            os.close(terminal)

    def resize(self, rows: int, columns: int) -> None:
        """Give the window another size; the program gets SIGWINCH."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._picture.resize(rows, columns)

    def send(self, keys: str | bytes) -> None:
        """Type keys, or send a terminal's report."""
        os.write(self.master, keys.encode() if isinstance(keys, str) else keys)

    def look(self) -> None:
        """Look at a question for as long as it needs before it takes a key."""
        end = time.monotonic() + LOOKING_SECONDS[False]
        while time.monotonic() < end and self.read():
            pass

    def until(self, test: Callable[[], bool] | str) -> None:
        """Read until `test` holds, or until the text stands on the screen or above it."""
        check = (lambda: test in self.text) if isinstance(test, str) else test
        end = time.monotonic() + PATIENCE_SECONDS
        while not check():
            if time.monotonic() > end or not self.read():
                raise AssertionError(f"never: {test}\n{self.text}")

    def ended(self) -> int:
        """Read to the program's end; return its exit status, negative for a signal."""
        end = time.monotonic() + PATIENCE_SECONDS
        while self.read():
            assert time.monotonic() < end, f"it did not end\n{self.text}"
        return self.wait()

    def wait(self) -> int:
        """Wait for the program's end; return its exit status, negative for a signal."""
        if self.status is None:
            self.status = self._wait()
        return self.status

    def hang_up(self) -> None:
        """Close the terminal's side, as a closed window does."""
        os.close(self.master)
        self.master = -1

    def close(self) -> None:
        """End the program and close the terminal."""
        if self.status is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self.wait()
        if self.master >= 0:
            self.hang_up()

    @property
    def shown(self) -> list[str]:
        """The screen's lines, without trailing blanks."""
        return self._picture.lines

    @property
    def text(self) -> str:
        """The scrollback and the screen."""
        return self._picture.text

    @property
    def painted(self) -> str:
        """The screen with its styles, as sent to terminals."""
        return self._picture.painted()

    def colours_of(self, text: str) -> set[str]:
        """Return the foreground colours of the last occurrence of `text` on the screen."""
        return self._picture.colours_of(text)

    def read(self) -> bool:
        """Read the available bytes, waiting a moment; return False at the end."""
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
        self._picture.feed(data)
        for question, pieces in self._answers:
            if question in self.raw and question not in self.answered:
                self.answered.append(question)
                for piece in pieces:
                    self.send(piece)
        return True


def _as_a_shell_would(
    terminal: int, words: tuple[str, ...], environment: Mapping[str, str], folder: Path
) -> subprocess.Popen[bytes]:
    """Start Python with `words`, leading its own session on `terminal`."""
    return subprocess.Popen(
        [sys.executable, *words],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=environment,
        cwd=folder,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509  # one ioctl
    )


OpenPeer = Callable[..., AbstractContextManager[PtyPeer]]
"""Opens a `PtyPeer` that is closed at the end; takes the same arguments, except the forge."""
