"""Secrets that the user gives at the prompt, which no screen, file or history shows."""

from __future__ import annotations

import json

from tests.support.real_terminal import User
from tests.support.typing_user import (
    answer,
    asked,
    flat,
    holding,
    leave,
    open_prompt,
    say,
    screen,
    scripted,
)
from tests.terminal.conftest import OpenTerminal

VALUE = "hunter2-Zq81-correct-horse"
USES = 'printf %s "$DEPLOY_KEY" | wc -c'


def test_a_secret_is_asked_for_without_an_echo_and_given_to_one_command(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=120)
    commands = [USES, "env | grep -c DEPLOY", 'echo "is $DEPLOY_KEY"']
    replies = [{"run": command} for command in commands]
    script = json.dumps({"replies": [*replies, {"text": "Done.", "repeat": "forever"}]})
    open_prompt(terminal, f"kogniterm --model {scripted(terminal, script)}")
    say(terminal, "/secret PATH", "Choose another name.")
    say(terminal, "/secret DEPLOY_KEY", "hidden")
    terminal.send(f"{VALUE}\r")
    terminal.until("Commands can use it as $DEPLOY_KEY")
    say(terminal, "/secret list", "Secrets of this session: DEPLOY_KEY")
    say(terminal, "use it")
    asked(terminal, USES)
    question = flat(screen(terminal))
    assert "gives the secret DEPLOY_KEY to wc" in question
    assert "[y] approve [n] reject [e] edit" in question
    assert "[a]" not in question
    answer(terminal, USES, "y")
    terminal.until(f"│ {len(VALUE)}")
    answer(terminal, "env | grep", "y")
    terminal.until("│ 0")
    answer(terminal, "echo", "y")
    terminal.until("Done.")
    assert "│ is [secret:" in terminal.text
    assert VALUE not in terminal.text
    assert leave(terminal) == 0
    # A later process knows the name and asks for the value.
    again = scripted(terminal, json.dumps({"replies": [replies[0], {"text": "Done again."}]}))
    open_prompt(terminal, f"kogniterm --continue --model {again}")
    say(terminal, "again")
    answer(terminal, USES, "y")
    terminal.until("Value of DEPLOY_KEY (hidden")
    terminal.send(f"{VALUE}!\r")
    terminal.until(f"│ {len(VALUE) + 1}")
    terminal.until("Done again.")
    assert leave(terminal) == 0
    assert VALUE not in terminal.text
    assert holding(terminal.home, VALUE.encode()) == []
    assert holding(terminal.home, b"/secret DEPLOY_KEY") == []
