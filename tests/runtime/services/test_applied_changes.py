"""Shell state that is applied without a process is what a real shell would have left."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kogniterm.approval.analysis.shell_changes import literal_changes
from kogniterm.execution import open_executor
from kogniterm.execution.executor import CommandExecutor
from kogniterm.execution.sandbox.confinement import Sandbox
from tests.support.executing import PATIENCE, outside_tmp
from tests.support.programs import require_sandbox

COMMANDS = (
    "x=1", "export X=1 Y='a b' Z", "export x", "X=2", "A=3; export B=4", "set -uo pipefail",
    "B=\"q 'w' e\"; C='d\"$`\\x'", "y=\nz='line1\nline2'", "w='é ñ *'", "set +u -C", "D=a=b,c:d",
    "f() { echo \"hi $1\"; }", "g() { f x; } # calls f", "f() { cat <<E\n$1\nE\n}",
)  # fmt: skip
OWN = re.compile(r"declare \S+ (BASH|DIRSTACK|EPOCH|GROUPS|LINENO|PIPESTATUS|PPID|S?RANDOM|SECONDS|"
                 r"SHELLOPTS|TMPDIR|_+[=k])")  # fmt: skip
"""Variables that the shell, or KogniTerm, sets in every command."""


def left(executor: CommandExecutor) -> list[str]:
    look = "declare -p; set +o; f 1; g; declare -f; echo $?"
    lines = executor.run(look, timeout=PATIENCE).text.splitlines()
    return [line for line in lines if not OWN.match(line) and "Max " not in line]


def test_the_shell_is_left_as_a_real_one_leaves_it() -> None:
    found = require_sandbox("auto")
    states = []
    for applies in (True, False):
        with outside_tmp() as place:
            box = Sandbox(found.kind, str(place), str(place), program=found.program)
            with open_executor("/var/tmp", sandbox=box, workspace=place) as executor:
                for command in COMMANDS:
                    changes = literal_changes(command)
                    assert changes
                    assert executor.can_apply(changes)
                    executor.literal = (command, changes) if applies else None
                    result = executor.run(command, timeout=PATIENCE)
                    assert (result.exit_code, result.text) == (0, "")
                    assert ("without a process" in " ".join(result.notes)) == applies
                states.append(left(executor))
    assert len(states[0]) > 50
    assert states[0] == states[1]


@pytest.mark.parametrize(
    ("before", "command"),
    [
        ("readonly x=1", "x=2"),
        ("declare -i x", "x=2"),
        ("declare -n x=y", "x=2"),
        ("trap 'ls' DEBUG", "x=2"),
        ("alias export=ls", "export x=2"),
        ("export() { ls; }", "export x=2"),
        ("set -a", "x=2"),
        ("set -x", "x=2"),
        ("true", "IFS=,"),
        ("true", "LC_ALL=C"),
        ("true", "PAGER=less"),
        ("f() { ls; }; export -f f", "f() { echo; }"),
    ],
)
def test_what_a_shell_would_do_otherwise_is_not_applied(
    tmp_path: Path, before: str, command: str
) -> None:
    with open_executor(tmp_path) as executor:
        executor.run(before, timeout=PATIENCE)
        assert not executor.can_apply(literal_changes(command))
        executor.literal = (command, literal_changes(command))
        result = executor.run("x=3", timeout=PATIENCE)
        assert "without a process" not in " ".join(result.notes)
