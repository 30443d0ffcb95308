"""`kogniterm storage`: check the database, bring it up to date, copy it to another one."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm.cli import stores
from kogniterm.database import is_postgres, without_password
from kogniterm.errors import EXIT_DONE, EXIT_NOT_DONE, UsageError
from kogniterm.paths import named
from kogniterm.ui.locale import _, translate

if TYPE_CHECKING:
    from kogniterm.sessions.store import SessionStore

_PLACE = "sqlite (the usual file), postgres (the configured address), a file or an address"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `storage check`, `storage migrate` and `storage copy`."""
    parser = subparsers.add_parser("storage", help=_("check, update and copy the database"))
    actions = parser.add_subparsers(dest="action", metavar=_("ACTION"), required=True)
    check = actions.add_parser("check", help=_("every journal, or two databases against another"))
    check.add_argument("source", nargs="?", metavar=_("FROM"), help=_(_PLACE))
    check.add_argument("target", nargs="?", metavar=_("TO"), help=_(_PLACE))
    migrate = actions.add_parser("migrate", help=_("bring an older database up to date"))
    copy = actions.add_parser("copy", help=_("copy sessions and memory to another database"))
    copy.add_argument("source", metavar=_("FROM"), help=_(_PLACE))
    copy.add_argument("target", metavar=_("TO"), help=_(_PLACE))
    for action in (check, migrate, copy):
        action.add_argument("--json", action="store_true", help=_("as JSON"))


def run(args: argparse.Namespace) -> int:
    """Do what was asked for; 1 when something does not hold."""
    if args.action == "copy":
        return _copy(args)
    if args.action == "check" and args.target:
        return _compare(args)
    if args.action == "migrate":
        return _migrate(args)
    return _check(args)


def _place(args: argparse.Namespace, name: str) -> Path | str:
    """The location that a word on the command line means."""
    if name == "sqlite":
        return stores.paths_in_use().database
    if name == "postgres":
        location = stores.location_of(args)
        if isinstance(location, Path):
            raise UsageError("No PostgreSQL address is configured; set KOGNITERM_DATABASE_URL.")
        return location
    return name if is_postgres(name) else named("", name)


def _both(args: argparse.Namespace) -> tuple[Path | str, Path | str]:
    source, target = _place(args, args.source), _place(args, args.target)
    if source == target:
        raise UsageError("Both places are the same: {place}", place=_shown(source))
    if isinstance(source, Path) and not source.exists():
        raise UsageError("There is no database {place}.", place=source)
    return source, target


def _shown(location: Path | str) -> str:
    return without_password(str(location))


def _copy(args: argparse.Namespace) -> int:
    from kogniterm.sessions.transfer import copy_all

    source_place, target_place = _both(args)
    with stores.opened(source_place) as source, stores.opened(target_place) as target:
        report = copy_all(source, target)
    memory = _copy_memory(source_place, target_place)
    if args.json:
        stores.write_json(
            {
                "memory_rows": memory,
                "copied": list(report.copied),
                "present": list(report.present),
                "conflicts": list(report.conflicts),
            }
        )
    else:
        stores.write_lines(
            [
                _("Copied to {place}: {copied}; there already: {present}.").format(
                    copied=len(report.copied),
                    present=len(report.present),
                    place=_shown(target_place),
                ),
                _("Memory: {count} rows.").format(count=memory),
                *(
                    _("{session} went on in both places and was left as it is.").format(session=one)
                    for one in report.conflicts
                ),
            ]
        )
    return EXIT_NOT_DONE if report.conflicts else EXIT_DONE


def _copy_memory(source_place: Path | str, target_place: Path | str) -> int:
    from kogniterm.memory.copying import copy_memory
    from kogniterm.memory.sql import open_sql

    with (
        closing(open_sql(source_place, stores.person())) as source,
        closing(open_sql(target_place, stores.person())) as target,
    ):
        return copy_memory(source, target).rows


def _same_memory(source_place: Path | str, target_place: Path | str) -> bool:
    from kogniterm.memory.copying import same_memory
    from kogniterm.memory.sql import open_sql

    with (
        closing(open_sql(source_place, stores.person())) as source,
        closing(open_sql(target_place, stores.person())) as target,
    ):
        return same_memory(source, target)


def _compare(args: argparse.Namespace) -> int:
    from kogniterm.sessions.transfer import differences

    source_place, target_place = _both(args)
    with stores.opened(source_place) as source, stores.opened(target_place) as target:
        different = differences(source, target)
        count = len(source.sessions(limit=1_000_000))
    memory = _same_memory(source_place, target_place)
    if args.json:
        stores.write_json({"sessions": count, "different": different, "memory": memory})
    elif different or not memory:
        lines = [_("{session} differs or is missing.").format(session=one) for one in different]
        stores.write_lines(lines if memory else [*lines, _("The memories differ.")])
    else:
        stores.write_lines(
            [
                _("All {count} sessions are in {place}, record for record.").format(
                    count=count, place=_shown(target_place)
                )
            ]
        )
    return EXIT_DONE if memory and not different else EXIT_NOT_DONE


def _migrate(args: argparse.Namespace) -> int:
    """Opening migrates; this says so, and fails clearly when it cannot be done."""
    place = stores.location_of(args)
    with stores.opened(place) as store:
        version = _version(store)
    if args.json:
        stores.write_json({"place": _shown(place), "schema": version})
    else:
        stores.write_lines(
            [
                _("{place} is up to date (schema {number}).").format(
                    place=_shown(place), number=version
                )
            ]
        )
    return EXIT_DONE


def _version(store: SessionStore) -> int:
    from kogniterm.sessions.schema import ROOM

    rows = store.backend.execute(
        "SELECT max(number) FROM schema_migrations WHERE room = ?", (ROOM,)
    )
    return int(rows[0][0])


def _check(args: argparse.Namespace) -> int:
    from kogniterm.sessions.audit import verify_all

    place = _place(args, args.source) if args.source else stores.location_of(args)
    with stores.opened(place) as store:
        problems = store.backend.problems()
        checked = verify_all(store.backend)
    reports = checked.sessions
    if checked.heads is not None:
        problems.append(translate(checked.heads))
    broken = [report for report in reports if not report.intact]
    records = sum(report.records for report in reports)
    if args.json:
        stores.write_json(
            {
                "place": _shown(place),
                "sessions": len(reports),
                "records": records,
                "problems": problems,
                "broken": [
                    {"session": one.session_id, "record": one.broken, "reason": str(one.reason)}
                    for one in broken
                ],
            }
        )
        return EXIT_NOT_DONE if broken or problems else EXIT_DONE
    for problem in problems:
        sys.stderr.write(stores.visible(problem) + "\n")
    for report in broken:
        if report.reason is not None:
            sys.stderr.write(
                _("{session}: record {seq} is broken: {reason}").format(
                    session=report.session_id, seq=report.broken, reason=translate(report.reason)
                )
                + "\n"
            )
    stores.write_lines(
        [
            _("{place}: {sessions} sessions, {records} sound records.").format(
                place=_shown(place), sessions=len(reports), records=records
            )
        ]
    )
    return EXIT_NOT_DONE if broken or problems else EXIT_DONE
