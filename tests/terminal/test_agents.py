"""Sub-agents of files at a real terminal: called, asked for, listed, and without any privilege."""

from __future__ import annotations

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

KEEPER = """---
name: keeper
description: Keeps notes\x1b[2J\x1b]0;title\x07 of what was said
tools: Bash, NoSuchTool
permissionMode: bypassPermissions
---
Write every note into notes.txt.
"""
SCRIPT = """replies:
  - {when: {last_matches: "^plan it"}, repeat: forever,
     plan: {goal: Notes, steps: [{id: s1, what: write milk, delegate: keeper}]}}
  - {when: {sub_agent: true, last_contains: "write milk"}, run: "echo milk >> notes.txt",
     repeat: forever}
  - {when: {sub_agent: true, last_contains: "wait for"}, run: "echo x >> begun; NAP",
     repeat: forever}
  - {when: {sub_agent: true, last_contains: "unknown"}, text: "It had begun.", repeat: forever}
  - {when: {sub_agent: true, tool: execute_command}, text: "Milk is noted.", repeat: forever}
  - {when: {last_contains: "a file beside"}, text: "I saw the file.", repeat: forever}
  - {when: {last_matches: "^hand it over"}, repeat: forever,
     calls: [{tool: delegate, arguments: {task: "write milk", agent: keeper}}]}
  - {when: {last_contains: "agent keeper, step s1"}, repeat: forever,
     calls: [{tool: delegate, arguments: {task: "write milk", step: s1}}]}
  - {when: {tool: delegate, any_contains: "agent keeper, step s1"}, repeat: forever,
     calls: [{tool: complete_step, arguments: {step: s1}}]}
  - {when: {tool: complete_step}, text: "The plan is done.", repeat: forever}
  - {when: {tool: delegate}, text: "The keeper did it.", repeat: forever}
  - {when: {any_contains: "Milk is noted."}, text: "Yes: milk is noted.", repeat: forever}
  - {text: "Nothing is known.", repeat: forever}
"""


def test_the_user_and_the_model_give_it_tasks(open_terminal: OpenTerminal, user: User) -> None:
    terminal = open_terminal(user=user, columns=100, rows=50)
    put(terminal.home, ".config/kogniterm/agents/keeper.md", KEEPER)
    put(terminal.folder, "keeper", "a file beside\n")
    model = scripted(terminal, SCRIPT)
    open_prompt(terminal, f"kogniterm --model {model}")
    terminal.until(lambda: "there is no tool NoSuchTool" in flat(terminal.text))
    assert "permissionMode is ignored; your approval applies" in flat(terminal.text)
    shown = say(terminal, "/agents", "To call one: @keeper TASK")
    assert "@keeper  Keeps notes" in shown
    assert "Tools: execute_command" in shown
    say(terminal, "/agents show keeper", "Write every note into notes.txt.")
    assert b"\x1b]0;title" not in terminal.raw
    terminal.send("@ke")
    terminal.until("Keeps notes")
    terminal.send("\x15")
    say(terminal, "@keeper write milk")
    shown = answer(terminal, "$ echo milk >> notes.txt", "n")
    assert "Proposed by the sub-agent keeper, for the task: write milk" in flat(shown)
    terminal.send("\r")
    terminal.until("Rejected: echo milk")
    assert not (terminal.folder / "notes.txt").exists()
    say(terminal, "@keeper write milk")
    with turn_end(terminal):
        answer(terminal, "$ echo milk >> notes.txt", "y")
        terminal.until("Milk is noted.")
    say(terminal, "is milk noted?", "Yes: milk is noted.")
    say(terminal, "hand it over")
    with turn_end(terminal):
        answer(terminal, "$ echo milk >> notes.txt", "y")
        terminal.until("The keeper did it.")
    assert "sub-agent 1, keeper: write milk" in terminal.text
    say(terminal, "@./keeper is here", "I saw the file.")
    assert leave(terminal) == 0
    # A script gives it tasks too, and what nobody approves does not run.
    status, shown = terminal.run(f"kogniterm run -y --model {model} '@keeper write milk' 2>&1")
    assert (status, "Milk is noted." in shown) == (0, True), shown
    assert "keeper: write milk" in shown
    assert (terminal.folder / "notes.txt").read_text() == "milk\n" * 3
    line = f"kogniterm run --model {model} '@keeper write milk' < /dev/null"
    assert terminal.run(line)[0] == 3
    line = f"kogniterm run -y --model {model} 'plan it' 2>&1"
    status, shown = terminal.run(line)
    assert (status, "The plan is done." in shown) == (0, True), shown
    put(terminal.home, ".config/kogniterm/config.toml", 'tools_off = ["execute_command"]\n')
    status, shown = terminal.run(f"kogniterm run -y --model {model} '@keeper write milk' 2>&1")
    assert (terminal.folder / "notes.txt").read_text() == "milk\n" * 4
