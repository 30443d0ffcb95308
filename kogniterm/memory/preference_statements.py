"""Typed preferences in the user's words: "answer briefly from now on", "no emojis".

Fixed frames (`preference_frames.toml`) recognise them, without a model. A sentence counts when it
says nothing else, and either that it is for later ("always", "from now on", "I prefer") or it is of
a form that is hardly a task and no sentence beside it is one. Questions, quoted, fenced and pasted
text, and what concerns the task at hand set nothing: it is better to miss one than to set a wrong
one.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from kogniterm.memory import statements
from kogniterm.memory.preferences import KNOWN
from kogniterm.text.language import fold_case

LONGEST = 160
"""Characters of a sentence that can state a preference."""
_SENTENCE = re.compile(r"(?:[^.!?;…]|[.](?=\S))+[.!?;…]*")
_QUOTES = re.compile(r"[\"“”«»`‘]")
_LIST = re.compile(r"\s*(?:[-*•]|\d{1,2}[.)])\s")


class Stated(NamedTuple):
    """A preference that a `sentence` of the user states; `scope` where it holds."""

    name: str
    value: object
    scope: Literal["project", "everywhere"]
    sentence: str


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("preference_frames.toml").read_text("utf-8"))


@cache
def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"@(\w+)@", _alternatives_of, text))


def _alternatives_of(name: re.Match[str]) -> str:
    words: str = _table()["words"][name[1]]
    return f"(?:{'|'.join(words.strip().splitlines())})"


def preferences_in(text: str) -> list[Stated]:
    """Return the preferences that the user's message `text` states, in order."""
    own = statements.own_words(text).strip()
    if not own or len(own) > statements.LONGEST_MESSAGE:
        return []
    first, _end, rest = own.partition("\n")
    sentences = [one[0].strip() for one in _SENTENCE.finditer(first) if one[0].strip()]
    found = [_find_preferences(one) for one in sentences]
    # Beside a task, a sentence without "always" is about the task.
    whole = not rest.strip() and all(found)
    return [one for one, standing in filter(None, found) if standing or whole]


def without_preferences(text: str) -> str:
    """Return `text` without the sentences that state a preference, which are kept as such."""
    for one in preferences_in(text):
        text = text.replace(one.sentence, "", 1)
    return text.strip()


def _find_preferences(sentence: str) -> tuple[Stated, bool] | None:
    """Return the preferences in a sentence, and whether it says that they are for later."""
    if len(sentence) > LONGEST or _QUOTES.search(sentence) or _LIST.match(sentence):
        return None
    if sentence.endswith("?") or "¿" in sentence:
        return None
    kept = sentence.rstrip(" .!;…")
    said = fold_case(kept).replace("’", "'")
    if ":" in said:
        return None
    said, kept, standing, scope = _without_marks(said, kept)
    for frame in _frames():
        if not (standing or frame.alone):
            continue
        match = _pattern(frame.pattern).fullmatch(said)
        if match is None:
            continue
        value = frame.value
        if not value:
            name = next(name for name, text in match.groupdict().items() if text is not None)
            # As it was written where the case counts.
            value = kept[match.start(name) : match.end(name)] if frame.cased else match[name]
        if frame.cased and not value[0].isupper():
            continue
        kind = KNOWN[frame.name]
        read = kind.read(value)
        if kind.allows(read):
            return Stated(frame.name, read, scope, sentence), standing
    return None


def _without_marks(said: str, kept: str) -> tuple[str, str, bool, Literal["project", "everywhere"]]:
    """Take what says when and where out of a sentence; `said` and `kept` stay of one length."""
    patterns = _table()["patterns"]
    scope: Literal["project", "everywhere"] = "everywhere"
    standing = False
    while (opening := _pattern(patterns["opening"]).match(said)) and opening.end():
        said, kept = said[opening.end() :], kept[opening.end() :]
    for name in ("closing", "here", "everywhere", "standing"):
        while (mark := _pattern(patterns[name]).search(said)) is not None:
            said, kept = (f"{one[: mark.start()]} {one[mark.end() :]}" for one in (said, kept))
            blank = len(said) - len(said.lstrip())
            said, kept = said[blank:].rstrip(), kept[blank:].rstrip()
            standing = standing or name == "standing"
            scope = "project" if name == "here" else scope
    if prefers := _pattern(patterns["prefer"]).match(said):
        said, kept, standing = said[prefers.end() :], kept[prefers.end() :], True
    return said.strip(), kept.strip(), standing, scope


class _Frame(NamedTuple):
    """A form of sentence; `alone` ones need no word like "always"."""

    name: str
    pattern: str
    value: str = ""
    alone: bool = False
    cased: bool = False


@cache
def _frames() -> tuple[_Frame, ...]:
    return tuple(_Frame(**row) for row in _table()["frames"])
