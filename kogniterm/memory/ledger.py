"""The ledger of facts: a chain of salted digests, one entry for every write.

A fact that stands in the table and not in the ledger was planted; one that does not fit its last
entry was changed, one that is missing was removed. The head file (`kogniterm.storage.head_file`)
knows how far the chain has come. An entry holds no text: a forgotten fact's salts are removed with
it, so that its digests cannot confirm a guess.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kogniterm.memory.memory_database import LEDGER, MemoryDatabase
from kogniterm.storage.database import Row
from kogniterm.storage.head_file import Heads, Note, steady
from kogniterm.types import Phrase

GENESIS = "0" * 64
_COLUMNS = (
    "id, user_id, project_id, category, slot, text, keywords, language, confidence, source, "
    "status, created, last_confirmed, relevance_count, pinned, valid_from, valid_to, "
    "superseded_by, session_id, origin_seq, quote, claim, terms, digest, version"
)
"""Every column. A migration that adds one writes all facts into the ledger anew."""


@dataclass(frozen=True, slots=True)
class LedgerReport:
    """The result of a check: how many facts hold, the chain's end, and what does not hold."""

    facts: int
    entries: int
    head: str
    faults: tuple[Phrase, ...] = ()


def record(sql: MemoryDatabase, fact_ids: Iterable[int]) -> None:
    """Write down how facts look now, inside the transaction that wrote them."""
    seq, last = _end(sql)
    before = (seq, last)
    if not seq:
        seq, last = _append(sql, 0, GENESIS, None, "", "begun")
    for fact_id in fact_ids:
        row = sql.one(
            f"SELECT {_COLUMNS} FROM facts WHERE user_id = ? AND id = ?", (sql.user, fact_id)
        )
        salt = secrets.token_hex(8) if row is not None else ""
        if row is None:
            sql.run(
                f"UPDATE {LEDGER} SET salt = '' WHERE user_id = ? AND fact_id = ?",
                (sql.user, fact_id),
            )
        digest = _digest(salt, row) if row is not None else ""
        seq, last = _append(sql, seq, last, fact_id, salt, digest)
    if (seq, last) != before:
        sql.coming(before, seq, last)


def accept(sql: MemoryDatabase) -> None:
    """Begin the ledger anew with all facts as they are found: the user has looked at them."""
    with sql.transaction():
        # Taken as a writer takes it, so that nobody else writes meanwhile.
        sql.run("UPDATE memory_clock SET version = version WHERE user_id = ?", (sql.user,))
        sql.run(f"DELETE FROM {LEDGER} WHERE user_id = ?", (sql.user,))
        _record_all(sql)


def begin(sql: MemoryDatabase) -> None:
    """The first time: write down all of the user's facts as they are found."""
    if sql.read_only or _end(sql)[0]:
        return
    with sql.transaction():
        sql.tick()  # writers of one user queue up here
        if not _end(sql)[0]:
            _record_all(sql)


def _record_all(sql: MemoryDatabase) -> None:
    rows = sql.execute("SELECT id FROM facts WHERE user_id = ? ORDER BY id", (sql.user,))
    record(sql, [int(fact_id) for (fact_id,) in rows])


def verify(sql: MemoryDatabase) -> LedgerReport:
    """Compare the facts of this user with the ledger, and the ledger with the head file."""
    return steady(sql.heads, lambda heads: _verified(sql, heads), lambda found: not found.faults)


def _verified(sql: MemoryDatabase, heads: Heads | None) -> LedgerReport:
    note = None if heads is None else heads.memory.get(sql.user)
    seq, last = 0, GENESIS
    known: dict[int, tuple[str, str]] = {}
    ends = {0: GENESIS}
    for number, fact_id, salt, digest, previous, entry in _entries(sql):
        content = _hash(number, fact_id, digest, previous)
        if (number, previous, content) != (seq + 1, last, entry):
            fault = Phrase(
                "entry {number} of the ledger of facts does not hold", {"number": seq + 1}
            )
            return LedgerReport(0, seq, last, (fault,))
        seq, last = number, entry
        ends[seq] = last
        if fact_id is not None:
            known[fact_id] = (salt, digest)
    faults = [*_cut(sql, note, ends, seq), *_facts(sql, known)]
    holding = sum(1 for _, digest in known.values() if digest)
    return LedgerReport(holding, seq, last, tuple(faults))


def _cut(
    sql: MemoryDatabase, note: Note | None, ends: dict[int, str], seq: int
) -> Iterator[Phrase]:
    """Whether the ledger ends where the head file says; on a server others go on after that."""
    if note is None:
        return
    allowed = [(note.seq, note.hash), *([note.before] if note.before is not None else [])]
    if any(
        ends.get(number) == entry and (sql.is_postgres or number == seq)
        for number, entry in allowed
    ):
        return
    yield Phrase("the ledger of facts does not end where the head file says")


def _facts(sql: MemoryDatabase, known: dict[int, tuple[str, str]]) -> Iterator[Phrase]:
    """The facts that are not as they were written."""
    there = set()
    for row in sql.execute(
        f"SELECT {_COLUMNS} FROM facts WHERE user_id = ? ORDER BY id", (sql.user,)
    ):
        fact = {"fact": f"m{row[0]}"}
        there.add(int(row[0]))
        salt, digest = known.get(int(row[0]), ("", ""))
        if not digest:
            yield Phrase("fact {fact} was not written by KogniTerm", fact)
        elif _digest(salt, row) != digest:
            yield Phrase("fact {fact} was changed", fact)
    for fact_id, (_, digest) in known.items():
        if digest and fact_id not in there:
            yield Phrase("fact {fact} was removed", {"fact": f"m{fact_id}"})


def _entries(sql: MemoryDatabase) -> list[Row]:
    return sql.execute(
        f"SELECT seq, fact_id, salt, digest, previous, hash FROM {LEDGER} WHERE user_id = ? "
        "ORDER BY seq",
        (sql.user,),
    )


def _end(sql: MemoryDatabase) -> tuple[int, str]:
    row = sql.one(
        f"SELECT seq, hash FROM {LEDGER} WHERE user_id = ? ORDER BY seq DESC LIMIT 1", (sql.user,)
    )
    return (int(row[0]), str(row[1])) if row else (0, GENESIS)


def _append(
    sql: MemoryDatabase, last_seq: int, previous: str, fact_id: int | None, salt: str, digest: str
) -> tuple[int, str]:
    seq = last_seq + 1
    entry = _hash(seq, fact_id, digest, previous)
    sql.run(
        f"INSERT INTO {LEDGER} (user_id, seq, fact_id, salt, digest, previous, hash) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (sql.user, seq, fact_id, salt, digest, previous, entry),
    )
    return seq, entry


def _digest(salt: str, row: Row) -> str:
    return hashlib.sha256((salt + json.dumps(list(row))).encode()).hexdigest()


def _hash(seq: int, fact_id: int | None, digest: str, previous: str) -> str:
    return hashlib.sha256(f"{seq}\n{fact_id}\n{digest}\n{previous}".encode()).hexdigest()
