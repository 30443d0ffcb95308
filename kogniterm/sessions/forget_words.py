"""Remove words from everything the sessions keep, with the chain still provable.

A record's payload is replaced by one without the words. Its hash stays, because it covers a
salted digest of the payload, which is kept in place of the payload (the salt is removed, so the
digest cannot confirm a guess). A later record of the same chain lists the changed records with the
digests of their new payloads: `chain_audit.verify` accepts exactly that, and nothing else.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from kogniterm.errors import UsageError
from kogniterm.sessions.chain_audit import FORGOTTEN
from kogniterm.sessions.journal import codec
from kogniterm.sessions.journal.codec import StoredRecord, stored_records
from kogniterm.sessions.journal.journal import SessionJournal, refresh_row
from kogniterm.sessions.journal.ownership import SessionBusyError
from kogniterm.sessions.records import Noted
from kogniterm.sessions.session_search import add_missing, is_image, words_of
from kogniterm.sessions.store import SessionInfo, SessionStore
from kogniterm.text.matching import Matcher
from kogniterm.types import Phrase


class ForgetReport(NamedTuple):
    """The records from which the words were removed, by session id.

    `busy` names each session that could not be cleaned because another process has it open.
    """

    records: Mapping[str, tuple[int, ...]]
    busy: tuple[Phrase, ...] = ()


def forget(
    store: SessionStore, terms: Sequence[str], *, live: Mapping[str, SessionJournal] | None = None
) -> ForgetReport:
    """Replace `terms` by `[forgotten]` in every session, however they are written.

    `live` are journals that this process has open, by session id; their state is read again, so
    messages of the old state must be fetched again. A session that another process has open is
    left alone and reported. Output files, copies that the user exported, and the log and backups
    of a shared server are not searched.

    Raises `UsageError` when there is nothing to forget.
    """
    if not terms or not all(term.strip() for term in terms):
        raise UsageError("Specify the text to forget.")
    cleaner = Cleaner(terms)
    for journal in (live or {}).values():
        journal.settle_kept()  # outcomes kept in memory are in no file that is searched
    # The index has no entry by session, so it is read whole.
    rows = store.database.each("SELECT session_id, text, words FROM turn_texts")
    indexed = {one for one, text, words in rows if cleaner.holds(text) or cleaner.holds(words)}
    found: dict[str, tuple[int, ...]] = {}
    busy: list[Phrase] = []
    for info in store.sessions(limit=1_000_000):
        try:
            held = cleaner.holds(info.title) or info.id in indexed
            records = _clean_session(store, info, cleaner, (live or {}).get(info.id), held=held)
        except SessionBusyError as error:
            busy.append(error.text)
            continue
        if records is not None:
            found[info.id] = records
        ((draft,),) = store.database.execute("SELECT draft FROM sessions WHERE id = ?", (info.id,))
        cleaned = cleaner.text(draft)
        if cleaned != draft:
            store.save_draft(info.id, cleaned)
    store.database.scrub()
    return ForgetReport(found, tuple(busy))


def _clean_session(
    store: SessionStore,
    info: SessionInfo,
    cleaner: Cleaner,
    live: SessionJournal | None,
    *,
    held: bool,
) -> tuple[int, ...] | None:
    """Return the numbers of the changed records; None when nothing here held the words.

    With `held`, something besides the records does.
    """
    if not (held or _holding(store, info.id, cleaner)):
        return None
    journal = live or store.hold(info.id)
    try:
        journal.settle_kept()  # otherwise they would enter the journal after this
        # Searched again: a process that had it open until now may have written.
        rows = _holding(store, info.id, cleaner)
        digests = {str(one.row.seq): codec.payload_digest(one.salt, one.payload) for one in rows}
        # First the record that explains the change: a crash in between leaves the words in place,
        # to be forgotten again, and never a change without an explanation.
        journal.append(Noted(FORGOTTEN, {"records": digests}), durable=True)
        with store.database.transaction(durable=True):
            for one in rows:
                store.database.execute(
                    "UPDATE records SET payload = ?, salt = ?, amended = ? "
                    "WHERE session_id = ? AND seq = ?",
                    (one.payload, one.salt, one.row.digest(), info.id, one.row.seq),
                )
            store.database.execute("DELETE FROM turn_texts WHERE session_id = ?", (info.id,))
            store.database.execute(
                "UPDATE sessions SET indexed_seq = 0, title = '' WHERE id = ?", (info.id,)
            )
            refresh_row(store.database, info.id)
        add_missing(store.database, info.id)
        _clean_index(store, info.id, cleaner)
        journal.reload()
    finally:
        if live is None:
            journal.close()
    return tuple(one.row.seq for one in rows)


class _Cleaned(NamedTuple):
    """A record that held the words, and its new content."""

    row: StoredRecord
    payload: str
    salt: str


def _holding(store: SessionStore, session_id: str, cleaner: Cleaner) -> list[_Cleaned]:
    """Return the records that hold the words, each with its payload without them."""
    return [
        _Cleaned(row, payload, secrets.token_hex(8))
        for row in stored_records(store.database, session_id)
        if (payload := cleaner.payload(row.payload)) != row.payload
    ]


def _indexed_texts(store: SessionStore, session_id: str, cleaner: Cleaner) -> dict[int, list[str]]:
    """Return the texts of the turns whose entry in the search index holds the words."""
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
    """Remove words from the index that span the end of one record and the start of the next."""
    execute = store.database.execute
    with store.database.transaction(durable=True):
        for turn, texts in _indexed_texts(store, session_id, cleaner).items():
            execute("DELETE FROM turn_texts WHERE session_id = ? AND turn = ?", (session_id, turn))
            for text in map(cleaner.text, texts):
                execute(
                    "INSERT INTO turn_texts (session_id, turn, text, words) VALUES (?, ?, ?, ?)",
                    (session_id, turn, text, cleaner.text(" ".join(words_of(text)))),
                )


REPLACEMENT = "[forgotten]"
_FORGOTTEN_IMAGE = {"type": "text", "text": REPLACEMENT}
_CONTENT_BLOCKS = frozenset({"text", "base64", "mime_type", "template", "values", "type", "data"})
_PROGRAM_WORDS = frozenset({"type", "kind", "stop", "node", "template"})
"""Fields whose value the program chose; every id is one, too."""

_GIVEN = frozenset({"args", "arguments"})
"""Fields with the arguments of a tool call: in them, every value comes from the model."""


class Cleaner:
    """Replaces terms, however they are written; the same matcher proves their removal."""

    def __init__(self, terms: Sequence[str]) -> None:
        self._matcher = Matcher(terms)

    def text(self, text: str) -> str:
        """Return `text` without the terms."""
        return self._matcher.replace_texts(text, REPLACEMENT)

    def holds(self, text: str) -> bool:
        """Return whether `text` holds one of the terms."""
        return self._matcher.holds(text)

    def payload(self, payload: str) -> str:
        """Return a stored payload without the terms; the same string when it holds none."""
        try:
            value = json.loads(payload)
        except ValueError:
            return self.text(payload)
        cleaned = self._value(value)
        if self.holds(codec.dumps(cleaned)):
            cleaned = self._apart(cleaned)
        return payload if cleaned == value else codec.dumps(cleaned)

    def _value(self, value: Any, *, given: bool = False) -> Any:
        """Return any value of a payload without the terms; `given` in the arguments of a tool."""
        if isinstance(value, str):
            return self.text(value)
        if is_image(value):
            # An image cannot be searched for words: its letters may hold them by chance.
            held = any(term in value["base64"] for term in self._matcher.texts)
            return _FORGOTTEN_IMAGE if held else value
        if isinstance(value, list):
            cleaned = [self._value(item, given=given) for item in value]
            if cleaned != value and any(map(is_image, value)):
                # The words beside an image tell what the image shows.
                return [_FORGOTTEN_IMAGE if is_image(block) else block for block in cleaned]
            return cleaned
        if isinstance(value, dict) and value.keys() == {codec.BYTES}:
            content = codec.from_plain(value).decode("utf-8", "surrogateescape")
            return codec.to_plain(self.text(content).encode("utf-8", "surrogateescape"))
        if isinstance(value, dict):
            called = "args" in value or "tool_call_id" in value
            return {
                key if _is_field(key) else self.text(key): item
                if not given and _is_programs(key, item, called)
                else self._value(item, given=given or (key in _GIVEN and isinstance(item, dict)))
                for key, item in value.items()
            }
        return value

    def _apart(self, value: Any) -> Any:
        """Return `value` without texts that form a term only together with those beside them.

        Field names and values chosen by the program are kept: they contain no text of the user.
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
        """Return whether a text forms a term together with its key, which is no field's name."""
        own = isinstance(item, str) and not _is_field(key)
        return own and self.holds(codec.dumps({key: item}))


