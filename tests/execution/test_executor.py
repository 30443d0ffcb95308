"""Behaviour of the executor beyond the conformance table: ends, jobs, limits, faults."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from kogniterm.errors import ExecutionError
from kogniterm.execution import open_executor
from kogniterm.execution.command_output import OutputLimits
from kogniterm.execution.executor import CommandExecutor
from kogniterm.types import CommandResult
from tests.support.executing import PATIENCE, Sink, alive, private_folder_of, timed_out
from tests.support.forge import until
from tests.support.programs import require

TERM_PROOF = "trap '' TERM HUP INT; while :; do sleep 0.05; done"


def in_thread(call: Callable[[], CommandResult]) -> Callable[[], CommandResult]:
    results: list[CommandResult] = []
    thread = threading.Thread(target=lambda: results.append(call()), daemon=True)
    thread.start()

    def result() -> CommandResult:
        thread.join(PATIENCE)
        return results[0]

    return result


@pytest.fixture
def executor(tmp_path: Path) -> Iterator[CommandExecutor]:
    with open_executor(tmp_path) as made:
        yield made


# --- ends ------------------------------------------------------------------------------------


def test_an_editor_that_a_command_names_is_used(executor: CommandExecutor) -> None:
    require("git")
    assert executor.run("git var GIT_EDITOR").text == "false"
    assert executor.run("EDITOR='touch x;' git var GIT_EDITOR").text == "touch x;"
    assert executor.run("git -c core.editor=vim var GIT_EDITOR").text == "vim"
    assert executor.run("git var GIT_EDITOR").text == "false"


def test_timeout_keeps_the_partial_output(executor: CommandExecutor) -> None:
    command = "a=1; cd /usr; echo before; sleep 600; echo after"
    result = timed_out(executor, command, lambda result: "sleep" in str(result.notes))
    assert result.text == "before"
    assert result.notes[0] == "The shell is now in /usr."
    assert "sleep" in result.notes[1]
    assert executor.run("echo $a $PWD").text == "1 /usr"


@pytest.mark.parametrize(
    "command",
    [
        TERM_PROOF,
        f"({TERM_PROOF}) & ({TERM_PROOF}) & wait",
        f'setsid bash -c "{TERM_PROOF}" & {TERM_PROOF}',
        "cat | cat | cat",
        "kill -STOP $$",
        "while :; do :; done",
        "yes",
    ],
)
def test_timeout_ends_the_whole_tree(executor: CommandExecutor, command: str) -> None:
    result = executor.run(command, timeout=0.4)
    assert (result.ended, result.exit_code) == ("timeout", None)
    assert result.jobs == ()
    assert executor.run("echo next").text == "next"


def test_a_full_screen_program_that_is_ended_shows_its_last_screen(
    executor: CommandExecutor,
) -> None:
    command = (
        "trap 'printf \"\\033[?1049l\"; exit' TERM; printf '\\033[?1049h\\033[2;3Hmenu'; sleep 600"
    )
    result = timed_out(executor, command, lambda result: "menu" in result.text)
    assert "  menu" in result.text


def test_what_it_waited_for_is_told_at_the_timeout(executor: CommandExecutor) -> None:
    result = timed_out(executor, "read x", lambda result: result.waiting is not None)
    assert result.waiting is not None
    assert result.waiting.kind == "terminal"


def test_a_failing_sink_leaves_nothing_behind(executor: CommandExecutor) -> None:
    class Failing(Sink):
        def output(self, data: bytes) -> None:
            raise RuntimeError(data.decode())

    with pytest.raises(RuntimeError) as caught:
        executor.run("echo $$; sleep 600", sink=Failing())
    until(lambda: not alive(int(str(caught.value))))
    assert executor.run("echo on").text == "on"


def test_a_folder_that_cannot_be_entered(executor: CommandExecutor, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    executor.run("cd d")
    (tmp_path / "d").rmdir()
    (tmp_path / "d").write_text("a file now")
    result = executor.run("pwd")
    assert result.text == str(tmp_path)
    assert "no longer exists" in result.notes[0]


def test_ended_jobs_hold_no_descriptors(executor: CommandExecutor) -> None:
    def run_job(name: str) -> None:
        job = executor.run(f"until test -e {name}; do sleep 0.02; done &").jobs[-1]
        Path(executor.cwd, name).touch()
        executor.wait_job(job.id, PATIENCE)

    run_job("first")  # starts the process that the executor keeps open from then on
    before = len(list(Path("/proc/self/fd").iterdir()))
    for name in ("second", "third", "fourth"):
        run_job(name)
    until(lambda: len(list(Path("/proc/self/fd").iterdir())) <= before)


def test_stop_from_another_thread(executor: CommandExecutor) -> None:
    sink = Sink()
    result = in_thread(lambda: executor.run("echo $$; " + TERM_PROOF, sink=sink))
    sink.until(lambda: b"\n" in sink.data)
    executor.stop()
    ended = result()
    assert (ended.ended, ended.exit_code) == ("stopped", None)
    assert not alive(int(ended.text))


def test_stop_without_a_command_does_nothing(executor: CommandExecutor) -> None:
    executor.stop()
    assert executor.run("echo on").text == "on"


def test_detach_makes_a_job_that_goes_on(executor: CommandExecutor) -> None:
    sink = Sink()
    command = "echo up; while ! test -e go; do sleep 0.05; done; echo done; exit 4"
    result = in_thread(lambda: executor.run(command, sink=sink))
    sink.until(lambda: b"up" in sink.data)
    executor.detach()
    ended = result()
    assert (ended.ended, ended.exit_code, ended.text) == ("detached", None, "up")
    (job,) = ended.jobs
    assert job.state == "running"
    executor.run("touch go")
    assert executor.wait_job(job.id, PATIENCE).exit_code == 4
    assert executor.read_job(job.id) == "up\ndone"


def test_a_result_names_the_signal(executor: CommandExecutor) -> None:
    result = executor.run("kill -9 $$")
    assert (result.ended, result.exit_code, result.signal) == ("signaled", 137, "SIGKILL")


def test_killed_leader_is_told_as_a_signal(executor: CommandExecutor) -> None:
    result = executor.run("kill -9 $PPID; sleep 600", timeout=PATIENCE)
    assert (result.ended, result.exit_code) == ("signaled", 137)
    assert executor.run("echo on").text == "on"


def test_what_a_killed_leader_led_is_ended(executor: CommandExecutor, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    executor.run(f"trap '' HUP; echo $$ > {pid}; kill -9 $PPID; while :; do sleep 600; done")
    until(lambda: not alive(int(pid.read_text())))


def test_killed_supervisor_is_replaced(executor: CommandExecutor) -> None:
    executor.run("a=1")
    supervisor = executor.run("awk '{print $4}' /proc/$PPID/stat").text
    os.kill(int(supervisor), signal.SIGKILL)
    until(lambda: not alive(int(supervisor)))
    assert executor.run("echo $a").text == "1"


ESCAPE = """
import os
from kogniterm.execution.process import pty
impossible = (1 << 16, 80)  # an error in the fork, like that of a terminal that was hung up
try:
    pty.open_terminal(lambda: None, (), impossible)
