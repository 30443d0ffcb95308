"""A user who types commands and answers questions in this process, at a pseudo-terminal."""

from __future__ import annotations

import io
import os
import pty
import signal
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import pytest

from kogniterm.cli.main import main
from kogniterm.ui.locale import use_language
from kogniterm.ui.questions.answer_keys import KeyTimes
from kogniterm.ui.terminal import user_terminal


class Screen(io.StringIO):
    """Everything that is shown; it answers each question as soon as the question stands there.

    `answers` are pairs of the text of a question and of the keys that the user presses then.
    """

    def __init__(self, keyboard: int, number: int) -> None:
        super().__init__()
        self._keyboard, self._number = keyboard, number
        self._seen = 0
        self.answers: list[tuple[str, str]] = []

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._number

    def write(self, text: str) -> int:
        super().write(text)
        told = self.getvalue()
        # A question leaves the cursor behind its text.
        if self.answers and not told.endswith("\n") and self.answers[0][0] in told[self._seen :]:
            self._seen = len(told)
            os.write(self._keyboard, self.answers.pop(0)[1].encode())
        return len(text)


class Typist:
    """A user with a home and a project, at a terminal of their own."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.home, self.project = root / "home", root / "project"
        self.config = self.home / "config"
        self.config.mkdir(parents=True)
        self.project.mkdir()
        self._keyboard, self._terminal = pty.openpty()
        termios.tcsetwinsize(self._terminal, (40, 200))
        self._stdin = os.fdopen(self._terminal, encoding="utf-8")
        self.shown = ""
        for name, value in {
            "HOME": self.home,
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "KOGNITERM_CONFIG_DIR": self.config,
            "KOGNITERM_DATA_DIR": self.home / "data",
            "KOGNITERM_CACHE_DIR": self.home / "cache",
        }.items():
            monkeypatch.setenv(name, str(value))
        monkeypatch.chdir(self.project)

    def type(
        self,
        *words: str,
        answers: list[tuple[str, str]] | None = None,
        stdin: Path | None = None,
    ) -> int:
        """Run `kogniterm WORDS`, answer its questions; returns the exit status.

        With `stdin`, standard input is this file, and nobody is there to answer.
        """
        screen = Screen(self._keyboard, self._terminal)
        screen.answers = list(answers or ())
        with self._monkeypatch.context() as streams, self._input(stdin) as given:
            streams.setattr("sys.stdin", given)
            streams.setattr("sys.stdout", screen)
            streams.setattr("sys.stderr", screen)
            status = main(words)
        assert screen.answers == [], screen.getvalue()
        self.shown = screen.getvalue()
        return status

    @contextmanager
    def _input(self, file: Path | None) -> Iterator[TextIO]:
        if file is None:
            yield self._stdin
            return
        with file.open(encoding="utf-8") as opened:
            yield opened

    @property
    def flat(self) -> str:
        """Text that was shown, without the breaks that the width makes."""
        return " ".join(self.shown.split())

    def script(self, text: str) -> str:
        """Return the name of a scripted model that answers as `text` says."""
        file = self.home / "script.yaml"
        file.write_text(text, encoding="utf-8")
        return f"scripted:{file}"

    def close(self) -> None:
        self._stdin.close()
        os.close(self._keyboard)


@contextmanager
def typing_here(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Typist]:
    """Yield a user below `root`; signals, language and log of this process stay as they were."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)
    before = {number: signal.getsignal(number) for number in numbers}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr("kogniterm.cli.streams_and_signals._received", [])
    monkeypatch.setattr("kogniterm.logs.set_up", lambda *_args, **_options: True)
    # Nothing is typed ahead of a question here, so that there is nothing to wait for.
    monkeypatch.setattr(user_terminal.typed_before, "__defaults__", (KeyTimes(0.0, 0.0),))
    typist = Typist(root, monkeypatch)
    try:
        yield typist
    finally:
        typist.close()
        use_language("en")
        for number, handler in before.items():
            signal.signal(number, handler)
