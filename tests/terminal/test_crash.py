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
    leave,
    nap,
    put,
    result_of,
    running,
    say,
    screen,
    scripted,
    turn_end,
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
    terminal.send("stty sane\r")
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


def test_an_unknown_command_is_proposed_again_or_left(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=120)
    count = "replies: [{run: echo x >> count}, {text: All right., repeat: forever}]"
    model = scripted(terminal, count)
    run = f"kogniterm run -y --no-sandbox --model {model}"
    assert terminal.run(f"KOGNITERM_FAULTS=kill:before-outcome {run} go")[0] == 137
    terminal.run("cp -r ~/.local ~/kept")
    model = scripted(terminal, count)
    terminal.start(f"kogniterm resume last --model {model}")
    terminal.until("propose it again")
    terminal.look()
    terminal.send("a")
    answer(terminal, "echo x >> count", "n")
    with turn_end(terminal):
        terminal.send("\r")
    assert leave(terminal) == 0
    terminal.run("rm -rf ~/.local; mv ~/kept ~/.local")
    model = scripted(terminal, "replies: [{text: All right., repeat: forever}]")
    terminal.start(f"kogniterm resume last --model {model}")
    with turn_end(terminal):
        terminal.until(lambda: "[g]" in screen(terminal))
        terminal.look()
        terminal.send("g")
    assert leave(terminal) == 0
    assert (terminal.folder / "count").read_text() == "x\n"


def test_an_outcome_that_could_not_be_stored_is_kept_and_told(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=120)
    spool = terminal.home / ".local/share/kogniterm/spool"
    replies = """replies:
      - {when: {last_contains: go}, run: echo x >> count}
      - {when: {last_contains: outcome unknown}, text: Nobody knows.}
      - {when: {tool: execute_command, last_contains: exit 0}, text: It went well.}
      - {text: It went well before., repeat: forever}
    """
    full = "KOGNITERM_FAULTS=full:before-outcome"
    run = f"kogniterm run -y --no-sandbox --model {scripted(terminal, replies)}"
    status, shown = terminal.run(f"{full} {run} go")
    told = " ".join(shown.split())
    assert status == 1
    assert "The action has ended" in told
    assert "It is saved in" in told
    assert len(list(spool.iterdir())) == 1
    status, shown = terminal.run(f"{run} --resume last </dev/null")
    assert (status, "It went well." in shown) == (0, True), shown
    assert not list(spool.iterdir())
    # At the prompt, the next turn finds it.
    terminal.start(f"{full} kogniterm --auto-approve --model {scripted(terminal, replies)}")
    terminal.until("auto")
    say(terminal, "go")
    terminal.until(lambda: "The action has ended" in terminal.text)
    say(terminal, "what now")
    terminal.until("It went well before.")
    assert "unknown" not in terminal.text
    assert leave(terminal) == 0
    assert (terminal.folder / "count").read_text() == "x\nx\n"


def test_a_changed_byte_in_the_journal_is_found(open_terminal: OpenTerminal, user: User) -> None:
    terminal = open_terminal(user=user, columns=120)
    model = scripted(terminal, "replies: [{run: echo proof}, {text: It is proven.}]")
    run = f"kogniterm run --allow-reads --model {model}"
    assert terminal.run(f"{run} 'first task' && {run} 'second task'")[0] == 0
    status, shown = terminal.run("kogniterm audit verify")
    assert status == 0
    assert shown.count("all as they were written") == 2
    _, shown = terminal.run("kogniterm audit show last")
    assert "$ echo proof" in shown
    assert "ran, exit 0" in shown
    database = terminal.home / ".local/share/kogniterm/kogniterm.db"
    with sqlite3.connect(database) as rows:
        changed = rows.execute(
            "UPDATE records SET payload = replace(payload, 'echo proof', 'echo prove')"
            " WHERE kind = 'intent' AND session_id = (SELECT max(session_id) FROM records)"
        )
        assert changed.rowcount == 1
    status, shown = terminal.run("kogniterm audit verify")
    assert status == 1
    assert shown.count("all as they were written") == 1
    assert "record 8 is broken" in shown
    assert terminal.run("kogniterm storage check")[0] == 1


RECIPE = """name: grow
nodes:
  - {id: one, command: echo one >> grown}
  - {id: two, command: "echo two >> grown; test -e go || NAP"}
  - {id: ask, model: "Is it good?"}
  - {id: three, command: "echo {{nodes.ask.text}} >> grown; cat grown"}
""".replace("NAP", NAP)


def test_a_killed_recipe_continues_at_its_next_node(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=120)
    model = scripted(terminal, 'replies: [{text: "Good.", repeat: forever}]')
    put(terminal.folder, "grow.yaml", RECIPE)
    command = f"kogniterm recipe run ./grow.yaml -y --no-sandbox --model {model}"
    terminal.start(command)
    terminal.until(lambda: bool(running(NAP)))
    kill(terminal, "kogniterm recipe run")
    assert terminal.status() == 137
    terminal.until(lambda: not running(NAP))
    terminal.run("rm grow.yaml; touch go")
    terminal.start(f"kogniterm resume grow --model {model}")
    terminal.until("What should happen with this command?")
    terminal.look()
    terminal.send("a")
    answer(terminal, "echo two >> grown", "y")
    answer(terminal, "cat grown", "y")
    terminal.until("one two two Good.")
    assert leave(terminal) == 0
    grown = (terminal.folder / "grown").read_text().split()
    assert grown == ["one", "two", "two", "Good."]


def test_a_start_repeated_with_the_same_id_does_the_task_once(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=120)
    model = scripted(terminal, SCRIPT)
    killer = "while ! [ -e begun ]; do sleep 0.05; done; sleep 0.3; kill -9 $(cat pid)"
    run = f"kogniterm run -y --no-sandbox --session job-7 --model {model} start"
    put(terminal.folder, "die.sh", f"echo $$ > pid; ({killer}) & exec {run}")
    assert terminal.run("bash die.sh")[0] == 137
    terminal.until(lambda: not running(NAP))
    # The same line again goes on with the task, and once more only shows how it ended.
    for _ in range(2):
        status, shown = terminal.run(f"{run} < /dev/null")
        assert (status, "I checked: it had begun." in shown) == (3, True), shown
    assert "This task has ended before" in shown
    assert (terminal.folder / "begun").read_text() == "x\n"
    status, shown = terminal.run(f"{run.replace('start', 'more')} < /dev/null")
    assert (status, "All right." in shown) == (0, True), shown
    assert terminal.run("kogniterm sessions list")[1].count("job-7") == 1
