"""`kogniterm logs`: the lines of the log file, of one session or all, and new ones as they come."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TextIO

from kogniterm.cli.options import CallOptions, Example, Subparsers, add_argument, add_verb
from kogniterm.cli.verb_helpers import open_sessions, paths_in_use, write_lines
from kogniterm.logs import BACKUPS
from kogniterm.runtime.operations.action import Argument, Report, count
from kogniterm.ui.locale import _, mark

ARGUMENTS = (
    Argument("--session", "Only this session: ID or its beginning, title, or last", "SESSION"),
    Argument("--lines", "How many lines", "N", short="-n", type=count, default=200),
    Argument("--follow", "Show new lines until Ctrl+C", short="-f"),
)
POLL_SECONDS = 0.25
_HEAD = re.compile(r"[\d-]{10} [\d:,]{12} [A-Z]+ \d+ (?P<session>\S+) ")
"""The beginning of a record; its further lines are indented."""


def add_parser(subparsers: Subparsers) -> None:
    """Add `logs` with its options."""
    parser = add_verb(
        subparsers,
        "logs",
        description=mark(
            "Show the newest lines of the log file. With log_level = debug it has each step of a "
            "turn."
        ),
        examples=(Example("kogniterm logs --follow"), Example("kogniterm logs --session last")),
    )
    for one in ARGUMENTS:
        add_argument(parser, one)


def run(call: CallOptions, *, session: str | None, lines: int, follow: bool) -> Report:
    """Show the lines, and new ones as they come."""
    file, wanted = paths_in_use().log_file, ""
    if session:
        with open_sessions(call) as store:
            wanted = store.find(session).id
    opened = _open_log(file)
    stored = "".join(one.read_text("utf-8", "replace") for one in _older(file))
    stored += opened.read() if opened is not None else ""
    kept = [*_of_session(stored.splitlines(), wanted)][-lines:]
    if not follow:
        note = _("There are no lines in {file}.").format(file=file)
        return Report(kept, kept, notes=() if kept else [note])
    for line in chain(kept, _of_session(_new_lines(file, opened), wanted)):
        write_lines([line])
        sys.stdout.flush()
    return Report(printed=True)


def _open_log(file: Path) -> TextIO | None:
    try:
        return file.open(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None


def _older(file: Path) -> list[Path]:
    """Return the files that were full, the oldest first."""
    full = (file.with_name(f"{file.name}.{number}") for number in range(BACKUPS, 0, -1))
    return [one for one in full if one.exists()]


def _of_session(lines: Iterable[str], session: str) -> Iterator[str]:
    """Yield the lines of records that are about `session`; all of them if it is empty."""
    wanted = True
    for line in lines:
        head = _HEAD.match(line)
        if head is not None:
            wanted = session in ("", head["session"])
        if wanted:
            yield line


def _new_lines(file: Path, opened: TextIO | None) -> Iterator[str]:
    """Yield what is written behind what was read, also to the file after a full one."""
    rest = ""
    while True:
        # Looked at before it is read: what was written until then is read, and nothing follows.
        is_full = opened is not None and not _is_at(file, opened)
        rest += opened.read() if opened is not None else ""
        *whole, rest = rest.split("\n")
        yield from whole
        if is_full or opened is None:
            opened = _open_log(file)
        if not whole:
            time.sleep(POLL_SECONDS)


def _is_at(file: Path, opened: TextIO) -> bool:
    """Return whether `file` is the one that is `opened`, or none yet."""
    try:
        return os.path.samestat(file.stat(), os.fstat(opened.fileno()))
    except FileNotFoundError:
        return True
