"""Sessions as JSON Lines: export, import, and the fork that starts from a copy.

A file is a header line, one line for each record, and a closing line with the SHA-256 of all
lines before it. Everything is in canonical JSON, so that exporting an imported session gives
the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from kogniterm.errors import UsageError
from kogniterm.sessions import session_search
from kogniterm.sessions.fold import Note, SessionState, UnknownRun, unsettled_note
from kogniterm.sessions.journal import codec
from kogniterm.sessions.journal.journal import load_state, save_snapshot
from kogniterm.sessions.journal.rows import StoredRecord, chained, insert, new_row, stored_records
from kogniterm.sessions.records import RecordBody, SessionOpened
from kogniterm.sessions.session_search import storable
from kogniterm.sessions.store import SessionInfo, SessionStore, new_id
from kogniterm.storage.line_files import check_header, closed, read_closed

FORMAT = "kogniterm.session"
VERSION = 2
"""2: records may belong to a sub-agent. Files of version 1 are read as they are."""
_RECORD_FIELDS = ("seq", "time", "kind", "salt", "previous", "hash", "amended", "request_id")


# --- export ----------------------------------------------------------------------------------


def export_lines(store: SessionStore, reference: str) -> Iterator[str]:
    """The lines of the file, without line ends."""
    info = store.find(reference)
    ((draft,),) = store.backend.execute("SELECT draft FROM sessions WHERE id = ?", (info.id,))
    rows = stored_records(store.backend, info.id)
    return session_file(header_of(info, draft=draft), rows)


def session_file(header: str, rows: Iterable[StoredRecord]) -> Iterator[str]:
    """A whole file: the header, the records, and the line that closes it."""
    return closed(chain([header], map(record_line, rows)), _closing)


def _closing(lines: int, digest: str) -> dict[str, Any]:
    return {"records": lines - 1, "sha256": digest}


def header_of(info: SessionInfo, *, draft: str) -> str:
    """The first line of a session's file."""
    return codec.dumps(
        {
            "format": FORMAT,
            "version": VERSION,
            "id": info.id,
            "created": info.created,
            "parent": info.parent,
            "parent_seq": info.parent_seq,
            "draft": draft,
        }
    )


def record_line(stored: StoredRecord) -> str:
    """One record; a payload that is not our canonical JSON (damaged) goes as it is, as text."""
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


def import_lines(
    store: SessionStore, lines: Iterable[str], *, as_new: bool = False, replacing: bool = False
) -> SessionInfo:
    """Take in an exported session; with `as_new` under another id, with `replacing` in the place of
    the session that has its id.

    Importing what is there already changes nothing. Raises `UsageError` for a file that is cut,
    changed or of a newer format, naming the line, and when another session has its id.
    """
    header, rows = _parse(lines)
    session_id = new_id() if as_new else str(header["id"])
    present = store.info(session_id)
    if present is not None and not replacing:
        if list(stored_records(store.backend, session_id)) == rows:
            return present
        raise UsageError(
            "Another session with the id {session} is here already; import with --as-new.",
            session=session_id,
        )
    return _written(
        store,
        session_id,
        rows,
        created=float(header["created"]),
        parent=header.get("parent"),
        parent_seq=header.get("parent_seq"),
        draft=str(header.get("draft", "")),
        replacing=present is not None,
    )


def _written(
    store: SessionStore,
    session_id: str,
    rows: list[StoredRecord],
    *,
    created: float,
    parent: str | None,
    parent_seq: int | None,
    draft: str = "",
    replacing: bool = False,
) -> SessionInfo:
    """Write a whole session, announced in the head file before and noted in it after."""
    last, last_hash = (rows[-1].seq, rows[-1].hash) if rows else (0, "")
    store.anchor.coming(session_id, last, last_hash, created)
    with store.backend.transaction(durable=True):
        if replacing:
            store.forget_row(session_id)
        store.add_row(
            session_id, folder="", model="", created=created, parent=parent, parent_seq=parent_seq
        )
        for row in rows:
            insert(store.backend, session_id, row)
        store.save_draft(session_id, draft)
        refresh_row(store, session_id)
    store.anchor.closed(session_id, on_disk=True)
    session_search.add_missing(store.backend, session_id)
    return store.find(session_id)


def _parse(lines: Iterable[str]) -> tuple[dict[str, Any], list[StoredRecord]]:
    header: dict[str, Any] = {}
    rows: list[StoredRecord] = []

    def take(number: int, value: Any) -> None:
        if number > 1:
            rows.append(_row(value))
            return
        check_header(value, FORMAT, VERSION)
        header.update(value)

    read_closed(lines, take, closing=_closing, unusable=_unusable)
    return header, rows


