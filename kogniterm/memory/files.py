"""Forgetting in plain files: prompt history, logs, command outputs, drafts.

A term is overwritten in place, with as many bytes as it had: nobody who has the file open
loses it, no offset into it moves, and no old bytes stay behind in blocks that nobody owns.
"""

from __future__ import annotations

import mmap
import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from kogniterm import database
from kogniterm.memory.forget import Purged, spellings
from kogniterm.types import Text

FORGOTTEN = b"[forgotten]"


class FilePurge:
    """Forgets in the regular files at or below `paths`; links are not followed."""

    def __init__(self, place: Text, paths: Sequence[Path]) -> None:
        self._place = place
        self._paths = tuple(paths)

    def purge(self, terms: Sequence[str]) -> Purged:
        """Overwrite every term, in any case of its letters. Raises `StorageError` kinds."""
        pattern = term_pattern(terms)
        if pattern is None:
            return Purged(self._place, 0)
        return Purged(self._place, sum(_overwrite(file, pattern) for file in self._files()))

    def _files(self) -> Iterator[Path]:
        for path in self._paths:
            candidates = sorted(path.rglob("*")) if path.is_dir() else [path]
            yield from (one for one in candidates if _is_regular(one))


def term_pattern(terms: Sequence[str]) -> re.Pattern[bytes] | None:
    """Finds any of `terms` in bytes, however it is spelt; None when there are none."""
    written = dict.fromkeys(one for term in terms for one in spellings(term))
    if not written:
        return None
    longest_first = sorted((one.encode() for one in written), key=len, reverse=True)
    return re.compile(b"|".join(map(re.escape, longest_first)), re.IGNORECASE)


def _overwrite(file: Path, pattern: re.Pattern[bytes]) -> bool:
    """Overwrite what `pattern` finds in `file`; whether there was anything."""
    with database.storage_errors(file):
        if file.stat().st_size == 0:
            return False
        with file.open("r+b") as opened, mmap.mmap(opened.fileno(), 0) as content:
            spans = [found.span() for found in pattern.finditer(content)]
            for start, end in spans:
                content[start:end] = blank(end - start)
            if spans:
                content.flush()
                os.fsync(opened.fileno())
            return bool(spans)


def blank(length: int) -> bytes:
    """What stands for a forgotten text of `length` bytes."""
    return FORGOTTEN.ljust(length) if length >= len(FORGOTTEN) else b"-" * length


def _is_regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False
