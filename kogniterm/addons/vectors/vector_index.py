"""The index of facts by meaning; all that it knows of a fact is its vector."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kogniterm.addons.vectors.minilm import MiniLM, load_numpy, vectors_installed
from kogniterm.memory.fact_records import Fact
from kogniterm.memory.repository import FactRepository
from kogniterm.memory.searcher import BATCH

if TYPE_CHECKING:
    from kogniterm.addons.vectors.minilm import Matrix

ASKED = 64
"""Questions whose vectors stay in memory."""


class VectorIndex:
    """Vectors of the facts in memory, compared one by one: exact, 1 ms at ten thousand."""

    installed = staticmethod(vectors_installed)

    def __init__(self) -> None:
        self._embedder = MiniLM()
        self._rows: dict[int, Matrix] = {}
        self._matrix: Matrix | None = None
        self._ids: list[int] = []
        self._asked: OrderedDict[str, Matrix] = OrderedDict()

    def clear(self) -> None:
        """Remove all facts, and the questions that were asked."""
        self._rows.clear()
        self._asked.clear()
        self._matrix = None

    def remove(self, fact_id: int) -> None:
        """Remove a fact; unknown ids are ignored."""
        self._asked.clear()  # the fact may be forgotten, and a question may repeat it
        if self._rows.pop(fact_id, None) is not None:
            self._matrix = None

    def complete(self, repository: FactRepository, facts: Mapping[int, Fact]) -> None:
        """Load or compute what is missing for `facts`; what is computed is stored."""
        numpy = load_numpy()
        missing = [one for one in facts if one not in self._rows]
        if not missing:
            return
        self._matrix = None
        if len(missing) > 1 or not self._rows:
            for fact_id, blob in repository.vectors(self._embedder.name):
                if fact_id in facts:
                    self._rows.setdefault(
                        fact_id, numpy.frombuffer(blob, dtype=numpy.float16).astype(numpy.float32)
                    )
            missing = [one for one in missing if one not in self._rows]
        for start in range(0, len(missing), BATCH):
            batch = missing[start : start + BATCH]
            vectors = self._embedder.embed([facts[one].text for one in batch])
            self._rows.update(zip(batch, vectors, strict=True))
            repository.store_vectors(
                self._embedder.name,
                {
                    one: vector.astype(numpy.float16).tobytes()
                    for one, vector in zip(batch, vectors, strict=True)
                },
            )

    def search(self, question: str, pool: int) -> tuple[list[int], dict[int, float]]:
        """Return the `pool` facts nearest to `question`, and the cosine of every fact."""
        import numpy

        if self._matrix is None:
            self._ids = list(self._rows)
            self._matrix = numpy.stack([self._rows[one] for one in self._ids])
        # Not `@`: for one vector, BLAS starts threads that cost more than the product.
        # An input is searched for when it comes and when it is read.
        vector = self._asked.pop(question, None)
        if vector is None:
            vector = self._embedder.embed([question])[0]
        self._asked[question] = vector
        while len(self._asked) > ASKED:
            self._asked.popitem(last=False)
        similar: Matrix = numpy.vecdot(self._matrix, vector)
        nearest = [self._ids[row] for row in numpy.argsort(-similar)[:pool].tolist()]
        return nearest, dict(zip(self._ids, similar.tolist(), strict=True))
