"""Rows of the journal: as they stand on disk, how one is made, read and written."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter

from kogniterm.errors import StorageCorruptError
from kogniterm.sessions.journal import codec
from kogniterm.sessions.records import Record, RecordBody
from kogniterm.storage.database import Database

COLUMNS = "seq, time, kind, salt, payload, previous, hash, amended, request_id"
_values = attrgetter(*COLUMNS.split(", "))
_PAGE = 500


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A row of the journal as it stands on disk, not yet believed."""

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
        """What the hash covers: of the original payload, if it was amended since."""
        return self.amended or codec.payload_digest(self.salt, self.payload)

    def intact(self) -> bool:
        """Whether the hash fits the content."""
        return self.hash == codec.record_hash(
            self.seq, self.time, self.kind, self.digest(), self.previous
        )

    def record(self) -> Record:
        """The record. Raises `StorageCorruptError` when it was changed or cannot be read."""
        if not self.intact():
            raise StorageCorruptError("Record {seq} was changed or damaged.", seq=self.seq)
        body = codec.decode(self.kind, self.payload)
        return Record(self.seq, self.time, body, self.previous, self.hash)


def stored_records(
    backend: Database, session_id: str, first: int = 1, last: int | None = None
) -> Iterator[StoredRecord]:
    """The rows of a journal from number `first` to `last`, in order, unchecked.

    They are fetched page by page, so that no query stays open while the caller writes.
    """
    until = 2**31 - 1 if last is None else last
    while True:
        rows = backend.execute(
            f"SELECT {COLUMNS} FROM records WHERE session_id = ? AND seq >= ? AND seq <= ? "
            f"ORDER BY seq LIMIT {_PAGE}",
            (session_id, first, until),
        )
        yield from (StoredRecord(*row) for row in rows)
        if len(rows) < _PAGE:
            return
        first = rows[-1][0] + 1


def new_row(body: RecordBody, last_seq: int, time: float, last_hash: str) -> StoredRecord:
    """The row that writes `body` down after the record `last_seq` with hash `last_hash`."""
    return chained(
        codec.kind_of(body),
        codec.encode(body),
        last_seq,
        time,
        last_hash,
        request_id=getattr(body, "request_id", None),
    )


def chained(
    kind: str,
    payload: str,
    last_seq: int,
    time: float,
    last_hash: str,
    *,
    request_id: str | None = None,
) -> StoredRecord:
    """The row with this content that follows `last_seq` in its chain."""
    seq, salt, previous = last_seq + 1, secrets.token_hex(8), last_hash or codec.GENESIS
    digest = codec.payload_digest(salt, payload)
    own = codec.record_hash(seq, time, kind, digest, previous)
    return StoredRecord(seq, time, kind, salt, payload, previous, own, None, request_id)


def insert(backend: Database, session_id: str, row: StoredRecord) -> None:
    """Write a row. Raises `DuplicateError` when its number or its request's intent is taken."""
    backend.execute(
        f"INSERT INTO records (session_id, {COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (session_id, *_values(row)),
    )
