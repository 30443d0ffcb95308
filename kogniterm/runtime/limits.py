"""Budgets: what a turn may use up, and the sentence that ends it cleanly when it is gone."""

from __future__ import annotations

from dataclasses import dataclass

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


_OVER = {
    "steps": "The budget of {limit} model calls is used up.",
    "seconds": "The time budget of {limit} s is used up.",
    "tokens": "The budget of {limit} tokens is used up.",
    "dollars": "The budget of ${limit} is used up.",
    "commands": "The budget of {limit} commands is used up.",
    "output_bytes": "The budget of {limit} bytes of command output is used up.",
}


def exceeded(limits: Limits, used: dict[str, float]) -> Text | None:
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
