"""Taking words out of everything the sessions keep, with the chain still provable.

A record's payload is replaced by one without the words. Its hash stays, because it covers a
salted digest of the payload, which is kept in the payload's stead (the salt goes, so the digest
cannot confirm a guess). A later record of the same chain lists the changed records with the
digests of what they hold now: `audit.verify` accepts exactly that, and nothing else.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kogniterm.errors import UsageError
from kogniterm.sessions import codec
from kogniterm.sessions.audit import FORGOTTEN
from kogniterm.sessions.cleaning import Cleaner
from kogniterm.sessions.journal import SessionJournal
from kogniterm.sessions.lease import SessionBusyError
from kogniterm.sessions.records import Noted
from kogniterm.sessions.search import add_missing
from kogniterm.sessions.store import SessionInfo, SessionStore
from kogniterm.sessions.stored import StoredRecord, stored_records
from kogniterm.sessions.texts import words_of
from kogniterm.sessions.transfer import refresh_row
from kogniterm.types import Text


@dataclass(frozen=True, slots=True)
class ForgetReport:
    """Where the words stood and stand no more: records by session id.

    `busy` says of each session that another process has open that it could not be cleaned.
    """

    records: Mapping[str, tuple[int, ...]]
    busy: tuple[Text, ...] = ()


def forget(
    store: SessionStore, terms: Sequence[str], *, live: Mapping[str, SessionJournal] | None = None
) -> ForgetReport:
    """Replace `terms` by `[forgotten]` in every session, however they are written.

    `live` are journals that this process has open, by session id; their state is read again, so
    whoever holds messages of the old one must fetch them anew. A session that another process
    has open is left alone and reported. Output files, copies that the user exported, and the
    log and backups of a shared server, are not its matter.

    Raises `UsageError` when there is nothing to forget.
    """
    if not terms or not all(term.strip() for term in terms):
        raise UsageError("Say which words to forget.")
    cleaner = Cleaner(terms)
    found: dict[str, tuple[int, ...]] = {}
    busy: list[Text] = []
    for info in store.sessions(limit=1_000_000):
        try:
            records = _clean_session(store, info, cleaner, (live or {}).get(info.id))
        except SessionBusyError as error:
            busy.append(error.text)
            continue
        if records is not None:
            found[info.id] = records
        _clean_draft(store, info.id, cleaner)
    store.backend.scrub()
    return ForgetReport(found, tuple(busy))


def _clean_session(
    store: SessionStore, info: SessionInfo, cleaner: Cleaner, live: SessionJournal | None
) -> tuple[int, ...] | None:
    """The numbers of the records that were changed; None when nothing here held the words."""
    if live is not None:
        live.settle_kept()  # what it keeps in memory no search of files finds
    if not (
        _holding(store, info.id, cleaner)
        or cleaner.holds(info.title)
        or _is_indexed(store, info.id, cleaner)
    ):
        return None
    journal = live or store.hold(info.id)
    try:
        journal.settle_kept()  # or they would enter the journal behind this
        # Looked at anew: whoever had it open until now may have written.
        rows = _holding(store, info.id, cleaner)
        digests = {str(one.row.seq): codec.payload_digest(one.salt, one.payload) for one in rows}
        # First the record that accounts for it: a crash in between leaves the words in place,
        # to be forgotten again, and never a change that nothing explains.
        journal.append(Noted(FORGOTTEN, {"records": digests}), durable=True)
        with store.backend.transaction(durable=True):
            for one in rows:
                one.replace(store, info.id)
            store.backend.execute("DELETE FROM turn_texts WHERE session_id = ?", (info.id,))
            store.backend.execute(
                "UPDATE sessions SET indexed_seq = 0, title = '' WHERE id = ?", (info.id,)
            )
            refresh_row(store, info.id)
        add_missing(store.backend, info.id)
        _clean_index(store, info.id, cleaner)
        journal.reload()
    finally:
        if live is None:
            journal.close()
    return tuple(one.row.seq for one in rows)


@dataclass(frozen=True, slots=True)
class _Cleaned:
    """A record that held the words, and what takes the place of its content."""

    row: StoredRecord
    payload: str
    salt: str

    def replace(self, store: SessionStore, session_id: str) -> None:
        store.backend.execute(
            "UPDATE records SET payload = ?, salt = ?, amended = ? "
            "WHERE session_id = ? AND seq = ?",
            (self.payload, self.salt, self.row.digest(), session_id, self.row.seq),
        )


def _holding(store: SessionStore, session_id: str, cleaner: Cleaner) -> list[_Cleaned]:
    """The records that hold the words, each with its payload without them."""
    return [
        _Cleaned(row, payload, secrets.token_hex(8))
        for row in stored_records(store.backend, session_id)
        if (payload := cleaner.payload(row.payload)) != row.payload
    ]


def _is_indexed(store: SessionStore, session_id: str, cleaner: Cleaner) -> bool:
    """Whether the search index holds the words, be it from an earlier forgetting."""
    rows = store.backend.execute(
        "SELECT text, words FROM turn_texts WHERE session_id = ?", (session_id,)
    )
    return any(cleaner.holds(text) or cleaner.holds(words) for text, words in rows)


def _clean_index(store: SessionStore, session_id: str, cleaner: Cleaner) -> None:
    """Take the words out of the index where two records that end and begin with them meet."""
    backend = store.backend
    rows = backend.execute(
        "SELECT turn, text, words FROM turn_texts WHERE session_id = ?", (session_id,)
    )
    held = {turn for turn, text, words in rows if cleaner.holds(text) or cleaner.holds(words)}
    with backend.transaction():
        for turn in held:
            backend.execute(
                "DELETE FROM turn_texts WHERE session_id = ? AND turn = ?", (session_id, turn)
            )
        for turn, text, _words in rows:
            if turn in held:
                clean = cleaner.text(text)
                words = cleaner.text(" ".join(words_of(clean)))
                backend.execute(
                    "INSERT INTO turn_texts (session_id, turn, text, words) VALUES (?, ?, ?, ?)",
                    (session_id, turn, clean, words),
                )


def _clean_draft(store: SessionStore, session_id: str, cleaner: Cleaner) -> None:
    ((draft,),) = store.backend.execute("SELECT draft FROM sessions WHERE id = ?", (session_id,))
    cleaned = cleaner.text(draft)
    if cleaned != draft:
        store.save_draft(session_id, cleaned)
