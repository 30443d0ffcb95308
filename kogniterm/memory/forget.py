"""Forgetting that is real: every store is purged, then the raw bytes are searched for proof.

Other rooms take part by handing in a `Forgettable` for what they store (journal, outputs,
history, logs, caches); this room does its own tables. The receipt says what was removed, where
the words were still found, and what cannot be reached from here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kogniterm.errors import UsageError
from kogniterm.memory import words
from kogniterm.memory.proof import like_patterns, scan, scan_server
from kogniterm.memory.records import Fact
from kogniterm.memory.repository import FactRepository
from kogniterm.memory.tombstones import Tombstones
from kogniterm.protocols import Clock
from kogniterm.types import Text

SHORTEST_TERM = 4
"""Characters a term must have to be purged elsewhere; shorter ones would tear other texts up."""

_LABEL = re.compile(r"\s*\[?m(\d{1,18})\]?\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Mention:
    """A line of a file, counted from 1, that holds what is to be forgotten."""

    path: Path
    line: int


@dataclass(frozen=True, slots=True)
class Purged:
    """What one store did: how many records it removed or blanked, and what it cannot reach.

    `untouched` stands in files that a person wrote; `files` are those outside of our folders
    that were cleaned, for the proof to read.
    """

    place: Text
    removed: int
    unreachable: tuple[Text, ...] = ()
    untouched: tuple[Mention, ...] = ()
    files: tuple[Path, ...] = ()


class Forgettable(Protocol):
    """A store that can forget. Each room hands in its own."""

    def purge(self, terms: Sequence[str]) -> Purged:
        """Remove or blank everything that holds one of `terms`, literally, in any case."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What forgetting did.

    `found` are files, and `found_columns` columns of a server's tables ("facts.text"), that still
    hold one of the terms: no proof then. `untouched` is what a person wrote themselves.
    """

    facts: tuple[int, ...]
    parts: tuple[Purged, ...]
    scanned_files: int
    scanned_bytes: int
    found: tuple[Path, ...]
    unreachable: tuple[Text, ...]
    untouched: tuple[Mention, ...] = ()
    scanned_columns: int = 0
    found_columns: tuple[str, ...] = ()

    @property
    def proved(self) -> bool:
        """Whether all that is ours was read and nothing holds the terms any more."""
        return not self.found and not self.found_columns


@dataclass(frozen=True, slots=True)
class Wish:
    """What a person wants forgotten: facts, and words that go from every store with them."""

    facts: tuple[Fact, ...]
    phrases: tuple[str, ...] = ()


class Forgetter:
    """Forgets facts of one repository and what other stores hold of them."""

    def __init__(
        self,
        repository: FactRepository,
        tombstones: Tombstones,
        clock: Clock,
        *,
        stores: Sequence[Forgettable] = (),
        paths: Sequence[Path] = (),
    ) -> None:
        self._repository = repository
        self._tombstones = tombstones
        self._clock = clock
        self._stores = tuple(stores)
        self._paths = tuple(paths)

    def joined(self, *stores: Forgettable) -> Forgetter:
        """One that forgets in `stores` too, for callers that know them only now."""
        return Forgetter(
            self._repository,
            self._tombstones,
            self._clock,
            stores=(*self._stores, *stores),
            paths=self._paths,
        )

    def wished(self, text: str) -> Wish:
        """What a person asks for with `text`: a fact by its id (m7), or words.

        Words are removed wherever they stand, also when no fact holds them. Raises `UsageError`
        for an id that no fact has, and for words that are too short to be told from others.
        """
        label = _LABEL.fullmatch(text)
        if label is not None:
            facts = self.matches(text)
            if not facts:
                raise UsageError("There is no fact {id} here.", id=f"m{label.group(1)}")
            return Wish(tuple(facts))
        found = tuple(self.matches(text))
        if not found and len(text.strip()) < SHORTEST_TERM:
            raise UsageError("Give at least {count} characters to forget.", count=SHORTEST_TERM)
        return Wish(found, (text.strip(),))

    def matches(self, text: str) -> list[Fact]:
        """The fact that `text` names (m7), or those that hold its words, of every status."""
        label = _LABEL.fullmatch(text)
        if label is not None:
            named = self._repository.get(int(label.group(1)))
            return [named] if named else []
        sought = words.raw_words(text)
        if not sought:
            return []
        phrase = f" {' '.join(sought)} "
        facts = self._repository.facts()
        literal = [fact for fact in facts if phrase in _spaced(fact)]
        if literal:
            return literal
        stems = set(words.terms(text))
        return [fact for fact in facts if stems and stems <= set(words.terms(_spaced(fact)))]

    def forget_all(self, *, session_id: str | None = None, who: str = "person") -> Receipt:
        """Forget every fact of this project (with "": that holds everywhere), or of a session.

        Facts that hold everywhere stay when a project is forgotten.
        """
        own = self._repository.project
        facts = [fact for fact in self._repository.facts() if fact.project == own]
        if session_id is not None:
            every = self._repository.facts()
            facts = [fact for fact in every if fact.origin.session_id == session_id]
            self._repository.drop_session(session_id)
        else:
            self._repository.drop_project()
        return self.forget(facts, who=who)

    def forget(
        self, facts: Iterable[Fact], *, phrases: Sequence[str] = (), who: str = "person"
    ) -> Receipt:
        """Remove `facts` with everything they superseded, and every trace of `phrases`."""
        doomed = self._with_chain(facts)
        terms = terms_of(doomed, phrases)
        marks: list[str | bytes] = [*terms, *self._hidden_marks(doomed)]
        now = self._clock.now()
        with self._repository.transaction():
            self._tombstones.bury([*terms, *phrases], now)
            self._repository.delete([fact.id for fact in doomed], now=now, who=who)
            own = purge_tables(self._repository, terms)
        parts = [own, *(store.purge(terms) for store in self._stores)]
        self._repository.sql.scrub()
        outside = [file for part in parts for file in part.files]
        files, read, found = scan([*self._paths, *outside], marks)
        sql = self._repository.sql
        columns, held = scan_server(sql, marks) if sql.is_postgres else (0, ())
        return Receipt(
            facts=tuple(fact.id for fact in doomed),
            parts=tuple(parts),
            scanned_files=files,
            scanned_bytes=read,
            found=found,
            unreachable=(
                *(
                    Text(
                        "“{term}” outside memory: it is too short to be told from other words",
                        {"term": phrase.strip()},
                    )
                    for phrase in phrases
                    if len(phrase.strip()) < SHORTEST_TERM
                ),
                *_unreachable(self._repository),
                *(u for p in parts for u in p.unreachable),
            ),
            untouched=tuple(mention for part in parts for mention in part.untouched),
            scanned_columns=columns,
            found_columns=held,
        )

    def _with_chain(self, facts: Iterable[Fact]) -> list[Fact]:
        chain: dict[int, Fact] = {}
        for fact in facts:
            chain[fact.id] = fact
            chain.update((one.id, one) for one in self._repository.predecessors(fact.id))
        return list(chain.values())

    def _hidden_marks(self, facts: Sequence[Fact]) -> list[bytes]:
        """Vectors and stored terms: copies of the text that no reader would recognise."""
        marks: list[bytes] = []
        for fact in facts:
            rows = self._repository.sql.all(
                "SELECT vector FROM fact_vectors WHERE user_id = ? AND fact_id = ?",
                (self._repository.user, fact.id),
            )
            marks.extend(bytes(row[0]) for row in rows)
            row = self._repository.sql.one(
                "SELECT terms FROM facts WHERE user_id = ? AND id = ?",
                (self._repository.user, fact.id),
            )
            if row and len(row[0]) >= 3 * SHORTEST_TERM:
                marks.append(str(row[0]).encode())
        return marks


def purge_tables(repository: FactRepository, terms: Sequence[str]) -> Purged:
    """Delete rows of this room that hold one of `terms`, other than facts that were not named."""
    removed = 0
    for table, columns, has_project in (
        ("preferences", ("value",), True),
        ("outcomes", ("task", "shape", "note"), True),
        ("memory_sessions", ("entities", "intents", "variables"), True),
        ("project_profiles", ("profile",), True),
        ("store_items", ("value", "indexed"), False),
    ):
        scope = "user_id = ?" + (" AND project_id IN ('', ?)" if has_project else "")
        bound = (repository.user, repository.project) if has_project else (repository.user,)
        condition = " OR ".join(f"lower({column}) LIKE ? ESCAPE '!'" for column in columns)
        for pattern in like_patterns(terms):
            removed += repository.sql.run(
                f"DELETE FROM {table} WHERE {scope} AND ({condition})",
                (*bound, *[pattern] * len(columns)),
            )
    quotes = 0
    for pattern in like_patterns(terms):
        quotes += repository.clear_quotes(pattern)
    return Purged(Text("memory"), removed + quotes)


def _spaced(fact: Fact) -> str:
    """Text, quote and keywords as normalised words with spaces around each."""
    every = words.raw_words(f"{fact.text} · {fact.origin.quote} · {fact.keywords}")
    return f" {' '.join(every)} "


def terms_of(facts: Sequence[Fact], phrases: Sequence[str] = ()) -> list[str]:
    """The words that go from every store when `facts` and `phrases` are forgotten."""
    found: dict[str, None] = {}
    for text in (*phrases, *(fact.text for fact in facts), *(fact.origin.quote for fact in facts)):
        if len(text.strip()) >= SHORTEST_TERM:
            found[text.strip()] = None
    return list(found)


def _unreachable(repository: FactRepository) -> tuple[Text, ...]:
    places = [
        Text("backups and snapshots made before now"),
        Text("what was sent to a model provider"),
        Text("copies on your clipboard, in your terminal's scrollback and your shell's history"),
        Text("files that commands and edits wrote in your projects, and copies you made"),
    ]
    if repository.sql.is_postgres:
        places.append(Text("the PostgreSQL server's write-ahead log, archives and replicas"))
        places.append(Text("old rows on the server that an open transaction there still sees"))
    return tuple(places)
