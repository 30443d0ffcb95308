"""Stored sessions, facts and whole databases, for the verbs and the slash commands.

Databases are proved, compared and copied with their sessions as an open store and their memory
opened here, at the same location.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kogniterm import __version__
from kogniterm.errors import EXIT_INTERRUPTED, StorageConflictError, UsageError
from kogniterm.installed import parts_of
from kogniterm.settings.user_files import read_text
from kogniterm.text.visible import clean
from kogniterm.types import Phrase

if TYPE_CHECKING:
    from kogniterm.memory.memory_database import LedgerReport
    from kogniterm.paths import Paths
    from kogniterm.runtime.services.written_files import Kind
    from kogniterm.sessions.chain_audit import StoreReport
    from kogniterm.sessions.store import SessionInfo, SessionStore


def export_parts(
    store: SessionStore, reference: str, form: str, translate: Callable[[Phrase], str]
) -> Iterable[str]:
    """Yield the text of an export in one of the forms.

    Markdown is for reading, and JSON Lines can be imported again. Raises `UsageError` for what
    cannot be exported.
    """
    from kogniterm.sessions.readable_export import markdown
    from kogniterm.sessions.session_transfer import export_lines

    for export in parts_of("EXPORTS", form):
        written: Iterable[str] = export(store, reference)
        return written
    if form == "markdown":
        return map(clean, markdown(store, reference, translate))
    return (f"{line}\n" for line in export_lines(store, reference))


def report_parts(
    store: SessionStore,
    reference: str,
    *,
    redact: Callable[[str], str],
    about: Mapping[str, str] | None = None,
    attachments: Mapping[str, Iterable[str]] | None = None,
) -> Iterator[str]:
    """Yield the text of a bug report; `about` adds to the description of this installation.

    The names of the user and the machine are replaced, and what `redact` finds.
    """
    import platform

    from kogniterm.host.identity import own_names, without_names
    from kogniterm.sessions.session_transfer import report_lines

    anonymous = without_names(own_names())
    installed = {
        "kogniterm": __version__,
        "python": platform.python_version(),
        "system": platform.platform(),
    }
    lines = report_lines(
        store,
        reference,
        redact=lambda text: anonymous(redact(text)),
        about={**installed, **(about or {})},
        attachments=attachments or {},
    )
    return (f"{line}\n" for line in lines)


def write_for_user(
    paths: Paths, path: Path, parts: Iterable[str], kind: Kind, *, new: bool = False
) -> None:
    """Write a file for the user alone, and register it for forgetting to find it.

    Raises `UsageError` for a file that cannot be written, and for a `new` one that exists.
    """
    from kogniterm.runtime.services.written_files import WrittenFiles
    from kogniterm.sessions.session_transfer import replace_text

    if new and path.exists():
        raise UsageError("{path} already exists; specify another name.", path=path)
    require_writable_file(path)
    with replace_text(path) as file:
        file.writelines(parts)
    WrittenFiles(paths.written_files).add(path, kind)


def require_writable_file(path: Path) -> None:
    """Raise `UsageError` for a folder, and for a file whose folder does not exist."""
    if path.is_dir():
        reason = Phrase("it is a folder")
    elif not path.parent.is_dir():
        reason = Phrase("no such file or folder")
    else:
        return
    raise UsageError("{file} cannot be written: {why}.", file=path, why=reason)


def import_session(
    store: SessionStore, lines: list[str], *, folder: str, as_new: bool = False
) -> SessionInfo:
    """Import an export, or the session of a bug report, to work in `folder`; nothing is pending.

    What cannot be closed is not imported. Raises `UsageError` for that, as `import_lines` does.
    """
    from kogniterm.protocols import SystemClock
    from kogniterm.runtime.crash_recovery import settle_unknown
    from kogniterm.runtime.turn_end import cancel_open
    from kogniterm.runtime.turn_journal import TurnJournal
    from kogniterm.sessions.fold import Note
    from kogniterm.sessions.records import TurnClosed
    from kogniterm.sessions.session_transfer import import_lines
    from kogniterm.storage.archive_file import unusable, value_problem
    from kogniterm.text.redact import Redactor

    known = {one.id for one in store.sessions(limit=1_000_000)}
    info = import_lines(store, lines, as_new=as_new)
    if info.id in known:
        return info
    try:
        with closing(store.hold(info.id)) as journal:
            state, written = journal.state, TurnJournal(journal, Redactor(), SystemClock())
            if {state.folder, state.cwd} != {folder}:
                journal.append(Note.FOLDER.record(folder))
            for intent in state.unknown:
                settle_unknown(written, intent)
            cancel_open(written, "the session was imported")
            if state.open_turn or state.pending:
                journal.append(TurnClosed(state.turn, "interrupted", EXIT_INTERRUPTED, ""))
    except BaseException as error:
        store.delete([info.id])
        if isinstance(error, StorageConflictError | ValueError):  # IDs that are twice, or no text
            raise unusable(1, value_problem(error)) from error
        raise
    return store.find(info.id)


def read_lines(name: str) -> list[str]:
    """Return the lines of a file, or of standard input for `-`. Raises `UsageError`."""
    path = Path("/dev/stdin" if name == "-" else name)
    return StringIO(read_text(path, _LARGEST), None).readlines()


_LARGEST = 500_000_000
"""Bytes of an export, or of a list of tasks."""

Location = Path | str
"""A file, or the address of a PostgreSQL database."""


class Proof(NamedTuple):
    """The result of checking everything: the sessions with their heads, and the facts."""

    sessions: StoreReport
    facts: LedgerReport | None = None

    @property
    def intact(self) -> bool:
        """Return whether every record and fact is as it was written."""
        return self.sessions.intact and (self.facts is None or not self.facts.faults)


def prove_sessions(store: SessionStore, references: list[str]) -> Proof:
    """Check the journals of some sessions."""
    from kogniterm.sessions.chain_audit import StoreReport, verify

    reports = tuple(verify(store.database, store.find(one).id) for one in references)
    return Proof(StoreReport(reports))


def prove_all(store: SessionStore, location: Location, user: str, heads: Path) -> Proof:
    """Check every journal, the head file and the ledger of facts."""
    from kogniterm.memory.memory_database import MemoryDatabase
    from kogniterm.sessions.chain_audit import verify_all

    checked = verify_all(store.database)
    with closing(MemoryDatabase(location, user, heads=heads)) as sql:
        return Proof(checked, sql.verify_facts())


def begin_heads(store: SessionStore, location: Location, user: str, heads: Path) -> int:
    """Begin a new head file with everything as found; return the number of sessions."""
    from kogniterm.memory.memory_database import MemoryDatabase
    from kogniterm.sessions import anchor

    count = anchor.accept(store.database)
    with closing(MemoryDatabase(location, user, heads=heads)) as sql:
        sql.accept_facts()
    return count


def copy_memory_between(source: Location, target: Location, user: str) -> int:
    """Copy the memory to another database; returns the number of rows."""
    from kogniterm.memory.memory_database import MemoryDatabase
    from kogniterm.memory.memory_transfer import copy_memory

    with closing(MemoryDatabase(source, user)) as old, closing(MemoryDatabase(target, user)) as new:
        return copy_memory(old, new)
