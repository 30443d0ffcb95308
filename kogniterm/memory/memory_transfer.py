"""Memory in archives: export and import, and its copy to another database.

An archive has a section `memory`, and one for each fact, preference and lesson. Export, import into
an empty memory, export again: the same bytes. The file has its own ids. The source and pin that a
file claims for a fact are passed on and not believed: imported facts are `imported`, never pinned,
and never replace what the user said here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kogniterm.errors import UsageError
from kogniterm.memory.fact_records import Candidate, Fact, Lesson, Origin, Preference
from kogniterm.memory.learnings import EXPORTED
from kogniterm.memory.memory_database import NUMBERED, TABLES, MemoryDatabase
from kogniterm.memory.sensitive_topics import personal_kind
from kogniterm.memory.update import judge
from kogniterm.memory.user_memory import Memory
from kogniterm.storage.archive_file import (
    LAST_TIME,
    ArchiveLine,
    checking,
    read_archive,
    require,
    unusable,
    write_archive,
)
from kogniterm.storage.drivers import DuplicateError
from kogniterm.text.language import words_of
from kogniterm.types import Phrase

_COPIED = (
    "text", "category", "slot", "keywords", "language", "confidence", "status", "created",
    "last_confirmed", "relevance_count", "valid_from", "valid_to",
)  # fmt: skip


_MAY_LACK = {"valid_to", "superseded_by", "seq", "exit_code"}
_NUMBERS = {"id", "confidence", "created", "last_confirmed", "relevance_count", "valid_from",
            "updated", "seconds", "times", *_MAY_LACK}  # fmt: skip
_OF_LESSON = ("ok", "exit_code", "seconds", "created", "times")


_OF_FACTS = ("added", "known", "superseded", "pending", "forgotten", "sensitive")


def export_lines(memory: Memory, *, redact: Callable[[str], str] = lambda text: text) -> list[str]:
    """Return everything in this scope, as lines without line ends. No vectors, no hashes."""
    facts = memory.facts()
    numbers = {fact.id: number for number, fact in enumerate(facts, start=1)}
    records = [("memory", {}), *(("fact", _fact_record(one, numbers, redact)) for one in facts)]
    records += [
        (
            "preference",
            {
                "key": one.key,
                "value": one.value,
                "scope": _scope(one.project),
                "source": one.source,
                "updated": one.updated,
            },
        )
        for one in memory.preferences.stored()
    ]
    for number, one in enumerate(memory.learnings.all(), 1):
        texts = {name: redact(getattr(one, name)) for name in EXPORTED}
        plain = {name: getattr(one, name) for name in _OF_LESSON}
        records.append(("lesson", {"id": number, **texts, **plain, "session": one.session_id}))
    return list(write_archive(records))


def import_lines(memory: Memory, lines: Iterable[str], *, dry_run: bool = False) -> dict[str, int]:
    """Import what `export_lines` wrote, all or nothing; importing twice changes nothing more.

    Return the numbers of facts, preferences and lessons by what happens to them. Notes on sessions
    and projects in files of earlier versions are passed over.

    Raises `UsageError` for a file that is cut, changed, or of a newer format.
    """
    entries = read_archive(line for line in lines if line.strip())
    if not any(one.section == "memory" for one in entries):
        raise unusable(1, Phrase("it contains no memories"))
    try:
        with memory.repository.transaction():
            report = _Import(memory).take(entries)
            if dry_run:
                raise _DryRunError
    except _DryRunError:
        return report
    return report


class _DryRunError(Exception):
    """Leaves the transaction so that nothing is written."""


class _Import:
    """One import, with the numbers of what happens and the new ids of the file's facts."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._repository = memory.repository
        self._now = memory.clock.now()
        self._ids: dict[int, int] = {}
        self._counts = dict.fromkeys((*_OF_FACTS, "preferences", "lessons"), 0)

    def take(self, entries: Iterable[ArchiveLine]) -> dict[str, int]:
        links: list[tuple[Fact, int]] = []
        for line, kind, record in entries:
            if kind not in ("fact", "preference", "lesson"):
                continue
            with checking(line):
                # A value that its column cannot hold is refused.
                for name, value in record.items():
                    if name in _NUMBERS:
                        least = -LAST_TIME if name == "exit_code" else 0
                        fits = type(value) in (int, float) and least <= value < LAST_TIME
                        require(fits or (value is None and name in _MAY_LACK))
                    else:
                        require(isinstance(value, str | bool) or (value is None and name == "slot"))
                if kind == "preference":
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
                elif kind == "lesson":
                    self._counts["lessons"] += self._memory.learnings.take_over(_lesson(record))
                else:
                    stored = self._fact(record)
                    if stored is not None and record.get("superseded_by"):
                        links.append((stored, int(record["superseded_by"])))
        for fact, successor in links:
            if successor in self._ids:
                self._change(fact, "link", superseded_by=self._ids[successor])
        return self._counts

    def _change(self, fact: Fact, operation: str, **changes: object) -> None:
        self._repository.change(fact, operation, now=self._now, who="import", **changes)

    def _fact(self, record: Mapping[str, Any]) -> Fact | None:
        """Store one fact and return it; None when it was known, forgotten or refused."""
        clean = self._memory.redact
        copied: dict[str, Any] = {name: record.get(name) for name in _COPIED}
        copied["text"], copied["keywords"] = clean(record["text"]), clean(record["keywords"])
        fact = Fact(
            id=0,
            project=self._project(record),
            source="imported",
            origin=Origin(
                str(record.get("session", "")), record.get("seq"), clean(record["quote"])
            ),
            claim=f"{record['source']}{' pinned' if record['pinned'] else ''}",
            **copied,
        ).checked()
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
            fact = self._as_contested(fact)
        stored = self._repository.insert(fact, now=self._now, who="import")
        self._ids[int(record["id"])] = stored.id
        if fact.status == "pending" and record["status"] != "pending":
            self._counts["pending"] += 1
        else:
            self._counts["added"] += 1
        return stored

    def _as_contested(self, fact: Fact) -> Fact:
        """Return `fact` as it may be stored beside the fact that has its slot."""
        taken = self._repository.in_slot(fact.slot, fact.project)
        if taken is None:
            return fact
        candidate = Candidate(fact.text, confidence=fact.confidence, source="imported")
        if judge("update", candidate, taken, self._now) != "supersede":
            return fact._replace(status="pending")
        self._change(taken, "supersede", status="superseded", valid_to=self._now)
        self._counts["superseded"] += 1
        return fact

    def _known(self, fact: Fact) -> Fact | None:
        if fact.status != "superseded":
            return self._repository.same_text(words_of(fact.text), fact.project)
        return next(
            (
                one
                for one in self._repository.facts("superseded")
                if (one.text, one.project, one.valid_from, one.valid_to)
                == (fact.text, fact.project, fact.valid_from, fact.valid_to)
            ),
            None,
        )

    def _project(self, record: Mapping[str, Any]) -> str:
        return self._memory.project if record["scope"] == "project" else ""


