"""Forget facts and words: every store is purged, then the raw bytes are searched for proof.

Other packages take part with a `Forgettable` for their stores (journal, outputs, history, logs,
caches); this package purges its own tables. The receipt says what was removed, where the words were
still found, and what cannot be reached from here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from kogniterm.errors import UsageError
from kogniterm.memory import learnings
from kogniterm.memory.fact_records import Fact, Lesson, Preference
from kogniterm.memory.file_purge import Forgettable, Purged, TextMention, scan
from kogniterm.memory.learnings import Learnings
from kogniterm.memory.memory_database import MemoryDatabase
from kogniterm.memory.preferences import UserPreferences
from kogniterm.memory.repository import FactRepository, Tombstones
from kogniterm.memory.statements import FACT_LABEL, LESSON_LABEL
from kogniterm.memory.word_index import remove_gone_lessons
from kogniterm.protocols import Clock
from kogniterm.storage.database import Row, in_pieces
from kogniterm.text.language import raw_words, stems_of
from kogniterm.text.matching import BORDER, Matcher, decode_bytes
from kogniterm.types import Phrase

SHORTEST_TERM = 4
"""Characters a term must have to be purged elsewhere; shorter ones would damage other texts."""

FEWEST_WORDS = 3
"""Words a sentence of a fact must have to be purged by itself."""

FEWEST_TERMS = 2
COVERED = 0.6
"""Content words that a sentence must have, and the share of them that a fact must hold, for the
sentence to be about this fact."""

BESIDE_FACTS = Phrase("lessons, notes and preferences")
OWN = (BESIDE_FACTS, Phrase("memory"))
"""The places in a receipt that are memory's own."""

ROWS_AT_ONCE = 64
BYTES_AT_ONCE = 1 << 18
"""The bounds of rows that the proof searches as one text: in a longer one, the plain search for the
words of a term, which comes before the slow one, would find each of them somewhere."""

_SENTENCE_END = re.compile(r"(?<=[.!?;…])\s+|\n+")


class Receipt(NamedTuple):
    """The result of forgetting.

    `found` are files, and `found_columns` columns of the database's tables ("facts.text"), that
    still hold one of the terms: no proof then. `untouched` are mentions in the user's own files.
    """

    facts: tuple[int, ...]
    parts: tuple[Purged, ...]
    scanned_files: int
    scanned_bytes: int
    found: tuple[Path, ...]
    unreachable: tuple[Phrase, ...]
    untouched: tuple[TextMention, ...] = ()
    scanned_columns: int = 0
    found_columns: tuple[str, ...] = ()

    @property
    def proved(self) -> bool:
        """True when everything was searched and nothing holds the terms any more."""
        return not self.found and not self.found_columns


class ForgetRequest(NamedTuple):
    """A user's request to forget memories, and words that are removed from every store.

    `beside` are lessons and preferences that go by themselves.
    """

    facts: tuple[Fact, ...] = ()
    phrases: tuple[str, ...] = ()
    beside: tuple[Lesson | Preference, ...] = ()

    @property
    def labels(self) -> list[str]:
        """The ids of what is to be forgotten, as the user types them."""
        named = [fact.label for fact in self.facts]
        return [*named, *(one.label for one in self.beside if isinstance(one, Lesson))]

    @property
    def terms(self) -> list[str]:
        """The texts that forgetting removes from every store."""
        return terms_of(self.facts, self.phrases, self.beside)


