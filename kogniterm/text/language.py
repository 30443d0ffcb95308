"""Words of a text: the language they are in (English or Spanish), their stems and relations.

Words are compared in lower case and without accents; the lists of words are data (`word_lists`).
A stem is what the forms of a word share: "painted" and "painting", "casas" and "casa". English is
stemmed by Snowball. Spanish loses plural, gender and the common verb endings: Snowball's Spanish
needs accents, so it would find less.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

if TYPE_CHECKING:
    from snowballstemmer.english_stemmer import EnglishStemmer

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
    return text.lower() if text.isascii() else "".join(map(_fold_character, text))


def _fold_character(character: str) -> str:
    base = _without_accents(character).casefold()
    return base if len(base) == 1 else character


def _without_accents(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))


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
    return _language_of_words(text, raw_words(text))


def _language_of_words(text: str, words: Sequence[str]) -> Language:
    spanish = sum(map(words_listed("languages", "es").__contains__, words))
    if not text.isascii() and _SPANISH_LETTERS.search(text.casefold()):
        spanish += _SPANISH_LETTERS_COUNT
    return "es" if spanish > sum(map(words_listed("languages", "en").__contains__, words)) else "en"


@cache
def stopwords(language: Language) -> frozenset[str]:
    """Return the words of `language` that say nothing about the subject of a text."""
    return frozenset(word for line in word_list(f"stopwords_{language}") for word in line)


def without_small_talk(text: str) -> str:
    """Return `text` without the words by which a turn only goes on ("thanks", "go on")."""
    talk = words_listed("small_talk", "talk")
    return _TOKEN.sub(lambda found: "" if plain(found[0]) in talk else found[0], text)


@cache
def words_listed(name: str, *rows: str) -> frozenset[str]:
    """Return the words of those lines of the list `name` that begin with one of `rows`."""
    return frozenset(word for first, *rest in word_list(name) if first in rows for word in rest)


def word_list(name: str) -> list[list[str]]:
    """Return the lines of the list `name`, each as its words."""
    text = (_WORD_LISTS / f"{name}.txt").read_text(encoding="utf-8")
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


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


class Token(NamedTuple):
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
    if len(word) <= 2 or not word.isascii() or not word.isalpha():
        return word
    stemmed: str = _english_stemmer()().stemWord(word)  # one object serves one thread only
    return stemmed


@cache
def _english_stemmer() -> type[EnglishStemmer]:
    """Return snowballstemmer's class for English, without loading its 35 other languages.

    The package itself loads them all, so its folder is imported under a name of ours.
    """
    spec: Any = find_spec("snowballstemmer")
    package = ModuleType("_stemmers_of_snowball")
    package.__path__ = spec.submodule_search_locations
    sys.modules[package.__name__] = package
    stemmer: type[EnglishStemmer] = import_module(
        f"{package.__name__}.english_stemmer"
    ).EnglishStemmer
    return stemmer


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


class Words(NamedTuple):
    """The words of a text: all of them, its language, and those that are no stopwords."""

    text: str
    raw: tuple[str, ...]
    language: Language
    tokens: list[Token]

    @property
    def stems(self) -> list[str]:
        return [token.stem for token in self.tokens]


def words_of(text: str) -> Words:
    """Return the words of `text`, in order."""
    words = raw_words(text)
    language = _language_of_words(text, words)
    dropped = stopwords(language)
    tokens = [
        Token(word, stem(word, language))
        for word in words
        if word not in dropped and (len(word) > 1 or word.isdigit())
    ]
    return Words(text, words, language, tokens)


def stems_of(text: str) -> list[str]:
    """Return the stems of the words of `text` that are no stopwords, in order."""
    return words_of(text).stems


@cache
def _irregular_forms(language: Language) -> Mapping[str, str]:
    """Return irregular form → lemma."""
    return {form: line[0] for line in word_list(f"irregular_{language}") for form in line[1:]}


@cache
def related_stems() -> Mapping[str, frozenset[str]]:
    """Return stem → stems that answer for it, over both languages."""
    groups = [set(line) for line in word_list("related_stems")]
    groups += [side for pair in _translations() for side in pair]
    return _join_pairs((group, group) for group in groups)


@cache
def translated_stems(language: Language) -> Mapping[str, frozenset[str]]:
    """Return stem of a word of `language` → stems that say the same in the other language.

    One direction at a time: the stem of "tomar", to take, is also that of "Tom".
    """
    pairs = _translations()
    return _join_pairs(pairs if language == "en" else ((theirs, ours) for ours, theirs in pairs))


def answering(stem: str) -> frozenset[str]:
    """Return stems that may stand for `stem`: related words and words of the other language."""
    tables = (related_stems(), translated_stems("en"), translated_stems("es"))
    return frozenset().union(*(table.get(stem, ()) for table in tables))


@cache
def _translations() -> tuple[tuple[set[str], set[str]], ...]:
    """Return the stems of each line of translations, English and Spanish.

    They are stored: to find the stems of the 6,000 words of both lists took 0.2 seconds.
    """
    sides = []
    for line in word_list("translations_stems"):
        bar = line.index("|")
        sides.append((set(line[:bar]), set(line[bar + 1 :])))
    return tuple(sides)


def _join_pairs(pairs: Iterable[tuple[set[str], set[str]]]) -> Mapping[str, frozenset[str]]:
    """Return stem of a first set → stems of its second set, over all pairs."""
    found: dict[str, set[str]] = {}
    for first, second in pairs:
        for one in first:
            found.setdefault(one, set()).update(second)
    return {one: frozenset(others - {one}) for one, others in found.items()}
