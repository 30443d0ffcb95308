"""The user's files and sessions, as the verbs open them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm import __version__
from kogniterm.cli.options import settings_of
from kogniterm.cli.report import iso
from kogniterm.ui.locale import translate

if TYPE_CHECKING:
    from kogniterm.paths import Paths
    from kogniterm.runtime.services.written_files import Kind
    from kogniterm.sessions.store import SessionInfo, SessionStore


def paths_in_use() -> Paths:
    """Where KogniTerm keeps its files."""
    from kogniterm.settings import environment, quick

    return quick(environment()).paths


def user_name() -> str:
    """The name a shared database knows the user by: their account on this machine."""
    from kogniterm.runtime.build import account_name

    return account_name()


def location_of(args: argparse.Namespace) -> Path | str:
    """Where the sessions are: the configured PostgreSQL address, or the file."""
    url = settings_of(args).database_url
    return url.get_secret_value() if url is not None else paths_in_use().database


def note_written(path: Path, kind: Kind) -> None:
    """Note that a file was written for the user, for forgetting to find it."""
    from kogniterm.runtime.services.written_files import WrittenFiles

    WrittenFiles(paths_in_use().written_files).add(path, kind)


@contextmanager
def opened(location: Path | str) -> Iterator[SessionStore]:
    """The sessions at `location`; says on standard error when they had to be recovered, and
    what there is to say about the audit's head file."""
    from kogniterm.sessions.session_database import open_store

    paths = paths_in_use()
    store, recovery = open_store(
        location,
        user=user_name(),
        version=__version__,
        outputs=paths.outputs,
        heads=paths.data,
        spool=paths.spool,
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
