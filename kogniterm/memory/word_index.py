"""The word index: BM25 over facts and lessons, the same for SQLite and PostgreSQL.

The words are in tables of the database, so that a search does not load all facts.

A row of `word_projects` counts the facts of a project and their words. A row of `word_postings` has
a term of a project and, as bytes, where it stands: for each time that a fact or lesson holds it,
the number of that fact, its length and the place of the term in it. Facts are in the order of
their numbers; a term of many facts has a row for every `_MOST` places. Both are written in the
transaction that writes a fact, and a fact's places go with it, so that nothing of a forgotten
fact stays here. Lessons are in a project of their own.

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
import struct
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import nlargest
from itertools import chain, compress, pairwise
from operator import eq
from typing import NamedTuple

from kogniterm.memory.fact_records import Fact
from kogniterm.memory.memory_database import MemoryDatabase
from kogniterm.storage.database import VALUES_AT_ONCE, Row, in_pieces
from kogniterm.text.language import (
    Language,
    Token,
    Words,
    raw_words,
    related_stems,
    root,
    stem,
    stems_of,
    stopwords,
    translated_stems,
    words_of,
)

STEMMING = "3"
"""Raised with each change of the stems that a text has, and of what is indexed; a test tells when
the stems change."""

K1 = 0.9
B = 0.4
KEYWORD = 0.6
"""Weight of a term that is in the keywords only."""

_MOST = 230
"""Places in a row: SQLite puts what is longer than a quarter of a page on pages of its own."""
_FARTHEST = 0xFFFF
"""Most that the numbers of the facts in a row differ: two bytes hold it."""
_LONGEST = 255
"""The length of all texts that are as long or longer; places in them are counted from 0 again."""
_IN_KEYWORDS = 255
"""The place of a term that is in the keywords only."""
_STEP = 32
"""The terms that a look-up asks for are a multiple of this number."""
_SHORTEST_ROOT = 4
"""Letters that a root has at least, unless it is the whole term."""


def idf(holding: int, total: int) -> float:
    """Return the weight of a term that `holding` of `total` documents hold."""
    return math.log(1 + (total - holding + 0.5) / (holding + 0.5))


class WordEntry:
    """The places of the terms of a fact or lesson, and of `extra` terms of less weight."""

    def __init__(
        self, number: int, project: str, terms: Sequence[str], extra: Iterable[str] = ()
    ) -> None:
        self.number, self.project = number, project
        self.length = min(len(terms), _LONGEST)
        self.places: dict[str, bytearray] = {}
        for at, term in enumerate(terms):
            self.places.setdefault(term, bytearray()).append(at % _LONGEST)
        for term in extra:
            self.places.setdefault(term, bytearray((_IN_KEYWORDS,)))


def fact_entry(fact: Fact, words: Words | None = None) -> WordEntry:
    """Return the index entry of `fact`; `words` are those of its text, where they are known."""
    keywords = {stem for word in fact.keywords.split() for stem in stems_of(word)}
    own = (words or words_of(fact.text)).stems
    return WordEntry(fact.id, fact.project, own, sorted(keywords))


def lesson_entry(number: int, project: str, task: str, about: str) -> WordEntry:
    """Return the index entry of the lesson `number` on `task`; `about` are its other words."""
    return WordEntry(number, lessons_of(project), stems_of(task), sorted({*stems_of(about)}))


def lessons_of(project: str) -> str:
    """Return the name under which the lessons of `project` are indexed; no project has it."""
    return f"\n{project}"  # no word of its own: the proof of forgetting searches this column too


class _Postings(NamedTuple):
    """Places of a term: for each time, the number of the fact, its length and the place."""

    numbers: Sequence[int] = ()
    lengths: bytes | bytearray = b""
    places: bytes | bytearray = b""

    def where(self, holds: Callable[[int], bool]) -> _Postings:
        """Return what there is of the facts for whose numbers `holds` is true."""
        kept = [*map(holds, self.numbers)]
        return _Postings(
            [*compress(self.numbers, kept)],
            bytes(compress(self.lengths, kept)),
            bytes(compress(self.places, kept)),
        )


_NOWHERE = _Postings()


def _unpack(rows: Iterable[tuple[int, bytes]]) -> _Postings:
    """Return what rows of the database hold; each has the number from which its numbers count."""
    numbers: list[int] = []
    lengths, places = bytearray(), bytearray()
    for first, packed in rows:
        count = len(packed) // 4
        numbers += [first + one for one in struct.unpack_from(f"<{count}H", packed)]
        lengths += packed[2 * count : 3 * count]
        places += packed[3 * count :]
    return _Postings(numbers, lengths, places)


def _insert(packed: bytes, number: int, length: int, places: bytearray) -> bytes:
    """Return a row with the places of one more fact; most facts come last."""
    count = at = len(packed) // 4
    if count and number < int.from_bytes(packed[2 * count - 2 : 2 * count], "little"):
        at = bisect_left(struct.unpack_from(f"<{count}H", packed), number)
    times = len(places)
    return b"".join(
        (
            packed[: 2 * at], number.to_bytes(2, "little") * times, packed[2 * at : 2 * count + at],
            bytes((length,)) * times, packed[2 * count + at : 3 * count + at],
            places, packed[3 * count + at :],
        )
    )  # fmt: skip


class _Impacts(dict[int, float]):
    """A share of the saturated frequency, 0 to 1, of a term that stands once, by the length."""

    def __init__(self, average: float, share: float) -> None:
        super().__init__()
        self._average = average
        self._share = share

    def __missing__(self, length: int) -> float:
        self[length] = impact = self.of(1.0, length)
        return impact

    def of(self, weight: float, length: int) -> float:
        held = weight / (weight + K1 * (1 - B) + K1 * B / self._average * length)
        return self._share * held


class StoredWords:
    """The words of the facts or lessons that one user has in one of two `projects`.

    For one search: what is looked up is kept with it.
    """

    def __init__(self, sql: MemoryDatabase, projects: tuple[str, str]) -> None:
        self._sql = sql
        rows = sql.execute(
            "SELECT id, facts, words FROM word_projects "
            "WHERE user_id = ? AND project_id IN (?, ?) ORDER BY project_id",
            (sql.user, *projects),
        )
        self._scopes = (*(number for number, _, _ in rows), 0, 0)[:2]
        self._facts: int = sum(facts for _, facts, _ in rows)
        self._average = sum(words for _, _, words in rows) / max(self._facts, 1) or 1.0
        self._rows: dict[str, dict[tuple[int, int], bytes]] = {}
        self._postings: dict[str, _Postings] = {}
        self._holding: dict[str, int] = {}

    def __len__(self) -> int:
        return self._facts

    def look_up(self, terms: Iterable[str], roots: Iterable[str] = ()) -> None:
        """Look up these terms, and those of these roots, in one statement."""
        asked = {one: one for one in terms if one not in self._rows}
        self._rows.update((one, {}) for one in asked)
        # A root is the begin of its terms; small letters follow.
        asked |= {one: f"{one}{{" for one in roots if len(one) >= _SHORTEST_ROOT}
        pairs = list(asked.items())
        pairs += pairs[-1:] * (-len(pairs) % _STEP)  # few different statements are prepared
        for some, _ in in_pieces(pairs, 7 * _STEP):
            for term, scope, first, packed in self._sql.execute(
                f"WITH asked (low, high) AS (VALUES {', '.join(['(?, ?)'] * len(some))}) "
                "SELECT term, scope_id, first, postings FROM asked CROSS JOIN word_postings "
                "WHERE scope_id IN (?, ?) AND term >= low AND term <= high",
                (*chain.from_iterable(some), *self._scopes),
            ):
                # What holds everywhere is first: equal scores keep that.
                self._rows.setdefault(term, {})[self._scopes.index(scope), first] = packed

    def postings(self, term: str) -> _Postings:
        if (found := self._postings.get(term)) is None:
            if term not in self._rows:
                self.look_up((term,))
            rows = sorted(self._rows[term].items())
            found = _unpack((first, packed) for (_, first), packed in rows) if rows else _NOWHERE
            self._postings[term] = found
        return found

    def impacts(
        self, term: str, share: float = 1.0, only: Mapping[int, float] | None = None
    ) -> dict[int, float]:
        """Return a share of the saturated frequency of `term`, 0 to 1, in each fact (of `only`)."""
        one = self.postings(term)
        if only is not None:
            one = one.where(only.__contains__)
        of_length = _Impacts(self._average, share)
        found = dict(zip(one.numbers, map(of_length.__getitem__, one.lengths), strict=True))
        if len(found) < len(one.numbers):  # the places of a fact follow each other
            again = [*map(eq, one.numbers, one.numbers[1:])]
            lengths = dict(zip(one.numbers, one.lengths, strict=True))
            for number, further in Counter(compress(one.numbers, again)).items():
                found[number] = of_length.of(1 + further, lengths[number])
        if _IN_KEYWORDS in one.places:
            extra = map(_IN_KEYWORDS.__eq__, one.places)
            for number, length in compress(zip(one.numbers, one.lengths, strict=True), extra):
                found[number] = of_length.of(KEYWORD, length)
        return found

    def holding(self, term: str) -> int:
        """Return the number of facts that hold `term`."""
        if (found := self._holding.get(term)) is None:
            found = self._holding[term] = len(set(self.postings(term).numbers))
        return found

    def weight(self, holding: int) -> float:
        """Return the most that a term which `holding` facts hold can add to a score."""
        return idf(holding, self._facts) * (K1 + 1)

    def of_roots(self) -> Mapping[str, Sequence[str]]:
        """Return the terms that were looked up and stand somewhere, by their roots."""
        found: dict[str, list[str]] = {}
        for term in sorted(term for term, rows in self._rows.items() if rows):
            found.setdefault(root(term), []).append(term)
        return found

    def find_terms(self, first: str, lengths: range) -> Sequence[str]:
        """Return the terms that begin with `first` and are as long, short ones first."""
        rows = self._sql.execute(
            "SELECT DISTINCT term FROM word_postings WHERE scope_id IN (?, ?) "
            "AND term >= ? AND term < ? AND length(term) >= ? AND length(term) < ?",
            (*self._scopes, first, chr(ord(first) + 1), lengths.start, lengths.stop),
        )
        return sorted((term for (term,) in rows), key=lambda term: (len(term), term))

    def count_pairs(
        self, pairs: Iterable[tuple[str, str]], facts: Sequence[int]
    ) -> Mapping[int, int]:
        """Return how often the terms of one of the `pairs` follow each other, in these facts."""
        found: Counter[int] = Counter()
        for one, two in pairs:
            first = self.postings(one).where(set(facts).__contains__)
            second = self.postings(two).where(set(first.numbers).__contains__)
            after = set(zip(second.numbers, second.places, strict=True))
            for fact, place in zip(first.numbers, first.places, strict=True):
                if place != _IN_KEYWORDS and (fact, (place + 1) % _LONGEST) in after:
                    found[fact] += 1
        return found


def is_made(sql: MemoryDatabase) -> bool:
    """Return whether the user's index is there, made as this version makes it."""
    query = "SELECT 1 FROM word_projects WHERE user_id = ? AND project_id = '' AND stemming = ?"
    return sql.one(query, (sql.user, STEMMING)) is not None


