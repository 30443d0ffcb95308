"""Remove secrets from text before it is kept or sent: by shape, by context, and by known value.

Redaction is no boundary (reading secrets is asked about before it happens); it keeps what
slipped through out of the journal, memory, logs and model input.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from kogniterm.text.secret_patterns import (
    CONTEXTS,
    HOT,
    KEY_OR_PASSWORD,
    NAME_REVERSED,
    NOT_SECRET,
    OPERATOR,
    PLACEHOLDER,
    SPOKEN_WORDS,
    STRONG,
    SURE,
    VALUE_AFTER,
    VENDOR_DIGITS,
    VENDOR_WORDS,
    WEAK,
    context_pattern,
    identity_numbers,
    is_written,
    spoken_secrets,
    vendor_tokens,
)

_PLAIN_NAME = re.compile(r"[A-Za-z_]+")
_CODE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+(?<!\d\d)|.*[()\[\]{}].*|[A-Za-z_]\w*::.*|&\w+")
_PATH = re.compile(
    r"(?:~|\.{1,2})?/[\w./~-]*|[\w./-]+\.(?:pem|key|txt|json|ya?ml|env|crt|py|js|ts)"
)
_NUMBER = re.compile(r"[+-]?[\d.,:_-]+(?:ms|s|m|h|d|kb|mb|gb|%)?", re.IGNORECASE)
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_NUMBERED = re.compile(r"\$SECRET_[0-9]+")
_MARK = re.compile(r"\[secret:(?:[a-z2-7]{4}-)?\d+\]")
_ANY_MARK = re.compile(rf"\[secret\]|{_MARK.pattern}|\[redacted:\w+\]")
_RUN = re.compile(r"[\w+/=.,:@%^#-]+")
"""Characters that end no word, expand to nothing and separate no commands, quoted or not."""
_KEY_LINE = re.compile(r"[A-Za-z0-9+/=]{16,}")
_MIN_KNOWN = 6
_LONGEST_KEY = 21_000
_KEY_END = re.compile(
    r"(?:\\r)?(?:\\n|\r?\n)-{4,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
)
_KEY_LINES_REVERSED = re.compile(
    r"(?=[A-Za-z0-9+/=\\\r\n]*[A-Za-z0-9+/]{16})"
    r"(?:(?:\n\r?|n\\(?:r\\)?)?(?!n\\)[A-Za-z0-9+/=])+"
)
_ARN_REVERSED = re.compile(r"[\w:/-]{0,90}:nra\b")
_LONGEST_PLACEHOLDER = 200
_REMEMBERED = 2_000
"""Characters up to which the secrets in a text are remembered."""
_SPARSE = 120
"""Characters to a word from which on lines are searched one by one."""


class Secret(NamedTuple):
    """A secret found in a text: where it is and what kind it seems to be."""

    start: int
    end: int
    kind: str


def entropy(value: str) -> float:
    """Return the Shannon entropy of the characters of `value`, in bits a character."""
    size = len(value)
    return -sum(n / size * math.log2(n / size) for n in Counter(value).values()) if size else 0.0


def _is_worded(value: str) -> bool:
    """Return whether `value` is letters whose capitals begin words, as in the name of a type."""
    switches = sum(a.isupper() != b.isupper() for a, b in pairwise(value))
    return value.isalpha() and switches * 3 < len(value)


def _looks_random(value: str) -> bool:
    """Return whether `value` reads like a generated token, not a word, number, path or id."""
    if len(value) < 12 or _UUID.fullmatch(value) or _PATH.fullmatch(value):
        return False
    if _is_worded(value) and not (value.islower() or value.isupper()):
        return False
    if not any(c.isdigit() for c in value) and (value.islower() or value.isupper()):
        return len(value) >= 20 and entropy(value) > 3.6 and "_" not in value and "-" not in value
    return entropy(value) >= (2.8 if len(value) < 20 else 3.0)


def _stands_for_one(value: str) -> bool:
    """Return whether `value` is a placeholder, judged by as much as a user would write."""
    return bool(PLACEHOLDER.match(value[:_LONGEST_PLACEHOLDER]))


def _is_secret_value(name: str, value: str, *, quoted: bool, spaced: bool) -> bool:
    """Return whether an assigned value is worth hiding, given its name and how it is written."""
    if NOT_SECRET.search(name) or value.lower() == name.lower() or _stands_for_one(value):
        return False
    if _NUMBER.fullmatch(value) and len(value) < 12:
        return False
    if not quoted and (_CODE.fullmatch(value) or _PATH.fullmatch(value)):
        return False
    if STRONG.search(name):
        if _PATH.fullmatch(value) or (_UUID.fullmatch(value) and not quoted):
            return bool(_UUID.fullmatch(value))
        if quoted:
            return len(value) >= 4 and (
                " " not in value or len(value.split()) > 3 or len(value) < 20
            )
        if spaced and _PLAIN_NAME.fullmatch(value):
            plain = value.islower() or not _is_worded(value)
            return len(value) >= 12 and "_" not in value and plain
        return len(value) >= (5 if spaced else 4)
    if KEY_OR_PASSWORD.search(name):
        return is_written(value)
    if _UUID.fullmatch(value):
        # Tokens of several services are UUIDs; other values are seldom called TOKEN in capitals.
        return name.isupper() and name.endswith("_TOKEN")
    return bool(WEAK.search(name)) and " " not in value and _looks_random(value)


def _find_assigned(text: str) -> Iterator[Secret]:
    """Yield values given to secret names: `NAME=value`, `name: value`, `"name": "value"`.

    Works from each operator backwards to the name: operators are rare, names are not.
    """
    end = 0
    for operator in OPERATOR.finditer(text):
        # An operator inside a value already hidden is part of that value.
        if operator[0] == "==" or operator.start() < end:
            continue
        before = text[max(0, operator.start() - 100) : operator.start()][::-1]
        if _ARN_REVERSED.match(before):
            continue
        reversed_name = NAME_REVERSED.match(before)
        if reversed_name is None:
            continue
        name = reversed_name["eman"][::-1]
        value = VALUE_AFTER.match(text, operator.end()) if HOT.search(name) else None
        if value is None or value["after"]:
            continue
        group = "open" if value["quoted"] is None else "quoted"
        spaced = before[:1] == " " or value.start(group) != operator.end()
        if _is_secret_value(name, value[group], quoted=group == "quoted", spaced=spaced):
            end = value.end(group)
            yield Secret(value.start(group), end, "value")


def find_secrets(text: str) -> tuple[Secret, ...]:
    """Return the secrets in `text`, in order, not overlapping; takes under 1 ms a kB."""
    return _found_before(text) if len(text) <= _REMEMBERED else _found(text)


@lru_cache(maxsize=256)
def _found_before(text: str) -> tuple[Secret, ...]:
    """Remember what was found: a step of a session redacts the same command a dozen times."""
    return _found(text)


def _found(text: str) -> tuple[Secret, ...]:
    found = list(_vendor_tokens(text))
    lowered = text.lower()
    for kind, words, pattern in CONTEXTS:
        if not any(map(lowered.__contains__, words)):
            continue
        for start, end in _stretches(
            lowered, words, _LONGEST_KEY if kind.startswith("private_key") else 0
        ):
            for match in context_pattern(pattern).finditer(text, start, end):
                if kind in SURE or not _stands_for_one(match["s"]):
                    found.append(Secret(match.start("s"), match.end("s"), kind))
    for start, end in _stretches(lowered, SPOKEN_WORDS, 0):
        for first, last in spoken_secrets(text, start, end):
            if not _stands_for_one(text[first:last]):
                found.append(Secret(first, last, "said_password"))
    found.extend(_cut_keys(text, lowered))
    found.extend(_find_assigned(text))
    found.extend(Secret(*number) for number in identity_numbers(text))
    return _without_overlaps(found)


def _cut_keys(text: str, lowered: str) -> Iterator[Secret]:
    """Yield the rest of private keys whose first lines were cut off with other output."""
    if "private key" not in lowered:
        return
    for end in _KEY_END.finditer(text):
        before = text[max(0, end.start() - _LONGEST_KEY) : end.start()][::-1]
        lines = _KEY_LINES_REVERSED.match(before)
        if lines is not None:
            yield Secret(end.start() - lines.end(), end.end(), "private_key")


def _vendor_tokens(text: str) -> Iterator[Secret]:
    for starts in (VENDOR_WORDS, VENDOR_DIGITS):
        end = 0
        for start in starts.finditer(text):
            at = start.start()
            if at < end:
                continue
            for kind, pattern in vendor_tokens(start[0] if starts is VENDOR_WORDS else ""):
                token = pattern.match(text, at)
                if token is not None:
                    end = token.end()
                    yield Secret(at, end, kind)
                    break


def _stretches(lowered: str, words: tuple[str, ...], beyond: int) -> Iterator[tuple[int, int]]:
    """Return the lines that hold one of `words`, and `beyond` characters after each; in order.

    A word in every other line makes one stretch of it all: then one search is the cheapest.
    """
    if sum(lowered.count(word) for word in words) * _SPARSE > len(lowered):
        yield 0, len(lowered)
        return
    places: list[int] = []
    for word in words:
        at = lowered.find(word)
        while at >= 0:
            places.append(at)
            at = lowered.find(word, at + 1)
    done = 0
    for place in sorted(places):
        if place < done:
            continue
        start = max(done, lowered.rfind("\n", 0, place) + 1)
        line = lowered.find("\n", place)
        done = min(len(lowered), (len(lowered) if line < 0 else line) + beyond)
        yield start, done


def _without_overlaps(found: list[Secret]) -> tuple[Secret, ...]:
    kept: list[Secret] = []
    for secret in sorted(found, key=lambda item: (item.start, -item.end)):
        if kept and secret.start < kept[-1].end:
            last = kept[-1]
            kept[-1] = Secret(last.start, max(last.end, secret.end), last.kind)
        else:
            kept.append(secret)
    return tuple(kept)


def holds_mark(text: str) -> bool:
    """Return whether a secret was taken out of `text`, or made a variable."""
    return _ANY_MARK.search(text) is not None or _NUMBERED.search(text) is not None


def without_numbers(text: str) -> str:
    """Return `text` with `[secret]` for each numbered secret, to compare two processes'."""
    return _NUMBERED.sub("[secret]", _MARK.sub("[secret]", text))


