"""`kogniterm memory`: everything that is remembered, open to the person it is about."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm.cli import memory_shown as shown
from kogniterm.cli import stores
from kogniterm.cli.confirm import confirmed
from kogniterm.errors import EXIT_DONE, EXIT_NOT_DONE, UsageError, why
from kogniterm.paths import named
from kogniterm.ui.locale import _, mark, plural, translate

if TYPE_CHECKING:
    from kogniterm.memory import Fact, Memory
    from kogniterm.memory.forget import Forgettable

_FACT = "an id such as m7"
_NO_FACT = mark("No fact matches; it is removed from journals, outputs, history and logs.")
_NOTHING_BUT_NOTES = mark("There is no fact; lessons, notes and preferences are removed.")
CATEGORIES = (
    "preference", "requirement", "constraint", "feedback", "project", "learning", "fact",
)  # fmt: skip


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `memory` and its actions."""
    parser = subparsers.add_parser("memory", help=_("see, correct and forget what is remembered"))
    actions = parser.add_subparsers(dest="action", metavar=_("ACTION"), required=True)
    made = {name: actions.add_parser(name, help=_(text)) for name, (text, _run) in ACTIONS.items()}
    made["list"].add_argument(
        "--all", action="store_true", help=_("what was replaced and what has faded, too")
    )
    for name in ("search", "add", "forget"):
        nargs = "*" if name == "forget" else "+"
        made[name].add_argument("words", nargs=nargs, metavar=_("WORD"), help=_("words, or an id"))
    made["search"].add_argument("--limit", type=_count, default=10, metavar="N", help=_("at most"))
    for name in ("show", "edit", "pin", "undo", "confirm"):
        made[name].add_argument("fact", metavar=_("FACT"), help=_(_FACT))
    made["edit"].add_argument("text", nargs="+", metavar=_("WORD"), help=_("its new words"))
    made["pin"].add_argument("--off", action="store_true", help=_("unpin it"))
    made["add"].add_argument("--category", choices=CATEGORIES, default="fact")
    made["add"].add_argument("--slot", metavar=_("NAME"), help=_("replaces what has this name"))
    made["add"].add_argument(
        "--everywhere", action="store_true", help=_("for all projects, not only this one")
    )
    _add_forget_options(made["forget"])
    made["export"].add_argument("--to", metavar=_("FILE"), help=_("instead of standard output"))
    made["export"].add_argument(
        "--no-redact", action="store_true", help=_("leave what looks like a secret in")
    )
    made["import"].add_argument("file", metavar=_("FILE"), help=_("as export wrote it; - is stdin"))
    for name in ("import", "prune"):
        made[name].add_argument(
            "--yes", action="store_true", help=_("do it; without this it is only told")
        )
    for action in made.values():
        action.add_argument("--json", action="store_true", help=_("as JSON"))
        action.add_argument(
            "--project", metavar=_("FOLDER"), help=_("of this project instead of the one here")
        )


def _add_forget_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--all", action="store_true", help=_("everything, of every project"))
    parser.add_argument(
        "--here", action="store_true", help=_("everything that was learnt in this project")
    )
    parser.add_argument("--session", metavar="ID", help=_("what was learnt in a session"))
    parser.add_argument("--yes", action="store_true", help=_("do not ask"))


def run(args: argparse.Namespace) -> int:
    """Do what was asked for."""
    _text, action = ACTIONS[args.action]
    return action(args)


# --- opening ---------------------------------------------------------------------------------


def _open(
    args: argparse.Namespace,
    *,
    project: str | None = None,
    others: Sequence[Forgettable] | None = None,
) -> Memory:
    """The memory of the person here; with `others`, ready to forget."""
    from kogniterm.memory import open_memory
    from kogniterm.memory.vectors import vectors_installed
    from kogniterm.text.redact import redact

    paths = stores.paths_in_use()
    if project is None:
        project = _project(args)
    return open_memory(
        stores.location_of(args),
        user=stores.person(),
        project=project,
        vectors=args.action == "search" and vectors_installed(),
        redact=redact,
        key_file=paths.data / "memory-key",
        heads=paths.data,
        stores=others or (),
        paths=(paths.data,) if others is not None else (),
    )


def _project(args: argparse.Namespace) -> str:
    from kogniterm.cli.options import here
    from kogniterm.memory.project import project_root

    return str(project_root(named("", args.project) if args.project else here()))


@contextmanager
def _other_stores(args: argparse.Namespace) -> Iterator[list[Forgettable]]:
    """What else may hold forgotten words: the journal, and files here and there."""
    from kogniterm.runtime.forgetting import forgettables

    with stores.opened(stores.location_of(args)) as sessions:
        yield forgettables(stores.paths_in_use(), sessions, _project(args))


