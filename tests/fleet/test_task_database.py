"""The queue on SQLite and on PostgreSQL: who gets which task, and what becomes of it."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from kogniterm import __version__
from kogniterm.errors import UsageError
from kogniterm.fleet.task_database import SILENCE, DatabaseQueue
from kogniterm.fleet.worker_loop import this_worker
from kogniterm.types.queue_values import TaskEnd, WorkerInfo
from tests.fleet.conftest import OpenQueue, new

DONE = TaskEnd("done", "done", 0, answer="yes", tokens=7, cost=0.5, seconds=2.0)


def worker(name: str = "w", version: str = __version__, *queues: str) -> WorkerInfo:
    return replace(this_worker(queues or ("default",), 1, version), name=name)


def take(queue: DatabaseQueue, name: str = "w") -> str | None:
    task = queue.claim(worker(name))
    return None if task is None else task.id


def test_tasks_are_added_taken_once_and_end(open_queue: OpenQueue) -> None:
    queue, other = open_queue(), open_queue()
    queue.add([new("a"), new("b")])
    with pytest.raises(UsageError, match="task a already; nothing was added"):
        queue.add([new("c"), new("a")])
    assert [one.id for one in queue.tasks()] == ["b", "a"]
    first = queue.claim(worker())
    assert first is not None
    assert (first.id, first.state, take(other, "v"), take(queue)) == ("a", "running", "b", None)
    assert queue.finish(first, DONE)
    assert not queue.finish(first, DONE)
    found = queue.find("a")
    assert (found.state, found.answer, found.cost, found.seconds) == ("done", "yes", 0.5, 2.0)
    assert queue.counts().states == {"done": 1, "running": 1}
    with pytest.raises(UsageError, match="Task zz not found"):
        queue.find("zz")


def test_priority_time_and_batches_decide_the_order(open_queue: OpenQueue) -> None:
    queue = open_queue()
    queue.add([new(f"long-{number}", batch="long") for number in range(3)])
    queue.add([new("short-0", batch="short"), new("late", due=9e12), new("first", priority=5)])
    queue.add([new("other", queue="night")])
    # A long batch does not hold up a short one.
    assert [take(queue) for _ in range(6)] == [
        "first", "long-0", "short-0", "long-1", "long-2", None,
    ]  # fmt: skip
    assert queue.claim(worker("n", __version__, "night")) is not None


def test_a_folder_has_one_writer(open_queue: OpenQueue) -> None:
    queue = open_queue()
    queue.add([new("a", "/same"), new("b", "/same"), new("c")])
    assert [take(queue), take(queue), take(queue)] == ["a", "c", None]
    parked = TaskEnd("parked", "parked", 3, question="ok?")
    queue.finish(queue.find("a"), parked)
    assert take(queue) == "b"  # what waits for the user holds nothing


def test_many_workers_at_once_take_each_task_once(open_queue: OpenQueue) -> None:
    setup = open_queue()
    setup.add([new(f"t{number}", f"/{number % 40}") for number in range(80)])
    taken: list[str] = []
    folders: list[int] = []

    def work(queue: DatabaseQueue, name: str) -> None:
        while (task := queue.claim(worker(name))) is not None:
            running = [one.task.folder for one in queue.tasks(states=("running",))]
            folders.append(len(running) - len(set(running)))
            taken.append(task.id)
            queue.finish(task, DONE)

    queues = [open_queue() for _ in range(4)]
    threads = [threading.Thread(target=work, args=(q, f"w{n}")) for n, q in enumerate(queues)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == sorted(f"t{number}" for number in range(80))
    assert set(folders) == {0}


def test_a_lost_worker_is_noticed_and_a_poisoned_task_stops(open_queue: OpenQueue) -> None:
    queue = open_queue()
    queue.add([new("a", tries=2)])
    gone = replace(worker("gone"), started="1")  # its process number belongs to another by now
    queue.register(gone)
    for _ in range(2):
        assert queue.claim(gone) is not None
        assert queue.recover() == ["a"]
        assert queue.recover() == []
    task = queue.find("a")
    assert (task.state, task.lost, "lost 2 times" in str(task.reason)) == ("failed", 2, True)
    assert queue.retry("a", None)
    assert (queue.find("a").lost, take(queue)) == (0, "a")


def test_a_silent_worker_of_another_machine_is_lost_after_a_while(open_queue: OpenQueue) -> None:
    queue = open_queue()
    queue.add([new("a")])
    far = replace(worker("far"), host="elsewhere", boot="another")
    queue.register(far)
    assert queue.claim(far) is not None
    assert queue.recover() == []
    queue._database.execute("UPDATE queue_workers SET beat = beat - ?", (SILENCE + 1,))
    assert queue.recover() == ["a"]


def test_cancel_retry_and_an_answer(open_queue: OpenQueue) -> None:
    queue = open_queue()
    queue.add([new("a"), new("b"), new("c")])
    assert queue.cancel("c") == "cancelled"
    task = queue.claim(worker())
    assert task is not None
    assert (queue.cancel("a"), queue.cancelled_of("w")) == ("running", ["a"])
    # It was cancelled while its worker was lost: it is not started again.
    queue.finish(task, TaskEnd("queued", lost=True))
    assert queue.find("a").state == "cancelled"
    assert not queue.resume("a")
    assert queue.retry("a", "once more")
    again = queue.claim(worker())
    assert again is not None
    assert (again.id, again.turn, again.task.text, again.cancelled) == ("a", 2, "once more", False)
    queue.finish(again, TaskEnd("unknown", "unknown", 3))
    assert queue.resume("a")
    assert queue.find("a").turn == 2


def test_another_version_is_refused_with_a_sentence(open_queue: OpenQueue) -> None:
    queue, older = open_queue(), open_queue(version="0.0.1")
    older.add([new("old")])
    queue.register(worker())
    assert take(queue) is None
    hindrance = queue.hindrance(queue.find("old"))
    assert "added by KogniTerm 0.0.1" in str(hindrance)
    with pytest.raises(UsageError, match=r"and this is 0\.0\.1"):
        older.add([new("older")])
    assert queue.retry("old", None)
    assert take(queue) == "old"


@pytest.mark.postgres
def test_another_user_sees_and_changes_nothing(open_queue: OpenQueue, location: Path | str) -> None:
    if isinstance(location, Path):
        return  # a file belongs to one user
    mine, other = open_queue("ana"), open_queue("ben")
    mine.add([new("a")])
    mine.register(worker())
    assert (other.tasks(), other.workers(), take(other), other.counts().total) == ([], [], None, 0)
    with pytest.raises(UsageError, match="not found"):
        other.cancel("a")
    assert mine.find("a").state == "queued"
    other.add([new("a")])  # IDs are each user's own
    assert len(other.tasks()) == 1


def test_secrets_do_not_enter_the_queue(open_queue: OpenQueue) -> None:
    queue = open_queue()
    key = "sk-ant-api03-" + "Ab3" * 20
    queue.add([replace(new("a"), text=f"use {key}", data=f"{key}")])
    task = queue.find("a").task
    assert key not in task.text + (task.data or "")
