"""The progress of a queue: what has ended, how fast, and how long the rest takes."""

from __future__ import annotations

from kogniterm.addons.fleet.queue_values import QueueCounts
from kogniterm.addons.fleet.task_table import progress_lines


def bar(counts: QueueCounts, rate: float, *, unicode: bool = True) -> str:
    return str(progress_lines(counts, rate, (), unicode=unicode)[0])


def test_rate_and_time_left_are_shown_once_tasks_have_ended() -> None:
    counts = QueueCounts(states={"done": 2, "queued": 1, "running": 1})
    assert "2 / 4  30.0 a minute  about 4.0 s left" in bar(counts, 0.5)
    assert bar(counts, 0.0).endswith("2 / 4")
    assert bar(QueueCounts(states={"done": 4}), 0.5).endswith("4 / 4  30.0 a minute")


def test_the_bar_is_as_full_as_the_queue_is_done() -> None:
    half = QueueCounts(states={"done": 1, "queued": 1})
    shown = bar(half, 0.0)
    assert shown.count("█") == shown.count("░") > 0
    assert "#" in bar(half, 0.0, unicode=False)
    assert bar(QueueCounts(), 0.0).endswith("0 / 0")


def test_tasks_that_wait_for_an_answer_are_named() -> None:
    lines = progress_lines(QueueCounts(states={"parked": 1}), 0.0, (), unicode=True)
    assert "kogniterm queue inbox" in str(lines[-1])