def session_label(session_id: str) -> str:
    """Return the four characters that the placeholders of a session carry.

    No text from elsewhere can hold a placeholder by chance, or be written so as to hold one.
    """
    digest = hashlib.sha256(session_id.encode()).digest()
    return base64.b32encode(digest)[:4].decode().lower()


def labels_in(texts: Iterable[str]) -> frozenset[str]:
    """Return the labels of all placeholders in `texts`."""
    return frozenset(one[8:12] for text in texts for one in _MARK.findall(text) if "-" in one)


def redact(text: str) -> str:
    """Return `text` with every secret replaced by `[redacted:kind]`; twice changes no more."""
    while found := find_unmarked(text):
        text = replace_secrets(text, found, lambda secret: f"[redacted:{secret.kind}]")
    return text


def find_unmarked(text: str, known: re.Pattern[str] | None = None) -> tuple[Secret, ...]:
    """Return the secrets in `text`, with matches of `known`, that reach into no placeholder."""
    marks = [one.span() for one in _ANY_MARK.finditer(text)]
    found = list(find_secrets(text))
    if known is not None:
        found += [Secret(*one.span(), "known") for one in known.finditer(text)]
    if marks:
        found = [
            one for one in found
            if not any(one.start < end and start < one.end for start, end in marks)
        ]  # fmt: skip
    return _without_overlaps(found) if known is not None else tuple(found)


