"""The sandbox as a user meets it: in a real terminal, by doctor, `run -y` and the REPL."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.real_terminal import User
from tests.terminal.conftest import OpenTerminal

KINDS = {"bubblewrap": "bubblewrap", "landlock": "Landlock"}
STEPS = """
replies:
- run: python3 -c "print(6 * 7)" > made; cat made
- run: python3 -c "open('../outside', 'w')"
- text: Both steps were tried.
"""


@pytest.mark.parametrize("kind", KINDS)
def test_a_sandbox_is_found_from_a_terminal(
    open_terminal: OpenTerminal, user: User, place: Path, kind: str
) -> None:
    (place / "project").mkdir()
    (place / "project" / "steps.yaml").write_text(STEPS)
    terminal = open_terminal(user=user, environment={"KOGNITERM_SANDBOX": kind})
    _, said = terminal.run("kogniterm doctor")
    if f"sandbox: {kind} does not work" in said:
        assert "Operation not permitted" not in said
        pytest.skip(f"{kind} does not work on this machine")
    assert f"sandbox: {KINDS[kind]} works" in said
    status, said = terminal.run("kogniterm run -y --model scripted:steps.yaml go")
    assert "42" in said
    assert "Both steps were tried." in said
    assert (place / "project" / "made").read_text() == "42\n"
    assert not (place / "outside").exists()
    assert status == 0


@pytest.mark.parametrize("kind", KINDS)
def test_the_repl_in_auto_mode_runs_in_the_sandbox(
    open_terminal: OpenTerminal, user: User, place: Path, kind: str
) -> None:
    (place / "project").mkdir()
    (place / "project" / "steps.yaml").write_text(STEPS)
    terminal = open_terminal(user=user, environment={"KOGNITERM_SANDBOX": kind})
    if f"sandbox: {kind} does not work" in terminal.run("kogniterm doctor")[1]:
        pytest.skip(f"{kind} does not work on this machine")
    terminal.start("kogniterm --auto-approve --model scripted:steps.yaml")
    terminal.until("auto-approve")
    terminal.send("go\r")
    terminal.until("Both steps were tried.")
    assert (place / "project" / "made").read_text() == "42\n"
    assert not (place / "outside").exists()
    terminal.send("/quit\r")
    assert terminal.status() == 0


def test_planted_files_are_shown_on_the_screen(
    open_terminal: OpenTerminal, user: User, place: Path
) -> None:
    (place / "project").mkdir()
    (place / "project" / "steps.yaml").write_text(
        "replies: [{run: 'python3 plant.py'}, {text: Done.}]"
    )
    (place / "project" / "plant.py").write_text(
        "import os\nos.mkdir('.vscode')\nopen('.vscode/tasks.json', 'w').close()\n"
    )
    terminal = open_terminal(user=user)
    if "no sandbox works here" in terminal.run("kogniterm doctor")[1]:
        pytest.skip("no sandbox works on this machine")
    _, said = terminal.run("kogniterm run -y --model scripted:steps.yaml go")
    words = " ".join(said.split())
    assert ".vscode/tasks.json (appeared)" in words
