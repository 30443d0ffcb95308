"""Forgetting in files that belong to the person: the configuration, and what was written for them.

What KogniTerm wrote there and nobody changed since is cleaned (a recipe is removed: with a hole
in a command it must not run). What a person wrote is theirs: it is named, not touched.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from kogniterm.database import storage_errors
from kogniterm.memory.files import FilePurge
from kogniterm.memory.forget import Mention, Purged
from kogniterm.memory.proof import is_regular, term_pattern
from kogniterm.runtime.written import Written, WrittenFiles
from kogniterm.types import Text

PLACE = Text("exports, reports and recipes")

LARGEST = 16 * 1024 * 1024
"""Files of the person beyond this are not read: instructions and rules are small."""

MOST = 5_000
"""Entries of one folder that are looked at; a project's folder may hold anything."""

PROJECT_FILES = ("KOGNITERM.md", "AGENTS.md", ".kogniterm", ".env")
"""What a person writes for KogniTerm in a project."""


class PersonFiles:
    """Exports, reports and recipes of `written`; and `own`, files and folders of the person."""

    def __init__(self, written: WrittenFiles, own: Sequence[Path]) -> None:
        self._written = written
        self._own = tuple(own)

    def foreseen(self, terms: Sequence[str]) -> tuple[Mention, ...]:
        """What `purge` would clean or remove, for the person to see before they agree."""
        pattern = term_pattern(terms)
        if pattern is None:
            return ()
        files = [entry.path for entry in self._written.unchanged()]
        return tuple(_mentions(files, pattern))

    def purge(self, terms: Sequence[str]) -> Purged:
        """Clean what was written for the person; name what they wrote. `StorageError` kinds."""
        pattern = term_pattern(terms)
        if pattern is None:
            return Purged(PLACE, 0)
        ours = self._written.unchanged()
        cleaned = [one for one in ours if next(_mentions([one.path], pattern), None)]
        for entry in cleaned:
            self._clean(entry, terms)
        known = {entry.path for entry in ours}
        theirs = [file for file in _files(self._own) if file not in known]
        return Purged(
            PLACE,
            len(cleaned),
            untouched=tuple(_mentions(theirs, pattern)),
            files=tuple(entry.path for entry in cleaned if is_regular(entry.path)),
        )

    def _clean(self, entry: Written, terms: Sequence[str]) -> None:
        FilePurge(PLACE, [entry.path]).purge(terms)
        if entry.kind == "recipe":
            with storage_errors(entry.path):
                entry.path.unlink()
        else:
            self._written.add(entry.path, entry.kind)


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        is_folder = path.is_dir() and not path.is_symlink()
        candidates = islice(path.rglob("*"), MOST) if is_folder else [path]
        yield from sorted(one for one in candidates if is_regular(one))


def _mentions(files: Iterable[Path], pattern: re.Pattern[bytes]) -> Iterator[Mention]:
    """The lines of `files` that hold a term; a file that cannot be read holds none we know of."""
    for file in files:
        try:
            if file.stat().st_size > LARGEST:
                continue
            content = file.read_bytes()
        except OSError:
            continue
        starts = dict.fromkeys(
            content.count(b"\n", 0, found.start()) + 1 for found in pattern.finditer(content)
        )
        yield from (Mention(file, line) for line in starts)
