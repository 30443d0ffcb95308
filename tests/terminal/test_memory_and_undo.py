"""Memory at a real terminal: stored, corrected, forgotten with proof; and undo."""

from __future__ import annotations

import json

import pytest

from kogniterm.memory import open_memory
from kogniterm.memory.update import Candidate
from kogniterm.runtime.build import account_name
from tests.support.fake_gemini import FakeGemini
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


def test_a_sentence_forgets_after_a_question_and_without_a_model(
    open_terminal: OpenTerminal,
) -> None:
    terminal = open_terminal(columns=120)
    data = terminal.home / ".local/share/kogniterm"
    never = "replies: [{text: The model was asked.}]\nat_end: fail\n"
    open_prompt(terminal, f"kogniterm --model {scripted(terminal, never)}")
    for said, word in (
        ("Forget that the staging server is called heron.", "heron"),
        ("olvida que el servidor de pruebas se llama garza", "garza"),
    ):
        fact = said.removesuffix(".").partition(" that " if word == "heron" else " que ")[2]
        say(terminal, f"/memory add {fact}", f"{fact} (")
        assert holding(data, word.encode())
        with anew(terminal, "keep it"):
            say(terminal, said, "KogniTerm asks:")
        assert terminal.text.count(f": {fact}") == 2  # reported when it was added, and asked about
        terminal.look()
        terminal.send("1")
        with anew(terminal, "Proof:"):
            terminal.send("\r")
        terminal.until(lambda: any(line.startswith("›") for line in terminal.shown))
        assert holding(data, word.encode()) == []
    assert "The model was asked." not in terminal.text
    assert "• -" not in terminal.text
    assert "- -" not in terminal.text
    assert leave(terminal) == 0


def test_facts_from_the_shell_travel_and_come_back(open_terminal: OpenTerminal, user: User) -> None:
    terminal = open_terminal(user=user, columns=120)
    memory = "kogniterm memory"
    add = f"{memory} add --slot editor --category preference"
    assert terminal.run(f"{add} I use vim && {add} I use emacs")[0] == 0
    _, shown = terminal.run(f"{memory} list")
    assert "emacs" in shown
    assert "vim" not in shown.replace("I use vim &&", "")
    _, shown = terminal.run(f"{memory} list --all")
    assert "replaced" in shown
    status, _ = terminal.run(f"{memory} export --to facts.jsonl && {memory} export > again.jsonl")
    first = (terminal.folder / "facts.jsonl").read_text()
    assert (status, (terminal.folder / "again.jsonl").read_text()) == (0, first)
    assert [json.loads(line) for line in first.splitlines()]
    put(terminal.folder, "cut.jsonl", "\n".join(first.splitlines()[:-1]) + "\n")
    terminal.run("export KOGNITERM_DATA_DIR=$HOME/elsewhere")
    assert terminal.run(f"{memory} import cut.jsonl --yes")[0] != 0
    assert terminal.run(f"{memory} import facts.jsonl")[0] == 0
    assert "imported" not in terminal.run(f"{memory} list")[1]
    assert terminal.run(f"{memory} import facts.jsonl --yes")[0] == 0
    _, shown = terminal.run(f"{memory} list")
    assert "imported" in shown
    assert terminal.run(f"{memory} export > third.jsonl")[0] == 0
    assert (terminal.folder / "third.jsonl").read_text() == first
    assert terminal.run(f"KOGNITERM_MEMORY=off {memory} list")[0] in {0, 2}
    terminal.start(f"{memory} forget emacs")
    terminal.until("[y/N]")
    terminal.send("y\r")
    status = terminal.status()
    assert "emacs" not in terminal.run(f"{memory} list")[1]
    assert status == 0


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


def test_what_is_said_outright_is_learnt_and_corrected(open_terminal: OpenTerminal) -> None:
    terminal = open_terminal(columns=120)
    open_prompt(terminal, f"kogniterm --model {scripted(terminal, SCRIPT)}")
    say(terminal, "remember that we meet on Tuesdays. remember that tea is at four", "All right.")
    say(terminal, "Actually it's Thursdays", "All right.")
    say(terminal, "never touch the folder migrations", "All right.")
    say(terminal, "never mind, go on", "All right.")
    assert leave(terminal) == 0
    _, shown = terminal.run("kogniterm memory list --json")
    facts = {one["text"].rstrip(".") for one in json.loads(shown)}
    assert facts == {
        "we meet on Thursdays",
        "tea is at four",
        "never touch the folder migrations",
    }


def test_a_model_reads_for_memory_only_when_there_is_something_to_read(
    open_terminal: OpenTerminal, fake_gemini: FakeGemini
) -> None:
    key = "AIza" + "SyTerminalTerminalTerminalTerminal0"
    environment = {"GOOGLE_API_KEY": key, "GOOGLE_GEMINI_BASE_URL": fake_gemini.url}
    terminal = open_terminal(columns=120, environment=environment)
    fake_gemini.say("About half.")
    assert terminal.run("kogniterm run 'how full is the disk?'")[0] == 0
    assert len(fake_gemini.requests) == 1
    fake_gemini.say("Noted.")
    fake_gemini.say(json.dumps({"facts": []}))
    assert terminal.run("kogniterm run 'remember that we deploy on Tuesdays'")[0] == 0
    fake_gemini.say("I see.")
    correction = {
        "text": "The user deploys on Thursdays",
        "quote": "it is Thursdays",
        "category": "fact",
        "confidence": 0.9,
        "relation": "update",
        "known": 1,
    }
    fake_gemini.say(json.dumps({"facts": [correction]}))
    assert terminal.run("kogniterm run -c 'Actually it is Thursdays'")[0] == 0
    assert len(fake_gemini.requests) == 5
    _, shown = terminal.run("kogniterm memory list --json")
    assert [one["text"] for one in json.loads(shown)] == ["The user deploys on Thursdays"]


