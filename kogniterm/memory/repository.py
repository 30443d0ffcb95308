"""Facts in the database, for one user and one project, and the tombstones of forgotten ones.

A repository reads the facts of its project and those that hold everywhere (project ''); no method
takes another user or project. Every write is a transaction of its own, raises the user's version
number (so that search indexes in other processes notice) and leaves an audit entry without text.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from kogniterm.memory import word_index
from kogniterm.memory.fact_records import Fact, MemoryAuditEntry, Origin, Status
from kogniterm.memory.memory_database import DIGEST_BEGIN, SCOPE, SCOPE_OF_IDS, MemoryDatabase
from kogniterm.storage.database import Row, in_pieces
from kogniterm.text.language import Words, words_of

log = logging.getLogger(__name__)

_COLUMNS = (
    "id, text, category, project_id, slot, keywords, language, confidence, source, status, "
    "created, last_confirmed, relevance_count, pinned, valid_from, valid_to, superseded_by, "
    "session_id, origin_seq, quote, claim"
)
"""In the order of the fields of `Fact`, with those of its `Origin` before the last."""

_FIXED = ("text", "category", "language", "created", "valid_from", "claim")
_CHANGING = (
    "confidence", "source", "status", "last_confirmed", "relevance_count", "pinned", "valid_to",
    "superseded_by", "slot", "keywords",
)  # fmt: skip
"""The fields of a fact that `FactRepository.change` may write."""

_AT_ONCE = 50
"""Facts that one statement reads."""

_BESIDE_FACTS = (
    "preferences", "outcomes", "memory_sessions", "project_profiles", "short_term", "requests",
)  # fmt: skip
"""The tables with what a project has beside facts."""


class Version(NamedTuple):
    """The version of a user's memory: `number` rises with every write, `wiped` with deletions."""

    number: int
    wiped: int


