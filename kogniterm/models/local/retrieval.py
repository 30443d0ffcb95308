"""Finds the examples most like a request: BM25 over stemmed words.

Okapi BM25 with k1 = 1.2 and b = 0.75, the values usual since Robertson and Zaragoza, "The
Probabilistic Relevance Framework: BM25 and Beyond" (2009). The bank is small, so every example
is scored: no index structure beyond the word counts. Words that say what to do (count, delete,
rename, …) weigh double: an example of the right action on the wrong thing helps more than the
other way round.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from kogniterm.models.local.bank import Example
from kogniterm.models.local.language import Language, plain

_K1 = 1.2
_B = 0.75
_ACTION = "*"
_ACTION_WEIGHT = 2.0
_OTHER_ACTION = 0.5
# A word of one or two examples is mostly the name of something in them, not a kind of request:
# it must not count more than a word of this many.
_FEWEST = 4
_TOKEN = re.compile(r"\.?[a-z0-9_+]+")
_STOP_WORDS: dict[Language, str] = {
    "en": "a an the of to in on at for with .txt by is are was be do does did i me my you your "
    "it its this that these those there here and or please can could would want have has as all "
    "any",
    "es": "el la los las un una unos unas de del al a en con para .txt es son esta estan este "
    "estos estas esa ese eso y o u me mi mis tu tus se lo le les que hay aqui por favor quiero "
    "puedes como todos todas",
}
_STOP = {language: frozenset(words.split()) for language, words in _STOP_WORDS.items()}
_ENDING_LIST: dict[Language, str] = {
    "en": "ations ation ingly edly ings ing ies ied est ed es er ly s e",
    "es": "aciones iciones amente acion icion mente ando iendo adas ados idas idos ada ado ida ido "
    "arme arlo ame eme ar er ir an en as es os a e o s",
}
_ENDINGS = {language: tuple(endings.split()) for language, endings in _ENDING_LIST.items()}
_SHORTEST_STEM = 3


def stem(word: str, language: Language) -> str:
    """`word` without its most common ending: enough to join `files` and `file`, no more."""
    for ending in _ENDINGS[language]:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_STEM:
            return word[: -len(ending)]
    return word


@cache
def _classes(language: Language) -> Mapping[str, tuple[str, ...]]:
    """What each word of the synonym table counts as.

    Its class, in place of the word; on a line with a plus the class besides the word. A word
    may stand in several classes; the first counts.
    """
    table = Path(__file__).parent / "bank" / f"synonyms_{language}.txt"
    classes: dict[str, tuple[str, ...]] = {}
    for line in table.read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        mark = _ACTION if line.startswith("*") else "="
        first, *others = line.lstrip("*+").split()
        for word in others if line.startswith("+") else (first, *others):
            stemmed = stem(word, language)
            kept = (stemmed,) if line.startswith("+") else ()
            classes.setdefault(stemmed, (*kept, f"{mark}{first}"))
    return classes


def words_of(text: str, language: Language) -> list[str]:
    """What counts in `text`: stems, synonyms as one; an extension keeps its dot.

    All numbers count as the same word: which number it is says nothing about the command.
    """
    classes = _classes(language)
    words: list[str] = []
    for token in _TOKEN.findall(plain(text)):
        if token in _STOP[language]:
            continue
        if token.isdigit():
            words.append("#")
        elif token.isalpha():
            stemmed = stem(token, language)
            words.extend(classes.get(stemmed, (stemmed,)))
        else:
            words.append(token)
    return words


def _rarity(count: int, total: int) -> float:
    """BM25's weight of a word that `count` of `total` examples hold."""
    return math.log(1 + (total - min(count, total) + 0.5) / (min(count, total) + 0.5))


class Bank:
    """Examples of one language, ready to be searched."""

    def __init__(self, examples: Iterable[Example], language: Language) -> None:
        self.language = language
        self.examples: Sequence[Example] = tuple(
            example for example in examples if example.language == language
        )
        self._counts = [Counter(words_of(e.request, language)) for e in self.examples]
        lengths = [sum(counts.values()) for counts in self._counts]
        mean = sum(lengths) / len(lengths) if lengths else 1.0
        self._norms = [_K1 * (1 - _B + _B * length / (mean or 1.0)) for length in lengths]
        holding = Counter(word for counts in self._counts for word in counts)
        total = len(self.examples)
        self._weights = {
            word: _rarity(max(count, _FEWEST), total)
            * (_ACTION_WEIGHT if word.startswith(_ACTION) else 1.0)
            for word, count in holding.items()
        }

    def known(self, text: str) -> float:
        """The share of the words of `text` that some example holds; 1 of no words."""
        words = [word for word in words_of(text, self.language) if not word.startswith("=")]
        return sum(word in self._weights for word in words) / len(words) if words else 1.0

    def scores(self, request: str) -> list[float]:
        """The score of each example for `request`; halved when it is about another action."""
        words = set(words_of(request, self.language))
        actions = {word for word in words if word.startswith(_ACTION)}
        asked = words & self._weights.keys()
        scores = []
        for counts, norm in zip(self._counts, self._norms, strict=True):
            score = sum(
                self._weights[word] * counts[word] * (_K1 + 1) / (counts[word] + norm)
                for word in asked
                if counts[word]
            )
            others = {word for word in counts if word.startswith(_ACTION)}
            elsewhere = actions and others and not actions & others
            scores.append(score * _OTHER_ACTION if elsewhere else score)
        return scores

    def nearest(self, request: str, count: int) -> tuple[Example, ...]:
        """The `count` best examples, best first; of equal ones the earlier in the bank."""
        scores = self.scores(request)
        order = sorted(range(len(scores)), key=lambda index: (-scores[index], index))
        return tuple(self.examples[index] for index in order[:count])
