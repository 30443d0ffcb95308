"""Sessions in archives: export and import, bug reports, forks, and copies to another database.

An export has a section `session` and one `record` for each record. Exporting an imported session
gives the same bytes. A bug report is an export with every text redacted and its records in a new
chain, with a section `about` that says what wrote it, and the lines of named attachments (a model's
recording).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from kogniterm.errors import UsageError
from kogniterm.paths import SessionId
from kogniterm.sessions import session_search
from kogniterm.sessions.fold import Note, SessionState, UnknownRun, unsettled_note
from kogniterm.sessions.journal import codec
from kogniterm.sessions.journal.codec import (
    StoredRecord,
    chain_record,
    insert,
    new_row,
    stored_records,
)
from kogniterm.sessions.journal.journal import load_state, refresh_row
from kogniterm.sessions.records import RecordBody, SessionOpened
from kogniterm.sessions.session_search import is_image, storable
from kogniterm.sessions.store import SessionInfo, SessionStore
from kogniterm.storage.archive_file import (
    LAST_TIME,
    checking,
    read_archive,
    require,
    unusable,
    write_archive,
)
from kogniterm.storage.drivers import storage_errors
from kogniterm.storage.folders import replacement
from kogniterm.types import Phrase

_RECORD_FIELDS = ("seq", "time", "kind", "salt", "previous", "hash", "amended", "request_id")


# --- export ----------------------------------------------------------------------------------


def export_lines(store: SessionStore, reference: str) -> Iterator[str]:
    """Yield the lines of a session's file, without line ends."""
    info = store.find(reference)
    ((draft,),) = store.database.execute("SELECT draft FROM sessions WHERE id = ?", (info.id,))
    return write_archive(_sections(info, draft, stored_records(store.database, info.id)))


def _sections(
    info: SessionInfo, draft: str, rows: Iterable[StoredRecord]
) -> Iterator[tuple[str, dict[str, Any]]]:
    header = _Header(info.id, info.created, info.parent, info.parent_seq, draft)
    yield "session", asdict(header)
    for stored in rows:
        fields: dict[str, Any] = {name: getattr(stored, name) for name in _RECORD_FIELDS}
        fields = {name: value for name, value in fields.items() if value is not None}
        try:
            payload = json.loads(stored.payload)
        except ValueError:
            payload = None
        if payload is not None and codec.dumps(payload) == stored.payload:
            yield "record", fields | {"payload": payload}
        else:  # damaged: it is no canonical JSON, and goes as text
            yield "record", fields | {"raw": stored.payload}


# --- import ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Header:
    id: str
    created: float
    parent: str | None = None
    parent_seq: int | None = None
    draft: str = ""


class SessionFile(NamedTuple):
    """The header and the records of an exported session, or of a bug report."""

    header: _Header
    rows: list[StoredRecord]


def read_session(lines: Iterable[str]) -> SessionFile:
    """Read an export or a bug report.

    Raises `UsageError` for a file that is cut, changed, of a newer format or no such file, naming
    the line.
    """
    header: _Header | None = None
    rows: list[StoredRecord] = []
    for entry in read_archive(lines):
        with checking(entry.line):
            if entry.section == "session":
                require(header is None)
                header = codec.from_fields(_Header, entry.fields)
                require(0 <= header.created < LAST_TIME)
                require(0 <= (header.parent_seq or 0) < 2**31)
                require(storable(header.parent or "") == (header.parent or ""))
            elif entry.section == "record":
                given = entry.fields
                payload = given["raw"] if "raw" in given else codec.dumps(given["payload"])
                fields = {name: given.get(name) for name in _RECORD_FIELDS}
                row = codec.from_fields(StoredRecord, {**fields, "payload": payload})
                require((rows[-1].seq if rows else 0) < row.seq < 2**31)
                require(0 <= row.time < LAST_TIME)
                texts = (row.kind, row.salt, row.payload, row.previous, row.hash)
                require(all(storable(text) == text for text in (*texts, row.request_id or "")))
                rows.append(row)
    if header is None:
        raise unusable(1, Phrase("it contains no session"))
    return SessionFile(header, rows)


