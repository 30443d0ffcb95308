"""Going back at a real terminal: Esc twice or /rewind, in the conversation and the files."""

from __future__ import annotations

from tests.support.real_terminal import RealTerminal, User
from tests.support.typing_user import (
    anew,
    answer,
    leave,
    open_prompt,
    put,
    say,
    scripted,
)
from tests.terminal.conftest import OpenTerminal

SCRIPT = """replies:
  - when: {last_contains: write}
    run: echo two > notes.txt && rm old.txt
  - when: {last_contains: publish}
    run: python3 -c "open('made', 'w')"
  - {text: "All right.", repeat: forever}
"""


def prepared(terminal: RealTerminal) -> str:
    """Do two tasks, one that changes two files and one that runs code; return the model."""
    put(terminal.folder, "notes.txt", "one\n")
    put(terminal.folder, "old.txt", "old\n")
    model = scripted(terminal, SCRIPT)
    open_prompt(terminal, f"kogniterm --model {model}")
    for task, command in (("write the notes", "rm old.txt"), ("publish it", "python3 -c")):
        say(terminal, task)
        answer(terminal, command, "y")
        terminal.until("All right.")
    return model


def below_line(terminal: RealTerminal) -> str:
    """Return the last line of the screen: the status line, or a hint in its place."""
    return terminal.shown[-1]


def test_esc_twice_goes_back_in_the_conversation_and_the_files(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=100)
    model = prepared(terminal)
    terminal.until(lambda: " · ask" in below_line(terminal))
    terminal.send("\x1b")
    terminal.until("Press Esc again to go back")
    terminal.send("\x1b")
    terminal.until("Go back to before which message?")
    assert "publish it" in terminal.text
    assert "2 files +1 -2 · 1 action" in terminal.text
    terminal.look()
    terminal.send("\x1b[B")
    terminal.until(lambda: any("▸" in line and "write" in line for line in terminal.shown))
    terminal.send("\r")
    terminal.until("Files to restore:")
    assert "notes.txt  changed since: +1 -1" in terminal.text
    assert "old.txt  deleted since; comes back" in terminal.text
    assert "runs code: python3" in terminal.text
    terminal.look()
    with anew(terminal, "-one"):
        terminal.send("d")
    terminal.look()
    terminal.send("b")
    terminal.until("The conversation went back.")
    assert (terminal.folder / "notes.txt").read_text() == "one\n"
    assert (terminal.folder / "old.txt").read_text() == "old\n"
    # The message is on the line again, to be sent as it is or changed.
    terminal.until(lambda: any(line.startswith("› write the notes") for line in terminal.shown))
    with anew(terminal, "All right."):
        terminal.send(", please\r")
    assert leave(terminal) == 0
    # A resumed session does not show the turns that were taken back.
    sent, taken_back = (terminal.text.count(f"› {one}") for one in ("write", "publish"))
    open_prompt(terminal, f"kogniterm resume last --model {model}")
    terminal.until("Session resumed")
    assert terminal.text.count("› write") == sent + 1
    assert terminal.text.count("› publish") == taken_back
    assert leave(terminal) == 0
    status, shown = terminal.run("kogniterm audit verify")
    assert status == 0, shown
