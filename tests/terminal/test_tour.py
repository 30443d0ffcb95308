"""The scripted tour: at a prompt, by itself, in plain lines, and without a terminal."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.support.real_terminal import User
from tests.support.typing_user import anew, answer, is_working, leave, screen
from tests.terminal.conftest import OpenTerminal

LABEL = "replies are written in advance; the commands really run, in a temporary folder."


def found_below(folder: Path) -> set[str]:
    """Return the names of everything below a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def flat(text: str) -> str:
    """Return a screen as one line, without the breaks that its width makes."""
    return " ".join(text.split())


@pytest.fixture
def temporary(place: Path) -> Path:
    """Return an empty folder for temporary files that every user can write to."""
    folder = place / "temporary"
    folder.mkdir()
    folder.chmod(0o777)
    return folder


def test_the_user_takes_the_tour_and_nothing_of_it_stays(
    open_terminal: OpenTerminal, user: User, temporary: Path
) -> None:
    # Neither settings nor keys of the user's have a say in it.
    mine = {"TMPDIR": str(temporary), "KOGNITERM_MODEL": "openai:none", "KOGNITERM_MAX_STEPS": "1"}
    terminal = open_terminal(user=user, environment=mine, columns=80)
    terminal.start("kogniterm tour")
    terminal.until("Press Enter to send the task.")
    terminal.until("delete last year's logs")
    assert LABEL in flat(terminal.text)
    terminal.send("\r")
    answer(terminal, "Tour 1/5: Nothing runs before you approve the plan. Press y to start.", "y")
    changed = answer(terminal, "Tour 2/5", "y")
    assert "-port = 80800" in changed
    assert "+port = 8080" in changed
    deleting = answer(terminal, "Tour 3/5", "y")
    assert "Deletes logs/2025: 2 files" in deleting
    answer(terminal, "Tour 4/5", "y")
    terminal.until("✓ s3 Check both changes")
    terminal.until("Tour 5/5: Type /undo and press Enter to restore the deleted logs.")
    terminal.until(lambda: not is_working(terminal))
    terminal.send("/undo\r")
    answer(terminal, "Restore the files as they were", "y")
    terminal.until("Restored: logs/2025")
    terminal.until("The tour ends here. Press Ctrl-D to leave.")
    assert leave(terminal) == 0
    assert flat(terminal.text).count(LABEL) == 2
    assert "--resume" not in terminal.text
    assert found_below(temporary) == found_below(terminal.home) == set()
    assert found_below(terminal.folder) == set()


def test_it_plays_by_itself_until_a_key_ends_it(
    open_terminal: OpenTerminal, temporary: Path
) -> None:
    terminal = open_terminal(environment={"TMPDIR": str(temporary)}, columns=60)
    terminal.start("kogniterm tour --auto --lang es")
    terminal.until("Demostración 2/5")
    terminal.send("\x1b")
    assert terminal.status() == 130
    assert found_below(temporary) == found_below(terminal.home) == set()


def test_without_a_terminal_the_session_is_printed(
    open_terminal: OpenTerminal, temporary: Path
) -> None:
    terminal = open_terminal(environment={"TMPDIR": str(temporary)})
    status, _said = terminal.run("kogniterm tour < /dev/null > transcript")
    assert status == 0
    text = (terminal.folder / "transcript").read_text("utf-8")
    assert "\x1b" not in text
    assert flat(text).count(LABEL) == 2
    for line in ("$ rm -r logs/2025", "-port = 80800", "+ s3 Check both changes", "Restored: logs"):
        assert line in text
    # A reader that has seen enough ends it.
    seen = "kogniterm tour < /dev/null | head -n 1; exit=${PIPESTATUS[0]}; (exit $exit)"
    status, said = terminal.run(seen)
    assert status == 128 + signal.SIGPIPE
    assert "KogniTerm" in said
    assert found_below(temporary) == set()


def test_a_first_start_offers_the_tour(open_terminal: OpenTerminal, temporary: Path) -> None:
    terminal = open_terminal(environment={"TMPDIR": str(temporary)})
    terminal.start("kogniterm")
    terminal.until(lambda: "[1-" in screen(terminal))
    offer = next(line for line in terminal.shown if "Take the tour first" in line)
    terminal.look()
    terminal.send(offer.strip("›> ")[0])
    terminal.until("Press Enter to send the task.")
    terminal.until("delete last year's logs")
    terminal.send("\r")
    answer(terminal, "Tour 1/5", "y")
    with anew(terminal, "Choose a model to start with"):
        answer(terminal, "Tour 2/5", "\x03")
    assert "The folder was removed." in terminal.text
    terminal.until(lambda: "[1-" in screen(terminal))
    terminal.look()
    terminal.send("\x1b")
    assert terminal.status() == 2
    assert found_below(temporary) == set()
