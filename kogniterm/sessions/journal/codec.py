"""Records as they are stored: canonical JSON, the hash that chains them, and their rows.

Canonical means: keys sorted, no spaces, ASCII only, fields that hold their default left out.
The same body always gives the same bytes. Reading is forward compatible: fields this version
does not know are ignored, and a kind it does not know becomes a `Noted` that carries the whole
payload. The stored bytes themselves are never rewritten, so nothing is lost to a newer version.
Two rules follow for changes of `records` or `types`: a released default keeps its meaning,
and a change that an older version must not ignore raises the schema number in `session_database`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import types as python_types
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache, partial
from operator import attrgetter
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from kogniterm.errors import StorageCorruptError
from kogniterm.sessions import records
from kogniterm.sessions.records import Noted, Record, RecordBody
from kogniterm.storage.database import Database
from kogniterm.types import Phrase
from kogniterm.types.actions import current_tool, names_renamed_tool

GENESIS = "0" * 64
"""The predecessor that the first record of a chain names."""

KINDS: dict[str, type[RecordBody]] = {
    "opened": records.SessionOpened,
    "input": records.InputReceived,
    "node": records.NodeRan,
    "request": records.Requested,
    "verdict": records.Judged,
    "decision": records.Decided,
    "intent": records.Intent,
    "host_intent": records.HostIntent,
    "host_outcome": records.HostOutcome,
    "outcome": records.Outcome,
    "compacted": records.Compacted,
    "rewound": records.Rewound,
    "turn_ended": records.TurnClosed,
    "note": records.Noted,
}
"""The names of the kinds as they are stored. They are part of the format and never change."""

_NAMES = {body: name for name, body in KINDS.items()}
BYTES, _TEXT, _AS_IS = "__bytes__", "__text__", "__as_is__"
_TAGS = {BYTES, _TEXT, _AS_IS}


def kind_of(body: RecordBody) -> str:
    """Return the stored name of this body's kind."""
    return _NAMES[type(body)]


def encode(body: RecordBody) -> str:
    """Return the canonical JSON of `body`."""
    return dumps(to_plain(body))


def dumps(value: object) -> str:
    """Return the canonical JSON of plain values; lone surrogates and NUL survive as escapes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def decode(kind: str, payload: str) -> RecordBody:
    """Return the body that `encode` wrote. Raises `StorageCorruptError` if it cannot be read."""
    try:
        value = loads(payload)
        body = KINDS.get(kind)
        if body is None:
            return Noted(f"unknown.{kind}", {**value})
        return from_fields(body, value)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise StorageCorruptError(
            "A record of kind {kind} cannot be read: {detail}", kind=kind, detail=str(error)
        ) from error


def payload_digest(salt: str, payload: str) -> str:
    """Return the digest of a payload that its record's hash covers.

    The random salt keeps the digest from confirming a guess once the payload was forgotten.
    """
    return hashlib.sha256((salt + payload).encode()).hexdigest()


def record_hash(seq: int, time: float, kind: str, digest: str, previous: str) -> str:
    """Return the hash of a record, which its successor carries as `previous`."""
    return hashlib.sha256(f"{seq}\n{time!r}\n{kind}\n{digest}\n{previous}".encode()).hexdigest()


# --- writing ---------------------------------------------------------------------------------


def _plain_fields(value: Any) -> dict[str, Any]:
    plain = {}
    owner: Any = type(value)
    for field, default in _fields(owner):
        content = getattr(value, field.name)
        if default is MISSING or content != default:
            plain[field.name] = to_plain(content)
    return plain


@cache
def _fields(owner: Any) -> tuple[tuple[Field[Any], Any], ...]:
    """Return the fields of a dataclass with their defaults, `MISSING` where there is none."""
    return tuple(
        (field, field.default_factory() if field.default_factory is not MISSING else field.default)
        for field in fields(owner)
    )


def to_plain(value: Any) -> Any:
    """Return `value` as JSON values; bytes and `Phrase` are tagged to come back as such.

    A dictionary that happens to look like a tag (a model may write anything) is marked as is.
    """
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Phrase):
        return {_TEXT: _plain_fields(value)}
    if is_dataclass(value):
        return _plain_fields(value)
    if isinstance(value, Mapping):
        plain = {str(key): to_plain(item) for key, item in value.items()}
        return {_AS_IS: plain} if len(plain) == 1 and plain.keys() <= _TAGS else plain
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((to_plain(item) for item in value), key=dumps)
    if isinstance(value, bytes):
        return {BYTES: base64.b64encode(value).decode("ascii")}
    if hasattr(value, "model_dump"):
        data = value.model_dump(exclude_defaults=True)
        metadata = _json_only(data.pop("response_metadata", {}))
        data.pop("type", None)
        plain = {name: to_plain(item) for name, item in data.items()}
        if metadata:
            plain["response_metadata"] = metadata
        return {"type": value.type, "data": plain}
    return str(value)


def _json_only(value: Any) -> Any:
    """Return the JSON part of `value`; everything else in it is dropped."""
    if isinstance(value, Mapping):
        kept = {str(key): _json_only(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_json_only(item) for item in value]
    return value if isinstance(value, str | int | float | bool) else None


# --- reading ---------------------------------------------------------------------------------


_CALL_KEYS = {"args", "arguments", "input", "tool_call_id"}
"""The keys of which a call of a tool, in any provider's form, or its answer has one."""


