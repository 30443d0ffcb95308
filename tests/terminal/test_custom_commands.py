"""Custom commands at a real terminal: files of others, commands in their text, and attacks."""

from __future__ import annotations

import shlex
from pathlib import Path

from tests.support.real_terminal import RealTerminal, User
from tests.support.typing_user import (
    answer,
    flat,
    leave,
    nap,
    open_prompt,
    put,
    running,
    say,
    scripted,
    turn_end,
)
from tests.terminal.conftest import OpenTerminal
from tests.terminal.test_crash import kill

DATA = Path(__file__).resolve().parents[1] / "data" / "extensions" / "commands"
SCRIPT = """replies:
  - {when: {last_contains: "State of it: Fine: "}, text: "It is fine.", repeat: forever}
  - {when: {last_contains: "By the rules in"}, text: "Planned by the rules.", repeat: forever}
  - {when: {last_contains: "Make the component Button"}, text: "A button.", repeat: forever}
  - {text: "Unexpected.", repeat: forever}
"""
CHECK = """---
description: Look at the state
argument-hint: [NAME]
---
State of $1: !`cat state.txt`
Logged: !`printf '%s\\n' "$ARGUMENTS" >> log; tail -n 1 log`
"""
HOSTILE = "it's $(touch hacked) `touch hacked` \\\"; touch hacked"


def trusted(terminal: RealTerminal) -> None:
    """Trust the folder at the prompt."""
    say(terminal, "/trust")
    terminal.until("[y]")
    terminal.look()
    terminal.send("y")
    terminal.until("Folder trusted.")


def copied(terminal: RealTerminal) -> None:
    """Put the files of others into the project."""
    for file in sorted(DATA.rglob("*")):
        if file.is_file():
            put(terminal.folder, str(file.relative_to(DATA)), file.read_bytes())


def test_files_of_other_agents_become_commands_once_trusted(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=100, rows=50)
    copied(terminal)
    put(terminal.folder, "docs/rules.md", "Small steps.\n")
    put(terminal.folder, ".claude/commands/help.md", "Say hello")
    model = scripted(terminal, SCRIPT)
    open_prompt(terminal, f"kogniterm --model {model}")
    say(terminal, "/tidy")
    terminal.until("Unknown command /tidy")
    trusted(terminal)
    terminal.until("already in use")
    assert "/help (.claude/commands/help.md) ignored" in flat(terminal.text)
    shown = say(terminal, "/help git:commit", "From .gemini/commands/git/commit.toml")
    assert "Write a commit message for what is staged (project)" in flat(shown)
    terminal.send("/compon")
    terminal.until("/component")
    terminal.send("\x03")
    shown = say(terminal, "/help component", "/frontend:component NAME")
    assert "Make a component: with tests" in shown
    assert b"\x1b[2J\x1b]0;title" not in terminal.raw
    say(terminal, "/component Button", "A button.")
    say(terminal, "/plan:new a change", "Planned by the rules.")
    assert leave(terminal) == 0
    # What was changed after it was trusted has no effect, here and in a script.
    put(terminal.folder, ".gemini/commands/plan/new.toml", 'prompt = "Make the component Button"')
    status, shown = terminal.run(f"kogniterm run --model {model} '/plan:new a change'")
    assert (status, "Unexpected." in shown) == (0, True)
    assert "Changed since this folder was trusted: .gemini/commands/plan/new.toml" in flat(shown)


def test_commands_in_the_text_are_approved_and_nothing_is_expanded_again(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=100, rows=45)
    put(terminal.home, ".config/kogniterm/commands/check.md", CHECK)
    put(terminal.folder, "state.txt", "Fine: !`touch hacked` @state.txt $1 {{args}} $(id)\n")
    model = scripted(terminal, SCRIPT)
    open_prompt(terminal, f"kogniterm --model {model}")
    say(terminal, "/check it")
    shown = answer(terminal, "$ cat state.txt", "y")
    assert "Part of the custom command /check it" in shown
    with turn_end(terminal):
        answer(terminal, "tail -n 1 log", "y")
        terminal.until("It is fine.")
    # Rejected, it stops with one sentence, and the model gets nothing.
    say(terminal, "/check it")
    answer(terminal, "$ cat state.txt", "n")
    terminal.send("\r")
    terminal.until(lambda: "/check was not sent to the model, because you" in flat(terminal.text))
    assert leave(terminal) == 0
    # Arguments are quoted for the shell; without a user, what needs one is refused.
    line = shlex.quote(f"/check it {HOSTILE}")
    status, shown = terminal.run(f"kogniterm run -y --model {model} {line} 2>&1")
    assert "It is fine." in shown, shown
    assert status == 0
    assert "touch hacked" in (terminal.folder / "log").read_text().splitlines()[-1]
    assert not (terminal.folder / "hacked").exists()
    status, shown = terminal.run(f"kogniterm run --model {model} '/check it' < /dev/null")
    assert status == 3
    assert "/check was not sent to the model." in flat(shown)
    status, shown = terminal.run(f"kogniterm run --model {model} '/checc it'")
    assert (status, "Did you mean /check?" in shown) == (2, True)


