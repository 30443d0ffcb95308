"""The words of facts in the database: the same ranking as in memory, and nothing left behind."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

from benchmarks.memory import SET, read_set
from kogniterm.memory import Memory, open_memory
from kogniterm.memory.memory_database import INDEX_TABLES
from kogniterm.memory.recall import recall
from kogniterm.memory.search import stored_words
from kogniterm.memory.search.stored_words import StoredWords, entry
from kogniterm.memory.search.word_index import WordIndex
from kogniterm.text.language import stems_of
from tests.memory.conftest import OpenMemory
from tests.support.statements import noted_statements

STEMS = ("1", "1de2066fbb347950")


def rows_of(memory: Memory, *fact_ids: int) -> int:
    marks = ", ".join("?" * len(fact_ids))
    query = f"SELECT count(*) FROM fact_words WHERE fact_id IN ({marks})"
    return int(memory.sql.execute(query, fact_ids)[0][0])


def terms(memory: Memory) -> set[str]:
    return {term for (term,) in memory.sql.execute("SELECT term FROM fact_terms")}


def test_the_database_ranks_as_memory_does(memory: Memory) -> None:
    facts, questions = read_set(SET)
    with memory.repository.transaction():
        for text in facts.values():
            memory.add(text)
    memory.search("anything", 1)
    stored = StoredWords(memory.sql, memory.project)
    stored.refresh()
    in_database, in_memory = WordIndex(stored), WordIndex()
    for fact in memory.facts("active"):
        in_memory.add(fact.id, entry(fact))
    assert len(in_database) == len(in_memory)
    for _, question in questions[:60]:
        own, other = in_database.search(question, 20), in_memory.search(question, 20)
        assert sorted(own.values()) == pytest.approx(sorted(other.values())), question


def test_words_go_with_their_fact(memory: Memory) -> None:
    kept = memory.add("The zebra printer stands on the third floor")
    memory.search("zebra", 1)
    gone = memory.add("The axolotl sleeps on the third floor", keywords=["salamander"])
    old = memory.add("The editor is called Quetzal", slot="editor")
    assert rows_of(memory, gone)
    assert {"axolotl", "quetzal"} <= terms(memory)
    new = memory.add("The editor is called Tapir", slot="editor")
    assert not rows_of(memory, old)
    assert [one.id for one in memory.search("which editor", 5)] == [new]
    memory.forget(gone)
    assert not rows_of(memory, gone)
    assert not {"axolotl", "salamand", "quetzal"} & terms(memory)
    assert "floor" in terms(memory)
    memory.forget(kept)
    memory.forget(new)
    for table in INDEX_TABLES[:2]:
        assert memory.sql.execute(f"SELECT * FROM {table}") == []


def test_an_index_of_other_stems_is_made_again(open_here: OpenMemory) -> None:
    first = open_here()
    found = first.add("The zebra printer stands on the third floor")
    everywhere = first.add("Zebras are striped", scope="everywhere")
    assert {one.id for one in first.search("zebra", 5)} == {found, everywhere}
    with first.sql.transaction():
        first.sql.run("UPDATE fact_index SET stemming = 'older'")
        first.sql.run("UPDATE fact_words SET term = term || 'x'")
    again = open_here()
    assert {one.id for one in again.search("zebra", 5)} == {found, everywhere}
    other = open_here(project="another")
    assert {one.id for one in other.search("zebra", 5)} == {everywhere}


def test_the_stems_are_those_that_the_index_was_made_with() -> None:
    """Raise `STEMMING` when this fails: indexes of other versions must be made again."""
    facts, questions = read_set(SET)
    texts = [*facts.values(), *(text for _, text in questions)]
    digest = hashlib.sha256("\n".join(" ".join(stems_of(one)) for one in texts).encode())
    assert (stored_words.STEMMING, digest.hexdigest()[:16]) == STEMS


def test_what_is_looked_up_by_its_id_is_not_searched_for_among_all(tmp_path: Path) -> None:
    """SQLite plans without statistics here, so a query has to leave it one way."""
    facts, questions = read_set(SET)
    with open_memory(tmp_path, user="ana", project="shop") as memory:
        with memory.repository.transaction():
            for text in list(facts.values())[:60]:
                memory.add(text)
        memory.search("anything", 1)
        with noted_statements() as noted:
            for _, question in questions[:5]:
                recall(memory, question)
            memory.forget(memory.add("The axolotl sleeps on the third floor"))
        by_id = [one for one in noted if re.search(r"\b(fact_)?id (= \?|IN \()", one[0])]
        assert {"facts", "fact_words"} <= {
            name for one, _ in by_id for name in re.findall(r"(?:FROM|INTO) (\w+)", one)
        }
        for statement, values in by_id:
            for *_, step in memory.sql.execute(f"EXPLAIN QUERY PLAN {statement}", values):
                assert not re.search(r"\(user_id=\?\)|^SCAN", str(step)), (step, statement)


def test_words_of_an_index_that_is_out_of_date_are_forgotten_too(tmp_path: Path) -> None:
    with open_memory(tmp_path, user="ana", project="shop") as memory:
        label = memory.add("The axolotl sleeps on the third floor")
        memory.search("anything", 1)
        memory.sql.run(
            "INSERT INTO fact_words SELECT user_id, term, 'moved', fact_id, weight, length "
            "FROM fact_words"
        )
        memory.forget(label)
        assert memory.sql.execute("SELECT term FROM fact_words") == []
