"""Noting in the head file how far each journal has come, and comparing the two.

The head file (`kogniterm.storage.head_file`) is written after the database: a record that waits for
the disk is noted when it is there. What a crash can leave is therefore known exactly, and nothing
else is accepted: behind the place noted last there may be records of one turn whose end was not
noted yet, and only while the journal was open. A journal that was closed has nothing behind its
place.

In a shared database other machines write too. There each machine vouches for what it noted itself:
its records must still be there, and what follows them may have come from elsewhere.
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kogniterm.errors import StorageError
from kogniterm.storage.head_file import HeadFile, Heads, Known, Mark, Note
from kogniterm.types import Phrase

if TYPE_CHECKING:
    from kogniterm.storage.database import Database

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Fault:
    """Where a journal and the head file disagree: from record `seq` on, and why."""

    seq: int
    reason: Phrase


class Anchor:
    """The head file of one database, as the sessions room writes it.

    `notices` is what the user should be told: that a head file was begun, or why it cannot be used.
    `damaged` says that the database holds less than the head file knows.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._file: HeadFile | None = None
        self.notices: tuple[Phrase, ...] = ()
        self.damaged = False
        if database.heads is None:
            return
        if not database.read_only and not (_row(database) or ("",))[0]:
            self._begin(database.heads)
        problem, heads = trouble(database)
        if problem is None:
            self._file = None if database.read_only else database.heads
            problem = behind(database, heads)
            self.damaged = problem is not None
        if problem is not None:
            self.notices += (problem,)

    def _begin(self, file: HeadFile) -> None:
        """The first time: note every journal as it is found, or take up the file that is there."""
        database = self._database
        row, heads = _row(database), file.read()
        if row is None and not database.is_postgres:
            return  # the row was removed: `trouble` says so
        if heads is None:
            found = list(_present(database)) if not database.is_postgres else []
            flush(database)
            heads = file.begin(found)
            if found:
                self.notices += (
                    Phrase(
                        "The audit's head file {file} was begun; {count} sessions were taken into "
                        "it as they were found.",
                        {"file": str(file.path), "count": len(found)},
                    ),
                )
        _remember(database, heads, new=row is None)

    # --- what happens to a journal -------------------------------------------------------------

    def opened(self, session_id: str) -> None:
        """A process takes up the journal: from here on it may lag behind. Raises `StorageError`."""
        if self._file is None:
            return
        heads = self._file.read()
        known = heads.sessions.get(session_id) if heads is not None else None
        place = _place(self._database, session_id)
        notes = []
        changed = fault_of(self._database, session_id, heads, place.seq)
        if changed is not None:  # what is noted from here on must not cover it
            notes.append(Note("odd", session_id, changed.seq))
        if known is None or known.reached is None or known.reached.seq != place.seq:
            flush(self._database)  # what was found may not be on the disk yet
        notes.append(self._note("open", session_id, place))
        self._write(notes, durable=True)

    def reached(self, session_id: str, seq: int, record_hash: str, *, ended: bool) -> None:
        """The journal has come to a record that is on the disk; with the end of a turn, so will
        this note be."""
        if self._file is not None:
            self._try_writing(lambda: [Note("end", session_id, seq, record_hash)], durable=ended)

    def closed(self, session_id: str, *, on_disk: bool) -> None:
        """Nobody writes to the journal any more; `on_disk`: its last record waited for the disk."""

        def note() -> list[Note]:
            if not on_disk:
                flush(self._database)
            return [self._note("closed", session_id, _place(self._database, session_id))]

        if self._file is not None:
            self._try_writing(note)

    def coming(self, session_id: str, seq: int, record_hash: str, created: float) -> None:
        """A whole journal will be written in one transaction. Raises `StorageError`."""
        self._write([Note("coming", session_id, seq, record_hash, created)], durable=True)

    def leaving(self, session_ids: Iterable[str]) -> None:
        """Journals will be removed at the user's wish. Raises `StorageError`."""
        if self._file is None:
            return
        notes = []
        for session_id in session_ids:
            place = _place(self._database, session_id)
            notes.append(Note("gone", session_id, place.seq, place.hash, place.created, place.seq))
        self._write(notes, durable=True)

    def left(self, session_ids: Iterable[str]) -> None:
        """They were removed, and the disk knows."""
        self._try_writing(lambda: [Note("removed", one) for one in session_ids])

    def _try_writing(self, notes: Callable[[], list[Note]], *, durable: bool = False) -> None:
        """Write notes; a failure is logged, and made good by the next note."""
        try:
            self._write(notes(), durable=durable)
        except StorageError:
            log.exception("the head file could not be written")

    def _note(self, what: Any, session_id: str, place: _Place) -> Note:
        return Note(what, session_id, place.seq, place.hash, place.created)

    def _write(self, notes: list[Note], *, durable: bool) -> None:
        if self._file is None or not notes:
            return
        mark = self._file.append(notes, durable=durable)
        if durable:
            self._database.execute(
                "UPDATE heads SET n = ?, hash = ? WHERE owner = ? AND n < ?",
                (mark.n, mark.hash, owner(self._database), mark.n),
            )


