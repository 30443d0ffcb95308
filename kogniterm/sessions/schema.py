"""The tables of the sessions room, as numbered migrations for both backends.

`records` is the journal and the only truth. `sessions` holds one row for each journal with what
a list shows, the unsent draft, and a snapshot of the folded state: all of it but the draft can
be made again from the records. `turn_texts` is the search index.
"""

from __future__ import annotations

from kogniterm.database import Migration

ROOM = "sessions"

_SESSION_COLUMNS = """
    folder TEXT NOT NULL,
    title TEXT NOT NULL DEFAULT '',
    model TEXT NOT NULL DEFAULT '',
    created DOUBLE PRECISION NOT NULL,
    updated DOUBLE PRECISION NOT NULL,
    turns INTEGER NOT NULL DEFAULT 0,
    parent TEXT,
    parent_seq INTEGER,
    draft TEXT NOT NULL DEFAULT '',
    snapshot TEXT
"""
_RECORD_COLUMNS = """
    seq INTEGER NOT NULL,
    time DOUBLE PRECISION NOT NULL,
    kind TEXT NOT NULL,
    request_id TEXT,
    salt TEXT NOT NULL,
    payload TEXT NOT NULL,
    previous TEXT NOT NULL,
    hash TEXT NOT NULL,
    amended TEXT
"""

# A request has at most one intent and one outcome: the database itself refuses to start a
# command twice, whatever the program does.
_ONCE = (
    "CREATE UNIQUE INDEX records_once ON records ({key}, kind, request_id) "
    "WHERE kind IN ('intent', 'outcome')"
)

_LEASE_COLUMNS = """
    host TEXT NOT NULL,
    boot TEXT NOT NULL,
    pid INTEGER NOT NULL,
    started TEXT NOT NULL,
    expires DOUBLE PRECISION NOT NULL
"""
_INDEXED = "ALTER TABLE sessions ADD COLUMN indexed_seq INTEGER NOT NULL DEFAULT 0"

_AGENTS = Migration(4, "agents")
"""No table changes: records may name a sub-agent now, and a version that does not know of them
would take its messages for the main history's."""

_ANEW = "UPDATE sessions SET snapshot = NULL"
"""Snapshots are compared with the records from now on: all are of this version's making."""

_HEAD_COLUMNS = """
    id TEXT NOT NULL DEFAULT '',
    n INTEGER NOT NULL DEFAULT 0,
    hash TEXT NOT NULL DEFAULT ''
"""

SQLITE = (
    Migration(
        1,
        "journal",
        (
            f"CREATE TABLE sessions (id TEXT PRIMARY KEY, {_SESSION_COLUMNS})",
            "CREATE TABLE records (session_id TEXT NOT NULL REFERENCES sessions (id) "
            f"ON DELETE CASCADE, {_RECORD_COLUMNS}, PRIMARY KEY (session_id, seq))",
            _ONCE.format(key="session_id"),
        ),
    ),
    Migration(
        2,
        "search",
        (
            "CREATE VIRTUAL TABLE turn_texts USING fts5(session_id UNINDEXED, turn UNINDEXED, "
            "text UNINDEXED, words, detail = none, tokenize = 'unicode61 remove_diacritics 0')",
            _INDEXED,
        ),
    ),
    Migration(
        3,
        "leases",
        (
            "CREATE TABLE leases (session_id TEXT PRIMARY KEY REFERENCES sessions (id) "
            f"ON DELETE CASCADE, {_LEASE_COLUMNS})",
        ),
    ),
    _AGENTS,
    Migration(
        5,
        "heads",
        (
            f"CREATE TABLE heads (owner TEXT PRIMARY KEY, {_HEAD_COLUMNS})",
            "INSERT INTO heads (owner) VALUES ('')",
            _ANEW,
        ),
    ),
)
"""SQLite's schema; the file belongs to one person. `heads` remembers the head file beside it; its
one row is made with the table, so that a row that is missing was removed."""


def _owned(table: str) -> tuple[str, ...]:
    """Nobody but the person named by `kogniterm.user_id` sees or writes a row, owners included."""
    mine = "user_id = current_setting('kogniterm.user_id')"
    return (
        f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
        f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY",
        f"CREATE POLICY own_rows ON {table} USING ({mine}) WITH CHECK ({mine})",
    )


_USER = "user_id TEXT NOT NULL DEFAULT current_setting('kogniterm.user_id')"
_SESSION_KEY = (
    "session_id TEXT NOT NULL, "
    "FOREIGN KEY (user_id, session_id) REFERENCES sessions (user_id, id) ON DELETE CASCADE"
)

POSTGRES = (
    Migration(
        1,
        "journal",
        (
            f"CREATE TABLE sessions ({_USER}, id TEXT NOT NULL, {_SESSION_COLUMNS}, "
            "PRIMARY KEY (user_id, id))",
            f"CREATE TABLE records ({_USER}, {_SESSION_KEY}, {_RECORD_COLUMNS}, "
            "PRIMARY KEY (user_id, session_id, seq))",
            _ONCE.format(key="user_id, session_id"),
            *_owned("sessions"),
            *_owned("records"),
        ),
    ),
    Migration(
        2,
        "search",
        (
            f"CREATE TABLE turn_texts ({_USER}, {_SESSION_KEY}, turn INTEGER NOT NULL, "
            "text TEXT NOT NULL, words TEXT NOT NULL)",
            "CREATE INDEX turn_texts_words ON turn_texts USING gin (to_tsvector('simple', words))",
            "CREATE INDEX turn_texts_session ON turn_texts (user_id, session_id)",
            _INDEXED,
            *_owned("turn_texts"),
        ),
    ),
    Migration(
        3,
        "leases",
        (
            f"CREATE TABLE leases ({_USER}, {_SESSION_KEY}, {_LEASE_COLUMNS}, "
            "PRIMARY KEY (user_id, session_id))",
            *_owned("leases"),
        ),
    ),
    _AGENTS,
    Migration(
        5,
        "heads",
        (
            f"CREATE TABLE heads ({_USER}, owner TEXT NOT NULL, {_HEAD_COLUMNS}, "
            "PRIMARY KEY (user_id, owner))",
            f"CREATE TABLE removals ({_USER}, session_id TEXT NOT NULL, owner TEXT NOT NULL, "
            "records INTEGER NOT NULL, hash TEXT NOT NULL, time DOUBLE PRECISION NOT NULL)",
            *_owned("heads"),
            *_owned("removals"),
            _ANEW,
        ),
    ),
)
"""PostgreSQL's schema: the same tables, shared by many people, each seeing only their own rows.
`heads` has a row for each machine's head file; `removals` tells the other machines which sessions
one of them deleted."""
