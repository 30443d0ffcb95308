"""All sessions of a user: create, open, list, find, rename, delete."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from shutil import rmtree
from typing import Literal

from kogniterm.errors import UsageError
from kogniterm.host.identity import Holder, this_process
from kogniterm.paths import LAST, SessionId
from kogniterm.sessions import session_search
from kogniterm.sessions.anchor import Anchor, note_removal
from kogniterm.sessions.fold import Note, SessionState
from kogniterm.sessions.journal.codec import readable_records
from kogniterm.sessions.journal.journal import Fault, SessionJournal, load_state, no_fault
from kogniterm.sessions.journal.outcome_spool import Spool
from kogniterm.sessions.journal.ownership import HEARTBEAT, SessionLease, is_held
from kogniterm.sessions.records import Record, SessionOpened, TurnClosed
from kogniterm.sessions.session_search import storable
from kogniterm.storage.database import Database, in_pieces
from kogniterm.storage.drivers import DuplicateError, storage_errors
from kogniterm.text.language import fold_case

SHORT_ID = 8
"""Characters of an id that are shown, unless another session's begins with the same ones."""

Condition = Literal["done", "not_done", "interrupted", "question", "elsewhere"]
"""The state of a session in a list; `elsewhere`: another living process has it open."""


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """An entry in the list of sessions. Times in seconds since the epoch."""

    id: str
    folder: str
    title: str
    model: str
    created: float
    updated: float
    turns: int
    parent: str | None = None
    parent_seq: int | None = None


_COLUMNS = ", ".join(field.name for field in fields(SessionInfo))
_COMMAND = "SELECT 1 FROM records WHERE session_id = sessions.id AND kind = 'intent'"
_USED = f"(turns > 0 OR draft <> '' OR EXISTS ({_COMMAND}))"


