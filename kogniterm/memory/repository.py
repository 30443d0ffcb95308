"""Facts in the database, for one user and one project. No method takes another's id.

What a repository sees: the facts of its project and those that hold everywhere (project '').
Every write is a transaction of its own, raises the user's version number (so that search
indexes in other processes notice) and leaves an audit entry without text.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from kogniterm.memory import ledger, words
from kogniterm.memory.records import AuditEntry, Fact, Origin, Status
from kogniterm.memory.sql import Row, Sql

_COLUMNS = (
    "id, text, category, project_id, slot, keywords, language, confidence, source, status, "
    "created, last_confirmed, relevance_count, pinned, valid_from, valid_to, superseded_by, "
    "session_id, origin_seq, quote, claim"
)
_WRITABLE = (
    "text", "category", "slot", "keywords", "language", "confidence", "source", "status",
    "last_confirmed", "relevance_count", "pinned", "valid_to", "superseded_by",
)  # fmt: skip

_BESIDE_FACTS = (
    "preferences", "outcomes", "memory_sessions", "project_profiles", "store_items",
)  # fmt: skip
"""The tables with what a project has beside facts."""


@dataclass(frozen=True, slots=True)
class Version:
    """Where a user's memory stands: `number` rises with every write, `wiped` with deletions."""

    number: int
    wiped: int


@dataclass(frozen=True, slots=True)
class IndexedFact:
    """A fact with the terms it is found by."""

    fact: Fact
    terms: tuple[str, ...]


