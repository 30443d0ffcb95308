"""`kogniterm sessions`: list, show, search, rename, delete, fork, export and import."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from kogniterm.cli import stores
from kogniterm.cli.confirm import confirmed
from kogniterm.cli.options import here
from kogniterm.errors import EXIT_DONE, EXIT_NOT_DONE, UsageError, why
from kogniterm.ui.locale import _, plural, translate

if TYPE_CHECKING:
    from kogniterm.runtime.written import Kind
    from kogniterm.sessions.store import SessionStore

_REFERENCE = "an id or its beginning, a title, or last"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `sessions` and its actions."""
    parser = subparsers.add_parser("sessions", help=_("find, read, copy and delete sessions"))
    actions = parser.add_subparsers(dest="action", metavar=_("ACTION"), required=True)

    listing = actions.add_parser("list", help=_("the sessions, the last used first"))
    listing.add_argument("--here", action="store_true", help=_("only those of this folder"))
    listing.add_argument("--limit", type=_count, default=50, metavar="N", help=_("at most N"))

    show = actions.add_parser("show", help=_("one session as Markdown"))
    _add_reference(show)

    search = actions.add_parser("search", help=_("find words in what was said and run"))
    search.add_argument("words", nargs="+", metavar=_("WORD"))
    search.add_argument("--limit", type=_count, default=20, metavar="N", help=_("at most N"))

    rename = actions.add_parser("rename", help=_("give a session another title"))
    _add_reference(rename)
    rename.add_argument("title", metavar=_("TITLE"))

    delete = actions.add_parser("delete", help=_("delete sessions; nothing of them stays"))
    delete.add_argument("sessions", nargs="*", metavar=_("SESSION"), help=_(_REFERENCE))
    delete.add_argument(
        "--older-than",
        type=float,
        metavar=_("DAYS"),
        help=_("all that were not used for so many days"),
    )
    delete.add_argument("--yes", action="store_true", help=_("do not ask"))

    fork = actions.add_parser("fork", help=_("start a new session from a copy of one"))
    _add_reference(fork)
    fork.add_argument("--turn", type=int, metavar="N", help=_("copy up to the end of turn N"))

    export = actions.add_parser("export", help=_("write a session to a file"))
    _add_reference(export)
    export.add_argument(
        "--format",
        choices=("jsonl", "markdown"),
        default="jsonl",
        help=_("jsonl can be imported again; markdown is for reading"),
    )
    export.add_argument("--to", metavar=_("FILE"), help=_("instead of standard output"))

    report = actions.add_parser(
        "report", help=_("write a bug report: a session without its secrets, in one file")
    )
    _add_reference(report)
    report.add_argument("--to", metavar=_("FILE"), help=_("instead of standard output"))

    importing = actions.add_parser("import", help=_("take in an exported session"))
    importing.add_argument("file", metavar=_("FILE"), help=_("as export wrote it; - is stdin"))
    importing.add_argument(
        "--as-new", action="store_true", help=_("under a new id, beside the one it came from")
    )
    for action in (listing, show, search, rename, delete, fork, importing):
        action.add_argument("--json", action="store_true", help=_("as JSON"))


