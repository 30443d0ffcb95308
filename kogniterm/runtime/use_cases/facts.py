"""Remembered facts: what is listed, added and changed, for `kogniterm memory` and /memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from kogniterm.errors import UsageError

if TYPE_CHECKING:
    from kogniterm.memory import Fact, Memory
    from kogniterm.memory.fact_records import Change
    from kogniterm.memory.update import Candidate

FactChange = Literal["edit", "pin", "unpin", "confirm", "undo"]


def listed_facts(memory: Memory, *, everything: bool = False) -> list[Fact]:
    """Return the facts in use; with `everything`, those that faded or were replaced too."""
    from kogniterm.memory.fact_records import is_dormant

    if everything:
        return list(memory.facts("active", "pending", "superseded"))
    now = memory.clock.now()
    return [fact for fact in memory.facts("active", "pending") if not is_dormant(fact, now)]


def add_fact(memory: Memory, candidate: Candidate) -> tuple[Fact, Change]:
    """Remember something; returns the fact and what became of it. Raises `UsageError`."""
    change = memory.remember(candidate)
    if change.fact is None:
        raise UsageError("This cannot be remembered: {reason}.", reason=change.reason)
    return change.fact, change


def change_fact(memory: Memory, name: str, change: FactChange, text: str = "") -> Fact:
    """Change the fact called `name`; returns it as it is now. Raises `UsageError`."""
    fact, updater = memory.get(name), memory.updater
    match change:
        case "edit":
            return updater.edit(fact, text)
        case "confirm":
            return updater.confirm(fact)
        case "undo":
            return updater.undo(fact)
        case "pin" | "unpin":
            return updater.pin(fact, change == "pin")