def _fact_record(
    fact: Fact, numbers: Mapping[int, int], redact: Callable[[str], str]
) -> dict[str, Any]:
    source, _, pin = fact.claim.partition(" ") if fact.claim else (fact.source, "", "")
    return {
        "id": numbers[fact.id],
        "scope": _scope(fact.project),
        **{name: getattr(fact, name) for name in _COPIED},
        "text": redact(fact.text),
        "keywords": redact(fact.keywords),
        "source": source,
        "pinned": fact.pinned or bool(pin),
        "superseded_by": numbers.get(fact.superseded_by) if fact.superseded_by else None,
        "session": fact.origin.session_id,
        "seq": fact.origin.seq,
        "quote": redact(fact.origin.quote),
    }


def _lesson(record: Mapping[str, Any]) -> Lesson:
    texts: dict[str, Any] = {name: str(record[name]) for name in EXPORTED}
    others = {name: record[name] for name in _OF_LESSON}
    if not isinstance(others["ok"], bool):
        raise ValueError("ok is true or false")
    return Lesson(id=0, session_id=str(record["session"]), **texts, **others)


def _scope(project: str) -> str:
    return "project" if project else "everywhere"


# --- copies to another database --------------------------------------------------------------

_REFERENCES = {"superseded_by", "fact_id"}
_OWN = "user_id"
_BOOKKEEPING = ("memory_clock", "memory_sessions", "short_term")


