"""A person's memory, table by table, from one database to another: nothing is judged anew.

Export and import (`memory/transfer`) carry facts between people and versions and apply the
rules of the door; this carries everything, as it is, and is meant for `storage copy`. Row ids
are kept where they are free; on a server where other people's rows have them, new ones are
given and everything that refers to them follows.
"""

from __future__ import annotations

from dataclasses import dataclass

from kogniterm.errors import UsageError
from kogniterm.memory import ledger
from kogniterm.memory.memory_database import TABLES, MemoryDatabase
from kogniterm.storage.database import Row
from kogniterm.storage.drivers import DuplicateError

_NUMBERED = ("facts", "outcomes", "memory_audit")
_REFERENCES = {"superseded_by", "fact_id"}
_OWN = "user_id"
_BOOKKEEPING = ("memory_clock", "memory_sessions")


@dataclass(frozen=True, slots=True)
class MemoryCopy:
    """How many rows are now in the target, and whether they were there before the copy."""

    rows: int
    present: bool = False


def copy_memory(source: MemoryDatabase, target: MemoryDatabase) -> MemoryCopy:
    """Copy everything of `source`'s user to `target`'s user, all or nothing.

    Copying again what is there already changes nothing. Raises `UsageError` when the target
    holds other memories of this person: two memories are not merged behind their back.
    """
    if not any(_has_rows(target, table) for table in TABLES if table not in _BOOKKEEPING):
        try:
            return MemoryCopy(_copy(source, target, keep_ids=True))
        except DuplicateError:
            return MemoryCopy(_copy(source, target, keep_ids=False))
    if same_memory(source, target):
        return MemoryCopy(len(_rows(target)), present=True)
    raise UsageError(
        "There are other memories in {place} already; they were left as they are. Use "
        "'kogniterm memory export' and 'import' to bring the two together.",
        place=target.place,
    )


def _has_rows(sql: MemoryDatabase, table: str) -> bool:
    return sql.one(f"SELECT 1 FROM {table} WHERE {_OWN} = ? LIMIT 1", (sql.user,)) is not None


def same_memory(source: MemoryDatabase, target: MemoryDatabase) -> bool:
    """Whether both hold the same, apart from the numbers of the rows."""
    return _rows(source) == _rows(target)


def _rows(sql: MemoryDatabase) -> list[str]:
    """Everything of this person, without what a copy may number anew."""
    found = []
    for table in TABLES:
        ignored = _REFERENCES | {"id", _OWN}
        columns = sorted(name for name in _columns(sql, table) if name not in ignored)
        rows = sql.execute(
            f"SELECT {', '.join(columns)} FROM {table} WHERE {_OWN} = ?", (sql.user,)
        )
        found += [f"{table} {[_plain(value) for value in row]!r}" for row in rows]
    return sorted(found)


def _plain(value: object) -> object:
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else value


def _columns(sql: MemoryDatabase, table: str) -> list[str]:
    if sql.is_postgres:
        query = (
            "SELECT column_name FROM information_schema.columns WHERE table_name = ? "
            "AND table_schema = current_schema() ORDER BY ordinal_position"
        )
    else:
        query = "SELECT name FROM pragma_table_info(?)"
    return [name for (name,) in sql.execute(query, (table,))]


def _copy(source: MemoryDatabase, target: MemoryDatabase, *, keep_ids: bool) -> int:
    count = 0
    facts: dict[object, object] = {None: None}
    with target.transaction():
        for table in _BOOKKEEPING:  # an opened, empty memory has rows there
            target.run(f"DELETE FROM {table} WHERE {_OWN} = ?", (target.user,))
        for table in TABLES:
            columns = _columns(source, table)
            order = "id" if table in _NUMBERED else columns[0]
            rows = source.execute(
                f"SELECT {', '.join(columns)} FROM {table} WHERE {_OWN} = ? ORDER BY {order}",
                (source.user,),
            )
            for row in rows:
                _insert(target, table, dict(zip(columns, row, strict=True)), facts, keep_ids)
            count += len(rows)
        _link(source, target, facts)
        ledger.record(target, [int(str(one)) for one in facts.values() if one is not None])
        if keep_ids and target.is_postgres:
            _advance_numbers(target)
    return count


def _insert(
    target: MemoryDatabase,
    table: str,
    row: dict[str, object],
    facts: dict[object, object],
    keep_ids: bool,
) -> None:
    """Write one row; remembers under which number a fact is now known."""
    old = row.get("id")
    row[_OWN] = target.user
    if "superseded_by" in row:
        row["superseded_by"] = None  # set when all facts have their numbers
    if "fact_id" in row:
        row["fact_id"] = facts.get(row["fact_id"])
    if table in _NUMBERED and not keep_ids:
        del row["id"]
    marks = ", ".join("?" for _ in row)
    statement = f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})"
    if table != "facts":
        target.run(statement, tuple(row.values()))
        return
    inserted: Row | None = target.one(statement + " RETURNING id", tuple(row.values()))
    if inserted is not None:
        facts[old] = inserted[0]


def _link(source: MemoryDatabase, target: MemoryDatabase, facts: dict[object, object]) -> None:
    """Point superseded facts to their successors."""
    query = f"SELECT id, superseded_by FROM facts WHERE {_OWN} = ? AND superseded_by IS NOT NULL"
    for fact, successor in source.execute(query, (source.user,)):
        target.run(
            f"UPDATE facts SET superseded_by = ? WHERE id = ? AND {_OWN} = ?",
            (facts.get(successor), facts[fact], target.user),
        )


def _advance_numbers(target: MemoryDatabase) -> None:
    """Rows written with their own numbers do not move the server's counters; this does."""
    for table in _NUMBERED:
        target.execute(
            f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), greatest(max(id), "
            f"pg_sequence_last_value(pg_get_serial_sequence('{table}', 'id')::regclass), 1)) "
            f"FROM {table}"
        )
