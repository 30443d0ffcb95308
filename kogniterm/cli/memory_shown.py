"""How facts and receipts look on the command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kogniterm.cli import stores
from kogniterm.errors import EXIT_DONE, EXIT_NOT_DONE
from kogniterm.ui.locale import _, plural, translate

if TYPE_CHECKING:
    from kogniterm.memory import Fact
    from kogniterm.memory.forget import Mention, Receipt


def is_faded(fact: Fact, now: float) -> bool:
    """Whether the fact has faded out of prompts."""
    from kogniterm.memory.decay import is_dormant

    return is_dormant(fact, now)


def as_json(fact: Fact, now: float) -> dict[str, object]:
    """A fact in JSON; times in ISO 8601, UTC; `effective` is the decayed confidence."""
    from kogniterm.memory.decay import effective_confidence
    from kogniterm.memory.recall import because

    return {
        "id": fact.label,
        "text": fact.text,
        "category": fact.category,
        "slot": fact.slot,
        "project": fact.project or None,
        "status": "faded" if fact.status == "active" and is_faded(fact, now) else fact.status,
        "source": fact.source,
        "pinned": fact.pinned,
        "confidence": fact.confidence,
        "effective": round(effective_confidence(fact, now), 4),
        "relevance": fact.relevance_count,
        "created": stores.iso(fact.created),
        "confirmed": stores.iso(fact.last_confirmed),
        "valid_to": stores.iso(fact.valid_to),
        "superseded_by": f"m{fact.superseded_by}" if fact.superseded_by else None,
        "session": fact.origin.session_id or None,
        "because": str(because(fact)),
    }


def table(facts: Sequence[Fact], now: float) -> list[list[str]]:
    """One row a fact: id, category, state, confidence, age, text."""
    from kogniterm.memory.decay import DAY, effective_confidence

    rows = []
    for fact in facts:
        age = _("{days} d").format(days=int(max(0.0, now - fact.last_confirmed) // DAY))
        rows.append(
            [
                fact.label,
                fact.category,
                _state(fact, now),
                f"{effective_confidence(fact, now):.0%}",
                age,
                fact.text,
            ]
        )
    return rows


def _state(fact: Fact, now: float) -> str:
    if fact.status != "active":
        return _(fact.status)
    if fact.pinned:
        return _("pinned")
    return _("faded") if is_faded(fact, now) else _(fact.source)


def details(fact: Fact, earlier: Sequence[Fact], now: float) -> list[str]:
    """Everything about one fact, as lines."""
    from kogniterm.memory.decay import effective_confidence
    from kogniterm.memory.recall import because

    rows = [
        (_("text"), fact.text),
        (_("category"), fact.category + (f" ({fact.slot})" if fact.slot else "")),
        (_("state"), _state(fact, now)),
        (_("holds"), fact.project or _("everywhere")),
        (_("known"), translate(because(fact))),
        (_("session"), fact.origin.session_id),
        (_("confirmed"), stores.local_time(fact.last_confirmed)),
        (_("confidence"), f"{effective_confidence(fact, now):.0%}"),
        (_("used"), plural("{count} time", "{count} times", fact.relevance_count)),
        (_("replaced by"), f"m{fact.superseded_by}" if fact.superseded_by else ""),
    ]
    rows += [(_("replaces"), f"{one.label}  {one.text}") for one in earlier]
    width = max(len(name) for name, _value in rows)
    return [f"{fact.label}"] + [f"  {name:<{width}}  {value}" for name, value in rows if value]


def outside(mentions: Sequence[Mention]) -> list[str]:
    """What was written for the person and would be cleaned or removed, as lines."""
    return [
        stores.visible(
            _("also written for you: {file}, line {line}").format(file=one.path, line=one.line)
        )
        for one in mentions
    ]


def write_receipt(receipt: Receipt, *, as_json: bool) -> int:
    """Print the receipt; 1 when the words were still found somewhere."""
    from kogniterm.memory.forget import BESIDE_FACTS

    code = EXIT_DONE if receipt.proved else EXIT_NOT_DONE
    if as_json:
        stores.write_json(
            {
                "facts": [f"m{one}" for one in receipt.facts],
                "removed": [
                    {"place": str(part.place), "records": part.removed} for part in receipt.parts
                ],
                "proved": receipt.proved,
                "scanned": {
                    "files": receipt.scanned_files,
                    "bytes": receipt.scanned_bytes,
                    "columns": receipt.scanned_columns,
                },
                "found": [*map(str, receipt.found), *receipt.found_columns],
                "untouched": [
                    {"file": str(one.path), "line": one.line} for one in receipt.untouched
                ],
                "unreachable": [str(text) for text in receipt.unreachable],
            }
        )
        return code
    count = len(receipt.facts)
    lines = []
    if count or not any(part.place == BESIDE_FACTS and part.removed for part in receipt.parts):
        lines.append(plural("{count} fact forgotten.", "{count} facts forgotten.", count))
    lines += [
        _("removed from {place}: {count}").format(place=translate(part.place), count=part.removed)
        for part in receipt.parts
        if part.removed
    ]
    lines.append(
        _("{files} files ({size} bytes) searched for what was forgotten.").format(
            files=receipt.scanned_files, size=receipt.scanned_bytes
        )
    )
    if receipt.scanned_columns:
        searched = _("{count} columns of the database's tables searched.")
        lines.append(searched.format(count=receipt.scanned_columns))
    stores.write_lines(lines)
    for file in (*receipt.found, *receipt.found_columns):
        sys.stderr.write(_("still found in {file}").format(file=file) + "\n")
    if receipt.untouched:
        stores.write_lines([_("You wrote this yourself, so it was not touched:")])
        stores.write_lines(
            [
                "  - " + _("{file}, line {line}").format(file=one.path, line=one.line)
                for one in receipt.untouched
            ]
        )
    stores.write_lines([_("Out of reach from here:")])
    stores.write_lines([f"  - {translate(text)}" for text in receipt.unreachable])
    return code
