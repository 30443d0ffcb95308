"""Commands of earlier sessions and how they were judged: what new rules can be tried out on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from kogniterm.errors import StorageCorruptError
from kogniterm.sessions.records import Judged, Requested
from kogniterm.sessions.store import SessionStore
from kogniterm.sessions.stored import stored_records


def judged_commands(store: SessionStore) -> Iterator[tuple[str, str, str]]:
    """(command, folder, verdict then) of every command that was proposed, newest session first.

    A command that was judged again, because a person edited it or a crash came between, counts
    once for each text it had.
    """
    for info in store.sessions(limit=1_000_000):
        folders: dict[str, str] = {}
        found: dict[tuple[str, str], tuple[str, str, str]] = {}
        for stored in stored_records(store.backend, info.id):
            if stored.kind not in ("request", "verdict"):
                continue
            with suppress(StorageCorruptError):
                body = stored.record().body
                if isinstance(body, Requested) and body.request.effect == "command":
                    folders[body.request.id] = body.cwd
                elif isinstance(body, Judged) and body.request_id in folders:
                    command = body.report.command
                    folder = folders[body.request_id]
                    found[body.request_id, command] = (command, folder, body.verdict.kind)
        yield from found.values()
