"""Vectors that are missing: computed on a thread, while searches find by words."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence

import pytest

from kogniterm.memory import Fact, Memory
from kogniterm.memory.repository import FactRepository
from kogniterm.memory.searcher import AT_ONCE, Searcher


class HeldVectors:
    """Vectors that are computed only once `free` is set; every fact is near to every question."""

    def __init__(self) -> None:
        self.free = threading.Event()
        self.asked = threading.Event()
        self.known: dict[int, bytes] = {}

    def clear(self) -> None:
        self.known.clear()

    def remove(self, fact_id: int) -> None:
        self.known.pop(fact_id, None)

    def load(self, repository: FactRepository, facts: Mapping[int, Fact]) -> Mapping[int, Fact]:
        self.known |= {one: held for one, held in repository.vectors("held") if one in facts}
        return {one: fact for one, fact in facts.items() if one not in self.known}

    def compute(self, facts: Sequence[Fact]) -> Mapping[int, bytes]:
        assert len(facts) <= AT_ONCE
        self.asked.set()
        assert self.free.wait()
        return {one.id: b"vector" for one in facts}

    def add(self, repository: FactRepository, vectors: Mapping[int, bytes]) -> None:
        repository.store_vectors("held", vectors)
        self.known |= vectors

    def search(self, question: str, pool: int) -> tuple[list[int], dict[int, float]]:
        return [*self.known][:pool], dict.fromkeys(self.known, 0.9)


@pytest.fixture
def held() -> HeldVectors:
    return HeldVectors()


@pytest.fixture
def searcher(memory: Memory, held: HeldVectors) -> Iterator[Searcher]:
    for number in range(3 * AT_ONCE):
        memory.add(f"Greyhound {number} sleeps in shed {number}")
    searcher = Searcher(memory.repository, memory.clock, held)
    try:
        yield searcher
    finally:
        held.free.set()
        searcher.close()


def test_a_search_waits_for_no_vectors_and_finds_by_words(
    searcher: Searcher, held: HeldVectors
) -> None:
    assert [one.text for one in searcher.search("shed 7", 1)] == ["Greyhound 7 sleeps in shed 7"]
    assert searcher.search("unicorns", 5) == []
    assert held.asked.wait()
    assert not held.known
    held.free.set()
    searcher.settle()
    assert len(held.known) == 3 * AT_ONCE
    assert len(searcher.search("unicorns", 5)) == 5


def test_a_fact_that_is_forgotten_while_its_vector_is_computed_leaves_none(
    searcher: Searcher, held: HeldVectors, memory: Memory
) -> None:
    searcher.search("shed", 1)
    assert held.asked.wait()
    gone = memory.search("shed 0", 1)[0].id
    memory.forget(gone)
    held.free.set()
    searcher.settle()
    assert memory.sql.one("SELECT 1 FROM fact_vectors WHERE fact_id = ?", (gone,)) is None
    assert gone not in {one.id for one in searcher.search("unicorns", 100)}
    searcher.settle()
    assert sorted(held.known) == [one.id for one in memory.facts("active")]


def test_what_is_being_computed_at_the_end_is_kept(searcher: Searcher, held: HeldVectors) -> None:
    searcher.search("shed", 1)
    assert held.asked.wait()
    closing = threading.Thread(target=searcher.close)
    closing.start()
    held.free.set()
    closing.join()
    assert held.known
