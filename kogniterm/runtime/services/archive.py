"""What stands behind a live session: its store and its files, for commands about the session."""

from __future__ import annotations

import fcntl
import logging
import os
import re
import stat
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm.errors import KognitermError, UsageError
from kogniterm.memory.file_purge import FilePurge, Forgettable, Marks, Purged, scan
from kogniterm.runtime.services.trust_store import TrustStore, trusted_files
from kogniterm.runtime.services.written_files import PROJECT_FILES, Kind, PersonFiles, WrittenFiles
from kogniterm.sessions.journal.ownership import start_of
from kogniterm.text.matching import Matcher
from kogniterm.types import Phrase

if TYPE_CHECKING:
    from kogniterm.memory.forgetter import Forgetter
    from kogniterm.paths import Paths
    from kogniterm.runtime.services.memory_service import MemoryService
    from kogniterm.runtime.services.written_files import PersonFiles
    from kogniterm.sessions.journal.journal import SessionJournal
    from kogniterm.sessions.store import SessionStore


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SessionArchive:
    """The sessions of the person, the open one's journal, and where the files are."""

    store: SessionStore
    journal: SessionJournal
    paths: Paths
    max_age_days: int | None = None

    def expire(self) -> None:
        """Delete the sessions that nobody used for longer than the person wants them kept.

        Called when a session has done its work, so that nobody waits for it. What goes wrong
        is logged: the next session will try again.
        """
        if self.max_age_days is None:
            return
        try:
            gone = self.store.expire(self.max_age_days)
        except KognitermError:
            log.exception("old sessions could not be deleted")
        else:
            log.info("%d old sessions were deleted", len(gone))

    def project_commands(self) -> tuple[tuple[str, str], ...]:
        """Name and text of the own commands that the session's folder brings, if it is trusted."""
        store = TrustStore(self.paths.trust_file)
        files, _told = trusted_files(store, Path(self.journal.state.folder))
        return tuple((file.name, file.text) for file in files if file.kind == "command")

    def forgetter(self, memory: MemoryService | None) -> Forgetter:
        """Forgets in memory and in everything else that KogniTerm keeps, this session included.

        Raises `UsageError` when memory is off: its tables hold the proof of what was forgotten.
        """
        if memory is None:
            raise UsageError(
                "Memory is off in this session; forget from the shell: kogniterm memory forget …"
            )
        live = {self.journal.state.session_id: self.journal}
        remembered = memory.context.memory
        others = forgettables(self.paths, self.store, remembered.project, live)
        return remembered.forgetter.joined(*others)

    def person_files(self) -> PersonFiles:
        """What was written for the person outside of KogniTerm's own folders."""
        return person_files(self.paths, self.journal.state.folder)

    def wrote(self, path: Path, kind: Kind) -> None:
        """Note that a file was written for the person, for forgetting to find it."""
        WrittenFiles(self.paths.written_files).add(path, kind)


_FOLDER = re.compile(r"kogniterm-(\d+)-[a-z0-9_]{8}")
"""The folder of a process's temporary files: scripts of commands, drafts in an editor."""


class JournalPurge:
    """Forgets in every session of `store`: records, titles, drafts, search index, outputs.

    `live` are the journals this process has open, by session id.
    """

    def __init__(
        self, store: SessionStore, live: Mapping[str, SessionJournal] | None = None
    ) -> None:
        self._store = store
        self._live = live

    def purge(self, terms: Sequence[str]) -> Purged:
        """Replace the terms in whatever case they were written; busy sessions are named."""
        from kogniterm.sessions.forget_words import forget

        if not terms:
            return Purged(Phrase("the session journal"), 0)
        report = forget(self._store, terms, live=self._live)
        records = sum(len(numbers) for numbers in report.records.values())
        return Purged(Phrase("the session journal"), records, report.busy)


