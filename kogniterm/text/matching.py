"""Find a text inside another one however it is written: the matcher that forgetting uses.

A text is its words. Between two of them any run of characters that are no letters and digits may
stand, as they are or escaped (JSON, backslashes, percent signs, HTML), with control sequences of
terminals; these may stand inside of a word, too. The case of letters does not matter, nor whether
accents are composed. What removes a text and what proves that it is gone both ask here.
"""

from __future__ import annotations

import base64
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, cached_property

FEWEST = 4
"""Letters and digits a text must have to be found by its words; one with fewer ("C++ !") would
stand in every other text, so it is found as it is written."""

FARTHEST = 1 << 16
"""Bytes from the first to the last word of a text that are found in a file read piece by piece."""

_SENTENCE = " \t\r\n+>.,;:!?'()-"
"""Characters between the words of plain prose."""

LEAST_ENCODED = 12
"""Characters of base64 that must agree: fewer stand by chance in any picture."""

_SLASH = r"\\{1,8}"
_ESCAPE = rf"(?:\x1b|{_SLASH}(?:u001b|x1b|033|e)|\^\[)"
_HIDDEN = "\0\x01\x02\x07\x08\x0e\x0f"
_INVISIBLE = "\xad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff"
_SEQUENCE = (
    rf"(?:{_ESCAPE}\[|\x9b|{_SLASH}u009b)[0-?]*[ -/]*[@-~]"
    rf"|{_ESCAPE}\][^\x07\x1b\\]{{0,2000}}(?:\x07|{_SLASH}(?:u0007|a)|{_ESCAPE}{_SLASH})"
    rf"|{_ESCAPE}(?:\([0-9;]*[mK]|[=>78]|[()][A-Z0-9])"
    rf"|{_SLASH}u(?:00(?:0[0-8ef]|ad)|20(?:0[b-f]|2[a-e]|6[0-4])|feff)"
    rf"|[{_INVISIBLE}]"
)
"""Text a terminal does not show: control sequences, as bytes or escaped, and invisible signs.

The block of recalled facts has colours with a round bracket, because a square one ends a label.
"""

_SIGN = r"(?:[012][0-9a-f]|3[a-f]|40|5[b-f]|60|7[b-f])"
"""The number of an ASCII character that is neither letter nor digit."""

_ESCAPED_GAP = (
    r"\\(?:[nrtbfva0]|x(?:1b|" + _SIGN + r")|[01][0-7]{2}|302\\2[0-7]{2}|342\\2[0-7]{2}\\2[0-7]{2}"
    r"|u(?:00(?:"
    + _SIGN
    + r"|[89ab][0-9a-f]|[df]7)|2[0-9a-f]{3}|30[0-3][0-9a-f]|d[89a-f]..|f[ef]..))"
    r"|%(?:" + _SIGN + r"|c2%[89ab].|e2%[89ab].%[89ab].)"
    r"|&(?:[a-z]{2,8}|#\d{1,6}|#x[0-9a-f]{1,5});"
)
_GAP = rf"(?:(?>{_SEQUENCE}|[\W_])|{_ESCAPED_GAP})+"
_STORED_GAP = (
    rf"(?:(?>{_SEQUENCE}|[^\w\x00-\x08\x0b\x0c\x0e-\x1f\x7f\udc80-\udcff]|_)|{_ESCAPED_GAP})+"
)
_INSIDE = rf"(?>{_SEQUENCE}|[{_HIDDEN}])*"
_BASE64 = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
_BASE64_OR_BLANK = bytes(ord("x" if byte in _BASE64 else " ") for byte in range(256))
_COLOUR = re.compile("\x1b\\[[0-?]*[ -/]*[@-~]")
_PLAIN_RUN = re.compile(r"[A-Za-z0-9]{2,}")
_WRITTEN_HINTS = ("\\u00", "\\u20", "\\ufeff", "\\x1b", "\\033", "\\e", "\\U00", "\\X1B", "\\E")
_HINTS = ("\x1b", *_HIDDEN)
_SHOWN = re.compile(f"[\x9b{_INVISIBLE}]")


