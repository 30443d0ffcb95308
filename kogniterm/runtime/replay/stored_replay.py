"""Replay of a stored session, of an export or of a bug report, in a scratch folder."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kogniterm import __version__
from kogniterm.errors import StorageCorruptError, UsageError

if TYPE_CHECKING:
    from kogniterm.protocols import Executor, Tool
    from kogniterm.runtime.replay.replay_session import ReplayReport
    from kogniterm.sessions.records import Record
    from kogniterm.sessions.store import SessionStore

IN_SCRATCH = frozenset({"read_file", "search_text", "find_files", "edit_file", "write_file"})
"""Tools that work on the scratch copy in a live replay; the others answer from the record."""


class Recorded(NamedTuple):
    """The records of a session, its folder and its model."""

    records: list[Record]
    folder: str
    model: str


def recorded_session(store: SessionStore, reference: str) -> Recorded:
    """Read a session; what cannot be read of it is left out."""
    from kogniterm.sessions.journal.codec import stored_records

    info = store.find(reference)
    records = []
    for stored in stored_records(store.database, info.id):
        with suppress(StorageCorruptError):
            records.append(stored.record())
    return Recorded(records, info.folder, info.model)


def recorded_file(file: Path, scratch: Path) -> Recorded:
    """Read the session of an export or a bug report. Raises `UsageError`."""
    from kogniterm.runtime.use_cases.stored_data import import_session, read_lines
    from kogniterm.sessions.session_database import open_store

    lines = read_lines(str(file))
    store, _recovery = open_store(scratch / "recorded.db", user="replay", version=__version__)
    with closing(store):
        return recorded_session(store, import_session(store, lines).id)


def replay_recorded(
    recorded: Recorded, scratch: Path, *, live: bool, folder: str | None
) -> ReplayReport:
    """Run a session again; `live` runs its commands in a copy of its folder, or of `folder`."""
    from kogniterm.runtime.replay.replay_session import replay
    from kogniterm.sessions.recording import recording_of
    from kogniterm.sessions.session_database import open_store

    recording = recording_of(recorded.records)
    if not recording.parts:
        raise UsageError("There is nothing in this session that could be run again.")
    store, _recovery = open_store(scratch / "replay.db", user="replay", version=__version__)
    copied = (folder or recorded.folder) if live else None
    with (
        closing(store),
        _world(recorded.folder, copied, scratch) as (executor, tools),
        closing(store.create(folder=recorded.folder, model=recorded.model)) as journal,
    ):
        playing = replay(
            recording,
            journal,
            model=recorded.model,
            tools=tools,
            sink=_unseen,
            live=executor,
            live_tools=IN_SCRATCH if live else frozenset(),
        )
        return asyncio.run(playing)


def _unseen(event: object) -> None:
    """A replay shows its report, not its events."""


@contextmanager
def _world(
    folder: str, copied: str | None, scratch: Path
) -> Iterator[tuple[Executor | None, dict[str, Tool]]]:
    """Open what runs commands, if anything does, and the tools."""
    from kogniterm.approval.analysis.paths_and_variables import is_secret
    from kogniterm.execution import open_executor
    from kogniterm.execution.command_output import OutputStore
    from kogniterm.execution.executor import CommandExecutor
    from kogniterm.runtime.replay.recorded_world import Absent, Elsewhere
    from kogniterm.runtime.turn_ports import AskPort
    from kogniterm.settings import environment
    from kogniterm.tools.tool_registry import ToolPorts, session_tools

    work, absent = scratch / "work", Absent()
    if copied is not None:
        source = Path(copied)
        if not source.is_dir():
            raise UsageError(
                "The folder {folder} of the session is not here; say which to copy with --folder.",
                folder=source,
            )
        shutil.copytree(source, work, symlinks=True, ignore_dangling_symlinks=True)
    else:
        work.mkdir()
    executor: CommandExecutor = open_executor(
        str(work), env=dict(environment()), outputs=scratch / "outputs"
    )
    places = ToolPorts(
        lambda: executor.cwd,
        str(work),
        OutputStore(scratch / "outputs"),
        is_secret,
        executor,
        AskPort(),
        memory=absent,
        history=absent,
        forgetting=absent,
    )
    try:
        tools = dict(session_tools(places))
        yield (Elsewhere(executor, folder, work) if copied is not None else None), tools
    finally:
        executor.close()
