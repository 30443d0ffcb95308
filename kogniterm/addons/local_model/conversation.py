"""The kinds of input, told apart by fixed rules, and the model's own fixed sentences.

The model is too small to decide this. Talk and requests for a judgement get a fixed answer; a
question about the world in general gets prose that is marked as unverified; a question how
something is done gets a command that is not run; everything else becomes one command per part of
the request (steps.py). The sentences follow the language that the user prefers for answers, or that
of the request, like a reply of any other model, and not that of the user interface.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from kogniterm.text.language import Language, language_of, plain


@cache
def _table(name: str) -> Mapping[str, Any]:
    return tomllib.loads(Path(__file__).with_name(name).read_text("utf-8"))


def wording(name: str) -> str:
    """Return the regular expression `name` of wording.toml."""
    return "".join(_table("wording.toml")[name])


_HELLO = wording("hello")
_TALK = {
    "greeting": re.compile(rf"({_HELLO})( ({_HELLO}|there|kogniterm|a todos|today|hoy|all))*"),
    "thanks": re.compile(wording("thanks")),
    "goodbye": re.compile(wording("goodbye")),
    "abilities": re.compile(wording("abilities")),
    "identity": re.compile(wording("identity")),
}

_ADVICE = re.compile(wording("advice"))
_BEYOND = re.compile(wording("beyond"))
_CODE_WORK = re.compile(wording("code_work"))
_HOW_TO = re.compile(wording("how_to"))
_KNOWLEDGE = re.compile(wording("knowledge"))
_ASKS = re.compile(r"^(what|whats|what's|who|when|why|que|cual|quien|cuando|por que|para que)\b")
_NAMES_A_FILE = re.compile(
    r"[\w-]\.[a-z]\w{0,4}\b|(^|\s)\.[a-z]|/|\b(here|this|these|my|aqui|est[ae]s?|mis?)\b"
)
_IN_FILES = re.compile(wording("in_files"))
_LITTLE = re.compile(wording("little"))
_WANTS_OUTPUT = re.compile(wording("wants_output"))
_LEAD = re.compile(wording("lead"))
_LOOKS = re.compile(wording("looks"))


def asks_to_look(text: str) -> bool:
    """Return whether this asks to find, list, show or count something, or is a question."""
    words = _start(text)
    while (lead := _LEAD.match(words)) is not None:
        words = words[lead.end() :].lstrip("¿¡ ")
    return any(rule.match(words) for rule in (_ASKS, _WANTS_OUTPUT, _LOOKS))


def asks_for_judgement(text: str) -> bool:
    """Return whether this asks for advice ("is it safe to …?"), which no small model has."""
    return bool(_ADVICE.search(_start(text)))


def is_beyond(text: str) -> bool:
    """Return whether no command on this machine could do this: messages, orders, news, weather."""
    words = _start(text)
    return bool(_BEYOND.match(words)) and not _IN_FILES.search(words)


def is_code_work(text: str) -> bool:
    """Return whether this asks for software or for work on code, which takes a larger model."""
    return bool(_CODE_WORK.match(_start(text)))


def asks_how(text: str) -> bool:
    """Return whether this asks for a command and not for its being run ("how do I …?")."""
    return bool(_HOW_TO.match(_start(text)))


def is_knowledge_question(text: str, known: Callable[[str, Language], float]) -> bool:
    """Return whether this asks about the world, not about this machine: no command could answer it.

    `known` gives the share of a text's words that the bank has; of a question about the world
    it is little.
    """
    words = _start(text)
    if _NAMES_A_FILE.search(words):
        return False
    if _KNOWLEDGE.match(words):
        return True
    if not _ASKS.match(words):
        return False
    rest = " ".join(word for word in re.findall(r"[\w']+", words) if not _LITTLE.fullmatch(word))
    return known(rest, language_of(text)) < _HALF


_HALF = 0.5


def _start(text: str) -> str:
    return plain(text).lstrip("¿¡ ").strip()


_DO_IT = re.compile(wording("do_it"))


def says_do_it(text: str) -> bool:
    """Return whether this only says to run the command that was just shown."""
    return bool(_DO_IT.fullmatch(_fold_text(text)))


def _fold_text(text: str) -> str:
    return " ".join(re.sub(r"[^\w\s]", " ", plain(text)).split())


_GOES_ON = re.compile(wording("goes_on"))
_LONGEST_FOLLOW_UP = 8


def goes_on(text: str) -> bool:
    """Return whether a short input continues the one before it ("and in the docs folder?")."""
    words = plain(text).lstrip("¿ ").split()
    return len(words) <= _LONGEST_FOLLOW_UP and bool(_GOES_ON.match(" ".join(words)))


def small_talk(text: str, language: Language) -> str | None:
    """Return the answer to pure conversation, None if `text` is anything more than that."""
    words = _fold_text(text)
    for name, pattern in _TALK.items():
        if pattern.fullmatch(words):
            return say(name, language)
    return None


def sentences(name: str) -> Mapping[Language, str]:
    """Return the model's own sentence called `name` in each language."""
    found: Mapping[Language, str] = _table("sentences.toml")[name]
    return found


def say(name: str, language: Language, /, **values: object) -> str:
    """Return the sentence called `name`, in `language`."""
    return sentences(name)[language].format(**values)
