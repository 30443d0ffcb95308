"""Memory at a real terminal: stored, corrected, forgotten with proof; and undo."""

from __future__ import annotations

import json

from kogniterm.host.identity import account_name
from kogniterm.memory import open_memory
from kogniterm.memory.fact_records import Candidate
from tests.support.real_terminal import RealTerminal, User
from tests.support.typing_user import (
    anew,
    answer,
    asked,
    has_prompt,
    holding,
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
  - when: {last_contains: deploy}
    text: On Fridays only [m1].
  - when: {last_contains: tidy}
    run: rm notes.txt
  - when: {last_contains: write}
    run: echo two > other.txt
  - {text: "All right.", repeat: forever}
"""


def test_a_fact_is_used_shown_and_really_forgotten(open_terminal: OpenTerminal, user: User) -> None:
    word = "quetzal" + "coatl"
    terminal = open_terminal(user=user, columns=120)
    data = terminal.home / ".local/share/kogniterm"
    open_prompt(terminal, f"kogniterm --model {scripted(terminal, SCRIPT)}")
    say(terminal, "/why", "used no memories")
    say_task(terminal, f"remember that we deploy {word} on Fridays only", "On Fridays only")
    say(terminal, "/memory list", f"deploy {word} on Fridays only")
    say(terminal, "/memory add The staging server is heron", "m2")
    say(terminal, "/memory search staging", "heron")
    say(terminal, "/memory show m2", "confidence")
    say(terminal, "/memory edit m2 The staging server is crane", "crane")
    say(terminal, "/memory pin m1", "m1")
    say_task(terminal, "what do you know?", "All right.")
    say(terminal, "/why", word)
    assert holding(data, word.encode())
    with anew(terminal, "[y]"):
        say(terminal, f"/forget {word}")
    terminal.look()
    terminal.send("y")
    terminal.until("Proof:")
    assert "Cannot be removed: " in terminal.text
    assert holding(data, word.encode()) == []
    assert holding(data, word.upper().encode()) == []
    say(terminal, "/incognito", "Memory is off")
    say(terminal, "remember that the zebra is striped", "All right.")
    assert leave(terminal) == 0
    _, shown = terminal.run("kogniterm memory list --json")
    assert "crane" in shown
    assert word not in shown
    assert "zebra" not in shown
    # Words were removed from the journal, and its chain is still valid.
    status, shown = terminal.run("kogniterm audit verify")
    assert status == 0, shown


def test_what_an_action_changed_comes_back_in_another_process_too(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=120)
    model = scripted(terminal, SCRIPT)
    notes = put(terminal.folder, "notes.txt", "alpha\n")
    put(terminal.folder, "other.txt", "one\n")
    open_prompt(terminal, f"kogniterm --model {model}")
    say(terminal, "tidy up")
    assert "/undo" in answer(terminal, "rm notes.txt", "y")
    terminal.until("All right.")
    assert not notes.exists()
    say(terminal, "/diff", "-alpha")
    assert leave(terminal) == 0
    open_prompt(terminal, f"kogniterm -c --model {model}")
    with anew(terminal, "[y]"):
        say(terminal, "/undo", "-alpha")
    terminal.look()
    terminal.send("y")
    terminal.until("Restored: ")
    assert notes.read_text() == "alpha\n"
    say(terminal, "write it")
    shown = asked(terminal, "echo two")
    assert "Overwrites other.txt" in shown
    with anew(terminal, "✓ exit 0"):
        answer(terminal, "echo two", "y")
    terminal.until(lambda: has_prompt(terminal))
    with anew(terminal, "[y]"):
        say(terminal, "/undo", "1 +two")
    terminal.look()
    terminal.send("y")
    terminal.until(lambda: terminal.text.count("Restored: ") == 2)
    assert (terminal.folder / "other.txt").read_text() == "one\n"
    assert leave(terminal) == 0


# --- facts that wait ---------------------------------------------------------------------------

BUDGET = "the budget of the quetzal project is 1000 euros"
TALK = 'replies: [{text: "I heard you.", repeat: forever}]'


def wait_for_confirmation(terminal: RealTerminal, *texts: str) -> None:
    """Plant facts that were inferred and wait for the user."""
    data = terminal.home / ".local/share/kogniterm"
    key = data / "memory-key"
    with open_memory(
        data, user=account_name(), project=str(terminal.folder), key_file=key, heads=data
    ) as memory:
        for text in texts:
            memory.remember(
                Candidate(text, "constraint", source="inferred", project=str(terminal.folder))
            )


def statuses(terminal: RealTerminal) -> dict[str, str]:
    terminal.run("kogniterm memory list --json > list.json")
    listed = json.loads((terminal.folder / "list.json").read_text())
    return {one["text"]: one["status"] for one in listed}


def test_a_fact_that_waits_is_asked_about_once_and_words_never_confirm_it(
    open_terminal: OpenTerminal,
) -> None:
    terminal = open_terminal(columns=60)
    wait_for_confirmation(terminal, BUDGET, "never deploy on Fridays", "the door is green")
    model = f"kogniterm --model {scripted(terminal, TALK)}"
    terminal.start(model)
    terminal.until("Remember this for later? m1")
    terminal.send("yes\r")
    terminal.until("I heard you.")
    terminal.until("Remember this for later? m")
    terminal.until("[y]")
    terminal.send("yes")
    terminal.look()
    terminal.send("\r")
    terminal.until("A typed answer does not count")
    terminal.send("\x15")
    terminal.look(2)
    terminal.send("y")
    terminal.until("m1 is kept")
    terminal.until("Remember this for later? m2")
    terminal.look(2)
    terminal.send("n")
    terminal.until("m2 is dropped")
    terminal.until("Remember this for later? m3")
    terminal.look(2)
    with turn_end(terminal):
        terminal.send("what is the time?\r")
    assert leave(terminal) == 0
    assert statuses(terminal) == {BUDGET: "active", "the door is green": "pending"}
    open_prompt(terminal, model)
    say_task(terminal, "hello again", "I heard you.")
    assert "for later? m3" not in terminal.text
    assert leave(terminal) == 0


def test_a_run_names_the_command_and_asks_nothing(open_terminal: OpenTerminal) -> None:
    terminal = open_terminal(columns=160)
    wait_for_confirmation(terminal, BUDGET)
    run = f"kogniterm run --model {scripted(terminal, TALK)} 'say yes'"
    status, shown = terminal.run(run)
    assert status == 0
    assert f"Waiting for confirmation: “{BUDGET}”." in shown
    assert "kogniterm memory confirm m1" in shown
    assert "Waiting for" not in terminal.run(run)[1]
    assert statuses(terminal) == {BUDGET: "pending"}


# --- preferences and the project -----------------------------------------------------------------

PREFERRING = """replies:
  - when: {last_contains: list}
    run: ls
  - {text: "All right.", repeat: forever}
"""


def test_preferences_are_set_in_words_and_by_command(open_terminal: OpenTerminal) -> None:
    terminal = open_terminal(columns=100)
    open_prompt(terminal, f"kogniterm --model {scripted(terminal, PREFERRING)}")
    say_task(terminal, "answer briefly from now on", "Undo: /preferences remove verbosity")
    say_task(terminal, "explícame los comandos", "explain_commands = yes")
    say_task(terminal, "can you always answer in Spanish?", "All right.")
    with anew(terminal, "everywhere"):
        say(terminal, "/preferences", "Your preferences")
    assert "language = " not in terminal.text
    say(terminal, "/preferences set language es --project", "language = es")
    say(terminal, "/preferences set verbosty es", "Did you mean verbosity?")
    with anew(terminal, "hard limits"):
        say(terminal, "list the files", "Run this command?")
    terminal.look()
    terminal.send("n")
    terminal.until("Optional reason")
    terminal.send("\r")
    terminal.until("Rejected")
    say(terminal, "/preferences remove verbosity", "Preference removed: verbosity")
    assert leave(terminal) == 0
    status, shown = terminal.run("kogniterm memory prefer")
    assert (status, "language" in shown, "verbosity" in shown) == (0, True, False)
    assert terminal.run("kogniterm memory prefer editor nano --here")[0] == 0
    status, shown = terminal.run("kogniterm memory prefer --json")
    held = json.loads(shown[shown.index("[") : shown.rindex("]") + 1])
    assert {one["name"]: one["value"] for one in held} == {
        "editor": "nano",
        "explain_commands": True,
        "language": "es",
    }
    assert terminal.run("kogniterm memory prefer editor --remove")[0] == 0
    assert terminal.run("kogniterm memory prefer verbosity endless")[0] == 2
