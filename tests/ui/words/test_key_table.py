"""The table of keys is the source of everything that describes them."""

from __future__ import annotations

from kogniterm.ui.prompt.bindings import prompt_actions
from kogniterm.ui.words.key_table import BUILT_IN, KEYS, table
from tests.support.language import in_spanish


def test_every_key_of_the_table_does_something_and_nothing_else_is_bound() -> None:
    class Prompt:
        controls = None

    actions = set(prompt_actions(Prompt()))  # type: ignore[arg-type]  # only names are looked at
    assert actions | BUILT_IN == {key.action for key in KEYS if key.where == "prompt"}


def test_keys_and_chords_are_named_once_in_each_place() -> None:
    for where in ("prompt", "question"):
        chords = [chord for key in KEYS if key.where == where for chord in key.sequences]
        assert len(chords) == len(set(chords))


def test_the_keys_have_their_names_in_the_language_in_use() -> None:
    with in_spanish():
        spanish = [shown for shown, _help in table("question", "es")]
    assert "Espacio, RePág/AvPág, flechas" in spanish
    assert "Space, Page-Up/Down, arrows" in [shown for shown, _help in table("question", "en")]
