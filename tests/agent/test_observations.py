"""What the model reads of a command: how it ended, and why it had not ended by itself."""

from __future__ import annotations

from typing import get_args

import pytest

from kogniterm.agent.messages import command_text
from kogniterm.types import CommandResult, Waiting
from kogniterm.types.command_results import WaitKind


@pytest.mark.parametrize("kind", get_args(WaitKind))
def test_an_ended_command_tells_what_it_waited_for_and_what_helps(kind: WaitKind) -> None:
    waiting = Waiting(kind, 12.4, "psql", "reads 0")
    result = CommandResult("psql", "timeout", None, "Password:\n", 30.0, "/w", waiting=waiting)
    said = command_text(result)
    assert said.startswith("Password:\n[")
    assert "psql was " in said
    assert " for 12 s (reads 0)" in said
    # Only what waits for somebody's keys can be helped by input.
    assert ("non-interactively" in said) == (kind in ("terminal", "password"))


def test_a_program_without_a_name_is_the_command() -> None:
    result = CommandResult(
        "x", "timeout", None, "", 1.0, "/w", waiting=Waiting("busy", 3.0, "", "")
    )
    assert "[at the end the command was still computing for 3 s]" in command_text(result)
