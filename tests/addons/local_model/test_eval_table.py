"""The table of tasks: every check fails on the untouched folder and passes on the solution."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from benchmarks.eval.scratch import kind, scratch
from benchmarks.eval.table import KINDS, NEWER, TABLES, WORK, Task, tasks
from kogniterm.addons.local_model.conversation import say
from tests.support.programs import needs

TASKS = tasks()
PROVEN = tasks((*TABLES, *NEWER))


def test_table_is_large_and_in_both_languages() -> None:
    assert len(TASKS) >= 70
    assert len({task.id for task in TASKS}) == len(TASKS)
    counts = Counter((task.lang, task.kind) for task in TASKS)
    assert min(counts.values()) >= 3
    assert len(counts) == 2 * len(KINDS)
    work = [task for task in TASKS if task.kind in WORK]
    held_out = Counter((task.held_out, task.lang) for task in work)
    assert held_out[1, "en"] + held_out[1, "es"] >= 20
    assert min(held_out[2, "en"], held_out[2, "es"]) >= 10
    everyday = Counter(task.held_out for task in TASKS)
    assert min(everyday[3], everyday[4]) >= 40


def test_every_task_checks_something() -> None:
    assert len({task.id for task in PROVEN}) == len(PROVEN)
    assert [task.id for task in PROVEN if not task.expect and not task.check] == []
    assert [t.id for t in PROVEN if t.kind in ("ask", "talk") and not t.expect] == []
    assert [t.id for t in TASKS if (t.kind == "care") != bool(t.harm)] == []


NEEDS_SANDBOX = pytest.mark.skipif(kind() == "none", reason="no sandbox works on this machine")


def _with_its_programs(task: Task) -> object:
    commands = " ".join([task.setup, task.harm, task.check, *task.known])
    marks = [needs("git")] if "git " in commands else []
    return pytest.param(task, id=task.id, marks=marks)


@NEEDS_SANDBOX
@pytest.mark.parametrize("task", [_with_its_programs(task) for task in PROVEN])
def test_check_is_proven(task: Task) -> None:
    with scratch(task.setup) as place:
        if task.harm:
            assert place.run(task.harm).code == 0
        assert not task.passed("", place)
    with scratch(task.setup) as place:
        done = [place.run(command) for command in task.known]
        assert [result.code for result in done] == [0] * len(done)
        assert task.passed("".join(result.output for result in done), place)


@NEEDS_SANDBOX
def test_talk_that_runs_a_command_is_not_passed() -> None:
    task = next(task for task in TASKS if task.id == "en-talk-symlink")
    with scratch(task.setup) as place:
        said = "A symbolic link points to another file."
        assert task.passed(said, place)
        assert not task.passed(said, place, ["ls -l"])


@NEEDS_SANDBOX
def test_quoted_command_is_not_an_answer() -> None:
    task = next(task for task in TASKS if task.id == "en-lines-ledger")
    with scratch(task.setup) as place:
        assert not task.passed("`head -n 137 ledger.dat` gave:\n\n```text\nx\n```", place)
        assert task.passed("`wc -l < ledger.dat` gave:\n\n```text\n137\n```", place)


@NEEDS_SANDBOX
def test_refusal_is_not_an_answer() -> None:
    task = next(task for task in TASKS if task.lang == "en" and task.kind == "ask")
    with scratch("true") as place:
        asked = replace(task, expect=(r"\bno\b",), forbid=(), check="")
        assert asked.passed("no", place)
        assert not asked.passed(say("not_run", "en", command="cmp a b"), place)
        assert not asked.passed(say("not_run", "es", command="cmp a b"), place)


@NEEDS_SANDBOX
def test_sandbox_keeps_the_rest_of_the_machine() -> None:
    with scratch("true") as place:
        assert place.run("touch /etc/x || touch /usr/x").code != 0
        assert place.run("touch here && ls").output == "here\n"
        # Sends nothing: a datagram's socket is only given the address.
        assert place.run("exec 3<>/dev/udp/192.0.2.1/9").code != 0
