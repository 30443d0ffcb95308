"""The index of facts by meaning; all that it knows of a fact is its vector."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kogniterm.addons.vectors.minilm import MiniLM, load_numpy, vectors_installed
from kogniterm.memory.fact_records import Fact
from kogniterm.memory.repository import FactRepository

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

    def load(self, repository: FactRepository, facts: Mapping[int, Fact]) -> Mapping[int, Fact]:
        """Load the stored vectors of `facts`, and return the facts that have none."""
        if len(facts) > 1 or not self._rows:
            stored = repository.vectors(self._embedder.name)
            self._keep({one: vector for one, vector in stored if one in facts})
        return {one: fact for one, fact in facts.items() if one not in self._rows}

    def compute(self, facts: Sequence[Fact]) -> Mapping[int, bytes]:
        """Return the vectors of `facts` as they are stored."""
        vectors = self._embedder.embed([one.text for one in facts]).astype("float16")
        return {one.id: vector.tobytes() for one, vector in zip(facts, vectors, strict=True)}

    def add(self, repository: FactRepository, vectors: Mapping[int, bytes]) -> None:
        """Store computed vectors, and search them from now on."""
        repository.store_vectors(self._embedder.name, vectors)
        self._keep(vectors)

    def _keep(self, vectors: Mapping[int, bytes]) -> None:
        numpy = load_numpy()
        self._matrix = None
        for one, vector in vectors.items():
            self._rows[one] = numpy.frombuffer(vector, numpy.float16).astype(numpy.float32)

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
