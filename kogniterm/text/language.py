"""Words of a text, and the language it is in: English or Spanish.

Words are compared in lower case and without accents; the lists of words are data (`word_lists`).
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache
from pathlib import Path
from typing import Literal, get_args

Language = Literal["en", "es"]
LANGUAGES: tuple[Language, ...] = get_args(Language)

_TOKEN = re.compile(r"\d+(?:[.,]\d+)+|[^\W_]+(?:['’][^\W\d_]+)?")
_UNSPACED = re.compile(r"[぀-ヿ㐀-鿿가-힯]+")
_SPANISH_LETTERS = re.compile(r"[ñ¿¡áéíóú]")
_SPANISH_LETTERS_COUNT = 2
"""Words that a letter which only Spanish has counts as."""
_WORD_LISTS = Path(__file__).parent / "word_lists"


def plain(text: str) -> str:
    """Return `text` in lower case, without accents and compatibility forms, for comparison."""
    return text.lower() if text.isascii() else _without_accents(text.casefold())


def fold_case(text: str) -> str:
    """Return `text` in lower case, without accents, and of the same length.

    Positions in it are positions in `text`; a character that would become several is kept.
    """
    return text.lower() if text.isascii() else "".join(map(_folded, text))


def _folded(character: str) -> str:
    base = _without_accents(character).casefold()
    return base if len(base) == 1 else character


def _without_accents(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))


@lru_cache(maxsize=16)
def raw_words(text: str) -> tuple[str, ...]:
    """Return every word of `text`, normalised, stopwords included, in order.

    Possessive endings are dropped; scripts without spaces give pairs of characters.
    """
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


def language_of(text: str) -> Language:
    """Return "es" when `text` has more of Spanish than of English, by its common words."""
    words = raw_words(text)
    spanish = sum(word in listed("languages", "es") for word in words)
    if _SPANISH_LETTERS.search(text.casefold()):
        spanish += _SPANISH_LETTERS_COUNT
    return "es" if spanish > sum(word in listed("languages", "en") for word in words) else "en"


@cache
def stopwords(language: Language) -> frozenset[str]:
    """Return the words of `language` that say nothing about the subject of a text."""
    return frozenset(word for line in word_list(f"stopwords_{language}") for word in line)


def without_small_talk(text: str) -> str:
    """Return `text` without the words by which a turn only goes on ("thanks", "go on")."""
    talk = listed("small_talk", "talk")
    return _TOKEN.sub(lambda found: "" if plain(found[0]) in talk else found[0], text)


@cache
def listed(name: str, *rows: str) -> frozenset[str]:
    """Return the words of those lines of the list `name` that begin with one of `rows`."""
    return frozenset(word for first, *rest in word_list(name) if first in rows for word in rest)


def word_list(name: str) -> list[list[str]]:
    """Return the lines of the list `name`, each as its words."""
    text = (_WORD_LISTS / f"{name}.txt").read_text(encoding="utf-8")
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]