finally:
    with open("went-on", "a") as file:
        file.write(f"{os.getpid()}\\n")
"""


def test_no_error_lets_a_fork_go_on_as_a_second_supervisor(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", ESCAPE]
    with subprocess.Popen(argv, cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
        process.wait(PATIENCE)
    assert (tmp_path / "went-on").read_text().split() == [str(process.pid)]


def children_of(pid: int) -> list[int]:
    """Return the processes that `pid` has started and that still run."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in listed if alive(int(child))]


def standing_by(supervisor: int) -> list[int]:
    """Return the leader and the prepared shell that wait for the next command."""

    def alone() -> bool:
        leaders = children_of(supervisor)
        return len(leaders) == 1 and bool(children_of(leaders[0]))

    until(alone)
    (leader,) = children_of(supervisor)
    return [leader, *children_of(leader)]


@pytest.mark.parametrize("victim", [0, 1], ids=["leader", "shell"])
def test_who_waits_for_the_next_command_may_be_killed(
    executor: CommandExecutor, victim: int
) -> None:
    supervisor = int(executor.run("awk '{print $4}' /proc/$PPID/stat").text)
    waiting = standing_by(supervisor)[victim]
    os.kill(waiting, signal.SIGKILL)
    until(lambda: not alive(waiting))
    assert executor.run("echo on").text == "on"
    assert executor.run("echo further").text == "further"