def _runs(text: str, secrets: Iterable[Secret]) -> list[Secret]:
    """Return the secrets that are runs of plain characters; of a private key, its lines."""
    found: list[Secret] = []
    for one in secrets:
        if _RUN.fullmatch(text, one.start, one.end):
            found.append(one)
        elif _KEY_LINE.search(text, one.start, one.end) and one.kind in ("private_key", "known"):
            lines = _KEY_LINE.finditer(text, one.start, one.end)
            found += [Secret(*line.span(), "private_key") for line in lines]
    return found


def find_runs(text: str) -> list[Secret]:
    """Return the secrets in `text` that a placeholder may cover in what a program acts on."""
    return _runs(text, find_unmarked(text))


def replace_secrets(text: str, secrets: Iterable[Secret], mark: Callable[[Secret], str]) -> str:
    """Return `text` with `mark(secret)` in the place of each secret; they are in order."""
    pieces: list[str] = []
    position = 0
    for secret in secrets:
        pieces += [text[position : secret.start], mark(secret)]
        position = secret.end
    return "".join([*pieces, text[position:]])


def replace_values(text: str, values: Iterable[str], mark: Callable[[str], str]) -> str:
    """Return `text` with `mark(value)` wherever one of `values` stands, but inside placeholders."""
    wanted = "|".join(map(re.escape, sorted(values, key=len, reverse=True)))
    either = re.compile(f"(?P<mark>{_ANY_MARK.pattern})|{wanted}") if wanted else None
    return text if either is None else either.sub(lambda one: one["mark"] or mark(one[0]), text)


