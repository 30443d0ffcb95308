"""Taking words out of everything the sessions keep, with the chain still provable.

A record's payload is replaced by one without the words. Its hash stays, because it covers a
salted digest of the payload, which is kept in the payload's stead (the salt goes, so the digest
cannot confirm a guess). A later record of the same chain lists the changed records with the
digests of what they hold now: `audit.verify` accepts exactly that, and nothing else.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

from kogniterm.errors import UsageError
from kogniterm.sessions.chain_audit import FORGOTTEN
from kogniterm.sessions.journal import codec
from kogniterm.sessions.journal.codec import StoredRecord, stored_records
from kogniterm.sessions.journal.journal import SessionJournal
from kogniterm.sessions.journal.ownership import SessionBusyError
from kogniterm.sessions.records import Noted
from kogniterm.sessions.session_search import add_missing, is_image, words_of
from kogniterm.sessions.session_transfer import refresh_row
from kogniterm.sessions.store import SessionInfo, SessionStore
from kogniterm.text.matching import Matcher
from kogniterm.types import Phrase


@dataclass(frozen=True, slots=True)
class ForgetReport:
    """Where the words stood and stand no more: records by session id.

    `busy` says of each session that another process has open that it could not be cleaned.
    """

    records: Mapping[str, tuple[int, ...]]
    busy: tuple[Phrase, ...] = ()


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
    busy: list[Phrase] = []
    for info in store.sessions(limit=1_000_000):
        try:
            records = _clean_session(store, info, cleaner, (live or {}).get(info.id))
        except SessionBusyError as error:
            busy.append(error.text)
            continue
        if records is not None:
            found[info.id] = records
        _clean_draft(store, info.id, cleaner)
    store.database.scrub()
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
        or _indexed(store, info.id, cleaner)
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
        with store.database.transaction(durable=True):
            for one in rows:
                one.replace(store, info.id)
            store.database.execute("DELETE FROM turn_texts WHERE session_id = ?", (info.id,))
            store.database.execute(
                "UPDATE sessions SET indexed_seq = 0, title = '' WHERE id = ?", (info.id,)
            )
            refresh_row(store, info.id)
        add_missing(store.database, info.id)
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
        store.database.execute(
            "UPDATE records SET payload = ?, salt = ?, amended = ? "
            "WHERE session_id = ? AND seq = ?",
            (self.payload, self.salt, self.row.digest(), session_id, self.row.seq),
        )


def _holding(store: SessionStore, session_id: str, cleaner: Cleaner) -> list[_Cleaned]:
    """The records that hold the words, each with its payload without them."""
    return [
        _Cleaned(row, payload, secrets.token_hex(8))
        for row in stored_records(store.database, session_id)
        if (payload := cleaner.payload(row.payload)) != row.payload
    ]


def _indexed(store: SessionStore, session_id: str, cleaner: Cleaner) -> dict[int, list[str]]:
    """The texts of the turns whose entry in the search index holds the words."""
    texts: dict[int, list[str]] = {}
    held = set()
    for turn, text, words in store.database.execute(
        "SELECT turn, text, words FROM turn_texts WHERE session_id = ?", (session_id,)
    ):
        texts.setdefault(turn, []).append(text)
        if cleaner.holds(text) or cleaner.holds(words):
            held.add(turn)
    return {turn: texts[turn] for turn in held}


def _clean_index(store: SessionStore, session_id: str, cleaner: Cleaner) -> None:
    """Take the words out of the index where two records that end and begin with them meet."""
    execute = store.database.execute
    with store.database.transaction():
        for turn, texts in _indexed(store, session_id, cleaner).items():
            execute("DELETE FROM turn_texts WHERE session_id = ? AND turn = ?", (session_id, turn))
            for text in map(cleaner.text, texts):
                execute(
                    "INSERT INTO turn_texts (session_id, turn, text, words) VALUES (?, ?, ?, ?)",
                    (session_id, turn, text, cleaner.text(" ".join(words_of(text)))),
                )


def _clean_draft(store: SessionStore, session_id: str, cleaner: Cleaner) -> None:
    ((draft,),) = store.database.execute("SELECT draft FROM sessions WHERE id = ?", (session_id,))
    cleaned = cleaner.text(draft)
    if cleaned != draft:
        store.save_draft(session_id, cleaned)


REPLACEMENT = "[forgotten]"
_FORGOTTEN_IMAGE = {"type": "text", "text": REPLACEMENT}
_CONTENT_BLOCKS = frozenset({"text", "base64", "mime_type", "template", "values", "type", "data"})
_PROGRAM_WORDS = frozenset({"type", "kind", "stop", "node", "template"})
"""Fields whose value the program chose; with them every id."""

_GIVEN = frozenset({"args", "arguments"})
"""Fields with what a model gave to a tool: there, no name says that the program chose a value."""


class Cleaner:
    """Replaces terms, however they are written; what finds them proves that they are gone."""

    def __init__(self, terms: Sequence[str]) -> None:
        self._matcher = Matcher(terms)

    def text(self, text: str) -> str:
        """`text` without the terms."""
        return self._matcher.replaced(text, REPLACEMENT)

    def holds(self, text: str) -> bool:
        """Whether `text` holds one of the terms."""
        return self._matcher.holds(text)

    def payload(self, payload: str) -> str:
        """A stored payload without the terms; the same string when it holds none."""
        try:
            value = json.loads(payload)
        except ValueError:
            return self.text(payload)
        cleaned = self._value(value)
        if self.holds(codec.dumps(cleaned)):
            cleaned = self._apart(cleaned)
        return payload if cleaned == value else codec.dumps(cleaned)

    def _value(self, value: Any, *, given: bool = False) -> Any:
        """Any value of a payload without the terms; `given` in the arguments of a tool."""
        if isinstance(value, str):
            return self.text(value)
        if is_image(value):
            # A picture cannot be searched for words: by chance they stand in its letters.
            held = any(term in value["base64"] for term in self._matcher.texts)
            return _FORGOTTEN_IMAGE if held else value
        if isinstance(value, list):
            cleaned = [self._value(item, given=given) for item in value]
            if cleaned != value and any(map(is_image, value)):
                # What was said with an image tells what the image shows.
                return [_FORGOTTEN_IMAGE if is_image(block) else block for block in cleaned]
            return cleaned
        if isinstance(value, dict) and value.keys() == {codec.BYTES}:
            return self._bytes(value)
        if isinstance(value, dict):
            return self._fields(value, given)
        return value

    def _fields(self, value: dict[str, Any], given: bool) -> dict[str, Any]:
        called = "args" in value or "tool_call_id" in value
        return {
            self._key(key): item
            if not given and _is_programs(key, item, called)
            else self._value(item, given=given or (key in _GIVEN and isinstance(item, dict)))
            for key, item in value.items()
        }

    def _apart(self, value: Any) -> Any:
        """`value` without the texts that make up a term only with what stands beside them.

        The names of fields and what the program chose make up none: they stay.
        """
        if isinstance(value, list):
            value = [self._apart(item) for item in value]
            texts = [item for item in value if isinstance(item, str)]
            together = self.holds(codec.dumps(texts))
            return [REPLACEMENT if together and item in texts else item for item in value]
        if isinstance(value, dict) and not is_image(value) and value.keys() != {codec.BYTES}:
            return {
                key: REPLACEMENT if self._joins(key, item) else self._apart(item)
                for key, item in value.items()
            }
        return value

    def _joins(self, key: str, item: Any) -> bool:
        """Whether a text makes up a term together with its key, which is no field's name."""
        own = key not in _names() and not key.startswith("__")
        return own and isinstance(item, str) and self.holds(codec.dumps({key: item}))

    def _bytes(self, tagged: dict[str, Any]) -> dict[str, Any]:
        content = codec.from_plain(tagged).decode("utf-8", "surrogateescape")
        return codec.to_plain(self.text(content).encode("utf-8", "surrogateescape"))  # type: ignore[no-any-return]  # bytes give a tag

    def _key(self, key: str) -> str:
        return key if key in _names() or key.startswith("__") else self.text(key)


