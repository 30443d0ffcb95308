"""Short-term memory: the window of a session, its entities, intents and variables.

Everything here expires an hour after the session was last used; facts are extracted once more
before. Time is the injected clock's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from kogniterm.memory.fact_records import Message
from kogniterm.memory.memory_database import MemoryDatabase

IDLE_SECONDS = 3600.0
WINDOW = 20
MOST_NAMES = 20


@dataclass(frozen=True, slots=True)
class SessionNotes:
    """Notes on a session beside its messages. `cursor` is the last message read."""

    session_id: str
    cursor: int = 0
    last_used: float = 0.0
    entities: tuple[str, ...] = ()
    intents: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)

    def is_expired(self, now: float) -> bool:
        """Return whether the session has been idle for an hour."""
        return now - self.last_used >= IDLE_SECONDS

    def fresh(self, now: float) -> SessionNotes:
        """Return the notes at `now`: empty when expired; the cursor stays, or all is read again."""
        if not self.is_expired(now):
            return self
        return replace(self, entities=(), intents=(), variables={})

    def with_names(self, entities: Sequence[str], intents: Sequence[str]) -> SessionNotes:
        """Add names: the newest first, each once, the oldest dropped."""
        return replace(
            self,
            entities=tuple(dict.fromkeys((*entities, *self.entities)))[:MOST_NAMES],
            intents=tuple(dict.fromkeys((*intents, *self.intents)))[:MOST_NAMES],
        )


def window(messages: Sequence[Message], size: int = WINDOW) -> list[Message]:
    """Return the last `size` messages, or a few more: a tool round is never split.

    A round is a message that calls tools with all the answers to its calls.
    """
    start = max(0, len(messages) - size)
    while start > 0 and messages[start].answers_call is not None:
        start -= 1
    return list(messages[start:])


class SessionRepository:
    """Notes on the sessions of one user in one project."""

    def __init__(self, sql: MemoryDatabase, project: str) -> None:
        self._sql = sql
        self._project = project

    def load(self, session_id: str) -> SessionNotes:
        """Return the notes on `session_id`; empty ones for an unknown session."""
        row = self._sql.one(
            "SELECT session_id, cursor_seq, last_used, entities, intents, variables "
            "FROM memory_sessions WHERE user_id = ? AND project_id = ? AND session_id = ?",
            (self._sql.user, self._project, session_id),
        )
        if row is None:
            return SessionNotes(session_id)
        entities, intents, variables = (json.loads(one) for one in row[3:])
        return SessionNotes(row[0], row[1], row[2], tuple(entities), tuple(intents), variables)

    def save(self, notes: SessionNotes) -> None:
        """Store `notes`; a cursor never goes back."""
        self._sql.run(
            "INSERT INTO memory_sessions (user_id, session_id, project_id, cursor_seq, "
            "last_used, entities, intents, variables) VALUES (?, ?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (user_id, session_id) DO UPDATE SET "
            "cursor_seq = CASE WHEN excluded.cursor_seq > memory_sessions.cursor_seq "
            "THEN excluded.cursor_seq ELSE memory_sessions.cursor_seq END, "
            "last_used = excluded.last_used, entities = excluded.entities, "
            "intents = excluded.intents, variables = excluded.variables",
            (
                self._sql.user,
                notes.session_id,
                self._project,
                notes.cursor,
                notes.last_used,
                json.dumps(notes.entities),
                json.dumps(notes.intents),
                json.dumps(dict(notes.variables)),
            ),
        )
