"""Memory as JSON Lines: a header, one typed record a line, and a closing hash.

Export, import into an empty memory, export again: the same bytes. Ids are numbered anew in the
file, and what a file claims of a fact's source and pin is handed on but not believed: imported
facts are `imported`, never pinned, and never take the place of what the person said here.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kogniterm.errors import UsageError
from kogniterm.memory.fact_records import Fact, Origin, Preference
from kogniterm.memory.update import Candidate, judge
from kogniterm.memory.user_memory import Memory
from kogniterm.storage.line_files import check_header, closed, read_closed
from kogniterm.text.sensitive_topics import personal_kind

FORMAT = "kogniterm-memory"
VERSION = 1

_COPIED = (
    "text", "category", "slot", "keywords", "language", "confidence", "status", "created",
    "last_confirmed", "relevance_count", "valid_from", "valid_to",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What an import does, or would do: how many facts and preferences went which way."""

    added: int = 0
    known: int = 0
    superseded: int = 0
    pending: int = 0
    forgotten: int = 0
    sensitive: int = 0
    preferences: int = 0


def export_lines(memory: Memory, *, redact: Callable[[str], str] = lambda text: text) -> list[str]:
    """Everything that holds in this scope, as lines without line ends. No vectors, no hashes."""
    facts = memory.facts()
    numbers = {fact.id: number for number, fact in enumerate(facts, start=1)}
    records = [_fact_record(fact, numbers, redact) for fact in facts]
    preferences = memory.preferences.stored()
    records += [
        {
            "type": "preference",
            "key": one.key,
            "value": one.value,
            "scope": _scope(one.project),
            "source": one.source,
            "updated": one.updated,
        }
        for one in preferences
    ]
    times = [fact.last_confirmed for fact in facts] + [one.updated for one in preferences]
    header = {
        "type": "header",
        "format": FORMAT,
        "version": VERSION,
        "as_of": max(times, default=0.0),
        "facts": len(facts),
        "preferences": len(preferences),
    }
    return list(closed(map(_line, [header, *records]), _closing))


def import_lines(memory: Memory, lines: Iterable[str], *, dry_run: bool = False) -> ImportReport:
    """Take in what `export_lines` wrote, all or nothing; importing twice changes nothing more.

    Raises `UsageError` for a file that is cut, changed, or of a newer format.
    """
    records: list[dict[str, Any]] = []

    def take(number: int, value: Any) -> None:
        if number == 1:
            check_header(value, FORMAT, VERSION)
        elif value["type"] in ("fact", "preference"):
            records.append(value)

    lines = (line for line in lines if line.strip())
    read_closed(lines, take, closing=_closing, unusable=_unusable)
    try:
        with memory.repository.sql.transaction():
            report = _taken(memory, records)
            if dry_run:
                raise _DryRunError
    except _DryRunError:
        return report
    memory.searcher.noticed()
    return report


def _taken(memory: Memory, records: list[dict[str, Any]]) -> ImportReport:
    try:
        return _Import(memory).take(records)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(
            "The file cannot be imported: a record is wrong ({detail}).", detail=str(error)
        ) from error


class _DryRunError(Exception):
    """Leaves the transaction so that nothing is written."""