def copy_memory(source: MemoryDatabase, target: MemoryDatabase) -> int:
    """Copy everything of `source`'s user to `target`'s user, all or nothing; return the rows.

    Unlike an import this copies the tables as they are. Row ids are kept where they are free; on
    a server where other users' rows have them, new ones are given and all references follow.
    Copying again what is there already changes nothing. Raises `UsageError` when the target
    holds other memories of this user: two memories are not merged without being asked.
    """
    if not any(
        target.one(f"SELECT 1 FROM {table} WHERE {_OWN} = ? LIMIT 1", (target.user,))
        for table in TABLES
        if table not in _BOOKKEEPING
    ):
        try:
            return _copy(source, target, keep_ids=True)
        except DuplicateError:
            return _copy(source, target, keep_ids=False)
    if same_memory(source, target):
        return len(_rows(target))
    raise UsageError(
        "{place} already contains other memories; no memories were copied. "
        "To merge them, use 'kogniterm memory export' and 'kogniterm memory "
        "import'.",
        place=target.place,
    )


def same_memory(source: MemoryDatabase, target: MemoryDatabase) -> bool:
    """Return whether both hold the same, apart from the numbers of the rows."""
    return _rows(source) == _rows(target)


def _rows(sql: MemoryDatabase) -> list[str]:
    """Return all rows of the user, without the columns that a copy may renumber."""
    found = []
    for table in TABLES:
        ignored = _REFERENCES | {"id", _OWN}
        columns = sorted(name for name in _columns(sql, table) if name not in ignored)
        rows = sql.execute(
            f"SELECT {', '.join(columns)} FROM {table} WHERE {_OWN} = ?", (sql.user,)
        )
        for row in rows:
            # PostgreSQL returns a memoryview.
            values = [bytes(one) if isinstance(one, memoryview) else one for one in row]
            found.append(f"{table} {values!r}")
    return sorted(found)


def _columns(sql: MemoryDatabase, table: str) -> list[str]:
    if sql.is_postgres:
        query = (
            "SELECT column_name FROM information_schema.columns WHERE table_name = ? "
            "AND table_schema = current_schema() ORDER BY ordinal_position"
        )
    else:
        query = "SELECT name FROM pragma_table_info(?)"
    return [name for (name,) in sql.execute(query, (table,))]


def _copy(source: MemoryDatabase, target: MemoryDatabase, *, keep_ids: bool) -> int:
    count = 0
    facts: dict[object, int | None] = {None: None}
    with target.transaction():
        for table in _BOOKKEEPING:  # an opened, empty memory has rows there
            target.run(f"DELETE FROM {table} WHERE {_OWN} = ?", (target.user,))
        for table in TABLES:
            columns = _columns(source, table)
            order = "id" if table in NUMBERED else columns[0]
            for values in source.execute(
                f"SELECT {', '.join(columns)} FROM {table} WHERE {_OWN} = ? ORDER BY {order}",
                (source.user,),
            ):
                row = dict(zip(columns, values, strict=True)) | {_OWN: target.user}
                old = row.get("id")
                if "superseded_by" in row:
                    row["superseded_by"] = None  # set when all facts have their numbers
                if "fact_id" in row:
                    row["fact_id"] = facts.get(row["fact_id"])
                if table in NUMBERED and not keep_ids:
                    del row["id"]
                number = target.put(table, row)
                if table == "facts":
                    facts[old] = number
                count += 1
        for fact, successor in source.execute(
            f"SELECT id, superseded_by FROM facts WHERE {_OWN} = ? AND superseded_by IS NOT NULL",
            (source.user,),
        ):
            target.run(
                f"UPDATE facts SET superseded_by = ? WHERE id = ? AND {_OWN} = ?",
                (facts.get(successor), facts[fact], target.user),
            )
        target.record_facts(number for number in facts.values() if number is not None)
        # The server's counters go past the rows that were written with their own numbers.
        for table in NUMBERED if keep_ids and target.is_postgres else ():
            target.execute(
                f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), greatest(max(id), "
                f"pg_sequence_last_value(pg_get_serial_sequence('{table}', 'id')::regclass), 1)) "
                f"FROM {table}"
            )
    return count
