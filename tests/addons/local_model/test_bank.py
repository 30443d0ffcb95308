"""The bank as data, its search, and the examples learned from approved commands."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.eval.table import NEWER, tasks
from kogniterm import approval
from kogniterm.addons.local_model.bank import (
    LANGUAGES,
    MOST,
    Bank,
    CommandExample,
    LearnedExamples,
    examples,
    stem,
    words_of,
)
from kogniterm.text.language import Language, language_of, plain

CATEGORIES = (
    "archives",
    "content",
    "counting",
    "create",
    "data",
    "dates",
    "disk",
    "environment",
    "files",
    "git",
    "network",
    "permissions",
    "processes",
    "python",
    "rename",
    "search",
    "sizes",
    "system",
    "text",
)


def test_bank_is_large_and_balanced() -> None:
    counts = Counter(example.language for example in examples())
    assert sum(counts.values()) >= 650
    assert min(counts.values()) / max(counts.values()) > 0.8


def test_every_category_is_known_and_filled_in_both_languages() -> None:
    filled = Counter((example.category, example.language) for example in examples())
    expected = {(category, language) for category in CATEGORIES for language in LANGUAGES}
    assert filled.keys() == expected
    assert min(filled.values()) >= 5


def test_no_request_stands_twice() -> None:
    requests = Counter(plain(example.request).strip("¿?. ") for example in examples())
    assert [request for request, count in requests.items() if count > 1] == []


def test_every_command_parses() -> None:
    script = "\n".join(f"function f{n} {{\n{e.command}\n}}" for n, e in enumerate(examples()))
    checked = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_every_command_is_one_line_without_placeholders() -> None:
    for example in examples():
        assert example.command == example.command.strip()
        assert "<file" not in example.command
        assert "sudo" not in example.command


def test_commands_that_only_look_are_judged_to_only_look() -> None:
    """Only a few commands of the reading categories need more than reading."""
    reading = [e for e in examples() if e.category in {"counting", "disk", "content"}]
    labels = Counter(approval.classify(example.command).label for example in reading)
    assert labels["dangerous"] == 0
    assert labels["safe_readonly"] / len(reading) > 0.85


def test_no_command_is_judged_dangerous_without_deleting() -> None:
    dangerous = [e.command for e in examples() if approval.classify(e.command).label == "dangerous"]
    assert [c for c in dangerous if "rm " not in c and "-delete" not in c] == []


def test_language_of_each_request_is_recognised() -> None:
    wrong = [e.request for e in examples() if language_of(e.request) != e.language]
    assert len(wrong) <= 8, wrong


# --- search ------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_examples_own_request_finds_it_first(language: Language) -> None:
    bank = Bank(examples(), language)
    missed = [e.request for e in bank.examples if bank.nearest(e.request, 3).count(e) == 0]
    assert len(missed) <= len(bank.examples) * 0.02, missed


def test_scores_follow_bm25_by_hand() -> None:
    """Expected values for two documents, computed by hand.

    A rare word counts as if both held it: idf = ln(1 + (2 - 2 + .5) / (2 + .5)) = ln 1.2.
    """
    pair = (CommandExample("alpha beta", "a", "en"), CommandExample("gamma delta", "b", "en"))
    scores = Bank(pair, "en").scores("alpha")
    # Both have the mean length, so the word counts 1 * (k1 + 1) / (1 + k1) = 1.
    assert scores == [pytest.approx(0.1823215567939546), 0.0]


def test_numbers_and_synonyms_count_as_one_word() -> None:
    assert words_of("show 10 files", "en") == words_of("list 25 files", "en")
    assert words_of("borra la carpeta", "es") == words_of("elimina el directorio", "es")


def test_another_action_counts_half() -> None:
    pair = (CommandExample("delete old files", "a", "en"), CommandExample("old files", "b", "en"))
    scores = Bank(pair, "en").scores("copy old files")
    assert 0 < scores[0] < scores[1]


def test_stems_join_forms_and_spare_short_words() -> None:
    assert stem("listing", "en") == stem("listed", "en")
    assert stem("is", "en") == "is"
    assert stem("borrados", "es") == stem("borrar", "es")


def test_extra_examples_are_found() -> None:
    own = CommandExample("deploy the shop to staging", "make deploy ENV=staging", "en")
    assert Bank((own, *examples()), "en").nearest("deploy the shop", 1) == (own,)


def test_a_bank_without_examples_finds_nothing() -> None:
    assert Bank((), "en").nearest("anything", 5) == ()


# --- the bank contains nothing of the table ------------------------------------------------------


def _names(text: str) -> set[str]:
    return {word for word in plain(text).replace("/", " ").split() if "." in word.strip(".")}


def _stems(text: str, language: Language) -> set[str]:
    return {stem(word, language) for word in re.findall(r"[\w.]+", plain(text))}


def test_no_task_is_nearly_in_the_bank() -> None:
    """Compares the share of words (stemmed, with names and numbers) that a pair has in common."""
    bank = [(example.request, _stems(example.request, example.language)) for example in examples()]
    for task in tasks():
        asked = _stems(task.request, task.lang)
        for example, told in bank:
            shared = len(asked & told) / len(asked | told)
            assert shared < 0.7, (task.request, example)


def test_no_file_name_of_a_task_is_in_the_bank() -> None:
    used = {name.strip(".,;:?") for example in examples() for name in _names(example.request)}
    for task in tasks():
        shared = {name.strip(".,;:?") for name in _names(task.request)} & used
        assert not shared, (task.id, shared)


def test_no_request_of_the_newer_tables_is_in_the_bank() -> None:
    used = {plain(example.request).strip("?¿. ") for example in examples()}
    assert [one.id for one in tasks(NEWER) if plain(one.request).strip("?¿. ") in used] == []


def test_pairs_are_kept_newest_last_and_once_a_request(tmp_path: Path) -> None:
    learned = LearnedExamples(tmp_path / "data" / "examples.jsonl")
    assert learned.load() == ()
    assert learned.add("show the tide", "tide --now")
    assert learned.add("muestra los archivos de la carpeta", "ls -la")
    assert learned.add("Show  the tide", "tide --port Vigo")
    assert learned.load() == (
        CommandExample("muestra los archivos de la carpeta", "ls -la", "es"),
        CommandExample("Show the tide", "tide --port Vigo", "en"),
    )
    assert learned.file.stat().st_mode & 0o077 == 0
    assert [f.name for f in learned.file.parent.iterdir()] == ["examples.jsonl"]


def test_what_teaches_nothing_is_left_out(tmp_path: Path) -> None:
    learned = LearnedExamples(tmp_path / "e.jsonl")
    assert not learned.add("", "ls")
    assert not learned.add("do", "a\nb")
    assert not learned.add("x" * 301, "ls")
    assert not learned.file.exists()


def test_their_number_is_bounded_and_broken_lines_are_passed_over(tmp_path: Path) -> None:
    learned = LearnedExamples(tmp_path / "e.jsonl")
    lines = "".join(f'{{"request": "r{n}", "command": "c{n}"}}\n' for n in range(MOST + 5))
    learned.file.write_text("not json\n[1]\n" + lines)
    assert learned.add("newest", "c")
    found = learned.load()
    assert len(found) == MOST
    assert found[-1].request == "newest"