class _Import:
    """One import: counts what happens and maps the file's numbers to ids."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._repository = memory.repository
        self._now = memory.clock.now()
        self._ids: dict[int, int] = {}
        self._counts: Counter[str] = Counter()

    def take(self, records: list[dict[str, Any]]) -> ImportReport:
        links: list[tuple[int, int]] = []
        for record in records:
            if record["type"] == "preference":
                self._preference(record)
            elif record["type"] == "fact":
                stored = self._fact(record)
                if stored is not None and record.get("superseded_by"):
                    links.append((stored, int(record["superseded_by"])))
        for fact_id, successor in links:
            fact = self._repository.get(fact_id)
            if fact is not None and successor in self._ids:
                self._repository.change(
                    fact,
                    {"superseded_by": self._ids[successor]},
                    now=self._now,
                    who="import",
                    operation="link",
                )
        return ImportReport(**self._counts)

    def _fact(self, record: Mapping[str, Any]) -> int | None:
        """Store one fact; its id, or None when it was known, forgotten or refused."""
        fact = self._parsed(record)
        known = self._known(fact)
        if known is not None:
            self._counts["known"] += 1
            self._ids[int(record["id"])] = known.id
            return None
        if self._memory.tombstones.holds(fact.text):
            self._counts["forgotten"] += 1
            return None
        if personal_kind(fact.text) is not None:
            self._counts["sensitive"] += 1
            return None
        if fact.status == "active" and fact.slot:
            fact = self._contested(fact)
        stored = self._repository.insert(fact, now=self._now, who="import")
        self._ids[int(record["id"])] = stored.id
        if fact.status == "pending" and record["status"] != "pending":
            self._counts["pending"] += 1
        else:
            self._counts["added"] += 1
        return stored.id

    def _contested(self, fact: Fact) -> Fact:
        """`fact` as it may be stored beside what holds its slot already."""
        taken = self._repository.in_slot(fact.slot or "", fact.project)
        if taken is None:
            return fact
        candidate = Candidate(fact.text, confidence=fact.confidence, source="imported")
        if judge("update", candidate, taken, self._now) != "supersede":
            return replace(fact, status="pending")
        self._repository.change(
            taken,
            {"status": "superseded", "valid_to": self._now},
            now=self._now,
            who="import",
            operation="supersede",
        )
        self._counts["superseded"] += 1
        return fact

    def _known(self, fact: Fact) -> Fact | None:
        if fact.status != "superseded":
            return self._repository.same_text(fact.text, fact.project)
        return next(
            (
                one
                for one in self._repository.facts("superseded")
                if (one.text, one.project, one.valid_from, one.valid_to)
                == (fact.text, fact.project, fact.valid_from, fact.valid_to)
            ),
            None,
        )

    def _parsed(self, record: Mapping[str, Any]) -> Fact:
        clean = self._memory.redact
        copied: dict[str, Any] = {name: record.get(name) for name in _COPIED}
        copied["text"], copied["keywords"] = clean(record["text"]), clean(record["keywords"])
        return Fact(
            id=0,
            project=self._project(record),
            source="imported",
            origin=Origin(
                str(record.get("session", "")), record.get("seq"), clean(record["quote"])
            ),
            claim=f"{record['source']}{' pinned' if record['pinned'] else ''}",
            **copied,
        )

    def _preference(self, record: Mapping[str, Any]) -> None:
        if self._memory.preferences.take_over(
            Preference(
                str(record["key"]),
                record["value"],
                self._project(record),
                record["source"],
                float(record["updated"]),
            )
        ):
            self._counts["preferences"] += 1

    def _project(self, record: Mapping[str, Any]) -> str:
        return self._memory.project if record["scope"] == "project" else ""


def _fact_record(
    fact: Fact, numbers: Mapping[int, int], redact: Callable[[str], str]
) -> dict[str, Any]:
    source, _, pin = fact.claim.partition(" ") if fact.claim else (fact.source, "", "")
    record: dict[str, Any] = {"type": "fact", "id": numbers[fact.id], "scope": _scope(fact.project)}
    record.update((name, getattr(fact, name)) for name in _COPIED)
    record["text"] = redact(fact.text)
    record["keywords"] = redact(fact.keywords)
    record["source"] = source
    record["pinned"] = fact.pinned or bool(pin)
    record["superseded_by"] = numbers.get(fact.superseded_by) if fact.superseded_by else None
    record["session"] = fact.origin.session_id
    record["seq"] = fact.origin.seq
    record["quote"] = redact(fact.origin.quote)
    return record


def _closing(_lines: int, digest: str) -> dict[str, Any]:
    return {"type": "end", "sha256": digest}


def _unusable(number: int, detail: str) -> UsageError:
    return UsageError(
        "This is not a memory export (line {line}): {detail}.", line=number, detail=detail
    )


def _scope(project: str) -> str:
    return "project" if project else "everywhere"


def _line(record: Mapping[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"))