class FactRepository:
    """The facts that one user has in one project, and everywhere."""

    def __init__(self, sql: MemoryDatabase, project: str) -> None:
        self.sql = sql
        self.user = sql.user
        self.project = project
        self._bound = (self.user, project)

    # --- reading ---

    def version(self) -> Version:
        """Return the user's version; zeros before the first write."""
        row = self.sql.one(
            "SELECT version, wiped FROM memory_clock WHERE user_id = ?", (self.user,)
        )
        return Version(*row) if row else Version(0, 0)

    def salt(self) -> str:
        """Return a random text of this user, made with the first write: a key without a file."""
        row = self.sql.one("SELECT salt FROM memory_clock WHERE user_id = ?", (self.user,))
        if row is None:
            with self.sql.transaction():
                self.sql.tick()
            return self.salt()
        return str(row[0])

    def get(self, fact_id: int) -> Fact | None:
        """Return the fact `fact_id` of this scope."""
        return next(iter(self._select("id = ?", (fact_id,))), None)

    def facts(self, *statuses: Status) -> list[Fact]:
        """Return facts in id order, of the given statuses, or all."""
        if not statuses:
            return self._select("1 = 1")
        marks = ", ".join("?" * len(statuses))
        return self._select(f"status IN ({marks})", statuses)

    def changed_since(self, version: int) -> list[Fact]:
        """Return facts written after `version`."""
        return self._select("version > ?", (version,))

    def same_text(self, words: Words, project: str) -> Fact | None:
        """Return the active or pending fact of exactly this scope with the same words."""
        sought = digest(words)
        found = self._select(
            f"id IN (SELECT id FROM facts WHERE {DIGEST_BEGIN} = ?) AND digest = ? "
            "AND project_id = ? AND status IN ('active', 'pending')",
            (sought[:8], sought, project),
            SCOPE_OF_IDS,
        )
        return next(iter(found), None)

    def in_slot(self, slot: str | None, project: str) -> Fact | None:
        """Return the active fact of exactly this scope that answers `slot`; None for no slot."""
        if not slot:
            return None
        found = self._select("slot = ? AND project_id = ? AND status = 'active'", (slot, project))
        return next(iter(found), None)

    def predecessors(self, fact_id: int) -> list[Fact]:
        """Return the facts that `fact_id` superseded, and those that these did, nearest first."""
        chain: dict[int, Fact] = {}
        wave = [fact_id]
        while wave:
            marks = ", ".join("?" * len(wave))
            found = self._select(f"superseded_by IN ({marks})", wave)
            fresh = {one.id: one for one in found if one.id not in chain and one.id != fact_id}
            chain |= fresh
            wave = list(fresh)
        return list(chain.values())

    def audit(self, limit: int = 100) -> list[MemoryAuditEntry]:
        rows = self.sql.execute(
            "SELECT id, at, operation, fact_id, who FROM memory_audit "
            f"WHERE {SCOPE} ORDER BY id DESC LIMIT ?",
            (*self._bound, limit),
        )
        return [MemoryAuditEntry(*row) for row in rows]

    def find_unannounced(self, how: str) -> list[Fact]:
        """Return the pending facts that the user was not told of in this way yet, oldest first."""
        return self._select(
            "status = 'pending' AND NOT EXISTS (SELECT 1 FROM memory_audit AS seen "
            "WHERE seen.user_id = facts.user_id AND seen.fact_id = facts.id "
            "AND seen.operation = ?)",
            (how,),
        )

    def _select(
        self, condition: str, values: Sequence[object] = (), scope: str = SCOPE
    ) -> list[Fact]:
        rows = self.sql.execute(
            f"SELECT {_COLUMNS} FROM facts WHERE {scope} AND {condition} ORDER BY id",
            (*self._bound, *values),
        )
        return [_fact(row) for row in rows]

    # --- writing ---

    def transaction(self) -> AbstractContextManager[None]:
        """Group several writes into one transaction, which is on the disk when it is left."""
        return self.sql.transaction(durable=True)

    def insert(self, fact: Fact, *, now: float, who: str, words: Words | None = None) -> Fact:
        """Store `fact` under a new id, in its project, which must be this one or ''.

        `words` are those of its text, where the caller has them.
        """
        if fact.project not in ("", self.project):
            raise ValueError("a repository writes only to its own project")
        words = words or words_of(fact.text)
        row = {name: getattr(fact, name) for name in (*_FIXED, *_CHANGING)}
        with self.sql.transaction():
            number = self.sql.put(
                "facts",
                {
                    **row,
                    "project_id": fact.project,
                    "pinned": int(fact.pinned),
                    "session_id": fact.origin.session_id,
                    "origin_seq": fact.origin.seq,
                    "quote": fact.origin.quote,
                    "terms": "",
                    "digest": digest(words),
                    "version": self.sql.tick(),
                },
            )
            stored = fact._replace(id=number)
            if stored.status == "active":
                word_index.index(self.sql, word_index.fact_entry(stored, words))
            self._note("add", number, now=now, who=who, project=fact.project)
            self.sql.record_facts([number])
        return stored

    def change(
        self, fact: Fact, operation: str, *, now: float, who: str = "person", **changes: object
    ) -> Fact:
        """Write `changes` (names of `Fact` fields) to `fact` and return it as it is now."""
        unknown = set(changes) - set(_CHANGING)
        if unknown:
            raise ValueError(f"cannot change {sorted(unknown)}")
        assignments = {
            name: int(value) if isinstance(value, bool) else value
            for name, value in changes.items()
        }
        with self.sql.transaction():
            assignments["version"] = self.sql.tick()
            indexed = changes.keys() & {"status", "keywords"}
            if indexed and (before := self.get(fact.id)) is not None:
                word_index.remove(self.sql, word_index.fact_entry(before))
            settings = ", ".join(f"{name} = ?" for name in assignments)
            self.sql.run(
                f"UPDATE facts SET {settings} WHERE {SCOPE} AND id = ?",
                (*assignments.values(), *self._bound, fact.id),
            )
            self._note(operation, fact.id, now=now, who=who, project=fact.project)
            self.sql.record_facts([fact.id])
            changed = self.get(fact.id)
            if indexed and changed is not None and changed.status == "active":
                word_index.index(self.sql, word_index.fact_entry(changed))
        return changed or fact

    def delete(self, fact_ids: Iterable[int], *, now: float, who: str) -> int:
        """Remove facts of this scope, with their vectors; returns the number removed."""
        removed = 0
        with self.sql.transaction():
            self.sql.tick(wiped=1)
            for fact_id in fact_ids:
                fact = self.get(fact_id)
                if fact is None:
                    continue
                removed += self.sql.run(
                    f"DELETE FROM facts WHERE {SCOPE} AND id = ?", (*self._bound, fact_id)
                )
                word_index.remove(self.sql, word_index.fact_entry(fact))
                self._note("forget", fact_id, now=now, who=who, project=fact.project)
                self.sql.record_facts([fact_id])
        return removed

    def clear_quotes(self, fact_ids: Sequence[int]) -> int:
        """Empty the quotes of these facts of the user, of any project; returns their number."""
        if not fact_ids:
            return 0
        with self.sql.transaction():
            self.sql.tick()
            for fact_id in fact_ids:
                self.sql.run(
                    "UPDATE facts SET quote = '' WHERE user_id = ? AND id = ?",
                    (self.user, fact_id),
                )
            self.sql.record_facts(fact_ids)
        return len(fact_ids)

    def drop_project(self) -> int:
        """Delete what the project has beside facts; returns the row count."""
        with self.sql.transaction():
            return sum(
                self.sql.run(
                    f"DELETE FROM {table} WHERE user_id = ? AND project_id = ?",
                    (self.user, self.project),
                )
                for table in _BESIDE_FACTS
            )

    def drop_session(self, session_id: str) -> int:
        """Delete lessons and notes of a session; returns the row count."""
        with self.sql.transaction():
            return sum(
                self.sql.run(
                    f"DELETE FROM {table} WHERE user_id = ? AND project_id IN ('', ?) "
                    "AND session_id = ?",
                    (*self._bound, session_id),
                )
                for table in ("outcomes", "memory_sessions", "short_term", "requests")
            )

    def projects(self) -> list[str]:
        """Return the names of all projects that have rows of this user, "" for everywhere."""
        kept = " UNION ".join(
            f"SELECT project_id FROM {table} WHERE user_id = ?"
            for table in ("facts", *_BESIDE_FACTS)
        )
        rows = self.sql.execute(
            f"SELECT project_id FROM ({kept}) AS kept ORDER BY project_id",
            (self.user,) * (1 + len(_BESIDE_FACTS)),
        )
        return [str(row[0]) for row in rows]

    def _note(self, operation: str, fact_id: int, *, now: float, who: str, project: str) -> None:
        """Add an audit entry: what was done to which fact by whom, without its text."""
        log.debug("fact m%d: %s by %s", fact_id, operation, who)
        entry = {"project_id": project, "at": now, "operation": operation}
        self.sql.put("memory_audit", {**entry, "fact_id": fact_id, "who": who})

    # --- vectors ---

    def vectors(self, model: str) -> list[tuple[int, bytes]]:
        """Return the stored vectors of `model` for the active facts of this scope."""
        rows = self.sql.execute(
            "SELECT fact_id, vector FROM fact_vectors WHERE user_id = ? AND model = ? AND "
            f"fact_id IN (SELECT id FROM facts WHERE {SCOPE} AND status = 'active')",
            (self.user, model, *self._bound),
        )
        return [(int(fact_id), bytes(vector)) for fact_id, vector in rows]

    def store_vectors(self, model: str, vectors: Mapping[int, bytes]) -> None:
        """Store vectors beside their facts, unless the database is read-only or a fact is gone."""
        if self.sql.read_only:
            return
        with self.sql.transaction():
            for fact_id, vector in vectors.items():
                self.sql.run(
                    "INSERT INTO fact_vectors (fact_id, user_id, model, vector) "
                    f"SELECT id, user_id, ?, ? FROM facts WHERE {SCOPE} AND id = ? "
                    "ON CONFLICT (fact_id) DO UPDATE SET model = excluded.model, "
                    "vector = excluded.vector",
                    (model, vector, *self._bound, fact_id),
                )


