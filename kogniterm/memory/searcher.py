"""Search of facts by words, optionally by vectors, and by use and age to a small part.

    score = words (1, or 0.5 with vectors) + vectors 0.5 + 0.1 confirmed + 0.05 recency

Words and vectors are brought to 0..1 over the union of the best 50 of each. Recency and
confirmed use are added, never multiplied, and only confirmed use counts: both orders were
measured to matter. Ties: pinned, explicit, newer.
"""

from __future__ import annotations

import logging
import math
import re
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Protocol

from kogniterm.errors import KognitermError
from kogniterm.memory import fact_records
from kogniterm.memory.fact_records import Fact, Recall
from kogniterm.memory.repository import FactRepository, Version, facts_by_id, make_words
from kogniterm.memory.word_index import StoredWords, WordIndex
from kogniterm.protocols import Clock
from kogniterm.text.language import Language, Words, plain, without_small_talk, words_of
from kogniterm.types import Phrase

log = logging.getLogger(__name__)
POOL = 50
SEMANTIC: Mapping[Language, float] = {"en": 0.5, "es": 0.2}
"""The weight of vectors by language: the model knows English only."""
CONFIRMED = 0.1
RECENCY = 0.05
LEAST_SHARE = 0.5
"""Least score by words of a relevant fact, as a share of what one rare word in common gives."""
NEXT_TO_BEST = 0.3
"""Least score by words of a relevant fact, as a share of the best one's."""
NEAR: Mapping[Language, float] = {"en": 0.35, "es": 1.0}
"""Least cosine of a fact that is relevant by its meaning alone; never reached in Spanish."""
NAMED_PERIOD = 0.25
"""Added to a fact that was told in the day or month that the question names."""


AT_ONCE = 8
"""Facts whose vectors are computed and stored at a time; a search waits for no more of them."""


class Vectors(Protocol):
    """Facts by their meaning: an index in memory, which an add-on brings."""

    def clear(self) -> None:
        """Remove all facts, and the questions that were asked."""

    def remove(self, fact_id: int) -> None:
        """Remove a fact; unknown ids are ignored."""

    def load(self, repository: FactRepository, facts: Mapping[int, Fact]) -> Mapping[int, Fact]:
        """Load the stored vectors of `facts`, and return the facts that have none."""

    def compute(self, facts: Sequence[Fact]) -> Mapping[int, bytes]:
        """Return the vectors of `facts`; called without waiting for a search, or it for this."""

    def add(self, repository: FactRepository, vectors: Mapping[int, bytes]) -> None:
        """Store computed vectors, and search them from now on."""

    def search(self, question: str, pool: int) -> tuple[list[int], dict[int, float]]:
        """Return the `pool` facts nearest to `question`, and the cosine of every fact."""


class Searcher:
    """Searches the active facts of one repository.

    Words are searched in the database; vectors are in memory, in step with the database. Missing
    ones are computed on a thread, a few at a time; until they are there, words alone count.
    """

    def __init__(
        self, repository: FactRepository, clock: Clock, vectors: Vectors | None = None
    ) -> None:
        self._repository = repository
        self._clock = clock
        self._vectors = vectors
        self._seen = Version(0, 0)
        self._missing: dict[int, Fact] = {}
        self._computing: threading.Thread | None = None
        self._closed = False
        self._lock = threading.Lock()

    def search(self, question: str, limit: int, *, relevant: bool = False) -> list[Recall]:
        """Return the `limit` best facts, best first, without those that share nothing with it.

        With `relevant`, for a search that the user did not ask for, facts that share too little
        are left out too, and small talk finds nothing.
        """
        if relevant:
            question = without_small_talk(question)
        with self._lock:
            self._catch_up()
            waits = len(self._missing) <= AT_ONCE
        if waits:
            self.settle()
        with self._lock:
            words = WordIndex(StoredWords(self._repository.sql, ("", self._repository.project)))
            asked = words_of(question)
            if limit < 1 or not len(words) or (relevant and not asked.tokens):
                return []
            scores = self._similarity(words, asked, relevant)
            facts = facts_by_id(self._repository, scores)
            now = self._clock.now()
            ranked = _rank(
                question, {one: scores[one] for one in scores if one in facts}, facts, now
            )
            return [_recall(facts[fact_id], score, now) for fact_id, score in ranked[:limit]]

    def settle(self) -> None:
        """Wait until no vector of a fact that was searched for is missing."""
        if (computing := self._computing) is not None:
            computing.join()

    def close(self) -> None:
        """Compute no more vectors; those that are stored stay."""
        self._closed = True
        self.settle()

    def _catch_up(self) -> None:
        """Make the index of words, and bring the vectors up to date."""
        make_words(self._repository)
        vectors = self._vectors
        if vectors is None or (current := self._repository.version()) == self._seen:
            return
        if current.wiped != self._seen.wiped or current.number < self._seen.number:
            vectors.clear()
            self._missing.clear()
            self._seen = Version(0, current.wiped)
        active: dict[int, Fact] = {}
        for fact in self._repository.changed_since(self._seen.number):
            self._missing.pop(fact.id, None)
            if fact.status == "active":
                active[fact.id] = fact
            else:
                vectors.remove(fact.id)
        self._missing |= vectors.load(self._repository, active)
        self._seen = current
        if self._missing and self._computing is None:
            self._computing = threading.Thread(target=self._compute, args=(vectors,), daemon=True)
            self._computing.start()

    def _compute(self, vectors: Vectors) -> None:
        """Compute a few vectors at a time, until none is missing or the memory is closed."""
        made: Mapping[int, bytes] = {}
        try:
            while some := self._store(vectors, made):
                made = vectors.compute(some)
        except KognitermError:
            self._give_vectors_up()

    def _store(self, vectors: Vectors, made: Mapping[int, bytes]) -> Sequence[Fact]:
        """Store computed vectors, but of facts forgotten since; return the facts that are next."""
        with self._lock:
            kept = {one: vector for one, vector in made.items() if one in self._missing}
            vectors.add(self._repository, kept)
            for one in kept:
                del self._missing[one]
            some = [] if self._closed else [*islice(self._missing.values(), AT_ONCE)]
            if not some:
                self._computing = None
            return some

    def _give_vectors_up(self) -> None:
        log.warning("facts are found by their words alone from now on", exc_info=True)
        self._vectors = None

    def _similarity(self, words: WordIndex, question: Words, relevant: bool) -> dict[int, float]:
        nearest, cosines = self._nearest(question.text)
        if not nearest:
            by_words = words.search(question, POOL * 2)
            pool = {*_best(by_words)} & (_tell(words, by_words) if relevant else by_words.keys())
            return {one: score for one, score in _normalise_scores(by_words).items() if one in pool}
        by_words = words.search(question, POOL * 2, nearest)
        pool = {*_best(by_words), *nearest} & cosines.keys()
        lexical = _normalise_scores({one: by_words[one] for one in pool})
        semantic = _normalise_scores({one: cosines[one] for one in pool})
        share = SEMANTIC[question.language]
        if relevant:
            least = NEAR[question.language]
            pool &= _tell(words, by_words) | {one for one in pool if cosines[one] >= least}
        return {one: (1 - share) * lexical[one] + share * semantic[one] for one in pool}

    def _nearest(self, question: str) -> tuple[Sequence[int], Mapping[int, float]]:
        """Return what the vectors find, as `Vectors.search`; nothing while some are missing."""
        if (vectors := self._vectors) is not None and not self._missing:
            try:
                return vectors.search(question, POOL)
            except KognitermError:
                self._give_vectors_up()
        return (), {}


