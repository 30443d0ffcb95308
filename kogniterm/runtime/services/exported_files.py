"""Which files outside of its own folders KogniTerm wrote for the person: exports, reports, recipes.

The register lets forgetting find them later. Each entry carries the digest of what was written:
a file that was changed since is the person's own work, and is never touched again.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from kogniterm.memory.forgetting.proof import is_regular
from kogniterm.storage.drivers import storage_errors
from kogniterm.storage.folders import private_folder

Kind = Literal["export", "report", "recipe"]


@dataclass(frozen=True, slots=True)
class Written:
    """A file as it was left; `digest` is the SHA-256 of its bytes."""

    path: Path
    kind: Kind
    digest: str

    def is_unchanged(self) -> bool:
        """Whether the file is there and holds exactly what was written."""
        return is_regular(self.path) and _digest(self.path) == self.digest


class WrittenFiles:
    """The register, a line of JSON for each file that was written; the last word counts."""

    def __init__(self, register: Path) -> None:
        self._register = register

    def add(self, path: Path, kind: Kind) -> None:
        """Note that `path` was just written. Raises `StorageError` kinds."""
        path = path.absolute()
        with storage_errors(path):
            entry = {"path": str(path), "kind": kind, "sha256": _digest(path)}
        with storage_errors(self._register):
            private_folder(self._register.parent)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            descriptor = os.open(self._register, flags, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                # A line begins anew, whatever a full disk may have cut the last one to.
                file.write(b"\n" + json.dumps(entry).encode() + b"\n")

    def unchanged(self) -> tuple[Written, ...]:
        """The files that still hold exactly what was written to them, sorted by path.

        Lines that make no sense (a half-written one, one whose path was forgotten) say nothing.
        """
        entries = [entry for line in self._lines() if (entry := _read(line)) is not None]
        last = {entry.path: entry for entry in entries}
        return tuple(last[path] for path in sorted(last) if last[path].is_unchanged())

    def _lines(self) -> list[str]:
        with storage_errors(self._register):
            if not self._register.is_file():
                return []
            return self._register.read_text(encoding="utf-8", errors="replace").splitlines()


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
