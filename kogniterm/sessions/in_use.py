"""Who has a database file open: what keeps a damaged one from being moved away under somebody."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kogniterm.errors import StorageLockedError
from kogniterm.paths import private_folder


class FileInUse:
    """A shared lock beside the database for as long as it is open.

    Recovery needs it for itself alone: a file that somebody writes to is not moved away.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(path.name + ".lock")
        private_folder(path.parent)
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the lock for ourselves alone. Raises `StorageLockedError` when others have it."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            fcntl.flock(self._descriptor, fcntl.LOCK_SH)
            raise StorageLockedError(
                "{place} is damaged and open in another KogniTerm; close that one first, then "
                "what can be read will be recovered.",
                place=str(self._path.with_suffix("")),
            ) from error
        try:
            yield
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def left_by_a_crash(self) -> bool:
        """Whether a write-ahead log lies there though nobody has the database open."""
        log = self._path.with_suffix("").with_name(self._path.stem + "-wal")
        if not log.exists():
            return False
        try:
            with self.alone():
                return True
        except StorageLockedError:
            return False

    def release(self) -> None:
        """Let go of the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
