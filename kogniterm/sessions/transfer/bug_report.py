"""A bug report is one file: a session without its secrets, and what else is needed to replay it.

JSON Lines (version 1): a header that says what wrote it, the session's export with every text
passed through a redactor and its records chained anew, the lines of named attachments (a
model's recording), and a closing line with the SHA-256 of everything before it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from kogniterm.errors import UsageError
from kogniterm.sessions.journal import codec
from kogniterm.sessions.journal.rows import StoredRecord, chained, stored_records
from kogniterm.sessions.session_search import is_image
from kogniterm.sessions.store import SessionStore
from kogniterm.sessions.transfer.json_lines import header_of, session_file
from kogniterm.storage.line_files import check_header, closed, read_closed

FORMAT = "kogniterm.report"
VERSION = 1
_SESSION = "session"
_KEPT = frozenset({"type", "name", "id", "call_id", "request_id", "tool_call_id", "kind", "node"})


@dataclass(frozen=True, slots=True)
class Report:
    """A bug report, read: `session` can be imported, `attachments` are lines by name."""

    about: Mapping[str, str]
    session: tuple[str, ...]
    attachments: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def report_lines(
    store: SessionStore,
    reference: str,
    *,
    redact: Callable[[str], str],
    about: Mapping[str, str],
    attachments: Mapping[str, Iterable[str]] | None = None,
) -> Iterator[str]:
    """The lines of the file. `redact` sees every text a person, model or program wrote."""
    info = store.find(reference)
    header = {"format": FORMAT, "version": VERSION, "about": dict(about)}
    parts: dict[str, Iterable[str]] = {_SESSION: _redacted_session(store, info.id, redact)}
    for name, lines in (attachments or {}).items():
        parts[name] = map(redact, lines)
    return closed(chain([codec.dumps(header)], _tagged(parts)), _closing)


def _closing(lines: int, digest: str) -> dict[str, Any]:
    return {"lines": lines, "sha256": digest}


def _tagged(parts: Mapping[str, Iterable[str]]) -> Iterator[str]:
    for name, lines in parts.items():
        for line in lines:
            yield codec.dumps({"part": name, "line": line.rstrip("\n")})


def _redacted_session(
    store: SessionStore, session_id: str, redact: Callable[[str], str]
) -> Iterator[str]:
    info = store.find(session_id)
    rows = _rechained(stored_records(store.backend, session_id), redact)
    return session_file(header_of(info, draft=""), rows)


def _rechained(
    rows: Iterable[StoredRecord], redact: Callable[[str], str]
) -> Iterator[StoredRecord]:
    """Redacted copies; what is not JSON any more (damaged) is left out."""
    seq, last = 0, ""
    for row in rows:
        try:
            plain = json.loads(row.payload)
        except ValueError:
            continue
        payload = codec.dumps(_redacted(plain, redact))
        new = chained(row.kind, payload, seq, row.time, last, request_id=row.request_id)
        seq, last = new.seq, new.hash
        yield new


def _redacted(value: Any, redact: Callable[[str], str], key: str = "") -> Any:
    if is_image(value):
        # Nobody can tell what secrets a picture shows.
        return {"type": "text", "text": "[an image is left out here]"}
    if isinstance(value, str):
        return value if key in _KEPT else redact(value)
    if isinstance(value, dict):
        return {name: _redacted(item, redact, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_redacted(item, redact, key) for item in value]
    return value


def is_report(lines: Sequence[str]) -> bool:
    """Whether this looks like a bug report rather than an exported session."""
    return bool(lines) and f'"format":"{FORMAT}"' in lines[0]


def read_report(lines: Iterable[str]) -> Report:
    """Raises `UsageError` for a file that is cut, changed or of a newer version."""
    about: dict[str, str] = {}
    parts: dict[str, list[str]] = {_SESSION: []}

    def take(number: int, value: Any) -> None:
        if number > 1:
            parts.setdefault(str(value["part"]), []).append(str(value["line"]))
            return
        check_header(value, FORMAT, VERSION)
        about.update((str(name), str(item)) for name, item in value["about"].items())

    read_closed(lines, take, closing=_closing, unusable=_unusable)
    session = tuple(parts.pop(_SESSION))
    return Report(about, session, {name: tuple(lines) for name, lines in parts.items()})


def _unusable(number: int, detail: str) -> UsageError:
    return UsageError(
        "This is no bug report of KogniTerm (line {line}: {detail}).", line=number, detail=detail
    )
