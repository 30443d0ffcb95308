"""`kogniterm memory`: list, search, change, transfer and forget what is remembered."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from kogniterm.cli.options import JSON, TO_FILE, YES, Subparsers, add_actions
from kogniterm.cli.run_options import CallOptions, current_folder
from kogniterm.cli.verb_helpers import (
    confirm,
    file_to_write,
    location_of,
    note_written,
    open_sessions,
    paths_in_use,
    user_name,
)
from kogniterm.errors import EXIT_DONE, EXIT_NOT_DONE, UsageError
from kogniterm.runtime.operations import memory_actions
from kogniterm.runtime.operations.action import Action, Argument, Report, iso
from kogniterm.storage.folders import expand_path
from kogniterm.types import Phrase
from kogniterm.ui.locale import _, plural, translate

if TYPE_CHECKING:
    from pathlib import Path

    from kogniterm.memory import Memory
    from kogniterm.memory.fact_records import Preference
    from kogniterm.memory.file_purge import Forgettable
    from kogniterm.memory.forgetter import ForgetRequest, Receipt

_NOTHING_BUT_NOTES = Phrase("No facts are stored; lessons, notes and preferences are deleted.")


def add_parser(subparsers: Subparsers) -> None:
    """Add `memory` and its actions."""
    project = Argument(
        "--project", "Use the memories of the project in FOLDER", "FOLDER", field="cwd"
    )
    add_actions(subparsers, "memory", ACTIONS, JSON, project)


# --- opening ---------------------------------------------------------------------------------


def _open(
    call: CallOptions,
    *,
    project: str | None = None,
    vectors: bool = False,
    others: Sequence[Forgettable] | None = None,
) -> Memory:
    """Open the user's memory; with `others`, ready to forget."""
    from kogniterm.memory import open_memory
    from kogniterm.memory.search.minilm import vectors_installed
    from kogniterm.text.redact import redact

    paths = paths_in_use()
    return open_memory(
        location_of(call),
        user=user_name(),
        project=_project(call) if project is None else project,
        vectors=vectors and vectors_installed(),
        redact=redact,
        key_file=paths.data / "memory-key",
        heads=paths.data,
        stores=others or (),
        paths=(paths.data,) if others is not None else (),
    )


def _project(call: CallOptions) -> str:
    from kogniterm.memory.project.project_profile import project_root

    return str(project_root(_folder(call)))


def _folder(call: CallOptions) -> Path:
    """Return the folder that is meant, with links resolved."""
    from kogniterm.host.safe_files import resolved

    return resolved(expand_path("", call.cwd) if call.cwd else current_folder())


@contextmanager
def _other_stores(call: CallOptions) -> Iterator[list[Forgettable]]:
    """Open the other stores that may hold forgotten words: the journal and files."""
    from kogniterm.runtime.services.archive import forgettables

    secret = call.load_settings().google_api_key
    key = secret.get_secret_value() if secret is not None else ""
    with open_sessions(call) as sessions:
        yield forgettables(paths_in_use(), sessions, _project(call), gemini_key=key)


def _is_writable(call: CallOptions) -> bool:
    return call.load_settings().memory != "off"


# --- the shared actions ----------------------------------------------------------------------


def _run_shared(act: Callable[..., Report], call: CallOptions, **arguments: Any) -> Report:
    """Run an action that /memory has too."""
    from kogniterm.runtime.trust.project_scanner import ProjectScanner

    folder = _folder(call)
    writable = _is_writable(call)
    with _open(call, vectors=act is memory_actions.search_facts) as memory:
        scanner = ProjectScanner(
            folder, memory.clock, lambda: _trusted(folder),
            lambda: memory.projects if writable else None,
        )  # fmt: skip
        return act(memory_actions.MemoryAccess(memory, scanner, writable), **arguments)


def _prune(call: CallOptions, yes: bool) -> Report:
    with _open(call) as memory:
        facts, now = memory.prune(dry_run=not yes), memory.clock.now()
    gone = plural("{count} fact has expired or was replaced.",
                  "{count} facts have expired or were replaced.", len(facts))  # fmt: skip
    data = {"pruned": yes, "facts": [memory_actions.fact_as_json(one, now) for one in facts]}
    rows = [] if yes else memory_actions.fact_rows(facts, now)
    return Report(data, rows=rows, notes=[gone])


# --- preferences -----------------------------------------------------------------------------


def _prefer(
    call: CallOptions, name: str | None, value: list[str], here: bool, remove: bool
) -> Report:
    """List the preferences, set one, or remove one."""
    from kogniterm.runtime.operations.stored_data import remove_preference

    if name and not (value or remove):
        raise UsageError("Specify a value for {name}, or --remove.", name=name)
    if (remove and (value or not name)) or (here and not name):
        raise UsageError("Use --remove and --here with the name of a preference.")
    with _open(call) as memory:
        if name and remove:
            remove_preference(memory, name, here=here)
        elif name:
            memory_actions.require_writable(_is_writable(call))
            memory.preferences.set(name, " ".join(value), scope="project" if here else "everywhere")
        held = memory.preferences.stored()
    return _preferences(held)


