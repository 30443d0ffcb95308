"""`kogniterm replay`: run a session again from its record, and say where it first differs."""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm.cli.options import JSON, Argument, Subparsers, add_verb
from kogniterm.cli.verb_helpers import Report, open_sessions, write_report
from kogniterm.errors import EXIT_DONE, EXIT_NOT_DONE, UsageError
from kogniterm.ui.locale import _, mark, plural

if TYPE_CHECKING:
    from kogniterm.runtime.replay.replay_session import ReplayReport

_SHOWN = 300

ARGUMENTS = (
    Argument(
        "session", "an id, a title, last, or the file of an export or a bug report", "SESSION"
    ),
    Argument("--live", "really run the commands, in a scratch copy of the session's folder"),
    Argument("--folder", "with --live: copy this folder instead", "FOLDER"),
    JSON,
)


def add_parser(subparsers: Subparsers) -> None:
    """Add `replay`."""
    add_verb(
        subparsers,
        "replay",
        ARGUMENTS,
        description=mark(
            "Run a session again with the recorded replies of the model: no network, nobody is "
            "asked, and commands are answered from the record. Exit status 1 when the run "
            "differs from the record."
        ),
    )


def run(args: argparse.Namespace) -> int:
    """Replay and report; 1 when the run differs from the record."""
    from kogniterm.runtime.replay.replay_session import (
        recorded_file,
        recorded_session,
        replay_recorded,
    )

    if args.folder is not None and not args.live:
        raise UsageError("--folder says what to copy for --live; without it nothing is run.")
    with tempfile.TemporaryDirectory(prefix="kogniterm-replay-") as folder:
        scratch, file = Path(folder), Path(args.session)
        if file.is_file():
            recorded = recorded_file(file, scratch)
        else:
            with open_sessions(args) as store:
                recorded = recorded_session(store, args.session)
        report = replay_recorded(recorded, scratch, live=args.live, folder=args.folder)
    status = EXIT_DONE if report.divergence is None else EXIT_NOT_DONE
    return write_report(args, Report(dataclasses.asdict(report), _sentences(report), status=status))


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
    return [
        *lines,
        where,
        "  " + _("recorded: {value}").format(value=_short(found.recorded)),
        "  " + _("replayed: {value}").format(value=_short(found.replayed)),
    ]


def _short(value: object) -> str:
    text = _("nothing") if value is None else repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
