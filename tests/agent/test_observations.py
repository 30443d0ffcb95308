"""Observations of commands: how they ended, and why they had not ended by themselves."""

from __future__ import annotations

from typing import get_args

import pytest
from langchain_core.messages import HumanMessage

from kogniterm.agent.messages import command_text, images_of, with_text
from kogniterm.agent.subagent import DelegatedTask
from kogniterm.types import CommandResult, Job, Waiting
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


def test_a_job_is_named_by_the_beginning_of_its_command() -> None:
    job = Job("j1", f"serve {'x' * 200}\nsecond line", "running", (), 0.0)
    ended = Job("j2", "make", "ended", (), 0.0, 2)
    said = command_text(CommandResult("ls", "exited", 0, "", 0.1, "/w", jobs=(job, ended)))
    assert said.splitlines()[1].endswith(f": serve {'x' * 74}…]")
    assert said.splitlines()[2] == "[job j2 ended, exit 2: make]"


def test_a_program_without_a_name_is_the_command() -> None:
    result = CommandResult(
        "x", "timeout", None, "", 1.0, "/w", waiting=Waiting("busy", 3.0, "", "")
    )
    assert "[at the end the command was still computing for 3 s]" in command_text(result)


def test_other_words_leave_the_images_of_a_message_where_they_are() -> None:
    image = {"type": "image", "base64": "iVBORw0KGgo=", "mime_type": "image/png"}
    seen = HumanMessage([{"type": "text", "text": "my key is k"}, image])
    kept = with_text(seen, "my key is [secret]")
    assert kept.text == "my key is [secret]"
    assert len(images_of(kept)) == 1
    assert with_text(HumanMessage("a"), "b").content == "b"


@pytest.mark.parametrize(("length", "cut"), [(79, False), (80, False), (81, True)])
def test_the_task_of_a_sub_agent_is_one_short_line(length: int, cut: bool) -> None:
    short = DelegatedTask("a\n " + "b" * (length - 2), "read", 1000).short
    assert len(short) == min(length, 80)
    assert short.endswith("…") == cut