def _row(value: dict[str, Any]) -> StoredRecord:
    payload = value["raw"] if "raw" in value else codec.dumps(value["payload"])
    fields = {name: value.get(name) for name in _RECORD_FIELDS}
    return StoredRecord(payload=payload, **fields)  # type: ignore[arg-type]  # checked by its hash


def _unusable(number: int, detail: str) -> UsageError:
    return UsageError(
        "This is not a session that can be imported (line {line}): {detail}.",
        line=number,
        detail=detail,
    )


def refresh_row(store: SessionStore, session_id: str) -> None:
    """Make a session's row and snapshot again from its records alone."""
    backend = store.backend
    backend.execute("UPDATE sessions SET snapshot = NULL WHERE id = ?", (session_id,))
    state, _ = load_state(backend, session_id)
    ((last,),) = backend.execute(
        "SELECT max(time) FROM records WHERE session_id = ?", (session_id,)
    )
    backend.execute(
        "UPDATE sessions SET folder = ?, title = ?, model = ?, turns = ?, "
        "updated = coalesce(?, updated) WHERE id = ?",
        (
            storable(state.folder),
            storable(state.title),
            storable(state.model),
            state.turn,
            last,
            session_id,
        ),
    )
    if state.seq:
        save_snapshot(backend, session_id, state)


# --- fork ------------------------------------------------------------------------------------


def fork(store: SessionStore, reference: str, *, turn: int | None = None) -> SessionInfo:
    """A new session that starts as a copy of `reference` up to the end of `turn` (or of all).

    Its first record names the parent and the last record taken over; the rest keep their
    numbers, times and contents in a chain of their own.
    """
    info = store.find(reference)
    rows = list(_until(store, info, turn))
    session_id, moment = new_id(), store.now()
    state, _ = load_state(store.backend, info.id)
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
    return _written(
        store, session_id, copied, created=moment, parent=info.id, parent_seq=parent_seq
    )


def _unknown_behind(state: SessionState, rows: Iterable[StoredRecord]) -> Iterator[RecordBody]:
    """What a fork must know of the runs behind its place that nobody saw end.

    The conversation goes back to that place; what those commands did to the machine does not.
    """
    known = {row.request_id for row in rows if row.kind == "intent"}
    runs = (*state.unsettled, *(UnknownRun(intent, 0) for intent in state.unknown))
    behind = [run for run in runs if run.intent.request_id not in known]
    if behind:
        yield unsettled_note(behind)


def _until(store: SessionStore, info: SessionInfo, turn: int | None) -> Iterator[StoredRecord]:
    """The rows up to the end of `turn`: all before the next turn's input."""
    if turn is not None and not 0 <= turn <= info.turns:
        raise UsageError(
            "Session {session} has {count} turns; there is no turn {turn}.",
            session=info.id,
            count=info.turns,
            turn=turn,
        )
    for stored in stored_records(store.backend, info.id):
        if (
            turn is not None
            and stored.kind == "input"
            and json.loads(stored.payload)["turn"] > turn
        ):
            return
        yield stored


# --- moving between databases ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CopyReport:
    """What a copy did: ids of sessions copied, there already, and kept because they differ."""

    copied: tuple[str, ...] = ()
    present: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()


def copy_all(source: SessionStore, target: SessionStore) -> CopyReport:
    """Copy every session to another database; can be repeated.

    A session that has grown since it was copied is brought up to date. One that went on in both
    places is a conflict: it is left as it is, in both.
    """
    copied, present, conflicts = [], [], []
    for info in source.sessions(limit=1_000_000):
        if target.info(info.id) is not None:
            ours = list(stored_records(source.backend, info.id))
            theirs = list(stored_records(target.backend, info.id))
            if ours == theirs:
                present.append(info.id)
                continue
            if ours[: len(theirs)] != theirs:
                conflicts.append(info.id)
                continue
        import_lines(target, export_lines(source, info.id), replacing=True)
        copied.append(info.id)
    return CopyReport(tuple(copied), tuple(present), tuple(conflicts))


def differences(source: SessionStore, target: SessionStore) -> list[str]:
    """The ids of sessions of `source` that `target` does not hold record for record."""
    return [
        info.id
        for info in source.sessions(limit=1_000_000)
        if list(stored_records(source.backend, info.id))
        != list(stored_records(target.backend, info.id))
    ]
