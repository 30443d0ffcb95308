"""Scripts at a real terminal: commands that nothing runs, and facts that a script finds."""

from __future__ import annotations

from tests.support.real_terminal import User
from tests.support.typing_user import (
    flat,
    put,
    scripted,
)
from tests.terminal.conftest import OpenTerminal

COMMANDS = """commands:
  - {command: make, output: "main.c:3: error", exit: 2, repeat: 1}
  - {matches: "make( .*)?", output: all built, seconds: 12}
"""
REPLIES = "replies: [{run: make}, {run: make}, {run: touch made.txt}, All is done.]"


def test_commands_are_answered_from_a_file(open_terminal: OpenTerminal, user: User) -> None:
    terminal = open_terminal(user=user, columns=140)
    put(terminal.folder, "commands.yaml", COMMANDS)
    run = f"kogniterm run --model {scripted(terminal, REPLIES)} -y 'build it' --executor"
    status, shown = terminal.run(f"{run} scripted:commands.yaml")
    assert status == 0, shown
    text = flat(shown)
    assert "No command runs in this session" in text
    assert "main.c:3: error" in text
    assert "all built" in text
    assert "commands.yaml has no entry for: touch made.txt" in text
    assert text.count("Answered from commands.yaml; nothing ran.") == 2
    assert not (terminal.folder / "made.txt").exists()
    terminal.run("kogniterm sessions report last --to report.jsonl")
    status, shown = terminal.run(f"{run} scripted:report.jsonl")
    assert (status, shown.count("Answered from report.jsonl; nothing ran.")) == (0, 2)
    assert "error" in shown
    assert "all built" in shown
    status, shown = terminal.run(f"{run} commands.yaml")
    assert (status, "must be scripted: and a file" in shown) == (2, True)