def _writable(args: argparse.Namespace) -> None:
    from kogniterm.cli.options import settings_of

    if settings_of(args).memory == "off":
        raise UsageError("Memory is switched off; set memory to full to add to it.")


def _count(text: str) -> int:
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(_("give a number above 0"))
    return int(text)


# --- reading ---------------------------------------------------------------------------------


def _list(args: argparse.Namespace) -> int:
    with _open(args) as memory:
        wanted = ("active", "pending", "superseded") if args.all else ("active", "pending")
        now = memory.clock.now()
        facts = [
            fact for fact in memory.facts(*wanted) if args.all or not shown.is_faded(fact, now)
        ]
        if args.json:
            stores.write_json([shown.as_json(fact, now) for fact in facts])
        elif facts:
            stores.write_table(shown.table(facts, now))
        else:
            sys.stderr.write(_("Nothing is remembered here yet.") + "\n")
    return EXIT_DONE


def _search(args: argparse.Namespace) -> int:
    with _open(args) as memory:
        hits = memory.search(" ".join(args.words), args.limit)
        now = memory.clock.now()
        if args.json:
            stores.write_json(
                [{**shown.as_json(memory.get(one.id), now), "score": one.score} for one in hits]
            )
        else:
            for one in hits:
                stores.write_lines([f"{one.label}  {one.score:.2f}  {one.text}"])
    return EXIT_DONE if hits else EXIT_NOT_DONE


def _show(args: argparse.Namespace) -> int:
    with _open(args) as memory:
        fact = memory.get(args.fact)
        earlier = memory.repository.predecessors(fact.id)
        now = memory.clock.now()
        if args.json:
            content = shown.as_json(fact, now)
            content["replaced"] = [shown.as_json(one, now) for one in earlier]
            stores.write_json(content)
        else:
            stores.write_lines(shown.details(fact, earlier, now))
    return EXIT_DONE


# --- changing --------------------------------------------------------------------------------


def _add(args: argparse.Namespace) -> int:
    from kogniterm.memory.update import Candidate

    _writable(args)
    with _open(args) as memory:
        change = memory.remember(
            Candidate(
                text=" ".join(args.words),
                category=args.category,
                slot=args.slot,
                project="" if args.everywhere else memory.project,
            )
        )
        if change.fact is None:
            raise UsageError("This cannot be remembered: {reason}.", reason=change.reason)
        if args.json:
            fact = shown.as_json(change.fact, memory.clock.now())
            stores.write_json({"change": change.kind, "fact": fact})
        else:
            reason = translate(change.reason)
            stores.write_lines([f"{change.fact.label}  {change.fact.text}  ({reason})"])
    return EXIT_DONE


def _changed(args: argparse.Namespace, change: Callable[[Memory, Fact], Fact]) -> int:
    """Apply `change` to the fact that was named, and tell how it is now."""
    with _open(args) as memory:
        fact = change(memory, memory.get(args.fact))
        if args.json:
            stores.write_json(shown.as_json(fact, memory.clock.now()))
        else:
            stores.write_lines([f"{fact.label}  {fact.text}"])
    return EXIT_DONE


def _edit(args: argparse.Namespace) -> int:
    words = " ".join(args.text)
    return _changed(args, lambda memory, fact: memory.updater.edit(fact, words))


def _pin(args: argparse.Namespace) -> int:
    return _changed(args, lambda memory, fact: memory.updater.pin(fact, not args.off))


def _undo(args: argparse.Namespace) -> int:
    return _changed(args, lambda memory, fact: memory.updater.undo(fact))


def _confirm(args: argparse.Namespace) -> int:
    return _changed(args, lambda memory, fact: memory.updater.confirm(fact))


def _prune(args: argparse.Namespace) -> int:
    with _open(args) as memory:
        facts = memory.prune(dry_run=not args.yes)
        now = memory.clock.now()
        if args.json:
            stores.write_json(
                {"pruned": args.yes, "facts": [shown.as_json(one, now) for one in facts]}
            )
            return EXIT_DONE
        if facts and not args.yes:
            stores.write_table(shown.table(facts, now))
        sys.stderr.write(
            plural("{count} fact has faded or was replaced.",
                   "{count} facts have faded or were replaced.", len(facts)) + "\n"
        )  # fmt: skip
    return EXIT_DONE


# --- forgetting ------------------------------------------------------------------------------


