"""The lease on a session: only one process of all machines may write to it at a time.

A holder is identified by machine, boot and process. On the same machine the system tells whether it
is alive, a reused process number included; a holder elsewhere counts as alive for `SECONDS` after
its last heartbeat. If a lease is ever taken over wrongly (a frozen machine wakes up), the journal's
numbering still keeps the old holder from writing: its next record's number is taken, so its next
command cannot start.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress
from threading import Event, Thread
from typing import TYPE_CHECKING

from kogniterm.errors import StorageError, StorageLockedError
from kogniterm.host.identity import Holder
from kogniterm.storage.drivers import DuplicateError

if TYPE_CHECKING:
    from kogniterm.storage.database import Database

SECONDS = 30.0
"""Seconds for which a holder on another machine counts as alive after its last heartbeat."""

HEARTBEAT = SECONDS / 3
_PATIENCE = 2.0


class SessionBusyError(StorageLockedError):
    """Another living process has the session open."""


class SessionLease:
    """A held lease on sessions, on all of them or none; making one takes it.

    `release`, and the end of the process, release it. `taken_from` is the dead holder that the
    first was taken over from, if any. `heartbeat` in seconds.
    """

    def __init__(
        self,
        database: Database,
        session_ids: Sequence[str],
        holder: Holder,
        *,
        heartbeat: float = HEARTBEAT,
    ) -> None:
        with database.transaction(durable=True):  # a server that crashes must not free a session
            dead = [_acquire(database, one, holder) for one in sorted(session_ids)]
        self.taken_from = dead[0] if dead else None
        self._database = database
        self._keys = [(one, holder.host, holder.boot, holder.pid) for one in session_ids]
        self._heartbeat = heartbeat
        self._stop = Event()
        self._thread = Thread(target=self._beat, name="session-lease", daemon=True)
        self._thread.start()

    def _beat(self) -> None:
        """Send heartbeats until released; a database out of reach is tried again later."""
        while not self._stop.wait(self._heartbeat):
            with (
                suppress(StorageError),
                closing(self._database.another()) as database,
                database.transaction(),
            ):
                for key in self._keys:
                    database.execute(
                        "UPDATE leases SET expires = ? "
                        "WHERE session_id = ? AND host = ? AND boot = ? AND pid = ?",
                        (database.clock() + SECONDS, *key),
                    )

    def release(self) -> None:
        """Release the sessions for other processes."""
        self._stop.set()
        self._thread.join(timeout=_PATIENCE)  # it may hang on a server, which is harmless
        with self._database.transaction():
            for key in self._keys:
                self._database.execute(
                    "DELETE FROM leases WHERE session_id = ? AND host = ? AND boot = ? AND pid = ?",
                    key,
                )


def is_held(database: Database, session_id: str, holder: Holder) -> bool:
    """Return whether a living process has the session open, as far as `holder` can tell."""
    return _living(database, session_id, holder)[0] is not None


def held_here(database: Database, me: Holder) -> dict[str, Holder]:
    """Return the living processes of this machine that have a session open, by session."""
    rows = database.execute(
        "SELECT session_id, host, boot, pid, started FROM leases WHERE host = ? AND boot = ?",
        (me.host, me.boot),
    )
    found = {session: Holder(*name) for session, *name in rows}
    return {one: holder for one, holder in found.items() if holder.lives_here}


def _living(
    database: Database, session_id: str, me: Holder
) -> tuple[Holder | None, Holder | None, float]:
    """Return the holder if it lives, the holder if it is dead, and the time now."""
    now = database.clock()
    rows = database.execute(
        "SELECT host, boot, pid, started, expires FROM leases WHERE session_id = ?", (session_id,)
    )
    if not rows:
        return None, None, now
    *name, expires = rows[0]
    holder = Holder(*name)
    if holder.is_gone(me, expired=expires < now):
        return None, holder, now
    return holder, None, now


def _acquire(database: Database, session_id: str, holder: Holder) -> Holder | None:
    """Take a lease in a transaction; return the dead holder it was taken over from, if any.

    Raises `SessionBusyError` when its holder lives, also when that is this very process.
    """
    living, dead, now = _living(database, session_id, holder)
    if living is not None:
        raise SessionBusyError(
            "Session {session} is open in another terminal (process "
            "{pid} on {host}); close it there, or fork it with "
            "`kogniterm sessions fork {session}`.",
            session=session_id,
            pid=living.pid,
            host=living.host,
        )
    if dead is not None:
        database.execute("DELETE FROM leases WHERE session_id = ?", (session_id,))
    values = (session_id, holder.host, holder.boot, holder.pid, holder.started, now + SECONDS)
    try:
        database.execute(
            "INSERT INTO leases (session_id, host, boot, pid, started, expires) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            values,
        )
    except DuplicateError as error:
        raise SessionBusyError(
            "Session {session} was just opened by another process.", session=session_id
        ) from error
    return dead
