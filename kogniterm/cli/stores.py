"""What the verbs about sessions share: opening the person's sessions, and writing tables."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm import __version__
from kogniterm.cli.options import settings_of
from kogniterm.ui.clean import cells
from kogniterm.ui.locale import translate

if TYPE_CHECKING:
    from kogniterm.paths import Paths
    from kogniterm.runtime.written import Kind
    from kogniterm.sessions.store import SessionInfo, SessionStore


def paths_in_use() -> Paths:
    """Where KogniTerm keeps its files."""
    from kogniterm.settings import environment, quick

    return quick(environment()).paths


def person() -> str:
    """The name a shared database knows the person by: their account on this machine."""
    from kogniterm.runtime.person import person as account

    return account()


def location_of(args: argparse.Namespace) -> Path | str:
    """Where the sessions are: the configured PostgreSQL address, or the file."""
    url = settings_of(args).database_url
    return url.get_secret_value() if url is not None else paths_in_use().database


def note_written(path: Path, kind: Kind) -> None:
    """Note that a file was written for the person, for forgetting to find it."""
    from kogniterm.runtime.written import WrittenFiles

    WrittenFiles(paths_in_use().written_files).add(path, kind)


@contextmanager
def opened(location: Path | str) -> Iterator[SessionStore]:
    """The sessions at `location`; says on standard error when they had to be recovered, and
    what there is to say about the audit's head file."""
    from kogniterm.sessions.opening import open_store

    store, recovery = open_store(
        location,
        user=person(),
        version=__version__,
        outputs=paths_in_use().outputs,
        heads=paths_in_use().data,
        spool=paths_in_use().spool,
    )
    for told in (*((recovery.text,) if recovery is not None else ()), *store.anchor.notices):
        sys.stderr.write(f"kogniterm: {translate(told)}\n")
    try:
        yield store
    finally:
        store.close()


def as_json(info: SessionInfo) -> dict[str, object]:
    """A session's line in JSON; times in ISO 8601, UTC."""
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


def iso(moment: float | None) -> str | None:
    """A moment in ISO 8601, UTC, to the millisecond."""
    if moment is None:
        return None
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")


def local_time(moment: float) -> str:
    """A moment as people here read it."""
    return datetime.fromtimestamp(moment).astimezone().strftime("%Y-%m-%d %H:%M")


def write_json(value: object) -> None:
    """One JSON document on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=True) + "\n")


def write_lines(lines: Iterable[str]) -> None:
    """Lines on standard output; what a terminal would obey is made visible."""
    for line in lines:
        sys.stdout.write(visible(line) + "\n")


def write_table(rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as what stands in them; the last one is not padded."""
    shown = [[visible(cell) for cell in row] for row in rows]
    widths = [max(map(cells, column)) for column in zip(*shown, strict=True)]
    for row in shown:
        padded = [
            cell + " " * (width - cells(cell)) for cell, width in zip(row, widths, strict=True)
        ]
        sys.stdout.write("  ".join(padded).rstrip() + "\n")


def visible(text: str) -> str:
    """`text` without control characters, whatever a title or an output brought along."""
    return "".join(c if c.isprintable() or c == "\t" else "�" for c in text)
