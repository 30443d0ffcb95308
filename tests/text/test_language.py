"""Words, their language and their stems."""

from __future__ import annotations

import gc
import os
import sys
import weakref
from collections.abc import Iterable
from pathlib import Path

import pytest

from kogniterm.text import language
from kogniterm.text.language import fold_case, language_of, raw_words, stem, stems_of, word_list


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("painted", "painting"),
        ("allergies", "allergy"),
        ("quickly", "quick"),
        ("running", "run"),
        ("relational", "relate"),
        ("hopping", "hop"),
        ("nationally", "national"),
        ("generously", "generous"),
    ],
)
def test_english_forms_of_a_word_meet(one: str, two: str) -> None:
    assert language.english(one) == language.english(two)


class HeldText(str):
    """A text that can be seen to be gone."""


def test_no_text_is_kept_after_it_was_read() -> None:
    """A text may be forgotten: then it must not stand in the memory of the process."""
    text = HeldText("The axolotl sleeps on the third floor")
    kept = weakref.ref(text)
    assert language_of(text) == "en"
    assert len(stems_of(text)) == 4
    assert "axolotl" in raw_words(text)
    del text
    gc.collect()
    assert kept() is None


def test_no_stemmer_but_that_of_english_is_loaded() -> None:
    assert stem("painting", "en") == stem("painted", "en")
    loaded = {name.rpartition(".")[2] for name in sys.modules if name.endswith("_stemmer")}
    assert loaded == {"english_stemmer"}


@pytest.mark.parametrize(
    ("one", "two"),
    [("casas", "casa"), ("trabajando", "trabajo"), ("luces", "luz"), ("amigas", "amigo")],
)
def test_spanish_forms_of_a_word_meet(one: str, two: str) -> None:
    assert language.spanish(one) == language.spanish(two)


def test_words_are_compared_without_accents_possessives_and_case() -> None:
    assert raw_words("Tom's CAFÉ costs 4,000") == ("tom", "cafe", "costs", "4000")
    assert language_of("¿Dónde está el servidor?") == "es"
    assert language_of("Where is the server?") == "en"
    assert stems_of("Tom's son drives the van") == ["tom", "son", "drive", "van"]
    assert stems_of("Las casas son de Ana") == ["cas", "ana"]
    assert stems_of("日本語") == ["日本", "本語"]


@pytest.mark.parametrize("text", ["Árbol ÑANDÚ", "straße ﬁn …", "日本語", "İstanbul"])
def test_folding_keeps_positions(text: str) -> None:
    assert len(fold_case(text)) == len(text)


def test_folding_drops_case_and_accents() -> None:
    assert fold_case("Árbol ÑANDÚ") == "arbol nandu"


def stems_of_line(english: Iterable[str], spanish: Iterable[str], between: str = "") -> str:
    """Return the stems of one line of a word list, each of them once."""
    ours = dict.fromkeys(stem(word, "en") for word in english)
    theirs = dict.fromkeys(stem(word, "es") for word in spanish)
    return " ".join([*ours, between, *theirs] if between else {**ours, **theirs})


def test_the_stored_stems_are_those_of_the_word_lists() -> None:
    """With UPDATE_STEMS=1 they are written anew, after a change of a list or of the stemmer."""
    found = {
        "related": [stems_of_line(line, line) for line in word_list("related")],
        "translations": [
            stems_of_line(line[: line.index("|")], line[line.index("|") + 1 :], "|")
            for line in word_list("translations")
        ],
    }
    for name, lines in found.items():
        if os.environ.get("UPDATE_STEMS"):
            head = f"# The stems of {name}.txt, line by line. Written by a test (UPDATE_STEMS=1).\n"
            file = Path(language.__file__).parent / "word_lists" / f"{name}_stems.txt"
            file.write_text(head + "".join(f"{line}\n" for line in lines))
        stored = [" ".join(line) for line in word_list(f"{name}_stems")]
        assert stored == lines, "run it with UPDATE_STEMS=1 if that is meant"
