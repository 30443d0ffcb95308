"""The words of facts and lessons in the database: one ranking, and nothing left behind."""

from __future__ import annotations

import hashlib
import math
import re
import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from benchmarks.memory import SET, read_set
from kogniterm.memory import Memory, open_memory, word_index
from kogniterm.memory.memory_database import MemoryDatabase
from kogniterm.memory.recall import recall
from kogniterm.memory.word_index import ADJACENT, StoredWords, WordEntry, WordIndex
from kogniterm.text.language import stems_of, words_of
from tests.memory.conftest import OpenMemory
from tests.support.programs import needs
from tests.support.statements import noted_statements

STEMS = ("3", "1de2066fbb347950")


Place = tuple[str, int, int, int]


def places(database: MemoryDatabase) -> list[Place]:
    """Return every term with the number of each fact that holds it, its length and its place."""
    found = []
    for term, first, packed in database.execute("SELECT term, first, postings FROM word_postings"):
        count = len(packed) // 4
        numbers = struct.unpack_from(f"<{count}H", packed)
        ends = zip(packed[2 * count : 3 * count], packed[3 * count :], strict=True)
        found += [(term, first + number, *end) for number, end in zip(numbers, ends, strict=True)]
    return sorted(found)


def rows_of(memory: Memory, fact_id: int) -> int:
    return sum(number == fact_id for _, number, _, _ in places(memory.sql))


def terms(memory: Memory) -> set[str]:
    return {term for term, *_ in places(memory.sql)}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[MemoryDatabase]:
    with closing(MemoryDatabase(tmp_path, "ana")) as database:
        yield database


def indexed(database: MemoryDatabase, entries: Iterable[WordEntry]) -> WordIndex:
    """Return the index of `entries` alone, whose terms are their texts."""
    made = tuple(entries)
    with database.transaction():
        word_index.make(database, made)
    return WordIndex(StoredWords(database, ("", "shop")))


in_one_database = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
"""For examples that each make the whole index again."""


def test_bm25_by_hand(database: MemoryDatabase) -> None:
    """Two facts of equal length: f / (f + k1) of a term, idf = ln(1 + 1.5 / 1.5)."""
    facts = [WordEntry(1, "shop", ("alpha", "beta")), WordEntry(2, "", ("beta", "beta"))]
    with database.transaction():
        word_index.make(database, facts)
    words = StoredWords(database, ("", "shop"))
    assert words.impacts("alpha") == {1: pytest.approx(1 / 1.9)}
    assert words.impacts("beta")[2] == pytest.approx(2 / 2.9)
    assert [*words.impacts("beta")] == [2, 1]  # what holds everywhere is first
    assert words.weight(words.holding("alpha")) == pytest.approx(math.log(2) * 1.9)
    word_index.remove(database, facts[0])
    words = StoredWords(database, ("", "shop"))
    assert (len(words), words.holding("alpha"), words.impacts("alpha")) == (1, 0, {})


@in_one_database
@given(text=st.text(max_size=60))
def test_any_text_can_be_split_and_indexed(database: MemoryDatabase, text: str) -> None:
    terms = stems_of(text)
    assert all(term == term.strip() and term for term in terms)
    assert not any(" " in term or "|" in term for term in terms)
    entry = WordEntry(1, "shop", tuple(terms))
    index = indexed(database, [entry])
    word_index.remove(database, entry)
    word_index.index(database, entry)
    assert len(index) == bool(terms)
    assert set(index.search(words_of(text))) <= {1}
    if terms:
        assert 1 in index.search(words_of(text))
    word_index.remove(database, entry)
    assert places(database) == []


# Numbers that one row cannot hold, and more of them than fit into it.
NUMBERS = st.sampled_from([*range(1, 9), *range(70_000, 70_240), 200_000])


@in_one_database
@given(steps=st.lists(st.tuples(NUMBERS, st.text("abc ", max_size=12)), max_size=25))
@example(steps=[(number, "b b c") for number in (*range(70_000, 70_240), 3, 200_000, 2)])
def test_the_index_after_changes_is_the_index_made_anew(
    database: MemoryDatabase, steps: list[tuple[int, str]]
) -> None:
    final: dict[int, WordEntry] = {}
    indexed(database, [])
    with database.transaction():
        for number, text in steps:
            entry = WordEntry(number, "shop", tuple(text.split()))
            if (former := final.pop(number, None)) is not None:
                word_index.remove(database, former)
            if not text.startswith("a"):
                word_index.index(database, entry)
                final[number] = entry
    query = "SELECT user_id, project_id, facts, words FROM word_projects WHERE facts > 0"
    changed = places(database), database.execute(query)
    indexed(database, [final[number] for number in sorted(final)])
    assert changed == (places(database), database.execute(query))


@in_one_database
@given(
    texts=st.lists(st.text("abcde ", min_size=3, max_size=14), min_size=1, max_size=60),
    question=st.text("abcde ", min_size=3, max_size=14),
    pool=st.integers(1, 20),
)
def test_taking_the_short_way_finds_the_same_best(
    database: MemoryDatabase, texts: list[str], question: str, pool: int
) -> None:
    index = indexed(
        database,
        (WordEntry(number, "shop", tuple(text.split())) for number, text in enumerate(texts)),
    )
    full, quick = index.search(words_of(question)), index.search(words_of(question), pool)
    best = sorted(full.values(), reverse=True)[:pool]
    assert sorted(quick.values(), reverse=True)[: len(best)] == pytest.approx(best)
    if not len(index):
        return
    also = list(range(len(texts)))[::3]
    asked = index.search(words_of(question), pool, also)
    adjacent = 1 + 2 * ADJACENT
    for number in also:
        assert asked[number] <= full.get(number, 0.0) * adjacent + 1e-9
        assert asked[number] >= full.get(number, 0.0) / adjacent - 1e-9


