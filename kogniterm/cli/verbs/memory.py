"""`kogniterm memory`: list, search, change, transfer and forget what is remembered."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kogniterm.cli.options import JSON, TO_FILE, YES, Action, Argument, Subparsers, add_actions
from kogniterm.cli.options import limit as limit_option
from kogniterm.cli.verb_helpers import (
    Report,
    confirm,
    file_to_write,
    iso,
    location_of,
    note_written,
    open_sessions,
    paths_in_use,
    user_name,
    write_report,
)
from kogniterm.errors import EXIT_DONE, EXIT_NOT_DONE, UsageError
from kogniterm.storage.folders import expand_path
from kogniterm.types import Phrase
from kogniterm.ui.locale import _, plural, translate

if TYPE_CHECKING:
    from pathlib import Path

    from kogniterm.memory import Fact, Memory
    from kogniterm.memory.fact_records import Lesson, Preference
    from kogniterm.memory.file_purge import Forgettable
    from kogniterm.memory.forgetter import ForgetRequest, Receipt
    from kogniterm.runtime.use_cases.stored_data import FactChange

CATEGORIES = (
    "preference", "requirement", "constraint", "feedback", "project", "learning", "fact",
)  # fmt: skip
_NOTHING_BUT_NOTES = Phrase("No facts are stored; lessons, notes and preferences are deleted.")


def add_parser(subparsers: Subparsers) -> None:
    """Add `memory` and its actions."""
    project = Argument("--project", "Use the memories of the project in FOLDER", "FOLDER")
    add_actions(subparsers, "memory", ACTIONS, JSON, project)


def run(args: argparse.Namespace) -> int:
    """Run the action."""
    return write_report(args, args.perform(args))


# --- opening ---------------------------------------------------------------------------------


def _open(
    args: argparse.Namespace,
    *,
    project: str | None = None,
    others: Sequence[Forgettable] | None = None,
) -> Memory:
    """Open the user's memory; with `others`, ready to forget."""
    from kogniterm.memory import open_memory
    from kogniterm.memory.search.minilm import vectors_installed
    from kogniterm.text.redact import redact

    paths = paths_in_use()
    return open_memory(
        location_of(args),
        user=user_name(),
        project=_project(args) if project is None else project,
        vectors=args.action == "search" and vectors_installed(),
        redact=redact,
        key_file=paths.data / "memory-key",
        heads=paths.data,
        stores=others or (),
        paths=(paths.data,) if others is not None else (),
    )


def _project(args: argparse.Namespace) -> str:
    from kogniterm.memory.project.project_profile import project_root

    return str(project_root(_folder(args)))


def _folder(args: argparse.Namespace) -> Path:
    """Return the folder that is meant, with links resolved."""
    from kogniterm.cli.options import here
    from kogniterm.host.safe_files import resolved

    return resolved(expand_path("", args.project) if args.project else here())


@contextmanager
def _other_stores(args: argparse.Namespace) -> Iterator[list[Forgettable]]:
    """Open the other stores that may hold forgotten words: the journal and files."""
    from kogniterm.cli.options import settings_of
    from kogniterm.runtime.services.archive import forgettables

    secret = settings_of(args).google_api_key
    key = secret.get_secret_value() if secret is not None else ""
    with open_sessions(args) as sessions:
        yield forgettables(paths_in_use(), sessions, _project(args), gemini_key=key)


def _check_writable(args: argparse.Namespace) -> None:
    from kogniterm.cli.options import settings_of

    if settings_of(args).memory == "off":
        raise UsageError("Memory is off. To add to it, use --memory full.")


# --- reading and changing --------------------------------------------------------------------


def _list(args: argparse.Namespace) -> Report:
    from kogniterm.runtime.use_cases.stored_data import listed_facts

    with _open(args) as memory:
        facts, now = listed_facts(memory, everything=args.all), memory.clock.now()
    return Report(
        [as_json(fact, now) for fact in facts],
        rows=_table(facts, now),
        notes=[] if facts else [_("Nothing is remembered here yet.")],
    )