def accept(database: Database) -> int:
    """Begin a new head file with every journal as it is found; returns how many there are.

    What the old file knew is given up: the user has looked at what it says. Raises `StorageError`.
    """
    if database.heads is None:
        return 0
    flush(database)
    notes = list(_present(database))
    heads = database.heads.begin(notes, replacing=True)
    _remember(database, heads, new=_row(database) is None)
    return len(notes)


# --- comparing -------------------------------------------------------------------------------


def trouble(database: Database) -> tuple[Phrase | None, Heads | None]:
    """What is wrong with the head file itself, and what it says.

    What the database remembers of it is read first: the file itself may grow meanwhile.
    """
    if database.heads is None:
        return None, None
    row = _row(database)
    heads = database.heads.read()
    return _trouble(database, database.heads, row, heads), heads


def _trouble(
    database: Database, head_file: HeadFile, row: tuple[str, Mark] | None, heads: Heads | None
) -> Phrase | None:
    file = {"file": str(head_file.path)}
    if row is None:
        if database.is_postgres and heads is None:
            return None  # this machine has never written there
        return Phrase(
            "The database does not remember the audit's head file {file} any more: its note of it "
            "was removed.",
            file,
        )
    identity, mark = row
    if heads is None:
        if not identity:
            return None
        return Phrase(
            "The audit's head file {file} is missing. What was removed from the sessions cannot be "
            "seen without it: put it back, or begin a new one with: kogniterm audit anchor",
            file,
        )
    if heads.broken is not None:
        return Phrase(
            "Line {number} of the audit's head file {file} was changed or removed.",
            file | {"number": heads.broken},
        )
    if identity and heads.id != identity:
        return Phrase("The audit's head file {file} belongs to another database.", file)
    if not heads.holds(mark):
        return Phrase("The end of the audit's head file {file} is missing.", file)
    return None


def behind(database: Database, heads: Heads | None) -> Phrase | None:
    """Whether the database holds less than the head file knows: looks at each session's last number
    only, so that every start can afford it."""
    if heads is None or database.is_postgres:
        return None
    rows = database.execute(
        "SELECT id, (SELECT max(seq) FROM records WHERE session_id = sessions.id) FROM sessions"
    )
    there = {session_id: seq or 0 for session_id, seq in rows}
    short = [
        session_id
        for session_id, known in heads.sessions.items()
        if known.reached is not None
        and known.announced is None
        and there.get(session_id, 0) < known.reached.seq
    ]
    if not short:
        return None
    return Phrase(
        "{place} is damaged: records of {count} sessions are missing. Its write-ahead log "
        "({place}-wal) may have been removed, or an older copy put in its place. See: kogniterm "
        "audit verify",
        {"place": database.place, "count": len(short)},
    )


def fault_of(database: Database, session_id: str, heads: Heads | None, count: int) -> Fault | None:
    """Where a session with `count` records disagrees with the head file, if it does."""
    if heads is None:
        return None
    known = heads.sessions.get(session_id, Known())
    if known.odd is not None:
        reason = Phrase("it was changed while no KogniTerm had it open")
        return Fault(known.odd.seq, reason)
    announced = known.announced
    if announced is not None and announced.what == "coming":
        place = _place(database, session_id)
        if (place.seq, place.hash) == (announced.seq, announced.hash):
            return None
    reached = known.reached
    if reached is None:
        if not count or database.is_postgres:
            return None
        return Fault(1, Phrase("the head file does not know this session"))
    return _against(database, session_id, reached, count)