def facts_by_id(repository: FactRepository, fact_ids: Iterable[int]) -> dict[int, Fact]:
    """Return those of the facts `fact_ids` that are in the scope of a repository."""
    wanted = list(dict.fromkeys(fact_ids))
    found: dict[int, Fact] = {}
    for some, marks in in_pieces(wanted, _AT_ONCE):
        rows = repository._select(f"id IN ({marks})", some, SCOPE_OF_IDS)
        found |= {one.id: one for one in rows}
    return found


def active_facts(
    repository: FactRepository, condition: str, order: str, values: Sequence[object] = ()
) -> Iterator[Fact]:
    """Yield the active facts for which `condition` holds in `order`, some at a time."""
    start = 0
    while True:
        rows = repository.sql.execute(
            f"SELECT {_COLUMNS} FROM facts WHERE {SCOPE} AND status = 'active' "
            f"AND {condition} ORDER BY {order} LIMIT ? OFFSET ?",
            (*repository._bound, *values, _AT_ONCE, start),
        )
        yield from map(_fact, rows)
        if len(rows) < _AT_ONCE:
            return
        start += _AT_ONCE


def make_words(repository: FactRepository) -> None:
    """Make the index of words of all of the user's active facts and lessons, unless it is there.

    For a file that cannot be written, it is in memory.
    """
    sql = repository.sql
    if word_index.is_made(sql):
        return
    if sql.read_only:
        sql.make_index_in_memory()
        word_index.make(sql, _entries(sql))
        return
    with sql.transaction():
        sql.tick()  # other writers of the user wait
        if not word_index.is_made(sql):
            word_index.make(sql, _entries(sql))


