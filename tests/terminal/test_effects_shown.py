"""The question lists the files that a command creates, and /undo removes them."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.real_terminal import User
from tests.terminal.conftest import OpenTerminal


def _script(place: Path, command: str) -> str:
    (place / "project").mkdir(exist_ok=True)
    (place / "project" / "old.txt").write_text("old\n")
    (place / "project" / "folder").mkdir(exist_ok=True)
    file = place / "script.yaml"
    file.write_text(f"replies: [{{run: {command!r}, purpose: Copy.}}, {{text: That is all.}}]\n")
    return f"--model scripted:{file}"


def test_the_json_event_names_what_is_created(
    open_terminal: OpenTerminal, user: User, place: Path
) -> None:
    script = _script(place, "cp old.txt folder")
    terminal = open_terminal(user=user)
    command = f"kogniterm run --auto-approve --no-sandbox {script} --output stream-json 'go'"
    status, _ = terminal.run(f"{command} > out.jsonl 2> /dev/null < /dev/null")
    assert status == 0
    lines = (place / "project" / "out.jsonl").read_text().splitlines()
    proposed = [one for one in map(json.loads, lines) if one["type"] == "action_proposed"]
    effects = [(one["kind"], one["target"]) for one in proposed[0]["report"]["effects"]]
    assert ("create", "folder/old.txt") in effects
