"""The words of facts and lessons in the database, so that a search does not load them all.

A row of `fact_words` says that an active fact or a lesson holds a term; `fact_terms` has each term
once, for words of the same root and for misspelt ones; `fact_index` counts the facts and their
terms. They are written in the transaction that writes a fact, and a fact's rows go with it, so that
nothing of a forgotten fact stays here. Lessons are rows of a project of their own, with negative
ids.

The first search of a user makes the index; before that, nothing is written. It is made again when
it was made by a version that forms stems in another way: that version left another `STEMMING`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kogniterm.memory.fact_records import Fact
from kogniterm.memory.memory_database import INDEX_TABLES, SCOPE_OF_IDS, MemoryDatabase
from kogniterm.storage.database import VALUES_AT_ONCE, in_pieces
from kogniterm.text.language import root, stems_of

STEMMING = "2"
"""Raised with each change of the stems that a text has, and of what is indexed; a test tells when
the stems change."""

K1 = 0.9
B = 0.4
KEYWORD = 0.6
"""Weight of a term that is in the keywords only."""

_SCOPE = "user_id = ? AND project_id IN (?, ?)"


def idf(holding: int, total: int) -> float:
    """Return the weight of a term that `holding` of `total` documents hold."""
    return math.log(1 + (total - holding + 0.5) / (holding + 0.5))


@dataclass(frozen=True, slots=True)
class WordEntry:
    """The terms of a fact or lesson, in order, and further terms of less weight."""

    number: int
    project: str
    terms: tuple[str, ...]
    extra: tuple[str, ...] = ()


def fact_entry(fact: Fact) -> WordEntry:
    """Return the index entry of `fact`."""
    own = stems_of(fact.text)
    keywords = {stem for word in fact.keywords.split() for stem in stems_of(word)}
    return WordEntry(fact.id, fact.project, tuple(own), tuple(sorted(keywords.difference(own))))


def lesson_entry(number: int, project: str, task: str, about: str) -> WordEntry:
    """Return the index entry of the lesson `number` on `task`; `about` are its other words."""
    own = stems_of(task)
    extra = sorted({*stems_of(about)}.difference(own))
    return WordEntry(-number, lessons_of(project), tuple(own), tuple(extra))


def lessons_of(project: str) -> str:
    """Return the name under which the lessons of `project` are indexed; no project has it."""
    return f"\n{project}"  # no word of its own: the proof of forgetting searches this column too


class StoredWords:
    """The words of the facts or lessons that one user has in one of two `projects`.

    With `texts` by their ids these need not be read. What is counted is kept until `refresh`.
    """

    def __init__(
        self,
        sql: MemoryDatabase,
        projects: tuple[str, str],
        texts: Mapping[int, str] | None = None,
    ) -> None:
        self._sql = sql
        self._bound = (sql.user, *projects)
        self._texts = texts
        self._facts = 0
        self._average = 1.0
        self._holding: dict[str, int] = {}

    # --- reading ---

    def refresh(self) -> None:
        """Count again; the database has changed."""
        row = self._sql.one(
            f"SELECT sum(facts), sum(words) FROM fact_index WHERE {_SCOPE}", self._bound
        )
        facts, words = row if row is not None else (0, 0)
        self._facts, self._average = int(facts or 0), int(words or 0) / max(int(facts or 0), 1)
        self._average = self._average or 1.0
        self._holding.clear()

    def __len__(self) -> int:
        return self._facts

    def holding(self, term: str) -> int:
        """Return the number of facts that hold `term`."""
        count = self._holding.get(term)
        if count is None:
            row = self._sql.one(
                f"SELECT count(*) FROM fact_words WHERE {_SCOPE} AND term = ?",
                (*self._bound, term),
            )
            count = self._holding[term] = int(row[0]) if row else 0
        return count

    def weight(self, holding: int) -> float:
        """Return the most that a term which `holding` facts hold can add to a score."""
        return idf(holding, self._facts) * (K1 + 1)

    def impacts(self, term: str, only: Collection[int] | None = None) -> Mapping[int, float]:
        """Return the saturated frequency of `term`, 0 to 1, in each fact that holds it."""
        impact = "fact_id, weight / (weight + ? + ? * length)"
        shape = (K1 * (1 - B), K1 * B / self._average)
        if only is None or len(only) >= self.holding(term):
            rows = self._sql.execute(
                f"SELECT {impact} FROM fact_words WHERE {_SCOPE} AND term = ?",
                (*shape, *self._bound, term),
            )
            return dict(rows)
        found: dict[int, float] = {}
        for some, marks in in_pieces(list(only)):
            found.update(
                self._sql.execute(
                    f"SELECT {impact} FROM fact_words WHERE {_SCOPE} AND term = ? "
                    f"AND fact_id IN ({marks})",
                    (*shape, *self._bound, term, *some),
                )
            )
        return found

    def of_root(self, shared: str) -> Iterable[str]:
        """Return the terms with the root `shared`."""
        rows = self._sql.execute(
            "SELECT term FROM fact_terms WHERE user_id = ? AND root = ?",
            (self._sql.user, shared),
        )
        return [term for (term,) in rows if self.holding(term)]

    def shaped(self, first: str, length: int) -> Iterable[str]:
        """Return the terms of `length` characters that begin with `first`."""
        rows = self._sql.execute(
            "SELECT term FROM fact_terms WHERE user_id = ? AND term >= ? AND term < ? AND size = ?",
            (self._sql.user, first, chr(ord(first) + 1), length),
        )
        return [term for (term,) in rows if self.holding(term)]

    def terms(self, fact_ids: Sequence[int]) -> Mapping[int, Sequence[str]]:
        """Return the terms of facts, in order."""
        if self._texts is not None:
            return {one: stems_of(self._texts[one]) for one in fact_ids if one in self._texts}
        rows: dict[int, str] = {}
        user, _, project = self._bound
        for some, marks in in_pieces(fact_ids):
            rows.update(
                self._sql.execute(
                    f"SELECT id, text FROM facts WHERE {SCOPE_OF_IDS} AND id IN ({marks})",
                    (user, project, *some),
                )
            )
        return {number: stems_of(text) for number, text in rows.items()}


def is_made(sql: MemoryDatabase) -> bool:
    """Return whether the user's index is there, made as this version makes it."""
    query = "SELECT 1 FROM fact_index WHERE user_id = ? AND project_id = '' AND stemming = ?"
    return sql.one(query, (sql.user, STEMMING)) is not None


