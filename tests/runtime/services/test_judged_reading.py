"""Commands that were judged to only read and do more: the sandbox they run in refuses it all.

Each runs in the sandbox that it would get if the judgement had missed what it does.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kogniterm.execution import open_executor
from kogniterm.execution.sandbox.confinement import Sandbox
from kogniterm.types import CommandResult
from tests.support.executing import KINDS, PATIENCE, alive, outside_tmp, sandbox_round

PYTHON = shutil.which("python3") or "python3"


@pytest.fixture
def work() -> Iterator[Path]:
    with outside_tmp() as place:
        (place / "work" / "sub").mkdir(parents=True)
        (place / "outside").mkdir()
        (place / "work" / "kept").write_text("as it was")
        os.utime(place / "work" / "kept", (1, 1))
        (place / "work" / "link").symlink_to(place / "outside")
        yield place / "work"


@pytest.fixture(params=KINDS)
def box(request: pytest.FixtureRequest, work: Path) -> Sandbox:
    return sandbox_round(request.param, work, work.parent / "home")


def picture(folder: Path) -> list[tuple[str, int, int, int, int]]:
    """Return what a command could have changed of the files below `folder`."""
    found = [(path, path.lstat()) for path in sorted(folder.rglob("*"))]
    return [(str(p), s.st_mode, s.st_size, int(s.st_mtime), s.st_nlink) for p, s in found]


DISK = (
    "mapfile -C'touch PWN #' -c1 <<< x",
    "printf -v'a[$(touch PWN)]' x",
    "declare -a a='($(touch PWN))'",
    "n='a[$(touch PWN)]'; [[ n -gt 5 ]]",
    "echo lost > kept; truncate -s 0 kept; exec 7>>kept; echo x >&7",
    "touch link/PWN; cd ../outside && touch PWN",
    "ln kept PWN; mkfifo PWN; mknod PWN p",
    "chmod 777 kept; touch kept; touch -d @9 kept; chmod +t sub; setfattr -n user.x -v 1 kept",
    f"{PYTHON} -c 'import os; os.utime(\"kept\", (9, 9))'",
    f'{PYTHON} -c \'import os; os.setxattr("kept", "user.x", b"1")\'',
    f"echo x > /dev/shm/PWN-{os.getpid()}",
    "mount -o remount,rw,bind . ; unshare -Urm touch PWN; touch /proc/self/root$PWD/PWN",
    "mv kept moved; rm -rf sub kept link",
)
"""Commands that would write, each in a shell of its own."""


def test_nothing_of_the_disk_changes(box: Sandbox, work: Path) -> None:
    before = picture(work.parent)
    with open_executor(work, sandbox=box.reading(), workspace=work) as executor:
        attacks = "\n".join(f"({attack}); echo tried" for attack in DISK)
        tried = executor.run(attacks, timeout=PATIENCE).text.splitlines()
    assert tried.count("tried") == len(DISK)
    assert picture(work.parent) == before
    assert not Path(f"/dev/shm/PWN-{os.getpid()}").exists()
    assert "user.x" not in os.listxattr(work / "kept")


def test_a_pipe_with_a_name_is_not_written(box: Sandbox, work: Path) -> None:
    os.mkfifo(work / "pipe")
    reader = os.open(work / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        with open_executor(work, sandbox=box.reading(), workspace=work) as executor:
            assert executor.run("echo x > pipe", timeout=PATIENCE).exit_code == 1
        assert os.read(reader, 1) == b""
    finally:
        os.close(reader)


def test_a_job_that_outlives_the_command_changes_nothing(box: Sandbox, work: Path) -> None:
    with open_executor(work, sandbox=box.reading(), workspace=work) as executor:
        os.mkfifo(work / "go")
        job = "(read -r x < go; touch PWN; echo over) & disown"
        executor.run(job, timeout=PATIENCE)
        (work / "go").write_text("\n")
        (left,) = executor.jobs()
        assert executor.wait_job(left.id, PATIENCE).state != "running"
        assert "over" in executor.read_job(left.id)
        executor.sandbox = box
        assert executor.run("echo mine > made", timeout=PATIENCE).exit_code == 0
    assert not (work / "PWN").exists()
    assert (work / "made").exists()


STATE = (
    "ls() { touch PWN; }; export -f ls; cat() { touch PWN; }; builtin() { touch PWN; }",
    "shopt -s expand_aliases; alias ls='touch PWN;' cat='touch PWN;' echo='touch PWN;'",
    "export PATH=$PWD/bin:$PATH; hash -p $PWD/bin/ls ls",
    "trap 'touch PWN' DEBUG EXIT ERR; set -T",
    "PROMPT_COMMAND='touch PWN'; PS4='$(touch PWN)'; set -x",
    "export BASH_ENV=$PWD/bin/ls ENV=$PWD/bin/ls LD_PRELOAD=$PWD/bin/ls.so",
    "enable -n echo cat test; set -- x; umask 0; readonly x=1; cd sub",
    "x=1; exec 7<kept",
)
"""Shell state that a command could leave so that the next one does it."""


def test_shell_state_is_dropped_except_the_folder(box: Sandbox, work: Path) -> None:
    (work / "bin").mkdir()
    (work / "bin" / "ls").write_text("#!/bin/sh\ntouch PWN\n")
    (work / "bin" / "ls").chmod(0o755)
    look = "ls; cat kept; echo $PATH $# ${x-none}; umask; set +o; alias; declare -F"
    with open_executor(work, sandbox=box, workspace=work) as executor:

        def looked(sandbox: Sandbox | None) -> CommandResult:
            executor.sandbox = sandbox
            executor.run(f"cd {work}; true", timeout=PATIENCE)
            return executor.run(look, timeout=PATIENCE)

        for _ in range(2):  # what the first shells start with is their own
            clean = [looked(sandbox).text for sandbox in (None, box)]
        for attack in STATE:
            executor.sandbox = box.reading()
            executor.run(attack, timeout=PATIENCE)
            moved = executor.cwd
            assert [looked(sandbox).text for sandbox in (None, box)] == clean, attack
            assert moved == str(work / "sub" if "cd sub" in attack else work)
    assert not list(work.rglob("PWN"))


def test_what_is_dropped_is_said_and_the_exit_status_stays(box: Sandbox, work: Path) -> None:
    with open_executor(work, sandbox=box.reading(), workspace=work) as executor:
        loop = executor.run("for f in a b; do cd sub; done; (exit 7)", timeout=PATIENCE)
        assert [note for note in loop.notes if "carried over" in note] == [
            "Of this command only the folder is carried over, not what else it set: f."
        ]
        later = executor.run('echo "$? ${f-unset} $PWD"; cd - >/dev/null', timeout=PATIENCE)
        assert later.text.strip() == f"7 unset {work / 'sub'}"
        assert later.notes == (f"The shell is now in {work}.",)
        assert executor.cwd == str(work)


def test_the_same_can_be_asked_of_a_command_outside(work: Path) -> None:
    with open_executor(work) as executor:
        done = executor.run("x=1; exec 5<kept; cd sub", keep_state=False, timeout=PATIENCE)
        assert "not what else it set: x." in done.notes[0]
        later = executor.run('echo "${x-unset} $PWD"; cat <&5', timeout=PATIENCE)
        assert later.text.split("\n")[0] == f"unset {work / 'sub'}"
        assert later.exit_code != 0


def test_nothing_of_the_machine_is_reached(box: Sandbox, work: Path) -> None:
    local = work.parent / "s"
    victim = subprocess.Popen(["sleep", "1000"], env={"TOKEN": "secret-of-the-victim"})
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as path,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        path.bind(str(local))
        abstract.bind(f"\0kogniterm-{os.getpid()}")
        for listener in (server, path, abstract):
            listener.listen()
            listener.setblocking(False)
        port = server.getsockname()[1]
        unix = "import socket; socket.socket(socket.AF_UNIX).connect"
        attacks = (
            f"exec 9<>/dev/tcp/127.0.0.1/{port}",
            f"{PYTHON} -c '{unix}(\"{local}\")'",
            f"{PYTHON} -c '{unix}(\"\\0kogniterm-{os.getpid()}\")'",
            f"cat /proc/{victim.pid}/environ | grep -a TOKEN",
            f'{PYTHON} -c \'open("/proc/{victim.pid}/mem", "rb")\'',
            f"ls /proc/{victim.pid}/root/ /proc/{victim.pid}/fd/",
            f"kill -9 {victim.pid}",
            f"{PYTHON} -c 'import fcntl; fcntl.ioctl(0, 0x5412, b\"x\")'",
        )
        try:
            with open_executor(work, sandbox=box.reading()) as executor:
                for attack in attacks:
                    assert executor.run(attack, timeout=PATIENCE).exit_code != 0, attack
            assert alive(victim.pid)
            for listener in (server, path, abstract):
                with pytest.raises(BlockingIOError):
                    listener.accept()
        finally:
            victim.kill()
            victim.wait()
