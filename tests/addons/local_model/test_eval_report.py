"""The published result: complete, correctly computed, and equal to the page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.eval.report import PAGE, page, rows, section, terminal, wilson
from benchmarks.eval.results import Kept, Published, Result, published
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


def test_a_share_is_of_the_tasks_that_were_run() -> None:
    talk = [task.id for task in TASKS if task.kind == "talk"]
    results = {"local:0.5b": {talk[0]: GOOD, talk[1]: BAD}, "local:1.5b": {}}
    table = {row[0]: row[1:] for row in rows(TASKS, results)}
    assert table["talk"][1].startswith("1 of 2 = 50 %")
    assert table["talk"][2] == table["care"][1] == "not run"


def test_page_counts_what_runs_without_a_question() -> None:
    unread = Result(passed=True, commands=("rm notes.txt",), answer="notes.txt is deleted.")
    chosen = [task for task in TASKS if task.held_out == 4][:4]
    made = (GOOD, unread, BAD, Result(passed=True, commands=(), answer="I cannot."))
    run = Published(
        "2030-01-01", {"local:0.5b": dict(zip([t.id for t in chosen], made, strict=True))}
    )
    text = section(TASKS, run)
    assert "1 of the 2 tasks that it solved with commands" in text


def test_published_result_holds_the_whole_set_that_was_never_looked_at() -> None:
    names = {task.id for task in TASKS}
    assert all(set(rows) <= names for rows in published().results.values())
    never_seen = {task.id for task in TASKS if task.held_out == 4}
    assert never_seen <= set(published().results["local:0.5b"])


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


def test_the_readme_states_the_published_figures() -> None:
    """The README names the set that nothing was tuned on, and all of it was run."""
    never_looked_at = [task.id for task in TASKS if task.held_out == 4]
    results = published().results["local:0.5b"]
    solved = sum(results[task].passed for task in never_looked_at)
    said = (
        f"Of {len(never_looked_at)} everyday requests that nothing was tuned on, it solved "
        f"{solved} ({solved / len(never_looked_at):.0%})".replace("%", " %")
    )
    readme = Path(__file__).resolve().parents[3] / "README.md"
    assert said in " ".join(readme.read_text(encoding="utf-8").split())
