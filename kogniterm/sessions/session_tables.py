"""The tables of the sessions room, as numbered migrations for both databases.

`records` is the journal and the only truth. `sessions` holds one row for each journal with what
a list shows, the unsent draft, and a snapshot of the folded state: all of it but the draft can
be made again from the records. `turn_texts` is the search index.
"""

from __future__ import annotations

from kogniterm.storage.drivers import Migration, Schema, own_rows

ROOM = "sessions"

_SESSION_COLUMNS = """id TEXT NOT NULL,
    folder TEXT NOT NULL,
    title TEXT NOT NULL DEFAULT '',
    model TEXT NOT NULL DEFAULT '',
    created DOUBLE PRECISION NOT NULL,
    updated DOUBLE PRECISION NOT NULL,
    turns INTEGER NOT NULL DEFAULT 0,
    parent TEXT,
    parent_seq INTEGER,
    draft TEXT NOT NULL DEFAULT '',
    snapshot TEXT"""

_RECORD_COLUMNS = """session_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    time DOUBLE PRECISION NOT NULL,
    kind TEXT NOT NULL,
    request_id TEXT,
    salt TEXT NOT NULL,
    payload TEXT NOT NULL,
    previous TEXT NOT NULL,
    hash TEXT NOT NULL,
    amended TEXT"""

_LEASE_COLUMNS = """session_id TEXT NOT NULL,
    host TEXT NOT NULL,
    boot TEXT NOT NULL,
    pid INTEGER NOT NULL,
    started TEXT NOT NULL,
    expires DOUBLE PRECISION NOT NULL"""

_HEAD_COLUMNS = """owner TEXT NOT NULL,
    id TEXT NOT NULL DEFAULT '',
    n INTEGER NOT NULL DEFAULT 0,
    hash TEXT NOT NULL DEFAULT ''"""

_USER = "user_id TEXT NOT NULL DEFAULT current_setting('kogniterm.user_id')"


def _table(name: str, columns: str, key: str, *, shared: bool, of_session: bool) -> tuple[str, ...]:
    """Statements that make a table; in a shared one each user sees only their own rows."""
    mine = "user_id, " if shared else ""
    parts = [_USER, columns] if shared else [columns]
    if of_session:
        parts.append(
            f"FOREIGN KEY ({mine}session_id) REFERENCES sessions ({mine}id) ON DELETE CASCADE"
        )
    if key:
        parts.append(f"PRIMARY KEY ({mine}{key})")
    made = f"CREATE TABLE {name} ({', '.join(parts)})"
    return (made, *own_rows(name)) if shared else (made,)


def _search_tables(shared: bool) -> tuple[str, ...]:
    if not shared:
        return (
            "CREATE VIRTUAL TABLE turn_texts USING fts5(session_id UNINDEXED, turn UNINDEXED, "
            "text UNINDEXED, words, detail = none, tokenize = 'unicode61 remove_diacritics 0')",
        )
    columns = (
        "session_id TEXT NOT NULL, turn INTEGER NOT NULL, text TEXT NOT NULL, words TEXT NOT NULL"
    )
    return (
        *_table("turn_texts", columns, "", shared=True, of_session=True),
        "CREATE INDEX turn_texts_words ON turn_texts USING gin (to_tsvector('simple', words))",
        "CREATE INDEX turn_texts_session ON turn_texts (user_id, session_id)",
    )


def _head_tables(shared: bool) -> tuple[str, ...]:
    """The table `heads` remembers the head files.

    That beside a file has one row, made with the table, so that a row that is missing was removed.
    A server has one for each machine, and `removals` tells the other machines which sessions one of
    them deleted.
    """
    heads = _table("heads", _HEAD_COLUMNS, "owner", shared=shared, of_session=False)
    if not shared:
        return (*heads, "INSERT INTO heads (owner) VALUES ('')")
    columns = (
        "session_id TEXT NOT NULL, owner TEXT NOT NULL, records INTEGER NOT NULL, "
        "hash TEXT NOT NULL, time DOUBLE PRECISION NOT NULL"
    )
    return (*heads, *_table("removals", columns, "", shared=True, of_session=False))


def _migrations(*, shared: bool) -> tuple[Migration, ...]:
    """The steps for PostgreSQL, which several users and machines share, or for a file."""
    mine = "user_id, " if shared else ""
    journal = (
        *_table("sessions", _SESSION_COLUMNS, "id", shared=shared, of_session=False),
        *_table("records", _RECORD_COLUMNS, "session_id, seq", shared=shared, of_session=True),
        # A request has at most one intent and one outcome: the database itself refuses to start a
        # command twice, whatever the program does.
        f"CREATE UNIQUE INDEX records_once ON records ({mine}session_id, kind, request_id) "
        "WHERE kind IN ('intent', 'outcome')",
    )
    indexed = "ALTER TABLE sessions ADD COLUMN indexed_seq INTEGER NOT NULL DEFAULT 0"
    leases = _table("leases", _LEASE_COLUMNS, "session_id", shared=shared, of_session=True)
    # Snapshots are compared with the records from the fifth step on: all are made anew.
    anew = "UPDATE sessions SET snapshot = NULL"
    return (
        Migration(1, "journal", journal),
        Migration(2, "search", (*_search_tables(shared), indexed)),
        Migration(3, "leases", leases),
        # No table changes: records may name a sub-agent now, and a version that does not know of
        # them would take its messages for the main history's.
        Migration(4, "agents"),
        Migration(5, "heads", (*_head_tables(shared), anew)),
    )


SQLITE = _migrations(shared=False)
POSTGRES = _migrations(shared=True)

SESSIONS = Schema(
    ROOM,
    SQLITE,
    POSTGRES,
    ("records", "turn_texts", "sessions", "leases", "removals"),
    indexes=("turn_texts",),
    commits_late=True,
    any_text=True,
)
