"""`kogniterm replay`: run a session again from its record, and say where it first differs."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm import __version__
from kogniterm.cli import stores
from kogniterm.errors import EXIT_DONE, EXIT_NOT_DONE, UsageError, why
from kogniterm.ui.locale import _, plural

if TYPE_CHECKING:
    from kogniterm.protocols import Executor, Tool
    from kogniterm.runtime.replay import ReplayReport
    from kogniterm.sessions.records import Record
    from kogniterm.sessions.replay import Divergence
    from kogniterm.sessions.store import SessionStore

IN_SCRATCH = frozenset({"read_file", "search_text", "find_files", "edit_file", "write_file"})
"""Tools that work on the scratch copy in a live replay; the others answer from the record."""
_SHOWN = 300


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `replay`."""
    parser = subparsers.add_parser(
        "replay",
        help=_("run a session again from its record"),
        description=_(
            "Run a session again with the recorded replies of the model: no network, nobody is "
            "asked, and commands are answered from the record. Exit status 1 when the run "
            "differs from the record."
        ),
    )
    parser.add_argument(
        "session",
        metavar=_("SESSION"),
        help=_("an id, a title, last, or the file of an export or a bug report"),
    )
    parser.add_argument(
        "--live",
        action="store_true",
        help=_("really run the commands, in a scratch copy of the session's folder"),
    )
    parser.add_argument(
        "--folder", metavar=_("FOLDER"), help=_("with --live: copy this folder instead")
    )
    parser.add_argument("--json", action="store_true", help=_("as JSON"))


def run(args: argparse.Namespace) -> int:
    """Replay and report; 1 when the run differs from the record."""
    if args.folder is not None and not args.live:
        raise UsageError("--folder says what to copy for --live; without it nothing is run.")
    with tempfile.TemporaryDirectory(prefix="kogniterm-replay-") as scratch:
        report = _replay(args, Path(scratch))
    if args.json:
        stores.write_json(dataclasses.asdict(report))
    else:
        stores.write_lines(_sentences(report))
    return EXIT_DONE if report.divergence is None else EXIT_NOT_DONE


def _replay(args: argparse.Namespace, scratch: Path) -> ReplayReport:
    from kogniterm.runtime.replay import replay
    from kogniterm.sessions.opening import open_store
    from kogniterm.sessions.recording import tape_of

    records, folder, model = _recorded(args, scratch)
    tape = tape_of(records)
    if not tape.parts:
        raise UsageError("There is nothing in this session that could be run again.")
    store, _recovery = open_store(scratch / "replay.db", user="replay", version=__version__)
    try:
        with _world(args, folder, scratch) as (executor, tools):
            journal = store.create(folder=folder, model=model)
            live = IN_SCRATCH if executor is not None else frozenset()
            try:
                return asyncio.run(
                    replay(
                        tape,
                        journal,
                        model=model,
                        tools=tools,
                        sink=_unseen,
                        live=executor,
                        live_tools=live,
                    )
                )
            finally:
                journal.close()
    finally:
        store.close()


def _unseen(event: object) -> None:
    """A replay shows its report, not its events."""


def _recorded(args: argparse.Namespace, scratch: Path) -> tuple[list[Record], str, str]:
    """The records of the session, its folder and its model."""
    from kogniterm.sessions.opening import open_store

    file = Path(args.session)
    if not file.is_file():
        with stores.opened(stores.location_of(args)) as store:
            return _read(store, store.find(args.session).id)
    from kogniterm.sessions.report import is_report, read_report
    from kogniterm.sessions.transfer import import_lines

    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError("{file} cannot be read: {why}.", file=file, why=why(error)) from error
    if is_report(lines):
        lines = list(read_report(lines).session)
    store, _recovery = open_store(scratch / "recorded.db", user="replay", version=__version__)
    try:
        return _read(store, import_lines(store, lines).id)
    finally:
        store.close()


def _read(store: SessionStore, session_id: str) -> tuple[list[Record], str, str]:
    from contextlib import suppress

    from kogniterm.errors import StorageCorruptError
    from kogniterm.sessions.stored import stored_records

    records = []
    for stored in stored_records(store.backend, session_id):
        with suppress(StorageCorruptError):
            records.append(stored.record())
    info = store.find(session_id)
    return records, info.folder, info.model


@contextmanager
def _world(
    args: argparse.Namespace, folder: str, scratch: Path
) -> Iterator[tuple[Executor | None, dict[str, Tool]]]:
    """What runs commands, if anything does, and the tools."""
    from kogniterm.approval.places import is_secret
    from kogniterm.execution import open_executor
    from kogniterm.execution.executor import CommandExecutor
    from kogniterm.execution.store import OutputStore
    from kogniterm.runtime.asking import PersonDesk
    from kogniterm.runtime.replay_world import Absent, Elsewhere
    from kogniterm.runtime.toolbox import ToolPlaces, session_tools
    from kogniterm.settings import environment

    work, absent = scratch / "work", Absent()
    if args.live:
        source = Path(args.folder or folder)
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
    places = ToolPlaces(
        lambda: executor.cwd,
        str(work),
        OutputStore(scratch / "outputs"),
        is_secret,
        executor,
        PersonDesk(),
        memory=absent,
        history=absent,
        forgetting=absent,
    )
    try:
        tools = dict(session_tools(places))
        yield (Elsewhere(executor, folder, work) if args.live else None), tools
    finally:
        executor.close()


def _sentences(report: ReplayReport) -> list[str]:
    played = plural("{count} turn played", "{count} turns played", report.turns)
    commands = plural("{count} command", "{count} commands", report.commands)
    lines = [f"{played}, {commands}."]
    found = report.divergence
    if found is None:
        return [*lines, _("The run is the same as the record.")]
    where = _("The run first differs from the record in turn {turn}, at {place}:").format(
        turn=found.turn, place=f"{found.kind} {found.path}".strip()
    )
    return [*lines, where, *_sides(found)]


def _sides(found: Divergence) -> list[str]:
    return [
        "  " + _("recorded: {value}").format(value=_short(found.recorded)),
        "  " + _("replayed: {value}").format(value=_short(found.replayed)),
    ]


def _short(value: object) -> str:
    text = _("nothing") if value is None else repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
