"""Saved sessions: listed, read, searched, copied, carried elsewhere, replayed and deleted."""

from __future__ import annotations

import json

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
    # A part of the title names one; words are found by their beginning, without accents.
    status, shown = terminal.run(f"{sessions} show 'what do the notes'")
    assert (status, "They speak of a pelícan." in shown) == (0, True)
    _, shown = terminal.run(f"{sessions} search PELICA notes")
    assert "what do the notes say?" in shown
    steps = [
        f"{sessions} rename 'what do' 'The notes'",
        f"{sessions} fork 'The notes' --turn 1",
        f"{sessions} export 'The notes' --to one.jsonl",
        f"{sessions} export 'The notes' --format markdown --to one.md",
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
    stamp = (terminal.folder / "stamp.txt").read_text()
    _, shown = terminal.run("kogniterm replay 'The notes' --live; kogniterm storage check")
    assert (terminal.folder / "stamp.txt").read_text() == stamp
    assert "5 sessions" in shown
    # Deleting asks; nothing of it is left in the database.
    terminal.run("KOGNITERM_DATA_DIR=$HOME/other kogniterm sessions import one.jsonl")
    assert (terminal.home / "other" / "kogniterm.db").exists()
    terminal.start(f"{sessions} delete 'and over'")
    terminal.until("[y/N]")
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
    say(terminal, "/sessions", "the first thing")
    say(terminal, "/export jsonl mine.jsonl", "Written")
    say(terminal, "/bug bug.json", "Written")
    say(terminal, "/new")
    say(terminal, "something else", "You said it")
    with anew(terminal, "Your last message: the first thing"):
        say(terminal, "/resume The copy")
    say(terminal, "/compact", "compacted")
    assert leave(terminal) == 0
    # What was compacted is still in the journal.
    assert "> the first thing" in terminal.run("kogniterm sessions show 'The copy'")[1]
    assert terminal.run("kogniterm sessions import mine.jsonl --as-new")[0] == 0
    # Pick one from the list, by words.
    terminal.start(f"kogniterm resume --model {model}")
    terminal.until("something else")
    terminal.pause(0.5)
    terminal.send("something\r")
    terminal.until("Your last message: something else")
    terminal.until(lambda: has_prompt(terminal))
    assert leave(terminal) == 0


def test_everything_that_shows_something_speaks_json(
    open_terminal: OpenTerminal, user: User
) -> None:
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
        "recipe list",
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
