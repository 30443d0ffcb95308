"""The known word that was meant by another one."""

from __future__ import annotations

from kogniterm.text.spelling import meant


def test_swapped_letters_come_before_a_missing_one() -> None:
    swapped = "".join(("mod", "le"))
    assert meant(swapped, ("mode", "model", "models")) == "model"
    assert meant(f"/{swapped}", ("/mode", "/model")) == "/model"


def test_the_most_alike_word_is_meant_or_none() -> None:
    assert meant("mod", ("mode", "model")) == "mode"
    assert meant("them", ("theme", "keys")) == "theme"
    assert meant("zebra", ("mode", "model")) is None