def _tell(words: WordIndex, scores: Mapping[int, float]) -> set[int]:
    """Return the facts whose words are relevant to the question, by their scores."""
    least = max(LEAST_SHARE * words.rarest(), NEXT_TO_BEST * max(scores.values(), default=0.0))
    return {one for one in _best(scores) if scores[one] >= least}


def _rank(
    question: str, scores: Mapping[int, float], facts: Mapping[int, Fact], now: float
) -> list[tuple[int, float]]:
    most = max((facts[one].relevance_count for one in scores), default=0)
    period = named_period(question)
    ranked = []
    for fact_id, score in scores.items():
        fact = facts[fact_id]
        if most:
            score += CONFIRMED * math.log1p(fact.relevance_count) / math.log1p(most)
        score += RECENCY * fact_records.recency(fact.created, now)
        if period is not None and period[0] <= fact.created < period[1]:
            score += NAMED_PERIOD
        ranked.append((fact_id, score))

    def order(item: tuple[int, float]) -> tuple[float, bool, bool, float, int]:
        fact = facts[item[0]]
        return (-item[1], not fact.pinned, fact.source != "explicit", -fact.created, -fact.id)

    return sorted(ranked, key=order)


def _recall(fact: Fact, score: float, now: float) -> Recall:
    return Recall(
        id=fact.id,
        text=fact.text,
        score=score,
        category=fact.category,
        confidence=fact_records.effective_confidence(fact, now),
        source=fact.source,
        created=fact.created,
        project=fact.project,
        pinned=fact.pinned,
        why=Phrase("it matches the question (score {score:.2f})", {"score": score}),
    )


def _best(scores: Mapping[int, float]) -> list[int]:
    """Return the `POOL` best. Sorting all is faster than a heap: it does not leave C."""
    return sorted(scores, key=scores.__getitem__, reverse=True)[:POOL]


def _normalise_scores(scores: Mapping[int, float]) -> dict[int, float]:
    """Return the scores scaled to 0..1; all 1 when they are equal."""
    if not scores:
        return {}
    low, high = min(scores.values()), max(scores.values())
    if high - low < 1e-12:
        return dict.fromkeys(scores, 1.0)
    return {one: (score - low) / (high - low) for one, score in scores.items()}


_MONTHS = {
    name: number
    for names in (
        "january february march april may june july august september october november december",
        "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
        "jan feb mar apr may jun jul aug sep oct nov dec",
    )
    for number, name in enumerate(names.split(), start=1)
}
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_PATTERNS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"\b{_YEAR}-(?P<number>\d\d)-(?P<day>\d\d)\b",
        rf"\b(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?: of| de)? (?P<month>{_MONTH})\.?,?"
        rf"(?: of| de| del)? {_YEAR}\b",
        rf"\b(?P<month>{_MONTH})\.? (?P<day>\d{{1,2}})(?:st|nd|rd|th)?,? {_YEAR}\b",
        rf"\b(?P<month>{_MONTH})\.?,?(?: of| de| del)? {_YEAR}\b",
    )
)


def named_period(question: str) -> tuple[float, float] | None:
    """Return start and end (exclusive, seconds since the epoch, UTC) of a day or month named."""
    text = plain(question)
    for pattern in _PATTERNS:
        found = pattern.search(text)
        if found is None:
            continue
        parts = found.groupdict()
        year = int(parts["year"])
        month = int(parts["number"]) if parts.get("number") else _MONTHS.get(parts["month"], 0)
        day = int(parts["day"]) if parts.get("day") else None
        try:
            start = datetime(year, month, day or 1, tzinfo=UTC).timestamp()
        except ValueError:
            return None
        if day is not None:
            return start, start + 86_400.0
        following = (year + 1, 1) if month == 12 else (year, month + 1)
        return start, datetime(*following, 1, tzinfo=UTC).timestamp()
    return None
