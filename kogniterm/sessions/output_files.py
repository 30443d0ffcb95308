"""The output files of a session's commands: which they are, and how they go."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from kogniterm.errors import StorageCorruptError
from kogniterm.sessions.journal.rows import stored_records
from kogniterm.sessions.records import Intent, Outcome, Record
from kogniterm.storage.database import Database
from kogniterm.storage.drivers import storage_errors


def output_paths(record: Record) -> list[str]:
    """The output files that a record names."""
    match record.body:
        case Intent(output_path=path):
            return [path] if path else []
        case Outcome(result=result) if result is not None:
            paths = [result.output_path, *(job.output_path for job in result.jobs)]
            return [path for path in paths if path]
        case _:
            return []


def of_session(backend: Database, session_id: str, outputs: Path) -> list[Path]:
    """The files a session left below `outputs`; whatever lies elsewhere is not ours to touch."""
    home = outputs.resolve()
    found: set[Path] = set()
    for stored in stored_records(backend, session_id):
        if stored.kind in ("intent", "outcome"):
            with suppress(StorageCorruptError):
                found.update(Path(path) for path in output_paths(stored.record()))
    own = outputs / session_id
    if own.is_dir():
        found.update(path for path in own.rglob("*") if not path.is_dir())
    return sorted(path for path in found if path.resolve().is_relative_to(home))


def remove(paths: Iterable[Path]) -> None:
    """Delete files, and their folders when nothing else is in them."""
    for path in paths:
        with storage_errors(path):
            path.unlink(missing_ok=True)
        with suppress(OSError):
            path.parent.rmdir()


@contextmanager
def replaced(path: Path) -> Iterator[TextIO]:
    """Write a text file whole or not at all: beside it first, synced, then in its place.

    A new file is the person's alone (0600). Half characters, which names of files may hold, are
    written as JSON would. Raises `StorageError` kinds.
    """
    with storage_errors(path):
        try:
            # Not named after the file, whose name may be as long as names can be.
            descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".kogniterm-")
        except OSError as error:
            error.filename = str(path)  # nobody knows the name beside it
            raise
        temporary = Path(name)
        try:
            with os.fdopen(
                descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="\n"
            ) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