def test_words_of_lessons_stay_apart_and_go_with_them(memory: Memory) -> None:
    memory.add("The zebra printer stands on the third floor")
    memory.learnings.record("feed the axolotl in the tank", "feeder --now", ok=True)
    assert [one.task for one in memory.learnings.similar("feed the axolotl")]
    memory.learnings.record("wash the quokka in the tank", "washer", ok=True)
    assert {"axolotl", "feeder", "quokka"} <= terms(memory)
    assert memory.search("axolotl", 5) == []
    assert memory.learnings.similar("zebra printer") == []
    edited = memory.learnings.edit(memory.learnings.all()[0], "Use the dosing pump")
    assert memory.learnings.similar("feed with the dosing pump") == [edited]
    for lesson in memory.learnings.all():
        memory.forgetter.carry_out(memory.forgetter.read_request(lesson.label))
    assert not {"axolotl", "feeder", "quokka", "dos", "pump"} & terms(memory)
    memory.learnings.record("feed the tapir", "feeder", ok=True)
    memory.learnings.similar("feed the tapir")
    receipt = memory.forgetter.carry_out(memory.forgetter.read_request("lessons"))
    assert [one for one in receipt.found_columns if one.startswith("word_")] == []
    assert "zebra" in terms(memory)


def test_lessons_of_an_index_that_is_made_again_are_found(open_here: OpenMemory) -> None:
    first = open_here()
    first.learnings.record("feed the axolotl", "feeder --now", ok=True)
    found = first.learnings.similar("feed the axolotl")
    with first.sql.transaction():
        first.sql.run("UPDATE word_projects SET stemming = 'older'")
        first.sql.run("DELETE FROM word_postings")
    assert open_here().learnings.similar("feed the axolotl") == found != []
    assert open_here(project="another").learnings.similar("feed the axolotl") == []


READ_ONLY = """
import sys
from kogniterm.memory import open_memory

with open_memory(sys.argv[1], user="ana", project="shop") as memory:
    assert memory.sql.read_only
    print(memory.search("which printer", 1)[0].text)
    print(memory.learnings.similar("feed the axolotl")[0].task)
"""


@needs("bwrap")
def test_a_file_that_cannot_be_written_is_searched_without_an_index(tmp_path: Path) -> None:
    with open_memory(tmp_path, user="ana", project="shop") as memory:
        memory.add("The zebra printer stands on the third floor")
        memory.learnings.record("feed the axolotl", "feeder --now", ok=True)
        assert not word_index.is_made(memory.sql)
    mount = ("bwrap", "--dev-bind", "/", "/", "--ro-bind", str(tmp_path), str(tmp_path))
    done = subprocess.run(
        [*mount, sys.executable, "-B", "-c", READ_ONLY, str(tmp_path)],
        cwd=Path(__file__).parents[3], stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "The zebra printer stands on the third floor\nfeed the axolotl\n"


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
    assert places(memory.sql) == []


def test_an_index_of_other_stems_is_made_again(open_here: OpenMemory) -> None:
    first = open_here()
    found = first.add("The zebra printer stands on the third floor")
    everywhere = first.add("Zebras are striped", scope="everywhere")
    assert {one.id for one in first.search("zebra", 5)} == {found, everywhere}
    with first.sql.transaction():
        first.sql.run("UPDATE word_projects SET stemming = 'older'")
        first.sql.run("UPDATE word_postings SET term = term || 'x'")
    again = open_here()
    assert {one.id for one in again.search("zebra", 5)} == {found, everywhere}
    other = open_here(project="another")
    assert {one.id for one in other.search("zebra", 5)} == {everywhere}


def test_the_stems_are_those_that_the_index_was_made_with() -> None:
    """Raise `STEMMING` when this fails: indexes of other versions must be made again."""
    facts, questions = read_set(SET)
    texts = [*facts.values(), *(text for _, text in questions)]
    digest = hashlib.sha256("\n".join(" ".join(stems_of(one)) for one in texts).encode())
    assert (word_index.STEMMING, digest.hexdigest()[:16]) == STEMS


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
        # An entry's salt goes when its fact is forgotten, which reads all rows for its proof.
        by_id = [
            one for one in noted
            if re.search(r"\b(fact_)?id (= \?|IN \()|\bterm =", one[0]) and "SET salt" not in one[0]
        ]  # fmt: skip
        assert {"facts", "word_postings"} <= {
            name for one, _ in by_id for name in re.findall(r"(?:FROM|INTO) (\w+)", one)
        }
        for statement, values in by_id:
            for *_, step in memory.sql.execute(f"EXPLAIN QUERY PLAN {statement}", values):
                assert not re.search(r"\(user_id=\?\)|^SCAN (?!asked|\d+ CONSTANT)", str(step)), (
                    step,
                    statement,
                )


def test_words_of_an_index_that_is_out_of_date_are_forgotten_too(tmp_path: Path) -> None:
    with open_memory(tmp_path, user="ana", project="shop") as memory:
        label = memory.add("The axolotl sleeps on the third floor")
        memory.search("anything", 1)
        memory.sql.run("UPDATE word_postings SET term = term || 'x'")
        memory.sql.run("UPDATE word_projects SET stemming = 'older'")
        memory.forget(label)
        assert places(memory.sql) == []
