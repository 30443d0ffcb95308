"""The word index: BM25 over facts and lessons, the same for SQLite and PostgreSQL.

The words are in tables of the database (`stored_words`), so that a hundred thousand facts are
searched without loading them.

Scoring is BM25 with Lucene's never negative idf, k1 = 0.9 and b = 0.4 (the values Anserini uses
for short passages). A question word is a concept: its own stem counts fully, the stem in the
other language too, and related words, words of the same root and near spellings count for less;
of the alternatives that a fact holds, the best one counts.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from kogniterm.memory.search.stored_words import StoredWords, idf
from kogniterm.text.language import (
    Language,
    Token,
    language_of,
    raw_words,
    related_stems,
    root,
    stem,
    stopwords,
    tokens,
    translated_stems,
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
        weighed = [
            (
                self._rarities(self._alternatives(token, spoken, token.word in names)),
                (1 + math.log(count)) * (NAME if token.word in names else 1.0),
            )
            for token, count in Counter(asked).items()
        ]
        weighed += [(self._rarities({term: 1.0}), 1.0) for term in self._joined(question, spoken)]
        weighed.sort(key=lambda item: -item[1] * max(item[0].values(), default=0.0))
        ahead = sum(boost * max(rarities.values(), default=0.0) for rarities, boost in weighed)
        scores = dict.fromkeys(also, 0.0)
        for rarities, boost in weighed:
            only = scores if pool is not None and _is_settled(scores, pool, ahead) else None
            ahead -= boost * max(rarities.values(), default=0.0)
            added = self._score(rarities, only)
            if not scores:
                scores = {fact_id: boost * score for fact_id, score in added.items()}
                continue
            before = scores.get
            for fact_id, score in added.items():
                scores[fact_id] = before(fact_id, 0.0) + boost * score
        pairs = {(one.stem, two.stem) for one, two in pairwise(asked)}
        best = sorted(scores, key=scores.__getitem__, reverse=True)[: pool or _REORDERED]
        for fact_id, held in self._index.terms(best).items() if pairs else ():
            kept = sum(map(pairs.__contains__, pairwise(held)))
            scores[fact_id] *= 1.0 + ADJACENT * min(kept, 2)
        if pool is None:
            return scores
        return {fact_id: scores[fact_id] for fact_id in (*best, *also) if fact_id in scores}

    def rarest(self) -> float:
        """Return the score that a word of one fact alone adds to a fact of average length."""
        return idf(1, len(self)) if len(self) else 0.0

    def _alternatives(self, token: Token, spoken: Language, is_name: bool) -> dict[str, float]:
        """Return the indexed terms for a question word, with weights. Names are not translated."""
        found: dict[str, float] = {}
        other_language: Language = "en" if spoken == "es" else "es"
        exact = (token.stem, stem(token.word, other_language))
        for term in exact:
            if self._index.holding(term):
                found[term] = 1.0
        for term in exact:
            for other in self._index.of_root(root(term)):
                found.setdefault(other, SAME_ROOT)
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

    def _joined(self, question: str, spoken: Language) -> Iterable[str]:
        """Yield indexed terms that the question writes as two words ("stand up")."""
        for one, two in pairwise(raw_words(question)):
            term = stem(one + two, spoken)
            if self._index.holding(term):
                yield term

    def _also(self, found: dict[str, float], stems: Iterable[str], weight: float) -> None:
        for one in stems:
            if self._index.holding(one):
                found.setdefault(one, weight)

    def _near(self, token: Token) -> Iterable[str]:
        """Yield indexed terms that a misspelt word may mean: one edit away, with or without ending.

        A misspelt ending is not removed by the stemmer: "educaton" is "educ" plus four letters.
        """
        for length in range(max(4, len(token.word) - 4), len(token.word) + 2):
            for term in self._index.shaped(token.word[0], length):
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
        self, rarities: Mapping[str, float], only: Mapping[int, float] | None
    ) -> dict[int, float]:
        """Return the score that a concept adds to each fact (of `only`), by its best term."""
        best: dict[int, float] = {}
        for term, rarity in rarities.items():
            impacts = self._index.impacts(term, only)
            if not best:
                best = {fact_id: rarity * impact for fact_id, impact in impacts.items()}
                continue
            for fact_id, impact in impacts.items():
                if rarity * impact > best.get(fact_id, 0.0):
                    best[fact_id] = rarity * impact
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
