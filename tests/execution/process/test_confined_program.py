"""Programs without a terminal: their pipes, their limits, and the end of all that they started."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from kogniterm.errors import ExecutionError
from kogniterm.execution.process.confined_program import ConfinedProgram
from kogniterm.execution.sandbox.confinement import Sandbox, SandboxKind
from kogniterm.execution.sandbox_probe import probe
from kogniterm.host.processes import descendants
from tests.support.executing import KINDS, alive, sandbox_round

ENV = {"PATH": os.defpath}


async def started(script: str, folder: Path, sandbox: Sandbox | None = None) -> ConfinedProgram:
    temporary = folder.with_name(f"{folder.name}-tmp")
    temporary.mkdir(exist_ok=True)
    argv = ["/bin/sh", "-c", script]
    return await ConfinedProgram.start(
        argv, env=ENV, cwd=str(folder), sandbox=sandbox, temporary=str(temporary)
    )


def wait_until_gone(pid: int) -> None:
    while alive(pid):
        os.sched_yield()


async def test_input_output_and_exit_code(tmp_path: Path) -> None:
    program = await started("read line; echo got $line; echo oops >&2; exit 3", tmp_path)
    done = await program.communicate(b"hello\n", limit=1000, seconds=60)
    assert (done.exit_code, done.output, done.complaints) == (3, b"got hello\n", b"oops\n")
    assert done.ended == "exited"


async def test_only_the_given_environment_is_passed_on(tmp_path: Path) -> None:
    program = await started("env", tmp_path)
    done = await program.communicate(b"", limit=10_000, seconds=60)
    names = {line.partition(b"=")[0] for line in done.output.splitlines() if b"=" in line}
    assert names <= {b"PATH", b"PWD", b"SHLVL", b"_", b"OLDPWD", b"LC_CTYPE"}


async def test_what_takes_too_long_or_writes_too_much_is_ended_with_its_children(
    tmp_path: Path,
) -> None:
    seconds, written = 0.5, b""
    while not written:  # on a busy machine the program may not have come that far
        slow = await started("sleep 1000 & echo $!; wait", tmp_path)
        done = await slow.communicate(b"", limit=1000, seconds=seconds)
        assert (done.ended, done.exit_code) == ("timeout", None)
        seconds, written = seconds * 2, done.output
    await asyncio.to_thread(wait_until_gone, int(written))
    loud = await started("yes", tmp_path)
    done = await loud.communicate(b"", limit=1000, seconds=60)
    assert (done.ended, len(done.output)) == ("too_much", 1000)


async def test_nothing_outlives_its_end(tmp_path: Path) -> None:
    program = await started("(setsid nohup sleep 1000 >/dev/null 2>&1 & echo $!)", tmp_path)
    done = await program.communicate(b"", limit=1000, seconds=60)
    await asyncio.to_thread(wait_until_gone, int(done.output))


async def test_a_cancel_while_it_is_being_started_ends_it_with_its_children(
    tmp_path: Path,
) -> None:
    pids = tmp_path / "pids"
    command = f"echo $$ >{pids}; sleep 1000 & echo $! >>{pids}; touch {tmp_path}/up; wait"
    starting = asyncio.create_task(started(command, tmp_path))
    for _step in range(2):  # of the loop: it starts the program, and notices nothing of it
        await asyncio.sleep(0)
    while not (tmp_path / "up").exists():
        os.sched_yield()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    for pid in pids.read_text().split():
        await asyncio.to_thread(wait_until_gone, int(pid))


async def test_a_cancel_ends_it(tmp_path: Path) -> None:
    program = await started("echo $$; sleep 1000", tmp_path)
    assert program.process.stdout is not None
    pid = int(await program.process.stdout.readline())
    task = asyncio.create_task(program.communicate(b"", limit=10, seconds=60))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.to_thread(wait_until_gone, pid)


async def test_a_program_that_is_missing_is_told(tmp_path: Path) -> None:
    program = await ConfinedProgram.start(
        ["/no/such/program"], env=ENV, cwd=str(tmp_path), sandbox=None, temporary=str(tmp_path)
    )
    done = await program.communicate(b"", limit=10, seconds=60)
    assert not done.started
    assert b"/no/such/program" in done.complaints
    with pytest.raises(ExecutionError, match="could not be started"):
        await ConfinedProgram.start(
            ["/bin/true"], env=ENV, cwd=str(tmp_path / "no"), sandbox=None, temporary=""
        )


async def test_in_the_sandbox_only_the_workspace_is_written(tmp_path: Path) -> None:
    work, outside = tmp_path / "work", tmp_path / "outside"
    for folder in (work, outside, tmp_path / "probe"):
        folder.mkdir()
    found = probe(tmp_path / "probe", "auto")
    if found.kind == "none":
        pytest.skip("no sandbox works here")
    box = Sandbox(found.kind, str(work), str(outside), program=found.program)
    script = (
        f"echo x > inside; echo x > {outside}/file; "
        "file=${TMPDIR:-/tmp}/f; echo done > $file; cat $file"
    )
    program = await started(script, work, box)
    done = await program.communicate(b"", limit=1000, seconds=60)
    assert b"done" in done.output
    assert (work / "inside").exists()
    assert not (outside / "file").exists()


LOOKED_TOO_EARLY = """
import os, select
from kogniterm.execution.process import program_guard as guard

