"""Processes that continue when an executor ends, and processes that are ended with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kogniterm.errors import ExecutionError
from kogniterm.execution import open_executor
from kogniterm.execution.sandbox.confinement import Sandbox
from tests.support.executing import PATIENCE, alive, private_folder_of, processes_executing
from tests.support.forge import until
from tests.support.typing_user import running

SLEEP = "sleep 600.{number}"
STAYING = [
    "nohup {sleep} >/dev/null 2>&1 &",
    "setsid {sleep} >/dev/null 2>&1 &",
    "{sleep} >/dev/null 2>&1 & disown",
    "{sleep} >/dev/null 2>&1 & disown -h %1",
    "{sleep} >/dev/null 2>&1 & disown $!",
    "({sleep} >/dev/null 2>&1 & disown)",
    "python3 -c 'import os\nif not os.fork():\n os.setsid()\n if not os.fork():\n"
    '  os.execvp("sleep", "{sleep}".split())\' >/dev/null 2>&1 </dev/null',
    "nohup bash -c '{sleep}; true' >/dev/null 2>&1 &",
]
ENDED = ["{sleep} &", "({sleep} &)", "bash -c '{sleep} & true'", "{sleep} & echo disown"]


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[str]:
    """Yield the command line of a `sleep` unique to this test; end what is left of it."""
    number = int.from_bytes(os.urandom(4), "big")
    sleep = SLEEP.format(number=number)
    yield sleep
    for pid in processes_executing(sleep):
        os.kill(pid, signal.SIGKILL)


def parent(pid: int) -> int:
    stat = Path(f"/proc/{pid}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


@pytest.mark.parametrize("command", STAYING)
def test_what_was_detached_on_purpose_stays(tmp_path: Path, mark: str, command: str) -> None:
    with open_executor(tmp_path, outlives="detached") as executor:
        result = executor.run(command.replace("{sleep}", mark))
        until(lambda: processes_executing(mark))
        assert [job.fate for job in executor.jobs()] == ["detached"], result
        executor.close()
        left = executor.left
    (pid,) = processes_executing(mark)
    assert [one.why for one in left] == ["detached"]
    assert pid in left[0].pids
    assert left[0].stays
    assert left[0].end_with == f"kill {' '.join(map(str, left[0].pids))}"
    assert left[0].output_path is None
    # It needs nothing of KogniTerm's any more, and no terminal.
    assert not private_folder_of(executor).exists()
    assert Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[4] == "0"
    assert b"kogniterm" not in Path(f"/proc/{parent(pid)}/cmdline").read_bytes()
    subprocess.run(["sh", "-c", left[0].end_with], check=True)
    until(lambda: not processes_executing(mark))


@pytest.mark.parametrize("command", ENDED)
def test_what_was_not_is_ended_and_named(tmp_path: Path, mark: str, command: str) -> None:
    with open_executor(tmp_path, outlives="detached") as executor:
        executor.run(command.replace("{sleep}", mark))
        until(lambda: processes_executing(mark))
        assert [job.fate for job in executor.jobs()] == ["ends"]
        executor.close()
        left = executor.left
    assert not processes_executing(mark)
    assert [(one.why, one.command, one.job, one.stays) for one in left] == [
        ("background", mark, "j1", False)
    ]
    assert left[0].end_with is None


def test_a_detached_command_is_named_as_it_was_given(tmp_path: Path, mark: str) -> None:
    command = f"echo begun; {mark}; echo over"
    with (
        open_executor(tmp_path, outlives="detached") as executor,
        ThreadPoolExecutor(1) as pool,
    ):
        result = pool.submit(executor.run, command)
        until(lambda: processes_executing(mark))
        executor.detach()
        assert result.result().ended == "detached"
        executor.close()
    assert [(one.why, one.command) for one in executor.left] == [("background", command)]


def test_a_job_disowned_by_a_later_command_stays(tmp_path: Path, mark: str) -> None:
    with open_executor(tmp_path, outlives="detached") as executor:
        executor.run(f"{mark} >/dev/null 2>&1 &")
        assert executor.run("disown %1; jobs").exit_code == 0
        assert [job.fate for job in executor.jobs()] == ["detached"]
    assert processes_executing(mark)


def test_a_kept_job_stays_and_its_output_has_a_place(tmp_path: Path, mark: str) -> None:
    executor = open_executor(tmp_path, outlives="detached", outputs=tmp_path / "outputs")
    executor.run(f"bash -c 'read -r < <({mark}); echo late' & {mark} >/dev/null 2>&1 </dev/null &")
    executor.keep_job("j1")
    assert executor.jobs()[0].fate == "kept"
    executor.close()
    left = executor.left
    assert {one.why for one in left} == {"kept"}
    path = left[0].output_path
    assert path is not None
    assert "late" not in Path(path).read_text()
    for pid in processes_executing(mark):
        os.kill(pid, signal.SIGKILL)
    until(lambda: "late" in Path(path).read_text())
    until(lambda: not private_folder_of(executor).exists())


def test_with_nothing_to_outlive_it_all_ends(tmp_path: Path, mark: str) -> None:
    with open_executor(tmp_path, outlives="nothing") as executor:
        executor.run(f"nohup {mark} >/dev/null 2>&1 &")
        with pytest.raises(ExecutionError, match="--end-jobs"):
            executor.keep_job("j1")
        executor.close()
        left = executor.left
    assert not processes_executing(mark)
    assert [one.why for one in left] == ["asked"]


HOST = """
import sys
from kogniterm.execution import open_executor
executor = open_executor(sys.argv[1], outlives="detached")
executor.run(f"nohup {sys.argv[2]} >/dev/null 2>&1 & {sys.argv[3]} &")
print(executor.temporary_folder.removesuffix("/tmp"), flush=True)
executor.run("sleep 600")
"""


def test_a_kill_leaves_what_was_detached_and_nothing_else(tmp_path: Path, mark: str) -> None:
    plain = mark + "1"
    argv = [sys.executable, "-c", HOST, str(tmp_path), mark, plain]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        private = Path(host.stdout.readline().strip())
        until(lambda: processes_executing(mark) and processes_executing(plain))
        host.kill()
        host.wait(PATIENCE)
    until(lambda: not processes_executing(plain))
    until(lambda: not private.exists())
    assert processes_executing(mark)


DEAF = """import os, signal, sys, time
signal.signal(signal.SIGHUP, lambda *_: None)
open(f"deaf-{os.getpid()}", "w")
while True:
    time.sleep(600)
