"""The language of everything a user reads: English templates, Spanish by catalogue; and numbers.

The English sentence is the key. `_` translates a literal, `translate` a `Text` that came from
a lower package, `plural` picks the form for a number. The language in use is the one piece of
state here; `use_language` sets it and the prompt, the screens and the errors follow at once.

The catalogue is read from gettext's text form when its language is used: that needs no compile
step, and takes about 2 ms for a thousand entries. Understood are `msgid`, `msgid_plural`, `msgstr`,
`msgstr[0]`, `msgstr[1]`, continuation lines and comments. Fuzzy entries count as missing.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from functools import cache
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from kogniterm.text.shorten import money

if TYPE_CHECKING:
    from kogniterm.types import Phrase


LANGUAGES = ("en", "es")


class _Current:
    """The language in use; one per process, because a process has one screen."""

    language = "en"
    catalogue: Catalogue | None = None


@cache
def catalogue(language: str) -> Catalogue | None:
    """Return the catalogue of `language`, or None for English and unknown languages."""
    file = Path(__file__).with_name(f"{language}.po")
    if language == "en" or language not in LANGUAGES:
        return None
    return read_po(file.read_text(encoding="utf-8"))


def use_language(language: str) -> None:
    """Use `language` from now on; what is not in `LANGUAGES` reads as English."""
    _Current.language = language if language in LANGUAGES else "en"
    _Current.catalogue = catalogue(_Current.language)


def language() -> str:
    """Return the language in use: "en" or "es"."""
    return _Current.language


def _(message: str) -> str:
    """Return `message` in the language in use, or itself where the catalogue has no entry."""
    current = _Current.catalogue
    return message if current is None else current.singular.get(message, message)


def mark(message: str) -> str:
    """Return `message`: marks a sentence of a table that `_` translates when it is shown."""
    return message


def plural(one: str, many: str, count: int) -> str:
    """Return the form of a counted sentence for `count`, with `{count}` filled in."""
    current = _Current.catalogue
    forms = (one, many) if current is None else current.plural.get((one, many), (one, many))
    return forms[0 if count == 1 else 1].format(count=count)


def translate(text: Phrase) -> str:
    """Return a lower package's sentence in the language in use, with its values filled in.

    A value that is itself a `Text` is translated too; any other text among the values comes from
    elsewhere (a file name, an address, a model), so it stays on one row with nothing hidden. A
    translation that names a value the
    template does not have falls back to English: a wrong catalogue never hides a message.
    """
    shown = replace(text, values={name: _shown(value) for name, value in text.values.items()})
    try:
        return shown.said(_, translate)
    except (KeyError, IndexError, ValueError):
        return shown.said(str, translate)


def _shown(value: object) -> object:
    if not isinstance(value, str | PurePath) or (str(value).isascii() and str(value).isprintable()):
        return value
    from kogniterm.text.visible import render_words

    return render_words(str(value))


class Catalogue:
    """Translations by English text; plurals by the pair (one, many)."""

    def __init__(self) -> None:
        self.singular: dict[str, str] = {}
        self.plural: dict[tuple[str, str], tuple[str, str]] = {}


def read_po(text: str) -> Catalogue:
    """Parse a catalogue. Raises `ValueError` that names the line of a malformed entry."""
    result = Catalogue()
    entry: dict[str, str] = {}
    keyword, fuzzy = "", False
    for number, raw in enumerate([*text.splitlines(), ""], start=1):
        line = raw.strip()
        if not line or (entry and line.startswith(("#", "msgid "))):
            if not fuzzy:
                _store(entry, result)
            entry, keyword, fuzzy = {}, "", False
        if line.startswith("#"):
            fuzzy = fuzzy or (line.startswith("#,") and "fuzzy" in line)
        elif line.startswith('"'):
            if not keyword:
                raise ValueError(f"line {number}: text without a keyword")
            entry[keyword] += _unquote(line, number)
        elif line:
            keyword, _, quoted = line.partition(" ")
            if keyword not in ("msgid", "msgid_plural", "msgstr", "msgstr[0]", "msgstr[1]"):
                raise ValueError(f"line {number}: unknown keyword {keyword!r}")
            entry[keyword] = _unquote(quoted.strip(), number)
    return result


def _unquote(quoted: str, number: int) -> str:
    try:
        value = ast.literal_eval(quoted)
    except (SyntaxError, ValueError) as error:
        raise ValueError(f"line {number}: not a quoted string") from error
    if not isinstance(value, str):
        raise ValueError(f"line {number}: not a quoted string")
    return value


def _store(entry: dict[str, str], catalogue: Catalogue) -> None:
    english = entry.get("msgid", "")
    if not english:
        return
    if "msgid_plural" in entry:
        one, many = entry.get("msgstr[0]", ""), entry.get("msgstr[1]", "")
        if one and many:
            catalogue.plural[(english, entry["msgid_plural"])] = (one, many)
    elif entry.get("msgstr"):
        catalogue.singular[english] = entry["msgstr"]


def duration(seconds: float) -> str:
    """Return 0.4 s, 12 s, 3 min 05 s or 2 h 10 min; always short."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"


def age(seconds: float) -> str:
    """Return how long ago something was, in its largest unit: now, 5 min, 2 h, 3 d, 4 wk, 2 yr."""
    units = (
        (365 * 86_400, _("yr")),
        (14 * 86_400, _("wk")),
        (86_400, _("d")),
        (3600, _("h")),
        (60, _("min")),
    )
    for length, unit in units:
        if seconds >= length:
            count = int(seconds // (7 * 86_400 if length == 14 * 86_400 else length))
            return f"{count} {unit}"
    return _("now")


def tokens(count: int) -> str:
    """Return 950, 12.3k or 1.2M."""
    if count < 1000:
        return str(count)
    if count < 999_950:
        return f"{count / 1000:.1f}k"
    return f"{count / 1_000_000:.1f}M"


def size(count: int) -> str:
    """Return bytes in powers of 1000: 512 B, 3.4 kB, 100.0 MB."""
    if count < 1000:
        return f"{count} B"
    value = float(count)
    for unit in ("kB", "MB", "GB"):
        value /= 1000
        if value < 999.95:
            return f"{value:.1f} {unit}"
    return f"{value / 1000:.1f} TB"


def amount(name: str, value: float) -> str:
    """Return an amount of a budget in its unit: 12, 3.4k, 12 s, $0.0123."""
    if name == "seconds":
        return duration(value)
    if name == "steps":
        return str(int(value))
    if name == "dollars":
        return money(value)
    return tokens(int(value))