class SessionStore:
    """The sessions in one database.

    `folders` have a folder for each session, which is deleted with it, and `spool` is the one for
    outcomes that the database cannot take. `anchor` records in the head file what is written, and
    has the notices about it for the user. Not for use from two threads at once. Methods raise
    `StorageError` kinds, and `UsageError` for a reference that names no session, or more than one.
    """

    def __init__(
        self,
        database: Database,
        *,
        version: str,
        folders: Sequence[Path] = (),
        spool: Path | None = None,
        now: Callable[[], float] = time.time,
        fault: Fault = no_fault,
        holder: Holder | None = None,
        heartbeat: float = HEARTBEAT,
    ) -> None:
        self.database = database
        self.version = version
        self.folders = folders
        self._spool = spool
        self.now = now
        self._fault = fault
        self._holder = holder
        self._heartbeat = heartbeat
        self.anchor = Anchor(database)

    def create(self, *, folder: str, model: str, session_id: str | None = None) -> SessionJournal:
        """Create a session that works in `folder`. Raises `UsageError` for an id in use."""
        new = SessionId(session_id) if session_id else SessionId.new()
        self.add_row(new, folder=folder, model=model)
        journal = self._held(new, lambda: (SessionState(), ()))
        journal.append(SessionOpened(new, folder, self.version, model))
        return journal

    def add_row(
        self,
        session_id: SessionId,
        *,
        folder: str,
        model: str,
        created: float | None = None,
        parent: str | None = None,
        parent_seq: int | None = None,
    ) -> None:
        """Insert the row that a session's records refer to."""
        moment = self.now() if created is None else created
        values = (storable(folder), storable(model), moment, moment, parent, parent_seq)
        try:
            self.database.execute(
                "INSERT INTO sessions (id, folder, model, created, updated, parent, parent_seq) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (session_id, *values),
            )
        except DuplicateError as error:
            raise UsageError("Session {session} already exists.", session=session_id) from error

    def open(
        self, reference: str, *, model: str | None = None, folder: str | None = None
    ) -> SessionJournal:
        """Resume a session: take its lease and fold its state from its journal.

        It moves to `folder` if its own one is not on this machine. Raises `SessionBusyError` when
        another living process drives it.
        """
        info = self.find(reference)
        journal = self.hold(SessionId(info.id))
        # A session that was killed before its first record has nothing but its row.
        own, before = journal.state.folder or info.folder, journal.state.model or info.model
        place = own if folder is None or Path(own).is_dir() else folder
        journal.append(SessionOpened(info.id, place, self.version, model or before))
        return journal

    def open_or_create(self, session_id: str, *, folder: str, model: str | None) -> SessionJournal:
        """Open the session with exactly this id, or create it.

        Of two processes that create it at once, one raises `SessionBusyError`.
        """
        wanted = SessionId(session_id)
        if self.info(wanted) is None:
            with suppress(UsageError):
                return self.create(folder=folder, model=model or "", session_id=wanted)
        return self.open(wanted, model=model, folder=folder)

    def hold(self, session_id: str) -> SessionJournal:
        """Take the lease of an existing session and return its journal; nothing is written."""

        def load() -> tuple[SessionState, tuple[int, ...]]:
            session_search.add_missing(self.database, session_id)
            return load_state(self.database, session_id)

        return self._held(session_id, load)

    def _held(
        self, session_id: str, load: Callable[[], tuple[SessionState, tuple[int, ...]]]
    ) -> SessionJournal:
        lease = self._lease([session_id])
        with ExitStack() as on_failure:
            on_failure.callback(lease.release)
            state, damaged = load()
            self.anchor.note_opened(session_id)
            on_failure.pop_all()
        return SessionJournal(
            self.database,
            session_id,
            state,
            now=self.now,
            fault=self._fault,
            damaged=damaged,
            lease=lease,
            anchor=self.anchor,
            spool=self._spool_of(session_id),
        )

    def _spool_of(self, session_id: str) -> Spool | None:
        return Spool(self._spool, session_id) if self._spool is not None else None

    def _lease(self, session_ids: Sequence[str]) -> SessionLease:
        holder = self._holder or this_process()
        return SessionLease(self.database, session_ids, holder, heartbeat=self._heartbeat)

    # --- finding -----------------------------------------------------------------------------

    def sessions(
        self, *, folder: str | None = None, used: bool = False, limit: int = 1000
    ) -> list[SessionInfo]:
        """Return sessions, the most recently used first.

        With a `folder` only those that work there, with `used` only those that `is_used` is
        true of.
        """
        tests = {"folder = ?": folder is not None, _USED: used}
        chosen = " AND ".join(test for test, wanted in tests.items() if wanted)
        where = f"WHERE {chosen} " if chosen else ""
        values = () if folder is None else (storable(folder),)
        rows = self.database.execute(
            f"SELECT {_COLUMNS} FROM sessions {where}ORDER BY updated DESC, id LIMIT ?",
            (*values, limit),
        )
        return [SessionInfo(*row) for row in rows]

    def is_used(self, session_id: str) -> bool:
        """Return whether there is something to continue: a turn, a command or unsent text."""
        question = f"SELECT 1 FROM sessions WHERE id = ? AND {_USED}"
        return self.database.one(question, (session_id,)) is not None

    def short_id(self, session_id: str) -> str:
        """Return the beginning of an id that `find` takes for this session alone."""
        rows = self.database.execute(
            "SELECT id FROM sessions WHERE id LIKE ? AND id <> ?",
            (f"{session_id[:SHORT_ID]}%", session_id),
        )
        length = SHORT_ID
        while any(other.startswith(session_id[:length]) for (other,) in rows):
            length += 1
        return session_id[:length]

    def condition(self, session_id: str) -> Condition:
        """Return how the last turn of a session stands, or that another process has it open."""
        if is_held(self.database, session_id, self._holder or this_process()):
            return "elsewhere"
        state, _damaged = load_state(self.database, session_id)
        if state.open_turn:
            return "question" if state.asking else "interrupted"
        row = self.database.one(
            "SELECT max(seq) FROM records "
            "WHERE session_id = ? AND kind IN ('turn_ended', 'rewound')",
            (session_id,),
        )
        last = row[0] if row else None
        ends = readable_records(self.database, session_id, last) if last else ()
        stop = next((end.body.stop for end in ends if isinstance(end.body, TurnClosed)), "done")
        if stop == "interrupted":
            return "interrupted"
        return "done" if stop in ("done", "plan_only") else "not_done"

    def inputs(self, session_id: str) -> list[int]:
        """Return the numbers of the records that begin a turn, in order."""
        rows = self.database.execute(
            "SELECT seq FROM records WHERE session_id = ? AND kind = 'input' ORDER BY seq",
            (session_id,),
        )
        return [seq for (seq,) in rows]

    def info(self, session_id: str) -> SessionInfo | None:
        """Return the session with exactly this id, if there is one."""
        row = self.database.one(f"SELECT {_COLUMNS} FROM sessions WHERE id = ?", (session_id,))
        return SessionInfo(*row) if row else None

    def find(self, reference: str, *, folder: str | None = None) -> SessionInfo:
        """Return the session meant by `last` (of `folder`), an id or its beginning, or a title."""
        last = reference == LAST
        exact = None if last else self.info(fold_case(reference.strip()))
        if exact is not None:
            return exact
        if last:
            sessions = self.sessions(folder=folder, used=True, limit=1)
            if not sessions:
                if folder is not None and self.sessions(used=True, limit=1):
                    raise UsageError(
                        "No session of this folder; for those of others: kogniterm sessions list"
                    )
                raise UsageError("No sessions yet; start one with: kogniterm")
            return sessions[0]
        found = matching_sessions(self.sessions(limit=1_000_000), reference)
        if len(found) == 1:
            return found[0]
        if found:
            raise UsageError(
                "{reference} matches {count} sessions: {ids}; specify one of these IDs.",
                reference=reference,
                count=len(found),
                ids=", ".join(info.id for info in found[:5]) + (", …" if len(found) > 5 else ""),
            )
        raise UsageError(
            "Session {reference} not found. List sessions with: kogniterm sessions list",
            reference=reference,
        )

    def search(
        self, query: str, *, limit: int = 20
    ) -> list[tuple[SessionInfo, session_search.Hit]]:
        """Return turns that hold words beginning like all words of `query`, best first."""
        hits = session_search.find(self.database, query, limit)
        infos = {hit.session_id: self.info(hit.session_id) for hit in hits}
        return [(info, hit) for hit in hits if (info := infos[hit.session_id]) is not None]

    # --- changing ----------------------------------------------------------------------------

    def rename(self, reference: str, title: str) -> SessionInfo:
        """Rename a session. Raises `SessionBusyError` when it is open elsewhere."""
        title, info = title_of(title), self.find(reference)
        journal = self.hold(info.id)
        try:
            journal.append(Note.TITLE.record(title))
        finally:
            journal.close()
        return replace(info, title=journal.state.title)

    def save_draft(self, session_id: str, text: str) -> None:
        """Save the input that the user has typed and not sent."""
        self.database.execute(
            "UPDATE sessions SET draft = ? WHERE id = ?", (storable(text), session_id)
        )

    def delete(self, references: Iterable[str]) -> list[SessionInfo]:
        """Delete sessions with all that belongs to them; nothing of them stays on disk.

        Raises `SessionBusyError`, before anything is deleted, when one is open elsewhere.
        """
        found = {info.id: info for info in map(self.find, references)}
        if not found:
            return []
        with ExitStack() as on_exit:
            on_exit.callback(self._lease([*found]).release)
            folders = [folder for one in found for folder in self._folders(one)]
            self.anchor.announce_removal(found)
            with self.database.transaction(durable=True):
                for one in found:
                    note_removal(self.database, one, now=self.now())
                self.forget_rows([*found])
            self.anchor.note_removed(found)
        for folder in folders:
            with storage_errors(folder), suppress(FileNotFoundError):
                rmtree(folder)
        for one in found:
            if (spool := self._spool_of(one)) is not None:
                spool.remove()
        self.database.scrub()
        return [*found.values()]

    def forget_rows(self, session_ids: Sequence[str]) -> None:
        """Delete the rows of sessions; `delete` also removes what deleted rows leave behind."""
        for some, marks in in_pieces(session_ids):
            # The texts for searches have no index by session: each statement reads them all.
            for table, column in (
                ("turn_texts", "session_id"),
                ("records", "session_id"),
                ("sessions", "id"),
            ):
                self.database.execute(f"DELETE FROM {table} WHERE {column} IN ({marks})", some)

    def find_unused(self, days: float) -> list[SessionInfo]:
        """Return the sessions not used for `days` days and not open, oldest first."""
        rows = self.database.execute(
            f"SELECT {_COLUMNS} FROM sessions WHERE updated < ? ORDER BY updated",
            (self.now() - days * 86_400,),
        )
        me = self._holder or this_process()
        infos = [SessionInfo(*row) for row in rows]
        return [info for info in infos if not is_held(self.database, info.id, me)]

    def expire(self, days: float) -> list[SessionInfo]:
        """Delete the sessions not used for `days` days, except those that are open."""
        return self.delete(info.id for info in self.find_unused(days))

    def _folders(self, session_id: str) -> list[Path]:
        """Return the session's own folders; none for an ID that an older version let in."""
        with suppress(UsageError):
            own = SessionId(session_id)
            return [folder / own for folder in self.folders]
        return []

    def close(self) -> None:
        self.database.close()


def conversation(store: SessionStore, session_id: str, first: int) -> list[Record] | None:
    """Return a conversation from record `first` on; None while another process has it open."""
    if store.condition(session_id) == "elsewhere":
        return None
    state, _damaged = load_state(store.database, session_id)
    return list(state.conversation(readable_records(store.database, session_id, first)))


def title_of(words: str) -> str:
    """Return words as the title of a session. Raises `UsageError` for none."""
    title = " ".join(words.split())
    if not title:
        raise UsageError("The session title cannot be empty.")
    return title


def matching_sessions(infos: Sequence[SessionInfo], reference: str) -> list[SessionInfo]:
    """Return the sessions that `reference` can mean: by id, title, or words of titles."""
    wanted = fold_case(" ".join(reference.split()))
    tests: tuple[Callable[[SessionInfo], bool], ...] = (
        lambda info: info.id.startswith(wanted),
        lambda info: fold_case(info.title) == wanted,
        lambda info: session_search.holds_words(info.title, wanted),
    )
    found = ([info for info in infos if wanted and test(info)] for test in tests)
    return next(filter(None, found), [])