class Forgetter:
    """Forgets facts of one repository, and their words in other stores."""

    def __init__(
        self,
        repository: FactRepository,
        tombstones: Tombstones,
        clock: Clock,
        beside: tuple[Learnings, UserPreferences],
        *,
        stores: Sequence[Forgettable] = (),
        paths: Sequence[Path] = (),
    ) -> None:
        self._repository = repository
        self._learnings, self._preferences = beside
        self._tombstones = tombstones
        self._clock = clock
        self._stores = tuple(stores)
        self._paths = tuple(paths)

    def joined(self, *stores: Forgettable) -> Forgetter:
        """Return a forgetter that purges `stores` too."""
        joined = copy(self)
        joined._stores = (*self._stores, *stores)
        return joined

    def read_request(self, text: str) -> ForgetRequest:
        """Return the request that the user means by `text`: ids (m7, l3), or words.

        Words are removed wherever they are found, also when no fact holds them. Raises `UsageError`
        for an id that nothing has, and for words that are too short to be told from others.
        """
        named = text.split()
        if len(named) > 1 and all(
            FACT_LABEL.fullmatch(one) or LESSON_LABEL.fullmatch(one) for one in named
        ):
            requests = [self.read_request(one) for one in dict.fromkeys(named)]
            return ForgetRequest(
                tuple(fact for one in requests for fact in one.facts),
                beside=tuple(kept for one in requests for kept in one.beside),
            )
        if (lesson := LESSON_LABEL.fullmatch(text)) is not None:
            return ForgetRequest(beside=(self._learnings.get(lesson[1]),))
        label = FACT_LABEL.fullmatch(text)
        if label is not None:
            facts = self.matches(text)
            if not facts:
                raise UsageError(
                    "Fact {id} not found; list the facts with /memory list, or in a shell with: "
                    "kogniterm memory list",
                    id=f"m{label.group(1)}",
                )
            return ForgetRequest(tuple(facts))
        found = tuple(self.matches(text))
        if not found and len(text.strip()) < SHORTEST_TERM:
            raise UsageError(
                "The text to forget must have at least {count} characters.", count=SHORTEST_TERM
            )
        return ForgetRequest(found, (text.strip(),), self._beside(text))

    def matches(self, text: str) -> list[Fact]:
        """Return the fact that `text` names (m7), or those with its words, of every status."""
        label = FACT_LABEL.fullmatch(text)
        if label is not None:
            named = self._repository.get(int(label.group(1)))
            return [named] if named else []
        sought = raw_words(text)
        if not sought:
            return []
        phrase = f" {' '.join(sought)} "
        facts = self._repository.facts()
        literal = [fact for fact in facts if phrase in _spaced_words(fact)]
        if literal:
            return literal
        stems = set(stems_of(text))
        return [fact for fact in facts if stems and stems <= set(stems_of(_spaced_words(fact)))]

    def meant(self, what: str, everything: bool) -> ForgetRequest | None:
        """Return the request that a sentence of the user stands for, or None: it is a task."""
        request = self.candidates(what)
        if request is None and everything and len(what) >= SHORTEST_TERM:
            return ForgetRequest(phrases=(what,))
        return request

    def candidates(self, text: str) -> ForgetRequest | None:
        """Return the request that a sentence about facts may mean, to be confirmed, or None.

        Like `requested`, but a fact need not hold every word. The words are forgotten as well when
        a fact holds them, or when they are specific enough.
        """
        if (lesson := LESSON_LABEL.fullmatch(text)) is not None:
            named = tuple(one for one in self._learnings.all() if one.label == lesson[1].lower())
            return ForgetRequest(beside=named) if named else None
        facts, beside = self.matches(text), self._beside(text)
        if not facts and not beside:
            facts = self._covering(text)
        if not facts and not beside:
            return None
        if FACT_LABEL.fullmatch(text) is not None:
            return ForgetRequest(tuple(facts))
        phrase = text.strip()
        held = Matcher([phrase])
        texts = [f"{fact.text}\n{fact.origin.quote}" for fact in facts]
        texts += map(_kept_words, beside)
        telling = len(raw_words(phrase)) >= FEWEST_WORDS or any(map(held.holds, texts))
        phrases = (phrase,) if telling and len(phrase) >= SHORTEST_TERM else ()
        return ForgetRequest(tuple(facts), phrases, beside)

    def _beside(self, text: str) -> tuple[Lesson | Preference, ...]:
        """Return the lessons and preferences that hold every word of `text`, or are meant by it."""
        kept: list[Lesson | Preference] = [*self._learnings.all(), *self._preferences.stored()]
        phrase = f" {' '.join(raw_words(text))} "
        words = {id(one): f" {' '.join(raw_words(_kept_words(one)))} " for one in kept}
        literal = tuple(one for one in kept if phrase.strip() and phrase in words[id(one)])
        stems = set(stems_of(text))
        found = literal or tuple(
            one for one in kept if stems and stems <= set(stems_of(words[id(one)]))
        )
        return found or tuple(self._preferences.matching(text))

    def _covering(self, text: str) -> list[Fact]:
        """Return the facts that hold most of the content words of `text`, only the best."""
        sought = set(stems_of(text))
        if len(sought) < FEWEST_TERMS:
            return []
        shares = {
            fact: len(sought & set(stems_of(_spaced_words(fact)))) / len(sought)
            for fact in self._repository.facts()
        }
        best = max(shares.values(), default=0.0)
        return [fact for fact, share in shares.items() if share == best >= COVERED]

    def forget_all(self, *, session_id: str | None = None) -> Receipt:
        """Forget every fact of this project (with "": that holds everywhere), or of a session.

        What is kept beside facts goes with them. Facts that hold everywhere stay when a project
        is forgotten.
        """
        repository = self._repository
        if session_id is not None:
            every = repository.facts()
            facts = [fact for fact in every if fact.origin.session_id == session_id]
            dropped = repository.drop_session(session_id)
        else:
            facts = _own_facts(repository)
            dropped = repository.drop_project()
        return self._forget([(repository, facts)], dropped=dropped)

    def everything(self) -> list[Fact]:
        """Return every fact of every project, and those that hold everywhere."""
        return [fact for one in self._everywhere() for fact in _own_facts(one)]

    def forget_everything(self) -> Receipt:
        """Forget the facts of every project and all that is stored beside them."""
        repositories = self._everywhere()
        facts = [(one, _own_facts(one)) for one in repositories]
        dropped = sum(one.drop_project() for one in repositories)
        return self._forget(facts, dropped=dropped)

    def forget(self, facts: Iterable[Fact], *, phrases: Sequence[str] = ()) -> Receipt:
        """Remove `facts` with everything they superseded, and every trace of `phrases`."""
        return self.carry_out(ForgetRequest(tuple(facts), tuple(phrases)))

    def carry_out(self, request: ForgetRequest) -> Receipt:
        """Remove everything that `request` names, and every trace of it."""
        return self._forget(
            [(self._repository, request.facts)], phrases=request.phrases, beside=request.beside
        )

    def _forget(
        self,
        named: Sequence[tuple[FactRepository, Sequence[Fact]]],
        *,
        phrases: Sequence[str] = (),
        beside: Sequence[Lesson | Preference] = (),
        dropped: int | None = None,
    ) -> Receipt:
        """Forget the facts of each repository; `dropped` rows beside facts are gone already."""
        doomed = [(one, _with_chain(one, facts)) for one, facts in named]
        every = [fact for _, facts in doomed for fact in facts]
        terms = terms_of(every, phrases, beside)
        # The texts that stand side by side in a row of SQLite, so that they name it alone.
        rows = [f"{one.task}{one.shape}" for one in beside if isinstance(one, Lesson)]
        matcher = Matcher([*terms, *(one for one in rows if len(one) >= 3 * SHORTEST_TERM)])
        now = self._clock.now()
        sql = self._repository.sql
        with sql.transaction():
            for repository, facts in doomed:
                own = terms_of(facts, phrases)
                self._tombstones.of(repository).add([*own, *phrases], now)
                repository.delete([fact.id for fact in facts], now=now, who="person")
            gone = self._learnings.forget([one for one in beside if isinstance(one, Lesson)], now)
            keys = {one.key for one in beside if isinstance(one, Preference)}
            gone += sum(map(self._preferences.remove, keys))
            purged = _purge_tables(self._repository, matcher)
            remove_gone_lessons(sql)
            removed = purged._replace(removed=gone + purged.removed)
        others = [] if dropped is None else [Purged(BESIDE_FACTS, dropped)]
        parts = [*others, removed, *(store.purge(terms) for store in self._stores)]
        sql.scrub()
        return self._receipt(tuple(fact.id for fact in every), parts, matcher, phrases)

    def _receipt(
        self,
        facts: tuple[int, ...],
        parts: Sequence[Purged],
        matcher: Matcher,
        phrases: Sequence[str],
    ) -> Receipt:
        outside = [file for part in parts for file in part.files]
        known = [one for part in parts for one in part.searched]
        files, read, found = scan([*self._paths, *outside], matcher, known)
        columns, held = _scan_rows(self._repository.sql, matcher)
        short = [
            Phrase(
                "“{term}” outside memory (too short to match reliably)",
                {"term": phrase.strip()},
            )
            for phrase in phrases
            if len(phrase.strip()) < SHORTEST_TERM
        ]
        places = [
            Phrase("earlier backups and snapshots"),
            Phrase("data sent to a model provider"),
            Phrase("copies in your clipboard, terminal scrollback and shell history"),
            Phrase("files in your projects written by commands and edits, and copies you made"),
        ]
        if self._repository.sql.is_postgres:
            places.append(Phrase("the PostgreSQL server's write-ahead log, archives and replicas"))
            places.append(Phrase("old rows on the server that an open transaction still sees"))
        return Receipt(
            facts=facts,
            parts=tuple(parts),
            scanned_files=files,
            scanned_bytes=read,
            found=found,
            unreachable=(*short, *places, *(u for p in parts for u in p.unreachable)),
            untouched=tuple(mention for part in parts for mention in part.untouched),
            scanned_columns=columns,
            found_columns=held,
        )

    def _everywhere(self) -> list[FactRepository]:
        sql = self._repository.sql
        projects = dict.fromkeys(["", *self._repository.projects()])
        return [FactRepository(sql, project) for project in projects]


