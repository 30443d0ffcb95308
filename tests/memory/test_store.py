"""`KognitermStore` behaves as LangGraph's interface says, on both databases."""

from __future__ import annotations

from typing import Any, TypedDict

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from kogniterm.database import Migration
from kogniterm.memory import Memory, schema
from kogniterm.memory.repository import FactRepository
from kogniterm.memory.store import KognitermStore
from tests.memory.conftest import HandClock, OpenMemory


@pytest.fixture
def store(memory: Memory) -> KognitermStore:
    return KognitermStore(memory)


def plain(result: Any) -> Any:
    """A result without times and scores, which differ between stores."""
    if isinstance(result, list):
        return [plain(one) for one in result]
    if hasattr(result, "value"):
        return (result.namespace, result.key, result.value)
    return result


def test_it_answers_like_langgraphs_own_store(store: KognitermStore) -> None:
    reference = InMemoryStore()
    for one in (store, reference):
        one.put(("docs",), "a", {"n": 1, "tags": ["x"], "deep": {"k": "v"}})
        one.put(("docs",), "b", {"n": 2, "name": "two"})
        one.put(("docs", "old"), "c", {"n": 3})
        one.put(("document",), "d", {"n": 4})
        one.put(("docs",), "b", {"n": 5, "name": "five"})
        one.delete(("docs",), "missing")
        one.put(("gone",), "x", {"n": 1})
        one.delete(("gone",), "x")
    for namespace, key in ((("docs",), "a"), (("docs",), "b"), (("docs",), "x"), (("no",), "a")):
        assert plain(store.get(namespace, key)) == plain(reference.get(namespace, key))
    filters: list[dict[str, Any]] = [
        {},
        {"n": 1},
        {"n": {"$gt": 2}},
        {"n": {"$gte": 3, "$lt": 5}},
        {"n": {"$ne": 5}},
        {"name": {"$eq": "five"}},
        {"deep": {"k": "v"}},
        {"tags": ["x"]},
        {"absent": 1},
    ]
    for wanted in filters:
        for prefix in (("docs",), ("docs", "old"), ("no",), ()):
            mine = plain(store.search(prefix, filter=wanted))
            theirs = plain(reference.search(prefix, filter=wanted))
            assert sorted(mine, key=str) == sorted(theirs, key=str), (wanted, prefix)
    for more in ({}, {"prefix": ("docs",)}, {"suffix": ("old",)}, {"max_depth": 1}):
        # LangGraph's own also lists namespaces that were only looked into, or emptied.
        empty = {("gone",), ("no",)}
        theirs = set(reference.list_namespaces(**more)) - empty  # type: ignore[arg-type] # by name
        assert store.list_namespaces(**more) == sorted(theirs)  # type: ignore[arg-type] # by name


@pytest.mark.parametrize("namespace", [(), ("",), ("a.b",), ("langgraph", "x")])
def test_names_that_langgraph_refuses_are_refused(
    store: KognitermStore, namespace: tuple[str, ...]
) -> None:
    with pytest.raises(InvalidNamespaceError):
        store.put(namespace, "k", {"a": 1})


def test_an_update_keeps_when_it_was_made(store: KognitermStore, clock: HandClock) -> None:
    store.put(("docs",), "a", {"n": 1})
    first = store.get(("docs",), "a")
    clock.advance(days=1)
    store.put(("docs",), "a", {"n": 2})
    second = store.get(("docs",), "a")
    assert first is not None
    assert second is not None
    assert second.created_at == first.created_at
    assert second.updated_at > first.updated_at


def test_a_query_ranks_by_words(store: KognitermStore) -> None:
    store.put(("m",), "a", {"text": "Ana likes green tea"})
    store.put(("m",), "b", {"text": "Ana keeps a greyhound"})
    store.put(("m",), "c", {"text": "tea", "other": "greyhound"}, index=["other"])
    store.put(("m",), "d", {"text": "tea tea tea"}, index=False)
    found = store.search(("m",), query="which tea does she like?")
    assert found[0].key == "a"
    assert found[0].score is not None
    assert {one.key for one in found if one.score is None} == {"b", "c", "d"}
    assert [one.key for one in store.search(("m",), query="greyhound", limit=2)] == ["c", "b"]
    assert len(store.search(("m",), query="tea", limit=2, offset=3)) == 1


def test_time_to_live(store: KognitermStore, clock: HandClock) -> None:
    store.put(("t",), "a", {"n": 1}, ttl=10)
    store.put(("t",), "b", {"n": 1})
    clock.advance(seconds=599)
    assert store.get(("t",), "a", refresh_ttl=False) is not None
    assert store.get(("t",), "a") is not None
    clock.advance(seconds=599)
    assert len(store.search(("t",))) == 2
    clock.advance(seconds=600)
    assert store.get(("t",), "a") is None
    assert [one.key for one in store.search(("t",))] == ["b"]
    assert store.sweep_ttl() == 1
    store.put(("t",), "c", {"n": 1}, ttl=1)
    made = store.get(("t",), "c")
    clock.advance(seconds=61)
    store.put(("t",), "c", {"n": 2}, ttl=1)
    again = store.get(("t",), "c")
    assert made is not None
    assert again is not None
    assert again.created_at > made.created_at


def test_a_batch_reads_before_it_writes(store: KognitermStore) -> None:
    store.put(("b",), "k", {"n": 1})
    before, _, found, names = store.batch(
        [
            GetOp(("b",), "k"),
            PutOp(("b",), "k", {"n": 2}),
            SearchOp(("b",), {"n": 1}),
            ListNamespacesOp((MatchCondition("prefix", ("*",)),)),
        ]
    )
    assert plain(before) == (("b",), "k", {"n": 1})
    assert len(found) == 1  # type: ignore[arg-type] # a list of items
    assert names == [("b",)]
    after = store.get(("b",), "k")
    assert after is not None
    assert after.value == {"n": 2}


