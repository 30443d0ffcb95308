"""Memory behind LangGraph's standard interface, for graphs and libraries that speak it.

Import this module only where a store is wanted: it loads langgraph. Items are rows of the bound
user and project in the same database; nothing of another user or project is ever seen. The
namespace (user, project, "facts") is a window on the facts themselves.

Unlike the stores that come with LangGraph: a search with `query` ranks by words without any
index configuration, an update keeps `created_at`, expired items are never returned, and a
shorter prefix never reaches another user.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
)
from langgraph.store.base.embed import get_text_at_path, tokenize_path

from kogniterm.memory import words
from kogniterm.memory.facts_window import FactsWindow
from kogniterm.memory.index import Entry, WordIndex
from kogniterm.memory.memory import Memory
from kogniterm.memory.sql import Row

Namespace = tuple[str, ...]

_COLUMNS = "namespace, key, value, created, updated, ttl, expires, indexed"
_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$eq": lambda have, want: bool(have == want),
    "$ne": lambda have, want: bool(have != want),
    "$gt": lambda have, want: float(have) > float(want),
    "$gte": lambda have, want: float(have) >= float(want),
    "$lt": lambda have, want: float(have) < float(want),
    "$lte": lambda have, want: float(have) <= float(want),
}


class KognitermStore(BaseStore):
    """A `BaseStore` over the tables of one memory. `ttl` sets defaults, in minutes.

    Items belong to the memory's project: no other project of the user sees them. With
    `everywhere` the store holds the items that the user's projects share, and only those.
    """

    supports_ttl = True

    def __init__(
        self, memory: Memory, *, ttl: TTLConfig | None = None, everywhere: bool = False
    ) -> None:
        self._memory = memory
        self._project = "" if everywhere else memory.project
        self._owner = (memory.user, self._project)
        self._sql = memory.sql
        self._facts = FactsWindow(memory)
        self.ttl_config = ttl

    @property
    def facts_namespace(self) -> Namespace:
        """Where the facts of this user and project stand."""
        return self._facts.namespace

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run `ops` as one transaction; reads see what was there before its writes."""
        results: list[Result] = []
        writes: dict[tuple[Namespace, str], PutOp] = {}
        with self._sql.transaction():
            for op in ops:
                if isinstance(op, PutOp):
                    writes[(op.namespace, op.key)] = op
                    results.append(None)
                else:
                    results.append(self._read(op))
            for write in writes.values():
                self._put(write)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Like `batch`, off the event loop."""
        return await asyncio.to_thread(self.batch, list(ops))

    def sweep_ttl(self) -> int:
        """Delete what has expired; returns how many items."""
        return self._sql.run(
            "DELETE FROM store_items WHERE user_id = ? AND project_id = ? "
            "AND expires IS NOT NULL AND expires <= ?",
            (*self._owner, self._memory.clock.now()),
        )

    def _read(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            return self._get(op)
        if isinstance(op, SearchOp):
            return self._search(op)
        if isinstance(op, ListNamespacesOp):
            return self._namespaces(op)
        raise ValueError(f"Unknown operation type: {type(op)}")

    # --- one item ---

    def _get(self, op: GetOp) -> Item | None:
        if op.namespace == self._facts.namespace:
            fields = self._facts.get(op.key)
            return Item(**fields) if fields else None
        rows = self._rows("namespace = ? AND key = ?", (_joined(op.namespace), op.key))
        if not rows:
            return None
        if op.refresh_ttl:
            self._refresh(rows)
        return Item(**_fields(rows[0]))

    def _put(self, op: PutOp) -> None:
        if op.namespace == self._facts.namespace:
            self._facts.put(op.key, op.value)
            return
        place = (*self._owner, _joined(op.namespace), op.key)
        if op.value is None:
            self._sql.run(
                "DELETE FROM store_items WHERE user_id = ? AND project_id = ? "
                "AND namespace = ? AND key = ?",
                place,
            )
            return
        value = self._redacted(dict(op.value))
        now = self._memory.clock.now()
        expires = now + op.ttl * 60.0 if op.ttl is not None else None
        # An item that has expired is gone: what comes after it is a new one.
        self._sql.run(
            "DELETE FROM store_items WHERE user_id = ? AND project_id = ? AND namespace = ? "
            "AND key = ? AND expires IS NOT NULL AND expires <= ?",
            (*place, now),
        )
        self._sql.run(
            "INSERT INTO store_items (user_id, project_id, namespace, key, value, created, "
            "updated, ttl, expires, indexed) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (user_id, project_id, namespace, key) DO UPDATE SET "
            "value = excluded.value, updated = excluded.updated, ttl = excluded.ttl, "
            "expires = excluded.expires, indexed = excluded.indexed",
            (*place, json.dumps(value), now, now, op.ttl, expires, _indexed(value, op.index)),
        )

    def _redacted(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._memory.redact(value)
        if isinstance(value, Mapping):
            return {key: self._redacted(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._redacted(item) for item in value]
        return value

    # --- many items ---

    def _search(self, op: SearchOp) -> list[SearchItem]:
        if op.namespace_prefix == self._facts.namespace:
            facts = self._facts.search(op.query, _matcher(op.filter), op.limit, op.offset)
            return [SearchItem(**fields, score=score) for fields, score in facts]
        condition, values = _below(op.namespace_prefix)
        matches = _matcher(op.filter)
        rows = [row for row in self._rows(condition, values) if matches(json.loads(row[2]))]
        chosen = _ranked(rows, op.query)[op.offset : op.offset + op.limit]
        if op.refresh_ttl:
            self._refresh([row for row, _score in chosen])
        return [SearchItem(**_fields(row), score=score) for row, score in chosen]

    def _namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        rows = self._rows("1 = 1", ())
        found = {tuple(str(row[0]).split(".")) for row in rows}
        if self._memory.facts("active"):
            found.add(self._facts.namespace)
        for condition in op.match_conditions or ():
            found = {one for one in found if _fits(one, condition)}
        if op.max_depth is not None:
            found = {one[: op.max_depth] for one in found}
        return sorted(found)[op.offset : op.offset + op.limit]

    def _rows(self, condition: str, values: Sequence[object]) -> list[Row]:
        """Live rows of this user and project, the last written first."""
        return self._sql.all(
            f"SELECT {_COLUMNS} FROM store_items WHERE user_id = ? AND project_id = ? "
            f"AND {condition} "
            "AND (expires IS NULL OR expires > ?) ORDER BY updated DESC, namespace, key",
            (*self._owner, *values, self._memory.clock.now()),
        )

    def _refresh(self, rows: Sequence[Row]) -> None:
        """What was read lives on for its whole time again."""
        for row in rows:
            if row[5] is not None:
                self._sql.run(
                    "UPDATE store_items SET expires = ? "
                    "WHERE user_id = ? AND project_id = ? AND namespace = ? AND key = ?",
                    (self._memory.clock.now() + row[5] * 60.0, *self._owner, row[0], row[1]),
                )


def _joined(namespace: Namespace) -> str:
    """A label never holds a period, so the joined form is unambiguous."""
    return ".".join(namespace)


def _below(prefix: Namespace) -> tuple[str, tuple[object, ...]]:
    if not prefix:
        return "1 = 1", ()
    joined = _joined(prefix)
    return (
        "(namespace = ? OR substr(namespace, 1, ?) = ?)",
        (joined, len(joined) + 1, f"{joined}."),
    )


def _fields(row: Row) -> dict[str, Any]:
    return {
        "namespace": tuple(str(row[0]).split(".")),
        "key": row[1],
        "value": json.loads(row[2]),
        "created_at": datetime.fromtimestamp(row[3], UTC),
        "updated_at": datetime.fromtimestamp(row[4], UTC),
    }


def _indexed(value: dict[str, Any], index: bool | list[str] | None) -> str:
    """The stems an item is found by: of all its texts, or of the fields asked for."""
    if index is False:
        return ""
    if isinstance(index, list):
        texts = [text for path in index for text in get_text_at_path(value, tokenize_path(path))]
    else:
        texts = list(_texts(value))
    return " ".join(term for text in texts for term in words.terms(text))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def _ranked(rows: Sequence[Row], query: str | None) -> list[tuple[Row, float | None]]:
    """Rows with their scores, best first, then those without a score."""
    if not query:
        return [(row, None) for row in rows]
    index = WordIndex()
    for number, row in enumerate(rows):
        index.add(number, Entry(tuple(str(row[7]).split())))
    scores = index.search(query)
    best = sorted(scores, key=lambda number: (-scores[number], number))
    rest = [number for number in range(len(rows)) if number not in scores]
    return [(rows[number], scores.get(number)) for number in (*best, *rest)]


def _matcher(wanted: dict[str, Any] | None) -> Callable[[Mapping[str, Any]], bool]:
    """Whether a value passes a filter: equal fields, or comparisons such as {"$gt": 3}."""
    return lambda value: all(_compare(value.get(key), want) for key, want in (wanted or {}).items())


def _compare(have: Any, want: Any) -> bool:
    if isinstance(want, dict):
        if any(str(key).startswith("$") for key in want):
            return all(_operated(have, name, operand) for name, operand in want.items())
        return isinstance(have, dict) and all(_compare(have.get(k), v) for k, v in want.items())
    if isinstance(want, list | tuple):
        return (
            isinstance(have, list | tuple)
            and len(have) == len(want)
            and all(_compare(one, two) for one, two in zip(have, want, strict=True))
        )
    return bool(have == want)


def _operated(have: Any, name: str, operand: Any) -> bool:
    comparison = _COMPARISONS.get(name)
    if comparison is None:
        raise ValueError(f"Unsupported operator: {name}")
    try:
        return comparison(have, operand)
    except (TypeError, ValueError):
        return False


def _fits(namespace: Namespace, condition: MatchCondition) -> bool:
    path = condition.path
    if len(namespace) < len(path):
        return False
    if condition.match_type == "prefix":
        part = namespace[: len(path)]
    elif condition.match_type == "suffix":
        part = namespace[len(namespace) - len(path) :]
    else:
        raise ValueError(f"Unsupported match type: {condition.match_type}")
    return all(want in ("*", have) for have, want in zip(part, path, strict=True))