def _is_field(key: str) -> bool:
    return key in _names() or key.startswith("__")


def _is_programs(key: str, value: Any, called: bool) -> bool:
    """Return whether the program chose the value under `key`; `called`: in a tool call."""
    if key == "usage_metadata":
        return True
    if not isinstance(value, str):
        return False
    if key in _PROGRAM_WORDS or key == "id" or key.endswith("_id") or (called and key == "name"):
        return True
    return key in _names() and value in _choices()


@cache
def _names() -> frozenset[str]:
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

    found = set(_CONTENT_BLOCKS)
    for owner in _dataclasses():
        found.update(field.name for field in fields(owner))
    for message in (AIMessage, HumanMessage, SystemMessage, ToolMessage):
        found.update(message.model_fields)
    return frozenset(found | {"args"})


@cache
def _choices() -> frozenset[str]:
    """Return the values of all fields that have fixed ones."""
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
    found: list[Any] = list(codec.KINDS.values())
    for owner in found:  # grows meanwhile
        parts = dict.fromkeys(one for one in _parts(owner) if is_dataclass(one))
        found += [one for one in parts if one not in found]
    return tuple(found)


def _parts(owner: Any) -> list[Any]:
    """Return the types of a dataclass's fields, and the types that these consist of."""
    ahead = list(get_type_hints(owner, localns=codec.HINTS).values())
    found = []
    while ahead:
        hint = ahead.pop()
        found.append(hint)
        ahead += () if get_origin(hint) is Literal else get_args(hint)
    return found
