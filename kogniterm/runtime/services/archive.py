"""All data that KogniTerm stores for the user, and the stores that can forget words.

Memory forgets in its own tables and proves the result; the journal and the files join it here.
"""

from __future__ import annotations

import logging
import os
import re
import stat
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kogniterm.errors import KognitermError, UsageError
from kogniterm.host.processes import start_of
from kogniterm.memory.file_purge import FilePurge, Forgettable, Purged, scan
from kogniterm.runtime.trust.project_places import SHARED_PLACES, ProjectFile, ProjectWalk
from kogniterm.runtime.trust.trust_store import TRUSTED_TEXTS, trusted_files
from kogniterm.storage.folders import try_lock
from kogniterm.text.matching import Matcher
from kogniterm.types import Phrase

if TYPE_CHECKING:
    from kogniterm.memory.forgetter import Forgetter
    from kogniterm.paths import Paths
    from kogniterm.runtime.services.memory_service import MemoryService
    from kogniterm.runtime.services.written_files import UserFiles
    from kogniterm.sessions.journal.journal import SessionJournal
    from kogniterm.sessions.store import SessionStore

log = logging.getLogger(__name__)


class FirstWalk:
    """The walk at the opening of a session, for the first that asks after it; the next walk anew.

    To trust a folder or to revoke its trust drops it.
    """

    def __init__(self, seen: ProjectWalk | None = None) -> None:
        self.seen = seen

    def take(self) -> ProjectWalk | None:
        """Return the walk, once."""
        seen, self.seen = self.seen, None
        return seen


class SessionArchive:
    """The user's sessions, the journal of the open one, and the places of the files.

    `gemini_key` deletes what Gemini stores.
    """

    def __init__(
        self,
        store: SessionStore,
        journal: SessionJournal,
        paths: Paths,
        max_age_days: int | None,
        gemini_key: str,
        first_walk: FirstWalk,
    ) -> None:
        self.store = store
        self.journal = journal
        self.paths = paths
        self.max_age_days = max_age_days
        self.gemini_key = gemini_key
        self.first_walk = first_walk

    def expire(self) -> None:
        """Delete the sessions that were not used for longer than the user wants them kept.

        Called after the work of a session, so that nobody waits for it. A failure is logged: the
        next session tries again.
        """
        if self.max_age_days is None:
            return
        try:
            gone = self.store.expire(self.max_age_days)
        except KognitermError:
            log.exception("old sessions could not be deleted")
        else:
            log.info("%d old sessions were deleted", len(gone))

    def inputs(self) -> list[int]:
        """Return the numbers of the records that begin a turn of the conversation, in order."""
        state = self.journal.state
        return [seq for seq in self.store.inputs(state.session_id) if state.in_force(seq)]

    def project_commands(self) -> tuple[ProjectFile, ...]:
        """Return the custom commands of plugins and of the session's folder that are trusted."""
        seen = self.first_walk.take()
        files, _notices = trusted_files(self.paths, Path(self.journal.state.folder), seen)
        return tuple(file for file in files if file.kind == "command")

    def forgetter(self, memory: MemoryService | None) -> Forgetter:
        """Return what forgets in memory and everything else that KogniTerm keeps.

        Raises `UsageError` when memory is off: its tables hold the proof of what was forgotten.
        """
        if memory is None:
            raise UsageError(
                "Memory is off in this session. To forget something, run: kogniterm memory forget …"
            )
        live = {self.journal.state.session_id: self.journal}
        remembered = memory.context.memory
        others = forgettables(
            self.paths, self.store, remembered.project, live, gemini_key=self.gemini_key
        )
        return remembered.forgetter.joined(*others)

    def user_files(self) -> UserFiles:
        """Return the files outside of KogniTerm's own folders, for this session's workspace."""
        return user_files(self.paths, self.journal.state.folder)


_FOLDER = re.compile(r"kogniterm-(\d+)-[a-z0-9_]{8}")
"""The name of a process's temporary folder: scripts of commands, drafts in an editor."""


class JournalPurge:
    """Forgets in every session of `store`: records, titles, drafts, search index, outputs.

    `live` are the journals this process has open, by session id.
    """

    def __init__(
        self, store: SessionStore, live: Mapping[str, SessionJournal] | None = None
    ) -> None:
        self.store = store
        self.live = live

    def purge(self, terms: Sequence[str]) -> Purged:
        """Replace the terms, whatever their case; busy sessions are named."""
        from kogniterm.sessions.forget_words import forget

        if not terms:
            return Purged(Phrase("the session journal"), 0)
        report = forget(self.store, terms, live=self.live)
        records = sum(len(numbers) for numbers in report.records.values())
        return Purged(Phrase("the session journal"), records, report.busy)


