"""Find a text inside another one by its words: the matcher that forgetting uses.

Between two words any run of characters other than letters and digits may stand, as they are or
escaped as JSON and Python's repr do, and colour codes of terminals. The case of letters does not
matter, nor whether accents are composed. Deletion and the proof of it both use this search;
docs/memory.md lists what it cannot find.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

FEWEST = 4
"""Letters and digits a text must have to be found by its words; one with fewer ("C++ !") would
stand in every other text, so it is found as it is written."""

FARTHEST = 1 << 16
"""Bytes from the first to the last word of a text that are found in a file read piece by piece."""

BORDER = "ꙮ"
"""Put between texts that are searched as one: a letter, so that nothing is found across it, which
is in no text."""

# Recalled facts have colour codes with a round bracket, because a square one ends a label.
_COLOUR = r"(?:\x1b|\\(?:u00|x)1b)[\[(][0-?]*[ -/]*[@-~]"
_SIGN = r"(?:[012][0-9a-f]|3[a-f]|40|5[b-f]|60|7[b-f])"
"""The number of an ASCII character that is neither letter nor digit."""

_ESCAPED_SIGN = (
    rf"\\(?:[nrtbf]|(?:u00|x)(?:{_SIGN}|[89ab][0-9a-f]|[df]7)"
    r"|u(?:2[0-9a-f]{3}|30[0-3][0-9a-f]|d[89a-f]..|f[ef]..))"
)
_GAP = rf"(?:(?>{_COLOUR}|[\W_])|{_ESCAPED_SIGN})+"
_STORED_GAP = _GAP.replace(r"[\W_]", r"[^\w\x00-\x08\x0b\x0c\x0e-\x1f\x7f\udc80-\udcff]|_")
_PLAIN_RUN = re.compile(r"[A-Za-z0-9]{2,}")
_PIECE = re.compile(
    rf"(?P<kept>{_COLOUR}|{_ESCAPED_SIGN})|\\+u[0-9a-f]{{4}}|(?P<sign>[\W_])|.",
    re.IGNORECASE,
)


def decode_bytes(data: bytes) -> str:
    """Return the bytes as text; those that are not UTF-8 come back from `encode_text` unchanged."""
    return data.decode("utf-8", "surrogateescape")


def encode_text(text: str) -> bytes:
    """Return the bytes that `decode_bytes` made `text` of."""
    return text.encode("utf-8", "surrogateescape")


class Matcher:
    """A search for any of `texts`; texts of blanks are ignored."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = tuple(dict.fromkeys(text for text in texts if text.strip()))
        self._forms = [form for text in self.texts for form in _forms(text)]

    def __bool__(self) -> bool:
        return bool(self._forms)

    def holds(self, text: str, *, stored: bool = False) -> bool:
        """Return whether one of the texts stands in `text`.

        `stored` is for the raw bytes of a database: there, control characters separate values that
        do not belong together.
        """
        forms = self._likely(text)
        return any((form.stored if stored else form.plain).search(text) for form in forms)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the spans of the texts in `text`, in order; overlapping ones are merged."""
        merged: list[tuple[int, int]] = []
        found = (one.span() for form in self._likely(text) for one in form.plain.finditer(text))
        for start, end in sorted(found):
            if merged and start < merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        return merged

    def byte_spans(self, data: bytes) -> list[tuple[int, int]]:
        """Return the spans of the texts in `data`, counted in bytes."""
        text = decode_bytes(data)
        spans = self.spans(text)
        return spans if text.isascii() else list(_in_bytes(text, spans))

    def replace_texts(self, text: str, replacement: str) -> str:
        """Return `text` with `replacement` in place of the texts."""
        parts, at = [], 0
        for start, end in self.spans(text):
            parts += [text[at:start], replacement]
            at = end
        return "".join([*parts, text[at:]]) if parts else text

    def _likely(self, text: str) -> list[_SearchForm]:
        """Return the forms that a plain substring search does not rule out."""
        folded = text.lower()
        return [form for form in self._forms if all(run in folded for run in form.runs)]


def without_letters(text: str) -> str:
    """Return `text` with a dash for each byte of its letters and digits.

    Punctuation, escapes and colour codes are kept for readers of the file.
    """
    return _PIECE.sub(
        lambda one: one[0] if one["kept"] or one["sign"] else "-" * len(encode_text(one[0])), text
    )


class _SearchForm:
    """One way to write a text: its words, or the text itself when it has too few letters."""

    def __init__(self, words: Sequence[str], *, literal: bool = False) -> None:
        self._words = tuple(words)
        self._literal = literal
        runs = {run.lower() for word in words for run in _PLAIN_RUN.findall(word)}
        self.runs = sorted(runs, key=len, reverse=True)
        """Substrings of every text that holds the words; searching them first is faster."""

    @cached_property
    def plain(self) -> re.Pattern[str]:
        return self._compile_pattern(_GAP)

    @cached_property
    def stored(self) -> re.Pattern[str]:
        """The pattern for the raw bytes of a database."""
        return self._compile_pattern(_STORED_GAP)

    def _compile_pattern(self, gap: str) -> re.Pattern[str]:
        if self._literal:
            return re.compile(r"\s+".join(map(re.escape, self._words)), re.IGNORECASE)
        words = ("".join(map(_letter, word)) for word in self._words)
        return re.compile(gap.join(words), re.IGNORECASE)


def _forms(text: str) -> Iterator[_SearchForm]:
    """Yield the forms in composed characters, and as given where that differs."""
    for written in dict.fromkeys((unicodedata.normalize("NFC", text), text)):
        words = _words(re.sub(_COLOUR, " ", written))
        if sum(map(len, words)) >= FEWEST:
            yield _SearchForm(words)
        else:
            yield _SearchForm(written.split(), literal=True)


def _words(text: str) -> list[str]:
    """Return the runs of letters and digits, with their combining accents."""
    kept = (one if one.isalnum() or unicodedata.combining(one) else " " for one in text)
    return "".join(kept).split()


def _letter(character: str) -> str:
    """Return a pattern for one letter; one that is not ASCII may be decomposed or escaped."""
    if character.isascii():
        return character
    cased = (character, character.lower(), character.upper())
    ways = dict.fromkeys(way for one in cased for way in (one, unicodedata.normalize("NFD", one)))
    return f"(?:{'|'.join([*map(re.escape, ways), *map(_as_in_json, ways)])})"


def _as_in_json(text: str) -> str:
    """Return a pattern for `text` as JSON escapes it, with any number of backslashes."""
    units = text.encode("utf-16-be", "surrogatepass")
    codes = (units[at : at + 2] for at in range(0, len(units), 2))
    return "".join(
        re.escape(chr(code[1])) if code < b"\0\x80" else rf"\\+u{code.hex()}" for code in codes
    )


def _in_bytes(text: str, spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    at = size = 0
    for start, end in spans:
        first = size + len(encode_text(text[at:start]))
        size = first + len(encode_text(text[start:end]))
        at = end
        yield first, size
