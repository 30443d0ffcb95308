"""The workspace's files for @ completion, listed on a thread and kept for a short while."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

FRESH_SECONDS = 5.0


class FileIndex:
    """Answers at once with what is known; `arrived` is called on the thread that listed."""

    def __init__(
        self,
        listing: Callable[[], Iterable[str]],
        *,
        clock: Callable[[], float],
        arrived: Callable[[], None],
    ) -> None:
        self._listing = listing
        self._clock = clock
        self._arrived = arrived
        self._known: list[str] = []
        self._when = float("-inf")
        self._busy = threading.Lock()

    def __call__(self) -> list[str]:
        """The files as last listed; a stale list is renewed behind it."""
        stale = self._clock() - self._when > FRESH_SECONDS
        if stale and self._busy.acquire(blocking=False):
            threading.Thread(target=self._list, daemon=True, name="files").start()
        return self._known

    def _list(self) -> None:
        try:
            self._known = list(self._listing())
            self._when = self._clock()
        finally:
            self._busy.release()
        self._arrived()
