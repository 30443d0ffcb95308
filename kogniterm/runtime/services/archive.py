"""What stands behind a live session: its store and its files, for commands about the session."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm.errors import KognitermError, UsageError
from kogniterm.runtime.forgetting.participants import forgettables, person_files
from kogniterm.runtime.services.exported_files import Kind, WrittenFiles
from kogniterm.runtime.trust.trust_store import TrustStore, trusted_files

if TYPE_CHECKING:
    from kogniterm.memory.forgetting.purge import Forgetter
    from kogniterm.paths import Paths
    from kogniterm.runtime.forgetting.user_files import PersonFiles
    from kogniterm.runtime.services.memory_service import MemoryService
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
