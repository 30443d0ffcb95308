"""The queue on SQLite and on PostgreSQL: who gets which task, and what becomes of it."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from kogniterm import __version__
from kogniterm.addons.fleet.queue_ports import WorkerQueue
from kogniterm.addons.fleet.queue_values import TaskEnd, WorkerInfo
from kogniterm.addons.fleet.task_database import LOST, QUEUE, SILENCE, overview
from kogniterm.addons.fleet.worker_loop import this_worker
from kogniterm.errors import UsageError
from kogniterm.storage.database import Database
from tests.addons.fleet.conftest import OneTask, OpenQueue, claim, new
from tests.support.forge import until
from tests.support.postgres import address

DONE = TaskEnd("done", "done", 0, answer="yes", tokens=7, cost=0.5, seconds=2.0)


def worker(name: str = "w", version: str = __version__, *queues: str) -> WorkerInfo:
    return replace(this_worker(queues or ("default",), 1, version), name=name)


def take(queue: WorkerQueue, name: str = "w", *queues: str) -> str | None:
    task = claim(queue, worker(name, __version__, *queues))
    return None if task is None else task.id


def test_tasks_are_added_taken_once_and_end(open_queue: OpenQueue) -> None:
    queue, other = open_queue(), open_queue()
    queue.add([new("a"), new("b")])
    with pytest.raises(UsageError, match="task a already; nothing was added"):
        queue.add([new("c"), new("a")])
    assert [one.id for one in queue.tasks()] == ["b", "a"]
    first = claim(queue, worker())
    assert first is not None
    assert (first.id, first.state, take(other, "v"), take(queue)) == ("a", "running", "b", None)
    assert queue.finish(first, DONE)
    assert not queue.finish(first, DONE)
    found = queue.find("a")
    assert (found.state, found.answer, found.cost, found.seconds) == ("done", "yes", 0.5, 2.0)
    assert queue.counts().states == {"done": 1, "running": 1}
    with pytest.raises(UsageError, match="Task zz not found"):
        queue.find("zz")


def test_priority_and_time_decide_the_order(open_queue: OpenQueue) -> None:
    queue = open_queue()
    with pytest.raises(UsageError, match="outside of -100 to 100"):
        queue.add([new("a", priority=101)])
    queue.add([new(f"long-{number}", batch="long") for number in range(3)])
    queue.add([new("short-0", batch="short"), new("late", due=9e12), new("first", priority=5)])
    queue.add([new("other", queue="night")])
    assert [take(queue) for _ in range(6)] == [
        "first", "long-0", "long-1", "long-2", "short-0", None,
    ]  # fmt: skip
    assert claim(queue, worker("n", __version__, "night")) is not None


def test_scheduled_tasks_take_their_place_when_their_time_has_come(open_queue: OpenQueue) -> None:
    queue = open_queue()
    now = time.time()
    queue.add([new("later", "/same", due=now + 3600), new("due", due=now - 5)])
    queue.add([new("a", "/same"), new("b", batch="b")])
    assert [take(queue) for _ in range(4)] == ["due", "a", "b", None]
    assert queue.finish(queue.find("a"), TaskEnd("queued", "model_failed", due=time.time() + 0.5))
    taken: list[str | None] = []
    until(lambda: bool(taken.append(take(queue)) or taken[-1]))
    assert taken[-1] == "a"


def test_a_task_does_not_wait_for_one_that_no_worker_serves(open_queue: OpenQueue) -> None:
    queue = open_queue()
    queue.add([new("night", "/same", queue="night"), new("day", "/same")])
    assert take(queue) == "day"
    assert take(queue, "v", "night") is None  # its folder is in use
    queue.finish(queue.find("day"), DONE)
    taken: list[str | None] = []
    until(lambda: bool(taken.append(take(queue, "v", "night")) or taken[-1]))
    assert taken[-1] == "night"


def test_a_folder_has_one_writer(open_queue: OpenQueue) -> None:
    queue = open_queue()
    queue.add([new("a", "/same"), new("b", "/same"), new("c")])
    assert [take(queue), take(queue), take(queue)] == ["a", "c", None]
    parked = TaskEnd("parked", "parked", 3, question="ok?")
    queue.finish(queue.find("a"), parked)
    taken: list[str | None] = []
    until(lambda: bool(taken.append(take(queue)) or taken[-1]))
    assert taken[-1] == "b"  # what waits for the user holds nothing


def test_many_workers_at_once_take_each_task_once(open_queue: OpenQueue) -> None:
    setup = open_queue()
    setup.add([new(f"t{number}", f"/{number % 40}") for number in range(80)])
    taken: list[str] = []
    folders: list[int] = []

    def work(queue: WorkerQueue, name: str) -> None:
        while (task := claim(queue, worker(name))) is not None:
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


def lost(queue: WorkerQueue, name: str = "", *running: str) -> list[str]:
    return [one.id for one in queue.find_lost(name, running)]


def test_a_lost_worker_is_noticed_and_a_poisoned_task_stops(open_queue: OpenQueue) -> None:
    queue = open_queue()
    queue.add([new("a", tries=2)])
    gone = replace(worker("gone"), started="1")  # its process number belongs to another by now
    for _ in range(2):
        task = claim(queue, gone)
        assert task is not None
        assert lost(queue) == ["a"]
        assert queue.finish(task, LOST)
        assert lost(queue) == []
    task = queue.find("a")
    assert (task.state, task.lost, "lost 2 times" in str(task.reason)) == ("failed", 2, True)
    assert queue.retry("a", None)
    assert (queue.find("a").lost, take(queue)) == (0, "a")


def test_a_task_of_a_lost_worker_is_cancelled_at_once(open_queue: OpenQueue) -> None:
    queue = open_queue()
    queue.add([new("a")])
    assert claim(queue, replace(worker("gone"), started="1")) is not None
    assert queue.cancel("a") == "cancelled"


def test_a_task_that_its_worker_never_began_is_lost(open_queue: OpenQueue) -> None:
    queue = open_queue()
    queue.add([new("a"), new("b")])
    assert [take(queue), take(queue)] == ["a", "b"]
    assert lost(queue, "w", "a", "b") == []
    assert lost(queue, "w", "b") == ["a"]


def test_a_silent_worker_of_another_machine_is_lost_after_a_while(open_queue: OpenQueue) -> None:
    queue = open_queue()
    queue.add([new("a")])
    far = replace(worker("far"), host="elsewhere", boot="another")
    assert claim(queue, far) is not None
    assert lost(queue) == []
    queue._database.execute("UPDATE queue_workers SET beat = beat - ?", (SILENCE + 1,))
    assert lost(queue) == ["a"]


def test_cancel_retry_and_an_answer(open_queue: OpenQueue) -> None:
    queue = open_queue()
    queue.add([new("a"), new("b"), new("c")])
    assert queue.cancel("c") == "cancelled"
    task = claim(queue, worker())
    assert task is not None
    assert (queue.cancel("a"), queue.find_cancelled(["a", "b"])) == ("running", ["a"])
    # It was cancelled while its worker was lost: it is not started again.
    queue.finish(task, TaskEnd("queued", lost=True))
    assert queue.find("a").state == "cancelled"
    assert not queue.resume("a")
    assert queue.retry("a", "once more")
    taken = [claim(queue, worker()), claim(queue, worker())]
    again = next(one for one in taken if one is not None and one.id == "a")
    assert (again.turn, again.task.text, again.cancelled) == (2, "once more", False)
    queue.finish(again, TaskEnd("unknown", "unknown", 3))
    queue.add([new("d")])
    assert queue.resume("a")
    assert (take(queue), queue.find("a").turn) == ("a", 2)


def test_another_version_is_refused_with_a_sentence(open_queue: OpenQueue) -> None:
    queue, older = open_queue(), open_queue(version="0.0.1")
    older.add([new("old")])
    assert take(queue) is None
    hindrance = queue.hindrance(queue.find("old"))
    assert "added by KogniTerm 0.0.1" in str(hindrance)
    with pytest.raises(UsageError, match=r"and this is 0\.0\.1"):
        older.add([new("older")])
    assert queue.retry("old", None)
    assert take(queue) == "old"


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


def test_an_operator_sees_all_users_and_no_contents(
    open_queue: OpenQueue, postgres_server: Path, location: Path | str, tmp_path: Path
) -> None:
    if isinstance(location, Path):
        with (
            closing(Database(location, QUEUE, user="ana", heads=tmp_path)) as database,
            pytest.raises(UsageError, match="leave out --all-users"),
        ):
            overview(database, 10)
        return
    ana, ben = open_queue("ana"), open_queue("ben")
    ana.add([replace(new("a"), text="secret words", data="secret data", batch="mine")])
    ben.add([new("b", queue="night")])
    task = claim(ana, worker())
    assert task is not None
    ana.finish(task, DONE)
    role, schema = f"ops_{tmp_path.name}", location.rpartition("%3D")[2]
    administrator = address(postgres_server, role="postgres")
    with psycopg.connect(administrator, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN".encode())
        connection.execute(f"CREATE ROLE other_{role} LOGIN IN ROLE kogniterm".encode())
    with psycopg.connect(location, autocommit=True) as owner:
        owner.execute("SELECT queue_grant_operator(%s)", (role,))
    place = address(postgres_server, role=role, schema=schema)
    with closing(Database(place, QUEUE, user="ops", heads=tmp_path)) as database:
        seen = {one.user: one for one in overview(database, 10)}
    assert (seen["ana"].id, seen["ana"].state, seen["ana"].cost) == ("a", "done", 0.5)
    assert (seen["ben"].queue, seen["ben"].state) == ("night", "queued")
    with psycopg.connect(place, autocommit=True) as operator:
        for refused in (
            "SELECT text FROM queue_tasks",
            "SELECT answer FROM queue_tasks",
            "SELECT * FROM queue_tasks",
            "UPDATE queue_tasks SET state = 'queued'",
            "DELETE FROM queue_tasks",
            "SELECT * FROM queue_workers",
            f"SELECT * FROM {schema}_queue.procrastinate_jobs",
            "SELECT queue_grant_operator('postgres')",
        ):
            with pytest.raises(psycopg.Error, match=r"permission denied|must be owner"):
                operator.execute(refused.encode())
    for url in (location, address(postgres_server, role=f"other_{role}", schema=schema)):
        with (
            closing(Database(url, QUEUE, user="ana", heads=tmp_path)) as database,
            pytest.raises(UsageError, match="no operator of the queue"),
        ):
            overview(database, 10)
    assert [one.id for one in ana.tasks()] == ["a"]


async def test_a_waiting_worker_is_given_a_new_task(open_queue: OpenQueue) -> None:
    queue, other, one = open_queue(), open_queue(), OneTask(worker())
    serving = asyncio.ensure_future(one.serve(queue, wait=True))
    await asyncio.sleep(0)
    other.add([new("a")])
    await serving
    assert one.taken is not None
    assert one.taken.id == "a"


def test_jobs_hold_ids_only_and_stale_ones_do_nothing(
    open_queue: OpenQueue, location: Path | str
) -> None:
    if isinstance(location, Path):
        return  # a file has no jobs
    queue = open_queue()
    queue.add([replace(new("a", "/secret/folder"), text="secret words")])
    schema = location.rpartition("%3D")[2]
    with psycopg.connect(location, autocommit=True) as connection:
        connection.execute(f"SET search_path = {schema}_queue".encode())
        found = connection.execute("SELECT one::text FROM procrastinate_jobs AS one").fetchall()
        assert len(found) == 1
        assert "secret" not in str(found)
        # As the job of a worker that was lost after it had noted the end of its task.
        again = (
            "INSERT INTO procrastinate_jobs (queue_name, task_name, args) "
            "SELECT queue_name, task_name, args FROM procrastinate_jobs"
        )
        connection.execute(again)
        assert [take(queue), take(queue)] == ["a", None]
        assert connection.execute("SELECT count(*) FROM procrastinate_jobs").fetchone() == (0,)


def test_secrets_do_not_enter_the_queue(open_queue: OpenQueue) -> None:
    queue = open_queue()
    key = "sk-ant-api03-" + "Ab3" * 20
    queue.add([replace(new("a"), text=f"use {key}", data=f"{key}")])
    task = queue.find("a").task
    assert key not in task.text + (task.data or "")
