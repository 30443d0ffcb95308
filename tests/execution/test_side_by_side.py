"""Commands that run at once: started from one state, ended together, and told apart."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from kogniterm.errors import ExecutionError
from kogniterm.execution import open_executor
from kogniterm.execution.executor import CommandExecutor, Lane
from kogniterm.execution.sandbox.confinement import SandboxKind
from kogniterm.types import CommandResult
from tests.support.executing import KINDS, PATIENCE, Sink, outside_tmp, sandbox_round
from tests.support.forge import until
from tests.support.pipes import fifos, writer_of


@pytest.fixture
def executor(tmp_path: Path) -> Iterator[CommandExecutor]:
    with open_executor(tmp_path) as made:
        yield made


def meet(paths: list[Path]) -> None:
    """Answer readers of `paths` once all of them are there: they run at once, or never end."""
    held = [writer_of(path) for path in paths]
    for number, fd in enumerate(held):
        os.write(fd, b"met %d\n" % number)
        os.close(fd)


def together(lanes: list[Lane], *commands: str) -> list[Future[CommandResult]]:
    pool = ThreadPoolExecutor(len(lanes))
    found = [
        pool.submit(lane.run, command, timeout=PATIENCE)
        for lane, command in zip(lanes, commands, strict=True)
    ]
    pool.shutdown(wait=False)
    return found


def test_commands_of_lanes_run_at_once(executor: CommandExecutor, tmp_path: Path) -> None:
    paths = fifos(tmp_path, "p", "q", "r")
    with executor.side_by_side(3) as lanes:
        outputs = [lane.output for lane in lanes]
        running = together(list(lanes), "cat p", "cat q; false", "cat r")
        meet(paths)
        results = [one.result(PATIENCE) for one in running]
    assert [one.text for one in results] == ["met 0", "met 1", "met 2"]
    assert [one.exit_code for one in results] == [0, 1, 0]
    assert [one.output_path for one in results] == outputs
    assert len(set(outputs)) == 3
    assert executor.next_output not in outputs


def test_each_starts_from_the_state_before_and_the_last_leaves_its_status(
    executor: CommandExecutor, tmp_path: Path
) -> None:
    executor.run("word=before; mkdir sub; cd sub; (exit 3)")
    with executor.side_by_side(2) as lanes:
        running = together(list(lanes), 'echo "$? $word"', 'echo "$? $word"; (exit 7)')
        texts = [one.result(PATIENCE).text for one in running]
    assert texts == ["3 before", "3 before"]
    result = executor.run('echo "$? $word ${PWD##*/}"')
    assert (result.text, result.notes) == ("7 before sub", ())


def test_a_change_of_the_shell_is_not_carried_over_and_a_note_says_so(
    executor: CommandExecutor,
) -> None:
    executor.run("true")
    with executor.side_by_side(2) as lanes:
        running = together(list(lanes), "word=lost; cd /usr", "echo plain")
        first, second = (one.result(PATIENCE) for one in running)
    assert "not carried over: word, cwd" in str(first.notes)
    assert second.notes == ()
    assert executor.run('echo "${word-none}"').text == "none"


def test_lanes_of_the_first_commands_need_no_note(executor: CommandExecutor) -> None:
    with executor.side_by_side(2) as lanes:
        running = together(list(lanes), "echo a", "echo b")
        assert [one.result(PATIENCE).notes for one in running] == [(), ()]
    assert executor.run("echo $?").text == "0"


def test_stop_ends_all_of_them(executor: CommandExecutor, tmp_path: Path) -> None:
    paths = fifos(tmp_path, "p", "q")
    with executor.side_by_side(2) as lanes:
        running = together(list(lanes), "cat p; sleep 600", "cat q; sleep 600")
        held = [writer_of(path) for path in paths]
        executor.stop()
        results = [one.result(PATIENCE) for one in running]
        for fd in held:
            os.close(fd)
    assert [one.ended for one in results] == ["stopped", "stopped"]
    assert executor.run("echo on").text == "on"


def test_other_commands_wait_for_the_lanes(executor: CommandExecutor, tmp_path: Path) -> None:
    (path,) = fifos(tmp_path, "p")
    order: list[str] = []
    with executor.side_by_side(1) as lanes:
        (running,) = together(list(lanes), "cat p")
        other = threading.Thread(target=lambda: order.append(executor.run("echo x").text))
        other.start()
        meet([path])
        order.append(running.result(PATIENCE).text)
    other.join(PATIENCE)
    assert order == ["met 0", "x"]


def test_closing_ends_lanes_also_on_the_thread_that_opened_them(tmp_path: Path) -> None:
    (path,) = fifos(tmp_path, "p")
    executor = open_executor(tmp_path)
    with executor.side_by_side(2) as lanes:
        (running,) = together(list(lanes[:1]), "cat p; sleep 600")
        fd = writer_of(path)
        executor.close()
        assert running.result(PATIENCE).ended == "stopped"
        os.close(fd)
        with pytest.raises(ExecutionError, match="closed"):
            lanes[1].run("echo late")


def test_a_job_of_a_lane_is_listed_like_any_other(
    executor: CommandExecutor, tmp_path: Path
) -> None:
    paths = fifos(tmp_path, "p", "q")
    with executor.side_by_side(2) as lanes:
        running = together(list(lanes), "cat p; echo over", "cat q")
        held = [writer_of(path) for path in paths]
        executor.detach()
        until(lambda: any(one.done() for one in running))
        for fd in held:
            os.close(fd)
        ended = {one.result(PATIENCE).ended for one in running}
    assert ended == {"detached", "exited"}
    assert len(executor.jobs()) == 1


@pytest.mark.parametrize(
    ("before", "plain"),
    [
        ("true", True),
        ("word=1; cd /usr", True),
        ("PATH=/nowhere:$PATH", False),
        ("ls() { touch x; }", False),
        ("alias ls=rm", False),
        ("trap 'echo bye' EXIT; false; trap 'echo usr' USR1", False),
        ("set -e", False),
        ("shopt -s nullglob", False),
        ("enable -n test", False),
        ("exec 7</etc/passwd", False),
        ("sleep 600 &", False),
    ],
)
def test_a_shell_is_plain_while_names_mean_programs(
    executor: CommandExecutor, before: str, plain: bool
) -> None:
    assert executor.has_plain_shell
    executor.run(before)
    assert executor.has_plain_shell == plain


def test_a_waiting_command_tells_its_own_sink(executor: CommandExecutor, tmp_path: Path) -> None:
    (path,) = fifos(tmp_path, "p")
    sinks = [Sink(), Sink()]
    with executor.side_by_side(2) as lanes, ThreadPoolExecutor(2) as pool:
        asks = pool.submit(lanes[0].run, "head -n 1", timeout=PATIENCE, sink=sinks[0])
        works = pool.submit(lanes[1].run, "cat p", timeout=PATIENCE, sink=sinks[1])
        sinks[0].until(lambda: any(one and one.kind == "terminal" for one in sinks[0].waits))
        meet([path])
        assert works.result(PATIENCE).text == "met 0"
        executor.stop()
        assert asks.result(PATIENCE).ended == "stopped"
    assert not any(one and one.kind == "terminal" for one in sinks[1].waits)


@pytest.mark.parametrize("kind", KINDS)
def test_sandboxed_lanes_run_at_once_and_leave_their_status_inside(kind: SandboxKind) -> None:
    with outside_tmp() as work:
        paths = fifos(work, "p", "q")
        box = sandbox_round(kind, work, work)
        with open_executor(work, workspace=work) as executor:
            with executor.side_by_side(2) as lanes:
                for lane in lanes:
                    lane.sandbox = box
                running = together(list(lanes), "cat p", "cat q; (exit 4)")
                meet(paths)
                results = [one.result(PATIENCE) for one in running]
            assert [one.text for one in results] == ["met 0", "met 1"]
            assert [one.notes for one in results] == [(), ()]
            executor.sandbox = box
            assert executor.run("echo $?").text == "4"
            executor.sandbox = None
            assert executor.run("echo $?").text == "0"


@pytest.mark.parametrize("kind", KINDS)
def test_a_sandboxed_command_leaves_a_plain_shell_plain(kind: SandboxKind) -> None:
    with outside_tmp() as place:
        box = sandbox_round(kind, place, place)
        with open_executor("/var/tmp", sandbox=box, workspace=place) as executor:
            executor.run("true", timeout=PATIENCE)
            assert executor.has_plain_shell
