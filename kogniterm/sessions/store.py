"""All sessions of a person: make, open, list, find, rename, delete."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from kogniterm.errors import UsageError
from kogniterm.sessions.backend import Backend, Row
from kogniterm.sessions.fold import SessionState
from kogniterm.sessions.journal import Fault, SessionJournal, load_state, no_fault
from kogniterm.sessions.records import SessionOpened


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """One line of the list of sessions. Times in seconds since the epoch."""

    id: str
    folder: str
    title: str
    model: str
    created: float
    updated: float
    turns: int
    parent: str | None = None


_COLUMNS = "id, folder, title, model, created, updated, turns, parent"


class SessionStore:
    """The sessions in one backend. Not for use from two threads at once."""

    def __init__(
        self,
        backend: Backend,
        *,
        version: str,
        now: Callable[[], float] = time.time,
        fault: Fault = no_fault,
    ) -> None:
        self._backend = backend
        self._version = version
        self._now = now
        self._fault = fault

    def create(self, *, folder: str, model: str, session_id: str | None = None) -> SessionJournal:
        """Begin a session that works in `folder`."""
        new = session_id or secrets.token_hex(6)
        moment = self._now()
        with self._backend.transaction():
            self._backend.execute(
                "INSERT INTO sessions (id, folder, model, created, updated) VALUES (?, ?, ?, ?, ?)",
                (new, folder, model, moment, moment),
            )
        journal = self._journal(SessionState())
        journal.append(SessionOpened(new, folder, self._version, model))
        return journal

    def open(self, session_id: str, *, model: str | None = None) -> SessionJournal:
        """Resume a session: its state is folded from its journal."""
        info = self.info(session_id)
        state, damaged = load_state(self._backend, info.id)
        (row,) = self._backend.execute("SELECT draft FROM sessions WHERE id = ?", (info.id,))
        journal = self._journal(replace(state, draft=row[0]), damaged)
        journal.append(SessionOpened(info.id, state.folder, self._version, model or state.model))
        return journal

    def _journal(self, state: SessionState, damaged: tuple[int, ...] = ()) -> SessionJournal:
        return SessionJournal(
            self._backend, state, now=self._now, fault=self._fault, damaged=damaged
        )

    def info(self, session_id: str) -> SessionInfo:
        """The session with this id. Raises `UsageError` when there is none."""
        rows = self._backend.execute(f"SELECT {_COLUMNS} FROM sessions WHERE id = ?", (session_id,))
        if not rows:
            raise UsageError("There is no session {session}.", session=session_id)
        return _info(rows[0])

    def list(self, *, folder: str | None = None, limit: int = 1000) -> list[SessionInfo]:
        """Sessions, the most recently used first; only those of `folder` when given."""
        where, values = ("WHERE folder = ? ", (folder,)) if folder is not None else ("", ())
        rows = self._backend.execute(
            f"SELECT {_COLUMNS} FROM sessions {where}ORDER BY updated DESC, id LIMIT ?",
            (*values, limit),
        )
        return [_info(row) for row in rows]

    def save_draft(self, session_id: str, text: str) -> None:
        """Keep what the person has typed and not sent."""
        self._backend.execute("UPDATE sessions SET draft = ? WHERE id = ?", (text, session_id))

    def close(self) -> None:
        """Release the database."""
        self._backend.close()


def _info(row: Row) -> SessionInfo:
    return SessionInfo(*row)
