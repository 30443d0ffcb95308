"""Examples from use: what was approved and worked stands beside the bank."""

from __future__ import annotations

from pathlib import Path

from kogniterm.models.local.bank import MOST, Bank, Example, LearnedExamples


def test_pairs_are_kept_newest_last_and_once_a_request(tmp_path: Path) -> None:
    learned = LearnedExamples(tmp_path / "data" / "examples.jsonl")
    assert learned.load() == ()
    assert learned.add("show the tide", "tide --now")
    assert learned.add("muestra los archivos de la carpeta", "ls -la")
    assert learned.add("Show  the tide", "tide --port Vigo")
    assert learned.load() == (
        Example("muestra los archivos de la carpeta", "ls -la", "es"),
        Example("Show the tide", "tide --port Vigo", "en"),
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


def test_an_own_example_is_found_for_a_similar_request() -> None:
    own = Example("show the tide in Vigo", "tide --port Vigo", "en")
    others = [Example(f"count the files in {n}", f"ls {n} | wc -l", "en") for n in "abc"]
    assert Bank([*others, own], "en").nearest("show me the tide in Cadiz", 1) == (own,)
