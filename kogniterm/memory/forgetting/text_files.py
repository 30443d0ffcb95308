"""Forgetting in plain files: prompt history, logs, command outputs, drafts.

A term is overwritten in place, with as many bytes as it had: nobody who has the file open
loses it, no offset into it moves, and no old bytes stay behind in blocks that nobody owns.
A file is read once, piece by piece: what is removed is looked at again on the spot.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from kogniterm.memory.forgetting.proof import Searched, is_regular, stamp, windows
from kogniterm.memory.forgetting.purge import Purged
from kogniterm.storage import drivers
from kogniterm.text.matching import Matcher, decoded, encoded, without_letters
from kogniterm.types import Phrase

FORGOTTEN = b"[forgotten]"
_LINE_START = re.compile(rb"(\n[+> ]?)")


class FilePurge:
    """Forgets in the regular files at or below `paths`; links are not followed."""

    def __init__(self, place: Phrase, paths: Sequence[Path]) -> None:
        self._place = place
        self._paths = tuple(paths)

    def purge(self, terms: Sequence[str]) -> Purged:
        """Overwrite every term, however it is written. Raises `StorageError` kinds."""
        matcher = Matcher(terms)
        if not matcher:
            return Purged(self._place, 0)
        removed = 0
        searched = []
        for file in self._files():
            changed, outcome = _overwrite(file, matcher)
            removed += changed
            searched.append(outcome)
        return Purged(self._place, removed, searched=tuple(searched))

    def _files(self) -> Iterator[Path]:
        for path in self._paths:
            candidates = sorted(path.rglob("*")) if path.is_dir() else [path]
            yield from (one for one in candidates if is_regular(one))


def _overwrite(path: Path, matcher: Matcher) -> tuple[bool, Searched]:
    """Overwrite what `matcher` finds in `path`; whether there was anything, and how it is now."""
    changed = holds = False
    size = 0
    with drivers.storage_errors(path):
        if path.stat().st_size == 0:
            return False, Searched(path, 0, holds=False, stamp=stamp(path))
        # Opened for writing only where there is something to write: logs may be read-only.
        with path.open("rb") as file:
            for at, window in windows(file):
                size = at + len(window)
                spans = _blanked(window, matcher)
                if spans:
                    changed = True
                    _write(path, at, window, spans)
                    holds = holds or matcher.holds(decoded(_read_back(path, at, len(window))))
        return changed, Searched(path, size, holds, stamp(path))


def _blanked(window: bytearray, matcher: Matcher) -> list[tuple[int, int]]:
    """Blank what is found in `window`, and say where."""
    spans = matcher.byte_spans(bytes(window))
    for start, end in spans:
        window[start:end] = blank(bytes(window[start:end]))
    codes = matcher.encoded_byte_spans(bytes(window))
    for start, end in codes:
        # Still base64, of zeros: whoever decodes it gets as many bytes as before.
        window[start:end] = b"A" * (end - start)
    return [*spans, *codes]


def _write(path: Path, at: int, window: bytearray, spans: Sequence[tuple[int, int]]) -> None:
    with path.open("r+b") as file:
        for start, end in spans:
            file.seek(at + start)
            file.write(window[start:end])
        file.flush()
        os.fsync(file.fileno())


def _read_back(path: Path, at: int, length: int) -> bytes:
    with path.open("rb") as file:
        file.seek(at)
        return file.read(length)


def blank(forgotten: bytes) -> bytes:
    """What stands for `forgotten`: as many bytes, as many lines, in the same encoding."""
    length = len(forgotten)
    if b"\0" in forgotten:
        return bytes(ord("-") if byte else 0 for byte in forgotten)
    text = decoded(forgotten)
    dashes = without_letters(text)
    if dashes is not None and dashes != text:
        # Quotes, escapes and control sequences go on meaning what they mean to a reader.
        return encoded(dashes)
    if b"\n" in forgotten:
        # What begins the lines of a file (the + of the prompt history) must go on doing so.
        lines = _LINE_START.split(forgotten)
        kept = b"".join(one if at % 2 else b"-" * len(one) for at, one in enumerate(lines))
        return kept if kept != forgotten else b"-" * length
    return FORGOTTEN.ljust(length) if length >= len(FORGOTTEN) else b"-" * length
