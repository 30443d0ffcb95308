"""`kogniterm replay`: run a session again from its record, and say where it first differs."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm.cli.options import JSON, CallOptions, Example, Subparsers, add_verb
from kogniterm.cli.verb_helpers import open_sessions
from kogniterm.errors import EXIT_DONE, EXIT_NOT_DONE, UsageError
from kogniterm.runtime.operations.action import Argument, Report
from kogniterm.text.shorten import cut
from kogniterm.ui.locale import _, mark, plural

if TYPE_CHECKING:
    from kogniterm.runtime.replay.replay_session import ReplayReport

_SHOWN = 300

ARGUMENTS = (
    Argument("session", "ID, title, last, or the file of an export or bug report", "SESSION"),
    Argument("--live", "Run the commands, in a temporary copy of the folder"),
    Argument("--folder", "Folder to copy with --live", "FOLDER"),
    JSON,
)


def add_parser(subparsers: Subparsers) -> None:
    """Add `replay`."""
    add_verb(
        subparsers,
        "replay",
        ARGUMENTS,
        description=mark(
            "Replay a session with the recorded replies of the model and the recorded results of "
            "its commands, without network or questions. Exit status: 1 if the replay differs "
            "from the record."
        ),
        examples=(
            Example("kogniterm replay last"),
            Example("kogniterm replay report.jsonl --live"),
        ),
    )


def run(call: CallOptions, session: str, live: bool, folder: str | None) -> Report:
    """Replay and report; the status is 1 when the run differs from the record."""
    from kogniterm.runtime.operations.recordings import recorded_file, recorded_session
    from kogniterm.runtime.replay.replay_session import replay_recorded

    if folder is not None and not live:
        raise UsageError(
            "--folder needs --live; without it, no command runs and no folder is copied."
        )
    with tempfile.TemporaryDirectory(prefix="kogniterm-replay-") as temporary:
        scratch, file = Path(temporary), Path(session)
        if file.is_file():
            recorded = recorded_file(file)
        else:
            with open_sessions(call) as store:
                recorded = recorded_session(store, session)
        report = replay_recorded(recorded, scratch, live=live, folder=folder)
    status = EXIT_DONE if report.divergence is None else EXIT_NOT_DONE
    return Report(dataclasses.asdict(report), _sentences(report), status=status)


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
    return cut(text, _SHOWN)