async def test_the_asynchronous_half(store: KognitermStore) -> None:
    await store.aput(("a",), "k", {"n": 1})
    item = await store.aget(("a",), "k")
    assert item is not None
    assert item.value == {"n": 1}
    assert len(await store.asearch(("a",))) == 1
    await store.adelete(("a",), "k")
    assert await store.aget(("a",), "k") is None


def test_nobody_sees_another_users_items(open_here: OpenMemory) -> None:
    ana, ben = KognitermStore(open_here("ana")), KognitermStore(open_here("ben"))
    ana.put(("ana", "docs"), "k", {"n": 1})
    assert ben.get(("ana", "docs"), "k") is None
    assert ben.search(()) == []
    assert ben.list_namespaces() == []


def test_no_project_sees_the_items_of_another(open_here: OpenMemory) -> None:
    shop, bank = open_here(project="/home/ana/shop"), open_here(project="/home/ana/bank")
    mine, other = KognitermStore(shop), KognitermStore(bank)
    mine.put(("notes",), "k", {"text": "the shop's margin is nine"}, ttl=1)
    assert other.get(("notes",), "k") is None
    assert other.search(()) == []
    assert other.search(("notes",), query="margin of the shop") == []
    assert other.search(("notes",), filter={"text": "the shop's margin is nine"}) == []
    assert other.list_namespaces() == []
    other.put(("notes",), "k", {"text": "the bank's own"})
    other.delete(("notes",), "other")
    kept = mine.get(("notes",), "k")
    assert kept is not None
    assert kept.value == {"text": "the shop's margin is nine"}
    other.delete(("notes",), "k")
    assert mine.get(("notes",), "k") is not None
    assert KognitermStore(open_here(project=None)).search(()) == []


def test_what_projects_share_is_asked_for_by_name(open_here: OpenMemory) -> None:
    shop, bank = open_here(project="/home/ana/shop"), open_here(project="/home/ana/bank")
    KognitermStore(shop, everywhere=True).put(("notes",), "k", {"text": "tea"})
    assert KognitermStore(shop).get(("notes",), "k") is None
    shared = KognitermStore(bank, everywhere=True).get(("notes",), "k")
    assert shared is not None
    assert shared.value == {"text": "tea"}
    assert KognitermStore(open_here("ben"), everywhere=True).search(()) == []


def test_sweeping_in_one_project_leaves_the_others(open_here: OpenMemory, clock: HandClock) -> None:
    mine = KognitermStore(open_here(project="/home/ana/shop"))
    other = KognitermStore(open_here(project="/home/ana/bank"))
    mine.put(("t",), "a", {"n": 1}, ttl=1)
    clock.advance(seconds=61)
    assert other.sweep_ttl() == 0
    assert mine.sweep_ttl() == 1


def test_items_of_the_first_schema_are_kept_for_everywhere(
    open_here: OpenMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = schema.migrations

    def first(dialect: str) -> tuple[Migration, ...]:
        return every(dialect)[:1]

    with monkeypatch.context() as patch:
        patch.setattr(schema, "migrations", first)
        patch.setattr(FactRepository, "begin_ledger", lambda _: None)  # which came later
        old = open_here()
        old.sql.run(
            "INSERT INTO store_items (user_id, namespace, key, value, created, updated) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            ("ana", "notes", "k", '{"text": "old"}', 1.0, 2.0),
        )
    now = open_here()
    assert KognitermStore(now).search(()) == []
    (kept,) = KognitermStore(now, everywhere=True).search(())
    assert (kept.key, kept.value) == ("k", {"text": "old"})


def test_facts_are_items_too(store: KognitermStore, memory: Memory) -> None:
    tea = memory.add("Ana likes tea")
    place = store.facts_namespace
    item = store.get(place, f"m{tea}")
    assert item is not None
    assert item.value == {"text": "Ana likes tea", "category": "fact"}
    store.put(place, "editor", {"text": "Ana edits with vim", "category": "preference"})
    store.put(place, "editor", {"text": "Ana edits with emacs", "category": "preference"})
    edited = store.get(place, "editor")
    assert edited is not None
    assert edited.value["text"] == "Ana edits with emacs"
    assert store.search(place, query="editor emacs")[0].key == "editor"
    assert len(store.search(place, filter={"category": "fact"})) == 1
    assert place in store.list_namespaces()
    store.delete(place, "editor")
    assert store.get(place, "editor") is None
    with pytest.raises(ValueError, match="a fact has text"):
        store.put(place, "x", {"anything": 1})


def test_secrets_are_masked_at_this_door_too(store: KognitermStore) -> None:
    store.put(("s",), "k", {"a": ["password is tortuga77"], "b": {"c": "password: tortuga77"}})
    item = store.get(("s",), "k")
    assert "tortuga77" not in repr(item)


def test_a_graph_can_be_compiled_with_it(store: KognitermStore) -> None:
    class State(TypedDict):
        answer: str

    def node(state: State, *, store: BaseStore) -> State:
        store.put(("graph",), "k", {"seen": True})
        return {"answer": "done"}

    graph = StateGraph(State)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    graph.add_edge("node", END)
    assert graph.compile(store=store).invoke({"answer": ""})["answer"] == "done"
    assert store.get(("graph",), "k") is not None


def test_forgetting_reaches_the_items(memory: Memory, store: KognitermStore) -> None:
    fact = memory.add("Ana is allergic to peanuts")
    store.put(("n",), "k", {"note": "Ana is ALLERGIC to peanuts, careful"})
    memory.forget(fact)
    assert store.search(("n",)) == []
