"""The executor's own folder: created where there is space, removed when no process needs it."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kogniterm.execution import open_executor
from tests.support.executing import PATIENCE
from tests.support.forge import until

HOST = """
import sys
from kogniterm.execution import open_executor
executor = open_executor(sys.argv[1])
for command in sys.argv[2:]:
    print(executor.run(command).text, flush=True)
print(executor.temporary_folder.removesuffix("/tmp"), flush=True)
sys.stdin.read()
executor.close()
"""
SUPERVISOR = "awk '{print $4}' /proc/$PPID/stat"


def host(folder: Path, *commands: str, place: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOST, str(folder), *commands],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(place)},
    )


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def is_free(lock: Path) -> bool:
    """Return whether no process holds `lock`, not even through a copy of its descriptor."""
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def finish(process: subprocess.Popen[str]) -> None:
    process.communicate(timeout=PATIENCE)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_host_that_ran_a_command_leaves_no_folder(tmp_path: Path, number: int) -> None:
    process = host(tmp_path, "true", place=tmp_path)
    assert said(process) == ""
    private = Path(said(process))
    assert private.parent == tmp_path
    process.send_signal(number)
    finish(process)
    until(lambda: not private.exists())


def test_the_folder_of_a_killed_host_that_ran_nothing_goes_with_the_next(tmp_path: Path) -> None:
    killed = host(tmp_path, place=tmp_path)
    private = Path(said(killed))
    killed.kill()
    finish(killed)
    later = host(tmp_path, place=tmp_path)
    said(later)
    assert not private.exists()
    finish(later)


def test_an_abandoned_folder_is_removed_by_the_next_executor(
    tmp_path: Path,
) -> None:
    killed, living = (host(tmp_path, SUPERVISOR, place=tmp_path) for _ in range(2))
    supervisor = int(said(killed))
    said(living)
    left, used = Path(said(killed)), Path(said(living))
    # The supervisor is stopped, so it cannot see its host's end and cannot clean up.
    os.kill(supervisor, signal.SIGSTOP)
    killed.kill()
    finish(killed)
    os.kill(supervisor, signal.SIGKILL)
    another = tmp_path / "kogniterm-1-abcdefgh"
    another.mkdir()
    # The process it forked for its next command may not have released the folder yet.
    until(lambda: is_free(left / "held"))
    assert left.exists()

    later = host(tmp_path, place=tmp_path)
    said(later)
    assert not left.exists()
    assert used.exists()
    assert another.exists()
    finish(later)
    finish(living)
    until(lambda: [path.name for path in tmp_path.iterdir()] == [another.name])


def test_no_room_anywhere_is_one_sentence(tmp_path: Path) -> None:
    script = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
        "from kogniterm.errors import ExecutionError\n"
        "from kogniterm.execution import open_executor\n"
        "try:\n    open_executor(sys.argv[1])\n"
        "except ExecutionError as error:\n    sys.stdout.write(str(error))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert done.stdout.startswith("No folder for temporary files is writable")
    assert "TMPDIR" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_state_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with open_executor(tmp_path) as executor:
        executor.run("a=1", timeout=PATIENCE)
        result = executor.run("trap '' XFSZ; a=2; ulimit -f 0", timeout=PATIENCE)
        assert any("could not write down its state" in note for note in result.notes)
        assert executor.run("echo $a; echo x > f", timeout=PATIENCE).text == "1"


INTERRUPTED = """
import os, signal, sys
from kogniterm.execution import open_executor
executor = open_executor(sys.argv[1])
supervisor = int(executor.run("awk '{print $4}' /proc/$PPID/stat").text)
os.kill(supervisor, signal.SIGKILL)  # it would remove what is left
print(executor.temporary_folder.removesuffix("/tmp"), flush=True)
left = int(sys.argv[2])

def step(event, arguments):
    global left
    if event in ("os.remove", "os.rmdir"):
        left -= 1
        if left == 0:
            raise KeyboardInterrupt

sys.addaudithook(step)
executor.close()
"""


@pytest.mark.parametrize("step", [1, 2, 3, 5, 7, 8])
def test_a_removal_that_a_signal_cut_short_is_finished_later(tmp_path: Path, step: int) -> None:
    place = tmp_path / "tmp"
    place.mkdir()
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(tmp_path), str(step)],
        env={**os.environ, "TMPDIR": str(place)},
        capture_output=True,
        text=True,
        check=False,
    )
    private = Path(ended.stdout.strip())
    assert private.exists(), ended.stderr
    assert "KeyboardInterrupt" in ended.stderr
    finish(host(tmp_path, place=place))
    assert not private.exists()


EXHAUSTED = """
import os, resource, sys
from kogniterm.execution import open_executor
free = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) - 1 + free,) * 2)
try:
    with open_executor(sys.argv[1]) as executor:
        executor.run("true")
except Exception as error:
    print(error)
"""


@pytest.mark.parametrize("free", range(2, 11))
def test_without_descriptors_no_folder_is_left(tmp_path: Path, free: int) -> None:
    place = tmp_path / "tmp"
    place.mkdir()
    ended = subprocess.run(
        [sys.executable, "-c", EXHAUSTED, str(tmp_path), str(free)],
        env={**os.environ, "TMPDIR": str(place)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "oo many" in ended.stdout, ended
    until(lambda: not any(place.iterdir()))
    assert "Traceback" not in ended.stderr
