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
    leave,
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


def test_a_key_in_the_folder_is_seen_and_not_used(open_terminal: OpenTerminal, user: User) -> None:
    terminal = open_terminal(user=user, columns=900)
    put(terminal.folder, ".env", "GOOGLE_API_KEY=the-key-of-somebody\n")
    status, shown = terminal.run("kogniterm run hi")
    assert status == 2
    assert "sets GOOGLE_API_KEY, but it was not read" in " ".join(shown.split())
    assert "--env-file" in shown
    assert "the-key-of-somebody" not in shown
    # A file given by name is the user's own choice.
    status, shown = terminal.run("kogniterm --env-file .env config show --json > show.json")
    assert status == 0, shown
    found = json.loads((terminal.folder / "show.json").read_text())
    assert found["google_api_key"]["value"] is not None


def test_a_wrong_setting_is_named_with_its_place(open_terminal: OpenTerminal, user: User) -> None:
    terminal = open_terminal(user=user, columns=140)
    toml = put(terminal.home, ".config/kogniterm/config.toml", "plan = 'auto'\nmax_stepz = 60\n")
    status, shown = terminal.run("kogniterm run hi")
    assert status == 2
    assert "config.toml" in shown
    assert "2" in shown.split("config.toml", 1)[1]
    assert "max_stepz" in shown
    toml.unlink()
    terminal.run("export KOGNITERM_MAX_STEPS=many")
    status, shown = terminal.run("kogniterm run hi")
    assert status == 2
    assert "KOGNITERM_MAX_STEPS" in shown
    terminal.run("unset KOGNITERM_MAX_STEPS")
    env = put(terminal.home, ".config/kogniterm/.env", "SOMEBODY_ELSES=1\n")
    status, shown = terminal.run("kogniterm run hi")
    assert status == 2
    assert ".env" in shown
    env.unlink()
    status, shown = terminal.run("KOGNITERM_DATA_DIR=relative kogniterm run hi")
    assert status == 2
    status, shown = terminal.run("kogniterm doctor")
    assert f"{terminal.home}/.config/kogniterm" in shown
    assert "models pull" in shown
    assert status == 1
    status, shown = terminal.run("kogniterm run hi")
    assert status == 2
    assert "kogniterm models pull" in shown.replace("\n", "")
    assert terminal.run("kogniterm models list")[1].count("not downloaded") == 2


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


def test_a_terminal_that_does_not_show_progress_is_not_sent_any(
    open_terminal: OpenTerminal,
) -> None:
    terminal = open_terminal(environment={"TERM_PROGRAM": "WezTerm", "TMUX": "/tmp/x,1,0"})
    open_prompt(terminal, f"kogniterm --model {scripted(terminal, 'replies: [{text: Done.}]')}")
    say_task(terminal, "do it", "Done.")
    assert leave(terminal) == 0
    assert b"\x1b]9;4" not in terminal.raw


def test_choices_made_at_the_prompt(open_terminal: OpenTerminal, user: User) -> None:
    require("less")
    terminal = open_terminal(user=user, columns=120, rows=60)
    model = scripted(terminal, "replies: [{text: Fine., repeat: forever}]")
    open_prompt(terminal, f"kogniterm --model {model}")
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
    say_task(terminal, "hello", "Fine.")
    terminal.start("/exit")
    assert terminal.status() == 0


def test_a_key_chooses_its_provider(open_terminal: OpenTerminal, user: User) -> None:
    terminal = open_terminal(user=user, columns=140)

    def model(**environ: str) -> str:
        given = " ".join(f"{name}={value}" for name, value in environ.items())
        _status, said = terminal.run(f"env {given} kogniterm doctor")
        return next(line for line in said.splitlines() if "model" in line)

    keys = {"OPENAI_API_KEY": "b", "ANTHROPIC_API_KEY": "c", "OLLAMA_HOST": "127.0.0.1:1"}
    assert "google_genai:gemini-flash-latest" in model(GEMINI_API_KEY="a", **keys)
    assert "openai:gpt-" in model(**keys)
    assert "anthropic:claude-sonnet-" in model(ANTHROPIC_API_KEY="c", OLLAMA_HOST="127.0.0.1:1")
    assert model(OLLAMA_HOST="127.0.0.1:1").endswith("ollama")
    # Only the user knows the models of a compatible service.
    _status, said = terminal.run(
        "OPENAI_API_KEY=b OPENAI_BASE_URL=http://127.0.0.1:1 kogniterm doctor"
    )
    assert "--model openai:MODEL" in " ".join(said.split())


def test_a_prompt_is_copied_used_and_kept(open_terminal: OpenTerminal, user: User) -> None:
    terminal = open_terminal(user=user, columns=140)
    loud = "{when: {system_contains: SPEAKUP}, text: loud, repeat: forever}"
    replies = f"replies:\n  - {loud}\n  - quiet\n"
    put(terminal.folder, "demo.yaml", replies)
    put(terminal.folder, "prompts/system.md", "SPEAKUP {system} {folder} {date}")
    run = "kogniterm run --model scripted:demo.yaml"
    assert "quiet" in terminal.run(f"{run} hello")[1]
    assert re.search(r"system +shipped +\d+ +{system} {folder} {date}", shown_of(terminal))
    status, copied = terminal.run("kogniterm config prompts copy system")
    file = terminal.home / ".config/kogniterm/prompts/system.md"
    assert (status, str(file) in copied.replace("\n", "")) == (0, True)
    edit = "sed -i 's/Never invent results/SPEAKUP/' ~/.config/kogniterm/prompts/system.md"
    terminal.run(edit)
    assert "It leaves out: Never invent results" in shown_of(terminal)
    assert "leaves out “Never invent results”" in terminal.run("kogniterm doctor")[1]
    assert "loud" in terminal.run(f"{run} hello")[1]
    assert terminal.run("rm ~/.config/kogniterm/prompts/system.md")[0] == 0
    again = terminal.run(f"{run} --continue hello")[1]
    assert "loud" in again
    assert "continues with the prompts it began with" in again.replace("\n", " ")
    put(terminal.home, ".config/kogniterm/prompts/recipe.md", "Do {it}.")
    status, wrong = terminal.run(f"{run} hello")
    assert status == 2
    assert "recipe has no variables, but uses {it}." in wrong


def shown_of(terminal: RealTerminal) -> str:
    """Return the list of prompts, as the terminal shows it."""
    status, shown = terminal.run("kogniterm config prompts")
    assert status == 0, shown
    return shown
