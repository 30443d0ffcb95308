"""The state of the shell after a command of which only the folder is carried over."""

from __future__ import annotations

from dataclasses import replace

from kogniterm.execution.shell.shell_state import export_line, first_state

BEFORE = first_state({"A": "1", "OLDPWD": "/old"}, "/w")
LEFT = replace(
    first_state({"A": "secret", "B": "2", "OLDPWD": "/w"}, "/w/sub"), status=3, umask=b"0077"
)


def test_the_folder_the_status_and_the_way_back_are_carried_over_and_nothing_else() -> None:
    state = BEFORE.with_folder_of(LEFT)
    assert (state.cwd, state.status, state.umask) == ("/w/sub", 3, BEFORE.umask)
    assert state.variables == {**BEFORE.variables, b"OLDPWD": export_line("OLDPWD", "/w")}


def test_a_command_that_stayed_in_its_folder_changes_no_way_back() -> None:
    assert BEFORE.with_folder_of(replace(LEFT, cwd="/w")).variables == BEFORE.variables


def test_a_command_that_unset_the_way_back_leaves_the_one_from_before() -> None:
    left = replace(LEFT, variables={b"A": b"x"})
    assert BEFORE.with_folder_of(left).variables == BEFORE.variables
