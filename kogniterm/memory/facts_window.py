"""The facts of a memory as the fields of store items: the key is a fact's label or its slot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from kogniterm.memory import words
from kogniterm.memory.memory import Memory
from kogniterm.memory.records import Fact

_WRITABLE = frozenset({"text", "category", "keywords"})


class FactsWindow:
    """Reads facts as items; what is put goes through the same rules as everything remembered."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        project = memory.project.replace(".", "_") or "everywhere"
        self.namespace = (memory.user.replace(".", "_"), project, "facts")

    def get(self, key: str) -> dict[str, Any] | None:
        """The active fact called `key` ("m7"), or that has the slot `key`."""
        fact = self._find(key)
        return self._fields(fact, key) if fact else None

    def put(self, key: str, value: Mapping[str, Any] | None) -> None:
        """Remember `value["text"]` under the slot `key`, or forget it when `value` is None."""
        if value is None:
            fact = self._find(key)
            if fact is not None:
                now = self._memory.clock.now()
                self._memory.tombstones.bury([fact.text], now)
                self._memory.repository.delete([fact.id], now=now, who="store")
            return
        unknown = set(value) - _WRITABLE
        if unknown or not isinstance(value.get("text"), str):
            raise ValueError(f"a fact has text, category and keywords, not {sorted(unknown)}")
        self._memory.add(
            value["text"],
            category=value.get("category", "fact"),
            keywords=value.get("keywords", ()),
            slot=key,
        )

    def search(
        self,
        query: str | None,
        matches: Callable[[Mapping[str, Any]], bool],
        limit: int,
        offset: int,
    ) -> list[tuple[dict[str, Any], float | None]]:
        """Facts that answer `query`, best first; without one, the newest first."""
        scores: dict[int, float | None]
        if query:
            scores = {one.id: one.score for one in self._memory.search(query, limit + offset + 50)}
        else:
            newest = sorted(self._memory.facts("active"), key=lambda fact: -fact.created)
            scores = dict.fromkeys((fact.id for fact in newest), None)
        found: list[tuple[dict[str, Any], float | None]] = []
        for fact_id, score in scores.items():
            fact = self._memory.repository.get(fact_id)
            if fact is None:
                continue
            fields = self._fields(fact, fact.slot or fact.label)
            if matches(fields["value"]):
                found.append((fields, score))
        return found[offset : offset + limit]

    def _find(self, key: str) -> Fact | None:
        if key[:1] == "m" and key[1:].isdigit():
            fact = self._memory.repository.get(int(key[1:]))
            return fact if fact and fact.status == "active" else None
        slot = "_".join(words.raw_words(key))
        return self._memory.repository.in_slot(slot, self._memory.project)

    def _fields(self, fact: Fact, key: str) -> dict[str, Any]:
        value: dict[str, Any] = {"text": fact.text, "category": fact.category}
        if fact.keywords:
            value["keywords"] = fact.keywords.split()
        return {
            "namespace": self.namespace,
            "key": key,
            "value": value,
            "created_at": datetime.fromtimestamp(fact.created, UTC),
            "updated_at": datetime.fromtimestamp(fact.last_confirmed, UTC),
        }
