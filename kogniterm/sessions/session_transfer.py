"""Sessions as JSON Lines: export and import, bug reports, forks, and copies to another database.

A file is a header line, one line for each record, and a closing line with the SHA-256 of all
lines before it. Everything is in canonical JSON, so that exporting an imported session gives
the same bytes.

A bug report (version 1) is one file with all that is needed to replay a session: a header that
says what wrote it, the session's export with every text redacted and its records in a new chain,
the lines of named attachments (a model's recording), and the closing line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from kogniterm.errors import UsageError
from kogniterm.sessions import session_search
from kogniterm.sessions.fold import Note, SessionState, UnknownRun, unsettled_note
from kogniterm.sessions.journal import codec
from kogniterm.sessions.journal.codec import StoredRecord, chained, insert, new_row, stored_records
from kogniterm.sessions.journal.journal import load_state, refresh_row
from kogniterm.sessions.records import RecordBody, SessionOpened
from kogniterm.sessions.session_search import is_image, storable
from kogniterm.sessions.store import SessionInfo, SessionStore, new_id
from kogniterm.storage.drivers import storage_errors
from kogniterm.storage.folders import replacement
from kogniterm.storage.line_files import close_lines, read_closed, value_problem
from kogniterm.text.session_ids import SessionId
from kogniterm.types import Phrase

FORMAT = "kogniterm.session"
VERSION = 3
"""2: records may belong to a sub-agent. 3: a conversation may go back. Older files are read too."""
_LAST_TIME = 253_402_300_800.0  # the end of the year 9999, as far as calendars go
_RECORD_FIELDS = ("seq", "time", "kind", "salt", "previous", "hash", "amended", "request_id")


# --- export ----------------------------------------------------------------------------------


def export_lines(store: SessionStore, reference: str) -> Iterator[str]:
    """Yield the lines of a session's file, without line ends."""
    info = store.find(reference)
    ((draft,),) = store.database.execute("SELECT draft FROM sessions WHERE id = ?", (info.id,))
    return _session_file(info, draft, stored_records(store.database, info.id))


def _session_file(info: SessionInfo, draft: str, rows: Iterable[StoredRecord]) -> Iterator[str]:
    header = {
        "format": FORMAT,
        "version": VERSION,
        "id": info.id,
        "created": info.created,
        "parent": info.parent,
        "parent_seq": info.parent_seq,
        "draft": draft,
    }
    return close_lines(chain([codec.dumps(header)], map(_record_line, rows)), _closing)


def _closing(lines: int, digest: str) -> dict[str, Any]:
    return {"records": lines - 1, "sha256": digest}


def _record_line(stored: StoredRecord) -> str:
    """Return one record; a payload that is not canonical JSON (damaged) goes as text."""
    line: dict[str, Any] = {name: getattr(stored, name) for name in _RECORD_FIELDS}
    line = {name: value for name, value in line.items() if value is not None}
    try:
        payload = json.loads(stored.payload)
    except ValueError:
        payload = None
    if payload is not None and codec.dumps(payload) == stored.payload:
        return codec.dumps(line | {"payload": payload})
    return codec.dumps(line | {"raw": stored.payload})


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
    given = list(lines)
    if given and f'"format":"{REPORT_FORMAT}"' in given[0]:
        given = report_session(given)
    found, rows = read_closed(given, FORMAT, VERSION, _row, closing=_closing, unusable=unusable)
    line, before = 1, 0
    try:
        header = codec.from_fields(_Header, found)
        _require(0 <= header.created < _LAST_TIME and 0 <= (header.parent_seq or 0) < 2**31)
        _require(storable(header.parent or "") == (header.parent or ""))
        for row in rows:
            line += 1
            _require(before < row.seq < 2**31 and 0 <= row.time < _LAST_TIME)
            before, texts = row.seq, (row.kind, row.salt, row.payload, row.request_id or "")
            _require(all(storable(text) == text for text in (*texts, row.previous, row.hash)))
    except TypeError as error:
        raise unusable(line, value_problem(error)) from error
    return SessionFile(header, rows)


def _require(fits: bool) -> None:
    if not fits:
        raise TypeError


def import_lines(store: SessionStore, lines: Iterable[str], *, as_new: bool = False) -> SessionInfo:
    """Import an exported session, which somebody else may have written, with what is open in it.

    With `as_new` it gets another id. Importing a session that is already present, continued or not,
    changes nothing. Raises `UsageError` for a file that is cut, changed or of a newer format,
    naming the line, when its id cannot be one, and when another session has it.
    """
    header, rows = read_session(lines)
    try:
        session_id = new_id() if as_new else SessionId(header.id)
    except UsageError as error:
        why = Phrase("{problem} Import it with --as-new", {"problem": error.text})
        raise unusable(1, why) from error
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
    store.anchor.coming(session_id, last, last_hash, header.created)
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
    store.anchor.closed(session_id, on_disk=True)
    session_search.add_missing(store.database, session_id)
    return store.find(session_id)


