"""Plans: approved, changed, and completed with evidence."""

from __future__ import annotations

from tests.support.real_terminal import User
from tests.support.typing_user import (
    answer,
    leave,
    open_prompt,
    say,
    scripted,
)
from tests.terminal.conftest import OpenTerminal

PLANNED = """replies:
  - when: {last_contains: greet}
    plan:
      goal: Greet somebody
      steps:
        - what: Write the greeting
          check: {kind: pattern, value: written}
        - what: Read it
        - what: Tell the team
  - when: {last_contains: too long}
    plan:
      goal: Greet somebody
      reason: You wanted it shorter.
      steps:
        - what: Write the greeting
          check: {kind: command, value: grep -q Ann greeting.txt}
        - what: Read it
  - run: "echo 'hello Ann' > greeting.txt; echo written"
    purpose: Write the greeting
  - calls: [{tool: complete_step, arguments: {step: s1}}]
  - run: cat greeting.txt
  - calls: [{tool: complete_step, arguments: {step: s2}}]
  - text: Ann is greeted.
"""


def test_a_plan_waits_for_approval_and_each_of_its_commands_too(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=120, rows=50)
    terminal.run(f"export KOGNITERM_MODEL={scripted(terminal, PLANNED)}")
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
