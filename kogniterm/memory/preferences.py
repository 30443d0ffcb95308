"""The user's preferences: typed values, everywhere or in one project, and how each is followed.

A project's value wins over the one that holds everywhere. `KNOWN` has every preference: its values,
and its meaning for the user; `prompts/preferences.md` has the line by which a model follows it.
Values are plain words, so that no stored or imported value can say anything else to a model, or
name a program with arguments. Only free ones are a user's own sentence, up to a bound; a project
may have more of them under names of its own, and a model gets them quoted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from kogniterm import prompts
from kogniterm.errors import UsageError
from kogniterm.memory.fact_records import Preference, Source, may_be_recalled, quoted
from kogniterm.memory.memory_database import MemoryDatabase
from kogniterm.protocols import Clock
from kogniterm.text.language import plain, raw_words
from kogniterm.text.shorten import one_line
from kogniterm.text.spelling import closest_word
from kogniterm.types import Phrase

LANGUAGE_NAMES: Mapping[str, str] = {
    "en": "English", "es": "Spanish", "ca": "Catalan", "de": "German", "eu": "Basque",
    "fr": "French", "gl": "Galician", "it": "Italian", "ja": "Japanese", "ko": "Korean",
    "nl": "Dutch", "pl": "Polish", "pt": "Portuguese", "ru": "Russian", "uk": "Ukrainian",
    "zh": "Chinese",
}  # fmt: skip
"""Languages of answers by their ISO 639-1 codes."""

_OTHER_WORDS: Mapping[str, str] = {
    "english": "en", "ingles": "en", "spanish": "es", "espanol": "es", "castellano": "es",
    "catalan": "ca", "german": "de", "aleman": "de", "basque": "eu", "vasco": "eu",
    "euskera": "eu", "french": "fr", "frances": "fr", "galician": "gl", "gallego": "gl",
    "italian": "it", "italiano": "it", "japanese": "ja", "japones": "ja", "korean": "ko",
    "coreano": "ko", "dutch": "nl", "neerlandes": "nl", "polish": "pl", "polaco": "pl",
    "portuguese": "pt", "portugues": "pt", "russian": "ru", "ruso": "ru", "ukrainian": "uk",
    "ucraniano": "uk", "chinese": "zh", "chino": "zh",
    "brief": "short", "breve": "short", "corto": "short", "medium": "normal", "detailed": "long",
    "detallado": "long", "largo": "long", "metrico": "metric", "metricas": "metric",
    "imperiales": "imperial", "convencional": "conventional", "imperativo": "imperative",
}  # fmt: skip
"""Other words for values, without accents."""

_SWITCH = {
    "yes": True, "on": True, "true": True, "si": True,
    "no": False, "off": False, "false": False,
}  # fmt: skip


class Kind(NamedTuple):
    """A preference that can be set: one of `choices`, a text of the shape `shape`, or any line.

    `example` is such a text. The model's line is `prompts/preferences.md`'s text of this name, or
    one for each value where they are `apart`.
    """

    help: Phrase
    choices: tuple[object, ...] = ()
    apart: bool = False
    shape: str = ""
    example: str = ""

    @property
    def values(self) -> tuple[str, ...]:
        """The values that can be typed; for a text an example."""
        return tuple(map(value_text, self.choices)) or (self.example,)

    def read(self, text: str) -> object:
        """Return the value that `text` stands for; `text` itself where it stands for none."""
        words = plain(text).strip()
        if True in self.choices:
            return _SWITCH.get(words, text)
        if not self.choices:
            return " ".join(text.split())
        found = _OTHER_WORDS.get(words, words)
        return found if found in self.choices else text

    def allows(self, value: object) -> bool:
        """Return whether `value` is one of the values."""
        if self.choices:
            return type(value) is type(self.choices[0]) and value in self.choices
        if self.free:
            short = isinstance(value, str) and 0 < len(value) <= MOST_TEXT
            return short and str(value).isprintable() and may_be_recalled(str(value))
        return isinstance(value, str) and re.fullmatch(self.shape, value) is not None

    @property
    def free(self) -> bool:
        """Return whether the value is a line in the user's own words."""
        return not (self.choices or self.shape)


_WORD = r"[A-Za-z][\w.+-]{0,30}(?: [a-z][\w-]{0,20})?"
_PROGRAM = r"[A-Za-z][\w.+-]{0,30}(?: --?[\w-]{1,20}){0,4}"
_NAME = r"[^\W\d_](?:[^\W\d_]|[ '’.-]){0,39}"

