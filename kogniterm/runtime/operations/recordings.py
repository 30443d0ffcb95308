"""Recorded sessions, exports and bug reports, as a replay and the replay model read them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kogniterm.agent.plan.judge import JUDGED
from kogniterm.errors import StorageCorruptError
from kogniterm.runtime.operations.stored_data import read_lines
from kogniterm.sessions.fold import fold
from kogniterm.sessions.journal.codec import StoredRecord, stored_records
from kogniterm.sessions.recording import recorded_calls
from kogniterm.sessions.records import Record
from kogniterm.sessions.session_transfer import read_session
from kogniterm.sessions.store import SessionStore
from kogniterm.types.model_calls import Recording


class Recorded(NamedTuple):
    """The records of a session, its folder and its model."""

    records: list[Record]
    folder: str
    model: str


def recorded_session(store: SessionStore, reference: str) -> Recorded:
    """Read a session; records that cannot be read are left out."""
    return _read_recording(stored_records(store.database, store.find(reference).id))


def recorded_file(file: Path) -> Recorded:
    """Read the session of an export or a bug report. Raises `UsageError`."""
    return _read_recording(read_session(read_lines(str(file))).rows)


def read_recording(file: Path) -> Recording:
    """Return the model's calls in an export or a bug report. Raises `UsageError`."""
    recorded = recorded_file(file)
    return Recording(recorded.model, tuple(recorded_calls(recorded.records, judged=JUDGED)))


def _read_recording(rows: Iterable[StoredRecord]) -> Recorded:
    records = []
    for stored in rows:
        with suppress(StorageCorruptError):
            records.append(stored.record())
    state = fold(records)
    return Recorded(records, state.folder, state.model)