def end_missing(first: int, last: int) -> Phrase:
    """The sentence about a journal that was cut short."""
    return Phrase(
        "the end of the journal is missing: records {first} to {last}",
        {"first": first, "last": last},
    )


def _against(database: Database, session_id: str, reached: Note, count: int) -> Fault | None:
    if count < reached.seq:
        return Fault(count + 1, end_missing(count + 1, reached.seq))
    place = _place(database, session_id)
    if reached.created is not None and place.created != reached.created:
        return Fault(1, Phrase("the date of its beginning was changed"))
    if reached.seq and _hash_at(database, session_id, reached.seq) != reached.hash:
        return Fault(reached.seq, Phrase("it is not the record that the head file knows"))
    if database.is_postgres or count == reached.seq:
        return None
    ends = database.execute(
        "SELECT seq FROM records WHERE session_id = ? AND seq > ? AND kind = 'turn_ended' "
        "ORDER BY seq LIMIT 2",
        (session_id, reached.seq),
    )
    if reached.what == "closed" or len(ends) > 1:
        return Fault(
            reached.seq + 1, Phrase("it was added behind the last record that the head file knows")
        )
    return None


def missing(database: Database, heads: Heads | None) -> Mapping[str, int]:
    """The sessions that the head file knows and the database does not hold, with the number of
    their records; not those whose removal was announced."""
    if heads is None:
        return {}
    there = {session_id for (session_id,) in database.execute("SELECT id FROM sessions")}
    if database.is_postgres:
        there |= {one for (one,) in database.execute("SELECT session_id FROM removals")}
    return {
        session_id: known.reached.seq
        for session_id, known in heads.sessions.items()
        if session_id not in there
        and known.reached is not None
        and known.reached.seq
        and (known.announced is None or known.announced.what != "gone")
    }


# --- rows ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a journal stands."""

    seq: int
    hash: str
    created: float | None


def _place(database: Database, session_id: str) -> _Place:
    rows = database.execute(
        "SELECT seq, hash FROM records WHERE session_id = ? ORDER BY seq DESC LIMIT 1",
        (session_id,),
    )
    created = database.execute("SELECT created FROM sessions WHERE id = ?", (session_id,))
    seq, last = rows[0] if rows else (0, "")
    return _Place(seq, last, created[0][0] if created else None)


def _hash_at(database: Database, session_id: str, seq: int) -> str:
    rows = database.execute(
        "SELECT hash FROM records WHERE session_id = ? AND seq = ?", (session_id, seq)
    )
    return str(rows[0][0]) if rows else ""


def _present(database: Database) -> Iterable[Note]:
    """A note for every journal as it is found."""
    for (session_id,) in database.execute("SELECT id FROM sessions ORDER BY id"):
        place = _place(database, session_id)
        yield Note("closed", session_id, place.seq, place.hash, place.created)


def flush(database: Database) -> None:
    """Bring everything that was committed to the disk."""
    with database.transaction(durable=True):
        database.execute("UPDATE heads SET n = n WHERE owner = ?", (owner(database),))


def owner(database: Database) -> str:
    """Whose head file it is: empty for the file beside a database, else machine and place."""
    if not database.is_postgres or database.heads is None:
        return ""
    return f"{socket.gethostname()}:{database.heads.path}"


def _row(database: Database) -> tuple[str, Mark] | None:
    """The head file's identity ("" until it was begun) and the line known to be on the disk."""
    rows = database.execute("SELECT id, n, hash FROM heads WHERE owner = ?", (owner(database),))
    return (rows[0][0], Mark(rows[0][1], rows[0][2])) if rows else None


def _remember(database: Database, heads: Heads, *, new: bool) -> None:
    values = (heads.id, heads.last.n, heads.last.hash, owner(database))
    with database.transaction(durable=True):
        if new:
            database.execute("INSERT INTO heads (id, n, hash, owner) VALUES (?, ?, ?, ?)", values)
        else:
            database.execute("UPDATE heads SET id = ?, n = ?, hash = ? WHERE owner = ?", values)


def note_removal(
    database: Database, session_id: str, *, now: Callable[[], float] = time.time
) -> None:
    """Tell the other machines of a shared database that a session is removed on purpose."""
    if database.is_postgres:
        place = _place(database, session_id)
        database.execute(
            "INSERT INTO removals (session_id, owner, records, hash, time) VALUES (?, ?, ?, ?, ?)",
            (session_id, owner(database), place.seq, place.hash, now()),
        )
