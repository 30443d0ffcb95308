"""Exports as somebody else may write them: closed, chained, and with anything in them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from kogniterm.sessions.journal import codec
from kogniterm.sessions.records import RecordBody, SessionOpened
from kogniterm.storage.archive_file import write_archive

HEADER = {"created": 1.0, "draft": "", "parent": None, "parent_seq": None}
_FIELDS = ("seq", "time", "kind", "salt", "previous", "hash", "request_id")


def foreign_export(
    session_id: object,
    bodies: Iterable[RecordBody] = (),
    *,
    folder: str = "/",
    header: Mapping[str, Any] | None = None,
    line: Mapping[str, Any] | None = None,
    payload: Mapping[str, Any] | None = None,
) -> list[str]:
    """Return the lines of an export whose checksum and chain are right.

    `header` and `line` replace fields of the header and of the last record, `payload` fields of
    what that record holds.
    """
    rows: list[codec.StoredRecord] = []
    given = [SessionOpened(str(session_id), folder, "1.0", "m"), *bodies]
    for number, body in enumerate(given, 1):
        last = rows[-1] if rows else None
        text = codec.encode(body)
        if payload is not None and number == len(given):
            text = codec.dumps(json.loads(text) | dict(payload))
        rows.append(
            codec.chain_record(
                codec.kind_of(body), text, last.seq if last else 0, float(number),
                last.hash if last else "", request_id=getattr(body, "request_id", None),
            )
        )  # fmt: skip
    sections = [("session", {**HEADER, "id": session_id, **(header or {})})]
    for number, row in enumerate(rows, 1):
        told = {name: getattr(row, name) for name in _FIELDS}
        told = {name: value for name, value in told.items() if value is not None}
        told["payload"] = json.loads(row.payload)
        sections.append(("record", told | dict(line or {}) if number == len(rows) else told))
    return list(write_archive(sections))
