"""Saved sessions: exports, bug reports, imports, and how the last turn went."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kogniterm import __version__
from kogniterm.errors import UsageError, why

if TYPE_CHECKING:
    from kogniterm.runtime.session import LiveSession
    from kogniterm.sessions.store import SessionInfo, SessionStore
    from kogniterm.types import Phrase

LAST_RECORDS = 500
"""How far back the last turn of a resumed session is looked for."""

ExportFormat = Literal["jsonl", "markdown"]


def export_parts(
    store: SessionStore, reference: str, form: ExportFormat, translate: Callable[[Phrase], str]
) -> Iterable[str]:
    """Yield the text of an export; Markdown is for reading, JSON Lines can be imported again."""
    from kogniterm.sessions.readable_export import markdown
    from kogniterm.sessions.session_transfer import export_lines

    if form == "markdown":
        return markdown(store, reference, translate)
    return (f"{line}\n" for line in export_lines(store, reference))


def report_parts(
    store: SessionStore,
    reference: str,
    *,
    redact: Callable[[str], str],
    about: Mapping[str, str] | None = None,
    attachments: Mapping[str, Iterable[str]] | None = None,
) -> Iterator[str]:
    """Yield the text of a bug report; `about` adds to what is said of this installation."""
    import platform

    from kogniterm.sessions.session_transfer import report_lines

    installed = {
        "kogniterm": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
    }
    lines = report_lines(
        store,
        reference,
        redact=redact,
        about={**installed, **(about or {})},
        attachments=attachments or {},
    )
    return (f"{line}\n" for line in lines)


def import_session(store: SessionStore, lines: list[str], *, as_new: bool = False) -> SessionInfo:
    """Import an export, or the session of a bug report."""
    from kogniterm.sessions.session_transfer import import_lines, is_report, read_report

    if is_report(lines):
        lines = list(read_report(lines).session)
    return import_lines(store, lines, as_new=as_new)


def read_lines(name: str) -> list[str]:
    """Return the lines of a file, or of standard input for `-`. Raises `UsageError`."""
    try:
        if name == "-":
            return sys.stdin.readlines()
        with Path(name).open(encoding="utf-8") as file:
            return file.readlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError("{file} cannot be read: {why}.", file=name, why=why(error)) from error


def last_turn(session: LiveSession) -> tuple[str, str]:
    """Return what the user said last in the session, and the answer, if there was one."""
    from kogniterm.sessions.records import InputReceived, TurnEnded

    said = answer = ""
    for record in session.journal.records(max(1, session.state.seq - LAST_RECORDS)):
        if isinstance(record.body, InputReceived):
            said, answer = record.body.input.text, ""
        elif isinstance(record.body, TurnEnded):
            answer = record.body.answer
    return said, answer