def test_a_shell_is_prepared_for_a_first_command_that_comes(executor: CommandExecutor) -> None:
    folder = str(private_folder_of(executor))
    found: list[int] = []

    def supervisor_is_found() -> bool:
        for pid in children_of(os.getpid()):  # some may be missing while others end
            with suppress(OSError):
                if folder in Path(f"/proc/{pid}/cmdline").read_text():
                    found.append(pid)
        return bool(found)

    assert not supervisor_is_found()  # a session without commands needs none
    executor.prepare()
    executor.prepare()
    until(supervisor_is_found)
    (supervisor,) = found
    leader, shell = standing_by(supervisor)
    assert executor.run("echo $$ $PPID").text == f"{shell} {leader}"


def test_a_closed_executor_leaves_no_prepared_shell(tmp_path: Path) -> None:
    with open_executor(tmp_path) as executor:
        supervisor = int(executor.run("awk '{print $4}' /proc/$PPID/stat").text)
        waiting = standing_by(supervisor)
    assert not any(alive(pid) for pid in waiting)


# --- jobs ------------------------------------------------------------------------------------


def test_a_job_is_listed_read_stopped(executor: CommandExecutor) -> None:
    result = executor.run("(echo working; sleep 600) & echo started")
    (job,) = result.jobs
    assert job.state == "running"
    until(lambda: "working" in executor.read_job(job.id))
    stopped = executor.stop_job(job.id)
    assert stopped.state == "ended"
    assert not any(alive(pid) for pid in job.pids)


def test_the_end_of_a_job_is_returned_once(executor: CommandExecutor) -> None:
    waits = "(until test -e go; do sleep 0.02; done; exit 3) &"
    seen = executor.run(waits).jobs[0].id
    executor.run(waits)
    Path(executor.cwd, "go").touch()
    until(lambda: all(job.state == "ended" for job in executor.jobs()))
    executor.wait_job(seen)
    (ended,) = executor.run("true").jobs
    assert (ended.state, ended.exit_code) == ("ended", 3)
    assert ended.id != seen
    assert executor.run("true").jobs == ()


def test_output_of_a_job_does_not_reach_the_next_command(executor: CommandExecutor) -> None:
    result = executor.run("(while :; do echo noise; sleep 0.02; done) &")
    job = result.jobs[0].id
    heard = executor.read_job(job)
    until(lambda: len(executor.read_job(job)) > len(heard))
    assert executor.run("sleep 0.1; echo clean").text == "clean"
    assert "noise" in executor.read_job(job)


def test_a_flooding_job_neither_blocks_nor_grows(tmp_path: Path) -> None:
    with open_executor(tmp_path, limits=OutputLimits(file=100_000)) as executor:
        result = executor.run("(yes | head -c 5000000; touch flooded; sleep 600) >/dev/tty & true")
        until((tmp_path / "flooded").exists)
        path = Path(executor.jobs()[0].output_path or "")
        assert path.stat().st_size <= 100_000
        assert result.exit_code == 0


WIZARD = """
for question in Name Colour Size; do read -p "$question? " answer; said="$said $answer"; done
read -s -p "Password: " secret; echo " done:$said"
"""