def _entries(sql: MemoryDatabase) -> Iterator[word_index.WordEntry]:
    for row in sql.execute(
        f"SELECT {_COLUMNS} FROM facts WHERE user_id = ? AND status = 'active' ORDER BY id",
        (sql.user,),
    ):
        yield word_index.fact_entry(_fact(row))
    for row in sql.execute(
        "SELECT id, project_id, task, shape || ' ' || failed || ' ' || wording FROM outcomes "
        "WHERE user_id = ? ORDER BY id",
        (sql.user,),
    ):
        yield word_index.lesson_entry(*row)


def digest(words: Words) -> str:
    """Return a hash, equal for texts that differ in case, accents, punctuation and spacing only."""
    normalised = " ".join(words.raw) or words.text
    return hashlib.blake2b(normalised.encode(), digest_size=16).hexdigest()


def _fact(row: Row) -> Fact:
    fields = (*row[:13], bool(row[13]), *row[14:17], Origin(*row[17:20]), row[20])
    return Fact._make(fields).checked()


class Tombstones:
    """The keyed hashes of texts that one user had forgotten, in one project and everywhere.

    Forgotten texts must not be learned again, although they are no longer stored. The key is in a
    file of its own (0600), so that the database alone tells nothing, not even to an attacker who
    can guess the text.
    """

    def __init__(self, repository: FactRepository, key: bytes) -> None:
        self._repository = repository
        self._sql = repository.sql
        self._key = key

    def of(self, repository: FactRepository) -> Tombstones:
        """Return the tombstones of another project of the same user."""
        return Tombstones(repository, self._key)

    def add(self, texts: Iterable[str], now: float) -> None:
        """Remember that `texts` were forgotten, without keeping them."""
        project = self._repository.project
        with self._sql.transaction():
            for digest in {digest for text in texts for digest in self._digests(words_of(text))}:
                self._sql.put(
                    "tombstones",
                    {"project_id": project, "digest": digest, "created": now},
                    key=("project_id", "digest"),
                )

    def holds(self, text: str) -> bool:
        """Return whether `text`, or another order of its content words, was forgotten."""
        digests = self._digests(words_of(text))
        marks = ", ".join("?" * len(digests))
        row = self._sql.one(
            "SELECT 1 FROM tombstones WHERE user_id = ? AND project_id IN ('', ?) "
            f"AND digest IN ({marks})",
            (self._repository.user, self._repository.project, *digests),
        )
        return row is not None

    def lift(self, words: Words) -> None:
        """Allow a text again, because the user repeated it."""
        digests = self._digests(words)
        self._sql.run(
            "DELETE FROM tombstones WHERE user_id = ? AND project_id IN ('', ?) "
            f"AND digest IN ({', '.join('?' * len(digests))})",
            (self._repository.user, self._repository.project, *digests),
        )

    def _digests(self, words: Words) -> list[str]:
        normalised = " ".join(words.raw) or words.text
        found = [self._hash(f"text:{normalised}")]
        stems = sorted(set(words.stems))
        if len(stems) > 1:
            found.append(self._hash("stems:" + " ".join(stems)))
        return found

    def _hash(self, text: str) -> str:
        return hmac.digest(self._key, text.encode(), "sha256").hex()
