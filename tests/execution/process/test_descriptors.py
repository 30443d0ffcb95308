"""Descriptors pass from command to command as in one shell; those that cannot are reported."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from kogniterm.execution import open_executor
from kogniterm.execution.process.descriptors import Descriptors
from tests.support.executing import PATIENCE, run_each
from tests.support.programs import needs

LINES = "printf '1\\n2\\n3\\n' > in"
CASES = [
    ("a file written through", [
        ("exec 3>f", ""), ("echo one >&3", ""), ("echo two >&3; exec 3>&-", ""),
        ("cat f", "one\ntwo"),
        ("echo x >&3", "bash: line 1: 3: Bad file descriptor"),
    ]),
    ("a file read on", [
        (f"{LINES}; exec 4<in", ""), ("read -u 4 a", ""), ("read -u 4 b; echo $a $b", "1 2"),
    ]),
    ("a number that bash chose", [
        (f"{LINES}; exec {{fd}}<in", ""), ("read -u $fd x; echo $x", "1"),
        ("exec {fd}<&-; cat <&$fd", "bash: line 1: $fd: Bad file descriptor"),
    ]),
    ("read and written", [("exec 5<>f; echo hey >&5", ""), ("cat f; cat <&5", "hey")]),
    ("the terminal by another number", [
        ("exec 6>&1 7<&0", ""), ("echo seen >&6", "seen"), ("test -t 7 && echo yes", "yes"),
    ]),
    ("a process that reads what is written", [
        ("exec 6> >(sed s/^/tag:/ >f; touch end)", ""), ("echo through >&6", ""),
        ("exec 6>&-; until test -e end; do sleep 0.02; done; cat f", "tag:through"),
    ]),
    ("a fifo", [("mkfifo p; exec 7<>p; echo in >&7", ""), ("read -u 7 z; echo $z", "in")]),
    ("a coprocess is talked to", [
        ("coproc cat", ""), ("echo hi >&${COPROC[1]}", ""),
        ("read l <&${COPROC[0]}; echo $l", "hi"),
    ]),
    ("a number above those the leader uses", [
        ("exec 200>f; echo 1 >&200", ""), ("echo 2 >&200; cat f", "1\n2"),
    ]),
    ("a child has them too", [("exec 3>f", ""), ("bash -c 'echo deep >&3'; cat f", "deep")]),
]  # fmt: skip
LOCK = [
    ("exec 9>lock; flock 9 && echo got", "got"),
    ("flock -n lock true || echo busy", "busy"),
    ("exec 9>&-; flock -n lock echo free", "free"),
]


@pytest.mark.parametrize(("_name", "steps"), CASES, ids=[name for name, _steps in CASES])
def test_one_statement_per_command(
    _name: str, steps: list[tuple[str, str]], tmp_path: Path
) -> None:
    assert [result.notes for result in run_each(tmp_path, steps)] == [()] * len(steps)


@needs("flock")
def test_a_lock_is_held_until_it_is_released(tmp_path: Path) -> None:
    assert [result.notes for result in run_each(tmp_path, LOCK)] == [()] * len(LOCK)


def test_what_the_shell_opens_to_ask_is_never_taken_for_the_users(tmp_path: Path) -> None:
    # Bash opens the file that it waits at under the lowest free number and closes it shortly after;
    # here it stays open.
    own, master = tmp_path / "own", os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)
    own.mkdir()
    os.mkfifo(own / "answer")
    waiting = f"exec 3<>{own}/answer 4>{tmp_path}/f; echo; read line"
    with subprocess.Popen(
        ["bash", "-c", waiting], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as shell:
        assert shell.stdout is not None
        shell.stdout.readline()
        asked, answers = os.pipe(), os.pipe()
        os.write(asked[1], b"%d\n" % shell.pid)
        descriptors = Descriptors(asked[0], answers[1], str(own))
        descriptors.answer(os.getpid(), master)
        assert list(descriptors.open) == [4]
        descriptors.close()
    for fd in (master, *asked, *answers):
        os.close(fd)


@pytest.mark.parametrize(
    "command", ["exec >log", "exec 2>log", "exec 3>&1 >log 2>&1", "touch log; exec <log"]
)
def test_the_next_command_is_heard_again_and_that_is_said(command: str, tmp_path: Path) -> None:
    with open_executor(tmp_path) as executor:
        (note,) = executor.run(command, timeout=PATIENCE).notes
        assert f"{tmp_path}/log for this command only" in note
        result = executor.run("echo heard; test -t 0 && echo typed", timeout=PATIENCE)
        assert (result.text, result.notes) == ("heard\ntyped", ())


def test_nothing_is_held_for_a_shell_that_has_closed_it(tmp_path: Path) -> None:
    with open_executor(tmp_path) as executor:
        executor.run("exec 3>f", timeout=PATIENCE)
        executor.run("exec 3>&-", timeout=PATIENCE)
        held = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
        assert tmp_path / "f" not in held


def test_a_job_that_ends_unheard_does_not_wait_for_an_answer(tmp_path: Path) -> None:
    with open_executor(tmp_path) as executor:
        result = executor.run("exec 3>f; read line; exit 3", on_wait="detach", timeout=PATIENCE)
        assert result.ended == "detached"
        (job,) = result.jobs
        executor.send_keys(job.id, "go\n")
        assert executor.wait_job(job.id, PATIENCE).exit_code == 3


def test_descriptors_end_with_a_shell_that_is_killed_and_that_is_said(tmp_path: Path) -> None:
    with open_executor(tmp_path) as executor:
        executor.run("exec 3>f 4>&1", timeout=PATIENCE)
        result = executor.run("kill -9 $$", timeout=PATIENCE)
        assert result.notes == (
            "Descriptors opened with exec by earlier commands are closed now: 3, 4.",
        )
        assert executor.run("true", timeout=PATIENCE).notes == ()
