"""Short-term memory: how far sessions were read, and what was named in the last hour.

Names (files, servers, requests) serve the next hour only: they tell a new session in the same
folder what was worked on, and find facts for "that server" and "the file from before". Their rows
are deleted after an hour, and the bytes with them. Time is the injected clock's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple, get_args

from kogniterm.memory.fact_records import why_not_kept
from kogniterm.memory.memory_database import MemoryDatabase
from kogniterm.text.shorten import gist

IDLE_SECONDS = 3600.0
"""Seconds after which a name is deleted."""

MOST_NAMES = 20
"""Names of each kind that a session keeps: the newest."""

LONGEST_NAME = 120

NameKind = Literal["file", "server", "name", "request"]
KINDS: tuple[NameKind, ...] = get_args(NameKind)

_URL = re.compile(r"\bhttps?://(?:[^\s/@]*@)?([\w.-]+)\S*", re.IGNORECASE)
_ADDRESS = re.compile(r"(?<![\w/.@-])(?:[\w-]+@)?(\d{1,3}(?:\.\d{1,3}){3})(?![\w.])")
_HOST = re.compile(
    r"(?<![\w/.-])(?:[\w-]+@)?((?:[a-z0-9-]+\.)+(?:com|org|net|io|dev|es|eu|local|internal|lan))"
    r"(?![\w-])",
    re.IGNORECASE,
)
_REMOTE = re.compile(
    r"\b(?:ssh|scp|ping|mosh)\s+(?:-\S+\s+)*(?:[\w-]+@)?([A-Za-z][\w.-]+)(?![\w@-])"
)
_PATH = re.compile(
    r"(?<![\w@:/.~-])((?:~|\.{1,2})?/?(?:[\w+-][\w.+-]*/)*[\w+-][\w.+-]*\.[A-Za-z][A-Za-z0-9]{0,9}"
    r"|(?:~|\.{1,2})?/(?:[\w.+-]+/)*[\w.+-]+)(?![\w/@-])"
)
_REFERS_BACK = re.compile(
    r"\b(?:(?:th(?:at|is|ose|ese)|es[ea]s?|est[ea]s?|aquel(?:la)?) (?:file|server|archivo|fichero|"
    r"servidor)|from before\b|de antes\b)",
    re.IGNORECASE,
)
_NO_FILE = re.compile(r"(?:e\.g|i\.e|p\.ej|\d+\.\w|/dev/null)\.?", re.IGNORECASE)


class SessionNotes(NamedTuple):
    """The place in a session: `cursor` is its last message that was read for facts.

    Up to `ended` it may be read, by a model of `provider` alone: what was said after it, or while
    memory was not to be written, is never read.
    """

    session_id: str
    cursor: int = 0
    last_used: float = 0.0
    ended: int = 0
    provider: str = ""


class Mention(NamedTuple):
    """A name that came up in a session, and when (seconds since the epoch) it did last."""

    kind: NameKind
    name: str
    seen: float = 0.0
    session_id: str = ""


class SessionRepository:
    """Notes on the sessions of one user in one project."""

    def __init__(self, sql: MemoryDatabase, project: str, redact: Callable[[str], str]) -> None:
        self._sql = sql
        self._project = project
        self._redact = redact

    def load(self, session_id: str) -> SessionNotes:
        """Return the notes on `session_id`; empty ones for an unknown session."""
        found = (one for one in self.all() if one.session_id == session_id)
        return next(found, SessionNotes(session_id))

    def all(self) -> list[SessionNotes]:
        rows = self._sql.execute(
            "SELECT session_id, cursor_seq, last_used, ended_seq, provider FROM memory_sessions "
            "WHERE user_id = ? AND project_id = ? ORDER BY session_id",
            (self._sql.user, self._project),
        )
        return [SessionNotes(*row) for row in rows]

    def save(self, notes: SessionNotes) -> None:
        """Store `notes`; a cursor never goes back."""
        own = (self._sql.user, notes.session_id, self._project)
        self._sql.run(
            "INSERT INTO memory_sessions (user_id, session_id, project_id, cursor_seq, last_used, "
            "ended_seq, provider) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (user_id, session_id) "
            "DO UPDATE SET cursor_seq = CASE WHEN excluded.cursor_seq > memory_sessions.cursor_seq "
            "THEN excluded.cursor_seq ELSE memory_sessions.cursor_seq END, last_used = "
            "excluded.last_used, ended_seq = excluded.ended_seq, provider = excluded.provider",
            (*own, notes.cursor, notes.last_used, notes.ended, notes.provider),
        )

    # --- names of the last hour ---

    def mention(self, session_id: str, mentions: Iterable[Mention], now: float) -> None:
        """Store what was named in `session_id` now; of each kind the newest are kept.

        Secrets are replaced, and what memory does not store is left out.
        """
        with self._sql.transaction():
            for one in mentions:
                name = " ".join(self._redact(one.name).split())
                if not name or len(name) > LONGEST_NAME or why_not_kept(name) is not None:
                    continue
                row: dict[str, object] = {"project_id": self._project, "session_id": session_id}
                row |= {"kind": one.kind, "name": name, "seen": now}
                self._sql.put("short_term", row, key=("session_id", "kind", "name"))
            for kind in KINDS:
                old = [one for one in self.recent(now) if one.kind == kind]
                old = [one for one in old if one.session_id == session_id][MOST_NAMES:]
                for one in old:
                    self._sql.run(
                        "DELETE FROM short_term WHERE user_id = ? AND session_id = ? AND kind = ? "
                        "AND name = ?",
                        (self._sql.user, session_id, kind, one.name),
                    )

    def recent(self, now: float) -> list[Mention]:
        """Return the things named in this project in the hour before `now`, newest first."""
        rows = self._sql.execute(
            "SELECT kind, name, seen, session_id FROM short_term WHERE user_id = ? "
            "AND project_id = ? AND seen > ? ORDER BY seen DESC, kind, name",
            (self._sql.user, self._project, now - IDLE_SECONDS),
        )
        return [Mention(*row) for row in rows]

    def expire(self, now: float) -> int:
        """Delete the user's names that are older than an hour, bytes included; returns how many."""
        if self._sql.read_only:
            return 0
        gone = self._sql.run(
            "DELETE FROM short_term WHERE user_id = ? AND seen <= ?",
            (self._sql.user, now - IDLE_SECONDS),
        )
        if gone:
            self._sql.scrub("short_term")
        return gone


def named_in(text: str, *, request: bool = False) -> list[Mention]:
    """Return the files and servers that `text` names, and, with `request`, the text as a request.

    Found by their form ("deploy/a.yaml", "heron.example.org", "ssh heron").
    """
    found: list[Mention] = []
    rest = text
    for pattern in (_URL, _REMOTE, _HOST, _ADDRESS):
        found += [Mention("server", one[1].rstrip(".")) for one in pattern.finditer(rest)]
        rest = pattern.sub(" ", rest)
    paths = (one[1].rstrip(".") for one in _PATH.finditer(rest))
    found += [Mention("file", path) for path in paths if not _NO_FILE.fullmatch(path)]
    if request and (name := gist(text, LONGEST_NAME)):
        found.append(Mention("request", name))
    return list(dict.fromkeys(found))


def refers_back(text: str) -> bool:
    """Return whether `text` speaks of something named before ("that server", "de antes")."""
    return _REFERS_BACK.search(text) is not None
