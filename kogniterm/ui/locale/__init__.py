"""The language of everything a person reads: English templates, Spanish by catalogue.

The English sentence is the key. `_` translates a literal, `translate` a `Text` that came from
a lower room, `plural` picks the form for a number. The language in use is the one piece of
state here; `use_language` sets it and the prompt, the screens and the errors follow at once.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from kogniterm.ui.locale.po import Catalogue, read_po

if TYPE_CHECKING:
    from kogniterm.types import Phrase

LANGUAGES = ("en", "es")


class _Current:
    """The language in use; one per process, because a process has one screen."""

    language = "en"
    catalogue: Catalogue | None = None


@cache
def catalogue(language: str) -> Catalogue | None:
    """The catalogue of `language`, or None for English and for languages there is none of."""
    file = Path(__file__).with_name(f"{language}.po")
    if language == "en" or language not in LANGUAGES:
        return None
    return read_po(file.read_text(encoding="utf-8"))


def use_language(language: str) -> None:
    """Speak `language` from now on; what is not in `LANGUAGES` reads as English."""
    _Current.language = language if language in LANGUAGES else "en"
    _Current.catalogue = catalogue(_Current.language)


def language() -> str:
    """The language in use: "en" or "es"."""
    return _Current.language


def _(message: str) -> str:
    """`message` in the language in use, or itself where the catalogue has no entry."""
    current = _Current.catalogue
    return message if current is None else current.singular.get(message, message)


def mark(message: str) -> str:
    """`message` itself: marks a sentence of a table that `_` translates when it is shown."""
    return message


def plural(one: str, many: str, count: int) -> str:
    """The form of a counted sentence for `count`, with `{count}` filled in."""
    current = _Current.catalogue
    forms = (one, many) if current is None else current.plural.get((one, many), (one, many))
    return forms[0 if count == 1 else 1].format(count=count)


def translate(text: Phrase) -> str:
    """A lower room's sentence in the language in use, with its values filled in.

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