def _is_programs(key: str, value: Any, called: bool) -> bool:
    """Whether the value under `key` was chosen by the program; `called`: in a tool call."""
    if key == "usage_metadata":
        return True
    if not isinstance(value, str):
        return False
    if key in _PROGRAM_WORDS or key == "id" or key.endswith("_id") or (called and key == "name"):
        return True
    return key in _names() and value in _choices()


@cache
def _names() -> frozenset[str]:
    """The names of all fields that records and messages have."""
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

    found = set(_CONTENT_BLOCKS)
    for owner in _dataclasses():
        found.update(field.name for field in fields(owner))
    for message in (AIMessage, HumanMessage, SystemMessage, ToolMessage):
        found.update(message.model_fields)
    return frozenset(found | {"args"})


@cache
def _choices() -> frozenset[str]:
    """The values of all fields that have fixed ones."""
    return frozenset(
        choice
        for owner in _dataclasses()
        for part in _parts(owner)
        if get_origin(part) is Literal
        for choice in get_args(part)
        if isinstance(choice, str)
    )


@cache
def _dataclasses() -> tuple[Any, ...]:
    """Every dataclass that a record may hold."""
    found: dict[Any, None] = {}
    ahead: list[Any] = list(codec.KINDS.values())
    while ahead:
        owner = ahead.pop()
        if owner in found:
            continue
        found[owner] = None
        ahead += [one for one in _parts(owner) if isinstance(one, type) and is_dataclass(one)]
    return tuple(found)


def _parts(owner: Any) -> list[Any]:
    """The types of the fields of a dataclass, and the types that these are made of."""
    ahead = list(get_type_hints(owner, localns=codec.HINTS).values())
    found = []
    while ahead:
        hint = ahead.pop()
        found.append(hint)
        ahead += () if get_origin(hint) is Literal else get_args(hint)
    return found
