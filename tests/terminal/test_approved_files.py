"""A command does not start if a file that decides its effect changed after the approval."""

from __future__ import annotations

from pathlib import Path

from tests.support.real_terminal import User
from tests.terminal.conftest import OpenTerminal


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
