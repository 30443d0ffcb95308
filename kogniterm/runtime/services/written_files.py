"""Files outside of KogniTerm's folders: the register of written ones, and forgetting in them.

The register of exports, reports and recipes holds the digest of what was written. Forgetting cleans
the files that were not changed since (a recipe is removed: a command with words missing must not
run). Files that the user wrote or changed are theirs: they are named, not touched.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from kogniterm.host.safe_files import resolve_path
from kogniterm.host.walk import WalkLimits, walk_folder
from kogniterm.memory.file_purge import FilePurge, Purged, TextMention, is_regular
from kogniterm.storage.drivers import storage_errors
from kogniterm.storage.folders import private_folder
from kogniterm.text.matching import Matcher
from kogniterm.types import Phrase

Kind = Literal["export", "report", "recipe"]


class Written(NamedTuple):
    """A file as it was written; `digest` is the SHA-256 of its bytes."""

    path: Path
    kind: Kind
    digest: str

    def is_unchanged(self) -> bool:
        """Return whether the file exists and holds exactly what was written."""
        return is_regular(self.path) and _digest(self.path) == self.digest


class WrittenFiles:
    """The register: a line of JSON for each file written; the last line of a file counts."""

    def __init__(self, register: Path) -> None:
        self._register = register

    def add(self, path: Path, kind: Kind) -> None:
        """Register `path`, which was just written. Raises `StorageError`.

        A device or a pipe keeps nothing that could be cleaned, and reading it may never end.
        """
        path = path.absolute()
        if not is_regular(path):
            return
        with storage_errors(path):
            entry = {"path": str(path), "kind": kind, "sha256": _digest(path)}
        with storage_errors(self._register):
            private_folder(self._register.parent)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            descriptor = os.open(self._register, flags, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                # Begins with a line break, because a full disk may have cut the last line.
                file.write(b"\n" + json.dumps(entry).encode() + b"\n")

    def list_unchanged(self) -> tuple[Written, ...]:
        """Return the files that still hold exactly what was written to them, sorted by path.

        Unreadable lines (half written, or with a forgotten path) are skipped.
        """
        with storage_errors(self._register):
            if not self._register.is_file():
                return ()
            lines = self._register.read_text(encoding="utf-8", errors="replace").splitlines()
        entries = [entry for line in lines if (entry := _read(line)) is not None]
        last = {entry.path: entry for entry in entries}
        return tuple(last[path] for path in sorted(last) if last[path].is_unchanged())


def _read(line: str) -> Written | None:
    try:
        entry = json.loads(line)
        path, kind, digest = entry["path"], entry["kind"], entry["sha256"]
    except (ValueError, TypeError, KeyError):
        return None
    if not isinstance(path, str) or not path.startswith("/") or kind not in get_args(Kind):
        return None
    return Written(Path(path), kind, str(digest))


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


PLACE = Phrase("exports, reports and recipes")

LARGEST = 16 * 1024 * 1024
"""Larger files of the user are not read: instructions and rules are small."""

MOST = 5_000
"""Entries of one folder that are read; a project's folder may hold anything."""

PROJECT_FILES = (
    "KOGNITERM.md", "AGENTS.md", "CLAUDE.md", "GEMINI.md", ".kogniterm", ".env",
    ".claude/CLAUDE.md", ".agents/skills", ".claude/skills", ".agents/plugins",
    ".claude/plugins", ".claude/commands", ".claude/agents",
    ".gemini/commands",
)  # fmt: skip
"""The files that a user writes for KogniTerm and other agents in a project."""


class UserFiles:
    """Exports, reports and recipes of `written`; and `own`, files and folders of the user."""

    def __init__(self, written: WrittenFiles, own: Sequence[Path]) -> None:
        self._written = written
        self._own = tuple(own)

    def foreseen(self, terms: Sequence[str]) -> tuple[TextMention, ...]:
        """Return what `purge` would clean or remove, for the user to see before they agree."""
        matcher = Matcher(terms)
        if not matcher:
            return ()
        files = [entry.path for entry in self._written.list_unchanged()]
        return tuple(_mentions(files, matcher))

    def purge(self, terms: Sequence[str]) -> Purged:
        """Clean what was written for the user; name what they wrote. Raises `StorageError`."""
        matcher = Matcher(terms)
        if not matcher:
            return Purged(PLACE, 0)
        ours = self._written.list_unchanged()
        done = [(entry, FilePurge(PLACE, [entry.path]).purge(terms)) for entry in ours]
        cleaned = [(entry, one) for entry, one in done if one.removed]
        for entry, _ in cleaned:
            if entry.kind == "recipe":
                with storage_errors(entry.path):
                    entry.path.unlink()
            else:
                self._written.add(entry.path, entry.kind)
        known = {entry.path for entry in ours}
        unseen: list[Path] = []
        theirs = [one for own in self._own for one in _files(own, unseen) if one not in known]
        return Purged(
            PLACE,
            len(cleaned),
            tuple(
                Phrase("text in {folder}, which could not be read completely", {"folder": one})
                for one in unseen
            ),
            untouched=tuple(_mentions(theirs, matcher, LARGEST)),
            files=tuple(entry.path for entry, _ in cleaned if is_regular(entry.path)),
            searched=tuple(one for _, part in cleaned for one in part.searched),
        )


def _files(path: Path, unseen: list[Path]) -> Iterator[Path]:
    """Yield `path`, or the regular files below it; folders not looked into go to `unseen`."""
    if not path.is_dir() or path.is_symlink():
        yield from [path] if is_regular(path) else ()
        return
    found = walk_folder(
        resolve_path(path), lambda name, _error: unseen.append(path / name), WalkLimits(MOST)
    )
    yield from (path / one.path for one in found if one.is_file)


def _mentions(
    files: Iterable[Path], matcher: Matcher, largest: int | None = None
) -> Iterator[TextMention]:
    """Yield the lines of `files` that hold a term.

    Files that cannot be read, or have more than `largest` bytes, are skipped.
    """
    for file in files:
        try:
            if largest is not None and file.stat().st_size > largest:
                continue
            content = file.read_bytes()
        except OSError:
            continue
        starts = dict.fromkeys(
            content.count(b"\n", 0, start) + 1 for start, _end in matcher.byte_spans(content)
        )
        yield from (TextMention(file, line) for line in starts)