KNOWN: Mapping[str, Kind] = {
    "language": Kind(Phrase("language of the answers"), tuple(LANGUAGE_NAMES)),
    "verbosity": Kind(Phrase("length of the answers"), ("short", "normal", "long"), apart=True),
    "explain_commands": Kind(
        Phrase("explain commands at approvals"), (True, False), apart=True),
    "emoji": Kind(Phrase("emoji in answers"), (True, False), apart=True),
    "units": Kind(Phrase("units of measurement"), ("metric", "imperial"), apart=True),
    "name": Kind(Phrase("what to call you"), shape=_NAME, example="Ana"),
    "editor": Kind(Phrase("editor that KogniTerm opens"), shape=_PROGRAM, example="nvim"),
    "shell": Kind(Phrase("shell in which you type commands yourself"),
                  ("bash", "zsh", "fish", "nushell", "powershell")),
    "package_manager": Kind(Phrase("package manager to use"), shape=_WORD, example="pnpm"),
    "test_runner": Kind(Phrase("tool to write and run tests with"), shape=_WORD,
                        example="pytest"),
    "commit_style": Kind(Phrase("style of commit messages"),
                         ("conventional", "imperative", "gitmoji"), apart=True),
    "code_style": Kind(Phrase("style of code"), example="four spaces"),
    "communication_style": Kind(Phrase("style of the answers"), example="formal"),
    "industry": Kind(Phrase("industry that you work in"), example="logistics"),
    "location": Kind(Phrase("town or region that you work in"), example="Valencia"),
}  # fmt: skip
"""Every preference by its name."""
OWN = Kind(Phrase("your own words"), example="snake_case")
"""A preference of one project, under a name of its own."""
MOST_TEXT = 200
"""Characters of a line in the user's own words."""
MOST_OWN = 20
"""Names of its own that a project may have."""
_OWN_NAME = re.compile(r"[a-z][a-z0-9_]{1,30}")

SAFE_EDITORS = (
    "vi", "vim", "nvim", "nano", "pico", "emacs", "emacsclient", "micro", "hx", "helix", "kak",
    "ne", "joe", "jed", "mcedit", "ed", "code", "codium", "subl", "gedit", "kate", "mate", "zed",
)  # fmt: skip
"""Editors that an import may set: another program would run with the user's texts."""


def value_text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def preference_text(one: Preference) -> str | None:
    """Return a preference as a sentence for a model; None for one that no longer exists."""
    kind = KNOWN.get(one.key, OWN)
    named = one.key in KNOWN or (one.project and _OWN_NAME.fullmatch(one.key))
    if not named or not kind.allows(one.value):
        return None
    value = value_text(one.value)
    if kind.free:
        name = one.key.replace("_", " ")
        return " ".join(prompts.text("preferences.own", about=name, value=quoted(value)).split())
    if kind.apart:
        return " ".join(prompts.text(f"preferences.{one.key}_{value}").split())
    value = LANGUAGE_NAMES[value] if one.key == "language" else value
    return " ".join(prompts.text(f"preferences.{one.key}", value=value).split())