REPAIR = """replies:
  - {run: make unit}
  - {run: sh tests/unit.sh}
  - {text: "They pass."}
  - {text: "I know how.", repeat: forever}
"""


@pytest.mark.parametrize("columns", [60, 100])
def test_what_worked_instead_is_offered_shown_edited_and_forgotten(
    open_terminal: OpenTerminal, user: User, columns: int
) -> None:
    terminal = open_terminal(user=user, columns=columns)
    data = terminal.home / ".local/share/kogniterm"
    open_prompt(terminal, f"kogniterm --model {scripted(terminal, REPAIR)}")
    put(terminal.folder, "Makefile", "all:\n\ttrue\n")
    put(terminal.folder, "tests/unit.sh", "echo unit ok\n")
    with turn_end(terminal):
        say(terminal, "run the quetzal unit tests", "make unit")
        answer(terminal, "make unit", "y")
        answer(terminal, "tests/unit.sh", "y")
    say(terminal, "/memory lessons", "where a lesson comes from")
    say_task(terminal, "run the quetzal unit tests again", "I know how.")
    say(terminal, "/why", "similar task")
    say(terminal, "/memory show l3", "exit code")
    say(terminal, "/memory edit l3 run tox for the axolotl", "l3: run tox")
    assert holding(data, b"axolotl")
    with anew(terminal, "[y]"):
        say(terminal, "/forget l3")
    terminal.look()
    terminal.send("y")
    terminal.until("Proof:")
    assert leave(terminal) == 0
    assert holding(data / "kogniterm.db", b"axolotl") == []
    _status, shown = terminal.run("kogniterm memory lessons")
    assert "axolotl" not in shown


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


@pytest.mark.parametrize("columns", [60, 100])
def test_a_fact_that_waits_is_asked_about_once_and_words_never_confirm_it(
    open_terminal: OpenTerminal, columns: int
) -> None:
    terminal = open_terminal(columns=columns)
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


def test_on_plain_lines_a_key_decides_and_words_are_a_task(open_terminal: OpenTerminal) -> None:
    terminal = open_terminal(environment={"TERM": "dumb", "LANG": "es_ES.UTF-8"})
    wait_for_confirmation(terminal, BUDGET, "never deploy on Fridays")
    terminal.start(f"kogniterm --model {scripted(terminal, TALK)}")
    terminal.until("¿Recordar esto para más adelante? m1")
    terminal.until("m = decidir después]:")
    terminal.send("sí\r")
    terminal.until("una de las letras")
    terminal.send("sí, hazlo\r")
    terminal.until("I heard you.")
    terminal.until("¿Recordar esto para más adelante? m2")
    terminal.until(lambda: terminal.text.count("decidir después]:") == 3)
    terminal.send("s\r")
    terminal.until("m2 se conserva")
    terminal.send("/quit\r")
    assert terminal.status() == 0
    assert statuses(terminal) == {BUDGET: "pending", "never deploy on Fridays": "active"}


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


def test_the_project_is_scanned_once_trusted_and_corrected(open_terminal: OpenTerminal) -> None:
    terminal = open_terminal(columns=100)
    put(terminal.folder, "pyproject.toml", '[project]\nname="shop"\ndependencies=["flask"]\n')
    put(terminal.folder, "Makefile", "test:\n\ttrue\n")
    _, shown = terminal.run("kogniterm memory project")
    assert "nothing was read there" in shown
    assert terminal.run("kogniterm memory project rescan")[0] == 2
    open_prompt(terminal, f"kogniterm --model {scripted(terminal, SCRIPT)}")
    say(terminal, "/memory project", "nothing was read there")
    assert "Flask" not in terminal.text
    with anew(terminal, "[y]"):
        say(terminal, "/trust", "Trust this folder?")
    terminal.look()
    terminal.send("y")
    terminal.until("Folder trusted")
    say(terminal, "/memory project rescan", "make test")
    assert "Flask" in terminal.text
    say(terminal, '/memory project test "make unit"', "set by you; found: make test")
    say_task(terminal, "run the tests", "All right.")
    with anew(terminal, "you set it with /memory project"):
        say(terminal, "/why", "make unit")
    with anew(terminal, "make unit"):
        say(terminal, "/memory project rescan", "set by you")
    say(terminal, "/memory project reset test", "make test")
    assert leave(terminal) == 0
    assert terminal.run('kogniterm memory project test "make it"')[0] == 0
    _, shown = terminal.run("kogniterm memory project")
    assert "make it" in shown
    _, shown = terminal.run("kogniterm memory export")
    assert "make it" in shown
