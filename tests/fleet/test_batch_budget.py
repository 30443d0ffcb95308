"""Budgets of batches, with many workers at once."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from kogniterm import __version__
from kogniterm.errors import UsageError
from kogniterm.fleet.worker_loop import this_worker
from kogniterm.protocols import WorkerQueue
from kogniterm.types.queue_values import BatchBudget, NewTask, TaskEnd
from tests.fleet.conftest import Fleet, OpenQueue, new
from tests.support.fake_gemini import FakeGemini, text_answer

CENTS = 0.5


def limited(task_id: str, most: float = CENTS) -> NewTask:
    return new(task_id, batch="docs", options=("--max-cost", str(most)))


def claim(queue: WorkerQueue, name: str = "w") -> tuple[str, object] | None:
    worker = replace(this_worker(("default",), 1, __version__), name=name)
    queue.beat(worker)
    task = queue.claim(worker, worker.queues)
    return None if task is None else (task.id, queue.reserve(task))


def end(queue: WorkerQueue, task_id: str, cost: float) -> None:
    assert queue.finish(queue.find(task_id), TaskEnd("done", "done", 0, cost=cost, tokens=9))


def test_a_task_waits_for_what_others_hold_and_ends_where_nothing_is_left(
    open_queue: OpenQueue,
) -> None:
    queue = open_queue()
    queue.add([limited(name) for name in "abcd"], BatchBudget(cost=1.2))
    assert [claim(queue), claim(queue)] == [("a", "room"), ("b", "room")]
    assert claim(queue) == ("c", "later")
    end(queue, "a", 0.1)
    c = queue.find("c")
    assert queue.reserve(c) == "room"  # 0.1 spent, 0.5 held, 0.5 of its own
    end(queue, "b", 0.5)
    end(queue, "c", 0.2)
    found = claim(queue)
    assert found is not None
    assert str(found[1]) == (
        "The budget of batch docs does not suffice: $0.80 of $1.20 are spent, and this task may "
        "cost $0.50."
    )
    # A task that goes on has its own part already.
    assert queue.reserve(queue.find("c")) == "room"


def test_a_budget_needs_limits_of_tasks_and_may_be_changed(open_queue: OpenQueue) -> None:
    queue = open_queue()
    with pytest.raises(UsageError, match="needs --max-cost for its tasks"):
        queue.add([new("a", batch="docs")], BatchBudget(cost=1.0))
    with pytest.raises(UsageError, match="more than the budget of the batch"):
        queue.add([limited("a", 2.0)], BatchBudget(cost=1.0))
    assert queue.tasks() == []
    queue.add([limited("a")], BatchBudget(cost=1.0))
    # Later tasks of the batch are within it, in their whole session.
    with pytest.raises(UsageError, match="needs --max-cost"):
        queue.add([new("b", batch="docs")])
    assert queue.find("a").task.options == ("--max-cost", "0.5", "--max-session-cost", "0.5")
    queue.add([limited("c")], BatchBudget(cost=3.0))
    assert queue.budgets.of("docs").cost == 3.0
    tokens = new("t", batch="words", options=("--max-tokens", "60"))
    queue.add([tokens, replace(tokens, id="u", folder="/u")], BatchBudget(tokens=100))
    assert [claim(queue) for _ in range(4)] == [
        ("a", "room"), ("t", "room"), ("c", "room"), ("u", "later"),
    ]  # fmt: skip


def test_many_workers_at_once_hold_no_more_than_the_budget(open_queue: OpenQueue) -> None:
    setup = open_queue()
    setup.add([limited(f"t{number}") for number in range(24)], BatchBudget(cost=2.0))
    held: list[float] = []
    kinds: list[str] = []

    def work(queue: WorkerQueue, name: str) -> None:
        while (found := claim(queue, name)) is not None:
            kinds.append(str(found[1]))
            if found[1] == "room":
                row = queue.budgets.database.one(
                    "SELECT sum(CASE WHEN state = 'running' THEN reserved_cost ELSE cost END) "
                    "FROM queue_tasks WHERE reserved_cost > 0"
                )
                assert row is not None
                held.append(row[0])
                end(queue, found[0], 0.25)
            else:
                queue.finish(queue.find(found[0]), TaskEnd("failed"))

    queues = [open_queue() for _ in range(4)]
    threads = [threading.Thread(target=work, args=(q, f"w{n}")) for n, q in enumerate(queues)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(held) <= 2.0
    assert 4 <= kinds.count("room") <= 7  # the eighth could cost more than is left
    assert len(kinds) == 24


def test_workers_spend_no_more_than_the_budget_of_a_batch(
    fleet: Fleet, fake_gemini: FakeGemini
) -> None:
    """Each task costs 0.55 dollars: the third would go over."""
    usage = {"promptTokenCount": 1_000_000, "candidatesTokenCount": 100_000}
    fake_gemini.answer_with(lambda body: text_answer("Done.", usage=usage))
    fleet.gemini(fake_gemini.url)
    for name in "abcd":
        fleet.folder(name)
    lines = "\n".join(f'{{"task": "hello", "id": "{n}", "folder": "{n}"}}' for n in "abcd")
    (fleet.base / "tasks.jsonl").write_text(lines)
    words = ["queue", "add", "--file", "tasks.jsonl", "--batch", "docs", "--effort", "default"]
    words += ["--model", "google_genai:gemini-2.5-flash", "--memory", "off", "--plan", "never"]
    told = fleet.run(*words, "--max-cost", "0.6", "--batch-max-cost", "zero", status=2)
    assert "--batch-max-cost needs a number greater than 0" in told
    fleet.run(*words, "--max-cost", "0.6", "--batch-max-cost", "1.5")
    workers = [fleet.worker("--until-empty", "--slots", "2") for _ in range(2)]
    assert [one.wait() for one in workers] == [0, 0]
    with fleet.queue() as queue:
        tasks = queue.tasks()
        counts = queue.counts("docs")
    assert counts.states == {"done": 2, "failed": 2}
    assert counts.cost == pytest.approx(1.1)
    reasons = {str(one.reason) for one in tasks if one.state == "failed"}
    assert reasons == {
        "The budget of batch docs does not suffice: $1.10 of $1.50 are spent, and this task may "
        "cost $0.60."
    }
    assert len(fake_gemini.requests) == 2
