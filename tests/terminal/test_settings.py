"""Settings at a real terminal: sources, precedence, and error messages."""

from __future__ import annotations

import json
import os
import re
import signal
import stat

from tests.support.programs import require
from tests.support.real_terminal import RealTerminal, User
from tests.support.typing_user import (
    answer,
    has_prompt,
    holding,
    nap,
    open_prompt,
    put,
    running,
    say,
    say_task,
    scripted,
)
from tests.terminal.conftest import OpenTerminal


def test_the_stronger_place_wins_and_the_project_has_no_say(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=140)
    put(terminal.folder, ".env", "KOGNITERM_APPROVAL_MODE=auto\nKOGNITERM_MAX_STEPS=1\n")
    put(terminal.folder, "kogniterm.toml", "max_steps = 2\n")
    show = "kogniterm config show --json > show.json"

    def value(command: str, name: str = "max_steps") -> tuple[object, str]:
        status, shown = terminal.run(command.replace("SHOW", show))
        assert status == 0, shown
        found = json.loads((terminal.folder / "show.json").read_text())
        return found[name]["value"], json.dumps(found[name])

    assert value("SHOW")[0] == 1000
    put(terminal.home, ".config/kogniterm/config.toml", "max_steps = 60\nplan = 'never'\n")
    steps, told = value("SHOW")
    assert (steps, "config.toml" in told) == (60, True)
    put(terminal.home, ".config/kogniterm/.env", "KOGNITERM_MAX_STEPS=70\nGOOGLE_API_KEY=AIzaX\n")
    steps, told = value("SHOW")
    assert (steps, ".env" in told) == (70, True)
    put(terminal.home, "given.env", "KOGNITERM_MAX_STEPS=75\nSOMEBODY_ELSES=1\n")
    assert value(f"{show} --env-file ~/given.env")[0] == 75
    assert value("export KOGNITERM_MAX_STEPS=80; SHOW")[0] == 80
    assert value("KOGNITERM_MAX_STEPS= SHOW")[0] == 70
    assert value("SHOW", "approval_mode")[0] == "manual"
    # Keys are not printed.
    _status, shown = terminal.run("kogniterm config show --changed")
    assert "AIzaX" not in shown
    assert "KOGNITERM_MAX_STEPS" in shown
    # The flag takes precedence over all of them.
    model = scripted(terminal, "replies: [{run: 'true'}, {run: 'true'}, {text: Done.}]")
    run = f"kogniterm run --allow-reads --model {model}"
    assert terminal.run(f"{run} --max-steps 1 hi")[0] == 4
    assert terminal.run(f"kogniterm --max-steps 1 run hi --allow-reads --model {model}")[0] == 4
    for place in (".config/kogniterm", ".local/share/kogniterm"):
        mode = stat.S_IMODE((terminal.home / place).stat().st_mode)
        assert place == ".config/kogniterm" or mode == 0o700
    database = terminal.home / ".local/share/kogniterm/kogniterm.db"
    assert stat.S_IMODE(database.stat().st_mode) == 0o600
    _, shown = terminal.run("kogniterm config path")
    assert str(database) in shown
    assert holding(terminal.home / ".local", b"AIzaX") == []


def test_the_screen_fits_the_terminal(open_terminal: OpenTerminal, user: User) -> None:
    model = ""
    for environment, columns in (
        ({"TERM": "dumb"}, 80),
        ({"NO_COLOR": "1"}, 40),
        ({"LANG": "es_ES.UTF-8", "KOGNITERM_SCREEN_READER": "true"}, 80),
    ):
        terminal = open_terminal(user=user, columns=columns, environment=environment)
        model = scripted(terminal, "replies: [{run: 'echo hi'}, {text: '**Well** done.'}]")
        start = len(terminal.raw)
        terminal.start(f"kogniterm --model {model}")
        if "TERM" in environment:
            terminal.until("/help")
            terminal.pause(1)
            terminal.send("do it\r")
            terminal.until("[y = ")
            terminal.look()
            terminal.send("y\r")
            terminal.until("tokens in")
            terminal.until(lambda t=terminal: t.shown[-1].startswith(">"))
            assert b"\x1b[" not in terminal.raw[start:].replace(b"\x1b[?2004", b"")
            terminal.send("/quit\r")
        elif "NO_COLOR" in environment:
            terminal.until(lambda t=terminal: has_prompt(t))
            say(terminal, "do it")
            terminal.until("[y]")
            assert all(len(line) <= columns for line in terminal.shown)
            assert "echo hi" in terminal.text
            terminal.look()
            terminal.send("y")
            terminal.until("Well done.")
            sequences = re.findall(rb"\x1b\[([\d;]+)m", terminal.raw[start:])
            numbers = {int(number) for part in sequences for number in part.split(b";") if number}
            assert not numbers & {*range(30, 39), *range(40, 49), *range(90, 108)}
            terminal.send("/quit\r")
        else:
            terminal.until("Escribe /help")
            terminal.pause(1)
            terminal.send("/help\r")
            terminal.until("listar los comandos")
            terminal.send("/quit\r")
        assert terminal.status() == 0


