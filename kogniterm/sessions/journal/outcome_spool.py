"""Outcomes that the database could not take, kept on this machine until it can.

One private file for each session (0600, in a folder of 0700), made with space for an outcome before
anything is started, so that a disk that fills up meanwhile loses nothing. A line is the payload for
the journal: redacted like it, and searched when words are forgotten.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from kogniterm.errors import StorageCorruptError, StorageFullError
from kogniterm.sessions.journal import codec
from kogniterm.sessions.records import Outcome
from kogniterm.storage.drivers import storage_errors
from kogniterm.storage.folders import private_folder, sync_folder, write_all

RESERVED_BYTES = 128 * 1024
"""Bytes that the file has before an action is started."""

MOST = 1024 * 1024
"""Bytes that the file may grow to; an outcome beyond that is not kept."""

_KIND = "outcome"


class Spool:
    """The kept outcomes of one session, in a file below `folder`.

    Methods raise `StorageError` kinds.
    """

    def __init__(self, folder: Path, session_id: str) -> None:
        # Ids of imported sessions are foreign text: no safe name for a file.
        name = hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        self.path = folder / f"{name}.jsonl"
        self._made = False

    def make_room(self) -> None:
        """Make the file with space for an outcome, unless this was done."""
        if self._made:
            return
        with storage_errors(self.path):
            private_folder(self.path.parent)
            descriptor = self._open(os.O_CREAT)
            try:
                size = os.fstat(descriptor).st_size
                write_all(descriptor, bytes(max(0, RESERVED_BYTES - size)), size)
            except OSError:
                if not self.read():
                    self.path.unlink(missing_ok=True)
                raise
            finally:
                os.close(descriptor)
        self._made = True

    def keep(self, outcome: Outcome) -> None:
        """Keep one more outcome; it has reached the disk when this returns."""
        line = codec.encode(outcome).encode() + b"\n"
        with storage_errors(self.path):
            private_folder(self.path.parent)
            descriptor = self._open(os.O_CREAT)
            try:
                end = len(_lines(os.pread(descriptor, MOST, 0)))
                if end + len(line) > MOST:
                    raise StorageFullError(
                        "The outcome is too large to save in {file}.", file=str(self.path)
                    )
                write_all(descriptor, line, end)
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            sync_folder(self.path.parent)

    def read(self) -> list[Outcome]:
        """Return the kept outcomes in order; a line that cannot be read is left out."""
        try:
            descriptor = self._open(0)
        except OSError:
            return []  # no file, or not one of ours
        with storage_errors(self.path), os.fdopen(descriptor, "rb") as file:
            lines = _lines(file.read(MOST)).splitlines()
        found: list[Outcome] = []
        for line in lines:
            with suppress(StorageCorruptError, UnicodeDecodeError):
                body = codec.decode(_KIND, line.decode())
                if isinstance(body, Outcome):
                    found.append(body)
        return found

    def remove(self) -> None:
        with storage_errors(self.path):
            self.path.unlink(missing_ok=True)
        self._made = False

    def _open(self, flags: int) -> int:
        wanted = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | flags
        return os.open(self.path, wanted, 0o600)


def _lines(content: bytes) -> bytes:
    """Return the whole lines at the beginning of a file; zeros are free space."""
    used = content.partition(b"\0")[0]
    return used[: used.rfind(b"\n") + 1]
