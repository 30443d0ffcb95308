"""The known word that was meant by another one."""

from __future__ import annotations

from kogniterm.text.spelling import closest_word


def test_swapped_letters_come_before_a_missing_one() -> None:
    swapped = "".join(("mod", "le"))
    assert closest_word(swapped, ("mode", "model", "models")) == "model"
    assert closest_word(f"/{swapped}", ("/mode", "/model")) == "/model"


def test_the_most_alike_word_is_meant_or_none() -> None:
    assert closest_word("mod", ("mode", "model")) == "mode"
    assert closest_word("them", ("theme", "keys")) == "theme"
    assert closest_word("zebra", ("mode", "model")) is None
