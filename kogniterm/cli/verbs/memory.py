"""`kogniterm memory`: list, search, change, transfer and forget what is remembered."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from kogniterm.cli.options import (
    JSON,
    TO_FILE,
    YES,
    CallOptions,
    Subparsers,
    add_actions,
    current_folder,
)
from kogniterm.cli.verb_helpers import (
    confirm,
    location_of,
    open_sessions,
    paths_in_use,
    user_name,
)
from kogniterm.errors import UsageError
from kogniterm.runtime.operations import memory_actions
from kogniterm.runtime.operations.action import Action, Argument, Report
from kogniterm.storage.folders import expand_path
from kogniterm.types import Phrase
from kogniterm.ui.locale import _, translate

if TYPE_CHECKING:
    from pathlib import Path

    from kogniterm.memory import Memory
    from kogniterm.memory.file_purge import Forgettable


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
    from kogniterm.memory.user_memory import vectors_installed
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
    from kogniterm.memory.project import project_root

    return str(project_root(_folder(call)))


def _folder(call: CallOptions) -> Path:
    """Return the folder that is meant, with links resolved."""
    from kogniterm.host.safe_files import resolve_path

    return resolve_path(expand_path("", call.cwd) if call.cwd else current_folder())


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
    from kogniterm.memory.project import ProjectScanner
    from kogniterm.runtime.trust.trust_store import TrustStore

    folder = _folder(call)
    writable = _is_writable(call)
    with _open(call, vectors=act is memory_actions.search_facts) as memory:
        scanner = ProjectScanner(
            folder, memory.clock, lambda: TrustStore(paths_in_use().trust_file).knows(folder),
            lambda: memory.projects if writable else None,
        )  # fmt: skip
        return act(memory_actions.MemoryAccess(memory, scanner, writable), **arguments)


# --- preferences -----------------------------------------------------------------------------


def _prefer(
    call: CallOptions, name: str | None, value: list[str], here: bool, remove: bool
) -> Report:
    if name and not (value or remove):
        raise UsageError("Specify a value for {name}, or --remove.", name=name)
    if (remove and (value or not name)) or (here and not name):
        raise UsageError("Use --remove and --here with the name of a preference.")
    with _open(call) as memory:
        if name and remove:
            return memory_actions.remove_preference(memory, name, here=here)
        if name:
            return memory_actions.set_preference(
                memory, name, " ".join(value), here=here, writable=_is_writable(call)
            )
        return memory_actions.list_preferences(memory)


# --- forgetting ------------------------------------------------------------------------------


def _forget(
    call: CallOptions,
    words: list[str],
    everything: bool,
    here: bool,
    session: str | None,
    yes: bool,
) -> Report:
    from kogniterm.runtime.services.archive import user_files
    from kogniterm.runtime.services.forget_service import NOTHING, choose_request, describe_request

    project = "" if everything else None
    with _other_stores(call) as others, _open(call, project=project, others=others) as memory:
        request, carry_out = choose_request(
            memory.forgetter, memory, " ".join(words),
            everything=everything, here=here, session=session,
        )  # fmt: skip
        if not yes:
            confirm(
                _("Forget this for good?"),
                map(translate, describe_request(request, user_files(paths_in_use(), ""))),
                without_terminal=Phrase(
                    "Forgetting needs your confirmation at a terminal, or --yes."
                ),
                no=NOTHING,
            )
        return memory_actions.report_forgetting(carry_out())


# --- transfer --------------------------------------------------------------------------------


def _export(call: CallOptions, to: str | None, no_redact: bool) -> Report:
    from kogniterm.memory.memory_transfer import export_lines
    from kogniterm.runtime.operations.stored_data import write_for_user
    from kogniterm.text.redact import redact

    with _open(call) as memory:
        lines = export_lines(memory) if no_redact else export_lines(memory, redact=redact)
    parts = (f"{line}\n" for line in lines)
    if to:
        write_for_user(paths_in_use(), expand_path("", to), parts, "export")
    else:
        sys.stdout.writelines(parts)
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
        Argument("file", "File of an export; - for standard input", "FILE"),
        Argument("--yes", "Make the changes; without it, only report them")),
        ("kogniterm memory import memory.jsonl --yes",)),
)  # fmt: skip
