"""The limits of a turn and of a session: amounts as they are typed, and what a session used."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kogniterm.errors import UsageError
from kogniterm.runtime.budgets import NOTHING
from kogniterm.types import Usage

if TYPE_CHECKING:
    from kogniterm.sessions.records import Record

WHOLE = frozenset({"steps", "tokens", "commands", "output_bytes"})
COUNTS: Mapping[str, float] = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9}
BYTES: Mapping[str, float] = {"": 1, "b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9}
TIMES: Mapping[str, float] = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600}
UNITS: Mapping[str, Mapping[str, float]] = {
    "steps": COUNTS,
    "seconds": TIMES,
    "tokens": COUNTS,
    "dollars": {"": 1},
    "commands": COUNTS,
    "output_bytes": BYTES,
}
"""The budgets, and what may stand behind their numbers: 200k, 15min, 50MB."""
_AMOUNT = re.compile(r"\$?(\d+(?:[.,]\d+)?)\s*([a-zA-Z]*)")


def parse_amount(name: str, value: str) -> float:
    """Read a limit with its unit. Raises `UsageError`."""
    found = _AMOUNT.fullmatch(value.strip())
    factor = UNITS[name].get(found[2].lower()) if found is not None else None
    if found is None or factor is None:
        units = ", ".join(unit for unit in UNITS[name] if unit)
        raise UsageError("Give a number above 0, or off. Units: {units}.", units=units or "-")
    number = float(found[1].replace(",", ".")) * factor
    if number <= 0 or not math.isfinite(number) or (name in WHOLE and number < 1):
        raise UsageError("Give a number above 0, or off.")
    return int(number) if name in WHOLE else number


def session_spent(records: Iterable[Record]) -> tuple[Mapping[str, float], Usage]:
    """The sums over all turns, by the names of the limits, and the tokens behind the dollars.

    Seconds are those of turns, by the journal's clock; dollars are left to who knows the price.
    """
    from kogniterm.sessions.records import Compacted, InputReceived, NodeRan, Outcome, TurnEnded

    spent, usage = dict(NOTHING), Usage()
    begun: float | None = None
    last = 0.0
    for record in records:
        match record.body:
            case InputReceived():
                if begun is not None:
                    spent["seconds"] += max(last - begun, 0)
                begun = record.time
            case TurnEnded() if begun is not None:
                spent["seconds"] += max(record.time - begun, 0)
                begun = None
            case NodeRan(update=update):
                usage += update.usage
            case Compacted(usage=summary):
                usage += summary
            case Outcome(result=result) if result is not None:
                spent["commands"] += 1
                spent["output_bytes"] += result.output_bytes
        last = record.time
    if begun is not None:
        spent["seconds"] += max(last - begun, 0)
    spent["steps"], spent["tokens"] = usage.calls, usage.input + usage.output
    return spent, usage
