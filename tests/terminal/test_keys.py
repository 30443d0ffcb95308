"""The keys of the prompt, and the effect of Ctrl-C, Ctrl-Z, Esc and Ctrl-D on running work."""

from __future__ import annotations

import signal

from tests.support.real_terminal import RealTerminal, User
from tests.support.typing_user import (
    anew,
    answer,
    is_working,
    leave,
    open_prompt,
    put,
    say,
    screen,
    scripted,
)
from tests.terminal.conftest import OpenTerminal

WAITS = "until [ -e {0} ]; do sleep 0.05; done; echo {0} came"
SCRIPT = f"""delays: true
replies:
  - {{when: {{tool: execute_command, any_contains: think long}}, text: "Never.", delay: 600}}
  - {{when: {{last_contains: think long}}, run: "{WAITS.format("thought")}"}}
  - {{when: {{last_contains: go one}}, run: "{WAITS.format("one")}"}}
  - {{when: {{last_contains: go two}}, run: "{WAITS.format("two")}"}}
  - {{when: {{last_contains: go three}}, run: "{WAITS.format("three")}"}}
  - {{when: {{last_contains: go four}}, run: "{WAITS.format("four")}"}}
  - {{when: {{last_contains: go five}}, run: "{WAITS.format("five")}"}}
  - {{when: {{last_contains: mind the gap}}, text: "The steering was heard."}}
  - {{when: {{last_contains: mind the door}}, text: "All right. The door."}}
  - {{when: {{last_contains: later}}, text: "The queue was sent.", repeat: 3}}
  - {{when: {{last_contains: at once}}, text: "It was sent at once."}}
  - {{when: {{last_contains: "first line\\nsecond line"}}, text: "Both lines came.", repeat: 2}}
  - {{when: {{last_contains: written elsewhere}}, text: "The editor was used."}}
  - {{text: "All right.", repeat: forever}}
"""


def line(terminal: RealTerminal) -> str:
    """Return the text on the prompt's line."""
    prompts = [shown for shown in terminal.shown if shown.startswith("›")]
    return prompts[-1][1:].strip() if prompts else ""


def on_line(terminal: RealTerminal, text: str) -> None:
    terminal.until(lambda: line(terminal) == text)


def complete_letters(terminal: RealTerminal) -> None:
    """Complete the name of the file letters.txt behind @, and empty the line again."""
    terminal.send("see @lett")
    terminal.until("letters.txt")
    terminal.send("\t")
    terminal.until(lambda: line(terminal).startswith("see @letters.txt"))
    terminal.send("\x03")
    on_line(terminal, "")


def test_keys_at_the_prompt(open_terminal: OpenTerminal, user: User) -> None:
    terminal = open_terminal(user=user, columns=120)
    editor = put(terminal.home, "editor", '#!/bin/sh\necho written elsewhere >> "$1"\n')
    editor.chmod(0o755)
    put(terminal.folder, "letters.txt", "a\n")
    terminal.run(f"export VISUAL={editor}")
    open_prompt(terminal, f"kogniterm --model {scripted(terminal, SCRIPT)}")
    terminal.send("first line\x1b\rsecond line")
    terminal.until("second line")
    with anew(terminal, "Both lines came."):
        terminal.send("\r")
    terminal.send("first line\\\r")
    terminal.send("second line")
    with anew(terminal, "Both lines came."):
        terminal.send("\r")
    terminal.send("not this")
    on_line(terminal, "not this")
    terminal.send("\x03")
    on_line(terminal, "")
    terminal.send("draft: ")
    on_line(terminal, "draft:")
    terminal.send("\x18\x05")
    terminal.until("written elsewhere")
    terminal.until(lambda: screen(terminal).rstrip().count("written elsewhere") > 0)
    with anew(terminal, "The editor was used."):
        terminal.send("\r")
    terminal.send("/he\t")
    on_line(terminal, "/help")
    terminal.send("\x03")
    on_line(terminal, "")
    complete_letters(terminal)
    terminal.send("\x12dra")
    terminal.until(lambda: "draft:" in screen(terminal).rsplit("tokens", 2)[-2])
    terminal.send("\x07")
    for mode in ("accept edits", "auto in sandbox", "plan only", "ask"):
        terminal.send("\x1b[Z")
        terminal.until(lambda mode=mode: f" {mode}: " in terminal.shown[-1])
    terminal.send("\x0c")
    terminal.until(lambda: "Both lines" not in screen(terminal))
    terminal.send("\x1a")
    assert terminal.status() == 128 + signal.SIGTSTP
    assert terminal.run("echo in the shell")[0] == 0
    with anew(terminal, " · ask"):
        terminal.start("fg")
    say(terminal, "hello", "All right.")
    terminal.send("words")
    on_line(terminal, "words")
    terminal.send("\x04")
    terminal.pause(0.3)
    assert line(terminal) == "words"
    terminal.send("\x03")
    on_line(terminal, "")
    assert leave(terminal) == 0


