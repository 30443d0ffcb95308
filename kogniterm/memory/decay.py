"""How sure a fact still is: confidence halves with time since it was last confirmed.

Computed whenever a fact is read, so nothing has to run in the background and nothing is ever
deleted by age.
"""

from __future__ import annotations

from collections.abc import Mapping

from kogniterm.memory.records import Category, Fact

DAY = 86_400.0
HALF_LIVES: Mapping[Category, float | None] = {
    "preference": 365.0,
    "requirement": 365.0,
    "project": 180.0,
    "feedback": 120.0,
    "learning": 60.0,
    "constraint": None,
    "fact": 730.0,
}
"""Days until confidence has halved; None never decays. Pinned facts never decay either."""

DORMANT_BELOW = 0.2
"""Effective confidence under which a fact stays out of prompts; it is still listed."""

RECENCY_HALF_LIFE = 180.0


def effective_confidence(fact: Fact, now: float) -> float:
    """Confidence of `fact` at `now` (seconds since the epoch), never more than the stored one."""
    half_life = HALF_LIVES[fact.category]
    if fact.pinned or half_life is None:
        return fact.confidence
    age = max(0.0, now - fact.last_confirmed) / DAY
    return float(fact.confidence * 2.0 ** (-age / half_life))


def is_dormant(fact: Fact, now: float) -> bool:
    """Whether `fact` has faded too much to be put before the model unasked."""
    return effective_confidence(fact, now) < DORMANT_BELOW


def recency(created: float, now: float) -> float:
    """1 for what was said now, 0.5 after 180 days, towards 0."""
    return float(2.0 ** (-max(0.0, now - created) / DAY / RECENCY_HALF_LIFE))
