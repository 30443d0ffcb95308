"""Forget words in plain files, and search raw bytes for the proof that they are gone.

Prompt history, logs, command outputs and drafts are cleaned in place: a term is overwritten with as
many bytes as it had, so that a process that has the file open loses nothing, no offset moves, and
no old bytes stay behind in freed blocks. A file is read once, piece by piece; a piece that was
changed is searched again at once.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from kogniterm.host.safe_files import resolve_path
from kogniterm.host.walk import walk_folder
from kogniterm.storage import drivers
from kogniterm.text.matching import FARTHEST, Matcher, decode_bytes, encode_text, without_letters
from kogniterm.types import Phrase

CHUNK = 1 << 20
"""Bytes of a file that are searched together; with `FARTHEST` the most that is in memory."""

_BESIDE = ("-wal", "-shm", "-journal")


class Searched(NamedTuple):
    """A file that was read: its size in bytes, and whether it holds one of the terms.

    `stamp` shows whether it was changed since.
    """

    path: Path
    size: int
    holds: bool
    stamp: tuple[int, int, int] = (0, 0, 0)


class TextMention(NamedTuple):
    """A line of a file, counted from 1, that holds what is to be forgotten."""

    path: Path
    line: int


class Purged(NamedTuple):
    """The result of one store: the number of removed or blanked records, and what is out of reach.

    `untouched` are mentions in the user's own files; `files` are those outside of our folders that
    were cleaned, for the proof to read; `searched` are those it need not read again.
    """

    place: Phrase
    removed: int
    unreachable: tuple[Phrase, ...] = ()
    untouched: tuple[TextMention, ...] = ()
    files: tuple[Path, ...] = ()
    searched: tuple[Searched, ...] = ()


class Forgettable(Protocol):
    """A store that can forget. Each package hands in its own."""

    def purge(self, terms: Sequence[str]) -> Purged:
        """Remove or blank everything that holds one of `terms`, literally, in any case."""


def scan(
    paths: Iterable[Path], matcher: Matcher, known: Iterable[Searched] = ()
) -> tuple[int, int, tuple[Path, ...]]:
    """Read every regular file at or below `paths`; (files, bytes, files that hold a term).

    Those of `known` that were not changed since are not read again.
    """
    if not matcher:
        return 0, 0, ()
    before = {one.path: one for one in known}
    files = read = 0
    found: list[Path] = []
    # SQLite's files beside a database belong to it.
    whole = (path.with_name(path.name + ending) for path in paths for ending in ("", *_BESIDE))
    for file in dict.fromkeys(file for path in whole for file in _files(path)):
        searched = before.get(file)
        if searched is None or searched.stamp != stamp(file):
            searched = _search_file(file, matcher)
        files += 1
        read += searched.size
        if searched.holds:
            found.append(file)
    return files, read, tuple(found)


def windows(file: BinaryIO) -> Iterator[tuple[int, bytearray]]:
    """Yield the content of `file` in overlapping pieces, each with the offset of its begin.

    Changes to a piece are kept in the part that the next one repeats.
    """
    at, tail = 0, bytearray()
    while chunk := file.read(CHUNK):
        window = tail + chunk
        yield at, window
        kept = min(FARTHEST, len(window))
        at += len(window) - kept
        tail = window[len(window) - kept :]


def stamp(path: Path) -> tuple[int, int, int]:
    """Return values that change when a file is written or replaced."""
    info = path.stat()
    return info.st_ino, info.st_size, info.st_mtime_ns


def is_regular(path: Path) -> bool:
    """Return whether `path` itself is a regular file: no link, pipe, socket or device."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _files(path: Path) -> Iterator[Path]:
    """Yield `path`, or the regular files below it. Raises `StorageError` kinds."""

    def refuse(folder: str, error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):  # it may go at any time
            with drivers.storage_errors(path / folder):
                raise error

    if path.is_dir():
        yield from (
            path / one.path for one in walk_folder(resolve_path(path), refuse) if one.is_file
        )
    elif is_regular(path):
        yield path


def _search_file(path: Path, matcher: Matcher) -> Searched:
    size = 0
    is_database = path.name.endswith((".db", *_BESIDE))
    with drivers.raw_bytes(path) if is_database else path.open("rb") as file:
        for at, window in windows(file):
            size = at + len(window)
            if matcher.holds(decode_bytes(bytes(window)), stored=is_database):
                return Searched(path, size, holds=True)
    return Searched(path, size, holds=False)


FORGOTTEN = b"[forgotten]"
_PROSE = re.compile(rb"[ \t.,;:!?'()-]+")


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
        for file in (file for path in self._paths for file in _files(path)):
            changed, outcome = _overwrite(file, matcher)
            removed += changed
            searched.append(outcome)
        return Purged(self._place, removed, searched=tuple(searched))


def _overwrite(path: Path, matcher: Matcher) -> tuple[bool, Searched]:
    """Overwrite the matches in `path`; returns whether there were any, and its state now."""
    changed = holds = False
    size = 0
    with drivers.storage_errors(path):
        if path.stat().st_size == 0:
            return False, Searched(path, 0, holds=False, stamp=stamp(path))
        # Opened for writing only where there is something to write: logs may be read-only.
        with path.open("rb") as file:
            for at, window in windows(file):
                size = at + len(window)
                if spans := matcher.byte_spans(bytes(window)):
                    changed = True
                    for start, end in spans:
                        window[start:end] = blank(bytes(window[start:end]))
                    with path.open("r+b") as target:
                        for start, end in spans:
                            target.seek(at + start)
                            target.write(window[start:end])
                        target.flush()
                        os.fsync(target.fileno())
                    with path.open("rb") as again:
                        again.seek(at)
                        written = again.read(len(window))
                    holds = holds or matcher.holds(decode_bytes(written))
        return changed, Searched(path, size, holds, stamp(path))


def blank(forgotten: bytes) -> bytes:
    """Return a replacement of as many bytes and lines as `forgotten`."""
    length = len(forgotten)
    dashes = encode_text(without_letters(decode_bytes(forgotten)))
    if length >= len(FORGOTTEN) and _PROSE.fullmatch(dashes):
        return FORGOTTEN.ljust(length)
    return dashes if dashes != forgotten else b"-" * length
