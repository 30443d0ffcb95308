"""The word index: BM25 over facts and lessons, the same for SQLite and PostgreSQL.

The words are in tables of the database, so that a search does not load all facts.

A row of `fact_index` counts the facts of a project and their terms; `fact_terms` has each term of a
project, and the number of facts that hold it; a row of `fact_words` says that an active fact or a
lesson holds a term. Texts stand in the first two alone: `fact_words`, by far the longest, is
numbers. They are written in the transaction that writes a fact, and a fact's rows go with it, so
that nothing of a forgotten fact stays here. Lessons are rows of a project of their own, with
negative ids.

The first search of a user makes the index; before that, nothing is written. It is made again when
it was made by a version that forms stems in another way: that version left another `STEMMING`.

Scoring is BM25 with Lucene's never negative idf, k1 = 0.9 and b = 0.4 (the values Anserini uses
for short passages). A question word is a concept: its own stem counts fully, the stem in the
other language too, and related words, words of the same root and near spellings count for less;
of the alternatives that a fact holds, the best one counts.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain, pairwise

from kogniterm.memory.fact_records import Fact
from kogniterm.memory.memory_database import SCOPE_OF_IDS, MemoryDatabase
from kogniterm.storage.database import VALUES_AT_ONCE, Row, in_pieces
from kogniterm.text.language import (
    Language,
    Token,
    language_of,
    raw_words,
    related_stems,
    root,
    stem,
    stems_of,
    stopwords,
    tokens,
    translated_stems,
)

STEMMING = "2"
"""Raised with each change of the stems that a text has, and of what is indexed; a test tells when
the stems change."""

K1 = 0.9
B = 0.4
KEYWORD = 0.6
"""Weight of a term that is in the keywords only."""

_FEW = 100
"""Most facts that hold a term which is looked up together with others."""

_SCOPES = "SELECT id FROM fact_index WHERE user_id = ?"


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
        self._scopes: tuple[int, int] = (0, 0)
        self._facts = 0
        self._average = 1.0
        self._known: dict[str, dict[int, int]] = {}

    # --- reading ---

    def refresh(self) -> None:
        """Count again; the database has changed."""
        rows = self._sql.execute(
            "SELECT id, facts, words FROM fact_index WHERE user_id = ? AND project_id IN (?, ?)",
            self._bound,
        )
        numbers = [number for number, _, _ in rows]
        self._scopes = (*numbers, 0, 0)[:2]
        self._facts = sum(facts for _, facts, _ in rows)
        self._average = sum(words for _, _, words in rows) / max(self._facts, 1) or 1.0
        self._known.clear()

    def __len__(self) -> int:
        return self._facts

    def count(self, terms: Iterable[str]) -> None:
        """Count the facts that hold each of these terms, for `holding`, in one look-up."""
        unknown = [term for term in dict.fromkeys(terms) if term not in self._known]
        self._known.update((term, {}) for term in unknown)
        for some, marks in in_pieces(unknown):
            self._select(f"term IN ({marks})", some)

    def _select(self, condition: str, values: Sequence[object]) -> list[tuple[str, str]]:
        """Count the terms for which a condition holds; return them with their roots."""
        found = []
        for term, shared, number, held in self._sql.execute(
            f"SELECT term, root, id, held FROM fact_terms WHERE scope_id IN (?, ?) AND {condition}",
            (*self._scopes, *values),
        ):
            self._known.setdefault(term, {})[number] = held
            found.append((term, shared))
        return found

    def holding(self, term: str) -> int:
        """Return the number of facts that hold `term`."""
        if term not in self._known:
            self.count((term,))
        return sum(self._known[term].values())

    def weight(self, holding: int) -> float:
        """Return the most that a term which `holding` facts hold can add to a score."""
        return idf(holding, self._facts) * (K1 + 1)

    def impacts(
        self, terms: Iterable[str], only: Collection[int] | None = None
    ) -> Mapping[str, Mapping[int, float]]:
        """Return the saturated frequency of each term, 0 to 1, in each fact (of `only`).

        Facts outside `only` may be there too. Terms of few facts are looked up together.
        """
        impact = "fact_id, weight / (weight + ? + ? * length)"
        shape = (K1 * (1 - B), K1 * B / self._average)
        found: dict[str, dict[int, float]] = {term: {} for term in terms}
        few = [term for term in found if self.holding(term) <= _FEW]
        numbered = [(number, term) for term in few for number in self._known[term]]
        rows: dict[int, dict[int, float]] = {number: {} for number, _ in numbered}
        for some, marks in in_pieces(list(rows)):
            for number, fact_id, held in self._sql.execute(
                f"SELECT term_id, {impact} FROM fact_words WHERE term_id IN ({marks})",
                (*shape, *some),
            ):
                rows[number][fact_id] = held
        for number, term in numbered:  # what holds everywhere is first: equal scores keep that
            found[term].update(rows[number])
        query = f"SELECT {impact} FROM fact_words WHERE term_id = ?"
        for term in found.keys() - few:
            for number, holding in self._known[term].items():
                bound = (*shape, number)
                if only is None or len(only) >= holding:
                    found[term].update(self._sql.execute(query, bound))
                    continue
                for chosen, marks in in_pieces(list(only)):
                    found[term].update(
                        self._sql.execute(f"{query} AND fact_id IN ({marks})", (*bound, *chosen))
                    )
        return found

    def of_roots(self, roots: Iterable[str]) -> Mapping[str, Sequence[str]]:
        """Return the terms of each of these roots."""
        found: dict[str, list[str]] = {}
        for some, marks in in_pieces(list(dict.fromkeys(roots))):
            for term, shared in dict.fromkeys(self._select(f"root IN ({marks})", some)):
                found.setdefault(shared, []).append(term)
        return found

    def find_terms(self, first: str, length: int) -> Iterable[str]:
        """Return the terms of `length` characters that begin with `first`."""
        rows = self._select(
            "term >= ? AND term < ? AND length(term) = ?", (first, chr(ord(first) + 1), length)
        )
        return dict.fromkeys(term for term, _ in rows)

    def terms(self, fact_ids: Sequence[int]) -> Mapping[int, Sequence[str]]:
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
    terms = f"SELECT id FROM fact_terms WHERE scope_id IN ({_SCOPES})"
    sql.run(f"DELETE FROM fact_words WHERE term_id IN ({terms})", (sql.user,))
    sql.run(f"DELETE FROM fact_terms WHERE scope_id IN ({_SCOPES})", (sql.user,))
    sql.run("DELETE FROM fact_index WHERE user_id = ?", (sql.user,))
    sql.put("fact_index", {"project_id": "", "facts": 0, "words": 0, "stemming": STEMMING})
    for entry in entries:
        _insert(sql, entry)


def index(sql: MemoryDatabase, entry: WordEntry, *, new: bool, held: bool = True) -> None:
    """Bring the rows of what was written up to date, inside the transaction that did.

    A `new` fact has no rows yet; one that is not `held` any more keeps none.
    """
    if not is_made(sql):
        return
    if not new:
        remove(sql, entry.number, entry.project)
    if held:
        _insert(sql, entry)


def _insert(sql: MemoryDatabase, entry: WordEntry) -> None:
    weights = {term: float(count) for term, count in Counter(entry.terms).items()}
    weights |= {term: KEYWORD for term in entry.extra if term not in weights}
    if not weights:
        return
    length = len(entry.terms)
    ((scope,),) = sql.execute(
        "INSERT INTO fact_index (user_id, project_id, facts, words, stemming) "
        "VALUES (?, ?, 1, ?, '') ON CONFLICT (user_id, project_id) DO UPDATE SET "
        "facts = fact_index.facts + 1, words = fact_index.words + excluded.words RETURNING id",
        (sql.user, entry.project, length),
    )
    known = _insert_rows(
        sql,
        "fact_terms (scope_id, term, root, held)",
        [(scope, term, root(term), 1) for term in weights],
        "ON CONFLICT (scope_id, term) DO UPDATE SET held = fact_terms.held + 1 RETURNING id, term",
    )
    rows = [(number, entry.number, weights[term], length) for number, term in sorted(known)]
    _insert_rows(sql, "fact_words (term_id, fact_id, weight, length)", rows)


def _insert_rows(
    sql: MemoryDatabase, into: str, rows: Sequence[tuple[object, ...]], after: str = ""
) -> list[Row]:
    most = VALUES_AT_ONCE // len(rows[0])
    found = []
    for start in range(0, len(rows), most):
        some = rows[start : start + most]
        marks = ", ".join([f"({', '.join('?' * len(rows[0]))})"] * len(some))
        values = [one for row in some for one in row]
        found += sql.execute(f"INSERT INTO {into} VALUES {marks} {after}", values)
    return found


def remove_gone_lessons(sql: MemoryDatabase) -> None:
    """Remove the rows of lessons that are not there any more."""
    rows = sql.execute(
        "SELECT DISTINCT fact_id, project_id FROM fact_index "
        "JOIN fact_terms ON scope_id = fact_index.id JOIN fact_words ON term_id = fact_terms.id "
        "WHERE fact_index.user_id = ? AND project_id LIKE ? "
        "AND NOT EXISTS (SELECT 1 FROM outcomes WHERE id = -fact_id)",
        (sql.user, lessons_of("%")),
    )
    for number, project in rows:
        remove(sql, number, project)


def remove(sql: MemoryDatabase, number: int, project: str) -> None:
    """Remove the rows of a fact or lesson, also of an index that is out of date.

    All terms of its project are tried: an index of the rows by facts would be as long as they are.
    """
    rows = sql.execute(
        "DELETE FROM fact_words WHERE fact_id = ? AND term_id IN (SELECT id FROM fact_terms "
        "WHERE scope_id IN (SELECT id FROM fact_index WHERE user_id = ? AND project_id = ?)) "
        "RETURNING term_id, length",
        (number, sql.user, project),
    )
    if not rows:
        return
    for some, marks in in_pieces([term for term, _ in rows]):
        sql.run(f"UPDATE fact_terms SET held = held - 1 WHERE id IN ({marks})", some)
        sql.run(f"DELETE FROM fact_terms WHERE id IN ({marks}) AND held = 0", some)
    sql.run(
        "UPDATE fact_index SET facts = facts - 1, words = words - ? "
        "WHERE user_id = ? AND project_id = ?",
        (rows[0][1], sql.user, project),
    )


RELATED = 0.35
SAME_ROOT = 0.6
TRANSLATED = 0.8
NEAR_SPELLING = 0.6
ADJACENT = 0.15
NAME = 2.5
"""Weights of what is not the word itself; `ADJACENT` is the part added for a kept word pair."""

_REORDERED = 100
_NAME = re.compile(r"(?<=[^.?!¿¡]\s)[^\W\d_a-z][^\W\d_]+")
"""A capitalised word that does not begin a sentence."""


class WordIndex:
    """Finds facts by words. Not thread-safe; its owner serialises access."""

    def __init__(self, words: StoredWords) -> None:
        self._index = words

    def __len__(self) -> int:
        return len(self._index)

    def search(
        self, question: str, pool: int | None = None, also: Sequence[int] = ()
    ) -> dict[int, float]:
        """Return the score of every fact that shares a concept with `question`.

        With `pool`, of the best `pool` facts only: words that most facts hold are then looked
        up only for facts that can still get that far, which is what makes it quick. Facts in
        `also` have a score in any case, 0 when they share nothing.
        """
        if not len(self._index):
            return {}
        spoken = language_of(question)
        asked = tokens(question, spoken)
        names = {name for match in _NAME.findall(question) for name in raw_words(match)}
        joined = [stem(one + two, spoken) for one, two in pairwise(raw_words(question))]
        roots = self._look_up(asked, spoken, joined)
        weighed = [
            (
                self._rarities(self._alternatives(token, spoken, roots, token.word in names)),
                (1 + math.log(count)) * (NAME if token.word in names else 1.0),
            )
            for token, count in Counter(asked).items()
        ]
        # Words that the question writes apart ("stand up").
        weighed += [(self._rarities({one: 1.0}), 1.0) for one in joined if self._index.holding(one)]
        weighed.sort(key=lambda item: -item[1] * max(item[0].values(), default=0.0))
        ahead = sum(boost * max(rarities.values(), default=0.0) for rarities, boost in weighed)
        scores = dict.fromkeys(also, 0.0)
        holders: dict[str, Set[int]] = {}
        for rarities, boost in weighed:
            only = scores if pool is not None and _is_settled(scores, pool, ahead) else None
            ahead -= boost * max(rarities.values(), default=0.0)
            added = self._score(rarities, only, holders)
            if not scores:
                scores = {fact_id: boost * score for fact_id, score in added.items()}
                continue
            before = scores.get
            for fact_id, score in added.items():
                scores[fact_id] = before(fact_id, 0.0) + boost * score
        pairs = {(one.stem, two.stem) for one, two in pairwise(asked)}
        best = sorted(scores, key=scores.__getitem__, reverse=True)[: pool or _REORDERED]
        # To find the terms of a text takes long: only those of facts that can have such a pair.
        both = {
            fact_id
            for one, two in pairs
            for fact_id in holders.get(one, set()) & holders.get(two, set())
        }
        for fact_id, held in self._index.terms([one for one in best if one in both]).items():
            kept = sum(map(pairs.__contains__, pairwise(held)))
            scores[fact_id] *= 1.0 + ADJACENT * min(kept, 2)
        if pool is None:
            return scores
        return {fact_id: scores[fact_id] for fact_id in (*best, *also) if fact_id in scores}

    def rarest(self) -> float:
        """Return the score that a word of one fact alone adds to a fact of average length."""
        return idf(1, len(self)) if len(self) else 0.0

    def _look_up(
        self, asked: Sequence[Token], spoken: Language, joined: Sequence[str]
    ) -> Mapping[str, Sequence[str]]:
        """Count all terms that may answer, and return the terms of the roots of the words."""
        other: Language = "en" if spoken == "es" else "es"
        exact = {term for token in asked for term in (token.stem, stem(token.word, other))}
        roots = self._index.of_roots(map(root, exact))
        tables = (related_stems(), translated_stems(spoken), translated_stems(other))
        answers = (term for table in tables for one in exact for term in table.get(one, ()))
        self._index.count((*exact, *joined, *chain(*roots.values()), *answers))
        return roots

    def _alternatives(
        self,
        token: Token,
        spoken: Language,
        roots: Mapping[str, Sequence[str]],
        is_name: bool,
    ) -> dict[str, float]:
        """Return the indexed terms for a question word, with weights. Names are not translated."""
        found: dict[str, float] = {}
        other_language: Language = "en" if spoken == "es" else "es"
        exact = (token.stem, stem(token.word, other_language))
        self._also(found, exact, 1.0)
        for term in exact:
            self._also(found, roots.get(root(term), ()), SAME_ROOT)
        if not is_name:
            self._also(found, translated_stems(spoken).get(token.stem, ()), TRANSLATED)
            for term in exact:
                self._also(found, related_stems().get(term, ()), RELATED)
            if not found:
                others = translated_stems(other_language)
                self._also(found, others.get(exact[1], ()), TRANSLATED)
        if not found and len(token.word) >= 5 and token.word.isalpha():
            found.update(dict.fromkeys(self._near(token), NEAR_SPELLING))
            if not found:
                found.update(dict.fromkeys(self._parts(token.word, spoken), SAME_ROOT))
        return found

    def _also(self, found: dict[str, float], stems: Iterable[str], weight: float) -> None:
        for one in stems:
            if self._index.holding(one):
                found.setdefault(one, weight)

    def _near(self, token: Token) -> Iterable[str]:
        """Yield indexed terms that a misspelt word may mean: one edit away, with or without ending.

        A misspelt ending is not removed by the stemmer: "educaton" is "educ" plus four letters.
        """
        for length in range(max(4, len(token.word) - 4), len(token.word) + 2):
            for term in self._index.find_terms(token.word[0], length):
                if _is_slip(token, term):
                    yield term

    def _parts(self, word: str, spoken: Language) -> Iterable[str]:
        """Yield indexed terms that `word` consists of: "frontend" finds "front end"."""
        dropped = stopwords(spoken)
        for middle in range(2, len(word) - 1):
            parts = word[:middle], word[middle:]
            held = [stem(part, spoken) for part in parts if part not in dropped]
            if any(len(one) > 3 for one in held) and all(map(self._index.holding, held)):
                yield from held

    def _rarities(self, concept: Mapping[str, float]) -> dict[str, float]:
        """Return the most that each term of a concept can add to a score."""
        return {
            term: weight * self._index.weight(self._index.holding(term))
            for term, weight in concept.items()
        }

    def _score(
        self,
        rarities: Mapping[str, float],
        only: Mapping[int, float] | None,
        holders: dict[str, Set[int]],
    ) -> dict[int, float]:
        """Return the score that a concept adds to each fact (of `only`), by its best term.

        `holders` gets the facts that hold each term.
        """
        best: dict[int, float] = {}
        impacts = self._index.impacts(rarities, only)
        for term, held in impacts.items():
            rarity = rarities[term]
            if not best:
                best = {fact_id: rarity * impact for fact_id, impact in held.items()}
                continue
            for fact_id, impact in held.items():
                if rarity * impact > best.get(fact_id, 0.0):
                    best[fact_id] = rarity * impact
        holders.update((term, held.keys()) for term, held in impacts.items())
        return best


def _is_settled(scores: Mapping[int, float], pool: int, ahead: float) -> bool:
    """Return whether no fact outside `scores` can still get among the best `pool`.

    `ahead` is the most that the remaining concepts can add to a fact.
    """
    if len(scores) < pool:
        return False
    return sorted(scores.values(), reverse=True)[pool - 1] >= ahead


def _is_slip(token: Token, term: str) -> bool:
    """Return whether `token` may be `term` misspelt, with an ending of up to four letters."""
    word = token.word
    if not (term[1] in word[1:3] or term[2] == word[2]):
        return False
    if word.startswith(term) or _one_edit_apart(token.stem, term):
        return True
    if len(term) < 5:
        return False
    cuts = (len(term) - 1, len(term), len(term) + 1)
    return any(_one_edit_apart(word[:cut], term) for cut in cuts if 0 < len(word) - cut <= 4)


def _one_edit_apart(one: str, two: str) -> bool:
    """Return whether one insertion, deletion, replacement or swap makes two words equal."""
    if len(one) > len(two):
        one, two = two, one
    start = 0
    while start < len(one) and one[start] == two[start]:
        start += 1
    if len(one) < len(two):
        return one[start:] == two[start + 1 :]
    rest, other = one[start:], two[start:]
    swapped = rest[:2] == other[1::-1] and rest[2:] == other[2:] if len(rest) > 1 else False
    return rest[1:] == other[1:] or swapped
