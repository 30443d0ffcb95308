"""Several commands of one response at once: shown, stopped, killed and typed into."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.support.forge import until
from tests.support.pipes import fifos, writer_of
from tests.support.real_terminal import RealTerminal, User
from tests.support.typing_user import (
    anew,
    leave,
    open_prompt,
    put,
    result_of,
    running,
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


def kept_text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def write(fd: int, text: str) -> None:
    os.write(fd, text.encode())
    os.close(fd)


@pytest.mark.parametrize("columns", [60, 100])
def test_each_has_a_frame_and_the_whole_frames_stand_in_order(
    open_terminal: OpenTerminal, user: User, columns: int
) -> None:
    terminal = open_terminal(user=user, rows=30, columns=columns)
    model = at_once(terminal, "cat first", "cat second", "cat third")
    paths = fifos(terminal.folder, "first", "second", "third")
    open_prompt(terminal, f"kogniterm --allow-reads --no-sandbox --model {model}")
    say(terminal, "read them")
    held = [writer_of(path) for path in paths]
    os.write(held[0], b"one\n")
    os.write(held[1], b"two a\ntwo b\n")
    write(held[2], "three\n")
    terminal.until("exit 0")
    terminal.until("two b")
    terminal.until("Running 2 commands")
    shown = screen(terminal)
    places = [shown.index(text) for text in ("cat first", "│ one", "cat second", "· two b",
                                             "cat third", "✓ exit 0")]  # fmt: skip
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


def test_ctrl_c_stops_all_of_them(open_terminal: OpenTerminal, user: User) -> None:
    terminal = open_terminal(user=user, rows=30, columns=100)
    model = at_once(terminal, "cat first", "cat second")
    paths = fifos(terminal.folder, "first", "second")
    open_prompt(terminal, f"kogniterm --allow-reads --no-sandbox --model {model}")
    say(terminal, "read them")
    held = [writer_of(path) for path in paths]
    terminal.until("Running 2 commands")
    terminal.send("\x03")
    terminal.until("All read.")
    for fd in held:
        os.close(fd)
    assert terminal.text.count("✗ stopped") == 2
    assert not running(f"cat {paths[0].name}\0")
    assert leave(terminal) == 0


def test_killed_in_the_middle_each_is_unknown_and_none_is_left_running(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=120)
    model = at_once(terminal, "cat first", "cat second", "echo x >> count")
    paths = fifos(terminal.folder, "first", "second")
    run = f"kogniterm run -y --no-sandbox --model {model} go"
    put(terminal.folder, "die.sh", f"echo $$ > pid; exec {run}")
    with anew(terminal, "Killed"):
        terminal.start("bash die.sh")
        held = [writer_of(path) for path in paths]
        os.write(held[1], b"seen\n")
        until(lambda: "x" in kept_text(terminal.folder / "count"))
        os.kill(int((terminal.folder / "pid").read_text()), signal.SIGKILL)
    assert terminal.status() == 137
    for fd in held:
        os.close(fd)
    unattended = f"kogniterm run --resume last --model {model} --output json"
    assert terminal.run(f"{unattended} < /dev/null > out.json")[0] == 3
    result = result_of(terminal.folder / "out.json")
    assert result["stop"] == "unknown"
    told = [text for text in result["notices"] if "its outcome is unknown" in text]
    assert [told[0].endswith("cat first"), told[1].endswith("cat second")] == [True, True]
    assert (terminal.folder / "count").read_text() == "x\n"
    assert not running("cat first") + running("cat second")


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


def test_plain_output_keeps_the_output_of_each_together(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=100)
    model = at_once(terminal, "cat first", "cat second")
    paths = fifos(terminal.folder, "first", "second")
    terminal.start(f"kogniterm run --allow-reads --no-sandbox --model {model} go > out 2> err")
    held = [writer_of(path) for path in paths]
    write(held[1], "two\n")
    until(lambda: "$ cat first" in (terminal.folder / "err").read_text())
    write(held[0], "one\n")
    until(lambda: "All read." in (terminal.folder / "out").read_text())
    said = (terminal.folder / "err").read_text()
    places = [said.index(text) for text in ("$ cat first", "one", "exit 0", "$ cat second", "two")]
    assert places == sorted(places)


def test_a_rule_of_the_user_lets_checks_run_at_once(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=100)
    rules = '[[rule]]\ndecision = "allow"\nprogram = "python3"\nside_by_side = true\n'
    put(terminal.home, ".config/kogniterm/policy.toml", rules)
    model = at_once(terminal, "python3 check.py first", "python3 check.py second")
    put(terminal.folder, "check.py", "import sys\nprint(open(sys.argv[1]).read())\n")
    paths = fifos(terminal.folder, "first", "second")
    terminal.start(f"kogniterm run --no-sandbox --model {model} go > out 2> err < /dev/null")
    held = [writer_of(path) for path in paths]
    for number, fd in enumerate(held):
        write(fd, f"met {number}")
    until(lambda: "All read." in kept_text(terminal.folder / "out"))
    said = (terminal.folder / "err").read_text()
    assert said.index("met 0") < said.index("met 1")
