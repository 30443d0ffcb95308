"""Answers of many hosts: the order in which hosts are asked, and equal answers as one group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kogniterm.text.file_text import unified_diff
from kogniterm.types.actions import RiskLabel
from kogniterm.types.command_results import AnswerGroup, HostAnswer, HostState

_ORDER: tuple[HostState, ...] = (
    "answered", "failed", "running", "unknown", "unreachable", "not_started",
)  # fmt: skip
_RAN: tuple[HostState, ...] = ("answered", "failed")
MAX_COMPARED = 4_000
"""Lines of an output that are compared; difflib takes seconds for more."""


def canary_groups(hosts: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return `hosts` as one host, then a quarter of all (at least one), then the rest."""
    quarter = 1 + max(1, len(hosts) // 4)
    parts = (hosts[:1], hosts[1:quarter], hosts[quarter:])
    return tuple(tuple(part) for part in parts if part)


def host_groups(hosts: Sequence[str], label: RiskLabel) -> tuple[tuple[str, ...], ...]:
    """Return the groups for a command: one that only reads goes to all hosts at once."""
    return (tuple(hosts),) if label == "safe_readonly" else canary_groups(hosts)


def group_answers(answers: Iterable[HostAnswer]) -> tuple[AnswerGroup, ...]:
    """Return equal answers as groups: those that ran first, and of these the largest first.

    Two answers are equal if their state, exit code, output, changes and reason are. Hosts are in
    the order in which they came. Each group but the largest of those that ran has its difference
    to it.
    """
    members: dict[tuple[object, ...], list[HostAnswer]] = {}
    for answer in answers:
        key = (
            answer.state, answer.exit_code, answer.output, answer.changes, str(answer.reason or ""),
        )  # fmt: skip
        members.setdefault(key, []).append(answer)
    ordered = sorted(members.values(), key=lambda of: (_ORDER.index(of[0].state), -len(of)))
    ran = [of for of in ordered if of[0].state in _RAN]
    largest = max(ran, key=len, default=None)
    return tuple(_group(of, largest) for of in ordered)


def _group(members: list[HostAnswer], largest: list[HostAnswer] | None) -> AnswerGroup:
    first, hosts = members[0], tuple(answer.host for answer in members)
    diff = ""
    if largest is not None and largest is not members and first.state in _RAN:
        diff = difference(largest[0].output, first.output)
    return AnswerGroup(
        hosts, first.state, first.exit_code, first.output, first.reason, diff, first.changes
    )


def difference(before: str, after: str) -> str:
    """Return a unified diff of two outputs without file names; "" if they are equal."""
    old, new = (
        "".join(f"{line}\n" for line in text.removesuffix("\n").split("\n")[:MAX_COMPARED])
        for text in (before, after)
    )
    return "\n".join(unified_diff("", old, new, context=2).split("\n")[2:])


def stops(answers: Iterable[HostAnswer]) -> bool:
    """Return whether the answers so far forbid to go on with the next group.

    They do if one failed, is unknown or still runs, if two differ, or if no host answered at all.
    An unreachable host beside others that answered does not stop the rest.
    """
    reached = [group for group in group_answers(answers) if group.state != "unreachable"]
    return len(reached) != 1 or reached[0].state != "answered"
