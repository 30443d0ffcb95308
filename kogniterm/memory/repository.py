"""Facts in the database, for one user and one project. No method takes another's id.

What a repository sees: the facts of its project and those that hold everywhere (project '').
Every write is a transaction of its own, raises the user's version number (so that search
indexes in other processes notice) and leaves an audit entry without text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from kogniterm.memory import ledger
from kogniterm.memory.fact_records import AuditEntry, Fact, Origin, Status
from kogniterm.memory.memory_database import MemoryDatabase
from kogniterm.storage.database import Row
from kogniterm.text.language import raw_words

_COLUMNS = (
    "id, text, category, project_id, slot, keywords, language, confidence, source, status, "
    "created, last_confirmed, relevance_count, pinned, valid_from, valid_to, superseded_by, "
    "session_id, origin_seq, quote, claim"
)
"""In the order of the fields of `Fact`, with those of its `Origin` before the last."""

_WRITABLE = (
    "text", "category", "slot", "keywords", "language", "confidence", "source", "status",
    "last_confirmed", "relevance_count", "pinned", "valid_to", "superseded_by",
)  # fmt: skip

_BESIDE_FACTS = ("preferences", "outcomes", "memory_sessions", "project_profiles")
"""The tables with what a project has beside facts."""


@dataclass(frozen=True, slots=True)
class Version:
    """Where a user's memory stands: `number` rises with every write, `wiped` with deletions."""

    number: int
    wiped: int


class FactRepository:
    """The facts that one user has in one project, and everywhere."""

    def __init__(self, sql: MemoryDatabase, project: str) -> None:
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
                self.sql.tick()
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

    def changed_since(self, version: int) -> list[Fact]:
        """Return facts written after `version`."""
        return self._select("version > ?", (version,))

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
        rows = self.sql.execute(
            "SELECT id, at, operation, fact_id, who FROM memory_audit "
            f"WHERE {self._scope} ORDER BY id DESC LIMIT ?",
            (*self._bound, limit),
        )
        return [AuditEntry(*row) for row in rows]

    def _select(self, condition: str, values: Sequence[object] = ()) -> list[Fact]:
        rows = self.sql.execute(
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
                fact.claim, "", digest(fact.text), self.sql.tick(),
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
            assignments["version"] = self.sql.tick()
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
                f"UPDATE facts SET terms = '', digest = ? WHERE {self._scope} AND id = ?",
                (digest(fact.text), *self._bound, fact_id),
            )
            self.sql.run(
                "DELETE FROM fact_vectors WHERE user_id = ? AND fact_id = ?", (self.user, fact_id)
            )

    def delete(self, fact_ids: Iterable[int], *, now: float, who: str) -> int:
        """Remove facts of this scope for good, vectors with them; returns how many."""
        removed = 0
        with self.sql.transaction():
            self.sql.tick(wiped=1)
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
            self.sql.tick()
            for fact_id in fact_ids:
                self.sql.run(
                    "UPDATE facts SET quote = '' WHERE user_id = ? AND id = ?",
                    (self.user, fact_id),
                )
            ledger.record(self.sql, fact_ids)
        return len(fact_ids)

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
        rows = self.sql.execute(
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

    # --- vectors ---

    def vectors(self, model: str) -> list[tuple[int, bytes]]:
        """Stored vectors of `model` for the active facts of this scope."""
        rows = self.sql.execute(
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
    normalised = " ".join(raw_words(text))
    return hashlib.blake2b((normalised or text).encode(), digest_size=16).hexdigest()


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def _fact(row: Row) -> Fact:
    fields = [*row[:13], bool(row[13]), *row[14:17], Origin(*row[17:20]), row[20]]
    return Fact(*fields)
