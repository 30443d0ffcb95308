"""Full-text search over the messages, proposals and observations of all sessions.

The index is derived: one row for each turn, written for many turns at once, because a row at a
time would cost more than the records themselves. A search first adds what is missing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from kogniterm.errors import StorageCorruptError
from kogniterm.sessions.journal.codec import stored_records
from kogniterm.sessions.records import (
    Compacted,
    InputReceived,
    NodeRan,
    Outcome,
    RecordBody,
    Rewound,
)
from kogniterm.storage.database import Database, Row
from kogniterm.text.language import fold_case

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage


class Hit(NamedTuple):
    """A turn that holds the words; `excerpt` is one line around the first of them."""

    session_id: str
    turn: int
    excerpt: str


_WITH_TEXT = ("input", "node", "outcome")
"""The kinds of records that `text_of` finds words in."""


def add_missing(database: Database, session_id: str) -> None:
    """Index the turns of a session that the index does not cover yet."""
    with database.transaction():
        # Written before it is read: another process that indexes this session waits here.
        database.execute("UPDATE sessions SET turns = turns WHERE id = ?", (session_id,))
        row = database.one("SELECT indexed_seq, turns FROM sessions WHERE id = ?", (session_id,))
        last = None
        for number, text, seq in _turns_from(database, session_id, *row) if row else ():
            last = seq
            if text:
                database.execute(
                    "INSERT INTO turn_texts (session_id, turn, text, words) VALUES (?, ?, ?, ?)",
                    (session_id, number, text, " ".join(words_of(text))),
                )
        if last is not None:
            database.execute("UPDATE sessions SET indexed_seq = ? WHERE id = ?", (last, session_id))


def _turns_from(
    database: Database, session_id: str, covered: int, turn: int
) -> Iterator[tuple[int, str, int]]:
    """Yield number, text and last record of the turns after the record `covered` of `turn`."""
    texts: list[str] = []
    last = covered
    for stored in stored_records(database, session_id, covered + 1, kinds=_WITH_TEXT):
        with suppress(StorageCorruptError):
            body = stored.record().body
            if isinstance(body, InputReceived):
                yield turn, _join_texts(texts), last
                turn, texts = body.turn, []
            texts.append(text_of(body))
        last = stored.seq
    if last > covered:
        yield turn, _join_texts(texts), last


def _join_texts(texts: Iterable[str]) -> str:
    return storable("\n".join(part for part in texts if part))


def find(database: Database, query: str, limit: int) -> list[Hit]:
    """Return the turns with a word beginning like each word of `query`, best first."""
    words = words_of(query)
    if not words:
        return []
    stale = database.execute(
        "SELECT id, indexed_seq, turns FROM sessions WHERE EXISTS (SELECT 1 FROM records WHERE "
        "records.session_id = sessions.id AND records.seq > sessions.indexed_seq "
        "AND records.kind IN ('input', 'node', 'outcome'))"
    )
    rows: list[Row] = []
    for session_id, covered, turn in stale:
        if database.read_only:
            rows += _read_through(database, session_id, covered, turn, words)
        else:
            add_missing(database, session_id)
    rows = [*rows, *_indexed_rows(database, words, limit)][:limit]
    return [Hit(session_id, turn, excerpt(text, words)) for session_id, turn, text in rows]


def _indexed_rows(database: Database, words: Sequence[str], limit: int) -> list[Row]:
    if database.is_postgres:
        return database.execute(
            "SELECT session_id, turn, text FROM turn_texts, to_tsquery('simple', ?) AS query "
            "WHERE to_tsvector('simple', words) @@ query "
            "ORDER BY ts_rank(to_tsvector('simple', words), query) DESC, session_id, turn LIMIT ?",
            (" & ".join(f"{word}:*" for word in words), limit),
        )
    return database.execute(
        "SELECT session_id, turn, text FROM turn_texts WHERE turn_texts MATCH ? "
        "ORDER BY rank LIMIT ?",
        (" ".join(f'"{word}"*' for word in words), limit),
    )


def _read_through(
    database: Database, session_id: str, covered: int, turn: int, words: Sequence[str]
) -> Iterator[Row]:
    """Yield matching turns that are not in the index, where it cannot be written."""
    for number, text, _last in _turns_from(database, session_id, covered, turn):
        there = words_of(text)
        if all(any(one.startswith(word) for one in there) for word in words):
            yield session_id, number, text


CLIP = 20_000
"""Characters of one record that are indexed; the rest is mostly raw output."""

EXCERPT = 120
_WORD = re.compile(r"[^\W_]+")


def messages_of(body: RecordBody) -> tuple[BaseMessage, ...]:
    """Return the messages that a record adds to the main history."""
    match body:
        case InputReceived(message=message):
            return (message,)
        case Outcome(agent=""):
            return body.told
        case NodeRan(update=update) if not update.agent:
            return update.messages
        case Compacted(messages=messages) | Rewound(messages=messages):
            return messages
        case _:
            return ()


def text_of(body: RecordBody) -> str:
    """Return the searchable text of a record: said, proposed and observed; often nothing."""
    match body:
        case InputReceived(input=given):
            parts = [given.text, given.data or ""]
        case NodeRan(update=update):
            parts = [part for message in update.messages for part in _message_parts(message)]
        case Outcome(message=message):
            parts = _message_parts(message)
        case _:
            return ""
    return "\n".join(part for part in parts if part)[:CLIP]


def _message_parts(message: BaseMessage) -> list[str]:
    calls = getattr(message, "tool_calls", ())
    arguments = [
        value for call in calls for value in call["args"].values() if isinstance(value, str)
    ]
    return [content_of(message), *arguments]


def content_of(message: BaseMessage) -> str:
    """Return the text of a message, whether its content is a string or a list of blocks."""
    if isinstance(message.content, str):
        return message.content
    blocks = (block if isinstance(block, str) else block.get("text") for block in message.content)
    return "\n".join(block for block in blocks if isinstance(block, str))


def is_image(block: object) -> bool:
    """Return whether a block of a message's content is an image."""
    return isinstance(block, dict) and block.get("type") == "image" and "base64" in block


def storable(text: str) -> str:
    """Return `text` as both databases accept it: no NUL, stray bytes of a file name escaped."""
    return (
        text.replace("\x00", "\N{REPLACEMENT CHARACTER}")
        .encode("utf-8", "backslashreplace")
        .decode()
    )


def holds_words(text: str, words: str) -> bool:
    """Return whether `text` holds each of the `words`, or parts of words, in any case."""
    folded = fold_case(text)
    return all(word in folded for word in fold_case(words).split())


def words_of(text: str) -> list[str]:
    """Return the words of `text` in order, without case and accents."""
    return _WORD.findall(fold_case(unicodedata.normalize("NFC", text)))


def excerpt(text: str, words: list[str]) -> str:
    """Return one line of `text` around the first place where one of `words` begins a word."""
    plain = unicodedata.normalize("NFC", text)
    folded = fold_case(plain)
    places = [
        match.start()
        for match in _WORD.finditer(folded)
        if any(match.group().startswith(word) for word in words)
    ]
    start = max(0, (places[0] if places else 0) - EXCERPT // 3)
    line = " ".join(plain[start : start + EXCERPT].split())
    return ("…" if start else "") + line + ("…" if start + EXCERPT < len(plain) else "")