"""
"""A program that catches the hang-up and continues, as servers do that reload their settings."""
ALL_KILLED = """
import os, shlex, sys
from kogniterm.execution import open_executor
executor = open_executor(".", outlives="detached")
print(executor.run("awk '{print $4}' /proc/$PPID/stat").text, flush=True)
staying = f"nohup {sys.argv[1]} >/dev/null 2>&1 & setsid {sys.argv[1]}"
deaf = shlex.join([sys.executable, "deaf.py", sys.argv[2]])
executor.run(f"{staying} & {deaf} & {deaf}")
"""


def test_a_kill_of_the_supervisor_too_leaves_nothing_else_either(tmp_path: Path, mark: str) -> None:
    plain = mark + "1"
    (tmp_path / "deaf.py").write_text(DEAF)
    argv = [sys.executable, "-c", ALL_KILLED, mark, plain]
    # No process is left to remove the private folder, so it is removed here.
    env = os.environ | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=env, cwd=tmp_path) as host:
        assert host.stdout is not None
        supervisor = int(host.stdout.readline())
        until(
            lambda: len(processes_executing(mark)) == 2 and len(list(tmp_path.glob("deaf-*"))) == 2
        )
        os.kill(supervisor, signal.SIGKILL)
        host.kill()
        host.wait(PATIENCE)
    until(lambda: not running(plain))
    assert len(processes_executing(mark)) == 2


def test_what_writes_to_its_terminal_stays_when_the_supervisor_is_ended(
    tmp_path: Path, mark: str
) -> None:
    """The process does not depend on the small one that moves its output."""
    executor = open_executor(tmp_path, outlives="detached")
    executor.run(f"{mark} & disown")
    executor.close()
    (left,) = executor.left
    assert left.output_path is not None
    (pid,) = processes_executing(mark)
    leader = parent(pid)
    supervisor = parent(leader)
    assert b"kogniterm" in Path(f"/proc/{supervisor}/cmdline").read_bytes()
    os.kill(supervisor, signal.SIGTERM)
    until(lambda: not alive(leader))
    until(lambda: not alive(supervisor))
    assert processes_executing(mark) == [pid]


def test_nothing_of_a_sandbox_stays_however_it_was_started(tmp_path: Path, mark: str) -> None:
    box = Sandbox("none", str(tmp_path), str(tmp_path))
    with open_executor(tmp_path, outlives="detached", sandbox=box) as executor:
        command = f"nohup {mark} >/dev/null 2>&1 & {mark} &"
        executor.run(command)
        assert [job.fate for job in executor.jobs()] == ["sandbox"]
        with pytest.raises(ExecutionError, match="j1 cannot be kept: it runs in the sandbox"):
            executor.keep_job("j1")
        executor.close()
    assert not processes_executing(mark)
    assert [(one.why, one.command) for one in executor.left] == [("sandbox", command)]


def test_what_has_ended_cannot_be_kept(tmp_path: Path, mark: str) -> None:
    with open_executor(tmp_path) as executor:
        executor.run(f"{mark} &")
        executor.stop_job("j1")
        with pytest.raises(ExecutionError, match="j1 has ended"):
            executor.keep_job("j1")
    assert executor.left == ()
