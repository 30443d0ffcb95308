"""The table of programs: every line is valid, and every program in it can be classified."""

from __future__ import annotations

from pathlib import Path

from kogniterm import approval
from kogniterm.approval import classify
from kogniterm.approval.analysis.arguments import rule_table
from kogniterm.approval.analysis.paths_and_variables import names
from kogniterm.types import RISK_LABELS

TABLE = rule_table("known_programs")
_ACTIONS = names("""
    value text plain pattern recursive read write run folder ask code warn network danger
""")


def test_every_program_is_judged() -> None:
    programs = [name.replace(":", " ", 1) if name != ":" else name for name in TABLE]
    assert len(programs) > 800
    for program in programs:
        assert classify(program).label in RISK_LABELS
        assert classify(f"{program} x y").label in RISK_LABELS


def test_every_action_of_an_option_is_known() -> None:
    found = {action.rstrip("=") for line in TABLE.values() for action in line.options.values()}
    assert found <= _ACTIONS


def test_no_program_has_two_lines() -> None:
    text = (Path(approval.__file__).parent / "tables" / "known_programs.txt").read_text()
    lines = [line for line in text.replace("\n    ", " ").splitlines() if line[:1] not in ("#", "")]
    programs = [name for line in lines for name in line.partition(": ")[0].split()]
    assert sorted(programs) == sorted(set(programs))
