"""What was forgotten must not be learnt again, and must not be kept to know that.

A tombstone is a keyed hash of a text that was forgotten. The key lies in a file of its own
(0600), so that the database alone tells nothing, not even to somebody who can guess the text.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from kogniterm.memory.repository import FactRepository
from kogniterm.storage import drivers
from kogniterm.storage.folders import private_folder
from kogniterm.text.language import raw_words, stems_of

_KEY_BYTES = 32


def read_key(path: Path) -> bytes:
    """The key in `path`, made (0600) when there is none. Raises `StorageError` kinds."""
    with drivers.storage_errors(path):
        private_folder(path.parent)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            key = path.read_bytes()
            if len(key) == _KEY_BYTES:
                return key
            descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC)
        key = secrets.token_bytes(_KEY_BYTES)
        with os.fdopen(descriptor, "wb") as file:
            file.write(key)
            file.flush()
            os.fsync(file.fileno())
        return key


class Tombstones:
    """The keyed hashes of what one user has had forgotten, in one project and everywhere."""

    def __init__(self, repository: FactRepository, key: bytes) -> None:
        self._repository = repository
        self._sql = repository.sql
        self._key = key

    def of(self, repository: FactRepository) -> Tombstones:
        """Those of another project of the same user."""
        return Tombstones(repository, self._key)

    def add(self, texts: Iterable[str], now: float) -> None:
        """Remember that `texts` were forgotten, without keeping them."""
        repository = self._repository
        with self._sql.transaction():
            for text in texts:
                for digest in self._digests(text):
                    self._sql.run(
                        "INSERT INTO tombstones (user_id, project_id, digest, created) "
                        "VALUES (?, ?, ?, ?) ON CONFLICT (user_id, project_id, digest) "
                        "DO NOTHING",
                        (repository.user, repository.project, digest, now),
                    )

    def holds(self, text: str) -> bool:
        """Whether `text`, or another order of its telling words, was forgotten."""
        digests = self._digests(text)
        marks = ", ".join("?" * len(digests))
        row = self._sql.one(
            "SELECT 1 FROM tombstones WHERE user_id = ? AND project_id IN ('', ?) "
            f"AND digest IN ({marks})",
            (self._repository.user, self._repository.project, *digests),
        )
        return row is not None

    def lift(self, text: str) -> None:
        """Allow `text` again: the person said it anew, in so many words."""
        for digest in self._digests(text):
            self._sql.run(
                "DELETE FROM tombstones WHERE user_id = ? AND project_id IN ('', ?) AND digest = ?",
                (self._repository.user, self._repository.project, digest),
            )

    def _digests(self, text: str) -> list[str]:
        normalised = " ".join(raw_words(text)) or text
        found = [self._hash(f"text:{normalised}")]
        stems = sorted(set(stems_of(text)))
        if len(stems) > 1:
            found.append(self._hash("stems:" + " ".join(stems)))
        return found

    def _hash(self, text: str) -> str:
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()