def _forget(args: argparse.Namespace) -> int:
    given = [bool(args.words), args.all, args.here, bool(args.session)]
    if sum(given) != 1:
        raise UsageError("Say what to forget: an id, words, --session ID, --here or --all.")
    if args.all:
        return _forget_everywhere(args)
    with _other_stores(args) as others, _open(args, others=others) as memory:
        if args.words:
            wish = memory.forgetter.wished(" ".join(args.words))
            _ask(args, wish.facts, wish.phrases)
            receipt = memory.forgetter.forget(wish.facts, phrases=wish.phrases)
        else:
            own = [one for one in memory.facts() if one.project == memory.project]
            if args.session:
                own = [one for one in memory.facts() if one.origin.session_id == args.session]
            _ask(args, own, nowhere=_NOTHING_BUT_NOTES)
            receipt = memory.forgetter.forget_all(session_id=args.session)
    return shown.write_receipt(receipt, as_json=args.json)


def _forget_everywhere(args: argparse.Namespace) -> int:
    with _other_stores(args) as others, _open(args, project="", others=others) as memory:
        _ask(args, memory.forgetter.everything(), nowhere=_NOTHING_BUT_NOTES)
        receipt = memory.forgetter.forget_everything()
    return shown.write_receipt(receipt, as_json=args.json)


def _ask(
    args: argparse.Namespace,
    facts: Sequence[Fact],
    phrases: Sequence[str] = (),
    *,
    nowhere: str = _NO_FACT,
) -> None:
    """Raises `UsageError` unless the person says yes, seeing what would go."""
    from kogniterm.memory.forget import terms_of
    from kogniterm.runtime.forgetting import person_files

    if args.yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("Forgetting needs a person to confirm it, or --yes.")
    for fact in facts:
        sys.stderr.write(stores.visible(f"{fact.label}  {fact.text}") + "\n")
    if not facts:
        sys.stderr.write(_(nowhere) + "\n")
    outside = person_files(stores.paths_in_use(), "").foreseen(terms_of(facts, phrases))
    for line in shown.outside(outside):
        sys.stderr.write(line + "\n")
    if not confirmed(_("Forget this for good? [y/N] ")):
        raise UsageError("Nothing was forgotten.")


# --- transfer --------------------------------------------------------------------------------


def _export(args: argparse.Namespace) -> int:
    from kogniterm.memory.transfer import export_lines
    from kogniterm.text.redact import redact

    with _open(args) as memory:
        lines = export_lines(memory) if args.no_redact else export_lines(memory, redact=redact)
    text = "".join(f"{line}\n" for line in lines)
    if not args.to:
        sys.stdout.write(text)
        return EXIT_DONE
    from kogniterm.database import storage_errors

    target = Path(args.to)
    with storage_errors(target):
        target.touch(mode=0o600)
        target.write_text(text, encoding="utf-8")
    stores.note_written(target, "export")
    return EXIT_DONE


def _import(args: argparse.Namespace) -> int:
    from dataclasses import asdict

    from kogniterm.memory.transfer import import_lines

    if args.yes:
        _writable(args)
    lines = _read(args.file).split("\n")
    with _open(args) as memory:
        report = import_lines(memory, lines, dry_run=not args.yes)
    if args.json:
        stores.write_json({"imported": args.yes, **asdict(report)})
        return EXIT_DONE
    told = ", ".join(f"{name}: {count}" for name, count in asdict(report).items())
    stores.write_lines([told])
    if not args.yes:
        sys.stderr.write(_("Nothing was written; add --yes to import.") + "\n")
    return EXIT_DONE


def _read(file: str) -> str:
    if file == "-":
        return sys.stdin.read()
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError("{file} cannot be read: {why}.", file=file, why=why(error)) from error


ACTIONS: Mapping[str, tuple[str, Callable[[argparse.Namespace], int]]] = {
    "list": (mark("what is remembered here"), _list),
    "search": (mark("find facts by words or meaning"), _search),
    "show": (mark("one fact: where it comes from and how sure it is"), _show),
    "add": (mark("remember something"), _add),
    "edit": (mark("correct a fact; undo brings the old words back"), _edit),
    "confirm": (mark("say that a fact holds; what is pending becomes active"), _confirm),
    "pin": (mark("keep a fact from fading and show it to every task"), _pin),
    "undo": (mark("bring back a fact that was replaced"), _undo),
    "forget": (mark("remove facts for good, everywhere, and prove it"), _forget),
    "export": (mark("write what is remembered as JSON Lines"), _export),
    "import": (mark("take in an export"), _import),
    "prune": (mark("remove what has faded or was replaced"), _prune),
}
"""Action → its line of help and what does it."""
