"""`kogniterm storage`: check and copy the database; show and clear kept replies."""

from __future__ import annotations

from pathlib import Path

from kogniterm.cli.options import JSON, Subparsers, add_actions
from kogniterm.cli.run_options import CallOptions
from kogniterm.cli.verb_helpers import location_of, open_sessions_at, paths_in_use, user_name
from kogniterm.cli.verbs.audit import chain_text
from kogniterm.errors import EXIT_DONE, EXIT_NOT_DONE, UsageError, why
from kogniterm.runtime.operations.action import Action, Argument, Report
from kogniterm.storage.drivers import SQLITE_MAGIC, is_postgres, without_password
from kogniterm.storage.folders import expand_path
from kogniterm.ui.locale import _, mark, size, translate


def add_parser(subparsers: Subparsers) -> None:
    """Add `storage check`, `storage copy` and `storage cache`."""
    add_actions(subparsers, "storage", ACTIONS, JSON)


def _location(call: CallOptions, name: str) -> Path | str:
    """Return the location that a word on the command line means."""
    if name == "sqlite":
        return paths_in_use().database
    if name == "postgres":
        location = location_of(call)
        if isinstance(location, Path):
            raise UsageError("No PostgreSQL address is configured; set KOGNITERM_DATABASE_URL.")
        return location
    if is_postgres(name):
        return name
    if "://" in name:
        raise UsageError(
            "{place} is not a PostgreSQL address; use postgresql://USER@HOST/DATABASE.",
            place=_shown(name),
        )
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


def _both(
    call: CallOptions, first: str, second: str, *, must_exist: bool = False
) -> tuple[Path | str, Path | str]:
    source, target = _location(call, first), _location(call, second)
    if source == target:
        raise UsageError("Source and target are the same database: {place}", place=_shown(source))
    _require_database(source)
    if must_exist or (isinstance(target, Path) and target.exists()):
        _require_database(target)
    return source, target


def _shown(location: Path | str) -> str:
    return without_password(str(location))


def _copy(call: CallOptions, first: str, second: str) -> Report:
    from kogniterm.runtime.operations.stored_data import copy_memory_between
    from kogniterm.sessions.session_transfer import copy_all

    source, target = _both(call, first, second)
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


def _compare(call: CallOptions, first: str, second: str) -> Report:
    from kogniterm.runtime.operations.stored_data import has_same_memory
    from kogniterm.sessions.session_transfer import differences

    source, target = _both(call, first, second, must_exist=True)
    with open_sessions_at(source) as old, open_sessions_at(target) as new:
        different = differences(old, new)
        count = len(old.sessions(limit=1_000_000))
    same_memory = has_same_memory(source, target, user_name())
    lines = [_("{session} differs or is missing.").format(session=one) for one in different]
    if not same_memory:
        lines.append(_("The memories differ."))
    same = _("All {count} sessions are in {place}, record for record.")
    return Report(
        {"sessions": count, "different": different, "memory": same_memory},
        lines or [same.format(count=count, place=_shown(target))],
        status=EXIT_NOT_DONE if lines else EXIT_DONE,
    )


def _check(call: CallOptions, first: str | None, second: str | None) -> Report:
    from kogniterm.sessions.chain_audit import verify_all

    if first and second:
        return _compare(call, first, second)
    location = _location(call, first) if first else location_of(call)
    _require_database(location)
    with open_sessions_at(location) as store:
        problems = store.database.problems()
        checked = verify_all(store.database)
    if checked.heads is not None:
        problems.append(translate(checked.heads))
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


def _cache(call: CallOptions, clear: bool) -> Report:
    from kogniterm.runtime.opening import reply_cache

    settings = call.load_settings()
    cache = reply_cache(settings, paths_in_use())
    if clear:
        count = cache.clear()
        deleted = _("Kept replies of models that were deleted: {count}.").format(count=count)
        return Report({"deleted": count}, [deleted])
    replies, held = cache.size()
    on = settings.model_cache
    told = _("Kept replies of models: {count} ({size}; at most {most} MB).").format(
        count=replies, size=size(held), most=settings.model_cache_mb
    )
    off = [] if on else [_("Nothing is added: model_cache is off.")]
    data = {"replies": replies, "bytes": held, "in_use": on}
    return Report(data, [told], notes=off)


_DATABASE = mark("Database: sqlite, postgres, a file or an address")

ACTIONS = (
    Action("check", "Check the database, or compare two", _check, (
        Argument("first", _DATABASE, "FROM", nargs="?"),
        Argument("second", _DATABASE, "TO", nargs="?")),
        ("kogniterm storage check", "kogniterm storage check sqlite postgres")),
    Action("copy", "Copy sessions and memories to another database", _copy, (
        Argument("first", _DATABASE, "FROM"), Argument("second", _DATABASE, "TO")),
        ("kogniterm storage copy sqlite postgres",)),
    Action("cache", "Show how many replies of models are kept, or delete them", _cache, (
        Argument("--clear", "Delete all kept replies"),),
        ("kogniterm storage cache", "kogniterm storage cache --clear")),
)  # fmt: skip