def _purge_tables(repository: FactRepository, matcher: Matcher) -> Purged:
    """Delete rows of every project that hold one of the terms, quotes of facts too.

    Facts that were not named stay: only the user decides to forget them.
    """
    if not matcher:
        return Purged(Phrase("memory"), 0)
    sql = repository.sql
    key, same = ("ctid::text", "ctid = ?::tid") if sql.is_postgres else ("rowid", "rowid = ?")
    removed = 0
    for table, columns in (
        ("preferences", "key, value"),
        ("outcomes", "task, shape, note, failed, fix, wording"),
        ("short_term", "name"),
        ("requests", "request"),
        ("project_profiles", "profile"),
    ):
        rows = sql.execute(f"SELECT {key}, {columns} FROM {table} WHERE user_id = ?", (sql.user,))
        removed += sum(
            sql.run(f"DELETE FROM {table} WHERE {same} AND user_id = ?", (one, sql.user))
            for one in _rows_that_hold(rows, matcher)
        )
    quotes = sql.execute("SELECT id, quote FROM facts WHERE user_id = ?", (sql.user,))
    cleared = repository.clear_quotes(_rows_that_hold(quotes, matcher))
    return Purged(Phrase("memory"), removed + cleared)


def _rows_that_hold(rows: Sequence[Row], matcher: Matcher) -> list[Any]:
    """Return the first values of the rows that hold one of the terms; most hold none."""
    return [
        row[0]
        for some, _ in in_pieces(rows, ROWS_AT_ONCE)
        if matcher.holds(BORDER.join(str(value) for row in some for value in row[1:]))
        for row in some
        if any(matcher.holds(str(value)) for value in row[1:])
    ]


