"""Stems: what the forms of a word share, so that "painted" meets "painting" and "casas" "casa".

English is stemmed by Snowball. Spanish loses plural, gender and the common verb endings:
words are compared without accents, which Snowball's Spanish needs, so it would find less.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from kogniterm.text.language import Language, language_of, raw_words, stopwords, word_list

_VOWELS = "aeiou"
_SPANISH = """
    aciones amiento imiento uciones adores adoras amente iendo ieron acion ucion ador adora ancia
    mente aban abas aron ando ados adas idos idas emos amos imos aste iste aba ado ada ido ida ian
    ias ara era ira ar er ir an en as es os ia io a e i o"""
_DERIVED = """
    ation ition ment ness ship hood less ance ence ion ist ing ful ity iti ian age ism ous ive er
    or al ic at i"""
_SPANISH_ENDINGS = tuple(_SPANISH.split())
_DERIVATIONS = tuple(_DERIVED.split())


@dataclass(frozen=True, slots=True)
class Token:
    """A word as it stood in a text: normalised, and its stem in the text's language."""

    word: str
    stem: str


def stem(word: str, language: Language) -> str:
    """Return the stem of a normalised word; an irregular form has that of its lemma."""
    lemma = _irregular_forms(language).get(word, word)
    return spanish(lemma) if language == "es" else english(lemma)


@lru_cache(maxsize=50_000)
def english(word: str) -> str:
    """Return the Snowball stem of `word`."""
    # Loads the stemmers of all its languages, and one stemmer object serves one thread only.
    from snowballstemmer.english_stemmer import EnglishStemmer

    if len(word) <= 2 or not word.isascii() or not word.isalpha():
        return word
    stemmed: str = EnglishStemmer().stemWord(word)
    return stemmed


@lru_cache(maxsize=50_000)
def spanish(word: str) -> str:
    """Return `word` without one ending, never below three letters."""
    if len(word) <= 3 or not word.isalpha():
        return word
    if word.endswith("ces"):
        return word[:-3] + "z"
    if word.endswith("s") and len(word) > 4:
        word = word[:-2] if word.endswith("es") and word[-3] not in _VOWELS else word[:-1]
    return without_ending(word, _SPANISH_ENDINGS)


def without_ending(word: str, endings: Sequence[str], shortest: int = 3) -> str:
    """Return `word` without the first of `endings` that leaves at least `shortest` letters."""
    for ending in endings:
        if word.endswith(ending) and len(word) - len(ending) >= shortest:
            return word[: -len(ending)]
    return word


@lru_cache(maxsize=50_000)
def root(stem: str) -> str:
    """Return an English stem without one derivation: painter and paint share it."""
    shorter = without_ending(stem, _DERIVATIONS, 4)
    return shorter if shorter != stem else without_ending(stem, ("e",), 4)


def tokens(text: str, language: Language | None = None) -> list[Token]:
    """Return the words of `text` that are no stopwords, in order, with their stems."""
    language = language or language_of(text)
    dropped = stopwords(language)
    return [
        Token(word, stem(word, language))
        for word in raw_words(text)
        if word not in dropped and (len(word) > 1 or word.isdigit())
    ]


def stems_of(text: str) -> list[str]:
    """Return the stems of the words of `text` that are no stopwords, in order."""
    return [token.stem for token in tokens(text)]


@cache
def _irregular_forms(language: Language) -> Mapping[str, str]:
    """Irregular form → lemma."""
    return {form: line[0] for line in word_list(f"irregular_{language}") for form in line[1:]}


@cache
def related_stems() -> Mapping[str, frozenset[str]]:
    """Return stem → stems that answer for it, over both languages."""
    groups = [
        {stem(word, "en") for word in line} | {stem(word, "es") for word in line}
        for line in word_list("related")
    ]
    groups += [side for pair in _translations() for side in pair]
    return _joined((group, group) for group in groups)


@cache
def translated_stems(language: Language) -> Mapping[str, frozenset[str]]:
    """Return stem of a word of `language` → stems that say the same in the other language.

    One direction at a time: the stem of "tomar", to take, is also that of "Tom".
    """
    pairs = _translations()
    return _joined(pairs if language == "en" else ((theirs, ours) for ours, theirs in pairs))


def answering(stem: str) -> frozenset[str]:
    """Return stems that may stand for `stem`: related words and words of the other language."""
    tables = (related_stems(), translated_stems("en"), translated_stems("es"))
    return frozenset().union(*(table.get(stem, ()) for table in tables))


@cache
def _translations() -> tuple[tuple[set[str], set[str]], ...]:
    """The stems of each line of translations, English and Spanish."""
    sides = []
    for line in word_list("translations"):
        bar = line.index("|")
        sides.append(
            ({stem(word, "en") for word in line[:bar]}, {stem(w, "es") for w in line[bar + 1 :]})
        )
    return tuple(sides)


def _joined(pairs: Iterable[tuple[set[str], set[str]]]) -> Mapping[str, frozenset[str]]:
    """What stands for each stem of the first sets, over all pairs."""
    found: dict[str, set[str]] = {}
    for first, second in pairs:
        for one in first:
            found.setdefault(one, set()).update(second)
    return {one: frozenset(others - {one}) for one, others in found.items()}
