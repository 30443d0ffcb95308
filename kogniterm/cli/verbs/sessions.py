"""`kogniterm sessions`: list, show, search, rename, delete, fork, export and import."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from kogniterm.cli.options import (
    JSON,
    SESSION_NAME,
    TO_FILE,
    YES,
    CallOptions,
    Subparsers,
    add_actions,
    current_folder,
    days,
)
from kogniterm.cli.verb_helpers import (
    confirm,
    open_sessions,
    paths_in_use,
    session_json,
    visible,
    write_report,
)
from kogniterm.errors import EXIT_NOT_DONE, UsageError
from kogniterm.installed import rows
from kogniterm.runtime.operations.action import Action, Argument, Report, local_time, whole
from kogniterm.runtime.operations.action import limit as limit_option
from kogniterm.storage.folders import expand_path
from kogniterm.types import Phrase
from kogniterm.ui.locale import _, plural, translate

if TYPE_CHECKING:
    from kogniterm.runtime.services.written_files import Kind
    from kogniterm.sessions.store import SessionInfo, SessionStore


def add_parser(subparsers: Subparsers) -> None:
    """Add `sessions` and its actions."""
    add_actions(subparsers, "sessions", ACTIONS)


def run(call: CallOptions, perform: Callable[..., Report], **arguments: Any) -> int:
    """Run the action; return 1 if the output is known to be incomplete."""
    with open_sessions(call) as store:
        status = write_report(call, perform(store, call, **arguments))
        cut = store.anchor.damaged and perform in (_list, _show, _search)
    return EXIT_NOT_DONE if cut else status


def _list(store: SessionStore, call: CallOptions, here: bool, all: bool, limit: int) -> Report:
    folder = str(current_folder()) if here else None
    infos = store.sessions(folder=folder, used=not all, limit=limit)
    return Report(
        [session_json(info) for info in infos],
        rows=[
            (info.id, local_time(info.updated), str(info.turns), info.title, info.folder)
            for info in infos
        ],
        notes=[] if infos else [_("No sessions yet.")],
    )


def _show(store: SessionStore, call: CallOptions, session: str) -> Report:
    from kogniterm.sessions.readable_export import markdown, outline

    if call.json:
        info = store.find(session)
        return Report({**session_json(info), "content": outline(store.database, info.id)})
    for part in markdown(store, session, translate):
        sys.stdout.write("\n".join(map(visible, part.split("\n"))))
    return Report(printed=True)


def _search(store: SessionStore, call: CallOptions, words: list[str], limit: int) -> Report:
    hits = store.search(" ".join(words), limit=limit)
    lines: list[str] = []
    for info, hit in hits:
        where = _("turn {turn}").format(turn=hit.turn)
        lines += [f"{info.id}  {where}  {info.title}", f"    {hit.excerpt}"]
    return Report(
        [{**session_json(info), "turn": hit.turn, "excerpt": hit.excerpt} for info, hit in hits],
        lines,
        notes=[] if hits else [_("Nothing found.")],
    )


def _rename(store: SessionStore, call: CallOptions, session: str, title: str) -> Report:
    info = store.rename(session, title)
    return Report(session_json(info), [Phrase("Session renamed: {title}", {"title": info.title})])


def _delete(
    store: SessionStore,
    _call: CallOptions,
    sessions: list[str],
    older_than: float | None,
    yes: bool,
) -> Report:
    if sessions and older_than is not None:
        raise UsageError(
            "{option} cannot be combined with {other}.", option="--older-than", other=_("SESSION")
        )
    if not sessions and older_than is None:
        raise UsageError("Specify the sessions to delete: their IDs, or --older-than DAYS.")
    infos = (
        store.find_unused(older_than)
        if older_than is not None
        else [store.find(reference) for reference in sessions]
    )
    if infos and not yes:
        confirm(
            _("Delete permanently?"),
            [f"{info.id}  {info.title}" for info in infos],
            without_terminal=Phrase("Deleting needs your confirmation at a terminal, or --yes."),
            no=Phrase("Nothing was deleted."),
        )
    deleted = store.delete(info.id for info in infos)
    count = plural("{count} session deleted.", "{count} sessions deleted.", len(deleted))
    return Report([session_json(info) for info in deleted], notes=[count])


def _fork(store: SessionStore, call: CallOptions, session: str, turn: int | None) -> Report:
    from kogniterm.sessions.session_transfer import fork

    info = fork(store, session, turn=turn)
    return Report(session_json(info), [info.id])


def _export(
    store: SessionStore, _call: CallOptions, session: str, form: str, to: str | None
) -> Report:
    from kogniterm.runtime.operations.stored_data import export_parts

    return _write(to, export_parts(store, session, form, translate), "export")


def _report(store: SessionStore, call: CallOptions, session: str, to: str | None) -> Report:
    from kogniterm.runtime.operations.stored_data import report_parts
    from kogniterm.text.redact import redact

    return _write(to, report_parts(store, session, redact=redact), "report")


def _write(to: str | None, parts: Iterable[str], kind: Kind) -> Report:
    """Write a new file for the user, or to standard output."""
    from kogniterm.runtime.operations.stored_data import write_for_user

    if to is None or to == "-":
        sys.stdout.writelines(parts)
    else:
        write_for_user(paths_in_use(), expand_path("", to), parts, kind)
    return Report(printed=True)


def _import(store: SessionStore, call: CallOptions, file: str, as_new: bool) -> Report:
    from kogniterm.runtime.operations.stored_data import import_session, read_lines

    lines = read_lines(file)
    info: SessionInfo = import_session(store, lines, folder=str(current_folder()), as_new=as_new)
    return Report(session_json(info), [f"{info.id}  {info.title}"])


_FORMS = ("jsonl", "markdown", *(form for form, _module in rows("EXPORTS")))

ACTIONS = (
    Action("list", "List sessions, most recent first", _list, (
        Argument("--here", "Only sessions of this folder"),
        Argument("--all", "Include sessions without a turn"), limit_option(50), JSON),
        ("kogniterm sessions list --here",)),
    Action("show", "Show a session as Markdown", _show, (SESSION_NAME, JSON),
           ("kogniterm sessions show last",)),
    Action("search", "Search the text and the commands of all sessions", _search, (
        Argument("words", "Words to find, all in one turn", "WORD", nargs="+"),
        limit_option(20), JSON), ("kogniterm sessions search nginx timeout",)),
    Action("rename", "Rename a session", _rename, (
        SESSION_NAME, Argument("title", "New title", "TITLE"), JSON),
        ('kogniterm sessions rename last "Upgrade nginx"',)),
    Action("delete", "Delete sessions permanently", _delete, (
        SESSION_NAME._replace(name="sessions", nargs="*"),
        Argument("--older-than", "Sessions not used for this many days", "DAYS", type=days),
        YES, JSON),
        ("kogniterm sessions delete last", "kogniterm sessions delete --older-than 90")),
    Action("fork", "Copy a session into a new one", _fork, (
        SESSION_NAME, Argument("--turn", "Copy up to the end of turn N", "N", type=whole), JSON),
        ("kogniterm sessions fork last --turn 3",)),
    Action("export", "Write a session to a file", _export, (
        SESSION_NAME,
        Argument("--format", "jsonl can be imported, markdown is for reading",
                 "|".join(_FORMS), "form", choices=_FORMS, default="jsonl"),
        TO_FILE),
        ("kogniterm sessions export last --to session.jsonl",
         "kogniterm sessions export last --format markdown")),
    Action("report", "Write a bug report: one file, with secrets replaced", _report, (
        SESSION_NAME, TO_FILE), ("kogniterm sessions report last --to report.jsonl",)),
    Action("import", "Import an exported session", _import, (
        Argument("file", "File of an export; - for standard input", "FILE"),
        Argument("--as-new", "Import it under a new ID, next to the original"), JSON),
        ("kogniterm sessions import session.jsonl",)),
)  # fmt: skip
