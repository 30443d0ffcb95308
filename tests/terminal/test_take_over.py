"""Full-screen programs and password prompts of commands, taken over by the user."""

from __future__ import annotations

from tests.support.programs import require
from tests.support.real_terminal import User
from tests.support.typing_user import (
    anew,
    answer,
    holding,
    leave,
    open_prompt,
    press,
    put,
    say,
    scripted,
)
from tests.terminal.conftest import OpenTerminal

SECRET = "correct-horse-" + "battery-staple"


def script(*programs: str) -> str:
    """Write a script of one turn per command: the command, then an answer with its number."""
    replies = [
        reply
        for number, program in enumerate(programs, start=1)
        for reply in (f"  - run: |-\n      {program}", f"  - text: Answer {number}.")
    ]
    return "\n".join(["replies:", *replies, ""])


def test_the_user_types_into_commands_and_secrets_go_nowhere(
    open_terminal: OpenTerminal, user: User
) -> None:
    programs = script(
        "read -rsp 'Password: ' p; test -n \"$p\" && echo taken",
        "read -rp 'Your name? ' n; echo \"hello $n\"",
        "stty size; read -r go; until stty size | grep -qx '38 110'; do sleep 0.1; done; stty size",
        "trap 'echo caught' INT; read -r go; echo $((6 * 7))-hears; "
        "read -r go; read -r go; echo over",
        'echo up; read -r go; echo "went on with $go"',
        'echo down; read -r go; echo "went on with $go"',
    )
    terminal = open_terminal(user=user, rows=40, columns=120)
    open_prompt(terminal, f"kogniterm --model {scripted(terminal, programs)}")
    say(terminal, "the first")
    with anew(terminal, "Ctrl-]"):
        answer(terminal, "Password", "y")
    terminal.send(SECRET + "\r")
    terminal.until("Answer 1.")
    assert "taken" in terminal.text
    assert SECRET not in terminal.text
    say(terminal, "the second")
    with anew(terminal, "Ctrl-]"):
        answer(terminal, "Your name", "y")
    terminal.send("Ana\r")
    terminal.until("Answer 2.")
    assert "hello Ana" in terminal.text
    say(terminal, "the third")
    with anew(terminal, "Ctrl-]"):
        answer(terminal, "stty size", "y")
    terminal.until("40 120")
    terminal.resize(38, 110)
    terminal.send("\r")
    terminal.until("Answer 3.")
    assert "\n38 110" in terminal.text
    say(terminal, "the fourth")
    with anew(terminal, "Ctrl-]"):
        answer(terminal, "caught", "y")
    terminal.send("\r")
    terminal.until("42-hears")
    terminal.send("\x03")
    terminal.until("^Ccaught")
    terminal.send("\r\r")
    terminal.until("Answer 4.")
    say(terminal, "the fifth")
    with anew(terminal, "Ctrl-]"):
        answer(terminal, "echo up", "y")
    terminal.send("\x1d")
    terminal.until("Answer 5.")
    assert "went on" not in terminal.text.split("up", 1)[1].replace("went on with $go", "")
    say(terminal, "/jobs", "echo up")
    say(terminal, "/jobs stop 1", "top")
    say(terminal, "the sixth")
    with anew(terminal, "Ctrl-]"):
        answer(terminal, "echo down", "y")
    terminal.send("\x07\x07")
    terminal.send("\x04")
    terminal.until("Answer 6.")
    say(terminal, "/jobs", "echo down")
    assert leave(terminal) == 0
    assert holding(terminal.home.parent, SECRET.encode()) == []


def test_full_screen_programs_get_the_whole_terminal(
    open_terminal: OpenTerminal, user: User
) -> None:
    require("vim", "less")
    programs = script("vim notes.txt", "less long.txt", "python3 -q", "cat notes.txt")
    terminal = open_terminal(user=user, rows=30, columns=100)
    put(terminal.folder, "notes.txt", "alpha\n")
    put(terminal.folder, "long.txt", "".join(f"line {n}\n" for n in range(500)))
    open_prompt(terminal, f"kogniterm --model {scripted(terminal, programs)}")
    say(terminal, "change the notes")
    answer(terminal, "vim notes.txt", "y")
    terminal.until(lambda: "~" in terminal.shown[5:8])
    terminal.send("Gobeta\x1b:wq\r")
    terminal.until("Answer 1.")
    assert (terminal.folder / "notes.txt").read_text() == "alpha\nbeta\n"
    say(terminal, "page it")
    answer(terminal, "less long.txt", "y")
    terminal.until(lambda: "line 20" in terminal.shown)
    press(terminal, "G", lambda: "line 499" in "\n".join(terminal.shown))
    terminal.send("q")
    terminal.until("Answer 2.")
    say(terminal, "calculate")
    answer(terminal, "python3 -q", "y")
    terminal.until(lambda: terminal.shown[-1].startswith(">>>"))
    terminal.send("6 * 7\r")
    terminal.until("\n42")
    # A Ctrl-D that comes before the next prompt is lost: Python is not reading yet.
    terminal.until(lambda: terminal.shown[-1].strip() == ">>>")
    terminal.send("\x04")
    terminal.until("Answer 3.")
    # The terminal is restored: keys are echoed once, and the prompt works.
    say(terminal, "show the notes")
    answer(terminal, "cat notes.txt", "y")
    terminal.until("Answer 4.")
    assert "│ beta" in terminal.text
    assert leave(terminal) == 0
    assert terminal.run("stty -a | grep -c -- ' echo '")[1].splitlines()[-1] == "1"
