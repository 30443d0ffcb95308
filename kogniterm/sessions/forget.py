"""Taking words out of everything the sessions keep, with the chain still provable.

A record's payload is replaced by one without the words. Its hash stays, because it covers a
salted digest of the payload, which is kept in the payload's stead (the salt goes, so the digest
cannot confirm a guess). A later record of the same chain lists the changed records with the
digests of what they hold now: `audit.verify` accepts exactly that, and nothing else.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kogniterm.database import storage_errors
from kogniterm.errors import UsageError
from kogniterm.sessions import codec, files
from kogniterm.sessions.audit import FORGOTTEN
from kogniterm.sessions.journal import SessionJournal
from kogniterm.sessions.records import Noted
from kogniterm.sessions.search import add_missing
from kogniterm.sessions.store import SessionStore
from kogniterm.sessions.stored import StoredRecord, stored_records
from kogniterm.sessions.texts import is_image
from kogniterm.sessions.transfer import refresh_row

REPLACEMENT = "[forgotten]"
_FORGOTTEN_IMAGE = {"type": "text", "text": REPLACEMENT}


@dataclass(frozen=True, slots=True)
class ForgetReport:
    """Where the words stood and stand no more: records by session id, and output files."""

    records: Mapping[str, tuple[int, ...]]
    files: tuple[Path, ...] = ()


def forget(
    store: SessionStore, words: str, *, live: Mapping[str, SessionJournal] | None = None
) -> ForgetReport:
    """Replace `words` (exactly as written) by `[forgotten]` in every session and output file.

    `live` are journals that this process has open, by session id; their state is read again, so
    whoever holds messages of the old one must fetch them anew. Raises `SessionBusyError` when
    another process has one of the sessions open; the ones before it are done then. Copies that
    the person exported, and the log and backups of a shared server, are out of reach.
    """
    if not words.strip():
        raise UsageError("Say which words to forget.")
    found: dict[str, tuple[int, ...]] = {}
    changed: list[Path] = []
    for info in store.sessions(limit=1_000_000):
        rows = [row for row in stored_records(store.backend, info.id) if _holds(row, words)]
        if store.outputs is not None:
            paths = files.of_session(store.backend, info.id, store.outputs)
            changed += [path for path in paths if _clean_file(path, words)]
        if rows or words in info.title:
            found[info.id] = tuple(row.seq for row in rows)
            _clean_session(store, info.id, rows, words, (live or {}).get(info.id))
        _clean_draft(store, info.id, words)
    store.backend.scrub()
    return ForgetReport(found, tuple(changed))


def _holds(row: StoredRecord, words: str) -> bool:
    return json.dumps(words)[1:-1] in row.payload or words in row.payload


def _clean_session(
    store: SessionStore,
    session_id: str,
    rows: list[StoredRecord],
    words: str,
    live: SessionJournal | None,
) -> None:
    journal = live or store.hold(session_id)
    try:
        with store.backend.transaction(durable=True):
            digests = {str(row.seq): _clean_record(store, session_id, row, words) for row in rows}
        journal.append(Noted(FORGOTTEN, {"records": digests}), durable=True)
        with store.backend.transaction(durable=True):
            store.backend.execute("DELETE FROM turn_texts WHERE session_id = ?", (session_id,))
            store.backend.execute(
                "UPDATE sessions SET indexed_seq = 0, title = '' WHERE id = ?", (session_id,)
            )
            refresh_row(store, session_id)
        add_missing(store.backend, session_id)
        journal.reload()
    finally:
        if live is None:
            journal.close()


def _clean_record(store: SessionStore, session_id: str, row: StoredRecord, words: str) -> str:
    """Replace one payload; the digest of the new one."""
    payload = codec.dumps(_cleaned(json.loads(row.payload), words))
    salt = secrets.token_hex(8)
    store.backend.execute(
        "UPDATE records SET payload = ?, salt = ?, amended = ? WHERE session_id = ? AND seq = ?",
        (payload, salt, row.digest(), session_id, row.seq),
    )
    return codec.payload_digest(salt, payload)


def _cleaned(value: Any, words: str) -> Any:
    if isinstance(value, str):
        return value.replace(words, REPLACEMENT)
    if is_image(value):
        # A picture cannot be searched for words: by chance they stand in its letters.
        return _FORGOTTEN_IMAGE if words in value["base64"] else value
    if isinstance(value, list) and any(map(is_image, value)):
        return _cleaned_content(value, words)
    if isinstance(value, dict):
        return {_cleaned(key, words): _cleaned(item, words) for key, item in value.items()}
    if isinstance(value, list):
        return [_cleaned(item, words) for item in value]
    return value


def _cleaned_content(blocks: list[Any], words: str) -> list[Any]:
    """A message's words and images: what was said with an image tells what the image shows."""
    cleaned = [_cleaned(block, words) for block in blocks]
    if cleaned == blocks:
        return cleaned
    return [_FORGOTTEN_IMAGE if is_image(block) else block for block in cleaned]


def _clean_draft(store: SessionStore, session_id: str, words: str) -> None:
    ((draft,),) = store.backend.execute("SELECT draft FROM sessions WHERE id = ?", (session_id,))
    if words in draft:
        store.save_draft(session_id, draft.replace(words, REPLACEMENT))


def _clean_file(path: Path, words: str) -> bool:
    """Take the words out of an output file, in place, so that no copy of it stays."""
    needle = words.encode("utf-8", "surrogateescape")
    with storage_errors(path):
        if not path.is_file():
            return False
        content = path.read_bytes()
        if needle not in content:
            return False
        with path.open("r+b") as file:
            file.write(content.replace(needle, REPLACEMENT.encode()))
            file.truncate()
        return True
