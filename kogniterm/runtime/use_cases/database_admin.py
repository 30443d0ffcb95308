"""Whole databases: proved, compared, copied, and their audit heads begun anew.

Sessions come as an open store; memory is opened here, at the same location.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kogniterm.memory.ledger import LedgerReport
    from kogniterm.sessions.chain_audit import StoreReport
    from kogniterm.sessions.store import SessionStore

Location = Path | str
"""A file, or the address of a PostgreSQL database."""


@dataclass(frozen=True, slots=True)
class Proof:
    """The result of checking everything: the sessions with their heads, and the facts."""

    sessions: StoreReport
    facts: LedgerReport | None = None

    @property
    def intact(self) -> bool:
        """Whether every record and fact is as it was written."""
        return self.sessions.intact and (self.facts is None or not self.facts.faults)


def prove_sessions(store: SessionStore, references: list[str]) -> Proof:
    """Check the journals of some sessions."""
    from kogniterm.sessions.chain_audit import StoreReport, verify

    reports = tuple(verify(store.database, store.find(one).id) for one in references)
    return Proof(StoreReport(reports))


def prove_all(store: SessionStore, location: Location, user: str, heads: Path) -> Proof:
    """Check every journal, the head file and the ledger of facts."""
    from kogniterm.memory.ledger import verify
    from kogniterm.memory.memory_database import MemoryDatabase
    from kogniterm.sessions.chain_audit import verify_all

    checked = verify_all(store.database)
    with closing(MemoryDatabase(location, user, heads=heads)) as sql:
        return Proof(checked, verify(sql))


def begin_heads(store: SessionStore, location: Location, user: str, heads: Path) -> int:
    """Begin a new head file with everything as it is found; returns the number of sessions."""
    from kogniterm.memory import ledger
    from kogniterm.memory.memory_database import MemoryDatabase
    from kogniterm.sessions import anchor

    count = anchor.accept(store.database)
    with closing(MemoryDatabase(location, user, heads=heads)) as sql:
        ledger.accept(sql)
    return count


def copy_memory_between(source: Location, target: Location, user: str) -> int:
    """Copy the memory to another database; returns the number of rows."""
    from kogniterm.memory.copying import copy_memory
    from kogniterm.memory.memory_database import MemoryDatabase

    with closing(MemoryDatabase(source, user)) as old, closing(MemoryDatabase(target, user)) as new:
        return copy_memory(old, new).rows


def has_same_memory(source: Location, target: Location, user: str) -> bool:
    """Tell whether two databases hold the same memory."""
    from kogniterm.memory.copying import same_memory
    from kogniterm.memory.memory_database import MemoryDatabase

    with closing(MemoryDatabase(source, user)) as old, closing(MemoryDatabase(target, user)) as new:
        return same_memory(old, new)


def schema_version(store: SessionStore) -> int:
    """Return the number of the newest migration of the sessions' tables."""
    from kogniterm.sessions.session_database import ROOM

    rows = store.database.execute(
        "SELECT max(number) FROM schema_migrations WHERE room = ?", (ROOM,)
    )
    return int(rows[0][0])
