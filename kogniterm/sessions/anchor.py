"""Record in the head file how far each journal has come, and compare the two.

The head file (`kogniterm.storage.head_file`) is written after the database: a record that waits for
the disk is noted when it is there. What a crash can leave is therefore known exactly, and nothing
else is accepted: after the record noted last there may be records of one turn whose end was not
noted yet, and only while the journal was open. A journal that was closed has nothing after its
last noted record.

In a shared database other machines write too. There each machine checks what it noted itself: its
records must still be there, and what follows them may have come from elsewhere.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kogniterm.errors import StorageError
from kogniterm.storage.head_file import HeadFile, HeadNote, Heads, Known
from kogniterm.types import Phrase

if TYPE_CHECKING:
    from kogniterm.storage.database import Database

log = logging.getLogger(__name__)


class Fault(NamedTuple):
    """A disagreement of a journal and the head file, from record `seq` on.

    With `of_session` it is one of the whole session or of the journal's end.
    """

    seq: int
    reason: Phrase
    of_session: bool = False


class Anchor:
    """The writer of one database's head file.

    `notices` are shown to the user: that a head file was begun, or why it cannot be used.
    `damaged` is true when the database holds less than the head file records.
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
        """Note every journal as it is found, or continue a head file that is there."""
        database = self._database
        row, heads = _row(database), file.read()
        if row is None and not database.is_postgres:
            return  # the row was removed: `trouble` says so
        if heads is None:
            found = list(_database_heads(database)) if not database.is_postgres else []
            flush(database)
            heads = file.begin(found)
            if found:
                self.notices += (
                    Phrase(
                        "The audit anchor file {file} was created. Existing "
                        "sessions, included as found: {count}.",
                        {"file": str(file.path), "count": len(found)},
                    ),
                )
        _remember(database, heads, new=row is None)

    # --- what happens to a journal -------------------------------------------------------------

    def note_opened(self, session_id: str) -> None:
        """Note that a process opened the journal. Raises `StorageError`."""
        if self._file is None:
            return
        heads = self._file.read()
        known = heads.sessions.get(session_id) if heads is not None else None
        place = _place(self._database, session_id)
        notes = []
        changed = fault_of(self._database, session_id, heads, place.seq)
        if changed is not None:  # later notes must not hide it
            notes.append(HeadNote("odd", session_id, changed.seq))
        if known is None or known.reached is None or known.reached.seq != place.seq:
            flush(self._database)  # what was found may not be on the disk yet
        notes.append(HeadNote("open", session_id, place.seq, place.hash, place.created))
        self._write(notes, durable=True)

    def note_record(self, session_id: str, seq: int, digest: str, *, ended: bool) -> None:
        """Note a record that is on the disk; with `ended` (a turn), wait for the disk here too."""
        if self._file is not None:
            self._try_writing(lambda: [HeadNote("end", session_id, seq, digest)], durable=ended)

    def note_closed(self, session_id: str, *, on_disk: bool) -> None:
        """Note that the journal was closed; `on_disk`: its last record waited for the disk."""

        def note() -> list[HeadNote]:
            if not on_disk:
                flush(self._database)
            return [_closed_head(self._database, session_id)]

        if self._file is not None:
            self._try_writing(note)

    def announce_import(self, session_id: str, seq: int, record_hash: str, created: float) -> None:
        """Announce a whole journal in one transaction. Raises `StorageError`."""
        self._write([HeadNote("coming", session_id, seq, record_hash, created)], durable=True)

    def announce_removal(self, session_ids: Iterable[str]) -> None:
        """Announce that the user removes journals. Raises `StorageError`."""
        if self._file is None:
            return
        notes = []
        for session_id in session_ids:
            at = _place(self._database, session_id)
            notes.append(HeadNote("gone", session_id, at.seq, at.hash, at.created, at.seq))
        self._write(notes, durable=True)

    def note_removed(self, session_ids: Iterable[str]) -> None:
        """Note that journals were removed, on the disk as well."""
        self._try_writing(lambda: [HeadNote("removed", one) for one in session_ids])

    def _try_writing(self, notes: Callable[[], list[HeadNote]], *, durable: bool = False) -> None:
        """Write notes; a failure is logged, and the next note makes up for it."""
        try:
            self._write(notes(), durable=durable)
        except StorageError:
            log.exception("the head file could not be written")

    def _write(self, notes: list[HeadNote], *, durable: bool) -> None:
        if self._file is None or not notes:
            return
        last = self._file.append(notes, durable=durable)
        if durable:
            self._database.execute(
                "UPDATE heads SET n = ? WHERE owner = ? AND n < ?",
                (last, owner(self._database), last),
            )


def accept(database: Database) -> int:
    """Begin a new head file with every journal as it is found, and return their number.

    The old file is discarded: the user has seen what it reports. Raises `StorageError`.
    """
    if database.heads is None:
        return 0
    flush(database)
    notes = list(_database_heads(database))
    heads = database.heads.begin(notes, replacing=True)
    _remember(database, heads, new=_row(database) is None)
    return len(notes)


# --- comparing -------------------------------------------------------------------------------


def trouble(database: Database) -> tuple[Phrase | None, Heads | None]:
    """Return the problem of the head file itself, if any, and its content.

    The database's own note of the file is read first: the file may grow meanwhile.
    """
    if database.heads is None:
        return None, None
    row = _row(database)
    heads = database.heads.read()
    return _trouble(database, database.heads, row, heads), heads


