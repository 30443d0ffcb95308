"""Several commands of one response at once: shown, stopped, killed and typed into."""

from __future__ import annotations

import json
import os

from tests.support.pipes import fifos, writer_of
from tests.support.real_terminal import RealTerminal, User
from tests.support.typing_user import (
    anew,
    leave,
    open_prompt,
    say,
    screen,
    scripted,
)
from tests.terminal.conftest import OpenTerminal


def at_once(terminal: RealTerminal, *commands: str) -> str:
    """Return a model that asks for all the commands in its first response."""
    calls = [{"tool": "execute_command", "arguments": {"command": one}} for one in commands]
    replies = [{"calls": calls}, {"text": "All read."}, {"text": "All right.", "repeat": "forever"}]
    return scripted(terminal, json.dumps({"replies": replies}))


def write(fd: int, text: str) -> None:
    os.write(fd, text.encode())
    os.close(fd)


def test_each_has_a_frame_and_the_whole_frames_stand_in_order(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, rows=30, columns=60)
    model = at_once(terminal, "cat first", "cat second", "cat third")
    paths = fifos(terminal.folder, "first", "second", "third")
    open_prompt(terminal, f"kogniterm --allow-reads --no-sandbox --model {model}")
    say(terminal, "read them")
    held = [writer_of(path) for path in paths]
    os.write(held[0], b"one\n")
    os.write(held[1], b"two a\ntwo b\n")
    write(held[2], "three\n")
    parts = ("cat first", "│ one", "cat second", "· two b", "cat third", "✓ exit 0")
    terminal.until(lambda: all(one in screen(terminal) for one in (*parts, "Running 2 commands")))
    shown = screen(terminal)
    places = [shown.index(one) for one in parts]
    assert places == sorted(places)
    assert "│ two" not in shown
    for fd in held[:2]:
        os.close(fd)
    terminal.until("All read.")
    whole = ["╭ $ cat first", "│ one", "╭ $ cat second", "│ two a", "│ two b", "╭ $ cat third",
             "│ three", "All read."]  # fmt: skip
    places = [terminal.text.index(text) for text in whole]
    assert places == sorted(places)
    assert leave(terminal) == 0


def test_the_user_types_into_one_after_the_other(open_terminal: OpenTerminal, user: User) -> None:
    terminal = open_terminal(user=user, rows=30, columns=100)
    model = at_once(terminal, "head -n 1 && echo over one", "head -n 1 && echo over two")
    with anew(terminal, "Ctrl-]"):
        open_prompt(terminal, f"kogniterm --allow-reads --no-sandbox --model {model}")
        say(terminal, "ask me")
    with anew(terminal, "Ctrl-]"):
        terminal.send("alpha\r")
    terminal.send("beta\r")
    terminal.until("All read.")
    places = [terminal.text.index(text) for text in ("alpha", "beta", "All read.")]
    assert places == sorted(places)
    for text in ("over one", "over two"):
        assert text in terminal.text
    assert leave(terminal) == 0