class UndoPurge:
    """Forgets in the pre-images: contents are cleaned, and one whose file names match goes whole.

    Restoring a file under a cleaned name would create a file that never existed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def purge(self, terms: Sequence[str]) -> Purged:
        """Overwrite the terms. Raises `StorageError`."""
        from kogniterm.execution.undo import PreimageStore

        place = Phrase("copies saved for /undo")
        matcher = Matcher(terms)
        if not matcher:
            return Purged(place, 0)
        sessions = list(self.folder.glob("*"))
        cleaned = FilePurge(place, [one / "contents" for one in sessions]).purge(terms).removed
        dropped = sum(PreimageStore(one).drop(matcher.holds) for one in sessions)
        last = FilePurge(place, [self.folder]).purge(terms)
        return last._replace(removed=cleaned + dropped + last.removed)


class DamagedPurge:
    """Forgets in damaged databases that were moved aside, which are never deleted."""

    def __init__(self, database: Path) -> None:
        self.database = database

    def purge(self, terms: Sequence[str]) -> Purged:
        """Overwrite the terms where they are in one piece; report that more may be there."""
        aside = sorted(self.database.parent.glob(f"{self.database.name}.damaged-*"))
        done = FilePurge(Phrase("damaged databases that were moved aside"), aside).purge(terms)
        left = tuple(
            Phrase(
                "fragments of the text in the damaged database {file}; "
                "delete the file if you do not need it",
                {"file": file},
            )
            for file in aside
            if not file.name.endswith(("-wal", "-shm"))
        )
        return done._replace(unreachable=left)


class LeftoverPurge:
    """Forgets in what killed processes left in `folder`, the system's temporary one.

    The scripts of a live process are not touched: what runs must stay what was approved.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def purge(self, terms: Sequence[str]) -> Purged:
        """Overwrite the terms. Raises `StorageError`."""
        mine = [one for one in self.folder.glob("kogniterm-*") if _is_own(one)]
        left = [one for one in mine if not _is_in_use(one)]
        done = FilePurge(Phrase("temporary files"), left).purge(terms)
        _, _, found = scan([one for one in mine if one not in left], Matcher(terms))
        busy = tuple(
            Phrase("{file}, in use by a running command", {"file": file}) for file in found
        )
        return done._replace(unreachable=busy, files=tuple(left))


class ReplyPurge:
    """Forgets kept replies of models: all of them, since one may paraphrase what is forgotten."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def purge(self, terms: Sequence[str]) -> Purged:
        """Delete everything, whatever the terms. Raises `StorageError`."""
        from kogniterm.models.reply_cache import ReplyCache

        del terms
        return Purged(Phrase("kept replies of models"), ReplyCache(self.folder).clear())


class SignInPurge:
    """Forgets sign-ins to MCP servers: one that holds a term goes whole, a token has no parts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def purge(self, terms: Sequence[str]) -> Purged:
        """Delete the sign-ins with the terms. Raises `StorageError`."""
        from kogniterm.tools.mcp.token_files import TokenFiles

        return Purged(Phrase("sign-ins to MCP servers"), TokenFiles(self.folder).delete_all(terms))


class ProviderPurge:
    """Forgets what Gemini stores for a while: all of it, whatever it contains.

    `key` is the user's key there; "" where none is set.
    """

    def __init__(self, folder: Path, key: str) -> None:
        self.folder = folder
        self.key = key

    def purge(self, terms: Sequence[str]) -> Purged:
        """Delete everything that is stored; what cannot be deleted expires by itself."""
        from kogniterm.models.providers.gemini_cache import ProviderCaches, delete_listed

        del terms
        caches, removed, left = ProviderCaches(self.folder), 0, []
        for one in caches.current(time.time()):
            if self.key and delete_listed(one, self.key):
                caches.remove(one.name)
                removed += 1
                continue
            until = datetime.fromtimestamp(one.expires).astimezone().strftime("%H:%M:%S")
            left.append(
                Phrase(
                    "text of a session that Gemini keeps in its cache until {time}", {"time": until}
                )
            )
        return Purged(Phrase("Gemini's cache"), removed, tuple(left))


def _is_own(path: Path) -> bool:
    try:
        info = path.lstat()
    except FileNotFoundError:
        return False
    named = _FOLDER.fullmatch(path.name) is not None
    return named and stat.S_ISDIR(info.st_mode) and info.st_uid == os.getuid()


def _is_in_use(path: Path) -> bool:
    """Return whether the process of the folder, or a job that it left, is alive."""
    owner = _FOLDER.fullmatch(path.name)
    if owner is not None and start_of(int(owner[1])) is not None:
        return True
    try:
        descriptor = os.open(path / "held", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        return not try_lock(descriptor)
    finally:
        os.close(descriptor)


def user_files(paths: Paths, project: str) -> UserFiles:
    """Return the files that were written for the user, and those they wrote for KogniTerm."""
    from kogniterm.runtime.services.written_files import PROJECT_FILES, UserFiles, WrittenFiles

    own = [paths.config, *(Path.home() / name for name in SHARED_PLACES)]
    if project:
        own += [Path(project) / name for name in PROJECT_FILES]
    return UserFiles(WrittenFiles(paths.written_files), own)


def forgettables(
    paths: Paths,
    store: SessionStore | None,
    project: str,
    live: Mapping[str, SessionJournal] | None = None,
    *,
    gemini_key: str = "",
) -> list[Forgettable]:
    """Return everything beside memory's own tables that may hold what is to be forgotten.

    `gemini_key` deletes what Gemini stores.
    """
    files: list[tuple[Phrase, Sequence[Path]]] = [
        (Phrase("command outputs"), [paths.of_sessions.outputs]),
        (Phrase("outcomes not yet saved to the database"), [paths.spool]),
        (Phrase("prompt history"), [paths.history_file]),
        (Phrase("examples for the local model"), [paths.learned_examples]),
        (Phrase("logs"), [paths.log_file.parent]),
        (Phrase("copies of trusted files"), [paths.trust_file.with_name(TRUSTED_TEXTS)]),
        (Phrase("what you decided about skills"), [paths.extensions.skill_data]),
        (Phrase("the list of files KogniTerm wrote for you"), [paths.written_files]),
    ]
    journal: list[Forgettable] = [JournalPurge(store, live)] if store is not None else []
    return [
        *journal,
        ReplyPurge(paths.of_sessions.model_replies),
        ProviderPurge(paths.provider_caches, gemini_key),
        SignInPurge(paths.extensions.mcp_tokens),
        UndoPurge(paths.of_sessions.undo),
        DamagedPurge(paths.database),
        LeftoverPurge(Path(tempfile.gettempdir())),
        user_files(paths, project),  # before the register, which names them
        *(FilePurge(name, places) for name, places in files),
    ]
