"""Dates named in a question, in English or Spanish: "on 3 May 2023", "in junio de 2023"."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from kogniterm.memory.words import plain

_MONTHS = {
    name: number
    for names in (
        "january february march april may june july august september october november december",
        "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
        "jan feb mar apr may jun jul aug sep oct nov dec",
    )
    for number, name in enumerate(names.split(), start=1)
}
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_PATTERNS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"\b{_YEAR}-(?P<number>\d\d)-(?P<day>\d\d)\b",
        rf"\b(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?: of| de)? (?P<month>{_MONTH})\.?,?"
        rf"(?: of| de| del)? {_YEAR}\b",
        rf"\b(?P<month>{_MONTH})\.? (?P<day>\d{{1,2}})(?:st|nd|rd|th)?,? {_YEAR}\b",
        rf"\b(?P<month>{_MONTH})\.?,?(?: of| de| del)? {_YEAR}\b",
    )
)


def named_period(question: str) -> tuple[float, float] | None:
    """Start and end (exclusive) in seconds since the epoch of the day or month named, in UTC."""
    text = plain(question)
    for pattern in _PATTERNS:
        found = pattern.search(text)
        if found is None:
            continue
        parts = found.groupdict()
        year = int(parts["year"])
        month = int(parts["number"]) if parts.get("number") else _MONTHS.get(parts["month"], 0)
        return _period(year, month, int(parts["day"]) if parts.get("day") else None)
    return None


def _period(year: int, month: int, day: int | None) -> tuple[float, float] | None:
    try:
        start = datetime(year, month, day or 1, tzinfo=UTC).timestamp()
    except ValueError:
        return None
    if day is not None:
        return start, start + 86_400.0
    following = (year + 1, 1) if month == 12 else (year, month + 1)
    return start, datetime(*following, 1, tzinfo=UTC).timestamp()
