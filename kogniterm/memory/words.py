"""From text to the terms that are indexed and compared, for both backends alike.

Lower case, no accents, possessives and stopwords gone, irregular forms led back to their lemma,
then a stem. Whether a text is Spanish or English is told by its function words; scripts without
spaces give pairs of characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal

from kogniterm.memory.stemming import english, spanish

Language = Literal["en", "es"]

_TOKEN = re.compile(r"\d+(?:[.,]\d+)+|[^\W_]+(?:['’][^\W\d_]+)?")
_UNSPACED = re.compile(r"[぀-ヿ㐀-鿿가-힯]+")
_LEXICON = Path(__file__).parent / "lexicon"


@dataclass(frozen=True, slots=True)
class Token:
    """A word as it stood in a text: normalised, and its stem in the text's language."""

    word: str
    stem: str


def plain(text: str) -> str:
    """`text` in lower case, without accents and compatibility forms; for comparison only."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))


@lru_cache(maxsize=16)
def raw_words(text: str) -> tuple[str, ...]:
    """Every word of `text`, normalised, stopwords included, in order."""
    found: list[str] = []
    for word in _TOKEN.findall(plain(text)):
        if word.isascii() and word.isalpha():
            found.append(word)
        elif word[0].isdigit():
            found.append(word.replace(",", ""))
        elif len(word) > 1 and _UNSPACED.fullmatch(word):
            found.extend(word[start : start + 2] for start in range(len(word) - 1))
        else:
            found.append(word.replace("’", "'").partition("'")[0])
    return tuple(found)


def language(text: str) -> Language:
    """English unless the function words of Spanish are more."""
    found = raw_words(text)
    marks = function_words()
    spanish_words = sum(word in marks["es"] for word in found)
    marked = 1 if re.search("[¿¡ñáéíóú]", text.casefold()) else 0
    return "es" if spanish_words + marked > sum(word in marks["en"] for word in found) else "en"


def stem(word: str, spoken: Language) -> str:
    """The stem of the normalised `word` in a text of language `spoken`."""
    lemma = irregular_forms(spoken).get(word, word)
    return spanish(lemma) if spoken == "es" else english(lemma)


def tokens(text: str, spoken: Language | None = None) -> list[Token]:
    """The telling words of `text`, in order, with their stems."""
    spoken = spoken or language(text)
    dropped = stopwords(spoken)
    return [
        Token(word, stem(word, spoken))
        for word in raw_words(text)
        if word not in dropped and (len(word) > 1 or word.isdigit())
    ]


def without_small_talk(text: str) -> str:
    """`text` without the words by which a turn only goes on ("thanks", "go on", "muestra")."""
    talk = listed("small_talk", "talk")
    return _TOKEN.sub(lambda found: "" if plain(found[0]) in talk else found[0], text)


def terms(text: str) -> list[str]:
    """The stems of the telling words of `text`, in order."""
    return [token.stem for token in tokens(text)]


@cache
def stopwords(spoken: Language) -> frozenset[str]:
    """Words of a language that are never indexed; "son" says much in English, little in Spanish."""
    return frozenset(word for line in _lines(f"stopwords_{spoken}") for word in line)


@cache
def listed(name: str, *rows: str) -> frozenset[str]:
    """The words of the lines of the lexicon `name` that begin with one of `rows`."""
    return frozenset(word for first, *rest in _lines(name) if first in rows for word in rest)


@cache
def function_words() -> Mapping[Language, frozenset[str]]:
    """The words by which a language is told, without those that both have."""
    english_words, spanish_words = (frozenset(line) for line in _lines("languages"))
    both = english_words & spanish_words
    return {"en": english_words - both, "es": spanish_words - both}


@cache
def irregular_forms(spoken: Language) -> Mapping[str, str]:
    """Irregular form → lemma."""
    return {form: line[0] for line in _lines(f"irregular_{spoken}") for form in line[1:]}


@cache
def related_stems() -> Mapping[str, frozenset[str]]:
    """Stem → stems that answer for it, over both languages."""
    groups: dict[str, set[str]] = {}
    for line in _lines("related"):
        stems = {stem(word, "en") for word in line} | {stem(word, "es") for word in line}
        for one in stems:
            groups.setdefault(one, set()).update(stems)
    for line in _lines("translations"):
        ours, theirs = _sides(line)
        for stems in ({stem(word, "en") for word in ours}, {stem(word, "es") for word in theirs}):
            for one in stems:
                groups.setdefault(one, set()).update(stems)
    return {one: frozenset(others - {one}) for one, others in groups.items()}


@cache
def translated_stems(spoken: Language) -> Mapping[str, frozenset[str]]:
    """Stem of a word of language `spoken` → stems that say the same in the other language.

    One direction at a time: the stem of "tomar", to take, is also that of "Tom".
    """
    found: dict[str, set[str]] = {}
    for line in _lines("translations"):
        english_side, spanish_side = _sides(line)
        ours = {stem(word, "en") for word in english_side}
        theirs = {stem(word, "es") for word in spanish_side}
        if spoken == "es":
            ours, theirs = theirs, ours
        for one in ours:
            found.setdefault(one, set()).update(theirs)
    return {one: frozenset(others - {one}) for one, others in found.items()}


def answering(stem: str) -> frozenset[str]:
    """Stems that may stand for `stem`: related words and words of the other language."""
    translated = (
        translated_stems("en").get(stem, frozenset()),
        translated_stems("es").get(stem, frozenset()),
    )
    return related_stems().get(stem, frozenset()).union(*translated)


def _sides(line: list[str]) -> tuple[list[str], list[str]]:
    bar = line.index("|")
    return line[:bar], line[bar + 1 :]


def _lines(name: str) -> list[list[str]]:
    text = (_LEXICON / f"{name}.txt").read_text(encoding="utf-8")
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]