def test_a_wizard_is_answered_and_its_password_is_not(executor: CommandExecutor) -> None:
    result = executor.run(WIZARD, on_wait="detach")
    assert (result.ended, result.text) == ("detached", "Name? ")
    job = result.jobs[0].id
    assert executor.job_asks(job) == "terminal"
    assert executor.send_keys(job, "ann\n") == "ann\nColour? "
    assert executor.wait_job(job, PATIENCE, or_asks=True).state == "running"
    with pytest.raises(ExecutionError, match="reads with echo off"):
        executor.send_keys(job, "red\nbig\nsecret\n")
    assert executor.job_asks(job) == "password"
    assert "secret" not in executor.read_job(job)


SLOW = """
import pathlib, termios, time
input("User? ")
while not pathlib.Path("go").exists():
    time.sleep(0.01)
mode = termios.tcgetattr(0)
mode[3] &= ~termios.ECHO
termios.tcsetattr(0, termios.TCSADRAIN, mode)  # keeps what was typed before, as some programs do
print("Password: ", end="", flush=True)
print("got", input())
"""


def test_lines_behind_the_one_that_is_read_wait_for_the_next_question(
    executor: CommandExecutor, tmp_path: Path
) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    job = executor.run(f"{sys.executable} {tmp_path}/slow.py", on_wait="detach").jobs[0].id
    reaction = executor.send_keys(job, "ann\nsecret\nmore\n")
    assert reaction == "ann\n[it reads no input now; lines not typed: 2]"
    Path(executor.cwd, "go").touch()
    executor.wait_job(job, PATIENCE, or_asks=True)
    assert executor.job_asks(job) == "password"
    assert "secret" not in executor.read_job(job)


RAW = "import os, tty; tty.setraw(0); print('key', end=' ', flush=True); print(os.read(0, 9))"


def test_a_line_break_is_the_key_enter_once(executor: CommandExecutor) -> None:
    job = executor.run(f'{sys.executable} -c "{RAW}"', on_wait="detach").jobs[0].id
    assert executor.send_keys(job, "\n").strip() == r"b'\r'"
    two = "read -p 'One? ' a; read -p 'Two? ' b"
    job = executor.run(two, on_wait="detach").jobs[-1].id
    assert executor.send_keys(job, "x\r\n") == "x\nTwo? "


def test_keys_for_a_job_that_has_ended_go_nowhere(executor: CommandExecutor) -> None:
    job = executor.run("read x", on_wait="detach").jobs[0].id
    executor.send_keys(job, "first\n")
    assert executor.wait_job(job, PATIENCE).state == "ended"
    # Its descriptor's number is that of the terminal on which the next command runs.
    with pytest.raises(ExecutionError, match="has ended, and takes no keys"):
        executor.send_keys(job, "second\n")
    assert executor.run("read -t 0.1 y; echo got $y").text.strip() == "got"


def test_unknown_job(executor: CommandExecutor) -> None:
    with pytest.raises(ExecutionError, match="Job j99 not found"):
        executor.read_job("j99")


def test_close_ends_jobs_but_the_kept(tmp_path: Path) -> None:
    executor = open_executor(tmp_path)
    lost = executor.run("setsid sleep 600 & echo $!").jobs[0]
    kept = executor.run("sleep 600 & echo $!").jobs[-1]
    executor.keep_job(kept.id)
    executor.close()
    until(lambda: not any(alive(pid) for pid in lost.pids))
    assert all(alive(pid) for pid in kept.pids)
    for pid in kept.pids:
        os.kill(pid, signal.SIGKILL)

    def swept() -> bool:
        """Return whether another executor removed the folder as unused."""
        open_executor(tmp_path).close()
        return not private_folder_of(executor).exists()

    until(swept)


def test_close_is_idempotent_and_final(tmp_path: Path) -> None:
    executor = open_executor(tmp_path)
    executor.run("true")
    executor.close()
    executor.close()
    with pytest.raises(ExecutionError, match="closed"):
        executor.run("true")


