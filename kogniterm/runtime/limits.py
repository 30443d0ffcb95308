"""Budgets: what a turn may use up, and the sentence that ends it cleanly when it is gone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace

from kogniterm.types import Text


@dataclass(frozen=True, slots=True)
class Limits:
    """Budgets of one turn; None means unlimited. Money in US dollars, time in seconds."""

    steps: int | None = None
    seconds: float | None = None
    tokens: int | None = None
    dollars: float | None = None
    commands: int | None = None
    output_bytes: int | None = None


NOTHING: Mapping[str, float] = dict.fromkeys((field.name for field in fields(Limits)), 0)
ACTING = ("seconds", "commands", "output_bytes")
"""The budgets that what is already proposed may use up."""


@dataclass(slots=True)
class Budget:
    """A session's limits, which may change at any time, and what its turn has spent so far.

    `spent` is given by the turn that runs, or ran last.
    """

    limits: Limits = field(default_factory=Limits)
    spent: Callable[[], Mapping[str, float]] = lambda: NOTHING

    def over(self) -> Text | None:
        """Which budget is used up, or None."""
        return exceeded(self.limits, self.spent())

    def over_acting(self) -> Text | None:
        """Which budget forbids another command, or None."""
        used = {**NOTHING, **{name: self.spent()[name] for name in ACTING}}
        return exceeded(replace(self.limits, steps=None, tokens=None, dollars=None), used)

    def left(self, name: str) -> float | None:
        """What is left of one budget; None when it has no limit."""
        limit: float | None = getattr(self.limits, name)
        return max(limit - self.spent()[name], 0) if limit is not None else None

    def shown(self) -> Mapping[str, tuple[float, float]]:
        """(used, limit) of every budget that has a limit."""
        used = self.spent()
        limits = {field.name: getattr(self.limits, field.name) for field in fields(Limits)}
        return {name: (used[name], most) for name, most in limits.items() if most is not None}


_OVER = {
    "steps": "The budget of {limit} model calls is used up.",
    "seconds": "The time budget of {limit} s is used up.",
    "tokens": "The budget of {limit} tokens is used up.",
    "dollars": "The budget of ${limit} is used up.",
    "commands": "The budget of {limit} commands is used up.",
    "output_bytes": "The budget of {limit} bytes of command output is used up.",
}


def exceeded(limits: Limits, used: Mapping[str, float]) -> Text | None:
    """Which budget is used up, or None. `used` has the names of `Limits`' fields."""
    for name, template in _OVER.items():
        limit = getattr(limits, name)
        if limit is not None and used[name] >= limit:
            return Text(template, {"limit": limit})
    return None


def unknown_price(model: str, date: str) -> Text:
    """What a person must know who set a money budget for a model whose price nobody knows."""
    return Text(
        "The price of {model} is not known (table of {date}), so the money budget cannot be kept; "
        "set a budget of tokens or steps.",
        {"model": model, "date": date},
    )