def test_keys_while_a_turn_runs(open_terminal: OpenTerminal, user: User) -> None:
    terminal = open_terminal(user=user, columns=120)
    open_prompt(terminal, f"kogniterm --model {scripted(terminal, SCRIPT)}")
    folder = terminal.folder

    def start(word: str) -> None:
        say(terminal, f"go {word}")
        answer(terminal, f"-e {word}", "y")
        terminal.until(lambda: f"╭ $ until [ -e {word} ]" in terminal.text)

    start("one")
    terminal.send("\x1b[Z")
    terminal.until(lambda: " accept edits: " in terminal.shown[-1])
    terminal.send("later, please\r")
    terminal.until("later, please")
    terminal.send("\x1b[1;3A")
    on_line(terminal, "later, please")
    terminal.send("\r")
    terminal.send("mind the gap\x13")
    on_line(terminal, "")
    put(folder, "one", "")
    terminal.until("The steering was heard.")
    terminal.until("The queue was sent.")
    # Ctrl-C stops the command and the model is told; the turn continues.
    start("two")
    say(terminal, "/steer mind the door", while_working=True)
    terminal.pause(0.3)
    with anew(terminal, "All right. The door."):
        terminal.send("\x03")
    assert "✗ stopped" in terminal.text
    # Esc does the same.
    start("three")
    with anew(terminal, "All right."):
        terminal.send("\x1b")
    # Ctrl-B leaves it running as a job.
    start("five")
    with anew(terminal, "All right."):
        terminal.send("\x02")
    put(folder, "five", "")
    say(terminal, "/jobs", "-e five")
    # Ctrl-T stops the turn and sends the waiting message.
    start("four")
    terminal.send("at once!\r")
    terminal.pause(0.3)
    terminal.send("\x14")
    terminal.until("It was sent at once.")
    assert "│ four came" not in terminal.text
    # `exit` alone leaves, as in a shell; `!exit` is the shell's.
    say(terminal, "!exit")
    terminal.until(lambda: not is_working(terminal))
    terminal.send("exit\r")
    assert terminal.status() == 0


def test_ctrl_z_holds_a_running_command_and_esc_twice_ends_the_turn(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=120)
    open_prompt(terminal, f"kogniterm --model {scripted(terminal, SCRIPT)}")
    say(terminal, "go one")
    answer(terminal, "-e one", "y")
    terminal.until("╭ $ until")
    terminal.send("\x1a")
    assert terminal.status() == 128 + signal.SIGTSTP
    assert terminal.run("echo meanwhile; touch one")[0] == 0
    with anew(terminal, "All right."):
        terminal.start("fg")
    assert "one came" in terminal.text
    say(terminal, "go two")
    answer(terminal, "-e two", "s")
    terminal.until("The turn was stopped.")
    on_line(terminal, "go two")
    terminal.send("\x03")
    on_line(terminal, "")
    # Esc twice ends a command and its turn, and restores the typed text too.
    say(terminal, "think long")
    answer(terminal, "-e thought", "y")
    terminal.until("╭ $ until [ -e thought ]")
    with anew(terminal, "The turn was stopped."):
        terminal.send("\x1b\x1b")
    on_line(terminal, "think long")
    terminal.send("\x03")
    on_line(terminal, "")
    assert leave(terminal) == 0