def _search(args: argparse.Namespace) -> Report:
    with _open(args) as memory:
        hits = memory.search(" ".join(args.words), args.limit)
        now = memory.clock.now()
        found = [{**as_json(memory.get(one.id), now), "score": one.score} for one in hits]
    lines = [f"{one.label}  {one.score:.2f}  {one.text}" for one in hits]
    return Report(found, lines, status=EXIT_DONE if hits else EXIT_NOT_DONE)


def _lessons(args: argparse.Namespace) -> Report:
    with _open(args) as memory:
        lessons = memory.learnings.all()
    return Report(
        [lesson_as_json(one) for one in lessons],
        rows=[(one.label, translate(one.told), one.evidence) for one in lessons],
        notes=[] if lessons else [_("No lessons were learned here yet.")],
    )


def _show(args: argparse.Namespace) -> Report:
    from kogniterm.memory.fact_records import Lesson
    from kogniterm.runtime.use_cases.stored_data import find_memory
    from kogniterm.ui.commands.memory import all_about

    with _open(args) as memory:
        found, now = find_memory(memory, args.fact), memory.clock.now()
        if isinstance(found, Lesson):
            data = lesson_as_json(found)
        else:
            earlier = memory.repository.predecessors(found.id)
            data = {**as_json(found, now), "replaced": [as_json(one, now) for one in earlier]}
        rows = all_about(memory, found)
    return Report(data, [found.label], [(f"  {name}", value) for name, value in rows])


def _edit(args: argparse.Namespace) -> Report:
    from kogniterm.memory.fact_records import Lesson
    from kogniterm.runtime.use_cases.stored_data import edit_memory
    from kogniterm.ui.commands.memory import said

    with _open(args) as memory:
        found, now = edit_memory(memory, args.fact, " ".join(args.text)), memory.clock.now()
    data = lesson_as_json(found) if isinstance(found, Lesson) else as_json(found, now)
    return Report(data, [f"{found.label}  {said(found)}"])


def _add(args: argparse.Namespace) -> Report:
    from kogniterm.memory.update import Candidate
    from kogniterm.runtime.use_cases.stored_data import add_fact

    _check_writable(args)
    with _open(args) as memory:
        project = "" if args.everywhere else memory.project
        words = " ".join(args.words)
        fact, change = add_fact(memory, Candidate(words, args.category, args.slot, project=project))
        data = {"change": change.kind, "fact": as_json(fact, memory.clock.now())}
    return Report(data, [f"{fact.label}  {fact.text}  ({translate(change.reason)})"])


def _change(args: argparse.Namespace) -> Report:
    from kogniterm.runtime.use_cases.stored_data import change_fact

    change: FactChange = "unpin" if args.action == "pin" and args.off else args.action
    with _open(args) as memory:
        fact = change_fact(memory, args.fact, change)
        return Report(as_json(fact, memory.clock.now()), [f"{fact.label}  {fact.text}"])


def _prune(args: argparse.Namespace) -> Report:
    with _open(args) as memory:
        facts, now = memory.prune(dry_run=not args.yes), memory.clock.now()
    gone = plural("{count} fact has expired or was replaced.",
                  "{count} facts have expired or were replaced.", len(facts))  # fmt: skip
    data = {"pruned": args.yes, "facts": [as_json(one, now) for one in facts]}
    return Report(data, rows=[] if args.yes else _table(facts, now), notes=[gone])


# --- preferences and the project ---------------------------------------------------------------


def _prefer(args: argparse.Namespace) -> Report:
    """List the preferences, set one, or remove one."""
    from kogniterm.runtime.use_cases.stored_data import remove_preference

    value = " ".join(args.value)
    if args.name and not (value or args.remove):
        raise UsageError("Specify a value for {name}, or --remove.", name=args.name)
    if (args.remove and (value or not args.name)) or (args.here and not args.name):
        raise UsageError("Use --remove and --here with the name of a preference.")
    with _open(args) as memory:
        if args.remove:
            remove_preference(memory, args.name, here=args.here)
        elif args.name:
            _check_writable(args)
            memory.preferences.set(args.name, value, scope="project" if args.here else "everywhere")
        held = memory.preferences.stored()
    return _preferences(held)


