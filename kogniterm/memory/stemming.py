"""Stems of English and Spanish words, so that "painted" meets "painting" and "casas" "casa".

English follows M. F. Porter's second algorithm ("Porter2", published with Snowball), written
from its description, without the exception lists that the irregular forms of `lexicon` cover.
Spanish is a light stemmer: plural, gender, and the common verb endings. Words come in lower case
and without accents. `root` goes further than a stem and is only used to suggest alternatives.
"""

from __future__ import annotations

import re
from functools import lru_cache

_VOWELS = "aeiouy"
_DOUBLES = ("bb", "dd", "ff", "gg", "mm", "nn", "pp", "rr", "tt")
_LI_ENDINGS = "cdeghkmnrt"
_REGION = re.compile(r"[aeiouy][^aeiouy]")

_STEP2 = {
    "ization": "ize",
    "ational": "ate",
    "fulness": "ful",
    "ousness": "ous",
    "iveness": "ive",
    "tional": "tion",
    "biliti": "ble",
    "lessli": "less",
    "entli": "ent",
    "ation": "ate",
    "alism": "al",
    "aliti": "al",
    "ousli": "ous",
    "iviti": "ive",
    "fulli": "ful",
    "enci": "ence",
    "anci": "ance",
    "abli": "able",
    "izer": "ize",
    "ator": "ate",
    "alli": "al",
    "bli": "ble",
}
_STEP3 = {
    "ational": "ate",
    "tional": "tion",
    "alize": "al",
    "icate": "ic",
    "iciti": "ic",
    "ical": "ic",
    "ness": "",
    "ful": "",
}
_STEP4 = (
    "ement",
    "ance",
    "ence",
    "able",
    "ible",
    "ment",
    "ant",
    "ent",
    "ism",
    "ate",
    "iti",
    "ous",
    "ive",
    "ize",
    "al",
    "er",
    "ic",
)
_SPANISH_ENDINGS = (
    "aciones", "amiento", "imiento", "uciones", "adores", "adoras", "amente", "iendo", "ieron",
    "acion", "ucion", "ador", "adora", "ancia", "mente", "aban", "abas", "aron", "ando", "ados",
    "adas", "idos", "idas", "emos", "amos", "imos", "aste", "iste", "aba", "ado", "ada", "ido",
    "ida", "ian", "ias", "ara", "era", "ira", "aron", "ar", "er", "ir", "an", "en", "as", "es",
    "os", "ia", "io", "a", "e", "i", "o",
)  # fmt: skip
_DERIVATIONS = (
    "ation", "ition", "ment", "ness", "ship", "hood", "less", "ance", "ence", "ion", "ist", "ing",
    "ful", "ity", "iti", "ian", "age", "ism", "ous", "ive", "er", "or", "al", "ic", "at", "i",
)  # fmt: skip


@lru_cache(maxsize=50_000)
def english(word: str) -> str:
    """The Porter2 stem of `word`."""
    if len(word) <= 2 or not word.isascii() or not word.isalpha():
        return word
    if word[0] == "y":
        word = "Y" + word[1:]
    word = re.sub(r"([aeiouy])y", r"\1Y", word)
    r1, r2 = _regions(word)
    word = _plural(word)
    word = _past(word, r1)
    if len(word) > 2 and word[-1] in "yY" and word[-2] not in _VOWELS:
        word = word[:-1] + "i"
    word = _replace(word, _STEP2, r1)
    if word.endswith("ogi") and word[-4:-3] == "l" and len(word) - 3 >= r1:
        word = word[:-1]
    if word.endswith("li") and len(word) - 2 >= r1 and word[-3:-2] in _LI_ENDINGS:
        word = word[:-2]
    word = _replace(word, _STEP3, r1)
    if word.endswith("ative") and len(word) - 5 >= r2:
        word = word[:-5]
    word = _drop_suffix(word, r2)
    return _final(word, r1, r2).lower()


def _regions(word: str) -> tuple[int, int]:
    """Where Porter's R1 and R2 begin: after the first and second vowel-consonant pair."""
    for prefix in ("gener", "commun", "arsen"):
        if word.startswith(prefix):
            first = len(prefix)
            break
    else:
        found = _REGION.search(word)
        first = found.end() if found else len(word)
    found = _REGION.search(word, first)
    return first, found.end() if found else len(word)


def _plural(word: str) -> str:
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith(("ied", "ies")):
        return word[:-2] if len(word) > 4 else word[:-1]
    if word.endswith(("us", "ss")):
        return word
    if word.endswith("s") and any(letter in _VOWELS for letter in word[:-2]):
        return word[:-1]
    return word


def _past(word: str, r1: int) -> str:
    for suffix in ("eedly", "eed"):
        if word.endswith(suffix):
            return word[: -len(suffix)] + "ee" if len(word) - len(suffix) >= r1 else word
    for suffix in ("ingly", "edly", "ing", "ed"):
        if not word.endswith(suffix):
            continue
        stem = word[: -len(suffix)]
        if not any(letter in _VOWELS for letter in stem):
            return word
        if stem.endswith(("at", "bl", "iz")):
            return stem + "e"
        if stem.endswith(_DOUBLES):
            return stem[:-1]
        if _is_short(stem, r1):
            return stem + "e"
        return stem
    return word


def _is_short(word: str, r1: int) -> bool:
    if r1 < len(word):
        return False
    if len(word) == 2:
        return word[0] in _VOWELS and word[1] not in _VOWELS
    return (
        len(word) > 2
        and word[-3] not in _VOWELS
        and word[-2] in _VOWELS
        and word[-1] not in _VOWELS + "wxY"
    )


def _replace(word: str, table: dict[str, str], r1: int) -> str:
    for suffix, replacement in table.items():
        if word.endswith(suffix):
            start = len(word) - len(suffix)
            return word[:start] + replacement if start >= r1 else word
    return word


def _drop_suffix(word: str, r2: int) -> str:
    if word.endswith(("sion", "tion")):
        return word[:-3] if len(word) - 3 >= r2 else word
    for suffix in _STEP4:
        if word.endswith(suffix):
            return word[: -len(suffix)] if len(word) - len(suffix) >= r2 else word
    return word


def _final(word: str, r1: int, r2: int) -> str:
    last = len(word) - 1
    if word.endswith("e"):
        if last >= r2 or (last >= r1 and not _is_short(word[:-1], r1)):
            return word[:-1]
    elif word.endswith("ll") and last >= r2:
        return word[:-1]
    return word


@lru_cache(maxsize=50_000)
def spanish(word: str) -> str:
    """A light Spanish stem: one ending off, never below three letters."""
    if len(word) <= 3 or not word.isalpha():
        return word
    if word.endswith("ces"):
        return word[:-3] + "z"
    if word.endswith("s") and len(word) > 4:
        word = word[:-2] if word.endswith("es") and word[-3] not in _VOWELS else word[:-1]
    for ending in _SPANISH_ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


@lru_cache(maxsize=50_000)
def root(stem: str) -> str:
    """What is left of an English stem without one derivation: painter and paint share it."""
    for ending in _DERIVATIONS:
        if stem.endswith(ending) and len(stem) - len(ending) >= 4:
            return stem[: -len(ending)]
    return stem[:-1] if stem.endswith("e") and len(stem) > 4 else stem
