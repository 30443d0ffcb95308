"""What is being typed and was not sent, kept with the session so that it outlives even a kill."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from kogniterm.errors import StorageError

if TYPE_CHECKING:
    from kogniterm.runtime.session import LiveSession

DRAFT_SECONDS = 2.0
"""How long what is being typed may be out of date on the disk."""


class Drafts:
    """Keeps the line of the open session; `line` says what stands on it."""

    def __init__(self, session: Callable[[], LiveSession | None], line: Callable[[], str]) -> None:
        self._session = session
        self._line = line
        self._kept = ""
        self._left = False
        self._task: asyncio.Future[None] | None = None

    def begin(self) -> None:
        """Keep what is typed from now on."""
        self._task = asyncio.ensure_future(self._again_and_again())

    def end(self) -> None:
        """What is kept now stays."""
        if self._task is not None:
            self._task.cancel()

    def leave(self) -> None:
        """Another session is about to be opened: the line as it stands is the last of this one.

        What is typed until the other is open belongs to that.
        """
        self.keep()
        self._left = True

    def found(self, text: str) -> None:
        """The session that was opened holds this draft."""
        self._kept = text
        self._left = False

    def keep(self, text: str | None = None) -> None:
        """Keep `text`, or what stands on the line. What cannot be kept is worth no error."""
        if text is None:
            if self._left:
                return
            text = self._line()
        session = self._session()
        if session is not None and text != self._kept:
            with contextlib.suppress(StorageError):
                session.keep_draft(text)
                self._kept = text

    async def _again_and_again(self) -> None:
        while True:
            await asyncio.sleep(DRAFT_SECONDS)
            self.keep()
