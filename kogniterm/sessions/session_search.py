"""Full-text search over what was said, proposed and observed in all sessions.

The index is derived: one row for each turn, written for many turns at once, because a row at a
time would cost more than the records themselves. A search first adds what is missing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kogniterm.errors import StorageCorruptError
from kogniterm.sessions.journal.codec import stored_records
from kogniterm.sessions.records import Compacted, InputReceived, NodeRan, Outcome, RecordBody
from kogniterm.storage.database import Database, Row
from kogniterm.text.language import fold_case

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage


@dataclass(frozen=True, slots=True)
class Hit:
    """A turn that holds the words; `excerpt` is one line round the first of them."""

    session_id: str
    turn: int
    excerpt: str


def _add_text(database: Database, session_id: str, turn: int, texts: Sequence[str]) -> None:
    """Index the text of a turn, if it has any."""
    text = storable("\n".join(part for part in texts if part))
    if text:
        database.execute(
            "INSERT INTO turn_texts (session_id, turn, text, words) VALUES (?, ?, ?, ?)",
            (session_id, turn, text, " ".join(words_of(text))),
        )


def add_missing(database: Database, session_id: str) -> None:
    """Index what the index does not cover yet: the last turns, a copied session."""
    with database.transaction():
        # Written before it is read: whoever else wants to index this session waits here.
        database.execute("UPDATE sessions SET turns = turns WHERE id = ?", (session_id,))
        rows = database.execute(
            "SELECT indexed_seq, turns FROM sessions WHERE id = ?", (session_id,)
        )
        for covered, turn in rows:
            _add_from(database, session_id, covered, turn)


def _add_from(database: Database, session_id: str, covered: int, turn: int) -> None:
    last = covered
    for number, texts, seq in _turns_from(database, session_id, covered, turn):
        _add_text(database, session_id, number, texts)
        last = seq
    if last > covered:
        database.execute("UPDATE sessions SET indexed_seq = ? WHERE id = ?", (last, session_id))


def _turns_from(
    database: Database, session_id: str, covered: int, turn: int
) -> Iterator[tuple[int, list[str], int]]:
    """The turns behind the record `covered`, which belongs to `turn`: number, texts, last one."""
    texts: list[str] = []
    last = covered
    for stored in stored_records(database, session_id, covered + 1):
        with suppress(StorageCorruptError):
            body = stored.record().body
            if isinstance(body, InputReceived):
                yield turn, texts, last
                turn, texts = body.turn, []
            texts.append(text_of(body))
        last = stored.seq
    if last > covered:
        yield turn, texts, last


def find(database: Database, query: str, limit: int) -> list[Hit]:
    """The turns with a word beginning like each word of `query`, best first."""
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
    rows = [*rows, *_indexed(database, words, limit)][:limit]
    return [Hit(session_id, turn, excerpt(text, words)) for session_id, turn, text in rows]


def _indexed(database: Database, words: Sequence[str], limit: int) -> list[Row]:
    """(session id, turn, text) of turns with a word beginning like each one, best first."""
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
    """The same for turns that are not in the index, where nothing can be written."""
    for number, texts, _last in _turns_from(database, session_id, covered, turn):
        text = storable("\n".join(part for part in texts if part))
        there = words_of(text)
        if all(any(one.startswith(word) for one in there) for word in words):
            yield session_id, number, text


CLIP = 20_000
"""Characters of one record that are indexed; beyond that lies raw output nobody searches for."""

EXCERPT = 120
_WORD = re.compile(r"[^\W_]+")


def messages_of(body: RecordBody) -> tuple[BaseMessage, ...]:
    """The messages a record adds to the history; those of sub-agents are not part of it."""
    match body:
        case InputReceived(message=message) | Outcome(message=message, agent=""):
            return (message,)
        case NodeRan(update=update) if not update.agent:
            return update.messages
        case Compacted(messages=messages):
            return messages
        case _:
            return ()


def text_of(body: RecordBody) -> str:
    """The searchable text of a record: what was said, proposed and observed; often nothing."""
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
    """The text of a message, whether its content is a string or a list of blocks."""
    if isinstance(message.content, str):
        return message.content
    blocks = (block if isinstance(block, str) else block.get("text") for block in message.content)
    return "\n".join(block for block in blocks if isinstance(block, str))


def is_image(block: object) -> bool:
    """Whether this is the plain form of an image among a message's content."""
    return isinstance(block, dict) and block.get("type") == "image" and "base64" in block


def storable(text: str) -> str:
    """`text` as both databases take it: no NUL, and stray bytes of a file name escaped."""
    return (
        text.replace("\x00", "\N{REPLACEMENT CHARACTER}")
        .encode("utf-8", "backslashreplace")
        .decode()
    )


def holds_words(text: str, words: str) -> bool:
    """Whether `text` holds each of the `words`, or parts of words, whatever their case."""
    folded = fold_case(text)
    return all(word in folded for word in fold_case(words).split())


def words_of(text: str) -> list[str]:
    """The words of `text` in order, without case and accents."""
    return _WORD.findall(fold_case(unicodedata.normalize("NFC", text)))


def excerpt(text: str, words: list[str]) -> str:
    """One line of `text` round the first place where one of `words` begins a word."""
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
