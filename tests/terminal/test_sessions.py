"""Saved sessions: listed, read, searched, copied, transferred, replayed and deleted."""

from __future__ import annotations

import json
import re

from tests.support.real_terminal import User
from tests.support.typing_user import anew, has_prompt, leave, open_prompt, say, scripted
from tests.terminal.conftest import OpenTerminal

SCRIPT = """replies:
  - {run: "cat notes.txt && date +%N > stamp.txt", purpose: Read the notes.}
  - {text: "They speak of a pelícan."}
"""


def test_a_session_is_found_read_carried_elsewhere_and_deleted(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=120)
    model = scripted(terminal, SCRIPT)
    once = f"kogniterm run -y --no-sandbox --model {model}"
    terminal.run("echo alpha > notes.txt")
    assert terminal.run(f"{once} 'what do the notes say?'")[0] == 0
    there = f"mkdir else; {once} -C else --memory session"
    assert terminal.run(f"{there} 'and over here?' < /dev/null")[0] == 0
    sessions = "kogniterm sessions"
    _, shown = terminal.run(f"{sessions} list --here --json")
    assert "over here" not in shown
    _, shown = terminal.run(f"{sessions} list")
    assert "what do the notes say?" in shown
    assert "and over here?" in shown
    # A part of the title selects one; words are found by their beginning, without accents.
    status, shown = terminal.run(f"{sessions} show 'what do the notes'")
    assert (status, "They speak of a pelícan." in shown) == (0, True)
    _, shown = terminal.run(f"{sessions} search PELICA notes")
    assert "what do the notes say?" in shown
    steps = [
        f"{sessions} rename 'what do' 'The notes'",
        f"{sessions} fork 'The notes' --turn 1",
        f"{sessions} export 'The notes' --to one.jsonl",
        f"{sessions} export 'The notes' --format markdown --to one.md",
        f"{sessions} export 'The notes' --format atif --to one.json",
        f"{sessions} report 'The notes' --to report.json",
        f"{sessions} import one.jsonl --as-new",
        f"{sessions} import report.json --as-new",
        "kogniterm audit verify",
        "kogniterm replay one.jsonl",
        "kogniterm replay report.json",
    ]
    for step in steps:
        status, shown = terminal.run(step)
        assert status == 0, shown
    assert "The run is the same as the record." in shown
    assert "They speak of a pelícan." in (terminal.folder / "one.md").read_text()
    steps_of_it = json.loads((terminal.folder / "one.json").read_text())["steps"]
    assert steps_of_it[0]["message"] == "what do the notes say?"
    assert steps_of_it[-1]["message"] == "They speak of a pelícan."
    stamp = (terminal.folder / "stamp.txt").read_text()
    _, shown = terminal.run("kogniterm replay 'The notes' --live; kogniterm storage check")
    assert (terminal.folder / "stamp.txt").read_text() == stamp
    assert "5 sessions" in shown
    # Deleting asks first; then nothing of the session is left in the database.
    terminal.run("KOGNITERM_DATA_DIR=$HOME/other kogniterm sessions import one.jsonl")
    assert (terminal.home / "other" / "kogniterm.db").exists()
    terminal.start(f"{sessions} delete 'and over'")
    terminal.until("[yes/no]")
    assert "over here" in terminal.text
    terminal.send("y\r")
    assert terminal.status() == 0
    assert terminal.run(f"{sessions} show 'and over'")[0] == 2
    data = terminal.home / ".local/share/kogniterm"
    assert all(b"over here" not in file.read_bytes() for file in data.glob("kogniterm.db*"))


