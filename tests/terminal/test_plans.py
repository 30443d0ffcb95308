"""Plans: approved, changed, and completed with evidence."""

from __future__ import annotations

from tests.support.greeting_plan import greeting_plan
from tests.support.real_terminal import User
from tests.support.typing_user import (
    answer,
    leave,
    open_prompt,
    say,
    scripted,
)
from tests.terminal.conftest import OpenTerminal

LONG = """replies:
  - when: {last_contains: greet}
    plan:
      goal: Greet somebody
      steps:
        - what: Write the greeting
          check: {kind: pattern, value: written}
        - what: Read it
        - what: Tell the team
"""


def test_a_plan_waits_for_approval_and_each_of_its_commands_too(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=120, rows=50)
    planned = LONG + greeting_plan("too long", "You wanted it shorter.")
    terminal.run(f"export KOGNITERM_MODEL={scripted(terminal, planned)}")
    open_prompt(terminal, "kogniterm")
    say(terminal, "greet Ann")
    terminal.until("[e] edit")
    assert "1. Write the greeting" in terminal.text
    assert not (terminal.folder / "greeting.txt").exists()
    terminal.look()
    terminal.send("n")
    terminal.until("What should change?")
    terminal.send("it is too long\r")
    terminal.until("You wanted it shorter.")
    terminal.until(lambda: "[e] edit" in "\n".join(terminal.shown[-3:]))
    terminal.look()
    terminal.send("y")
    answer(terminal, "echo 'hello Ann'", "y")
    answer(terminal, "grep -q Ann", "y")
    answer(terminal, "cat greeting.txt", "y")
    terminal.until("Ann is greeted.")
    terminal.until("Verified")
    say(terminal, "/plan", "Read it")
    say(terminal, "/plan always", "lways")
    assert leave(terminal) == 0
