"""Shell state of a sandboxed command never reaches the user's own commands: real terminals."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.programs import require_sandbox
from tests.support.real_terminal import User
from tests.terminal.conftest import OpenTerminal

STEPS = """
replies:
- run: "printf '#!/bin/sh\\necho planted\\n' > date; chmod +x date; mkdir sub; cd sub"
- run: "date() { echo planted; }; export PATH=$PWD/..:$PATH A=planted; trap 'echo planted' DEBUG"
- text: The shell is prepared.
- run: "trap - DEBUG; echo in${A+side}; date > ../said"
- text: The shell was used.
"""


@pytest.mark.parametrize("kind", ["bubblewrap", "landlock"])
def test_a_command_of_the_users_own_runs_as_if_no_sandboxed_one_had(
    open_terminal: OpenTerminal, user: User, place: Path, kind: str
) -> None:
    project = place / "project"
    project.mkdir()
    (project / "steps.yaml").write_text(STEPS)
    terminal = open_terminal(user=user, environment={"KOGNITERM_SANDBOX": kind})
    require_sandbox(kind)
    said = terminal.run("kogniterm doctor")[1]
    assert re.search(rf"sandbox: {kind} works", said, re.IGNORECASE), said
    terminal.start("kogniterm --auto-approve --model scripted:steps.yaml")
    terminal.until("auto in sandbox")
    terminal.send("go\r")
    terminal.until("The shell is prepared.")
    terminal.send("!date +year-%Y; echo a-${A-unset} ${PWD##*/}\r")
    terminal.until("year-2")
    terminal.until("a-unset sub")
    terminal.until("made to A, PATH, date do not apply")
    terminal.send("go on\r")
    terminal.until("The shell was used.")
    terminal.until("inside")
    assert (project / "said").read_text() == "planted\n"
    terminal.send("/quit\r")
    assert terminal.status() == 0