def test_no_zombies_and_no_descriptors_are_left(executor: CommandExecutor) -> None:
    executor.run("true")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        executor.run("true | false & wait")
    until(lambda: len(list(Path("/proc/self/fd").iterdir())) <= before)
    of_our_parent = "awk -v parent=$PPID '$4 == parent && $3 == \"Z\"' /proc/[0-9]*/stat"
    until(lambda: executor.run(f"{of_our_parent} 2>/dev/null | grep -c .").text == "0")


# --- the end of the host ---------------------------------------------------------------------

HOST = """
import sys
from kogniterm.execution import open_executor
executor = open_executor(sys.argv[1])
print(executor.temporary_folder.removesuffix("/tmp"), flush=True)
executor.run("setsid sh -c 'echo $$ >daemon; exec sleep 300' & sleep 300 & echo $! >job")
executor.run("sh -c 'trap \\"\\" TERM HUP INT; echo $$ >child; while :; do sleep 1; done'")
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_is_left_when_the_host_is_killed(tmp_path: Path, number: int) -> None:
    host = subprocess.Popen(
        [sys.executable, "-c", HOST, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert host.stdout is not None
    with host.stdout:
        private = Path(host.stdout.readline().strip())
    names = ("daemon", "job", "child")
    until(lambda: all((tmp_path / n).exists() and (tmp_path / n).read_text() for n in names))
    pids = [int((tmp_path / name).read_text()) for name in names]
    assert all(alive(pid) for pid in pids)
    host.send_signal(number)
    host.wait(PATIENCE)
    until(lambda: not any(alive(pid) for pid in pids))
    until(lambda: not private.exists())


# --- waiting ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("read x", "terminal"),
        ("cat", "terminal"),
        ("python3 -c 'input()'", "terminal"),
        ("python3 -c 'import select,sys; select.select([sys.stdin],[],[])'", "terminal"),
        ("python3 -c 'import select; p=select.poll(); p.register(0, 1); p.poll()'", "terminal"),
        ("read -s x", "password"),
        ("python3 -c 'import getpass; getpass.getpass()'", "password"),
        ("sleep 600", "sleeping"),
        ("printf 'Name? '; sleep 600 | cat", "sleeping"),  # which looks like a question and is none
        ("while :; do :; done", "busy"),
        ("kill -STOP $$", "stopped"),
        (
            'python3 -c \'import socket as s; a=s.create_server(("127.0.0.1",0));'
            "b=s.create_connection(a.getsockname()); b.recv(1)'",
            "network",
        ),
    ],
)
def test_diagnosis(executor: CommandExecutor, command: str, kind: str) -> None:
    sink = Sink()
    result = in_thread(lambda: executor.run(f"echo here; {command}", sink=sink))
    sink.until(lambda: any(w is not None and w.kind == kind for w in sink.waits))
    executor.stop()
    found = next(w for w in sink.waits if w is not None and w.kind == kind)
    assert found.last_lines.startswith("here")
    assert str(found.program) in found.program
    assert found.seconds >= 1.0
    assert result().ended == "stopped"
    assert sink.waits[-1] is None


def test_a_wait_for_input_without_a_terminal_ends(tmp_path: Path) -> None:
    with open_executor(tmp_path, input_wait=1.2) as executor:
        result = executor.run("read -p 'Go on? ' x; echo $x")
    assert (result.ended, result.exit_code, result.text) == ("stopped", None, "Go on? ")
    assert result.waiting is not None
    assert result.waiting.kind == "terminal"


def test_a_quiet_command_is_not_killed(tmp_path: Path) -> None:
    with open_executor(tmp_path, input_wait=0.5) as executor:
        assert executor.run("sleep 2.5; echo done").text == "done"


# --- output ----------------------------------------------------------------------------------


def test_the_sink_sees_output_while_it_comes(executor: CommandExecutor) -> None:
    sink = Sink()
    result = in_thread(
        lambda: executor.run("echo one; while ! test -e go; do sleep 0.02; done", sink=sink)
    )
    sink.until(lambda: b"one\n" in sink.data)
    (Path(executor.cwd) / "go").touch()
    assert result().exit_code == 0


def test_a_flood_is_clipped_and_kept_whole_on_disk(executor: CommandExecutor) -> None:
    result = executor.run("seq 1000000")
    lines = result.text.splitlines()
    assert lines[0] == "1"
    assert lines[-1] == "1000000"
    assert len(result.text) < 20_000
    assert result.output_bytes == 6_888_896
    assert f"{result.omitted_bytes} bytes left out" in result.text
    kept = Path(result.output_path or "").read_bytes()
    assert kept == b"".join(b"%d\n" % n for n in range(1, 1_000_001))


def test_memory_stays_flat(tmp_path: Path) -> None:
    script = (
        "import sys; from kogniterm.execution import open_executor\n"
        "def high(): return int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])\n"
        "with open_executor(sys.argv[1]) as e:\n"
        "    e.run('seq 1000'); before = high()\n"
        "    e.run(\"head -c 60000000 /dev/zero | tr '\\\\0' x\"); print(high() - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 16 * 1024


# --- environment -----------------------------------------------------------------------------


def test_our_keys_are_not_handed_on(tmp_path: Path) -> None:
    env = {**os.environ, "GEMINI_API_KEY": "s", "KOGNITERM_X": "s", "MY_TOKEN": "m"}
    with open_executor(tmp_path, env, secrets=("GEMINI_API_KEY", "MY_TOKEN")) as executor:
        assert executor.run("env | grep -E 'GEMINI|KOGNITERM|MY_TOKEN'").text == ""


def test_env_of_one_command_is_gone_afterwards(executor: CommandExecutor) -> None:
    assert executor.run("echo $A $PAGER", env={"A": "1"}).text == "1 cat"
    assert executor.run("echo ${A-none}").text == "none"
    executor.run("PAGER=mine")
    assert executor.run("echo $PAGER").text == "mine"


def test_cwd_of_one_command(executor: CommandExecutor) -> None:
    assert executor.run("pwd", cwd="/usr").text == "/usr"
    assert executor.cwd == "/usr"
    with pytest.raises(ExecutionError, match="does not exist"):
        executor.run("pwd", cwd="/nowhere")


def test_nothing_of_a_hostile_environment_runs(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    trap.write_text("echo trapped\n")
    env = {**os.environ, "BASH_ENV": str(trap), "ENV": str(trap), "PROMPT_COMMAND": "echo trapped"}
    with open_executor(tmp_path, env) as executor:
        assert executor.run("echo clean").text == "clean"


def test_many_executors_in_one_process(tmp_path: Path) -> None:
    executors = [open_executor(tmp_path) for _ in range(4)]
    waits = [
        in_thread(lambda e=e, n=n: e.run(f"sleep 0.2; echo {n}")) for n, e in enumerate(executors)
    ]
    assert [wait().text for wait in waits] == ["0", "1", "2", "3"]
    for executor in executors:
        executor.close()


def test_commands_of_several_threads_take_turns(executor: CommandExecutor) -> None:
    waits = [in_thread(partial(executor.run, "n=$((n+1)); sleep 0.05; echo $n")) for _ in range(5)]
    assert sorted(wait().text for wait in waits) == ["1", "2", "3", "4", "5"]


def test_unusable_input(executor: CommandExecutor, tmp_path: Path) -> None:
    with pytest.raises(ExecutionError, match="NUL"):
        executor.run("echo \0")
    with pytest.raises(ExecutionError, match="does not exist"):
        open_executor(tmp_path / "no")
    with pytest.raises(ExecutionError, match="install bash"):
        open_executor(tmp_path, shell="/no/bash")
