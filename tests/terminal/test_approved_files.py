"""A command does not start if a file that decides its effect changed after the approval."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from kogniterm.host.programs import find_program
from tests.support.real_terminal import User
from tests.terminal.conftest import OpenTerminal

FAKE = "#!/bin/sh\necho ran >> ran.log\n"


def _project(place: Path, command: str, files: dict[str, str]) -> Path:
    project = place / "project"
    project.mkdir(exist_ok=True)
    for name, text in files.items():
        file = project / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
    (place / "script.yaml").write_text(
        f"replies: [{{run: {command!r}, purpose: Build it.}}, {{text: That is all.}}]\n"
    )
    return project


def _started(place: Path, *options: str) -> str:
    return shlex.join(
        ["kogniterm", "run", "--model", f"scripted:{place}/script.yaml", *options, "build it"]
    )


@pytest.mark.parametrize(
    ("command", "before", "changed"),
    [
        ("make", {"Makefile": "all:\n\t@echo ran >> ran.log\n"}, "Makefile"),
        ("make", {"Makefile": "all:\n\t@echo ran >> ran.log\n"}, "GNUmakefile"),
        ("bash < s.sh", {"s.sh": "echo ran >> ran.log\n"}, "s.sh"),
        ("npm run build", {"node_modules/.bin/npm": FAKE, "package.json": "{}"}, "package.json"),
        ("just build", {"bin/just": FAKE, "justfile": "build:\n  true\n"}, "justfile"),
        ("tool", {"bin/tool": FAKE}, "bin/tool"),
    ],
)
def test_a_file_changed_at_the_question_stops_the_start_and_is_named(
    open_terminal: OpenTerminal,
    user: User,
    place: Path,
    command: str,
    before: dict[str, str],
    changed: str,
) -> None:
    if command == "make" and find_program("make") is None:
        pytest.skip("needs make")
    project = _project(place, command, before)
    path = f"{project}/node_modules/.bin:{project}/bin"
    terminal = open_terminal(user=user)
    terminal.run(f'export PATH="{path}:$PATH"')
    terminal.start(_started(place))
    terminal.until("Your decision [y")
    (project / changed).write_text("all:\n\t@echo another >> ran.log\n")
    terminal.send("y\r")
    assert terminal.status() == 3
    assert f"Not run: {changed} changed after the command was checked" in " ".join(
        terminal.text.split()
    )
    assert not (project / "ran.log").exists()


def test_the_prompt_names_the_changed_file(
    open_terminal: OpenTerminal, user: User, place: Path
) -> None:
    project = _project(place, "bash < s.sh", {"s.sh": "echo ran >> ran.log\n"})
    terminal = open_terminal(user=user)
    terminal.start(f"kogniterm --model scripted:{place}/script.yaml")
    terminal.until("scripted")
    terminal.send("build it\r")
    terminal.until("[y] approve")
    (project / "s.sh").write_text("echo another >> ran.log\n")
    terminal.send("y")
    terminal.until("That is all.")
    assert "Not run: s.sh changed after the command was checked" in " ".join(terminal.text.split())
    assert not (project / "ran.log").exists()


def test_what_did_not_change_runs(open_terminal: OpenTerminal, user: User, place: Path) -> None:
    project = _project(place, "bash < s.sh", {"s.sh": "echo ran >> ran.log\n"})
    terminal = open_terminal(user=user)
    terminal.start(_started(place))
    terminal.until("Your decision [y")
    terminal.send("y\r")
    assert terminal.status() == 0
    assert (project / "ran.log").read_text() == "ran\n"
