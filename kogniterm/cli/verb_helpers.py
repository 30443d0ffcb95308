"""Functions that verbs share: results as text or JSON, questions, and the user's sessions."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm import __version__
from kogniterm.cli.options import CallOptions
from kogniterm.errors import UsageError
from kogniterm.runtime.operations.action import Report, Shown, iso
from kogniterm.types import Phrase
from kogniterm.ui.locale import _, translate

if TYPE_CHECKING:
    from kogniterm.paths import Paths
    from kogniterm.sessions.store import SessionInfo, SessionStore


def write_report(call: CallOptions, report: Report) -> int:
    """Print a report in the form that was asked for; returns its exit status."""
    if report.printed:
        return report.status
    if call.json:
        write_json(report.data)
        return report.status
    write_lines(report.lines)
    if report.rows:
        write_table(report.rows)
    for note in map(text_of, report.notes):
        sys.stderr.write(visible(note) + "\n")
    return report.status


def confirm(question: str, lines: Iterable[str], *, without_terminal: Phrase, no: Phrase) -> None:
    """Show `lines` and ask. Raises `UsageError` unless the answer is exactly yes, or its key.

    What would go has to be on the screen already: what was typed until now is no answer.
    """
    if not sys.stdin.isatty():
        raise UsageError(without_terminal.template)
    for line in lines:
        sys.stderr.write(visible(line) + "\n")
    if not ask_agreement(question):
        raise UsageError(no.template)


def ask_agreement(question: str) -> bool:
    """Ask at the terminal as `agrees` does, outside of a loop."""
    import asyncio

    return asyncio.run(agrees(question))


async def agrees(question: str, read: Callable[[], Awaitable[str]] | None = None) -> bool:
    """Ask at the terminal; return whether the line that `read` gives is exactly yes, or its key."""
    from kogniterm.ui.questions.question import means_yes
    from kogniterm.ui.terminal.user_terminal import typed_before

    await typed_before(sys.stdin.fileno())
    sys.stderr.write(f"{question} {_('[yes/no]')} ")
    sys.stderr.flush()
    return means_yes(await read() if read is not None else sys.stdin.readline())


def write_json(value: object) -> None:
    """Write one JSON document on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=True) + "\n")


def text_of(shown: Shown) -> str:
    """Return a text of a report in the language in use."""
    return shown if isinstance(shown, str) else translate(shown)


def write_lines(lines: Iterable[Shown]) -> None:
    """Write lines on standard output; what a terminal would obey is made visible."""
    for line in map(text_of, lines):
        sys.stdout.write(visible(line) + "\n")


def write_table(rows: Sequence[Sequence[Shown]]) -> None:
    """Write columns as wide as what stands in them; the last one is not padded."""
    from kogniterm.ui.screen.surface import cells

    shown = [[visible(text_of(cell)) for cell in row] for row in rows]
    widths = [max(map(cells, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        padded = [
            cell + " " * (width - cells(cell)) for cell, width in zip(row, widths, strict=True)
        ]
        sys.stdout.write("  ".join(padded).rstrip() + "\n")


def visible(text: str) -> str:
    """Return `text` without control characters, whatever a title or an output brought along."""
    return "".join(c if c.isprintable() or c == "\t" else "�" for c in text)


def paths_in_use() -> Paths:
    """Return the paths of KogniTerm's files."""
    from kogniterm.settings import environment, quick

    return quick(environment()).paths


def user_name() -> str:
    """Return the name a shared database knows the user by: their account on this machine."""
    from kogniterm.host.identity import account_name

    return account_name()


def location_of(call: CallOptions) -> Path | str:
    """Return where the sessions are: the configured PostgreSQL address, or the file."""
    url = call.load_settings().database_url
    return url.get_secret_value() if url is not None else paths_in_use().database


@contextmanager
def open_sessions_at(location: Path | str) -> Iterator[SessionStore]:
    """Open the sessions at `location`.

    Writes on standard error when they had to be recovered, and what there is to say about the
    audit's head file.
    """
    from kogniterm.sessions.session_database import open_store

    paths = paths_in_use()
    store, recovery = open_store(
        location,
        user=user_name(),
        version=__version__,
        folders=paths.of_sessions,
        heads=paths.data,
        spool=paths.spool,
    )
    for told in (*((recovery.text,) if recovery is not None else ()), *store.anchor.notices):
        sys.stderr.write(f"kogniterm: {translate(told)}\n")
    try:
        yield store
    finally:
        store.close()


def open_sessions(call: CallOptions) -> AbstractContextManager[SessionStore]:
    """Return the user's sessions, as `open_sessions_at` opens them."""
    return open_sessions_at(location_of(call))


def session_json(info: SessionInfo) -> dict[str, object]:
    """Return a session as JSON; times in ISO 8601, UTC."""
    return {
        "id": info.id,
        "title": info.title,
        "folder": info.folder,
        "model": info.model,
        "turns": info.turns,
        "created": iso(info.created),
        "updated": iso(info.updated),
        "parent": info.parent,
        "parent_seq": info.parent_seq,
    }