def _add_reference(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", metavar=_("SESSION"), help=_(_REFERENCE))


def _count(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(
            _("a number from 1 on is needed, not {text}").format(text=text)
        )
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Do what was asked for; 1 when what is shown is known not to be all there was. Failures are
    `KognitermError`s."""
    action = {
        "list": _list,
        "show": _show,
        "search": _search,
        "rename": _rename,
        "delete": _delete,
        "fork": _fork,
        "export": _export,
        "report": _report,
        "import": _import,
    }[args.action]
    with stores.opened(stores.location_of(args)) as store:
        action(store, args)
        cut = store.anchor.damaged and args.action in ("list", "show", "search")
    return EXIT_NOT_DONE if cut else EXIT_DONE


def _list(store: SessionStore, args: argparse.Namespace) -> None:
    folder = str(here()) if args.here else None
    infos = store.sessions(folder=folder, limit=args.limit)
    if args.json:
        stores.write_json([stores.as_json(info) for info in infos])
    elif not infos:
        sys.stderr.write(_("There is no session yet.") + "\n")
    else:
        stores.write_table(
            [
                (info.id, stores.local_time(info.updated), str(info.turns), info.title, info.folder)
                for info in infos
            ]
        )


def _show(store: SessionStore, args: argparse.Namespace) -> None:
    from kogniterm.sessions.markdown import markdown

    if args.json:
        from kogniterm.sessions.outline import outline

        info = store.find(args.session)
        turns = [turn.plain() for turn in outline(store.backend, info.id)]
        stores.write_json({**stores.as_json(info), "content": turns})
        return
    for part in markdown(store, args.session, translate):
        sys.stdout.write("\n".join(map(stores.visible, part.split("\n"))))


def _search(store: SessionStore, args: argparse.Namespace) -> None:
    hits = store.search(" ".join(args.words), limit=args.limit)
    if args.json:
        stores.write_json(
            [
                {**stores.as_json(info), "turn": hit.turn, "excerpt": hit.excerpt}
                for info, hit in hits
            ]
        )
    elif not hits:
        sys.stderr.write(_("Nothing found.") + "\n")
    else:
        for info, hit in hits:
            where = _("turn {turn}").format(turn=hit.turn)
            stores.write_lines([f"{info.id}  {where}  {info.title}", f"    {hit.excerpt}"])


def _rename(store: SessionStore, args: argparse.Namespace) -> None:
    info = store.rename(args.session, args.title)
    if args.json:
        stores.write_json(stores.as_json(info))


def _delete(store: SessionStore, args: argparse.Namespace) -> None:
    if bool(args.sessions) == (args.older_than is not None):
        raise UsageError("Say which sessions to delete: their ids, or --older-than DAYS.")
    infos = (
        store.unused(args.older_than)
        if args.older_than is not None
        else [store.find(reference) for reference in args.sessions]
    )
    if infos and not args.yes:
        _ask([f"{info.id}  {info.title}" for info in infos])
    deleted = store.delete(info.id for info in infos)
    if args.json:
        stores.write_json([stores.as_json(info) for info in deleted])
    else:
        sys.stderr.write(
            plural("{count} session deleted.", "{count} sessions deleted.", len(deleted)) + "\n"
        )


def _ask(lines: list[str]) -> None:
    """Raises `UsageError` unless the person says yes."""
    if not sys.stdin.isatty():
        raise UsageError("Deleting needs a person to confirm it, or --yes.")
    for line in lines:
        sys.stderr.write(stores.visible(line) + "\n")
    if not confirmed(_("Delete for good? [y/N] ")):
        raise UsageError("Nothing was deleted.")


def _fork(store: SessionStore, args: argparse.Namespace) -> None:
    from kogniterm.sessions.transfer import fork

    info = fork(store, args.session, turn=args.turn)
    if args.json:
        stores.write_json(stores.as_json(info))
    else:
        stores.write_lines([info.id])


def _export(store: SessionStore, args: argparse.Namespace) -> None:
    from kogniterm.sessions.markdown import markdown
    from kogniterm.sessions.transfer import export_lines

    parts: Iterable[str]
    if args.format == "markdown":
        parts = markdown(store, args.session, translate)
    else:
        parts = (line + "\n" for line in export_lines(store, args.session))
    with _target(args.to, "export") as file:
        file.writelines(parts)


def _report(store: SessionStore, args: argparse.Namespace) -> None:
    import platform

    from kogniterm import __version__
    from kogniterm.sessions.report import report_lines
    from kogniterm.text.redact import redact

    about = {
        "kogniterm": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
    }
    with _target(args.to, "report") as file:
        lines = report_lines(store, args.session, redact=redact, about=about)
        file.writelines(line + "\n" for line in lines)


@contextmanager
def _target(name: str | None, kind: Kind) -> Iterator[TextIO]:
    """Where to write: a new file of the person's own, or standard output."""
    if name is None or name == "-":
        yield sys.stdout
        return
    from kogniterm.sessions.files import replaced

    with replaced(Path(name)) as file:
        yield file
    stores.note_written(Path(name), kind)


def _import(store: SessionStore, args: argparse.Namespace) -> None:
    from kogniterm.sessions.report import is_report, read_report
    from kogniterm.sessions.transfer import import_lines

    lines = _lines_of(args.file)
    if is_report(lines):
        lines = list(read_report(lines).session)
    info = import_lines(store, lines, as_new=args.as_new)
    if args.json:
        stores.write_json(stores.as_json(info))
    else:
        stores.write_lines([f"{info.id}  {info.title}"])


def _lines_of(name: str) -> list[str]:
    try:
        if name == "-":
            return sys.stdin.readlines()
        with Path(name).open(encoding="utf-8") as file:
            return file.readlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError("{file} cannot be read: {why}.", file=name, why=why(error)) from error
