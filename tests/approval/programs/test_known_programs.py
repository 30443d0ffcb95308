"""The table of programs: every line is read, and every program in it can be judged."""

from __future__ import annotations

from kogniterm.approval import classify
from kogniterm.approval.analysis.command_options import parse_table
from kogniterm.approval.analysis.name_tables import names
from kogniterm.approval.programs.known_programs import TABLE
from kogniterm.types import RISK_LABELS

_ACTIONS = names("""
    value text plain pattern recursive read write run folder ask code warn network danger
""")


def test_every_program_is_judged() -> None:
    programs = [name.replace(":", " ", 1) if name != ":" else name for name in parse_table(TABLE)]
    assert len(programs) > 800
    for program in programs:
        assert classify(program).label in RISK_LABELS
        assert classify(f"{program} x y").label in RISK_LABELS


def test_every_action_of_an_option_is_known() -> None:
    lines = parse_table(TABLE).values()
    found = {action.rstrip("=") for line in lines for action in line.options.values()}
    assert found <= _ACTIONS


def test_no_program_has_two_lines() -> None:
    lines = [line for line in TABLE.replace("\n    ", " ").splitlines() if not line.startswith("#")]
    programs = [name for line in lines for name in line.partition(": ")[0].split()]
    assert sorted(programs) == sorted(set(programs))