def import_lines(store: SessionStore, lines: Iterable[str], *, as_new: bool = False) -> SessionInfo:
    """Import an exported session, which somebody else may have written, with what is open in it.

    With `as_new` it gets another id. Importing a session that is already present, continued or not,
    changes nothing. Raises `UsageError` for a file that is cut, changed or of a newer format,
    naming the line, when its id cannot be one, and when another session has it.
    """
    header, rows = read_session(lines)
    try:
        session_id = SessionId.new() if as_new else SessionId(header.id)
    except UsageError as error:
        raise UsageError("{problem} Import it with --as-new.", problem=error.text) from error
    present = store.info(session_id)
    if present is not None:
        if list(stored_records(store.database, session_id))[: len(rows)] == rows:
            return present
        raise UsageError(
            "Another session with the ID {session} already exists; import with --as-new.",
            session=session_id,
        )
    return _written(store, session_id, header, rows)


def _written(
    store: SessionStore,
    session_id: SessionId,
    header: _Header,
    rows: list[StoredRecord],
    *,
    replacing: bool = False,
) -> SessionInfo:
    """Write a whole session, announced in the head file before and recorded in it after."""
    last, last_hash = (rows[-1].seq, rows[-1].hash) if rows else (0, "")
    store.anchor.announce_import(session_id, last, last_hash, header.created)
    with store.database.transaction(durable=True):
        if replacing:
            store.forget_rows([session_id])
        store.add_row(
            session_id, folder="", model="", created=header.created, parent=header.parent,
            parent_seq=header.parent_seq,
        )  # fmt: skip
        for row in rows:
            insert(store.database, session_id, row)
        store.save_draft(session_id, header.draft)
        refresh_row(store.database, session_id)
    store.anchor.note_closed(session_id, on_disk=True)
    session_search.add_missing(store.database, session_id)
    return store.find(session_id)


# --- fork ------------------------------------------------------------------------------------


def fork(store: SessionStore, reference: str, *, turn: int | None = None) -> SessionInfo:
    """Make a session that starts as a copy of `reference` up to the end of `turn` (or of all).

    Its first record names the parent and the last record copied; the rest keep their numbers,
    times and contents in a chain of their own.
    """
    info = store.find(reference)
    rows = list(_until(store, info, turn))
    session_id, moment = SessionId.new(), store.now()
    state, _ = load_state(store.database, info.id)
    parent_seq = rows[-1].seq if rows else 1
    opened = SessionOpened(
        session_id, state.folder, store.version, state.model, info.id, parent_seq
    )
    copied = [new_row(opened, 0, rows[0].time if rows else moment, "")]
    for row in rows[1:]:
        last = copied[-1]
        copied.append(
            chain_record(
                row.kind, row.payload, last.seq, row.time, last.hash, request_id=row.request_id
            )
        )
    title = Note.TITLE.record(f"{info.title} (fork)")
    for body in (*_unknown_behind(state, rows), title):
        copied.append(new_row(body, copied[-1].seq, moment, copied[-1].hash))
    header = _Header(session_id, moment, info.id, parent_seq)
    return _written(store, session_id, header, copied)


def _unknown_behind(state: SessionState, rows: Iterable[StoredRecord]) -> Iterator[RecordBody]:
    """Yield a note of the runs after the fork's last record whose outcome is unknown.

    The conversation goes back to that record; what those commands did to the machine does not.
    """
    known = {row.request_id for row in rows if row.kind == "intent"}
    runs = (*state.unsettled, *(UnknownRun(intent, 0) for intent in state.unknown))
    behind = [run for run in runs if run.intent.request_id not in known]
    if behind:
        yield unsettled_note(behind)


def _until(store: SessionStore, info: SessionInfo, turn: int | None) -> Iterator[StoredRecord]:
    """Yield the rows up to the end of `turn`: all before the next input, or a step back."""
    if turn is not None and not 0 <= turn <= info.turns:
        raise UsageError(
            "Turn {turn} not found in session {session}; specify a turn from 0 to {count}.",
            session=info.id,
            count=info.turns,
            turn=turn,
        )
    current = 0
    for stored in stored_records(store.database, info.id):
        if stored.kind == "input":
            current = json.loads(stored.payload)["turn"]
        if turn is not None and (current > turn or (current == turn and stored.kind == "rewound")):
            return
        yield stored


