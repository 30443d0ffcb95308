"""Content of a folder: trust questions; custom commands; files and images named in an input."""

from __future__ import annotations

from tests.support.real_terminal import User
from tests.support.typing_user import (
    answer,
    leave,
    open_prompt,
    put,
    say,
    say_task,
    scripted,
    turn_end,
)
from tests.terminal.conftest import OpenTerminal

SCRIPT = """replies:
  - {when: {last_contains: "Look at feature"}, text: "The review of feature."}
  - {when: {last_contains: "Say it to Ana"}, text: "Hello Ana."}
  - {when: {any_contains: "Always use tabs"}, text: "I know the house rules.", repeat: forever}
  - {when: {last_contains: "list"}, run: "ls"}
  - {text: "Nothing is known here.", repeat: forever}
"""


def test_nothing_of_a_folder_has_an_effect_before_it_is_trusted(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=120, rows=50)
    put(terminal.folder, "AGENTS.md", "Always use tabs.\n")
    put(terminal.folder, ".kogniterm/commands/greet.md", "Say it to $1.\n")
    rule = '[[rule]]\ndecision = "deny"\nprogram = "ls"\n'
    put(terminal.folder, ".kogniterm/policy.toml", rule)
    own = "---\ndescription: Review a branch\narguments: BRANCH\n---\nLook at $ARGUMENTS.\n"
    put(terminal.home, ".config/kogniterm/commands/review.md", own)
    open_prompt(terminal, f"kogniterm --model {scripted(terminal, SCRIPT)}")
    say(terminal, "/help review", "Review a branch")
    say(terminal, "/review feature", "The review of feature.")
    say(terminal, "/greet Ana", "/greet")
    assert "Hello Ana." not in terminal.text
    say(terminal, "what are the rules?", "Nothing is known here.")
    say(terminal, "list the files")
    answer(terminal, "$ ls", "n")
    with turn_end(terminal):
        terminal.send("\r")
        terminal.until("Rejected: ls")
    say(terminal, "/trust")
    terminal.until("AGENTS.md")
    terminal.until("[y]")
    terminal.look()
    terminal.send("y")
    terminal.pause(1)
    say_task(terminal, "and the rules now?", "I know the house rules.")
    say(terminal, "/greet Ana", "Hello Ana.")
    say(terminal, "/trust revoke")
    terminal.pause(1)
    assert leave(terminal) == 0
    status, shown = terminal.run("kogniterm trust --list --json; kogniterm trust --show")
    assert "AGENTS.md" in shown
    status, shown = terminal.run("kogniterm trust")
    assert (status, "AGENTS.md" in shown) == (0, True)
    assert "=> [deny] rule .kogniterm/policy.toml:1" in terminal.run("kogniterm policy check ls")[1]
    put(terminal.folder, "AGENTS.md", "Now use spaces.\n")
    assert "Changed" in terminal.run("kogniterm trust --show")[1]
    wrong = put(terminal.home, ".config/kogniterm/policy.toml", "[[rule]]\ndecision = 'alow'\n")
    status, shown = terminal.run("kogniterm policy check ls")
    assert status == 2
    assert "policy.toml" in shown
    wrong.unlink()