def make(sql: MemoryDatabase, entries: Iterable[WordEntry]) -> None:
    """Make the user's index of all their `entries`, each project's by number, in a transaction."""
    _clear(sql)
    sql.put("word_projects", {"project_id": "", "facts": 0, "words": 0, "stemming": STEMMING})
    scopes: dict[str, int] = {}
    last: dict[str, dict[str, Row]] = {}
    totals: Counter[str] = Counter()
    words: Counter[str] = Counter()
    for entry in entries:
        if entry.project not in scopes:
            scopes[entry.project] = _count(sql, entry.project, 0, 0)
        _write(sql, scopes[entry.project], _add(last.setdefault(entry.project, {}), entry))
        totals[entry.project] += bool(entry.places)
        words[entry.project] += entry.length
    for project, rows in last.items():
        _write(sql, scopes[project], [*rows.values()])
        _count(sql, project, totals[project], words[project])


def _clear(sql: MemoryDatabase) -> None:
    sql.run(
        "DELETE FROM word_postings WHERE scope_id IN "
        "(SELECT id FROM word_projects WHERE user_id = ?)",
        (sql.user,),
    )
    sql.run("DELETE FROM word_projects WHERE user_id = ?", (sql.user,))


def index(sql: MemoryDatabase, entry: WordEntry) -> None:
    """Add the rows of a fact or lesson that has none, in the transaction that wrote it."""
    if not entry.places or not is_made(sql):
        return
    scope = _count(sql, entry.project, 1, entry.length)
    rows = {row[0]: row for row in _rows_of(sql, scope, entry)}
    _add(rows, entry)
    _write(sql, scope, [*rows.values()])


