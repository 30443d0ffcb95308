"""A remembered fact in words and columns, for `kogniterm memory` and /memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kogniterm.ui.commands.columns import local_time
from kogniterm.ui.locale import _, plural, translate

if TYPE_CHECKING:
    from kogniterm.memory import Fact


def state(fact: Fact, now: float) -> str:
    """Return whether a fact is pending, replaced, pinned or faded, or where it comes from."""
    from kogniterm.memory.fact_records import is_dormant

    if fact.status != "active":
        return {"pending": _("pending"), "superseded": _("superseded")}[fact.status]
    if fact.pinned:
        return _("pinned")
    if is_dormant(fact, now):
        return _("faded")
    sources = {"explicit": _("explicit"), "inferred": _("inferred"), "imported": _("imported")}
    return sources[fact.source]


def certainty(fact: Fact, now: float) -> tuple[str, str]:
    """Return the confidence that is left, and the days since the fact was confirmed."""
    from kogniterm.memory.fact_records import DAY, effective_confidence

    days = int(max(0.0, now - fact.last_confirmed) // DAY)
    return f"{effective_confidence(fact, now):.0%}", _("{days} d").format(days=days)


def details(fact: Fact, earlier: Sequence[Fact], now: float) -> list[tuple[str, str]]:
    """Return everything about one fact as (name, value) rows; `earlier` are those it replaced."""
    from kogniterm.memory.recall import because

    rows = [
        (_("text"), fact.text),
        (_("category"), fact.category + (f" ({fact.slot})" if fact.slot else "")),
        (_("state"), state(fact, now)),
        (_("holds"), fact.project or _("everywhere")),
        (_("known"), translate(because(fact))),
        (_("session"), fact.origin.session_id),
        (_("confirmed"), local_time(fact.last_confirmed)),
        (_("confidence"), certainty(fact, now)[0]),
        (_("used"), plural("{count} time", "{count} times", fact.relevance_count)),
        (_("replaced by"), f"m{fact.superseded_by}" if fact.superseded_by else ""),
        *((_("replaces"), f"{one.label}  {one.text}") for one in earlier),
    ]
    return [row for row in rows if row[1]]