def _own_facts(repository: FactRepository) -> list[Fact]:
    return [fact for fact in repository.facts() if fact.project == repository.project]


def _with_chain(repository: FactRepository, facts: Iterable[Fact]) -> list[Fact]:
    chain: dict[int, Fact] = {}
    for fact in facts:
        chain[fact.id] = fact
        chain.update((one.id, one) for one in repository.predecessors(fact.id))
    return list(chain.values())


def _spaced_words(fact: Fact) -> str:
    """Return text, quote and keywords as normalised words with spaces around each."""
    every = raw_words(f"{fact.text} · {fact.origin.quote} · {fact.keywords}")
    return f" {' '.join(every)} "


def _kept_words(one: Lesson | Preference) -> str:
    """Return the words by which a lesson or a preference is found."""
    if isinstance(one, Lesson):
        return f"{one.task} · {one.told} · {one.note}"
    return f"preference {one.key.replace('_', ' ')} · {one.value}"


def _kept_terms(one: Lesson | Preference) -> list[str]:
    """Return the texts that are copies of a lesson or preference, in blocks and in exports."""
    if isinstance(one, Lesson):
        return learnings.terms_of(one)
    return [f"preference {one.key} {one.value}", f"preference key {one.key} value {one.value}"]


def terms_of(
    facts: Sequence[Fact],
    phrases: Sequence[str] = (),
    beside: Sequence[Lesson | Preference] = (),
) -> list[str]:
    """Return the words to remove from every store when all this is forgotten.

    A fact may have several sentences, and each may have been repeated without the others.
    """
    found: dict[str, None] = {}
    said = [text for fact in facts for text in (fact.text, fact.origin.quote)]
    for text in (*phrases, *said):
        if len(text.strip()) >= SHORTEST_TERM:
            found[text.strip()] = None
    for text in said:
        # Those with enough words: "Thanks!" is found everywhere.
        sentences = (one.strip() for one in _SENTENCE_END.split(text))
        long = [one for one in sentences if len(raw_words(one)) >= FEWEST_WORDS]
        found.update(dict.fromkeys(long))
    found.update(dict.fromkeys(term for one in beside for term in _kept_terms(one)))
    return list(found)