def test_a_session_goes_on_and_belongs_to_one_process_at_a_time(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=120)
    model = scripted(terminal, "replies: [{text: 'You said it {N}.', repeat: forever}]")
    open_prompt(terminal, f"kogniterm --model {model}")
    say(terminal, "the first thing", "You said it")
    other = open_terminal(user=user, columns=120)
    status, shown = other.run(f"kogniterm run --resume last --model {model} more")
    assert status != 0
    assert "the first thing" in shown or "open" in shown
    say(terminal, "/fork", "copy")
    say(terminal, "/rename The copy", "The copy")
    say(terminal, "/export jsonl mine.jsonl", "exported")
    say(terminal, "/bug bug.json", "bug.json")
    say(terminal, "/new")
    say(terminal, "something else", "You said it")
    with anew(terminal, "› the first thing"):
        say(terminal, "/resume The copy")
    terminal.until("Session resumed: The copy")
    say(terminal, "/compact", "Compacting freed no space")
    assert leave(terminal) == 0
    # Compacted messages are still in the journal.
    assert "> the first thing" in terminal.run("kogniterm sessions show 'The copy'")[1]
    assert terminal.run("kogniterm sessions import mine.jsonl --as-new")[0] == 0
    # Pick one from the list, by words.
    terminal.start(f"kogniterm resume --model {model}")
    terminal.until("Which session do you want to resume?")
    with anew(terminal, "Session resumed: something else"):
        terminal.send("something\r")
    terminal.until(lambda: has_prompt(terminal))
    assert leave(terminal) == 0


COUNTING = """replies:
  - {run: seq 1 30, purpose: Count.}
  - {text: That is **enough**.}
"""


def test_a_resumed_session_shows_its_last_turns_and_leaving_tells_how_to_resume(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=60)
    model = scripted(terminal, COUNTING)
    once = f"kogniterm run -y --no-sandbox --model {model} 'count up'"
    assert terminal.run(once)[0] == 0
    # A session without a turn is dropped without a message, and nothing resumes it.
    open_prompt(terminal, f"kogniterm --model {model}")
    say(terminal, "/mode", "Mode: ask")
    assert leave(terminal) == 0
    assert "Resume this session:" not in terminal.text
    listed = "kogniterm sessions list --json"
    (key,) = re.findall(r'"id": "([0-9a-f]{8})', terminal.run(listed)[1])
    told = f"Resume this session: kogniterm --resume {key}"
    for command in (f"kogniterm --resume {key}", "kogniterm -c", "kogniterm resume last"):
        with anew(terminal, "Session resumed: count up"):
            open_prompt(terminal, f"{command} --model {model}")
        shown = terminal.text.rpartition("/help")[2]
        order = ["› count up", "$ seq 1 30", "lines folded · /output 1", "│ 30", "is enough."]
        assert sorted(order, key=shown.index) == order
        with anew(terminal, told):
            say(terminal, "/new")
        with anew(terminal, "Session resumed: count up"):
            say(terminal, "/resume", "[Enter] resume")
            terminal.send("count\r")
        with anew(terminal, told):
            assert leave(terminal) == 0
    # Replay executes nothing.
    terminal.run(f"kogniterm sessions show {key} > shown.md")
    assert (terminal.folder / "shown.md").read_text().count("seq 1 30") == 1


def test_every_verb_with_output_has_json_output(open_terminal: OpenTerminal, user: User) -> None:
    terminal = open_terminal(user=user, columns=120, rows=60)
    model = scripted(terminal, SCRIPT)
    terminal.run(f"echo a > notes.txt; kogniterm run -y --no-sandbox --model {model} hi")
    verbs = [
        "sessions list",
        "sessions show last",
        "sessions search notes",
        "audit verify",
        "audit show last",
        "memory list",
        "config show",
        "config path",
        "doctor",
        "models list",
        "policy check ls",
        "trust --show",
        "storage check",
        "replay last",
    ]
    loop = f"for v in {' '.join(repr(verb) for verb in verbs)}; do kogniterm $v --json"
    status, shown = terminal.run(f'{loop} > "out-$v.json" || echo "failed: $v"; done')
    failed = [line for line in shown.splitlines() if line.startswith("failed")]
    assert failed in ([], ["failed: doctor"])
    for verb in verbs:
        assert json.loads((terminal.folder / f"out-{verb}.json").read_text()) is not None, verb
    status, shown = terminal.run("kogniterm --lang es sessions show nix --json > error.json")
    error = json.loads((terminal.folder / "error.json").read_text())
    assert (error["exit_code"], status) == (2, 2)
    assert "session" in error["error"]
    assert "sesión" in shown
