"""Scripts at a real terminal: commands that nothing runs, and facts that a script finds."""

from __future__ import annotations

from tests.support.real_terminal import User
from tests.support.typing_user import (
    answer,
    flat,
    leave,
    open_prompt,
    put,
    say,
    say_task,
    scripted,
    turn_end,
)
from tests.terminal.conftest import OpenTerminal

COMMANDS = """commands:
  - {command: make, output: "main.c:3: error", exit: 2, repeat: 1}
  - {matches: "make( .*)?", output: all built, seconds: 12}
"""
REPLIES = "replies: [{run: make}, {run: make}, {run: touch made.txt}, All is done.]"
FACTS = """replies:
  - {text: Understood., repeat: forever}
  - when: {purpose: extract_facts}
    text: |
      {"facts": [{"text": "The user prefers tabs to spaces.", "category": "preference",
                  "confidence": 0.95, "scope": "everywhere",
                  "quote": "I prefer tabs to spaces", "relation": "other"}]}
"""


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


def test_at_the_prompt_each_question_says_that_nothing_runs(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=120, rows=40)
    put(terminal.folder, "commands.yaml", COMMANDS)
    model = scripted(terminal, "replies: [{run: make clean}, All is clean.]")
    open_prompt(terminal, f"kogniterm --model {model} --executor scripted:commands.yaml")
    terminal.until("No command runs in this session")
    say(terminal, "clean up")
    terminal.until("make clean")
    terminal.look()
    with turn_end(terminal):
        question = answer(terminal, "make clean", "y")
    assert "Nothing runs: commands.yaml answers" in flat(question)
    assert "all built" in terminal.text
    assert "Answered from commands.yaml; nothing ran." in terminal.text
    say(terminal, "!make", "main.c:3: error")
    say(terminal, "!touch made.txt", "has no entry for: touch made.txt")
    assert leave(terminal) == 0
    assert not (terminal.folder / "made.txt").exists()


def test_a_script_finds_facts(open_terminal: OpenTerminal, user: User) -> None:
    terminal = open_terminal(user=user, columns=120)
    open_prompt(terminal, f"kogniterm --model {scripted(terminal, FACTS)}")
    say_task(terminal, "I prefer tabs to spaces in all my code.", "Understood.")
    assert leave(terminal) == 0
    assert "The user prefers tabs to spaces." in terminal.run("kogniterm memory list")[1]