def _trouble(
    database: Database, head_file: HeadFile, row: tuple[str, int] | None, heads: Heads | None
) -> Phrase | None:
    file = {"file": str(head_file.path)}
    if row is None:
        if database.is_postgres and heads is None:
            return None  # this machine has never written there
        return Phrase(
            "The database's reference to the audit anchor file {file} was "
            "removed; create a new anchor with `kogniterm audit anchor`.",
            file,
        )
    identity, written = row
    if heads is None:
        if not identity:
            return None
        return Phrase(
            "The audit anchor file {file} is missing, so records removed "
            "from the sessions cannot be detected. Restore it, or create a "
            "new one with: kogniterm audit anchor",
            file,
        )
    if heads.broken is not None:
        return Phrase(
            "Line {number} of the audit anchor file {file} was changed or removed.",
            file | {"number": heads.broken},
        )
    if identity and heads.id != identity:
        return Phrase("The audit anchor file {file} belongs to another database.", file)
    if heads.last < written:
        return Phrase("The end of the audit anchor file {file} is missing.", file)
    return None


def behind(database: Database, heads: Heads | None) -> Phrase | None:
    """Return a warning when the database holds less than the head file records.

    Only each session's last number is compared, so that every start can afford it.
    """
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
        "{place} is damaged: records are missing (sessions affected: "
        "{count}). Its write-ahead log ({place}-wal) may have been removed, "
        "or an older copy restored. Check with: kogniterm audit verify",
        {"place": database.place, "count": len(short)},
    )


def fault_of(database: Database, session_id: str, heads: Heads | None, count: int) -> Fault | None:
    """Return where a session with `count` records disagrees with the head file, if it does."""
    if heads is None:
        return None
    known = heads.sessions.get(session_id, Known())
    if known.odd is not None:
        reason = Phrase("it was changed while the session was not open in KogniTerm")
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
        return Fault(1, Phrase("the audit anchor does not contain this session"), of_session=True)
    return _against(database, session_id, reached, count)


def end_missing(first: int, last: int) -> Phrase:
    """Return the reason for a journal that was cut short."""
    return Phrase(
        "the end of the journal is missing: records {first} to {last}",
        {"first": first, "last": last},
    )


def _against(database: Database, session_id: str, reached: HeadNote, count: int) -> Fault | None:
    if count < reached.seq:
        return Fault(count + 1, end_missing(count + 1, reached.seq), of_session=True)
    place = _place(database, session_id)
    if reached.created is not None and place.created != reached.created:
        return Fault(1, Phrase("the start date of the session was changed"), of_session=True)
    if reached.seq and _hash_at(database, session_id, reached.seq) != reached.hash:
        return Fault(reached.seq, Phrase("it does not match the audit anchor"))
    if database.is_postgres or count == reached.seq:
        return None
    ends = database.execute(
        "SELECT seq FROM records WHERE session_id = ? AND seq > ? AND kind = 'turn_ended' "
        "ORDER BY seq LIMIT 2",
        (session_id, reached.seq),
    )
    if reached.what == "closed" or len(ends) > 1:
        return Fault(
            reached.seq + 1, Phrase("it was added after the last record in the audit anchor")
        )
    return None


def missing_sessions(database: Database, heads: Heads | None) -> Mapping[str, int]:
    """Return the sessions that only the head file knows, with the number of their records.

    Those whose removal was announced are left out.
    """
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


class _Place(NamedTuple):
    """The last record of a journal, and the date of the session."""

    seq: int
    hash: str
    created: float | None


def _place(database: Database, session_id: str) -> _Place:
    last = database.one(
        "SELECT seq, hash FROM records WHERE session_id = ? ORDER BY seq DESC LIMIT 1",
        (session_id,),
    )
    created = database.one("SELECT created FROM sessions WHERE id = ?", (session_id,))
    seq, record_hash = last or (0, "")
    return _Place(seq, record_hash, created[0] if created else None)


def _hash_at(database: Database, session_id: str, seq: int) -> str:
    row = database.one(
        "SELECT hash FROM records WHERE session_id = ? AND seq = ?", (session_id, seq)
    )
    return str(row[0]) if row else ""


def _database_heads(database: Database) -> Iterable[HeadNote]:
    for (session_id,) in database.execute("SELECT id FROM sessions ORDER BY id"):
        yield _closed_head(database, session_id)


def _closed_head(database: Database, session_id: str) -> HeadNote:
    place = _place(database, session_id)
    return HeadNote("closed", session_id, place.seq, place.hash, place.created)


def flush(database: Database) -> None:
    """Wait until everything that was committed is on the disk."""
    with database.transaction(durable=True):
        database.execute("UPDATE heads SET n = n WHERE owner = ?", (owner(database),))


def owner(database: Database) -> str:
    """Return the head file's owner: empty beside a database file, else machine and place."""
    if not database.is_postgres or database.heads is None:
        return ""
    return f"{socket.gethostname()}:{database.heads.path}"


def _row(database: Database) -> tuple[str, int] | None:
    """Return the head file's id ("" until it was begun) and its last line known to be on disk."""
    row = database.one("SELECT id, n FROM heads WHERE owner = ?", (owner(database),))
    return (row[0], row[1]) if row else None


def _remember(database: Database, heads: Heads, *, new: bool) -> None:
    values = (heads.id, heads.last, owner(database))
    with database.transaction(durable=True):
        if new:  # another process of this user may just have noted the same file
            statement = "INSERT INTO heads (id, n, owner) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
            database.execute(statement, values)
        else:
            database.execute("UPDATE heads SET id = ?, n = ? WHERE owner = ?", values)


def note_removal(database: Database, session_id: str, *, now: float) -> None:
    """Record for the other machines of a shared database that the user removed a session."""
    if database.is_postgres:
        place = _place(database, session_id)
        database.execute(
            "INSERT INTO removals (session_id, owner, records, hash, time) VALUES (?, ?, ?, ?, ?)",
            (session_id, owner(database), place.seq, place.hash, now),
        )
