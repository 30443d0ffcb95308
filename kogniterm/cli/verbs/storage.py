"""`kogniterm storage`: check the database, or copy it to another one."""

from __future__ import annotations

from pathlib import Path

from kogniterm.cli.options import JSON, CallOptions, Subparsers, add_actions
from kogniterm.cli.verb_helpers import location_of, open_sessions_at, paths_in_use, user_name
from kogniterm.cli.verbs.audit import chain_text
from kogniterm.errors import EXIT_DONE, EXIT_NOT_DONE, UsageError, why
from kogniterm.runtime.operations.action import Action, Argument, Report
from kogniterm.storage.drivers import SQLITE_MAGIC
from kogniterm.storage.folders import expand_path
from kogniterm.storage.stores import lower_scheme, require_store, scheme_of, without_password
from kogniterm.ui.locale import _, mark, translate


def add_parser(subparsers: Subparsers) -> None:
    """Add `storage check` and `storage copy`."""
    add_actions(subparsers, "storage", ACTIONS, JSON)


def _location(call: CallOptions, name: str) -> Path | str:
    """Return the location that a word on the command line means."""
    if name == "sqlite":
        return paths_in_use().database
    if name == "postgres":
        location = location_of(call)
        if isinstance(location, Path):
            raise UsageError("No address of a database is configured; set KOGNITERM_DATABASE_URL.")
        return location
    if scheme := scheme_of(name):
        require_store(scheme)
        return lower_scheme(name)
    return expand_path("", name)


def _require_database(location: Path | str) -> None:
    """Raise `UsageError` unless a named file is a database: opening would create or move it."""
    if isinstance(location, str) or location == paths_in_use().database:
        return
    try:
        with location.open("rb") as file:
            is_sqlite = file.read(len(SQLITE_MAGIC)) == SQLITE_MAGIC
    except FileNotFoundError as error:
        raise UsageError("Database {place} not found.", place=location) from error
    except OSError as error:
        raise UsageError("{file} cannot be read: {why}.", file=location, why=why(error)) from error
    if not is_sqlite:
        raise UsageError("{place} is not a SQLite database.", place=location)


def _shown(location: Path | str) -> str:
    return without_password(str(location))


def _copy(call: CallOptions, first: str, second: str) -> Report:
    from kogniterm.runtime.operations.stored_data import copy_memory_between
    from kogniterm.sessions.session_transfer import copy_all

    source, target = _location(call, first), _location(call, second)
    if source == target:
        raise UsageError("Source and target are the same database: {place}", place=_shown(source))
    _require_database(source)
    if isinstance(target, Path) and target.exists():
        _require_database(target)
    with open_sessions_at(source) as old, open_sessions_at(target) as new:
        report = copy_all(old, new)
    rows = copy_memory_between(source, target, user_name())
    copied = _("Copied to {place}: {copied}; there already: {present}.").format(
        copied=len(report.copied), present=len(report.present), place=_shown(target)
    )
    went_on = _("{session} was continued in both databases and was not copied.")
    return Report(
        {
            "memory_rows": rows,
            "copied": list(report.copied),
            "present": list(report.present),
            "conflicts": list(report.conflicts),
        },
        [
            copied,
            _("Memory: {count} rows.").format(count=rows),
            *(went_on.format(session=one) for one in report.conflicts),
        ],
        status=EXIT_NOT_DONE if report.conflicts else EXIT_DONE,
    )


def _check(call: CallOptions, place: str | None) -> Report:
    from kogniterm.runtime.operations.stored_data import prove_all

    location = _location(call, place) if place else location_of(call)
    _require_database(location)
    with open_sessions_at(location) as store:
        problems = store.database.problems()
        proof = prove_all(store, location, user_name(), paths_in_use().data)
    checked = proof.sessions
    if checked.heads is not None:
        problems.append(translate(checked.heads))
    faults = proof.facts.faults if proof.facts is not None else ()
    problems += [_("memory: {reason}").format(reason=translate(fault)) for fault in faults]
    broken = [report for report in checked.sessions if not report.intact]
    counts = {
        "sessions": len(checked.sessions),
        "records": sum(report.records for report in checked.sessions),
    }
    sound = _("{place}: {sessions} sessions, {records} sound records.")
    return Report(
        {
            "place": _shown(location),
            **counts,
            "problems": problems,
            "broken": [
                {"session": one.session_id, "record": one.broken, "reason": str(one.reason)}
                for one in broken
            ],
        },
        [sound.format(place=_shown(location), **counts)],
        notes=[*problems, *map(chain_text, broken)],
        status=EXIT_NOT_DONE if broken or problems else EXIT_DONE,
    )


_DATABASE = mark("Database: sqlite, postgres, a file or an address")

ACTIONS = (
    Action("check", "Check a database; by default, the one in use", _check, (
        Argument("place", _DATABASE, "DATABASE", nargs="?"),),
        ("kogniterm storage check", "kogniterm storage check sqlite")),
    Action("copy", "Copy sessions and memories to another database", _copy, (
        Argument("first", _DATABASE, "FROM"), Argument("second", _DATABASE, "TO")),
        ("kogniterm storage copy sqlite postgres",)),
)  # fmt: skip