def _preferences(held: Sequence[Preference]) -> Report:
    from kogniterm.memory.preferences import KNOWN, value_text
    from kogniterm.ui.commands.memory import place

    data = [
        {
            "name": one.key,
            "value": one.value,
            "project": one.project or None,
            "source": one.source,
            "updated": iso(one.updated),
        }
        for one in held
    ]
    names = _("Preferences: {names}").format(names=", ".join(KNOWN))
    return Report(
        data,
        rows=[(one.key, value_text(one.value), *place(one)) for one in held],
        notes=[] if held else [_("No preferences are set."), names],
    )


def _project_profile(args: argparse.Namespace) -> Report:
    """Show the profile of the project, after a scan for `rescan`."""
    from kogniterm.memory.project.project_profile import ProjectProfile
    from kogniterm.ui.commands.memory import project_rows, project_title

    with _open(args) as memory:
        if args.scan == "rescan":
            _rescan(args, memory)
        profile = memory.projects.load() or ProjectProfile()
    rows = project_rows(profile)
    data = {
        "scanned": iso(profile.scanned) if profile.folder else None,
        "folder": profile.folder or None,
        "values": {name: list(profile.values(name)) for name, _value in rows},
    }
    return Report(
        data,
        [project_title(profile)] if profile.folder else [],
        [(f"  {name}", value) for name, value in rows],
        notes=[] if rows else [_not_scanned(args)],
    )


def _rescan(args: argparse.Namespace, memory: Memory) -> None:
    """Scan the folder now. Raises `UsageError` for one that is not trusted."""
    from kogniterm.memory.project.project_scan import scan

    _check_writable(args)
    folder = _folder(args)
    if not _trusted(folder):
        raise UsageError("{folder} is not trusted; trust it with: kogniterm trust", folder=folder)
    memory.projects.save(scan(folder, memory.clock))


def _not_scanned(args: argparse.Namespace) -> str:
    folder = _folder(args)
    if _trusted(folder):
        return _("The folder has not been scanned yet: kogniterm memory project rescan")
    return _(
        "{folder} is not trusted, so nothing was read there; trust it with: kogniterm trust"
    ).format(folder=folder)


def _trusted(folder: Path) -> bool:
    from kogniterm.runtime.trust.trust_store import TrustStore

    return TrustStore(paths_in_use().trust_file).knows(folder)


# --- forgetting ------------------------------------------------------------------------------


def _forget(args: argparse.Namespace) -> Report:
    from kogniterm.memory.forgetter import ForgetRequest

    if sum([bool(args.words), args.all, args.here, bool(args.session)]) != 1:
        raise UsageError("Specify exactly one of: an ID or words, --session ID, --here, --all.")
    project = "" if args.all else None
    with _other_stores(args) as others, _open(args, project=project, others=others) as memory:
        forgetter = memory.forgetter
        if args.words:
            request = forgetter.requested(" ".join(args.words))
            _ask(args, request)
            return _receipt(forgetter.carry_out(request))
        if args.all:
            every = ForgetRequest(tuple(forgetter.everything()))
            _ask(args, every, without_facts=_NOTHING_BUT_NOTES)
            return _receipt(forgetter.forget_everything())
        facts = memory.facts()
        if args.session:
            own = [one for one in facts if one.origin.session_id == args.session]
        else:
            own = [one for one in facts if one.project == memory.project]
        _ask(args, ForgetRequest(tuple(own)), without_facts=_NOTHING_BUT_NOTES)
        return _receipt(forgetter.forget_all(session_id=args.session))


def _ask(
    args: argparse.Namespace, request: ForgetRequest, without_facts: Phrase | None = None
) -> None:
    """Show what would be deleted; raise `UsageError` unless the user agrees."""
    from kogniterm.runtime.services.archive import user_files
    from kogniterm.runtime.services.forget_service import affected

    if args.yes:
        return
    files = user_files(paths_in_use(), "")
    confirm(
        _("Forget this for good? [y/N] "),
        map(translate, affected(request, files, without_facts=without_facts)),
        without_terminal=Phrase("Forgetting needs your confirmation at a terminal, or --yes."),
        no=Phrase("Nothing was forgotten."),
    )