def _preferences(held: Sequence[Preference]) -> Report:
    from kogniterm.memory.preferences import KNOWN, value_text
    from kogniterm.ui.commands.memory import preference_place

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
        rows=[(one.key, value_text(one.value), *preference_place(one)) for one in held],
        notes=[] if held else [_("No preferences are set."), names],
    )


def _trusted(folder: Path) -> bool:
    from kogniterm.runtime.trust.trust_store import TrustStore

    return TrustStore(paths_in_use().trust_file).knows(folder)


# --- forgetting ------------------------------------------------------------------------------


def _forget(
    call: CallOptions,
    words: list[str],
    everything: bool,
    here: bool,
    session: str | None,
    yes: bool,
) -> Report:
    from kogniterm.memory.forgetter import ForgetRequest

    if sum([bool(words), everything, here, bool(session)]) != 1:
        raise UsageError("Specify exactly one of: an ID or words, --session ID, --here, --all.")
    project = "" if everything else None
    with _other_stores(call) as others, _open(call, project=project, others=others) as memory:
        forgetter = memory.forgetter
        if words:
            request = forgetter.requested(" ".join(words))
            if not yes:
                _ask(request)
            return _receipt(forgetter.carry_out(request))
        if everything:
            every = ForgetRequest(tuple(forgetter.everything()))
            if not yes:
                _ask(every, without_facts=_NOTHING_BUT_NOTES)
            return _receipt(forgetter.forget_everything())
        facts = memory.facts()
        if session:
            own = [one for one in facts if one.origin.session_id == session]
        else:
            own = [one for one in facts if one.project == memory.project]
        if not yes:
            _ask(ForgetRequest(tuple(own)), without_facts=_NOTHING_BUT_NOTES)
        return _receipt(forgetter.forget_all(session_id=session))


def _ask(request: ForgetRequest, without_facts: Phrase | None = None) -> None:
    """Show what would be deleted; raise `UsageError` unless the user agrees."""
    from kogniterm.runtime.services.archive import user_files
    from kogniterm.runtime.services.forget_service import describe_request

    files = user_files(paths_in_use(), "")
    confirm(
        _("Forget this for good?"),
        map(translate, describe_request(request, files, without_facts=without_facts)),
        without_terminal=Phrase("Forgetting needs your confirmation at a terminal, or --yes."),
        no=Phrase("Nothing was forgotten."),
    )


def _receipt(receipt: Receipt) -> Report:
    """Report what was deleted; return 1 if the words were still found somewhere."""
    from kogniterm.memory.forgetter import OWN
    from kogniterm.runtime.services.forget_service import describe_receipt

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
    sentences = list(describe_receipt(receipt))
    return Report(
        data,
        [*lines, *(translate(text) for text, level in sentences if level != "warning")],
        notes=[translate(text) for text, level in sentences if level == "warning"],
        status=EXIT_DONE if receipt.proved else EXIT_NOT_DONE,
    )


# --- transfer --------------------------------------------------------------------------------


def _export(call: CallOptions, to: str | None, no_redact: bool) -> Report:
    from kogniterm.memory.memory_transfer import export_lines
    from kogniterm.storage.drivers import storage_errors
    from kogniterm.text.redact import redact

    with _open(call) as memory:
        lines = export_lines(memory) if no_redact else export_lines(memory, redact=redact)
    text = "".join(f"{line}\n" for line in lines)
    if not to:
        sys.stdout.write(text)
        return Report(printed=True)
    target = file_to_write(to)
    with storage_errors(target):
        target.touch(mode=0o600)
        target.write_text(text, encoding="utf-8")
    note_written(target, "export")
    return Report(printed=True)


def _import(call: CallOptions, file: str, yes: bool) -> Report:
    from kogniterm.memory.memory_transfer import import_lines
    from kogniterm.runtime.operations.stored_data import read_lines

    if yes:
        memory_actions.require_writable(_is_writable(call))
    lines = read_lines(file)
    with _open(call) as memory:
        counts = import_lines(memory, lines, dry_run=not yes)
    return Report(
        {"imported": yes, **counts},
        [", ".join(f"{name}: {count}" for name, count in counts.items())],
        notes=[] if yes else [_("Nothing was written; add --yes to import.")],
    )


_APPLY = Argument("--yes", "Make the changes; without it, only report them")
ACTIONS = (
    *(action._replace(run=partial(_run_shared, action.run)) for action in memory_actions.ACTIONS),
    Action("prefer", "List the preferences; set or remove one", _prefer, (
        Argument("name", "Name of the preference", "NAME", nargs="?"),
        Argument("value", "Value of the preference", "VALUE", nargs="*"),
        Argument("--here", "Set or remove it for this project alone"),
        Argument("--remove", "Remove the preference")),
        ("kogniterm memory prefer", "kogniterm memory prefer language es",
         "kogniterm memory prefer test_runner pytest --here",
         "kogniterm memory prefer language --remove")),
    Action("forget", "Delete memories from every store, and verify it", _forget, (
        Argument("words", "Words, or an ID", "WORD", nargs="*"),
        Argument("--all", "Delete everything, for all projects", field="everything"),
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