def _scan_rows(sql: MemoryDatabase, matcher: Matcher) -> tuple[int, tuple[str, ...]]:
    """Search every column of the user's rows, of all packages; (columns, those that hold a term).

    They are named "table.column". The files of a server cannot be read, and a text that SQLite
    splits in its file is whole here.
    """
    if not matcher:
        return 0, ()
    searched = 0
    found = []
    for table, columns in _columns_as_bytes(sql).items():
        searched += len(columns)
        # Whole rows first: most tables hold none of the terms.
        if _any_holds(sql, table, columns.values(), matcher):
            found += [
                f"{table}.{column}"
                for column, value in columns.items()
                if _any_holds(sql, table, [value], matcher)
            ]
    return searched, tuple(found)


def _any_holds(sql: MemoryDatabase, table: str, values: Iterable[str], matcher: Matcher) -> bool:
    """Return whether one of the terms stands in one of the SQL expressions, in any row."""
    held = False
    rows = sql.each(f"SELECT {', '.join(values)} FROM {table}")
    border = BORDER.encode()
    texts = (border.join(filter(None, row)) for row in rows)
    while some := [*islice(texts, ROWS_AT_ONCE)]:
        if sum(map(len, some)) < BYTES_AT_ONCE:
            some = [border.join(some)]
        held = held or any(map(matcher.holds, map(decode_bytes, some)))
    return held


def _columns_as_bytes(sql: MemoryDatabase) -> Mapping[str, Mapping[str, str]]:
    """Return the tables with the user's rows, and their columns with SQL for the bytes of each.

    Damaged text could not be read, but its bytes can be searched.
    """
    if sql.is_postgres:
        rows = sql.execute(
            "SELECT table_name, column_name, CASE data_type WHEN 'bytea' THEN column_name "
            "ELSE 'convert_to(' || column_name || ', ''UTF8'')' END "
            "FROM information_schema.columns "
            "WHERE table_schema = current_schema() AND data_type IN ('text', 'bytea') "
            "AND table_name IN (SELECT tablename FROM pg_policies "
            "WHERE schemaname = current_schema() AND policyname = 'own_rows') "
            "ORDER BY table_name, ordinal_position"
        )
    else:
        # The tables behind SQLite's search index hold the same as the index itself.
        rows = sql.execute(
            "SELECT t.name, c.name, 'CAST(' || c.name || ' AS BLOB)' "
            "FROM pragma_table_list AS t JOIN pragma_table_info(t.name) AS c "
            "WHERE t.schema = 'main' AND t.type IN ('table', 'virtual') "
            "AND t.name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY t.name, c.cid"
        )
    found: dict[str, dict[str, str]] = {}
    for table, column, value in rows:
        found.setdefault(table, {})[column] = value
    return found
