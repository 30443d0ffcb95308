"""Measure search quality and speed of memory, in CPU time, which varies less on a busy machine.

    python benchmarks/memory.py [--facts 10000] [--vectors] [--set FILE]
    python -m benchmarks.memory --recall 100000 --json    only the recall of a turn

The set is our own (tests/memory/data): `F name text` lines are facts, `Q names text` lines are
questions with the facts that answer them. Another file of that form can be given. Latency is
measured on that many facts, made by shuffling the set's words and adding rare ones.
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from kogniterm.memory import Fact, Memory, open_memory
from kogniterm.text.language import language_of, raw_words, stopwords

SET = Path(__file__).parents[1] / "tests" / "memory" / "data" / "conversations.txt"
Questions = list[tuple[set[str], str]]


def read_set(file: Path) -> tuple[dict[str, str], Questions]:
    """Return facts by name, and questions with the names of the facts that answer them."""
    facts: dict[str, str] = {}
    questions: Questions = []
    for line in file.read_text(encoding="utf-8").splitlines():
        kind, _, rest = line.partition(" ")
        name, _, text = rest.partition(" ")
        if kind == "F":
            facts[name] = text
        elif kind == "Q":
            questions.append((set(name.split(",")), text))
    return facts, questions


def quality(name: str, questions: Questions, search: Callable[[str], Sequence[str]]) -> None:
    """Print recall@1, recall@5 and the mean reciprocal rank of `search`."""
    first = fifth = reciprocal = 0.0
    for answers, text in questions:
        ranks = [rank for rank, found in enumerate(search(text), start=1) if found in answers]
        if ranks:
            first += ranks[0] == 1
            fifth += ranks[0] <= 5
            reciprocal += 1 / ranks[0]
    count = len(questions)
    print(
        f"{name:<28} recall@1 {first / count:.3f}  recall@5 {fifth / count:.3f}  "
        f"MRR {reciprocal / count:.3f}"
    )


def fts5(facts: dict[str, str]) -> Callable[[str], Sequence[str]]:
    """Return the baseline search: SQLite's FTS5 with its Porter stemmer, without stopwords."""
    connection = sqlite3.connect(":memory:")
    connection.execute(
        "CREATE VIRTUAL TABLE f USING fts5(t, tokenize='porter unicode61 remove_diacritics 2')"
    )
    names = list(facts)
    connection.executemany("INSERT INTO f VALUES (?)", [(facts[name],) for name in names])

    def search(text: str) -> Sequence[str]:
        dropped = stopwords(language_of(text))
        telling = [one for one in raw_words(text) if one not in dropped]
        if not telling:
            return []
        question = " OR ".join(f'"{one}"' for one in telling)
        rows = connection.execute(
            "SELECT rowid FROM f WHERE f MATCH ? ORDER BY rank LIMIT 50", (question,)
        )
        return [names[row[0] - 1] for row in rows]

    return search


def ours(memory: Memory, facts: dict[str, str]) -> Callable[[str], Sequence[str]]:
    """Return KogniTerm's own search over the same facts."""
    names = {memory.add(text): name for name, text in facts.items()}
    memory.search("any fact", 1)
    memory.searcher.settle()
    return lambda text: [names[one.id] for one in memory.search(text, 50)]


def many(facts: dict[str, str], count: int) -> list[str]:
    """Return `count` different facts of the same vocabulary, with rare words added."""
    chance = random.Random(1)  # seeded: the same facts in every run
    vocabulary = [word for text in facts.values() for word in text.split()[1:]]
    texts = list(facts.values())
    made = []
    for _ in range(count):
        begin = chance.choice(texts).split()
        begin = begin[: chance.randrange(2, len(begin))]
        rare = [f"rare{chance.randrange(8000)}" for _ in range(2)]
        made.append(" ".join([*begin, *chance.choices(vocabulary, k=6), *rare]))
    return made


