"""What was proposed, judged, decided and run: read from the journal, and proved by its chain.

`verify` recomputes every hash. It finds a changed, missing, inserted or moved record, and a
journal that was cut short behind the point where its last turn ended. `trail` tells the story
of each action request from its records.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from kogniterm.errors import StorageCorruptError
from kogniterm.sessions import codec
from kogniterm.sessions.backend import Backend
from kogniterm.sessions.records import (
    Decided,
    InputReceived,
    Intent,
    Judged,
    NodeRan,
    Noted,
    Outcome,
    Record,
    Requested,
)
from kogniterm.sessions.stored import StoredRecord, stored_records
from kogniterm.types import Text

FORGOTTEN = "forgotten"
"""Kind of the note that lists the records whose content was removed at the person's wish."""


@dataclass(frozen=True, slots=True)
class ChainReport:
    """The result of a check. `broken` is the number of the first record that does not hold."""

    session_id: str
    records: int
    head: str
    broken: int | None = None
    reason: Text | None = None
    forgotten: tuple[int, ...] = ()

    @property
    def intact(self) -> bool:
        """Whether every record is what was written, in the order it was written."""
        return self.broken is None


def verify(backend: Backend, session_id: str) -> ChainReport:
    """Check the whole journal of a session; stops at the first record that is broken."""
    previous, count = codec.GENESIS, 0
    amended: dict[int, str] = {}
    for stored in stored_records(backend, session_id):
        reason = _fault_of(stored, count, previous)
        if reason is not None:
            return ChainReport(session_id, count, previous, count + 1, reason)
        if stored.amended is not None:
            amended[stored.seq] = codec.payload_digest(stored.salt, stored.payload)
        previous, count = stored.hash, count + 1
    report = ChainReport(session_id, count, previous, forgotten=tuple(sorted(amended)))
    unexplained = _unexplained(backend, session_id, amended)
    if unexplained is not None:
        reason = Text("its content was replaced, and no record says that it was forgotten")
        return replace(report, broken=unexplained, reason=reason)
    if not _reaches_snapshot(backend, session_id):
        reason = Text("the end of the journal is missing")
        return replace(report, broken=count + 1, reason=reason)
    return report


def _fault_of(stored: StoredRecord, count: int, previous: str) -> Text | None:
    if stored.seq != count + 1:
        return Text(
            "records {first} to {last} are missing", {"first": count + 1, "last": stored.seq - 1}
        )
    if stored.previous != previous:
        return Text("it does not follow the record before it")
    if not stored.intact():
        return Text("its content does not fit its hash")
    return None


def _unexplained(backend: Backend, session_id: str, amended: dict[int, str]) -> int | None:
    """The first record with other content than at first that no later record accounts for."""
    if not amended:
        return None
    explained: dict[int, str] = {}
    for stored in stored_records(backend, session_id, min(amended)):
        if stored.kind == "note":
            body = stored.record().body
            if isinstance(body, Noted) and body.kind == FORGOTTEN:
                listed = body.data.get("records")
                if isinstance(listed, dict):
                    explained |= {int(seq): str(digest) for seq, digest in listed.items()}
    return next(
        (seq for seq, digest in sorted(amended.items()) if explained.get(seq) != digest), None
    )


def _reaches_snapshot(backend: Backend, session_id: str) -> bool:
    """Whether the record that the snapshot was taken at is still there."""
    import json

    rows = backend.execute("SELECT snapshot FROM sessions WHERE id = ?", (session_id,))
    if not rows or rows[0][0] is None:
        return True
    with suppress(ValueError, KeyError, TypeError):
        snapshot = json.loads(rows[0][0])
        return bool(
            backend.execute(
                "SELECT 1 FROM records WHERE session_id = ? AND seq = ? AND hash = ?",
                (session_id, snapshot["seq"], snapshot["hash"]),
            )
        )
    return True


# --- the trail -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """The story of one action request. Times in seconds since the epoch; what is not known yet
    or did not happen is None or empty. `agent` is the task of the sub-agent that asked, in short.
    `output_digest` is the SHA-256 of what the model saw."""

    request_id: str
    seq: int
    turn: int
    time: float
    tool: str = ""
    proposed: str = ""
    purpose: str = ""
    agent: str = ""
    label: str = ""
    risks: tuple[Text, ...] = ()
    verdict: str = ""
    reasons: tuple[Text, ...] = ()
    decision: str = ""
    decided_by: str = ""
    decision_reason: str = ""
    decision_reasons: tuple[Text, ...] = ()
    command: str = ""
    cwd: str = ""
    env_hash: str = ""
    started: float | None = None
    ended: float | None = None
    status: str = ""
    exit_code: int | None = None
    output_bytes: int = 0
    output_digest: str = ""


def trail(backend: Backend, session_id: str) -> list[AuditEntry]:
    """One entry for each action request, in the order they came up; damaged records left out."""
    entries: dict[str, AuditEntry] = {}
    turn = 0
    for record in _readable(backend, session_id):
        if isinstance(record.body, InputReceived):
            turn = record.body.turn
        for request_id in _request_ids(record):
            entry = entries.get(request_id) or AuditEntry(request_id, record.seq, turn, record.time)
            entries[request_id] = _extended(entry, record)
    return list(entries.values())


def _readable(backend: Backend, session_id: str) -> Iterator[Record]:
    for stored in stored_records(backend, session_id):
        with suppress(StorageCorruptError):
            yield stored.record()


def _request_ids(record: Record) -> list[str]:
    match record.body:
        case NodeRan(update=update):
            return [request.id for request in update.pending]
        case Requested(request=request):
            return [request.id]
        case Judged() | Decided() | Intent() | Outcome():
            return [record.body.request_id]
        case _:
            return []


def _extended(entry: AuditEntry, record: Record) -> AuditEntry:
    match record.body:
        case NodeRan(update=update):
            request = next(one for one in update.pending if one.id == entry.request_id)
            return replace(
                entry,
                tool=request.tool,
                proposed=request.command,
                purpose=request.purpose,
                agent=request.agent_task,
            )
        case Requested(request=request) as body:
            return replace(
                entry,
                tool=request.tool,
                proposed=request.command,
                purpose=request.purpose,
                cwd=body.cwd,
                env_hash=body.env_hash,
            )
        case Judged(report=report, verdict=verdict):
            judged = replace(entry, label=report.label, risks=report.reasons)
            return replace(judged, verdict=verdict.kind, reasons=verdict.reasons)
        case Decided(decision=decision):
            return replace(
                entry,
                decision=decision.kind,
                decided_by=decision.by,
                decision_reason=decision.reason,
                decision_reasons=decision.reasons,
            )
        case Intent() as body:
            if not entry.tool:  # nobody proposed it: a command the person ran themselves
                entry = replace(entry, tool="!", decision="approve", decided_by="person")
            return replace(
                entry,
                command=body.command,
                cwd=body.cwd,
                env_hash=body.env_hash,
                started=record.time,
                status="unknown",
            )
        case Outcome(result=result) as body:
            ended = replace(entry, ended=record.time, status=body.status)
            if result is None:
                return ended
            return replace(
                ended,
                exit_code=result.exit_code,
                output_bytes=result.output_bytes,
                output_digest=hashlib.sha256(
                    result.text.encode("utf-8", "surrogatepass")
                ).hexdigest(),
            )
        case _:
            return entry