def _add(rows: dict[str, Row], entry: WordEntry) -> list[Row]:
    """Add an entry to the last rows of its terms, and return those that it does not fit in."""
    full: list[Row] = []
    number = entry.number
    for term, places in entry.places.items():
        _, first, packed = rows.get(term, ("", number, b""))
        held = len(packed) // 2
        ended = held >= 2 * _MOST and number - first > int.from_bytes(
            packed[held - 2 : held], "little"
        )
        if ended or number - first > _FARTHEST:
            full.append((term, first, packed))
            first, packed = number, b""
        rows[term] = term, first, _insert(packed, number - first, entry.length, places)
    return full


def _count(sql: MemoryDatabase, project: str, facts: int, words: int) -> int:
    """Add to what is counted of a project, and return the number by which its rows name it."""
    ((scope,),) = sql.execute(
        "INSERT INTO word_projects (user_id, project_id, facts, words, stemming) "
        "VALUES (?, ?, ?, ?, '') ON CONFLICT (user_id, project_id) DO UPDATE SET "
        "facts = word_projects.facts + excluded.facts, "
        "words = word_projects.words + excluded.words RETURNING id",
        (sql.user, project, facts, words),
    )
    return int(scope)


def _rows_of(sql: MemoryDatabase, scope: int, entry: WordEntry) -> list[Row]:
    """Return the rows in which the terms of an entry stand, or would stand."""
    found = []
    for some, _ in in_pieces(list(entry.places)):
        found += sql.execute(
            f"WITH asked (term) AS (VALUES {', '.join(['(?)'] * len(some))}) "
            "SELECT held.term, first, postings FROM asked CROSS JOIN word_postings AS held "
            "WHERE held.scope_id = ? AND held.term = asked.term AND first = "
            "(SELECT max(first) FROM word_postings WHERE scope_id = ? AND term = asked.term "
            "AND first <= ?)",
            (*some, scope, scope, entry.number),
        )
    return found


