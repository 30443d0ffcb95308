"""BM25: how well documents answer a word, from how often they hold it and how rare it is.

Okapi BM25 with Lucene's never negative idf; see Robertson and Zaragoza, "The Probabilistic
Relevance Framework: BM25 and Beyond" (2009).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping


def idf(holding: int, total: int) -> float:
    """Return the weight of a term that `holding` of `total` documents hold."""
    return math.log(1 + (total - holding + 0.5) / (holding + 0.5))


class BM25Index:
    """Documents, called by numbers, by the terms they hold. Not thread-safe."""

    def __init__(self, k1: float, b: float) -> None:
        self._k1 = k1
        self._b = b
        self._documents: dict[int, tuple[Collection[str], float]] = {}
        self._postings: dict[str, dict[int, float]] = {}
        self._impacts: dict[str, dict[int, float]] = {}
        self._length = 0.0

    def __len__(self) -> int:
        return len(self._documents)

    def __contains__(self, document: int) -> bool:
        return document in self._documents

    def holding(self, term: str) -> int:
        """Return the number of documents that hold `term`."""
        return len(self._postings.get(term, ()))

    def add(self, document: int, frequencies: Mapping[str, float], length: float) -> list[str]:
        """Index a new document of `length` terms; return the terms that no other one holds."""
        self._documents[document] = (tuple(frequencies), length)
        self._length += length
        self._impacts.clear()
        new = [term for term in frequencies if term not in self._postings]
        for term, frequency in frequencies.items():
            self._postings.setdefault(term, {})[document] = frequency
        return new

    def remove(self, document: int) -> list[str]:
        """Take a document out; return the terms that no document holds any more."""
        terms, length = self._documents.pop(document, ((), 0.0))
        self._length -= length
        self._impacts.clear()
        gone = []
        for term in terms:
            posting = self._postings[term]
            del posting[document]
            if not posting:
                del self._postings[term]
                gone.append(term)
        return gone

    def weight(self, holding: int) -> float:
        """Return the most that a term which `holding` documents hold can add to a score."""
        return idf(holding, len(self)) * (self._k1 + 1)

    def impacts(self, term: str) -> Mapping[int, float]:
        """Return the saturated frequency of `term`, 0 to 1, in each document that holds it."""
        impacts = self._impacts.get(term)
        if impacts is None:
            k1, b, documents = self._k1, self._b, self._documents
            average = self._length / max(len(documents), 1) or 1.0
            impacts = self._impacts[term] = {
                document: frequency
                / (frequency + k1 * (1 - b + b * documents[document][1] / average))
                for document, frequency in self._postings.get(term, {}).items()
            }
        return impacts