# --- moving between databases ----------------------------------------------------------------


class CopyReport(NamedTuple):
    """The ids of sessions that were copied, were present already, or differ and were kept."""

    copied: tuple[str, ...] = ()
    present: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()


def copy_all(source: SessionStore, target: SessionStore) -> CopyReport:
    """Copy every session to another database; can be repeated.

    A session that has grown since it was copied is updated. One that was continued in both
    places is a conflict: it is left as it is, in both.
    """
    copied, present, conflicts = [], [], []
    for info in source.sessions(limit=1_000_000):
        there = target.info(info.id) is not None
        if there:
            ours = list(stored_records(source.database, info.id))
            theirs = list(stored_records(target.database, info.id))
            if ours == theirs:
                present.append(info.id)
                continue
            if ours[: len(theirs)] != theirs:
                conflicts.append(info.id)
                continue
        found = read_session(export_lines(source, info.id))
        _written(target, SessionId(info.id), *found, replacing=there)
        copied.append(info.id)
    return CopyReport(tuple(copied), tuple(present), tuple(conflicts))


# --- bug reports -----------------------------------------------------------------------------

_KEPT = frozenset({
    "by", "call_id", "ended", "effect", "id", "kind", "label", "mode", "node", "plan_mode",
    "request_id", "status", "stop", "tool", "tool_call_id", "type",
})  # fmt: skip
"""Fields whose values, single words, have a meaning for the reader of the file."""
_WORD = re.compile(r"[\w.:-]*")


def report_lines(
    store: SessionStore,
    reference: str,
    *,
    redact: Callable[[str], str],
    about: Mapping[str, str],
    attachments: Mapping[str, Iterable[str]] | None = None,
) -> Iterator[str]:
    """Yield the lines of the file. `redact` gets every text of a user, model or program."""
    info = store.find(reference)
    rows = _chain_again(stored_records(store.database, info.id), redact)
    about = {name: redact(item) for name, item in about.items()}
    attached = (
        (name, {"line": redact(line.rstrip("\n"))})
        for name, lines in (attachments or {}).items()
        for line in lines
    )
    return write_archive(chain([("about", about)], _sections(info, "", rows), attached))


def _chain_again(
    rows: Iterable[StoredRecord], redact: Callable[[str], str]
) -> Iterator[StoredRecord]:
    """Yield redacted copies; records that are no JSON (damaged) are left out."""
    seq, last = 0, ""
    for row in rows:
        try:
            plain = json.loads(row.payload)
        except ValueError:
            continue
        payload = codec.dumps(redact_in(plain, redact, _KEPT))
        new = chain_record(row.kind, payload, seq, row.time, last, request_id=row.request_id)
        seq, last = new.seq, new.hash
        yield new


def redact_in(value: Any, redact: Callable[[str], str], kept: frozenset[str], key: str = "") -> Any:
    """Return JSON values with every text redacted; single words under the keys `kept` stay."""
    if is_image(value):
        # An image may show secrets that no rule can find.
        return {"type": "text", "text": "[an image is left out here]"}
    if isinstance(value, str):
        return value if key in kept and _WORD.fullmatch(value) else redact(value)
    if isinstance(value, dict):
        # Only the names of files are keys that a user, model or program chose.
        return {
            redact(name) if "/" in name else name: redact_in(item, redact, kept, name)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [redact_in(item, redact, kept, key) for item in value]
    return value


@contextmanager
def replace_text(path: Path) -> Iterator[TextIO]:
    """Write a text file whole or not at all: to a temporary file first, synced, then renamed.

    A new file is private to the user (0600). Half characters, which names of files may hold, are
    written as JSON would. Raises `StorageError` kinds.
    """
    with storage_errors(path), replacement(path, durable=True) as data:
        file = TextIOWrapper(data, "utf-8", "backslashreplace", newline="\n")
        yield file
        file.flush()
