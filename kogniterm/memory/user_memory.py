"""The public interface of memory: one object, bound to one user and one project.

with open_memory("~/notes", user="ana", project="/home/ana/shop") as memory:
    memory.add("Ana deploys on Fridays only", category="constraint")
    memory.search("when may I deploy?", 5)
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from kogniterm.errors import UsageError
from kogniterm.installed import parts
from kogniterm.memory import fact_records
from kogniterm.memory.fact_records import (
    Candidate,
    Category,
    Fact,
    MemoryAuditEntry,
    Origin,
    Recall,
    Relation,
    Source,
    Status,
    StoredChange,
    fact_id,
)
from kogniterm.memory.learnings import Learnings
from kogniterm.memory.memory_database import MemoryDatabase
from kogniterm.memory.preferences import UserPreferences
from kogniterm.memory.project import ProjectRepository
from kogniterm.memory.repository import FactRepository, Tombstones
from kogniterm.memory.short_term import SessionRepository
from kogniterm.protocols import Clock, SystemClock
from kogniterm.storage.database import database_file
from kogniterm.storage.stores import scheme_of
from kogniterm.storage.user_key import read_key
from kogniterm.text.redact import redact

if TYPE_CHECKING:
    from kogniterm.memory.file_purge import Forgettable
    from kogniterm.memory.forgetter import Forgetter, Receipt
    from kogniterm.memory.searcher import Searcher, Vectors
    from kogniterm.memory.update import Updater

Scope = Literal["project", "everywhere"]


class Memory:
    """The memory of one user in one project. Made by `open_memory`; thread-safe."""

    def __init__(
        self,
        sql: MemoryDatabase,
        *,
        project: str,
        key: bytes | None,
        clock: Clock,
        redact: Callable[[str], str],
        vectors: Vectors | None = None,
        stores: Sequence[Forgettable] = (),
        paths: Sequence[Path] = (),
    ) -> None:
        self.sql = sql
        self.clock = clock
        self.redact = redact
        self.repository = FactRepository(sql, project)
        sql.begin_ledger()
        self.tombstones = Tombstones(
            self.repository, key if key is not None else self.repository.salt().encode()
        )
        self._vectors = vectors
        self.sessions = SessionRepository(sql, project, redact)
        self.projects = ProjectRepository(sql, project)
        self.preferences = UserPreferences(sql, project, clock, redact)
        self.learnings = Learnings(self.repository, clock, redact, self.tombstones)
        self._stores, self._paths = stores, paths

    # Most turns ask for none of these, and do not load their modules.

    @cached_property
    def forgetter(self) -> Forgetter:
        from kogniterm.memory.forgetter import Forgetter

        return Forgetter(
            self.repository,
            self.tombstones,
            self.clock,
            (self.learnings, self.preferences),
            stores=self._stores,
            paths=self._paths,
        )

    @cached_property
    def updater(self) -> Updater:
        from kogniterm.memory.update import Updater

        return Updater(self.repository, self.tombstones, self.clock, self.redact)

    @cached_property
    def searcher(self) -> Searcher:
        from kogniterm.memory.searcher import Searcher

        return Searcher(self.repository, self.clock, self._vectors)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def add(
        self,
        text: str,
        *,
        category: Category = "fact",
        slot: str | None = None,
        created: datetime | float | str | None = None,
        scope: Scope = "project",
        confidence: float = 1.0,
        source: Source = "explicit",
        keywords: Sequence[str] = (),
        pinned: bool = False,
        origin: Origin | None = None,
    ) -> int:
        """Remember `text` durably and return its id.

        A text that is known already is confirmed and keeps its id; a fact with the same `slot` in
        the same scope is superseded. `created` (when it was said) is now unless given, as a
        datetime, ISO 8601 or seconds since the epoch; without a zone it is UTC. Secrets are
        replaced; what else may be kept is for the caller to decide. Raises `UsageError` for a text
        that cannot be a fact.
        """
        change = self._store_candidate(
            Candidate(
                text=text,
                category=category,
                slot=slot,
                confidence=confidence,
                source=source,
                keywords=" ".join(keywords),
                project=self.project if scope == "project" else "",
                created=_epoch(created),
                pinned=pinned,
                origin=origin or Origin(),
            )
        )
        if change.fact is None:
            raise UsageError("This cannot be remembered: {reason}.", reason=str(change.reason))
        return change.fact.id

    def remember(
        self, candidate: Candidate, *, who: str = "person", same_as: Fact | None = None
    ) -> StoredChange:
        """Add like `add`, and return the result; `same_as` is a fact that the candidate repeats.

        A statement that holds a secret, or is about somebody's health, faith or politics, is
        rejected.
        """
        unfit = fact_records.why_not_kept(candidate.text, candidate.origin.quote)
        if unfit is not None:
            return StoredChange("rejected", None, unfit)
        return self._store_candidate(candidate, who, same_as)

    def _store_candidate(
        self, candidate: Candidate, who: str = "person", same_as: Fact | None = None
    ) -> StoredChange:
        relation: Relation | None = "same" if same_as is not None else None
        return self.updater.remember(candidate, known=same_as, relation=relation, who=who)

    def search(self, query: str, k: int = 10, *, relevant: bool = False) -> list[Recall]:
        """Return the `k` facts that best answer `query`, best first; see `Searcher.search`."""
        return self.searcher.search(query, k, relevant=relevant)

    def get(self, identifier: int | str) -> Fact:
        """Return the fact `identifier` (7 or "m7"). Raises `UsageError` if there is none."""
        found = self.repository.get(fact_id(identifier))
        if found is None:
            raise UsageError(
                "Fact {id} not found; list the facts with /memory list, or in a shell with: "
                "kogniterm memory list",
                id=identifier,
            )
        return found

    def facts(self, *statuses: Status) -> list[Fact]:
        """Return facts in id order; all statuses unless some are given."""
        return self.repository.facts(*statuses)

    def audit(self, limit: int = 100) -> list[MemoryAuditEntry]:
        """Return the operations on facts, newest first, without their texts."""
        return self.repository.audit(limit)

    def forget(self, identifier: int | str) -> Receipt:
        """Remove a fact with those it superseded, and prove it. Raises `UsageError`."""
        return self.forgetter.forget([self.get(identifier)])

    @property
    def user(self) -> str:
        return self.repository.user

    @property
    def project(self) -> str:
        """The project; "" for none."""
        return self.repository.project

    def close(self) -> None:
        if "searcher" in vars(self):
            self.searcher.close()
        self.sql.close()


def vectors_installed() -> bool:
    """Return whether facts can be searched by meaning; loads no package for it."""
    return any(kind.installed() for kind in parts("VECTORS"))


def open_memory(
    location: str | Path,
    *,
    user: str,
    project: str | None = None,
    vectors: bool = False,
    clock: Clock | None = None,
    redact: Callable[[str], str] = redact,
    key_file: Path | None = None,
    heads: Path | None = None,
    stores: Sequence[Forgettable] = (),
    paths: Sequence[Path] = (),
) -> Memory:
    """Open the memory of `user` in `project` (None: only what holds everywhere).

    `location` is a folder, a `.db` file, or the address of a store. `vectors` adds search by
    meaning and needs the extra `kogniterm[vectors]`. `redact` cleans every text before it is
    stored. `key_file` holds the key of the tombstones; beside a SQLite file it is made by
    default. `heads` is the folder of the audit's head file when the memory is on a server.
    `stores` are purged as well when something is forgotten, and `paths` are searched for proof
    besides the database. Raises `StorageError` and `UsageError` kinds.
    """
    if not user:
        raise UsageError("Memory requires a user; specify the argument user.")
    index: Vectors | None = next((kind() for kind in parts("VECTORS")), None) if vectors else None
    if vectors and index is None:
        raise UsageError("Search by meaning needs the add-on vectors.")
    key = None
    if not scheme_of(location):
        file = database_file(location)
        paths = (file, *paths)
        key_file = key_file or file.with_suffix(".memory-key")
    sql = MemoryDatabase(location, user, heads=heads)
    with ExitStack() as on_failure:
        on_failure.callback(sql.close)
        if sql.read_only and key_file is not None and not key_file.exists():
            key = secrets.token_bytes(32)  # not needed: nothing can be written
        elif key_file is not None:
            key = read_key(key_file)
        on_failure.pop_all()
    return Memory(
        sql,
        project=project or "",
        key=key,
        clock=clock or SystemClock(),
        redact=redact,
        vectors=index,
        stores=stores,
        paths=paths,
    )


def _epoch(moment: datetime | float | str | None) -> float | None:
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError as error:
            raise UsageError(
                "{moment} is not a date in ISO 8601 format, such as 2025-01-31.", moment=moment
            ) from error
    if isinstance(moment, datetime):
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return moment