def loads(text: str) -> Any:
    """Return the plain values of a stored text, with tools under the names they have now.

    Only reading changes the names, never the journal.
    """
    return json.loads(text, object_hook=_with_current_tool if names_renamed_tool(text) else None)


def _with_current_tool(value: dict[str, Any]) -> dict[str, Any]:
    """Return the object of a payload; a call, answer, request or step names the tool as of now."""
    if "tool" in value and "call_id" in value:
        value["tool"] = _current_name(value["tool"])
    elif "name" in value and not _CALL_KEYS.isdisjoint(value):
        value["name"] = _current_name(value["name"])
    elif "what" in value and isinstance(value.get("tools"), list):
        value["tools"] = [_current_name(name) for name in value["tools"]]
    return value


def _current_name(name: Any) -> Any:
    return current_tool(name) if isinstance(name, str) else name


class _Message:
    """A placeholder for LangChain's message classes, so that reading type hints loads nothing."""


_Value = TypeVar("_Value")
HINTS = {"BaseMessage": _Message, "AIMessage": _Message}
"""Placeholders for the message classes when the type hints of records are read."""
_Reader = Callable[[Any], Any]


def _is_dataclass(hint: Any) -> bool:
    return isinstance(hint, type) and is_dataclass(hint)


@cache
def _reader(hint: Any) -> _Reader:
    """Return a function that makes a value of type `hint` from its plain form."""
    if hint is _Message:
        return _read_message
    if hint is Phrase:
        return _read_text
    if _is_dataclass(hint):
        # The fields are resolved on first use: a plan step holds plan steps.
        return partial(from_fields, hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is tuple:
        item = _reader(arguments[0])
        return lambda value: tuple(map(item, value))
    if origin in (Union, python_types.UnionType):
        inner = _reader(next(one for one in arguments if one is not type(None)))
        return lambda value: None if value is None else inner(value)
    if origin is Mapping and _is_dataclass(arguments[1]):
        entry = _reader(arguments[1])
        return lambda value: {key: entry(item) for key, item in value.items()}
    if origin is Mapping:
        return lambda value: {**from_plain(value)}
    if origin is Literal:
        return partial(_scalar, tuple(map(type, arguments)))
    if hint in (str, int, float, bool):
        return partial(_scalar, (hint, int) if hint is float else (hint,))
    return from_plain


def _scalar(kinds: tuple[type, ...], value: Any) -> Any:
    """Return `value` if it is of one of these types, and a number that databases can hold."""
    if type(value) not in kinds or (isinstance(value, int | float) and not abs(value) < 2**63):
        raise TypeError("a value has the wrong type")
    return value


@cache
def _field_readers(owner: Any) -> dict[str, _Reader]:
    hints = get_type_hints(owner, localns=HINTS)
    return {field.name: _reader(hints[field.name]) for field in fields(owner)}


def from_fields(owner: type[_Value], value: Mapping[str, Any]) -> _Value:
    """Return an `owner` (a dataclass) from its plain form; unknown fields are ignored."""
    key: Any = owner
    readers = _field_readers(key)
    return owner(**{name: readers[name](item) for name, item in value.items() if name in readers})


def _read_text(value: Any) -> Phrase:
    inner = value[_TEXT]
    return Phrase(inner["template"], from_plain(inner.get("values", {})))


def _read_message(value: Any) -> Any:
    from langchain_core.messages import messages_from_dict

    (message,) = messages_from_dict([{"type": value["type"], "data": from_plain(value["data"])}])
    return message


def from_plain(value: Any) -> Any:
    """Undo `to_plain` where no type is known: tagged values become what they stand for."""
    if isinstance(value, dict):
        if len(value) == 1:
            if BYTES in value:
                return base64.b64decode(value[BYTES])
            if _TEXT in value:
                return _read_text(value)
            value = value.get(_AS_IS, value)
        return {key: from_plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [from_plain(item) for item in value]
    return value


# --- rows ------------------------------------------------------------------------------------

COLUMNS = "seq, time, kind, salt, payload, previous, hash, amended, request_id"
_columns = attrgetter(*COLUMNS.split(", "))
_PAGE = 500


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A row of the journal as it is on disk, unchecked."""

    seq: int
    time: float
    kind: str
    salt: str
    payload: str
    previous: str
    hash: str
    amended: str | None = None
    request_id: str | None = None

    def digest(self) -> str:
        """Return the digest that the hash covers: of the original payload, if it was amended."""
        return self.amended or payload_digest(self.salt, self.payload)

    def intact(self) -> bool:
        """Return whether the hash fits the content."""
        return self.hash == record_hash(
            self.seq, self.time, self.kind, self.digest(), self.previous
        )

    def record(self) -> Record:
        """Return the record. Raises `StorageCorruptError` if it was changed or is unreadable."""
        if not self.intact():
            raise StorageCorruptError("Record {seq} was changed or damaged.", seq=self.seq)
        body = decode(self.kind, self.payload)
        return Record(self.seq, self.time, body, self.previous, self.hash)


def stored_records(
    database: Database,
    session_id: str,
    first: int = 1,
    last: int | None = None,
    kinds: Collection[str] = (),
) -> Iterator[StoredRecord]:
    """Yield the rows of a journal from number `first` to `last`, in order, unchecked.

    With `kinds` (stored names), only rows of these kinds. They are fetched page by page, so that no
    query stays open while the caller writes.
    """
    until = 2**31 - 1 if last is None else last
    of_kinds = f"AND kind IN ({', '.join('?' * len(kinds))}) " if kinds else ""
    while True:
        rows = database.execute(
            f"SELECT {COLUMNS} FROM records WHERE session_id = ? AND seq >= ? AND seq <= ? "
            f"{of_kinds}ORDER BY seq LIMIT {_PAGE}",
            (session_id, first, until, *kinds),
        )
        yield from (StoredRecord(*row) for row in rows)
        if len(rows) < _PAGE:
            return
        first = rows[-1][0] + 1


def readable_records(
    database: Database, session_id: str, first: int = 1, kinds: Collection[str] = ()
) -> Iterator[Record]:
    """Yield the records of a journal from number `first` on; damaged ones are left out."""
    for stored in stored_records(database, session_id, first, kinds=kinds):
        with suppress(StorageCorruptError):
            yield stored.record()


def new_row(body: RecordBody, last_seq: int, time: float, last_hash: str) -> StoredRecord:
    """Return the row of `body` after the record `last_seq` with hash `last_hash`."""
    return chain_record(
        kind_of(body),
        encode(body),
        last_seq,
        time,
        last_hash,
        request_id=getattr(body, "request_id", None),
    )


def chain_record(
    kind: str,
    payload: str,
    last_seq: int,
    time: float,
    last_hash: str,
    *,
    request_id: str | None = None,
) -> StoredRecord:
    """Return the row with this content that follows `last_seq` in its chain."""
    seq, salt, previous = last_seq + 1, secrets.token_hex(8), last_hash or GENESIS
    digest = payload_digest(salt, payload)
    own = record_hash(seq, time, kind, digest, previous)
    return StoredRecord(seq, time, kind, salt, payload, previous, own, None, request_id)


_PLACES = ", ".join("?" * (1 + len(COLUMNS.split(","))))


def _values(row: StoredRecord) -> Sequence[object]:
    """Return the columns of a row. Raises `UnicodeEncodeError` for an ID with half a character."""
    if row.request_id is not None:
        row.request_id.encode()  # the database would keep another text than the payload has
    values: Sequence[object] = _columns(row)
    return values


def insert(database: Database, session_id: str, row: StoredRecord) -> None:
    """Write a row. Raises `DuplicateError` when its number or its request's intent is taken."""
    database.execute(
        f"INSERT INTO records (session_id, {COLUMNS}) VALUES ({_PLACES})",
        (session_id, *_values(row)),
    )


def insert_next(database: Database, session_id: str, row: StoredRecord) -> bool:
    """Write a row behind the one before it; return False where the database lacks that one.

    Raises `DuplicateError` as `insert` does.
    """
    if row.seq == 1:
        insert(database, session_id, row)
        return True
    written = database.run(
        f"INSERT INTO records (session_id, {COLUMNS}) SELECT {_PLACES} "
        "WHERE EXISTS (SELECT 1 FROM records WHERE session_id = ? AND seq = ? AND hash = ?)",
        (session_id, *_values(row), session_id, row.seq - 1, row.previous),
    )
    return written == 1
