"""Groups of hosts: their order, equal answers together, and when the next group may not start."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kogniterm.addons.hosts.answer_groups import (
    MAX_COMPARED,
    canary_groups,
    difference,
    group_answers,
    stops,
)
from kogniterm.addons.hosts.host_values import HostRequest, Inventory
from kogniterm.types import Phrase
from kogniterm.types.command_results import HostAnswer, HostState


def said(host: str, output: str = "ok", code: int = 0) -> HostAnswer:
    return HostAnswer(host, "failed" if code else "answered", code, output)


def silent(host: str, state: HostState, reason: str = "no route") -> HostAnswer:
    return HostAnswer(host, state, reason=Phrase(reason))


@given(st.lists(st.text(min_size=1), unique=True))
def test_every_host_is_in_one_group_and_the_first_has_one(hosts: list[str]) -> None:
    groups = canary_groups(hosts)
    assert [host for group in groups for host in group] == hosts
    assert len(groups) <= 3
    assert all(groups)
    assert all(len(group) == 1 for group in groups[:1])


def test_a_quarter_follows_the_first_host() -> None:
    sizes = [len(group) for group in canary_groups([f"h{number}" for number in range(40)])]
    assert sizes == [1, 10, 29]


def test_equal_answers_are_one_group_with_the_difference_to_the_largest() -> None:
    odd = said("h2", "port=80\ndebug=1")
    usual = [said(host, "port=80\ndebug=0") for host in ("h0", "h1", "h3")]
    dead = [silent("d1", "unreachable"), silent("d2", "unreachable", "timed out")]
    broken = said("h4", "no such file", 2)
    groups = group_answers([dead[0], odd, *usual, broken, dead[1]])
    assert [(group.hosts, group.state) for group in groups] == [
        (("h0", "h1", "h3"), "answered"),
        (("h2",), "answered"),
        (("h4",), "failed"),
        (("d1",), "unreachable"),
        (("d2",), "unreachable"),
    ]
    assert groups[0].diff == "" == groups[3].diff
    assert groups[1].diff.splitlines()[1:] == [" port=80", "-debug=0", "+debug=1"]
    assert groups[2].exit_code == 2
    assert "+no such file" in groups[2].diff


def test_the_same_output_with_another_exit_code_is_another_group() -> None:
    assert len(group_answers([said("a"), said("b", code=1)])) == 2


def test_a_group_that_failed_on_most_hosts_is_what_others_are_compared_with() -> None:
    groups = group_answers([said("a", "fine"), said("b", "bad", 1), said("c", "bad", 1)])
    assert [(group.hosts, bool(group.diff)) for group in groups] == [
        (("a",), True),
        (("b", "c"), False),
    ]


def test_long_outputs_are_compared_at_their_beginning() -> None:
    many = "same\n" * (MAX_COMPARED + 1)
    assert difference(many + "x", many + "y") == ""


@pytest.mark.parametrize(
    ("answers", "stopped"),
    [
        ([said("a"), said("b")], False),
        ([said("a"), silent("b", "unreachable")], False),
        ([silent("a", "unreachable")], True),
        ([said("a"), said("b", "other")], True),
        ([said("a", code=1)], True),
        ([said("a"), silent("b", "unknown")], True),
        ([said("a"), silent("b", "running")], True),
        ([], True),
    ],
)
def test_the_next_group_waits_for_equal_answers(answers: list[HostAnswer], stopped: bool) -> None:
    assert stops(answers) is stopped


@pytest.mark.parametrize("name", ["", "../x", "a b", "é", "--"])
def test_an_id_that_is_no_safe_name_of_a_folder_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="ID"):
        HostRequest(name, "true", Inventory(("a,",), "/"), (("a",),))


def test_a_host_is_in_a_request_once() -> None:
    with pytest.raises(ValueError, match="once"):
        HostRequest("r", "true", Inventory(("a,",), "/"), (("a",), ("a",)))
