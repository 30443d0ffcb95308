"""The words of facts in the database, so that a search loads neither all facts nor all words.

A row of `fact_words` says that an active fact holds a term; `fact_terms` has each term once, for
words of the same root and for misspelt ones; `fact_index` counts the facts and their terms. They
are written in the transaction that writes a fact, and a fact's rows go with it, so that nothing of
a forgotten fact stays here.

The first search of a user makes the index; before that, nothing is written. It is made again when
it was made by a version that forms stems in another way: that version left another `STEMMING`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from kogniterm.memory.fact_records import Fact
from kogniterm.memory.memory_database import (
    INDEX_TABLES,
    SCOPE,
    SCOPE_OF_IDS,
    MemoryDatabase,
)
from kogniterm.memory.search.word_index import K1, KEYWORD, B, Entry
from kogniterm.storage.database import VALUES_AT_ONCE, in_pieces
from kogniterm.text.language import root, stems_of
from kogniterm.text.ranking import idf

STEMMING = "1"
"""Raised with each change of the stems that a text has; a test tells when that is."""


def entry(fact: Fact) -> Entry:
    """Return what the word index keeps of `fact`."""
    own = stems_of(fact.text)
    keywords = {stem for word in fact.keywords.split() for stem in stems_of(word)}
    return Entry(tuple(own), tuple(sorted(keywords.difference(own))))


class StoredWords:
    """The words of the facts that one user has in one project and everywhere.

    The postings of a `WordIndex`. What is counted is kept until `refresh`.
    """

    def __init__(self, sql: MemoryDatabase, project: str) -> None:
        self._sql = sql
        self._bound = (sql.user, project)
        self._facts = 0
        self._average = 1.0
        self._holding: dict[str, int] = {}

    # --- reading ---

    def refresh(self) -> None:
        """Count again; the database has changed."""
        row = self._sql.one(
            f"SELECT sum(facts), sum(words) FROM fact_index WHERE {SCOPE}", self._bound
        )
        facts, words = row if row is not None else (0, 0)
        self._facts, self._average = int(facts or 0), int(words or 0) / max(int(facts or 0), 1)
        self._average = self._average or 1.0
        self._holding.clear()

    def __len__(self) -> int:
        return self._facts

    def known(self, fact_ids: Iterable[int]) -> list[int]:
        """Return those of `fact_ids` that are indexed."""
        return list(self._among("SELECT DISTINCT fact_id FROM fact_words", fact_ids))

    def holding(self, term: str) -> int:
        """Return the number of facts that hold `term`."""
        count = self._holding.get(term)
        if count is None:
            row = self._sql.one(
                f"SELECT count(*) FROM fact_words WHERE {SCOPE} AND term = ?",
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
                f"SELECT {impact} FROM fact_words WHERE {SCOPE} AND term = ?",
                (*shape, *self._bound, term),
            )
            return dict(rows)
        found: dict[int, float] = {}
        for some, marks in in_pieces(list(only)):
            found.update(
                self._sql.execute(
                    f"SELECT {impact} FROM fact_words WHERE {SCOPE} AND term = ? "
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
        rows: dict[int, str] = {}
        for some, marks in in_pieces(fact_ids):
            rows.update(
                self._sql.execute(
                    f"SELECT id, text FROM facts WHERE {SCOPE_OF_IDS} AND id IN ({marks})",
                    (*self._bound, *some),
                )
            )
        return {number: stems_of(text) for number, text in rows.items()}

    def _among(self, query: str, fact_ids: Iterable[int]) -> Iterator[int]:
        for some, marks in in_pieces(list(fact_ids)):
            for (number,) in self._sql.execute(
                f"{query} WHERE {SCOPE} AND fact_id IN ({marks})", (*self._bound, *some)
            ):
                yield int(number)


def is_made(sql: MemoryDatabase) -> bool:
    """Return whether the user's index is there, made as this version makes it."""
    query = "SELECT 1 FROM fact_index WHERE user_id = ? AND project_id = '' AND stemming = ?"
    return sql.one(query, (sql.user, STEMMING)) is not None


def make(sql: MemoryDatabase, facts: Iterable[Fact]) -> None:
    """Make the user's index of all their active `facts`, inside a transaction."""
    for table in INDEX_TABLES:
        sql.run(f"DELETE FROM {table} WHERE user_id = ?", (sql.user,))
    sql.put("fact_index", {"project_id": "", "facts": 0, "words": 0, "stemming": STEMMING})
    for fact in facts:
        _insert(sql, fact)


def index(sql: MemoryDatabase, fact: Fact) -> None:
    """Bring the rows of a fact that was written up to date, inside the transaction that did."""
    if not is_made(sql):
        return
    remove(sql, fact)
    if fact.status == "active":
        _insert(sql, fact)


def _insert(sql: MemoryDatabase, fact: Fact) -> None:
    held = entry(fact)
    weights = {term: float(count) for term, count in Counter(held.terms).items()}
    weights |= {term: KEYWORD for term in held.extra if term not in weights}
    if not weights:
        return
    length = len(held.terms)
    rows = [(sql.user, fact.project, term, fact.id, weight, length)
            for term, weight in weights.items()]  # fmt: skip
    _insert_rows(sql, "fact_words (user_id, project_id, term, fact_id, weight, length)", rows)
    known = [(sql.user, term, root(term), len(term)) for term in weights]
    _insert_rows(sql, "fact_terms (user_id, term, root, size)", known, " ON CONFLICT DO NOTHING")
    sql.run(
        "INSERT INTO fact_index (user_id, project_id, facts, words, stemming) "
        "VALUES (?, ?, 1, ?, '') ON CONFLICT (user_id, project_id) DO UPDATE SET "
        "facts = fact_index.facts + 1, words = fact_index.words + excluded.words",
        (sql.user, fact.project, length),
    )


def _insert_rows(
    sql: MemoryDatabase, into: str, rows: Sequence[tuple[object, ...]], after: str = ""
) -> None:
    most = VALUES_AT_ONCE // len(rows[0])
    for start in range(0, len(rows), most):
        some = rows[start : start + most]
        marks = ", ".join([f"({', '.join('?' * len(rows[0]))})"] * len(some))
        sql.run(f"INSERT INTO {into} VALUES {marks}{after}", [one for row in some for one in row])


def remove(sql: MemoryDatabase, fact: Fact) -> None:
    """Remove the rows of a fact, also of an index that is out of date."""
    mine = (sql.user, fact.id)
    # Only what the index by fact holds: for the length too, SQLite would read all of the user's.
    rows = sql.execute(
        "SELECT term, project_id FROM fact_words WHERE user_id = ? AND fact_id = ?", mine
    )
    if not rows:
        return
    ((length,),) = sql.execute(
        "SELECT length FROM fact_words "
        "WHERE user_id = ? AND term = ? AND project_id = ? AND fact_id = ?",
        (sql.user, *rows[0], fact.id),
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
