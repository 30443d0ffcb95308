"""Forgetting in plain files: prompt history, logs, command outputs, drafts.

A term is overwritten in place, with as many bytes as it had: nobody who has the file open
loses it, no offset into it moves, and no old bytes stay behind in blocks that nobody owns.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from kogniterm import database
from kogniterm.memory.forget import Purged
from kogniterm.memory.proof import is_regular, term_pattern
from kogniterm.types import Text

FORGOTTEN = b"[forgotten]"
_LINE_START = re.compile(rb"(\n[+> ]?)")


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
            yield from (one for one in candidates if is_regular(one))


def _overwrite(file: Path, pattern: re.Pattern[bytes]) -> bool:
    """Overwrite what `pattern` finds in `file`; whether there was anything."""
    with database.storage_errors(file):
        if file.stat().st_size == 0:
            return False
        with file.open("r+b") as opened, _mapped(opened.fileno()) as content:
            spans = [found.span() for found in pattern.finditer(content)]
            for start, end in spans:
                content[start:end] = blank(content[start:end])
            if spans:
                content.flush()
                os.fsync(opened.fileno())
            return bool(spans)


@contextlib.contextmanager
def _mapped(descriptor: int) -> Iterator[mmap.mmap]:
    """The file's bytes. A search that is interrupted still holds them: then they are closed with
    it, and the interrupt goes on instead of an error about that."""
    content = mmap.mmap(descriptor, 0)
    try:
        yield content
    finally:
        with contextlib.suppress(BufferError):
            content.close()


def blank(forgotten: bytes) -> bytes:
    """What stands for `forgotten`: as many bytes, as many lines, in the same encoding."""
    length = len(forgotten)
    if b"\0" in forgotten:
        order = "utf-16-le" if forgotten[1] == 0 else "utf-16-be"
        return ("-" * (length // 2)).encode(order)
    if b"\n" in forgotten:
        # What begins the lines of a file (the + of the prompt history) must go on doing so.
        lines = _LINE_START.split(forgotten)
        kept = b"".join(one if at % 2 else b"-" * len(one) for at, one in enumerate(lines))
        return kept if kept != forgotten else b"-" * length
    return FORGOTTEN.ljust(length) if length >= len(FORGOTTEN) else b"-" * length