go, told = os.pipe()
program = os.fork()
if program == 0:
    os.read(go, 1)
    os._exit(7)
lifeline, held = os.pipe()
ended, wake = os.pipe()
os.write(wake, b"earlier")
look = guard._collect_child

def look_and_let_it_end():
    found = look()
    guard._collect_child = look
    os.write(told, b"go")
    os.waitid(os.P_PID, program, os.WEXITED | os.WNOWAIT)
    os.write(wake, b"now")
    return found

guard._collect_child = look_and_let_it_end
wait = select.select

def waited(*lists):
    ready = wait(*lists, 0)
    if not any(ready):
        raise SystemExit("waits, though the program has ended")
    return ready

guard.select.select = waited
print(os.waitstatus_to_exitcode(guard._wait(program, lifeline, ended, os.getppid())))
"""
"""Ends a program between the guard's look at its children and its next wait."""


def test_a_program_that_ends_just_after_the_guard_has_looked_is_seen() -> None:
    argv = [sys.executable, "-c", LOOKED_TOO_EARLY]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("7\n", "")


@pytest.mark.parametrize("kind", KINDS)
async def test_sandboxes_that_share_a_private_folder_start_at_once(
    tmp_path: Path, kind: SandboxKind
) -> None:
    work, outside = tmp_path.joinpath(*"abcdefghijklmnopqrstuvwxyz", "work"), tmp_path / "outside"
    for folder in (work, outside):
        folder.mkdir(parents=True)
    box = sandbox_round(kind, work, outside)

    async def one() -> int | None:
        program = await started("exit 0", work, box)
        return (await program.communicate(b"", limit=1000, seconds=60)).exit_code

    assert await asyncio.gather(*(one() for _ in range(12))) == [0] * 12


@pytest.mark.parametrize("kind", KINDS)
async def test_a_program_in_a_sandbox_has_no_descriptor_but_its_pipes(
    tmp_path: Path, kind: SandboxKind
) -> None:
    script = "exec 2>/dev/null; for fd in /proc/self/fd/*; do readlink $fd; done"
    program = await started(script, tmp_path, sandbox_round(kind, tmp_path, tmp_path))
    done = await program.communicate(b"", limit=10_000, seconds=60)
    assert {name.partition(b":")[0] for name in done.output.split()} <= {b"pipe", b"/dev/null"}


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("kind", [*KINDS, None])
async def test_a_guard_that_is_killed_leaves_nothing(
    tmp_path: Path, kind: SandboxKind | None, number: int
) -> None:
    box = sandbox_round(kind, tmp_path, tmp_path) if kind else None
    program = await started("trap '' TERM HUP; sleep 1000 & echo up; wait", tmp_path, box)
    assert program.process.stdout is not None
    await program.process.stdout.readline()
    below = [state.pid for state in descendants(program.process.pid)]
    os.kill([program.process.pid, *below][number], signal.SIGKILL)
    for pid in below:
        await asyncio.to_thread(wait_until_gone, pid)
    await program.end()


@pytest.mark.parametrize("kind", KINDS)
async def test_signals_of_kogniterm_are_not_handed_on(tmp_path: Path, kind: SandboxKind) -> None:
    numbers = (signal.SIGXFSZ, signal.SIGUSR1)
    usual = [signal.signal(number, signal.SIG_IGN) for number in numbers]
    try:
        box = sandbox_round(kind, tmp_path, tmp_path)
        program = await started("grep -E '^Sig(Blk|Ign)' /proc/self/status", tmp_path, box)
        done = await program.communicate(b"", limit=1000, seconds=60)
    finally:
        for number, handler in zip(numbers, usual, strict=True):
            signal.signal(number, handler)
    own = ~(3 << 31)  # 32 and 33 are the C library's, and cannot be set
    assert {int(word, 16) & own for word in done.output.split()[1::2]} == {0}


def test_killing_kogniterm_ends_the_program(tmp_path: Path) -> None:
    code = """
        import asyncio, sys
        from kogniterm.execution.process.confined_program import ConfinedProgram

        async def main():
            program = await ConfinedProgram.start(
                ["/bin/sh", "-c", "trap '' TERM HUP; echo $$; sleep 1000; sleep 1000"],
                env={"PATH": "/usr/bin:/bin"}, cwd="/", sandbox=None, temporary="/tmp",
            )
            print((await program.process.stdout.readline()).decode(), flush=True)
            await asyncio.sleep(1000)

        asyncio.run(main())
    """
    host = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, cwd=tmp_path
    )
    assert host.stdout is not None
    pid = int(host.stdout.readline())
    host.send_signal(signal.SIGKILL)
    host.wait()
    host.stdout.close()
    wait_until_gone(pid)