def _write(sql: MemoryDatabase, scope: int, rows: Sequence[Row]) -> None:
    for some, _ in in_pieces(rows, VALUES_AT_ONCE // 4):
        values = ((scope, *row) for row in some)
        sql.run(
            "INSERT INTO word_postings (scope_id, term, first, postings) "
            f"VALUES {', '.join(['(?, ?, ?, ?)'] * len(some))} "
            "ON CONFLICT (scope_id, term, first) DO UPDATE SET postings = excluded.postings",
            [*chain.from_iterable(values)],
        )


def remove(sql: MemoryDatabase, entry: WordEntry) -> None:
    """Remove the rows of a fact or lesson; of an index that is out of date, all of them."""
    if not is_made(sql):
        _clear(sql)
        return
    scope = _count(sql, entry.project, 0, 0)
    _drop(sql, scope, entry.project, _rows_of(sql, scope, entry), entry.number.__ne__)


def remove_gone_lessons(sql: MemoryDatabase) -> None:
    """Remove the rows of lessons that are not there any more."""
    if not is_made(sql):
        _clear(sql)
    for scope, project, facts in sql.execute(
        "SELECT id, project_id, facts FROM word_projects WHERE user_id = ? AND project_id LIKE ?",
        (sql.user, lessons_of("%")),
    ):
        bound = (sql.user, project.removeprefix(lessons_of("")))
        query = "SELECT id FROM outcomes WHERE user_id = ? AND project_id = ?"
        there = {number for (number,) in sql.execute(query, bound)}
        if len(there) != facts:
            query = "SELECT term, first, postings FROM word_postings WHERE scope_id = ?"
            _drop(sql, scope, project, sql.execute(query, (scope,)), there.__contains__)


def _drop(
    sql: MemoryDatabase,
    scope: int,
    project: str,
    rows: Iterable[Row],
    is_kept: Callable[[int], bool],
) -> None:
    """Remove what `rows` hold of the facts or lessons that are not kept."""
    lengths: dict[int, int] = {}
    changed: list[Row] = []
    for term, first, packed in rows:
        held = _unpack([(first, packed)])
        left = held.where(is_kept)
        if len(left.numbers) == len(held.numbers):
            continue
        for number, length in zip(held.numbers, held.lengths, strict=True):
            if not is_kept(number):
                lengths[number] = length
        if left.numbers:
            relative = (number - first for number in left.numbers)
            numbers = struct.pack(f"<{len(left.numbers)}H", *relative)
            changed.append((term, first, numbers + left.lengths + left.places))
        else:
            sql.run(
                "DELETE FROM word_postings WHERE scope_id = ? AND term = ? AND first = ?",
                (scope, term, first),
            )
    _write(sql, scope, changed)
    if lengths:
        _count(sql, project, -len(lengths), -sum(lengths.values()))


RELATED = 0.35
SAME_ROOT = 0.6
TRANSLATED = 0.8
NEAR_SPELLING = 0.6
ADJACENT = 0.15
NAME = 2.5
"""Weights of what is not the word itself; `ADJACENT` is the part added for a kept word pair."""

_REORDERED = 100
_ROUNDING = 1e-9
_NAME = re.compile(r"(?<=[^.?!¿¡]\s)[^\W\d_a-z][^\W\d_]+")
"""A capitalised word that does not begin a sentence."""


class WordIndex:
    """Finds facts by words. Not thread-safe; its owner serialises access."""

    def __init__(self, words: StoredWords) -> None:
        self._index = words

    def __len__(self) -> int:
        return len(self._index)

    def search(
        self, question: Words, pool: int | None = None, also: Sequence[int] = ()
    ) -> dict[int, float]:
        """Return the score of every fact that shares a concept with `question`.

        With `pool`, of the best `pool` facts only: words that most facts hold are then looked
        up only for facts that can still get that far, which is what makes it quick. Facts in
        `also` have a score in any case, 0 when they share nothing.
        """
        if not len(self._index):
            return {}
        spoken, asked = question.language, question.tokens
        names = {name for match in _NAME.findall(question.text) for name in raw_words(match)}
        # Words that the question writes apart ("stand up").
        joined = [stem(one + two, spoken) for one, two in pairwise(question.raw)]
        roots = self._look_up(asked, spoken, joined)
        weighed = [
            self._rarities(
                self._alternatives(token, spoken, roots, token.word in names),
                (1 + math.log(count)) * (NAME if token.word in names else 1.0),
            )
            for token, count in Counter(asked).items()
        ]
        weighed += [self._rarities({one: 1.0}) for one in joined if self._index.holding(one)]
        weighed.sort(key=lambda rarities: -max(rarities.values(), default=0.0))
        ahead = sum(max(rarities.values(), default=0.0) for rarities in weighed)
        scores = dict.fromkeys(also, 0.0)
        only: Mapping[int, float] | None = None
        for rarities in weighed:
            if pool is not None and (left := _can_get_far(scores, pool, ahead, also)) is not None:
                only = scores = left
            ahead -= max(rarities.values(), default=0.0)
            added = self._score(rarities, only)
            if not scores:
                scores = added
                continue
            before = scores.get
            for fact_id, score in added.items():
                scores[fact_id] = before(fact_id, 0.0) + score
        pairs = {(one.stem, two.stem) for one, two in pairwise(asked)}
        best = _best(scores, pool or _REORDERED)
        for fact_id, kept in self._index.count_pairs(pairs, best).items():
            scores[fact_id] *= 1.0 + ADJACENT * min(kept, 2)
        if pool is None:
            return scores
        return {fact_id: scores[fact_id] for fact_id in (*best, *also) if fact_id in scores}

    def rarest(self) -> float:
        """Return the score that a word of one fact alone adds to a fact of average length."""
        return idf(1, len(self)) if len(self) else 0.0

    def _look_up(
        self, asked: Sequence[Token], spoken: Language, joined: Iterable[str]
    ) -> Mapping[str, Sequence[str]]:
        """Look up all terms that may answer, and return the terms of the roots of the words."""
        other: Language = "en" if spoken == "es" else "es"
        exact = {term for token in asked for term in (token.stem, stem(token.word, other))}
        tables = (related_stems(), translated_stems(spoken), translated_stems(other))
        answers = (term for table in tables for one in exact for term in table.get(one, ()))
        self._index.look_up((*exact, *joined, *answers), map(root, exact))
        return self._index.of_roots()

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
        lengths = range(max(4, len(token.word) - 4), len(token.word) + 2)
        for term in self._index.find_terms(token.word[0], lengths):
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

    def _rarities(self, concept: Mapping[str, float], boost: float = 1.0) -> dict[str, float]:
        """Return the most that each term of a concept can add to a score."""
        return {
            term: weight * self._index.weight(self._index.holding(term)) * boost
            for term, weight in concept.items()
        }

    def _score(
        self, rarities: Mapping[str, float], only: Mapping[int, float] | None
    ) -> dict[int, float]:
        """Return the score that a concept adds to each fact (of `only`), by its best term."""
        best: dict[int, float] = {}
        for term, rarity in rarities.items():
            held = self._index.impacts(term, rarity, only)
            if not best:
                best = held
                continue
            for fact_id, score in held.items():
                if score > best.get(fact_id, 0.0):
                    best[fact_id] = score
        return best


def _best(scores: Mapping[int, float], pool: int) -> list[int]:
    """Return the `pool` facts of the highest scores, best first."""
    if len(scores) > pool:
        least = nlargest(pool, scores.values())[-1]
        scores = {one: score for one, score in scores.items() if score >= least}
    return sorted(scores, key=scores.__getitem__, reverse=True)[:pool]


def _can_get_far(
    scores: Mapping[int, float], pool: int, ahead: float, also: Sequence[int]
) -> dict[int, float] | None:
    """Return those of `scores` that can get among the best `pool`, and `also`; None: others can.

    `ahead` is the most that the remaining concepts can add to a fact.
    """
    high = [score for score in scores.values() if score >= ahead]
    if len(high) < pool:
        return None
    least = nlargest(pool, high)[-1] - ahead - _ROUNDING
    kept = {*also}
    return {one: score for one, score in scores.items() if score >= least or one in kept}


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