def latency(facts: dict[str, str], questions: Questions, count: int, vectors: bool) -> None:
    """Print CPU times of adding `count` facts and of searching them."""
    texts = many(facts, count)
    with (
        tempfile.TemporaryDirectory() as folder,
        open_memory(folder, user="bench", project="bench", vectors=vectors) as memory,
    ):
        started = time.process_time()
        for text in texts:
            memory.add(text)
        added = time.process_time() - started
        started = time.process_time()
        memory.search("warm up the index", 10)
        memory.searcher.settle()
        cold = time.process_time() - started
        taken = []
        for _, text in questions * 2:
            started = time.process_time()
            memory.search(text, 10)
            taken.append((time.process_time() - started) * 1000)
    taken.sort()
    print(
        f"{count} facts: added in {added:.1f} s ({added / count * 1000:.2f} ms each), "
        f"first search {cold:.2f} s, then p50 {taken[len(taken) // 2]:.1f} ms, "
        f"p95 {taken[int(len(taken) * 0.95)]:.1f} ms"
    )


RECALL = """
import json, sys, time
from kogniterm.memory import open_memory
from kogniterm.memory.recall import recall

def resident():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024

with open_memory(sys.argv[1], user="bench", project="bench") as memory:
    before, taken = resident(), []
    for question in json.loads(sys.stdin.read()):
        started = time.process_time()
        recall(memory, question)
        taken.append((time.process_time() - started) * 1000)
    first, *rest = taken
    print(json.dumps({"first": first, "ms": sorted(rest)[len(rest) // 2], "max": max(rest),
                      "memory": resident() - before}))
"""
"""The recall of turns in a process of its own: milliseconds of CPU time, and MB added."""


def recall_cost(texts: Sequence[str], asked: Sequence[str]) -> dict[str, float]:
    """Return the cost of a turn's recall among `texts`."""
    with tempfile.TemporaryDirectory() as folder:
        with open_memory(folder, user="bench", project="bench") as memory:
            with memory.repository.transaction():
                for text in texts:
                    fact = Fact(0, text, "fact", "bench", created=1.8e9, last_confirmed=1.8e9)
                    memory.repository.insert(fact, now=1.8e9, who="bench")
            started = time.process_time()
            memory.search("the first search of a user makes the index", 1)
            made = time.process_time() - started
        done = subprocess.run(
            [sys.executable, "-c", RECALL, folder], input=json.dumps(asked), check=True,
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
    result: dict[str, float] = json.loads(done.stdout)
    return {**result, "made": made}


def recall_figures(facts: dict[str, str], questions: Questions, count: int) -> dict[str, float]:
    """Return the cost of recall among `count` facts and among 100, and that of FTS5."""
    asked = [text for _, text in questions][:100]
    texts = many(facts, count)
    found, few = recall_cost(texts, asked), recall_cost(texts[:100], asked)
    search = fts5({str(number): text for number, text in enumerate(texts)})
    taken = []
    for text in asked:
        started = time.process_time()
        search(text)
        taken.append((time.process_time() - started) * 1000)
    return {
        "recall_ms": found["ms"], "first_ms": found["first"], "memory_mb": found["memory"],
        "most_ms": found["max"], "few_ms": few["ms"], "few_first_ms": few["first"],
        "few_memory_mb": few["memory"], "made_s": found["made"],
        "fts5_ms": sorted(taken)[len(taken) // 2],
    }  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--facts", type=int, default=10_000)
    parser.add_argument("--vectors", action="store_true")
    parser.add_argument("--set", type=Path, default=SET)
    parser.add_argument("--recall", type=int, metavar="FACTS")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    facts, questions = read_set(options.set)
    if options.recall:
        print(json.dumps(recall_figures(facts, questions, options.recall)))
        return
    quality("FTS5 porter, no stopwords", questions, fts5(facts))
    for vectors in (False, True) if options.vectors else (False,):
        with (
            tempfile.TemporaryDirectory() as folder,
            open_memory(folder, user="bench", project="bench", vectors=vectors) as memory,
        ):
            name = "words and vectors" if vectors else "words"
            quality(name, questions, ours(memory, facts))
    latency(facts, questions, options.facts, options.vectors)


if __name__ == "__main__":
    main()
