"""Requests that come again: counted by text, offered once, and never against a promise."""

from __future__ import annotations

import pytest

from kogniterm.memory import Memory
from kogniterm.memory.memory_transfer import export_lines
from kogniterm.memory.repeated_requests import LONGEST_REQUEST, MOST_REQUESTS, RepeatedRequests
from tests.memory.conftest import OpenMemory

ASKED = "Count the files of heron"


def requests(memory: Memory) -> RepeatedRequests:
    return RepeatedRequests(memory.sql, memory.project)


def counted(memory: Memory, text: str, times: int = 3) -> int:
    return [requests(memory).count(text, "s1", memory.clock.now()) for _ in range(times)][-1]


def kept(memory: Memory) -> list[str]:
    return [str(row[0]) for row in memory.sql.execute("SELECT request FROM requests")]


def test_the_third_time_is_offered_and_only_once(memory: Memory) -> None:
    said = (ASKED, f"  {ASKED.upper()}. ", f"{ASKED}?")
    assert [counted(memory, text, 1) for text in said] == [0, 0, 3]
    assert requests(memory).offer(ASKED)
    assert not requests(memory).offer(ASKED)
    assert counted(memory, ASKED) == 0


def test_what_was_not_shown_is_offered_at_the_next_time(memory: Memory) -> None:
    assert [counted(memory, ASKED), counted(memory, ASKED, 1)] == [3, 4]


@pytest.mark.parametrize(
    "text",
    [
        "go on",
        "/fix the heron tests",
        "log in with [secret:1] please",
        "log in with ghp_16C7e42F292c6912E7710c838347Ae178B4a please",
        "write to the clinic that I have diabetes",
        "count the files of [forgotten]",
        "word " * LONGEST_REQUEST,
    ],
)
def test_what_memory_does_not_store_is_not_counted(memory: Memory, text: str) -> None:
    assert counted(memory, text) == 0
    assert kept(memory) == []


def test_the_newest_are_kept(memory: Memory) -> None:
    for number in range(MOST_REQUESTS + 5):
        requests(memory).count(f"show me file {number}", "s1", float(number))
    assert len(kept(memory)) == MOST_REQUESTS
    assert "show me file 4" not in kept(memory)


def test_projects_and_users_count_for_themselves(open_here: OpenMemory) -> None:
    here, there, other = open_here(), open_here(project="bank"), open_here(user="ben")
    assert [counted(one, ASKED, 2) for one in (here, there, other)] == [0, 0, 0]


def test_forgetting_takes_the_count_and_the_offer(memory: Memory) -> None:
    counted(memory, ASKED)
    receipt = memory.forgetter.forget((), phrases=("files of HERON",))
    assert receipt.proved
    assert kept(memory) == []
    assert not requests(memory).offer(ASKED)
    for forget in (
        lambda: memory.forgetter.forget_all(session_id="s1"),
        memory.forgetter.forget_all,
        memory.forgetter.forget_everything,
    ):
        counted(memory, ASKED)
        forget()
        assert kept(memory) == []


def test_no_export_has_them(memory: Memory) -> None:
    counted(memory, ASKED)
    assert "heron" not in "\n".join(export_lines(memory))
