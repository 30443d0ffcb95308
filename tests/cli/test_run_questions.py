"""`kogniterm run` with a user at the terminal: approvals and the model's questions."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import termios
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pexpect
import pexpect.fdpexpect
import pytest

from tests.cli.conftest import PATIENCE, Shell

SCRIPT = """
replies:
  - run: echo made-$((40 + 2)) > witness
  - text: All done here.
"""
QUESTION = "Your decision"
ROWS, COLUMNS = 24, 60


@dataclass(frozen=True)
class User:
    """A user at a terminal with a program on it; `wait` returns the program's exit status."""

    terminal: pexpect.spawn[str] | pexpect.fdpexpect.fdspawn[str]
    wait: Callable[[], int | None]

    def sees(self, words: str) -> None:
        """Read on until `words` are shown."""
        self.terminal.expect_exact(words)

    def says(self, line: str) -> None:
        """Type a line."""
        self.terminal.sendline(line)

    def presses(self, key: str) -> None:
        """Press a key."""
        self.terminal.send(key)

    def ended(self) -> int | None:
        """Read to the program's end; return its exit status."""
        self.terminal.expect(pexpect.EOF)
        status = self.wait()  # `close` would hang up on a program that has not quite ended
        self.terminal.close()
        return status


def start(
    shell: Shell,
    *words: str,
    term: str = "xterm-256color",
    stdin: Path | None = None,
    out: Path | None = None,
) -> User:
    """Start `kogniterm WORDS` on a terminal; see `tests.support.forge`."""
    master, terminal = pty.openpty()
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    name = Path(os.ttyname(terminal))
    environ = shell.environ | {"TERM": term}
    started = shell.forge.start_on(
        name, words, environ=environ, folder=shell.project, stdin=stdin, out=out
    )
    os.close(terminal)
    user = pexpect.fdpexpect.fdspawn(master, encoding="utf-8", timeout=PATIENCE)
    return User(user, started.wait)


def test_ctrl_c_at_the_question_stops_the_run(shell: Shell) -> None:
    model = shell.script(SCRIPT)
    user = start(shell, "run", "make it", "--model", model, "--plan", "never")
    user.sees(QUESTION)
    user.presses("\x03")
    assert user.ended() == 130
    assert not (shell.project / "witness").exists()


ASKING = """
replies:
  - calls: [{tool: ask_user, arguments: {question: "Which one?", answers: [left, right]}}]
  - expect: {last_contains: "The user chose: right"}
    calls: [{tool: ask_user, arguments: {question: "What name?"}}]
  - expect: {last_contains: "The user answers: two\\nlines"}
    calls: [{tool: ask_user, arguments: {question: "Anything else?"}}]
  - expect: {last_contains: "gave no answer"}
    text: All done here.
"""
ANSWER = "Your answer"


@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
def test_the_models_questions_are_answered_at_the_terminal(shell: Shell, term: str) -> None:
    model = shell.script(ASKING)
    user = start(shell, "run", "go", "--model", model, "--plan", "never", term=term)
    user.sees("Which one?")
    user.sees("right")  # the number before it may be coloured
    user.sees(ANSWER)
    user.says("2")
    user.sees("What name?")
    user.sees(ANSWER)
    user.says("two\\")
    user.sees("... ")
    user.says("lines")
    user.sees("Anything else?")
    user.sees(ANSWER)
    user.says("")
    user.sees("No answer.")
    user.sees("All done here.")
    assert user.ended() == 0