class Redactor:
    """Redaction that knows the secrets of this process: they live in memory only, never on disk.

    `known_values` are values known to be secret whatever they look like (the API keys in use).
    The same secret gets the same placeholder `[secret:label-n]` for the life of the redactor; with
    the `label` of the session no other text has the form of one. Numbers up to `after` are left
    out: they stand for secrets of an earlier process, and must never get another value. `others`
    are labels of placeholders that came from another session, whose history this one continues.
    `highest` is the highest number that a text has got.

    A placeholder is never turned back into its value, with one exception: `carry` keeps a value
    in the file where it was read.
    """

    def __init__(
        self,
        known_values: Iterable[str] = (),
        *,
        label: str = "",
        after: int = 0,
        others: Iterable[str] = (),
    ) -> None:
        self._label = f"{label}-" if label else ""
        labels = "|".join(map(re.escape, sorted({label, *others})))
        self._own = re.compile(rf"\[secret:(?:{labels})-?\d+\]")
        self._after = after
        self._numbers: dict[str, int] = {}
        self._known: re.Pattern[str] | None = None
        self._given: re.Pattern[str] | None = None
        self._told: list[str] = []
        self.highest = after
        self.know(known_values)

    @property
    def known(self) -> int:
        return len(self._numbers)

    @property
    def values(self) -> list[str]:
        """Return the known secrets of at least 6 characters, in the order of their discovery."""
        return [value for value in [*self._numbers] if len(value) >= _MIN_KNOWN]

    def know(self, values: Iterable[str]) -> None:
        """Treat `values` as secret from now on; shorter than 6 characters are ignored."""
        for value in values:
            if len(value) >= _MIN_KNOWN:
                self._number(value)
                self._told.append(value)
        self._given = _any_of(self._told)
        self._compile()

    def redact(self, text: str) -> str:
        """Return `text` with each secret replaced by its placeholder.

        A value that was found once is replaced wherever it stands, so the search begins again until
        it finds nothing: a second call changes nothing more.
        """
        while found := find_unmarked(text, self._known):
            text = self._mark_secrets(text, found)
        return text

    def redact_runs(self, text: str) -> str:
        """Return `text` with a placeholder for each secret that is a run of plain characters.

        For what the model wrote and a program may act on: nothing that has a meaning is covered.
        """
        while found := _runs(text, find_unmarked(text, self._known)):
            text = self._mark_secrets(text, found)
        return text

    def values_in(self, text: str) -> tuple[str, ...]:
        """Return the secrets in `text` that are runs of plain characters, each once.

        A value that was only found in some other text is none: whoever wrote that text would
        choose what is hidden here.
        """
        found = _runs(text, find_unmarked(text, self._given))
        return tuple({text[one.start : one.end]: None for one in found})

    def mark(self, text: str, values: Sequence[str]) -> str:
        shown = replace_values(text, values, self._mark)
        self._compile()
        return shown

    def placeholder(self, text: str) -> str:
        found = self._own.search(text) if "[secret:" in text else None
        return found[0] if found is not None else ""

    def carry(self, old: str, new: str) -> tuple[str, str] | None:
        """Return both sides of an edit with the values of their placeholders.

        Each has to stand in `new` as often and in the same order as in `old`, with the same text
        before it on its line, so that a value stays where it was read. None where one does not, or
        where its value is not known any more.
        """
        if _places(self._own, old) != _places(self._own, new):
            return None
        values = {self._placeholder(number): value for value, number in self._numbers.items()}
        if any(one not in values for one in self._own.findall(old)):
            return None
        filled = (self._own.sub(lambda one: values[one[0]], side) for side in (old, new))
        return next(filled), next(filled)

    def _mark_secrets(self, text: str, secrets: Iterable[Secret]) -> str:
        shown = replace_secrets(text, secrets, lambda one: self._mark(text[one.start : one.end]))
        self._compile()
        return shown

    def _number(self, value: str) -> int:
        return self._numbers.setdefault(value, self._after + len(self._numbers) + 1)

    def _mark(self, value: str) -> str:
        number = self._number(value)
        self.highest = max(self.highest, number)
        return self._placeholder(number)

    def _placeholder(self, number: int) -> str:
        return f"[secret:{self._label}{number}]"

    def _compile(self) -> None:
        self._known = _any_of(self.values)


def _any_of(values: Iterable[str]) -> re.Pattern[str] | None:
    """Return a pattern of `values`: one that contains another is found whole."""
    found = [re.escape(value) for value in sorted(values, key=len, reverse=True)]
    return re.compile("|".join(found)) if found else None


def _places(placeholder: re.Pattern[str], text: str) -> list[tuple[str, str]]:
    """Return each placeholder in `text` with what stands before it on its line."""
    return [
        (one[0], text[text.rfind("\n", 0, one.start()) + 1 : one.start()])
        for one in placeholder.finditer(text)
    ]