@cache
def _piece() -> re.Pattern[str]:
    """Return a piece of a text that was found: a gap of its words, a letter, an escaped letter."""
    return re.compile(
        rf"(?P<kept>{_SEQUENCE}|[{_HIDDEN}]|{_ESCAPED_GAP})"
        r"|\\{1,8}(?:u[0-9a-f]{4}|x[0-9a-f]{2}|[0-7]{3})|%[0-9a-f]{2}|(?P<sign>[\W_])|.",
        re.IGNORECASE | re.DOTALL,
    )


@cache
def _unseen(*, stored: bool) -> re.Pattern[str]:
    return re.compile(_SEQUENCE if stored else f"{_SEQUENCE}|[{_HIDDEN}]", re.IGNORECASE)


def decoded(data: bytes) -> str:
    """Return the bytes as text; those that are not UTF-8 come back from `encoded` unchanged."""
    return data.decode("utf-8", "surrogateescape")


def encoded(text: str) -> bytes:
    """Return the bytes that `decoded` made `text` of; lone surrogates are allowed."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


class Matcher:
    """A search for any of `texts`; texts of blanks are ignored."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = tuple(dict.fromkeys(text for text in texts if text.strip()))
        self._forms = [form for text in self.texts for form in _forms(text)]

    def __bool__(self) -> bool:
        return bool(self._forms)

    def holds(self, text: str, *, stored: bool = False) -> bool:
        """Return whether one of the texts stands in `text`, or in base64 in it.

        `stored` is for the raw bytes of a database: there, control characters part what does not
        belong together.
        """
        if next(self.encoded_spans(text), None) is not None:
            return True
        views = [text, shown(text, stored=stored)] if _has_unseen(text) else [text]
        return any(
            form.pattern(stored=stored).search(view)
            for view in views
            for form in self._likely(view)
        )

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Return the spans of the texts in `text`, in order; overlapping ones are merged."""
        return _merged(found.span() for found in self._found(text))

    def byte_spans(self, data: bytes) -> list[tuple[int, int]]:
        """Return the spans of the texts in `data`, counted in bytes."""
        text = decoded(data)
        return list(_in_bytes(text, self.spans(text)))

    def encoded_byte_spans(self, data: bytes) -> list[tuple[int, int]]:
        """Return the spans of the texts in base64 in `data`, counted in bytes."""
        text = decoded(data)
        return list(_in_bytes(text, _merged(self.encoded_spans(text))))

    def replaced(self, text: str, replacement: str) -> str:
        """Return `text` with `replacement` in place of the texts."""
        parts, at = [], 0
        for start, end in self.spans(text):
            parts += [text[at:start], replacement]
            at = end
        return "".join([*parts, text[at:]]) if parts else text

    def encoded_spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the spans of the texts in base64, whatever is encoded together with them."""
        if not self._needles or not _has_run(text, min(map(len, self._needles))):
            return
        for needle in self._needles:
            at = text.find(needle)
            while at >= 0:
                yield at, at + len(needle)
                at = text.find(needle, at + len(needle))

    def _found(self, text: str) -> Iterator[re.Match[str]]:
        for form in self._likely(text):
            yield from form.pattern().finditer(text)
        if _has_unseen(text):
            view = shown(text)
            for form in self._likely(view):
                if form.pattern().search(view):
                    yield from form.laced.finditer(text)

    def _likely(self, text: str) -> list[_Form]:
        """Return the forms that a plain substring search does not rule out."""
        folded = text.lower()
        return [form for form in self._forms if all(run in folded for run in form.runs)]

    @cached_property
    def _needles(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(code for text in self.texts for code in _base64(text)))


def without_letters(text: str) -> str | None:
    """Return `text` with a dash for each byte of its letters, or None.

    None where only blanks and punctuation stand between the letters.
    """
    parts, plain = [], True
    for piece in _piece().finditer(text):
        if piece["kept"] is None and piece["sign"] is None:
            parts.append("-" * len(encoded(piece[0])))
        else:
            parts.append(piece[0])
            plain = plain and piece[0] in _SENTENCE
    return None if plain else "".join(parts)