SHOWS, PAUSES, CLEARS = (f"\x1b]9;4;{state};0\x07".encode() for state in (3, 4, 0))
RESTORES = b"\x1b[23;2t"


def test_the_title_and_the_progress_show_a_turn_and_are_taken_back(
    open_terminal: OpenTerminal, user: User
) -> None:
    rest = nap()
    script = f"replies: [{{run: {rest}}}, {{text: Done.}}]"
    terminal = open_terminal(user=user, environment={"TERM_PROGRAM": "WezTerm"})
    open_prompt(terminal, f"kogniterm --model {scripted(terminal, script)}")
    assert SHOWS not in terminal.raw
    say(terminal, "sleep a while")
    answer(terminal, rest, "y")
    terminal.until("Running the command")
    raw = terminal.raw
    waits = raw.index(b"\x1b]2;Waiting for you: KogniTerm\x07")
    runs = raw.index(b"\x1b]2;Running: KogniTerm\x07")
    assert runs < waits < raw.rindex(b"\x1b]2;Running: KogniTerm\x07")
    assert raw.index(SHOWS) < raw.index(PAUSES) < raw.rindex(SHOWS)
    assert b"\x1b[22;2t" in raw[:runs]
    assert CLEARS not in raw
    ends_with_everything_taken_back(terminal)
    # The same in a run, which only draws; and a signal before it has begun to answer.
    start = len(terminal.raw)
    terminal.start(f"kogniterm --model {scripted(terminal, script)} --auto-approve run sleep")
    terminal.until(lambda: bool(running(rest)))
    terminal.until(lambda: SHOWS in terminal.raw[start:])
    ends_with_everything_taken_back(terminal)


def ends_with_everything_taken_back(terminal: RealTerminal) -> None:
    """End KogniTerm with SIGTERM, and check that the terminal's modes are restored."""
    start = len(terminal.raw)
    os.kill(os.tcgetpgrp(terminal.master), signal.SIGTERM)
    assert terminal.status() == 128 + signal.SIGTERM
    left = terminal.raw[start:]
    assert left.rindex(CLEARS) > left.rfind(SHOWS)
    assert left.rindex(RESTORES) > left.rfind(b"\x1b]2;")


def test_choices_made_at_the_prompt(open_terminal: OpenTerminal, user: User) -> None:
    require("less")
    terminal = open_terminal(user=user, columns=120, rows=60)
    thoughts = "I count on my fingers."
    reply = f"{{thoughts: {thoughts}, text: Fine., repeat: forever}}"
    open_prompt(terminal, f"kogniterm --model {scripted(terminal, f'replies: [{reply}]')}")
    for command, then in (
        ("/he", "/quit"),
        ("/help undo", "restore the files"),
        ("/mode auto", "Mode: auto"),
        ("/mode accept-edits", "Mode: accept edits"),
        ("/mode plan", "Mode: plan only"),
        ("/mode ask", "Mode: ask"),
        ("/keys", "Ctrl-C"),
        ("/keys vi", "vi"),
        ("/keys emacs", "emacs"),
        ("/theme plain", "plain"),
        ("/lang es", "español"),
        ("/lang en", "English"),
        ("/permissions", "No permissions."),
        ("/budget", "tokens"),
        ("/budget tokens 200k", "200"),
        ("/budget session dollars 5", "$5"),
        ("/cost", "Model calls: "),
        ("/cost turns", "Model calls: "),
        ("/plan never", "never"),
        ("!seq -f 'row %g' 1000 1039", "╰ ✓ exit 0"),
        ("/output 1", ""),
    ):
        say(terminal, command, then)
    terminal.until("(END)")
    assert "row 1020" in terminal.text
    terminal.send("q")
    say_task(terminal, "hello", "Ctrl-O shows it Fine.")
    terminal.send("\x0f")
    terminal.until(f"│ {thoughts}")
    say(terminal, "/thoughts folded", "Thoughts are folded into a line.")
    terminal.start("/exit")
    assert terminal.status() == 0
