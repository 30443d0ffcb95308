"""Full-text search over what was said, proposed and observed in all sessions.

The index is derived: one row for each turn, written for many turns at once, because a row at a
time would cost more than the records themselves. A search first adds what is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from kogniterm.errors import StorageCorruptError
from kogniterm.sessions.backend import Backend, Row
from kogniterm.sessions.records import InputReceived
from kogniterm.sessions.stored import stored_records
from kogniterm.sessions.texts import excerpt, storable, text_of, words_of


@dataclass(frozen=True, slots=True)
class Hit:
    """A turn that holds the words; `excerpt` is one line round the first of them."""

    session_id: str
    turn: int
    excerpt: str


def _add_text(backend: Backend, session_id: str, turn: int, texts: Sequence[str]) -> None:
    """Index the text of a turn, if it has any."""
    text = storable("\n".join(part for part in texts if part))
    if text:
        backend.execute(
            "INSERT INTO turn_texts (session_id, turn, text, words) VALUES (?, ?, ?, ?)",
            (session_id, turn, text, " ".join(words_of(text))),
        )


def add_missing(backend: Backend, session_id: str) -> None:
    """Index what the index does not cover yet: the last turns, a copied session."""
    with backend.transaction():
        # Written before it is read: whoever else wants to index this session waits here.
        backend.execute("UPDATE sessions SET turns = turns WHERE id = ?", (session_id,))
        rows = backend.execute(
            "SELECT indexed_seq, turns FROM sessions WHERE id = ?", (session_id,)
        )
        for covered, turn in rows:
            _add_from(backend, session_id, covered, turn)


def _add_from(backend: Backend, session_id: str, covered: int, turn: int) -> None:
    last = covered
    for number, texts, seq in _turns_from(backend, session_id, covered, turn):
        _add_text(backend, session_id, number, texts)
        last = seq
    if last > covered:
        backend.execute("UPDATE sessions SET indexed_seq = ? WHERE id = ?", (last, session_id))


def _turns_from(
    backend: Backend, session_id: str, covered: int, turn: int
) -> Iterator[tuple[int, list[str], int]]:
    """The turns behind the record `covered`, which belongs to `turn`: number, texts, last one."""
    texts: list[str] = []
    last = covered
    for stored in stored_records(backend, session_id, covered + 1):
        with suppress(StorageCorruptError):
            body = stored.record().body
            if isinstance(body, InputReceived):
                yield turn, texts, last
                turn, texts = body.turn, []
            texts.append(text_of(body))
        last = stored.seq
    if last > covered:
        yield turn, texts, last


def find(backend: Backend, query: str, limit: int) -> list[Hit]:
    """The turns with a word beginning like each word of `query`, best first."""
    words = words_of(query)
    if not words:
        return []
    stale = backend.execute(
        "SELECT id, indexed_seq, turns FROM sessions WHERE EXISTS (SELECT 1 FROM records WHERE "
        "records.session_id = sessions.id AND records.seq > sessions.indexed_seq "
        "AND records.kind IN ('input', 'node', 'outcome'))"
    )
    rows: list[Row] = []
    for session_id, covered, turn in stale:
        if backend.read_only:
            rows += _read_through(backend, session_id, covered, turn, words)
        else:
            add_missing(backend, session_id)
    rows = [*rows, *backend.search(words, limit)][:limit]
    return [Hit(session_id, turn, excerpt(text, words)) for session_id, turn, text in rows]


def _read_through(
    backend: Backend, session_id: str, covered: int, turn: int, words: Sequence[str]
) -> Iterator[Row]:
    """The same for turns that are not in the index, where nothing can be written."""
    for number, texts, _last in _turns_from(backend, session_id, covered, turn):
        text = storable("\n".join(part for part in texts if part))
        there = words_of(text)
        if all(any(one.startswith(word) for one in there) for word in words):
            yield session_id, number, text