def _receipt(receipt: Receipt) -> Report:
    """Report what was deleted; return 1 if the words were still found somewhere."""
    from kogniterm.memory.forgetter import OWN
    from kogniterm.runtime.services.forget_service import told

    data = {
        "facts": [f"m{one}" for one in receipt.facts],
        "removed": [{"place": str(part.place), "records": part.removed} for part in receipt.parts],
        "proved": receipt.proved,
        "scanned": {
            "files": receipt.scanned_files,
            "bytes": receipt.scanned_bytes,
            "columns": receipt.scanned_columns,
        },
        "found": [*map(str, receipt.found), *receipt.found_columns],
        "untouched": [{"file": str(one.path), "line": one.line} for one in receipt.untouched],
        "unreachable": [str(text) for text in receipt.unreachable],
    }
    count = len(receipt.facts)
    lines = [plural("{count} fact forgotten.", "{count} facts forgotten.", count)]
    if not count and any(part.place in OWN and part.removed for part in receipt.parts):
        lines = []
    sentences = list(told(receipt))
    return Report(
        data,
        [*lines, *(translate(text) for text, level in sentences if level != "warning")],
        notes=[translate(text) for text, level in sentences if level == "warning"],
        status=EXIT_DONE if receipt.proved else EXIT_NOT_DONE,
    )


# --- transfer --------------------------------------------------------------------------------


def _export(args: argparse.Namespace) -> Report:
    from kogniterm.memory.memory_transfer import export_lines
    from kogniterm.storage.drivers import storage_errors
    from kogniterm.text.redact import redact

    with _open(args) as memory:
        lines = export_lines(memory) if args.no_redact else export_lines(memory, redact=redact)
    text = "".join(f"{line}\n" for line in lines)
    if not args.to:
        sys.stdout.write(text)
        return Report(printed=True)
    target = file_to_write(args.to)
    with storage_errors(target):
        target.touch(mode=0o600)
        target.write_text(text, encoding="utf-8")
    note_written(target, "export")
    return Report(printed=True)


def _import(args: argparse.Namespace) -> Report:
    from kogniterm.memory.memory_transfer import import_lines
    from kogniterm.runtime.use_cases.stored_data import read_lines

    if args.yes:
        _check_writable(args)
    lines = read_lines(args.file)
    with _open(args) as memory:
        counts = import_lines(memory, lines, dry_run=not args.yes)
    return Report(
        {"imported": args.yes, **counts},
        [", ".join(f"{name}: {count}" for name, count in counts.items())],
        notes=[] if args.yes else [_("Nothing was written; add --yes to import.")],
    )


_WORDS = Argument("words", "Words, or an ID", "WORD", nargs="+")
_FACT = Argument("fact", "ID of a fact (m7) or lesson (l3)", "ID")
_APPLY = Argument("--yes", "Make the changes; without it, only report them")

