"""Custom commands at a real terminal: files of others, commands in their text, and attacks."""

from __future__ import annotations

import shlex

from tests.support.real_terminal import User
from tests.support.typing_user import (
    answer,
    flat,
    leave,
    open_prompt,
    put,
    say,
    scripted,
    turn_end,
)
from tests.terminal.conftest import OpenTerminal

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
