"""The published result: complete, correctly computed, and equal to the page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.eval.report import PAGE, page, rows, terminal, wilson
from benchmarks.eval.results import Kept, Result, published
from benchmarks.eval.table import tasks

TASKS = tasks()
GOOD = Result(passed=True, commands=("ls",), answer="a")
BAD = Result(passed=False, commands=(), answer="", error="why")


def test_interval_is_wilsons() -> None:
    """8 of 10 gives 0.490 to 0.943."""
    low, high = wilson(8, 10)
    assert (low, high) == (pytest.approx(0.4902, abs=1e-3), pytest.approx(0.9433, abs=1e-3))
    assert wilson(0, 5)[0] == pytest.approx(0.0)
    assert wilson(5, 5)[1] == pytest.approx(1.0)
    assert wilson(0, 0) == (0.0, 1.0)


def test_rows_count_each_group_under_each_set_up() -> None:
    results = {
        "plain": {task.id: BAD for task in TASKS},
        "kogniterm": {task.id: GOOD for task in TASKS},
    }
    table = {row[0]: row[1:] for row in rows(TASKS, results)}
    talk = sum(task.kind == "talk" for task in TASKS)
    assert table["talk"][0] == str(talk)
    assert table["talk"][1].startswith("0 = 0 %")
    assert table["talk"][2].startswith(f"{talk} = 100 %")
    assert len(terminal(TASKS, results).splitlines()) == len(table) + 1


def test_published_result_has_the_same_tasks_under_both_set_ups() -> None:
    plain, product = (set(published().results[name]) for name in ("plain", "kogniterm"))
    assert plain == product
    assert product <= {task.id for task in TASKS}
    held_out = [task for task in TASKS if task.held_out and task.id in product]
    assert len(held_out) >= 36
    assert {task.lang for task in held_out} == {"en", "es"}


def test_page_says_what_was_published() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(TASKS, published()), (
        "run `python -m benchmarks.eval --page`"
    )


def test_published_result_survives_its_file(tmp_path: Path) -> None:
    published().write(tmp_path / "x.json")
    assert published(tmp_path / "x.json") == published()


def test_kept_results_hold_until_what_they_rest_on_changes(tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    task = TASKS[0]
    Kept(file, "one").put(task, GOOD)
    assert Kept(file, "one").get(task) == GOOD
    assert Kept(file, "two").get(task) is None
    assert Kept(file, "one").get(replace(task, request="something else")) is None
    assert Kept(file, "one", fresh=True).get(task) is None
