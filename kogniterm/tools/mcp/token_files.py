"""The sign-ins to MCP servers: a private file each, named after the hash of the server's URL.

A file holds the tokens, the client that was registered, and where the tokens are renewed. It is
written whole or not at all. Renewing takes the lock beside it, so that of two processes one renews
and the other reads the result: an authorization server may give up a sign-in whose refresh token is
used twice.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from kogniterm.errors import StorageError, StorageLockedError, why
from kogniterm.storage.folders import private_folder, write_private
from kogniterm.text.matching import Matcher

LOCK_SECONDS = 60.0
"""Time that one process waits for another that renews the same sign-in."""
_STEP = 0.05


class TokenFiles:
    """The folder of all sign-ins."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def of(self, url: str) -> TokenFile:
        """Return the file of the server at `url`."""
        name = hashlib.sha256(url.encode()).hexdigest()[:32]
        return TokenFile(self.folder / f"{name}.json", url)

    def delete_all(self, terms: Sequence[str]) -> int:
        """Delete every sign-in that holds one of `terms`; returns their number.

        A token cannot be changed, so the sign-in goes whole. Raises `StorageError`.
        """
        matcher, deleted = Matcher(terms), 0
        for path in sorted(self.folder.glob("*.json")):
            file = TokenFile(path, "")
            if matcher and matcher.holds(file.text()):
                file.delete()
                deleted += 1
        return deleted


class TokenFile:
    """The sign-in to one server."""

    def __init__(self, path: Path, url: str) -> None:
        self.path, self.url = path, url

    def read(self) -> dict[str, Any]:
        """Return what is stored; nothing for a file that is missing, damaged or of another URL."""
        try:
            found = json.loads(self.text())
        except (ValueError, RecursionError):
            return {}
        if not isinstance(found, dict) or found.get("server") != self.url:
            return {}
        return found

    def text(self) -> str:
        """Return the file as it is. Raises `StorageError`; a missing file is empty."""
        try:
            return self.path.read_text("utf-8", "replace")
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise StorageError(
                "{file} cannot be read: {why}.", file=self.path, why=why(error)
            ) from error

    def write(self, values: Mapping[str, object]) -> None:
        """Store `values`. Raises `StorageError`."""
        text = json.dumps({**values, "server": self.url, "written": time.time()}, indent=1)
        try:
            private_folder(self.path.parent)
            write_private(self.path, text.encode(), durable=True)
        except OSError as error:
            raise StorageError(
                "{file} cannot be written: {why}.", file=self.path, why=why(error)
            ) from error

    def delete(self) -> bool:
        """Delete the sign-in; returns whether there was one. Raises `StorageError`."""
        try:
            self.path.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise StorageError(
                "{file} cannot be deleted: {why}.", file=self.path, why=why(error)
            ) from error
        return True

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Keep other processes from renewing the sign-in. Raises `StorageError`."""
        lock = self.path.with_suffix(".lock")
        try:
            private_folder(lock.parent)
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageError(
                "{file} cannot be written: {why}.", file=lock, why=why(error)
            ) from error
        try:
            await _lock(descriptor, lock)
            yield
        finally:
            os.close(descriptor)


async def _lock(descriptor: int, path: Path) -> None:
    until = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise StorageLockedError(
                    "Another process renews this sign-in for too long; end it and try again "
                    "({file}).",
                    file=path,
                ) from None
            # A blocking flock could not be cancelled.
            await asyncio.sleep(_STEP)
        else:
            return