class _Form:
    """One way to write a text: its words, or the text itself when it has too few letters."""

    def __init__(self, words: Sequence[str], *, literal: bool = False) -> None:
        self._words = tuple(words)
        self._literal = literal
        runs = {run.lower() for word in words for run in _PLAIN_RUN.findall(word)}
        self.runs = sorted(runs, key=len, reverse=True)
        """Substrings of every text that holds the words; searching them first is faster."""

    def pattern(self, *, stored: bool = False) -> re.Pattern[str]:
        """Return the pattern for a text, or for the raw bytes of a database."""
        return self._stored if stored else self._plain

    @cached_property
    def _plain(self) -> re.Pattern[str]:
        return self._compiled(_GAP, "")

    @cached_property
    def _stored(self) -> re.Pattern[str]:
        return self._compiled(_STORED_GAP, "")

    @cached_property
    def laced(self) -> re.Pattern[str]:
        """The pattern where something that is not shown stands between two letters."""
        return self._compiled(_GAP, _INSIDE)

    def _compiled(self, gap: str, inside: str) -> re.Pattern[str]:
        if self._literal:
            return re.compile(r"\s+".join(map(re.escape, self._words)), re.IGNORECASE)
        words = (inside.join(map(_letter, word)) for word in self._words)
        return re.compile(gap.join(words), re.IGNORECASE)


def shown(text: str, *, stored: bool = False) -> str:
    """Return `text` without what a terminal does not show; `stored` as for `Matcher.holds`."""
    text = _COLOUR.sub("", text)
    if not _has_unseen(text):
        return text
    return _unseen(stored=stored).sub("", text)


def _forms(text: str) -> Iterator[_Form]:
    """Yield the forms in composed characters, and as given where that differs."""
    for written in dict.fromkeys((unicodedata.normalize("NFC", text), text)):
        words = _words(shown(written))
        if sum(map(len, words)) >= FEWEST:
            yield _Form(words)
        else:
            yield _Form(written.split(), literal=True)


def _words(text: str) -> list[str]:
    """Return the runs of letters and digits, with their combining accents."""
    kept = (one if one.isalnum() or unicodedata.combining(one) else " " for one in text)
    return "".join(kept).split()


def _letter(character: str) -> str:
    """Return a pattern for one letter: itself, or any encoding of it where it is not ASCII."""
    if character.isascii():
        return character
    ways: dict[str, None] = {}
    for cased in dict.fromkeys((character, character.lower(), character.upper())):
        data = cased.encode("utf-8", "surrogatepass")
        for one in dict.fromkeys((cased, unicodedata.normalize("NFD", cased))):
            ways[re.escape(one)] = None
            ways["".join(map(_as_in_json, one))] = None
        ways["".join(rf"\\+{byte:03o}" for byte in data)] = None
        ways["".join(rf"\\+x{byte:02x}" for byte in data)] = None
        ways["".join(f"%{byte:02x}" for byte in data)] = None
        ways["".join(f"&#{ord(one)};" for one in cased)] = None
        orders = ("utf-16-le", "utf-16-be", *(["latin-1"] if max(cased) <= "\xff" else []))
        for order in orders:
            ways[re.escape(decoded(cased.encode(order, "surrogatepass")))] = None
    return f"(?:{'|'.join(ways)})"


def _as_in_json(character: str) -> str:
    """Return a pattern for a character as JSON escapes it."""
    if character.isascii():
        return re.escape(character)
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(rf"\\+u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _has_unseen(text: str) -> bool:
    if any(hint in text for hint in _HINTS):
        return True
    if "\\" in text and any(hint in text for hint in _WRITTEN_HINTS):
        return True
    if "^" in text and "^[" in text:
        return True
    return not text.isascii() and _SHOWN.search(text) is not None


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _in_bytes(text: str, spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    if text.isascii():
        yield from spans
        return
    at = size = 0
    for start, end in spans:
        first = size + len(encoded(text[at:start]))
        size = first + len(encoded(text[start:end]))
        at = end
        yield first, size


def _has_run(text: str, length: int) -> bool:
    """Return whether `length` characters of base64 stand in a row: a fast first test."""
    return b"x" * length in encoded(text).translate(_BASE64_OR_BLANK)


def _base64(text: str) -> Iterator[str]:
    """Yield the base64 of `text` that does not depend on where it begins in the encoded bytes.

    https://datatracker.ietf.org/doc/html/rfc4648#section-4: three bytes give four characters, so
    there are three ways; characters that depend on bytes around are left out.
    """
    for one in dict.fromkeys((text, text.lower())):
        data = encoded(one)
        for before in range(3):
            code = base64.b64encode(bytes(before) + data).decode()
            first = -(-before * 4 // 3)
            whole = (before + len(data)) * 8 // 6
            if whole - first >= LEAST_ENCODED:
                yield code[first:whole]