def _row(value: dict[str, Any]) -> StoredRecord:
    payload = value["raw"] if "raw" in value else codec.dumps(value["payload"])
    fields = {name: value.get(name) for name in _RECORD_FIELDS}
    return codec.from_fields(StoredRecord, {**fields, "payload": payload})


def unusable(number: int, detail: Phrase) -> UsageError:
    """Return the error that a line of an export cannot be used."""
    return UsageError(
        "The file is not a valid session export (line {line}): {detail}.",
        line=number,
        detail=detail,
    )


# --- fork ------------------------------------------------------------------------------------


def fork(store: SessionStore, reference: str, *, turn: int | None = None) -> SessionInfo:
    """Make a session that starts as a copy of `reference` up to the end of `turn` (or of all).

    Its first record names the parent and the last record copied; the rest keep their numbers,
    times and contents in a chain of their own.
    """
    info = store.find(reference)
    rows = list(_until(store, info, turn))
    session_id, moment = new_id(), store.now()
    state, _ = load_state(store.database, info.id)
    parent_seq = rows[-1].seq if rows else 1
    opened = SessionOpened(
        session_id, state.folder, store.version, state.model, info.id, parent_seq
    )
    copied = [new_row(opened, 0, rows[0].time if rows else moment, "")]
    for row in rows[1:]:
        last = copied[-1]
        copied.append(
            chained(row.kind, row.payload, last.seq, row.time, last.hash, request_id=row.request_id)
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


def differences(source: SessionStore, target: SessionStore) -> list[str]:
    """Return the ids of sessions of `source` that `target` does not hold record for record."""
    return [
        info.id
        for info in source.sessions(limit=1_000_000)
        if list(stored_records(source.database, info.id))
        != list(stored_records(target.database, info.id))
    ]


# --- bug reports -----------------------------------------------------------------------------

REPORT_FORMAT = "kogniterm.report"
REPORT_VERSION = 1
_SESSION = "session"
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
    rows = _rechained(stored_records(store.database, info.id), redact)
    parts: dict[str, Iterable[str]] = {_SESSION: _session_file(info, "", rows)}
    for name, lines in (attachments or {}).items():
        parts[name] = map(redact, lines)
    told = {name: redact(item) for name, item in about.items()}
    header = {"format": REPORT_FORMAT, "version": REPORT_VERSION, "about": told}
    tagged = (
        codec.dumps({"part": name, "line": line.rstrip("\n")})
        for name, lines in parts.items()
        for line in lines
    )
    return close_lines(chain([codec.dumps(header)], tagged), _report_end)


def _report_end(lines: int, digest: str) -> dict[str, Any]:
    return {"lines": lines, "sha256": digest}


def _rechained(
    rows: Iterable[StoredRecord], redact: Callable[[str], str]
) -> Iterator[StoredRecord]:
    """Yield redacted copies; records that are no JSON (damaged) are left out."""
    seq, last = 0, ""
    for row in rows:
        try:
            plain = json.loads(row.payload)
        except ValueError:
            continue
        payload = codec.dumps(redacted(plain, redact, _KEPT))
        new = chained(row.kind, payload, seq, row.time, last, request_id=row.request_id)
        seq, last = new.seq, new.hash
        yield new


def redacted(value: Any, redact: Callable[[str], str], kept: frozenset[str], key: str = "") -> Any:
    """Return JSON values with every text redacted; single words under the keys `kept` stay."""
    if is_image(value):
        # An image may show secrets that no rule can find.
        return {"type": "text", "text": "[an image is left out here]"}
    if isinstance(value, str):
        return value if key in kept and _WORD.fullmatch(value) else redact(value)
    if isinstance(value, dict):
        # Only the names of files are keys that a user, model or program chose.
        return {
            redact(name) if "/" in name else name: redacted(item, redact, kept, name)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [redacted(item, redact, kept, key) for item in value]
    return value


def report_session(lines: Iterable[str]) -> list[str]:
    """Return the session of a bug report, as the lines of an export. Raises `UsageError`."""
    _header, tagged = read_closed(
        lines,
        REPORT_FORMAT,
        REPORT_VERSION,
        lambda value: (value["part"], str(value["line"])),
        closing=_report_end,
        unusable=unusable,
    )
    return [line for part, line in tagged if part == _SESSION]


@contextmanager
def replaced(path: Path) -> Iterator[TextIO]:
    """Write a text file whole or not at all: to a temporary file first, synced, then renamed.

    A new file is private to the user (0600). Half characters, which names of files may hold, are
    written as JSON would. Raises `StorageError` kinds.
    """
    with storage_errors(path), replacement(path, durable=True) as data:
        file = TextIOWrapper(data, "utf-8", "backslashreplace", newline="\n")
        yield file
        file.flush()