class UndoPurge:
    """Forgets in the pre-images: one whose files have such names goes whole, contents are cleaned.

    A name with a hole in it would put a file where none was.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def purge(self, terms: Sequence[str]) -> Purged:
        """Overwrite the terms; raises `StorageError` kinds."""
        from kogniterm.execution.undo import PreimageStore

        place = Phrase("copies kept for undo")
        matcher = Matcher(terms)
        if not matcher:
            return Purged(place, 0)
        cleaned = FilePurge(place, [self._folder / "contents"]).purge(terms).removed
        dropped = PreimageStore(self._folder).drop(lambda path: matcher.holds(str(path)))
        last = FilePurge(place, [self._folder]).purge(terms)
        return replace(last, removed=cleaned + dropped + last.removed)


class DamagedPurge:
    """Forgets in damaged databases that were moved aside: overwritten in place, never deleted."""

    def __init__(self, database: Path) -> None:
        self._database = database

    def purge(self, terms: Sequence[str]) -> Purged:
        """Overwrite the terms where they stand in one piece, and say that more may be there."""
        aside = sorted(self._database.parent.glob(f"{self._database.name}.damaged-*"))
        done = FilePurge(Phrase("damaged databases that were moved aside"), aside).purge(terms)
        left = tuple(
            Phrase(
                "words that the damage tore apart in {file}; delete it if you need nothing of it",
                {"file": file},
            )
            for file in aside
            if not file.name.endswith(("-wal", "-shm"))
        )
        return replace(done, unreachable=left)


class LeftoverPurge:
    """Forgets in what killed processes left in `folder`, the system's temporary one.

    The scripts of a process that lives are not touched: what runs must stay what was approved.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def purge(self, terms: Sequence[str]) -> Purged:
        """Overwrite the terms; raises `StorageError` kinds."""
        mine = [one for one in self._folder.glob("kogniterm-*") if _is_own(one)]
        left = [one for one in mine if not _is_in_use(one)]
        done = FilePurge(Phrase("temporary files"), left).purge(terms)
        held = Marks(Matcher(terms))
        _, _, found = scan([one for one in mine if one not in left], held)
        busy = tuple(
            Phrase("{file}, of a command that is running", {"file": file}) for file in found
        )
        return replace(done, unreachable=busy, files=tuple(left))


def _is_own(path: Path) -> bool:
    try:
        info = path.lstat()
    except FileNotFoundError:
        return False
    named = _FOLDER.fullmatch(path.name) is not None
    return named and stat.S_ISDIR(info.st_mode) and info.st_uid == os.getuid()


def _is_in_use(path: Path) -> bool:
    """Whether the process that the folder's name tells of lives, or a job of its that was left."""
    owner = _FOLDER.fullmatch(path.name)
    if owner is not None and start_of(int(owner[1])) is not None:
        return True
    try:
        descriptor = os.open(path / "held", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def person_files(paths: Paths, project: str) -> PersonFiles:
    """What was written for the person, and what they wrote for KogniTerm, here and everywhere."""
    own = [paths.config]
    if project:
        own += [Path(project) / name for name in PROJECT_FILES]
    return PersonFiles(WrittenFiles(paths.written_files), own)


def forgettables(
    paths: Paths,
    store: SessionStore | None,
    project: str,
    live: Mapping[str, SessionJournal] | None = None,
) -> list[Forgettable]:
    """Everything beside memory's own tables that may hold what is to be forgotten."""
    files: list[tuple[Phrase, Sequence[Path]]] = [
        (Phrase("command outputs"), [paths.outputs]),
        (Phrase("outcomes that wait for the database"), [paths.spool]),
        (Phrase("prompt history"), [paths.history_file]),
        (Phrase("examples for the local model"), [paths.learned_examples]),
        (Phrase("logs"), [paths.log_file.parent]),
        (Phrase("the register of what was written for you"), [paths.written_files]),
    ]
    journal: list[Forgettable] = [JournalPurge(store, live)] if store is not None else []
    return [
        *journal,
        UndoPurge(paths.data / "undo"),
        DamagedPurge(paths.database),
        LeftoverPurge(Path(tempfile.gettempdir())),
        person_files(paths, project),  # before the register, which tells what is ours
        *(FilePurge(name, places) for name, places in files),
    ]
