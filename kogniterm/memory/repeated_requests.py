"""Requests that come again and again: counted by their text, and offered once to be kept.

A request counts when its turn was done. It is kept in lower case as it was typed, so that
forgetting finds it; secrets are replaced before, and what memory does not store is not counted.
"""

from __future__ import annotations

from kogniterm.memory.fact_records import why_not_kept
from kogniterm.memory.memory_database import MemoryDatabase
from kogniterm.text.language import raw_words

ENOUGH = 3
"""Times that a request must have come before anything is offered."""

FEWEST_WORDS = 3
"""Shorter ones ("go on", "try again") mean something else each time."""

LONGEST_REQUEST = 300
MOST_REQUESTS = 200
"""Requests of each project that are counted: those that came last."""


class RepeatedRequests:
    """The counted requests of one user in one project."""

    def __init__(self, sql: MemoryDatabase, project: str) -> None:
        self._sql = sql
        self._bound = (sql.user, project)

    def count(self, text: str, session_id: str, now: float) -> int:
        """Count a request; return how often it came, 0 if nothing is to be offered for it."""
        if not _counts(text):
            return 0
        with self._sql.transaction():
            row = self._sql.one(
                "INSERT INTO requests (user_id, project_id, request, times, seen, session_id, "
                "offered) VALUES (?, ?, ?, 1, ?, ?, 0) ON CONFLICT (user_id, project_id, request) "
                "DO UPDATE SET times = requests.times + 1, seen = excluded.seen, "
                "session_id = excluded.session_id RETURNING times, offered",
                (*self._bound, _same(text), now, session_id),
            )
            self._sql.run(
                "DELETE FROM requests WHERE user_id = ? AND project_id = ? AND request IN ("
                "SELECT request FROM requests WHERE user_id = ? AND project_id = ? "
                "ORDER BY seen DESC, request LIMIT 1000000 OFFSET ?)",
                (*self._bound, *self._bound, MOST_REQUESTS),
            )
        times, offered = row or (0, 1)
        return int(times) if times >= ENOUGH and not offered else 0

    def offer(self, text: str) -> bool:
        """Note that the user gets the offer; return False if they had it, or it was forgotten."""
        changed = self._sql.run(
            "UPDATE requests SET offered = 1 WHERE user_id = ? AND project_id = ? "
            "AND request = ? AND offered = 0",
            (*self._bound, _same(text)),
        )
        return changed > 0


def _same(text: str) -> str:
    """Return a request without its case, blanks and last mark, in which repetitions differ."""
    return " ".join(text.lower().split()).rstrip(".!? ")


def _counts(text: str) -> bool:
    """Return whether a request is one: long enough, and of words that memory may store."""
    if text[:1] in "/@!" or "[forgotten]" in text:
        return False
    long = len(text) > LONGEST_REQUEST or len(raw_words(text)) < FEWEST_WORDS
    return not long and why_not_kept(text) is None