def make(sql: MemoryDatabase, entries: Iterable[WordEntry]) -> None:
    """Make the user's index of all their `entries`, inside a transaction."""
    for table in INDEX_TABLES:
        sql.run(f"DELETE FROM {table} WHERE user_id = ?", (sql.user,))
    sql.put("fact_index", {"project_id": "", "facts": 0, "words": 0, "stemming": STEMMING})
    for entry in entries:
        _insert(sql, entry)


def index(sql: MemoryDatabase, number: int, entry: WordEntry | None) -> None:
    """Bring the rows of what was written up to date, inside the transaction that did."""
    if not is_made(sql):
        return
    remove(sql, number)
    if entry is not None:
        _insert(sql, entry)


def _insert(sql: MemoryDatabase, entry: WordEntry) -> None:
    weights = {term: float(count) for term, count in Counter(entry.terms).items()}
    weights |= {term: KEYWORD for term in entry.extra if term not in weights}
    if not weights:
        return
    length = len(entry.terms)
    rows = [(sql.user, entry.project, term, entry.number, weight, length)
            for term, weight in weights.items()]  # fmt: skip
    _insert_rows(sql, "fact_words (user_id, project_id, term, fact_id, weight, length)", rows)
    known = [(sql.user, term, root(term), len(term)) for term in weights]
    _insert_rows(sql, "fact_terms (user_id, term, root, size)", known, " ON CONFLICT DO NOTHING")
    sql.run(
        "INSERT INTO fact_index (user_id, project_id, facts, words, stemming) "
        "VALUES (?, ?, 1, ?, '') ON CONFLICT (user_id, project_id) DO UPDATE SET "
        "facts = fact_index.facts + 1, words = fact_index.words + excluded.words",
        (sql.user, entry.project, length),
    )


def _insert_rows(
    sql: MemoryDatabase, into: str, rows: Sequence[tuple[object, ...]], after: str = ""
) -> None:
    most = VALUES_AT_ONCE // len(rows[0])
    for start in range(0, len(rows), most):
        some = rows[start : start + most]
        marks = ", ".join([f"({', '.join('?' * len(rows[0]))})"] * len(some))
        sql.run(f"INSERT INTO {into} VALUES {marks}{after}", [one for row in some for one in row])


def remove_gone_lessons(sql: MemoryDatabase) -> None:
    """Remove the rows of lessons that are not there any more."""
    rows = sql.execute(
        "SELECT DISTINCT fact_id FROM fact_words WHERE user_id = ? AND fact_id < 0 "
        "AND NOT EXISTS (SELECT 1 FROM outcomes WHERE id = -fact_id)",
        (sql.user,),
    )
    for (number,) in rows:
        remove(sql, number)


def remove(sql: MemoryDatabase, number: int) -> None:
    """Remove the rows of a fact or lesson, also of an index that is out of date."""
    mine = (sql.user, number)
    # Only what the index by fact holds: for the length too, SQLite would read all of the user's.
    rows = sql.execute(
        "SELECT term, project_id FROM fact_words WHERE user_id = ? AND fact_id = ?", mine
    )
    if not rows:
        return
    ((length,),) = sql.execute(
        "SELECT length FROM fact_words "
        "WHERE user_id = ? AND term = ? AND project_id = ? AND fact_id = ?",
        (sql.user, *rows[0], number),
    )
    # By the whole key: for the user and the fact alone, SQLite 3.46 would read all of the user's.
    sql.run(
        "DELETE FROM fact_words WHERE user_id = ? AND fact_id = ? AND (term, project_id) IN "
        "(SELECT term, project_id FROM fact_words WHERE user_id = ? AND fact_id = ?)",
        (*mine, *mine),
    )
    for some, marks in in_pieces([term for term, _ in rows]):
        sql.run(
            f"DELETE FROM fact_terms WHERE user_id = ? AND term IN ({marks}) AND NOT EXISTS "
            "(SELECT 1 FROM fact_words AS other WHERE other.user_id = fact_terms.user_id "
            "AND other.term = fact_terms.term)",
            (sql.user, *some),
        )
    sql.run(
        "UPDATE fact_index SET facts = facts - 1, words = words - ? "
        "WHERE user_id = ? AND project_id = ?",
        (length, sql.user, rows[0][1]),
    )
