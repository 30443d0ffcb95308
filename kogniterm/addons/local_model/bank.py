"""The bank of examples, requests with the command that answers them, and the search in it.

Two tables of tab-separated lines: category, request, command, in English and Spanish. The commands
are ours, written for GNU userland and Python 3; the names in them are varied so that copying one
verbatim never helps. Beside them stand the examples learned from the user's approved commands.

The examples most like a request are found by BM25 over stemmed words, with the usual k1 = 1.2 and
b = 0.75. Words that say what to do (count, delete, rename, …) weigh double: an example of the right
action on the wrong thing helps more than the other way round. Stop words and endings are fewer than
those of prose (`text.language`): "show" and "here" say much in a request, and the examples that the
table of tasks was solved with were found with these.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kogniterm.storage.folders import write_private
from kogniterm.text.language import LANGUAGES, Language, language_of, plain, without_ending

_EXAMPLES = Path(__file__).with_name("examples")
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
    "en": "a an the of to in on at for with .txt by is are was were be do does did i me my you "
    "your it its this that these those there here and or please can could would want have has as "
    "all any",
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


@dataclass(frozen=True, slots=True)
class CommandExample:
    """A request and a command that fulfils it."""

    request: str
    command: str
    language: Language
    category: str = ""


def _read(language: Language) -> Iterator[CommandExample]:
    table = _EXAMPLES / f"examples_{language}.tsv"
    for line in table.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            category, request, command = line.split("\t")
            yield CommandExample(request, command, language, category)


@cache
def examples() -> tuple[CommandExample, ...]:
    """Return every pair of the bank; read once."""
    return tuple(example for language in LANGUAGES for example in _read(language))


def stem(word: str, language: Language) -> str:
    """Return `word` without its most common ending, which joins `files` and `file`."""
    return without_ending(word, _ENDINGS[language])


@cache
def _classes(language: Language) -> Mapping[str, tuple[str, ...]]:
    """Return the class of each word of the synonym table, which counts in place of the word.

    On a line with a plus the class counts besides the word. A word may stand in several
    classes; the first counts.
    """
    table = _EXAMPLES / f"synonyms_{language}.txt"
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
    """Return the words that count in `text`: stems, synonyms as one; an extension keeps its dot.

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


class Bank:
    """Examples of one language, ready to be searched."""

    def __init__(self, examples: Iterable[CommandExample], language: Language) -> None:
        self.language = language
        self.examples: Sequence[CommandExample] = tuple(
            example for example in examples if example.language == language
        )
        counted = [Counter(words_of(example.request, language)) for example in self.examples]
        self._actions = [_actions(counts) for counts in counted]
        average = sum(counts.total() for counts in counted) / max(len(counted), 1) or 1.0
        self._impacts: defaultdict[str, dict[int, float]] = defaultdict(dict)
        for number, counts in enumerate(counted):
            slope = _K1 * (1 - _B + _B * counts.total() / average)
            for word, count in counts.items():
                self._impacts[word][number] = count * (_K1 + 1) / (count + slope)

    def known_share(self, text: str) -> float:
        """Return the share of the words of `text` that some example holds; 1 of no words."""
        words = [word for word in words_of(text, self.language) if not word.startswith("=")]
        return sum(word in self._impacts for word in words) / len(words) if words else 1.0

    def scores(self, request: str) -> list[float]:
        """Return the score of each example; halved when it is about another action."""
        words = dict.fromkeys(words_of(request, self.language))
        scores = [0.0] * len(self.examples)
        for word in filter(self._impacts.__contains__, words):
            impacts = self._impacts[word]
            holding = min(max(len(impacts), _FEWEST), len(scores))
            weight = math.log(1 + (len(scores) - holding + 0.5) / (holding + 0.5))
            for number, impact in impacts.items():
                scores[number] += weight * impact * (_ACTION_WEIGHT if word[0] == _ACTION else 1.0)
        actions = _actions(words)
        for number, others in enumerate(self._actions):
            if actions and others and not actions & others:
                scores[number] *= _OTHER_ACTION
        return scores

    def nearest(self, request: str, count: int) -> tuple[CommandExample, ...]:
        """Return the `count` best examples, best first; of equal ones the earlier in the bank."""
        scores = self.scores(request)
        order = sorted(range(len(scores)), key=lambda index: (-scores[index], index))
        return tuple(self.examples[index] for index in order[:count])


def _actions(words: Iterable[str]) -> set[str]:
    return {word for word in words if word.startswith(_ACTION)}


MOST = 300
MAX_REQUEST = 300
MAX_COMMAND = 500


@dataclass(frozen=True, slots=True)
class LearnedExamples:
    """The examples in `file`; what in it cannot be read is passed over."""

    file: Path

    def load(self) -> tuple[CommandExample, ...]:
        """Every example, oldest first."""
        try:
            lines = self.file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            return ()
        return tuple(example for line in lines if (example := _example(line)) is not None)

    def add(self, request: str, command: str) -> bool:
        """Keep a pair, in place of an earlier one for the same request; return whether it was kept.

        Raises `OSError`. A pair that spans lines or is long teaches the model nothing and
        is left out.
        """
        request, command = " ".join(request.split()), command.strip()
        if not request or len(request) > MAX_REQUEST:
            return False
        if not command or "\n" in command or len(command) > MAX_COMMAND:
            return False
        kept = [one for one in self.load() if one.request.casefold() != request.casefold()]
        kept.append(CommandExample(request, command, language_of(request)))
        write_private(self.file, "".join(map(_line, kept[-MOST:])).encode())
        return True


def _line(example: CommandExample) -> str:
    pair = {"request": example.request, "command": example.command}
    return json.dumps(pair, ensure_ascii=False) + "\n"


def _example(line: str) -> CommandExample | None:
    try:
        data = json.loads(line)
        request, command = data["request"], data["command"]
    except (ValueError, TypeError, KeyError):
        return None
    if not isinstance(request, str) or not isinstance(command, str):
        return None
    return CommandExample(request, command, language_of(request))