ACTIONS = (
    Action("list", "List what is remembered for this project", _list, (
        Argument("--all", "Include replaced and expired memories"),),
        ("kogniterm memory list", "kogniterm memory list --all")),
    Action("search", "Search memories by words or meaning", _search, (_WORDS, limit_option(10)),
           ("kogniterm memory search deploy",)),
    Action("show", "Show a memory, its source and its confidence", _show, (_FACT,),
           ("kogniterm memory show m7", "kogniterm memory show l3")),
    Action("lessons", "List how commands and plans ended, and what worked instead", _lessons, (),
           ("kogniterm memory lessons",)),
    Action("add", "Add a memory", _add, (
        Argument("words", "Text to remember", "WORD", nargs="+"),
        Argument("--category", "Category: preference, requirement, constraint, feedback, project, "
                 "learning or fact", "CATEGORY", choices=CATEGORIES, default="fact"),
        Argument("--slot", "Replace the memory that has this slot name", "NAME"),
        Argument("--everywhere", "Remember it for all projects, not only this one")),
        ('kogniterm memory add "deploy on Tuesdays only"',
         'kogniterm memory add --slot editor "I use vim" --everywhere')),
    Action("edit", "Change the text of a memory; undo restores the old one", _edit, (
        _FACT, Argument("text", "New text", "WORD", nargs="+")),
        ('kogniterm memory edit m7 "deploy on Thursdays only"',
         'kogniterm memory edit l3 "run the unit tests with tox"')),
    Action("confirm", "Confirm a memory; a pending one becomes active", _change, (_FACT,),
           ("kogniterm memory confirm m7",)),
    Action("pin", "Keep a memory from expiring and use it in every task", _change, (
        _FACT, Argument("--off", "Remove the pin")),
        ("kogniterm memory pin m7", "kogniterm memory pin m7 --off")),
    Action("undo", "Restore a memory that was replaced", _change, (_FACT,),
           ("kogniterm memory undo m7",)),
    Action("prefer", "List the preferences; set or remove one", _prefer, (
        Argument("name", "Name of the preference", "NAME", nargs="?"),
        Argument("value", "Value of the preference", "VALUE", nargs="*"),
        Argument("--here", "Set or remove it for this project alone"),
        Argument("--remove", "Remove the preference")),
        ("kogniterm memory prefer", "kogniterm memory prefer language es",
         "kogniterm memory prefer test_runner pytest --here",
         "kogniterm memory prefer language --remove")),
    Action("project", "Show what is known about the project", _project_profile, (
        Argument("scan", "rescan, to scan the folder first", "rescan", nargs="?",
                 choices=("rescan",)),),
        ("kogniterm memory project", "kogniterm memory project rescan")),
    Action("forget", "Delete memories from every store, and verify it", _forget, (
        Argument("words", "Words, or an ID", "WORD", nargs="*"),
        Argument("--all", "Delete everything, for all projects"),
        Argument("--here", "Delete everything learned in this project"),
        Argument("--session", "Delete what was learned in a session", "ID"),
        YES), ("kogniterm memory forget m7", "kogniterm memory forget l3",
               "kogniterm memory forget --here")),
    Action("export", "Write the memories as JSON Lines", _export, (
        TO_FILE, Argument("--no-redact", "Do not replace what looks like a secret")),
        ("kogniterm memory export --to memory.jsonl",)),
    Action("import", "Import an export", _import, (
        Argument("file", "File of an export; - for standard input", "FILE"), _APPLY),
        ("kogniterm memory import memory.jsonl --yes",)),
    Action("prune", "Delete expired and replaced memories", _prune, (_APPLY,),
           ("kogniterm memory prune", "kogniterm memory prune --yes")),
)  # fmt: skip


def as_json(fact: Fact, now: float) -> dict[str, object]:
    """Return a fact as JSON; times in ISO 8601, UTC; `effective` is the decayed confidence."""
    from kogniterm.memory.fact_records import effective_confidence, is_dormant
    from kogniterm.memory.recall import because

    return {
        "id": fact.label,
        "text": fact.text,
        "category": fact.category,
        "slot": fact.slot,
        "project": fact.project or None,
        "status": "faded" if fact.status == "active" and is_dormant(fact, now) else fact.status,
        "source": fact.source,
        "pinned": fact.pinned,
        "confidence": fact.confidence,
        "effective": round(effective_confidence(fact, now), 4),
        "relevance": fact.relevance_count,
        "created": iso(fact.created),
        "confirmed": iso(fact.last_confirmed),
        "valid_to": iso(fact.valid_to),
        "superseded_by": f"m{fact.superseded_by}" if fact.superseded_by else None,
        "session": fact.origin.session_id or None,
        "because": str(because(fact)),
    }


def lesson_as_json(lesson: Lesson) -> dict[str, object]:
    """Return a lesson as JSON; the time in ISO 8601, UTC."""
    return {
        "id": lesson.label,
        "text": str(lesson.told),
        "task": lesson.task,
        "worked": lesson.shape if lesson.ok else None,
        "failed": (lesson.failed or None) if lesson.ok else lesson.shape,
        "fix": lesson.fix or None,
        "exit_code": lesson.exit_code,
        "error": lesson.note or None,
        "learned": iso(lesson.created),
        "times": lesson.times,
        "session": lesson.session_id or None,
    }


def _table(facts: Sequence[Fact], now: float) -> list[tuple[str, ...]]:
    """Return a row for each fact: id, category, state, confidence, age, text."""
    from kogniterm.ui.commands.memory import certainty, state

    return [
        (fact.label, fact.category, state(fact, now), *certainty(fact, now), fact.text)
        for fact in facts
    ]
