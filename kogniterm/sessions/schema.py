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

SQLITE = (
    Migration(
        1,
        "journal",
        (
            f"CREATE TABLE sessions (id TEXT PRIMARY KEY, {_SESSION_COLUMNS})",
            "CREATE INDEX sessions_updated ON sessions (updated)",
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
            "text, tokenize = 'unicode61 remove_diacritics 2')",
        ),
    ),
    Migration(
        3,
        "leases",
        (
            "CREATE TABLE leases (session_id TEXT PRIMARY KEY REFERENCES sessions (id) "
            "ON DELETE CASCADE, holder TEXT NOT NULL, host TEXT NOT NULL, boot TEXT NOT NULL, "
            "pid INTEGER NOT NULL, started TEXT NOT NULL, expires DOUBLE PRECISION NOT NULL)",
        ),
    ),
)
"""SQLite's schema; the file belongs to one person."""