class UserPreferences:
    """The preferences of one user, seen from one project."""

    def __init__(
        self, sql: MemoryDatabase, project: str, clock: Clock, redact: Callable[[str], str]
    ) -> None:
        self._sql = sql
        self._project = project
        self._clock = clock
        self._redact = redact

    def set(
        self,
        key: str,
        value: object,
        *,
        scope: Literal["project", "everywhere"] = "everywhere",
        source: Source = "explicit",
    ) -> Preference:
        """Store `value`, also as users type it; an inferred one never replaces an explicit one.

        Raises `UsageError` for an unknown name and for a value that it cannot have.
        """
        project = self._project if scope == "project" else ""
        name = known_name(key, own=bool(project))
        kind = KNOWN.get(name, OWN)
        if isinstance(value, str):
            clean = self._redact(value)
            value = "" if kind.free and clean != value else kind.read(clean)
        if not kind.allows(value):
            raise _refused_value(name, kind, value)
        own = {one.key for one in self.stored() if one.project == project} - {*KNOWN, name}
        if kind is OWN and len(own) >= MOST_OWN:
            raise UsageError(
                "This project has {count} preferences of its own already. Remove one first.",
                count=MOST_OWN,
            )
        with self._sql.transaction():
            known = self._stored_at(name, project)
            if known and known.source == "explicit" and source != "explicit":
                return known
            preference = Preference(name, value, project, source, self._clock.now())
            self._write(preference)
        return preference

    def take_over(self, preference: Preference) -> bool:
        """Store an imported preference and return True, unless the key has a value here.

        What cannot be set here, or names a program that is no well-known editor, is left out.
        """
        value = preference.value
        if preference_text(preference) is None or (
            preference.key == "editor" and str(value).split()[0] not in SAFE_EDITORS
        ):
            return False
        if self._stored_at(preference.key, preference.project) is not None:
            return False
        clean = self._redact(value) if isinstance(value, str) else value
        self._write(preference._replace(value=clean))
        return True

    def _stored_at(self, key: str, project: str) -> Preference | None:
        found = (one for one in self.stored() if (one.key, one.project) == (key, project))
        return next(found, None)

    def _write(self, one: Preference) -> None:
        row: dict[str, object] = {"project_id": one.project, "key": one.key}
        row |= {"value": json.dumps(one.value), "source": one.source, "updated": one.updated}
        self._sql.put("preferences", row, key=("project_id", "key"))

    def all(self) -> dict[str, Preference]:
        """Return the preferences in force here: the project's replace those for everywhere."""
        return {one.key: one for one in sorted(self.stored(), key=lambda one: one.project)}

    def stored(self) -> list[Preference]:
        """Return every preference of this scope, including overridden ones."""
        rows = self._sql.execute(
            "SELECT key, value, project_id, source, updated FROM preferences "
            "WHERE user_id = ? AND project_id IN ('', ?) ORDER BY project_id, key",
            (self._sql.user, self._project),
        )
        return [Preference(row[0], json.loads(row[1]), *row[2:]) for row in rows]

    def matching(self, text: str) -> list[Preference]:
        """Return the preferences that `text` is about, by their names, values or lines."""
        words = frozenset(raw_words(text))
        return [one for one in self.stored() if _is_about(one, words)]

    def remove(self, key: str, *, project: str | None = None) -> int:
        """Remove `key` at `project` ("": everywhere), in both scopes for None; return the count."""
        places = (project, project) if project is not None else ("", self._project)
        return self._sql.run(
            "DELETE FROM preferences WHERE user_id = ? AND project_id IN (?, ?) AND key = ?",
            (self._sql.user, *places, "_".join(raw_words(key))),
        )


def known_name(text: str, *, own: bool = False) -> str:
    """Return the name of the preference that `text` stands for. Raises `UsageError`.

    With `own` it may be a new one.
    """
    name = "_".join(raw_words(text))
    if name in KNOWN:
        return name
    if not name:
        raise UsageError("Specify the name of the preference.")
    near = closest_word(name, KNOWN)
    if near and not (own and abs(len(near) - len(name)) > 1):  # "naming" is no mistyped "name"
        raise UsageError("Unknown preference {name}. Did you mean {near}?", name=name, near=near)
    if own and _OWN_NAME.fullmatch(name):
        return name
    raise UsageError(
        "Unknown preference {name}. Use one of: {names}. For this project alone, a name of your "
        "own works too.",
        name=one_line(name, 40),
        names=", ".join(KNOWN),
    )


def _refused_value(name: str, kind: Kind, value: object) -> UsageError:
    if kind.free:
        return UsageError(
            "{name} takes one line of at most {count} characters, without secrets and personal "
            "data.",
            name=name,
            count=MOST_TEXT,
        )
    if kind.choices:
        return UsageError(
            "{name} must be one of {choices}, not {value}.",
            name=name,
            choices=", ".join(kind.values),
            value=value,
        )
    return UsageError(
        "{value} is not a value of {name}; a valid one is {example}.",
        name=name,
        value=value,
        example=kind.example,
    )


_STATES = frozenset({
    "prefer", "preference", "preferences", "preferred", "like", "answer", "answers", "reply",
    "replies", "use", "using", "always", "want", "prefiero", "preferencia", "preferencias",
    "gusta", "respuestas", "respondas", "responder", "uso", "usar", "uses", "siempre", "quiero",
})  # fmt: skip
"""Words by which a text is about a preference, and not only holds its value."""


def _is_about(one: Preference, words: frozenset[str]) -> bool:
    """Return whether `words` name the preference, or its value as that of a preference."""
    name = frozenset(raw_words(one.key.replace("_", " ")))
    if name == words - _STATES - {"my", "mi", "mis", "the", "that", "i", "que"}:
        return True
    if isinstance(one.value, bool):
        return name <= words and bool(words & _STATES)
    value = set(raw_words(str(one.value))) if one.key != "language" else set()
    same = {word for word, other in _OTHER_WORDS.items() if other == one.value}
    named = bool(value and value <= words) or bool(same & words)
    return named and bool(words & (_STATES | name))
