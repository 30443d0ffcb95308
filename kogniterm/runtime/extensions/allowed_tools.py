"""Permissions that skills and custom commands name: never granted by themselves, only offered.

`allowed-tools` uses the names of Claude Code's tools, such as `Bash(git log:*) Edit Read`. What can
be a permission of this session is offered to the user; the rest asks as usual.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kogniterm.approval import Lease, Offer
from kogniterm.approval.policy.leases import edit_offers, words_offer
from kogniterm.runtime.extensions.tool_names import parse_pattern
from kogniterm.types import EXECUTE_COMMAND, Phrase, RiskReport

_EDITING = ("edit_file", "write_file")
GRANT = Phrase("Allow them for this session")
DECLINE = Phrase("No, ask me as usual")
_ANY_EDIT = RiskReport("", "workspace_write")


class NamedPermission(NamedTuple):
    """A permission that can be offered, with the report that it is granted for."""

    report: RiskReport
    offer: Offer


def named_permissions(names: Iterable[str], workspace: str) -> tuple[NamedPermission, ...]:
    """Return what can be offered of the tools that a skill or a command names, each once."""
    found: dict[str, NamedPermission] = {}
    for name in names:
        pattern = parse_pattern(name)
        if pattern is None:
            continue
        if EXECUTE_COMMAND in pattern.tools:
            words = pattern.argument
            if words.endswith(":*"):  # `git diff:*` is the older way to write `git diff *`
                words = f"{words.removesuffix(':*')} *"
            offered = words_offer(words, workspace=workspace)
            if offered is not None:
                found.setdefault(str(offered[1].text), NamedPermission(*offered))
        elif set(pattern.tools) & set(_EDITING) and not pattern.argument:
            for offer in edit_offers(_ANY_EDIT, workspace=workspace):
                found.setdefault(str(offer.text), NamedPermission(_ANY_EDIT, offer))
    return tuple(found.values())


def not_granted(
    named: Sequence[NamedPermission], leases: Sequence[Lease]
) -> tuple[NamedPermission, ...]:
    """Return those of `named` that the session does not have yet."""
    there = {(one.kind, one.report.command) for one in leases}
    return tuple(one for one in named if (one.offer.kind, one.report.command) not in there)


def question(name: str, named: Sequence[NamedPermission]) -> tuple[Phrase, ...]:
    """Return the question that offers permissions, its first line and those below it."""
    asks = Phrase("The skill {name} names these permissions. Allow them for this session?",
                  {"name": name})  # fmt: skip
    return (asks, *(one.offer.label for one in named))
