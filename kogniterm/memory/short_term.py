"""Short-term memory: the window of a session, its entities, intents and variables.

Everything here ends an hour after the session was last used; before it does, facts are
extracted once more. Time is the injected clock's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from kogniterm.memory.fact_records import Message
from kogniterm.memory.memory_database import MemoryDatabase
from kogniterm.storage.database import Row

IDLE_SECONDS = 3600.0
WINDOW = 20
EVERY = 4
"""New messages (of the person or the model) after which facts are extracted."""

MOST_NAMES = 20

Reason = Literal["count", "end", "remember", "expiry"]


@dataclass(frozen=True, slots=True)
class SessionNotes:
    """What is known of a session beyond its messages. `cursor` is the last message read."""

    session_id: str
    cursor: int = 0
    last_used: float = 0.0
    entities: tuple[str, ...] = ()
    intents: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)

    def is_expired(self, now: float) -> bool:
        """Whether the session has been idle for an hour."""
        return now - self.last_used >= IDLE_SECONDS

    def fresh(self, now: float) -> SessionNotes:
        """As it is at `now`: emptied when expired; the cursor stays, or all would be read again."""
        if not self.is_expired(now):
            return self
        return replace(self, entities=(), intents=(), variables={})

    def with_names(self, entities: Sequence[str], intents: Sequence[str]) -> SessionNotes:
        """With the newest names first, each once, the oldest dropped."""
        return replace(
            self,
            entities=_merged(entities, self.entities),
            intents=_merged(intents, self.intents),
        )


def due(
    notes: SessionNotes, messages: Sequence[Message], now: float, *, ending: bool = False
) -> Reason | None:
    """Why facts should be extracted now, or None.

    The cursor decides: four new messages since it, whatever the length of the session.
    """
    from kogniterm.memory.extraction.statements import memory_request, own_words

    new = [one for one in messages if one.seq > notes.cursor and one.role in ("person", "model")]
    if not any(one.role == "person" for one in new):
        return None
    if any(one.role == "person" and memory_request(own_words(one)) for one in new):
        return "remember"
    if len(new) >= EVERY:
        return "count"
    if ending:
        return "end"
    return "expiry" if notes.is_expired(now) else None


def window(messages: Sequence[Message], size: int = WINDOW) -> list[Message]:
    """The last `size` messages, or a few more: a tool round is never cut apart.

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
        """Notes on `session_id`; empty ones for a session not seen before."""
        row = self._sql.one(
            "SELECT session_id, cursor_seq, last_used, entities, intents, variables "
            "FROM memory_sessions WHERE user_id = ? AND project_id = ? AND session_id = ?",
            (self._sql.user, self._project, session_id),
        )
        return _notes(row) if row else SessionNotes(session_id)

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


def _notes(row: Row) -> SessionNotes:
    entities, intents, variables = (json.loads(one) for one in row[3:])
    return SessionNotes(row[0], row[1], row[2], tuple(entities), tuple(intents), variables)


def _merged(new: Sequence[str], old: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*new, *old)))[:MOST_NAMES]