class FactRepository:
    """The facts that one user has in one project, and everywhere."""

    def __init__(self, sql: Sql, project: str) -> None:
        self.sql = sql
        self.user = sql.user
        self.project = project
        self._scope = "user_id = ? AND project_id IN ('', ?)"
        self._bound = (self.user, project)

    # --- reading ---

    def version(self) -> Version:
        """The user's version; zeros before the first write."""
        row = self.sql.one(
            "SELECT version, wiped FROM memory_clock WHERE user_id = ?", (self.user,)
        )
        return Version(int(row[0]), int(row[1])) if row else Version(0, 0)

    def salt(self) -> str:
        """A random text of this user, made with the first write; for databases without a key."""
        row = self.sql.one("SELECT salt FROM memory_clock WHERE user_id = ?", (self.user,))
        if row is None:
            with self.sql.transaction():
                self._tick()
            return self.salt()
        return str(row[0])

    def get(self, fact_id: int) -> Fact | None:
        """The fact `fact_id` of this scope."""
        rows = self._select("id = ?", (fact_id,))
        return rows[0] if rows else None

    def facts(self, *statuses: Status) -> list[Fact]:
        """Facts in id order, of the given statuses, or all."""
        if not statuses:
            return self._select("1 = 1")
        marks = ", ".join("?" * len(statuses))
        return self._select(f"status IN ({marks})", statuses)

    def changed_since(self, version: int) -> list[IndexedFact]:
        """Facts written after `version`, with their terms."""
        rows = self.sql.all(
            f"SELECT {_COLUMNS}, terms FROM facts WHERE {self._scope} AND version > ?",
            (*self._bound, version),
        )
        return [IndexedFact(_fact(row), tuple(str(row[-1]).split())) for row in rows]

    def same_text(self, text: str, project: str) -> Fact | None:
        """The living fact of exactly this scope whose normalised text equals that of `text`."""
        found = self._select(
            "digest = ? AND project_id = ? AND status IN ('active', 'pending')",
            (digest(text), project),
        )
        return found[0] if found else None

    def in_slot(self, slot: str, project: str) -> Fact | None:
        """The active fact of exactly this scope that answers `slot`."""
        found = self._select("slot = ? AND project_id = ? AND status = 'active'", (slot, project))
        return found[0] if found else None

    def predecessors(self, fact_id: int) -> list[Fact]:
        """Facts that `fact_id` superseded, and theirs, nearest first."""
        chain: list[Fact] = []
        wave = [fact_id]
        seen = {fact_id}
        while wave:
            marks = ", ".join("?" * len(wave))
            found = self._select(f"superseded_by IN ({marks})", tuple(wave))
            fresh = [fact for fact in found if fact.id not in seen]
            chain.extend(fresh)
            wave = [fact.id for fact in fresh]
            seen.update(wave)
        return chain

    def audit(self, limit: int = 100) -> list[AuditEntry]:
        """The newest audit entries, newest first."""
        rows = self.sql.all(
            "SELECT id, at, operation, fact_id, who FROM memory_audit "
            f"WHERE {self._scope} ORDER BY id DESC LIMIT ?",
            (*self._bound, limit),
        )
        return [AuditEntry(*row) for row in rows]

    def _select(self, condition: str, values: Sequence[object] = ()) -> list[Fact]:
        rows = self.sql.all(
            f"SELECT {_COLUMNS} FROM facts WHERE {self._scope} AND {condition} ORDER BY id",
            (*self._bound, *values),
        )
        return [_fact(row) for row in rows]

    # --- writing ---

    def transaction(self) -> AbstractContextManager[None]:
        """Several writes that stand or fall together."""
        return self.sql.transaction()

    def insert(self, fact: Fact, *, now: float, who: str) -> Fact:
        """Store `fact` under a new id, in its project, which must be this one or ''."""
        if fact.project not in ("", self.project):
            raise ValueError("a repository writes only to its own project")
        origin = fact.origin
        with self.sql.transaction():
            values = (
                self.user, fact.project, fact.category, fact.slot, fact.text, fact.keywords,
                fact.language, fact.confidence, fact.source, fact.status, fact.created,
                fact.last_confirmed, fact.relevance_count, int(fact.pinned), fact.valid_from,
                fact.valid_to, fact.superseded_by, origin.session_id, origin.seq, origin.quote,
                fact.claim, _terms(fact), digest(fact.text), self._tick(),
            )  # fmt: skip
            row = self.sql.one(
                "INSERT INTO facts (user_id, project_id, category, slot, text, keywords, "
                "language, confidence, source, status, created, last_confirmed, "
                "relevance_count, pinned, valid_from, valid_to, superseded_by, session_id, "
                f"origin_seq, quote, claim, terms, digest, version) VALUES ({_marks(values)}) "
                f"RETURNING {_COLUMNS}",
                values,
            )
            stored = _fact(row) if row else fact
            self.note("add", stored.id, now=now, who=who, project=fact.project)
            ledger.record(self.sql, [stored.id])
        return stored

    def change(
        self, fact: Fact, changes: Mapping[str, object], *, now: float, who: str, operation: str
    ) -> Fact:
        """Write `changes` (names of `Fact` fields) to `fact` and return it as it is now."""
        unknown = set(changes) - set(_WRITABLE)
        if unknown:
            raise ValueError(f"cannot change {sorted(unknown)}")
        assignments = {
            name: int(value) if isinstance(value, bool) else value
            for name, value in changes.items()
        }
        with self.sql.transaction():
            assignments["version"] = self._tick()
            settings = ", ".join(f"{name} = ?" for name in assignments)
            self.sql.run(
                f"UPDATE facts SET {settings} WHERE {self._scope} AND id = ?",
                (*assignments.values(), *self._bound, fact.id),
            )
            if {"text", "keywords"} & set(changes):
                self._reindex(fact.id)
            self.note(operation, fact.id, now=now, who=who, project=fact.project)
            ledger.record(self.sql, [fact.id])
            changed = self.get(fact.id)
        return changed or fact

    def _reindex(self, fact_id: int) -> None:
        fact = self.get(fact_id)
        if fact is not None:
            self.sql.run(
                f"UPDATE facts SET terms = ?, digest = ? WHERE {self._scope} AND id = ?",
                (_terms(fact), digest(fact.text), *self._bound, fact_id),
            )
            self.sql.run(
                "DELETE FROM fact_vectors WHERE user_id = ? AND fact_id = ?", (self.user, fact_id)
            )

    def delete(self, fact_ids: Iterable[int], *, now: float, who: str) -> int:
        """Remove facts of this scope for good, vectors with them; returns how many."""
        removed = 0
        with self.sql.transaction():
            self._tick(wiped=1)
            for fact_id in fact_ids:
                fact = self.get(fact_id)
                if fact is None:
                    continue
                removed += self.sql.run(
                    f"DELETE FROM facts WHERE {self._scope} AND id = ?", (*self._bound, fact_id)
                )
                self.note("forget", fact_id, now=now, who=who, project=fact.project)
                ledger.record(self.sql, [fact_id])
        return removed

    def clear_quotes(self, fact_ids: Sequence[int]) -> int:
        """Empty the quotes of these facts of the user, of any project; returns how many."""
        if not fact_ids:
            return 0
        with self.sql.transaction():
            self._tick(wiped=0)
            for fact_id in fact_ids:
                self.sql.run(
                    "UPDATE facts SET quote = '' WHERE user_id = ? AND id = ?",
                    (self.user, fact_id),
                )
            ledger.record(self.sql, fact_ids)
        return len(fact_ids)

    def begin_ledger(self) -> None:
        """The first time: write down all of the user's facts as they are found."""
        if self.sql.read_only or ledger.is_begun(self.sql):
            return
        with self.sql.transaction():
            self._tick()  # writers of one user queue up here
            if not ledger.is_begun(self.sql):
                rows = self.sql.all(
                    "SELECT id FROM facts WHERE user_id = ? ORDER BY id", (self.user,)
                )
                ledger.record(self.sql, [int(fact_id) for (fact_id,) in rows])

    def drop_project(self) -> int:
        """Delete what this project has beside facts, and return how many rows that were.

        Preferences, lessons, notes, the profile and the items of the store.
        """
        with self.sql.transaction():
            return sum(
                self.sql.run(
                    f"DELETE FROM {table} WHERE user_id = ? AND project_id = ?",
                    (self.user, self.project),
                )
                for table in _BESIDE_FACTS
            )

    def drop_session(self, session_id: str) -> int:
        """Delete what a session has left beside facts, and return how many rows that were."""
        with self.sql.transaction():
            return sum(
                self.sql.run(
                    f"DELETE FROM {table} WHERE user_id = ? AND project_id IN ('', ?) "
                    "AND session_id = ?",
                    (*self._bound, session_id),
                )
                for table in ("outcomes", "memory_sessions")
            )

    def projects(self) -> list[str]:
        """The projects this user has anything in, "" for everywhere: names only, to forget them."""
        kept = " UNION ".join(
            f"SELECT project_id FROM {table} WHERE user_id = ?"
            for table in ("facts", *_BESIDE_FACTS)
        )
        rows = self.sql.all(
            f"SELECT project_id FROM ({kept}) AS kept ORDER BY project_id",
            (self.user,) * (1 + len(_BESIDE_FACTS)),
        )
        return [str(row[0]) for row in rows]

    def note(
        self,
        operation: str,
        fact_id: int | None,
        *,
        now: float,
        who: str,
        project: str | None = None,
    ) -> None:
        """Add an audit entry: what was done to which fact by whom, without its text."""
        self.sql.run(
            "INSERT INTO memory_audit (user_id, project_id, at, operation, fact_id, who) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (self.user, self.project if project is None else project, now, operation, fact_id, who),
        )

    def _tick(self, wiped: int = 0) -> int:
        """Raise the user's version number; writers of one user queue up here."""
        row = self.sql.one(
            "INSERT INTO memory_clock (user_id, version, wiped, salt) VALUES (?, 1, ?, ?) "
            "ON CONFLICT (user_id) DO UPDATE SET version = memory_clock.version + 1, "
            "wiped = memory_clock.wiped + excluded.wiped RETURNING version",
            (self.user, wiped, secrets.token_hex(16)),
        )
        return int(row[0]) if row else 1

    # --- vectors ---

    def vectors(self, model: str) -> list[tuple[int, bytes]]:
        """Stored vectors of `model` for the active facts of this scope."""
        rows = self.sql.all(
            "SELECT fact_id, vector FROM fact_vectors WHERE user_id = ? AND model = ? AND "
            f"fact_id IN (SELECT id FROM facts WHERE {self._scope} AND status = 'active')",
            (self.user, model, *self._bound),
        )
        return [(int(fact_id), bytes(vector)) for fact_id, vector in rows]

    def store_vectors(self, model: str, vectors: Mapping[int, bytes]) -> None:
        """Keep vectors beside their facts, where they can be kept; a fact that is gone is passed
        over."""
        if self.sql.read_only:
            return
        with self.sql.transaction():
            for fact_id, vector in vectors.items():
                self.sql.run(
                    "INSERT INTO fact_vectors (fact_id, user_id, model, vector) "
                    f"SELECT id, user_id, ?, ? FROM facts WHERE {self._scope} AND id = ? "
                    "ON CONFLICT (fact_id) DO UPDATE SET model = excluded.model, "
                    "vector = excluded.vector",
                    (model, vector, *self._bound, fact_id),
                )


def digest(text: str) -> str:
    """Equal for texts that differ in case, accents, punctuation and spacing only."""
    normalised = " ".join(words.raw_words(text))
    return hashlib.blake2b((normalised or text).encode(), digest_size=16).hexdigest()


def _terms(fact: Fact) -> str:
    """Terms as stored: those of the text, then those of the keywords after a bar."""
    own = words.terms(fact.text)
    keywords = fact.keywords.split()
    extra = {stem for word in keywords for stem in words.terms(word)} - set(own)
    return " ".join([*own, "|", *sorted(extra)]) if extra else " ".join(own)


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def _fact(row: Row) -> Fact:
    return Fact(
        id=int(row[0]),
        text=row[1],
        category=row[2],
        project=row[3],
        slot=row[4],
        keywords=row[5],
        language=row[6],
        confidence=row[7],
        source=row[8],
        status=row[9],
        created=row[10],
        last_confirmed=row[11],
        relevance_count=row[12],
        pinned=bool(row[13]),
        valid_from=row[14],
        valid_to=row[15],
        superseded_by=row[16],
        origin=Origin(row[17], row[18], row[19]),
        claim=row[20],
    )
