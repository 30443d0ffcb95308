"""`kill -9` at any moment: nothing runs twice, nothing is left running, and the user decides."""

from __future__ import annotations

import os
import signal
import sqlite3

from tests.support.real_terminal import RealTerminal, User
from tests.support.typing_user import (
    anew,
    answer,
    asked,
    nap,
    put,
    result_of,
    running,
    say,
    scripted,
)
from tests.terminal.conftest import OpenTerminal

NAP = nap()
SCRIPT = """replies:
  - {when: {last_contains: start}, run: "echo x >> begun; echo begun; NAP"}
  - {when: {tool: execute_command, last_contains: unknown}, text: "I checked: it had begun."}
  - {when: {last_contains: ask me}, run: "echo asked >> asked"}
  - {when: {tool: execute_command, last_contains: exit}, text: "It was asked again."}
  - {text: "All right.", repeat: forever}
""".replace("NAP", NAP)


def kept_draft(terminal: RealTerminal) -> str:
    """Return the text that was typed and not sent, as the only session keeps it."""
    with sqlite3.connect(terminal.home / ".local/share/kogniterm/kogniterm.db") as rows:
        return str(rows.execute("SELECT draft FROM sessions").fetchone()[0])


def kill(terminal: RealTerminal, command: str) -> None:
    """Kill the process of this terminal that was started with `command`."""
    (pid,) = (pid for pid in running(command) if os.getsid(pid) == terminal.pid)
    os.kill(pid, signal.SIGKILL)


def test_a_killed_command_is_unknown_and_never_runs_again_by_itself(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=120)
    model = scripted(terminal, SCRIPT)
    begun = terminal.folder / "begun"
    killer = "while ! [ -e begun ]; do sleep 0.05; done; sleep 0.3; kill -9 $(cat pid)"
    script = f"echo $$ > pid; ({killer}) & exec kogniterm run -y --no-sandbox --model {model} start"
    put(terminal.folder, "die.sh", script)
    status, shown = terminal.run("bash die.sh")
    assert status == 137, shown
    terminal.until(lambda: not running(NAP))
    # Unattended it stays unknown, and the exit status says that a user is needed.
    unattended = f"kogniterm run --resume last --model {model} --output json"
    assert terminal.run(f"{unattended} < /dev/null > out.json")[0] == 3
    result = result_of(terminal.folder / "out.json")
    assert result["stop"] == "unknown"
    assert begun.read_text() == "x\n"


def test_a_user_decides_what_becomes_of_it(open_terminal: OpenTerminal, user: User) -> None:
    terminal = open_terminal(user=user, columns=120)
    model = scripted(terminal, SCRIPT)
    begun = terminal.folder / "begun"
    terminal.start(f"bash -c 'echo $$ > pid; exec kogniterm --model {model}'")
    terminal.until(" · ask")
    say(terminal, "start")
    answer(terminal, NAP, "y")
    terminal.until(lambda: begun.exists() and "│ begun" in terminal.text)
    other = open_terminal(user=user)
    other.run("kill -9 $(cat pid)")
    terminal.until("Killed")
    terminal.send("stty sane; clear\r")
    terminal.until(lambda: len(terminal.shown) == 1)
    # The session and its state are shown, with the output printed so far.
    terminal.start(f"kogniterm resume last --model {model}")
    terminal.until("unknown")
    terminal.until("[c]")
    assert "begun" in terminal.text.rsplit("unknown", 1)[1]
    terminal.look()
    terminal.send("c")
    terminal.until("I checked: it had begun.")
    assert begun.read_text() == "x\n"
    # An open question is asked again, and a draft is restored to the input line.
    say(terminal, "ask me")
    asked(terminal, "echo asked")
    with anew(terminal, "Killed"):
        kill(terminal, "kogniterm resume")
    terminal.send("stty sane; clear\r")
    terminal.until(lambda: len(terminal.shown) == 1)
    terminal.start(f"kogniterm resume last --model {model}")
    answer(terminal, "echo asked", "y")
    terminal.until("It was asked again.")
    assert (terminal.folder / "asked").read_text() == "asked\n"
    terminal.send("half a thought")
    terminal.until(lambda: kept_draft(terminal) == "half a thought")
    with anew(terminal, "Killed"):
        kill(terminal, "kogniterm resume")
    terminal.send("stty sane; clear\r")
    terminal.until(lambda: len(terminal.shown) == 1)
    terminal.start(f"kogniterm resume last --model {model}")
    terminal.until(lambda: any(line == "› half a thought" for line in terminal.shown))
    terminal.send("\x03\x04")
    assert terminal.status() == 0
