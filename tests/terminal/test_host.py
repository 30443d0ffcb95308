"""Contents of the workspace cannot make KogniTerm itself read, write or run something else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.ordinary import hand_over
from tests.support.programs import require
from tests.support.real_terminal import RealTerminal, User
from tests.terminal.conftest import OpenTerminal

PLANTED = ("git", "rg", "bwrap", "python3", "sh", "bash", "env", "setsid", "less", "xclip")


def script(place: Path, *replies: dict[str, Any]) -> str:
    file = place / "script.yaml"
    file.write_text(json.dumps({"replies": [*replies, {"text": "All done."}]}))
    return f"scripted:{file}"


def tool(name: str, **arguments: str) -> dict[str, Any]:
    return {"calls": [{"tool": name, "arguments": arguments}]}


@pytest.fixture
def terminal(open_terminal: OpenTerminal, user: User, place: Path) -> RealTerminal:
    return open_terminal(user=user)


def unattended(terminal: RealTerminal, command: str) -> tuple[int, str]:
    """Run a command unattended; return its exit status and its output."""
    _, said = terminal.run(f"{command} </dev/null 2>&1 | cat; echo status ${{PIPESTATUS[0]}}")
    said, _, status = said.rpartition("status ")
    return int(status), " ".join(said.split())


def test_programs_of_the_workspace_on_path_are_not_started(
    terminal: RealTerminal, place: Path
) -> None:
    """`.venv/bin` stands first on PATH, and a command has put programs there."""
    programs, ran = place / "project" / ".venv" / "bin", place / "project" / "ran"
    programs.mkdir(parents=True)
    for name in PLANTED:
        (programs / name).write_text(f'#!/bin/bash\necho "$0 $*" >> {ran}\nexit 1\n')
        (programs / name).chmod(0o755)
    (place / "project" / "a.txt").write_text("words\n")
    hand_over(place / "project")
    model = script(
        place,
        tool("search_text", pattern="words"),
        tool("find_files", glob="*.txt"),
        tool("edit_file", path="a.txt", old="words", new="other"),
        {"run": "/bin/rm a.txt"},
    )
    require("git")
    terminal.run("/usr/bin/git init -q")
    kogniterm = terminal.run("type -P kogniterm")[1].splitlines()[-1]
    terminal.run(f"PATH={programs}:$PATH; hash -r")
    status, said = unattended(terminal, f"{kogniterm} run -y --no-sandbox --model {model} go")
    assert (status, "All done." in said) == (0, True), said
    terminal.run(f"{kogniterm} doctor")
    assert not ran.exists(), ran.read_text()
    assert not (place / "project" / "a.txt").exists()
