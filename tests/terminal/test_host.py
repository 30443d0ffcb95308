"""Contents of the workspace cannot make KogniTerm itself read, write or run something else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.ordinary import hand_over
from tests.support.programs import needs, require
from tests.support.real_terminal import RealTerminal, User
from tests.terminal.conftest import OpenTerminal

PLANTED = ("git", "rg", "bwrap", "python3", "sh", "bash", "env", "setsid", "less", "xclip")
COMMIT = "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x"


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


@pytest.mark.parametrize(
    "call",
    [
        tool("write_file", path="link/.profile", content="evil"),
        tool("write_file", path="notes", content="evil"),
        tool("edit_file", path="link/.bashrc", old="theirs", new="evil"),
        tool("read_file", path="key"),
    ],
)
def test_no_tool_is_led_out_of_the_workspace(
    terminal: RealTerminal, place: Path, call: dict[str, Any]
) -> None:
    home, project = place / "home", place / "project"
    terminal.run("mkdir -m 700 ~/.ssh; echo theirs >~/.bashrc; ln -s ~ link; ln -s ~/.bashrc notes")
    terminal.run("echo PRIVATE >~/.ssh/id_ed25519; ln -s ~/.ssh/id_ed25519 key")
    status, said = unattended(terminal, f"kogniterm run -y --model {script(place, call)} go")
    assert status in (2, 3), said  # 2 where no sandbox works
    assert "PRIVATE" not in said
    assert (home / ".bashrc").read_text() == "theirs\n"
    assert not (home / ".profile").exists()
    assert (project / "notes").is_symlink()


def test_the_question_names_what_a_link_leads_to(terminal: RealTerminal, place: Path) -> None:
    home = place / "home"
    terminal.run("echo theirs >~/letter; ln -s ~ link")
    model = script(place, tool("edit_file", path="link/letter", old="theirs", new="mine"))
    terminal.start(f"kogniterm run --model {model} go")
    terminal.until("Your decision")
    assert f"edit {home}/letter" in terminal.text
    terminal.send("\x03")
    terminal.status()
    assert (home / "letter").read_text() == "theirs\n"


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


@needs("git")
@pytest.mark.parametrize("setting", ["core.fsmonitor", "filter.ev.clean", "hook", "alias.st"])
def test_a_repositorys_programs_are_refused_without_a_sandbox(
    terminal: RealTerminal, place: Path, setting: str
) -> None:
    ran = place / "home" / "ran"
    terminal.run(f"git init -q && {COMMIT} && echo one >a.txt && git add a.txt && {COMMIT}")
    terminal.run(f"printf '#!/bin/sh\\necho ran >> {ran}\\n' >evil && chmod +x evil")
    command = "git status"
    if setting == "hook":
        terminal.run("cp evil .git/hooks/pre-commit")
        command = f"{COMMIT} -a"
    elif setting == "alias.st":
        terminal.run("git config alias.st '!./evil'")
        command = "git st"
    else:
        terminal.run(f"echo '*.txt filter=ev' >.gitattributes; git config {setting} ./evil")
    terminal.run("echo two >a.txt; rm -f ~/ran")
    model = script(place, {"run": command})
    status, said = unattended(terminal, f"kogniterm run -y --no-sandbox --model {model} go")
    assert status == 3, said
    # A narrow terminal breaks lines in the middle of words.
    assert ("pre-commit" if setting == "hook" else setting) in said.replace(" ", "")
    assert not ran.exists()
