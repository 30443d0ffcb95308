"""Workers and their children as real processes: killed, cancelled, drained and answered."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import psycopg

from kogniterm.addons.fleet.worker_loop import this_worker
from kogniterm.runtime.unattended.signed_answers import (
    open_question,
    store_answer,
)
from kogniterm.sessions.chain_audit import verify_all
from tests.addons.fleet.conftest import Fleet, children_in
from tests.support.fake_gemini import FakeGemini
from tests.support.forge import until
from tests.support.postgres import address, go_on, start, stop

ACT = """replies:
  - {when: {last_contains: "GO"}, run: "COMMAND"}
  - {when: {last_contains: "Continue with the task"}, text: "Continued."}
  - {text: "Done.", repeat: forever}
"""
RUN = ("--no-sandbox", "--plan", "never", "--memory", "off")


def script(fleet: Fleet, command: str) -> str:
    return fleet.script(f"act-{abs(hash(command))}", ACT.replace("COMMAND", command))


def add(fleet: Fleet, task: str, command: str, *options: str) -> Path:
    """Add a task in a folder of its own that runs one command."""
    folder = fleet.folder(task)
    model = script(fleet, command)
    words = ["queue", "add", "GO", "--id", task, "-C", str(folder), "--model", model, *RUN]
    fleet.run(*words, *options)
    return folder


def counted(fleet: Fleet, name: str) -> str:
    """Return what the commands of a task have appended to its file."""
    file = fleet.base / name / "count"
    return file.read_text() if file.exists() else ""


def test_workers_killed_at_any_moment_run_no_command_twice(either_fleet: Fleet) -> None:
    """Kill workers and children in the middle; others continue, and nothing runs twice."""
    fleet = either_fleet
    names = [f"t{number}" for number in range(6)]
    model = script(fleet, "echo x >>count; sleep 0.5")
    lines = [
        json.dumps({"task": "GO", "id": name, "folder": str(fleet.folder(name))}) for name in names
    ]
    (fleet.base / "tasks.jsonl").write_text("\n".join(lines))
    fleet.run(
        "queue",
        "add",
        "--file",
        "tasks.jsonl",
        "--batch",
        "kills",
        "-y",
        *RUN,
        "--model",
        model,
        "--tries",
        "9",
    )
    first, second = fleet.worker("--slots", "2"), fleet.worker("--slots", "2")
    until(lambda: any((fleet.base / name / "count").exists() for name in names))
    first.send_signal(signal.SIGKILL)  # its children go on without it
    until(lambda: sum((fleet.base / name / "count").exists() for name in names) >= 3)
    second.send_signal(signal.SIGKILL)
    for pid in children_in(fleet.base):  # a machine that fails takes everything along
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for worker in (first, second):
        worker.wait()
    fleet.worker("--slots", "2", "--until-empty").wait()
    with fleet.queue() as queue:
        states = {one.id: one.state for one in queue.tasks(batch="kills")}
    assert set(states.values()) <= {"done", "unknown"}, states
    assert "done" in states.values()
    store, key = fleet.sessions(), fleet.base / "config" / "queue.key"
    for name, state in states.items():
        if state == "done":
            assert counted(fleet, name) == "x\n"
        else:  # killed after the start was noted, before or after the first effect
            assert counted(fleet, name) in ("", "x\n")
            question = open_question(store, name, key)
            assert question is not None
            assert question.kind == "unknown"
            store_answer(store, name, question.digest, "skip", "", key)
            with fleet.queue() as queue:
                assert queue.resume(name)
    assert all(report.intact for report in verify_all(store.database).sessions)
    store.close()
    before = {name: counted(fleet, name) for name in names}
    fleet.worker("--slots", "2", "--until-empty").wait()
    with fleet.queue() as queue:
        assert {one.state for one in queue.tasks(batch="kills")} == {"done"}
    assert {name: counted(fleet, name) for name in names} == before


def test_one_of_two_workers_is_killed_and_the_other_does_all(either_fleet: Fleet) -> None:
    fleet = either_fleet
    names = [f"t{number}" for number in range(4)]
    command = "echo x >>count; while ! [ -e ../go ]; do sleep 0.05; done"
    for name in names:
        add(fleet, name, command, "-y", "--tries", "9")
    first, second = fleet.worker(), fleet.worker()
    until(lambda: sum((fleet.base / name / "count").exists() for name in names) == 2)
    first.kill()  # its child goes on
    first.wait()
    (fleet.base / "go").touch()
    for name in names:
        fleet.until_state(name, "done")
    assert all((fleet.base / name / "count").read_text() == "x\n" for name in names)
    begin = f"{socket.gethostname()}-{second.pid}-"
    assert all(fleet.task(name).worker.startswith(begin) for name in names)
    assert sum(fleet.task(name).lost for name in names) == 1


def test_a_worker_does_so_many_tasks_of_a_queue_at_once(fleet: Fleet) -> None:
    command = "touch begun; while ! [ -e ../go ]; do sleep 0.05; done"
    folders = {
        name: add(fleet, name, command, "-y", "--queue", name.partition("-")[0])
        for name in ("night-1", "night-2", "day-1")
    }
    fleet.worker("--queues", "night:1,day", "--slots", "3", "--until-empty")
    until(lambda: all((folders[name] / "begun").exists() for name in ("night-1", "day-1")))
    assert fleet.task("night-2").state == "queued"
    assert not (folders["night-2"] / "begun").exists()
    (fleet.base / "go").touch()
    fleet.until_state("night-2", "done")


def test_a_worker_outlives_a_locked_file(fleet: Fleet) -> None:
    folder = add(fleet, "long", "touch begun; while ! [ -e go ]; do sleep 0.05; done", "-y")
    worker = fleet.worker("--slots", "2")
    until((folder / "begun").exists)
    with closing(sqlite3.connect(fleet.location, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        until(lambda: "The database is away" in fleet.log(0))
        other.execute("ROLLBACK")
    until(lambda: "The database is back" in fleet.log(0))
    (folder / "go").touch()
    assert fleet.until_state("long", "done").lost == 0
    assert worker.poll() is None


def test_workers_and_their_tasks_outlive_a_restart_of_the_server(fleet: Fleet) -> None:
    server = start(os.getpid())
    with psycopg.connect(address(server), autocommit=True) as administrator:
        administrator.execute("CREATE SCHEMA one")
    fleet.location = address(server, schema="one")
    command = "echo x >>count; touch begun; while ! [ -e go ]; do sleep 0.05; done"
    folders = [add(fleet, name, command, "-y") for name in ("long", "ends")]
    worker = fleet.worker("--slots", "2")
    for folder in folders:
        until((folder / "begun").exists)
    stop(server)
    until(lambda: "The database is away" in fleet.log(0))
    (folders[1] / "go").touch()  # one ends while the server is away
    go_on(server)
    until(lambda: "The database is back" in fleet.log(0))
    (folders[0] / "go").touch()
    for name in ("long", "ends"):
        assert fleet.until_state(name, "done").worker
    assert all((folder / "count").read_text() == "x\n" for folder in folders)
    add(fleet, "later", "true", "-y")
    fleet.until_state("later", "done")
    worker.send_signal(signal.SIGTERM)
    assert worker.wait() == 0


def test_a_child_without_its_worker_is_stopped_when_its_task_is_cancelled(
    either_fleet: Fleet,
) -> None:
    fleet = either_fleet
    folders = {name: add(fleet, name, "echo $$ >pid; sleep 600", "-y") for name in ("a", "b")}
    worker = fleet.worker("--slots", "2")
    for folder in folders.values():
        until(lambda folder=folder: (folder / "pid").exists() and (folder / "pid").read_text())
    pids = {name: int((folder / "pid").read_text()) for name, folder in folders.items()}
    worker.kill()
    worker.wait()
    # Without any worker, the command stops the child; with one, the worker would do it too.
    assert "a: cancelled." in fleet.run("queue", "cancel", "a")
    until(lambda: not Path(f"/proc/{pids['a']}").exists())
    with fleet.queue() as queue:
        queue.cancel("b")
    assert Path(f"/proc/{pids['b']}").exists()
    other = fleet.worker()
    fleet.until_state("b", "cancelled")
    until(lambda: not Path(f"/proc/{pids['b']}").exists())
    other.send_signal(signal.SIGTERM)
    assert other.wait() == 0


def test_a_cancelled_task_ends_whole_and_an_answered_one_continues(fleet: Fleet) -> None:
    slow = add(fleet, "slow", "echo $$ >pid; sleep 600", "-y")
    asks = add(fleet, "asks", "touch made")
    worker = fleet.worker("--slots", "2")
    parked = fleet.until_state("asks", "parked")
    assert (parked.stop, (asks / "made").exists()) == ("parked", False)
    listed = json.loads(fleet.run("queue", "inbox", "--json"))
    assert [(one["session"], one["command"]) for one in listed] == [("asks", "touch made")]
    until(lambda: (slow / "pid").exists() and (slow / "pid").read_text().strip() != "")
    assert "its worker stops it" in fleet.run("queue", "cancel", "slow")
    ended = fleet.until_state("slow", "cancelled")
    assert ended.stop == "interrupted"
    pid = int((slow / "pid").read_text())
    until(lambda: not Path(f"/proc/{pid}").exists())
    words = ["queue", "answer", "asks", "approve", "--digest", listed[0]["digest"]]
    assert "The task continues." in fleet.run(*words)
    assert fleet.until_state("asks", "done").answer == "Done."
    assert (asks / "made").exists()
    worker.send_signal(signal.SIGTERM)
    assert worker.wait() == 0
    with fleet.queue() as queue:
        assert queue.workers() == []


def test_an_answer_in_a_file_names_its_session_as_the_command_line_does(fleet: Fleet) -> None:
    folder = add(fleet, "asks", "touch made")
    worker = fleet.worker()
    fleet.until_state("asks", "parked")
    (question,) = json.loads(fleet.run("queue", "inbox", "--json"))
    answers = folder / "answers.jsonl"
    line = {"session": "ask", "digest": question["digest"], "answer": "approve"}
    answers.write_text(json.dumps(line))
    assert "1 answers saved." in fleet.run("queue", "answer", "--file", str(answers))
    assert fleet.until_state("asks", "done").answer == "Done."
    worker.send_signal(signal.SIGTERM)
    assert worker.wait() == 0


def test_a_drained_worker_ends_its_tasks_or_hands_them_over(fleet: Fleet) -> None:
    short = add(fleet, "short", "touch begun; while ! [ -e go ]; do sleep 0.05; done", "-y")
    worker = fleet.worker()
    until((short / "begun").exists)
    add(fleet, "later", "true", "-y")
    worker.send_signal(signal.SIGTERM)
    until(lambda: b"They end first" in (fleet.base / "worker-0.log").read_bytes())
    (short / "go").touch()
    assert worker.wait() == 0
    states = (fleet.task("short").state, fleet.task("later").state)
    assert states == ("done", "queued")
    long = add(fleet, "long", "touch begun; sleep 600", "-y")
    fleet.run("queue", "cancel", "later")
    worker = fleet.worker()
    until((long / "begun").exists)
    worker.send_signal(signal.SIGINT)
    until(lambda: b"They end first" in (fleet.base / "worker-1.log").read_bytes())
    worker.send_signal(signal.SIGINT)
    assert worker.wait() == 0
    assert fleet.task("long").state == "queued"
    fleet.worker("--until-empty").wait()
    task = fleet.task("long")
    assert (task.state, task.answer, task.turn, task.lost) == ("done", "Continued.", 2, 0)


def test_a_poisoned_task_stops_and_a_missing_folder_is_told(fleet: Fleet) -> None:
    add(fleet, "poison", "true", "-y", "--tries", "2")
    gone = add(fleet, "gone", "true", "-y")
    (gone).rmdir()
    worker = fleet.worker("--until-empty", faults="kill:before-intent")
    assert worker.wait() == 0
    poisoned = fleet.task("poison")
    assert (poisoned.state, poisoned.lost) == ("failed", 2)
    assert "lost 2 times" in str(poisoned.reason)
    assert "No folder" in str(fleet.task("gone").reason)


def test_a_rate_limited_task_waits_for_the_provider(fleet: Fleet, fake_gemini: FakeGemini) -> None:
    fake_gemini.fail(429, "quota", retry_after=3600)
    fleet.gemini(fake_gemini.url)
    words = ["queue", "add", "hello", "--id", "limited", "--model", "google_genai:gemini-2.5-flash"]
    fleet.run(*words, *RUN, "--effort", "default")
    worker = fleet.worker()
    until(lambda: fleet.task("limited").task.due > 0)
    task = fleet.task("limited")
    assert (task.state, task.lost, task.stop) == ("queued", 0, "model_failed")
    assert task.task.due - task.updated > 3000
    worker.send_signal(signal.SIGTERM)
    assert worker.wait() == 0


def test_a_folder_of_a_task_cannot_replace_modules(fleet: Fleet) -> None:
    folder = add(fleet, "planted", "touch made", "-y")
    (folder / "kogniterm").mkdir()
    for name in ("__init__.py", "__main__.py"):
        (folder / "kogniterm" / name).write_text("open('taken', 'w').close()\n")
    fleet.run("worker", "--until-empty")
    assert (folder / "made").exists()
    assert not (folder / "taken").exists()


def test_a_worker_with_the_number_of_a_lost_one_has_another_name() -> None:
    """In a container, the first process has the same number after every restart."""
    first, second = (this_worker(("default",), 1, "1.0") for _ in range(2))
    assert (first.pid, first.host) == (second.pid, second.host)
    assert first.name != second.name