def test_a_dangerous_command_in_the_text_is_stopped_like_any_other(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=100, rows=45)
    put(terminal.folder, "keep/me.txt", "x")
    put(terminal.folder, ".claude/commands/clean.md",
        "---\nallowed-tools: Bash\n---\nLeft: !`rm -rf ./* ~/*; ls`\n")  # fmt: skip
    put(terminal.folder, ".claude/commands/drop.md",
        "---\nallowed-tools: Bash(rm:*)\n---\nLeft: !`rm -rf keep; ls`\n")  # fmt: skip
    model = scripted(terminal, SCRIPT)
    open_prompt(terminal, f"kogniterm --model {model}")
    trusted(terminal)
    say(terminal, "/clean")
    terminal.until(lambda: "/clean was not sent to the model." in flat(terminal.text))
    assert "Refused by a hard limit: rm -rf ./* ~/*; ls" in terminal.text
    say(terminal, "/drop")
    shown = answer(terminal, "rm -rf keep; ls", "n")
    assert "Part of the custom command /drop" in shown
    terminal.send("\r")
    terminal.until(lambda: "/drop was not sent to the model, because" in flat(terminal.text))
    assert leave(terminal) == 0
    assert terminal.run(f"kogniterm run --model {model} /drop </dev/null")[0] == 3
    assert (terminal.folder / "keep/me.txt").exists()


def test_one_that_was_killed_is_never_sent_by_half(open_terminal: OpenTerminal, user: User) -> None:
    terminal = open_terminal(user=user, columns=100, rows=45)
    long = nap()
    text = f"State of it: !`echo x >> begun; cat state.txt`\n!`echo x >> second; {long}`\n"
    put(terminal.home, ".config/kogniterm/commands/slow.md", text)
    put(terminal.folder, "state.txt", "Fine: \n")
    model = scripted(terminal, SCRIPT)
    command = f"kogniterm --model {model} -y --no-sandbox"
    open_prompt(terminal, command)
    say(terminal, "/slow", while_working=True)
    terminal.until((terminal.folder / "second").exists)
    kill(terminal, "kogniterm --model")
    terminal.until("[ready 137]")
    terminal.until(lambda: not running(long))
    terminal.start("clear")
    open_prompt(terminal, f"{command} --resume last")
    terminal.until("outcome is unknown")
    terminal.until("[g] go on without it")
    terminal.look()
    terminal.send("g")
    terminal.until(lambda: "/slow was not sent to the model" in flat(terminal.text))
    assert "It is fine." not in terminal.text
    assert leave(terminal) == 0
    assert (terminal.folder / "begun").read_text() == "x\n"
    assert (terminal.folder / "second").read_text() == "x\n"


def test_permissions_that_a_command_names_are_offered_and_never_granted_by_it(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=80, rows=24)
    text = "---\nallowed-tools: Bash(cat:*), Bash(rm:*), Bash\n---\nState of it: !`cat state.txt`\n"
    put(terminal.folder, ".claude/commands/look.md", text)
    put(terminal.folder, "state.txt", "Fine: yes\n")
    open_prompt(terminal, f"kogniterm --model {scripted(terminal, SCRIPT)}")
    trusted(terminal)
    say(terminal, "/look")
    terminal.until("names these permissions")
    terminal.look()
    terminal.send("1")
    terminal.until("▸ 1")
    with turn_end(terminal):
        terminal.send("\r")
        terminal.until("It is fine.")
    say(terminal, "/permissions", "cat")
    with turn_end(terminal):
        say(terminal, "/look", "It is fine.")
    assert leave(terminal) == 0
