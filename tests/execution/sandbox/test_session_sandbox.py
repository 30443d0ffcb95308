"""The life of a session's sandbox: what commands share, what is kept apart, and what ends it."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from kogniterm.errors import ExecutionError
from kogniterm.execution import open_executor
from kogniterm.execution.sandbox.confinement import SandboxKind
from kogniterm.execution.sandbox.namespaces import MOST_PROCESSES
from kogniterm.host.processes import descendants
from tests.support.executing import (
    BUILT,
    KINDS,
    PATIENCE,
    first_processes,
    processes_executing,
    ran,
    sandbox_round,
    session,
)
from tests.support.forge import until
from tests.support.programs import needs, require_sandbox

PYTHON = shutil.which("python3") or "python3"
LONG = 200_000 + os.getpid()
"""A number of seconds that no other process sleeps, so that the process can be found."""
OWN_PROCESSES: tuple[SandboxKind, ...] = ("namespaces", "bubblewrap")


# --- development ---

SERVER = (
    "import http.server as h; s = h.HTTPServer(('127.0.0.1', 0), h.SimpleHTTPRequestHandler);"
    " open('port', 'w').write(str(s.server_port) + chr(10)); s.serve_forever()"
)


@needs("curl")
@pytest.mark.parametrize("kind", BUILT)
def test_a_server_of_one_command_is_there_for_the_next_and_not_outside(
    work: Path, kind: SandboxKind
) -> None:
    with session(kind, work) as shell, socket.create_server(("127.0.0.1", 0)) as outside:
        ran(shell, f'{PYTHON} -c "{SERVER}" >/dev/null 2>&1 &')
        until(lambda: (work / "port").exists() and (work / "port").read_text().endswith("\n"))
        port = int((work / "port").read_text())
        assert "port" in ran(shell, f"curl -s localhost:{port}").text
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        own = outside.getsockname()[1]
        assert ran(shell, f"curl -s localhost:{own}").exit_code == 7
        shell.sandbox = replace(shell.sandbox, access="read") if shell.sandbox else None
        assert ran(shell, f"curl -s localhost:{port}").exit_code == 7


@needs("ps", "ss", "lsof", "fuser")
@pytest.mark.parametrize("kind", OWN_PROCESSES)
def test_processes_and_sockets_of_the_session_are_listed(work: Path, kind: SandboxKind) -> None:
    with session(kind, work) as shell:
        ran(shell, f'{PYTHON} -c "{SERVER}" >/dev/null 2>&1 &')
        until(lambda: (work / "port").exists() and (work / "port").read_text().endswith("\n"))
        port = int((work / "port").read_text())
        assert f":{port}" in ran(shell, "ss -ltnp | grep pid=").text
        pid = ran(shell, f"lsof -ti :{port}").text.strip()
        assert pid in ran(shell, "ps -e -o pid=").text.split()
        assert str(os.getpid()) not in ran(shell, "ps -e -o pid=").text.split()
        assert ran(shell, f"fuser -k {port}/tcp").exit_code == 0
        assert ran(shell, f"lsof -ti :{port}").exit_code == 1


@pytest.mark.parametrize("kind", BUILT)
def test_terminals_and_process_pools_work(work: Path, kind: SandboxKind) -> None:
    pool = "import multiprocessing as m; print(m.Pool(2).map(abs, [-1, -2]))"
    pty = "import os, pty; pty.spawn(['tty'])"
    with session(kind, work) as shell:
        assert ran(shell, f'{PYTHON} -c "{pool}"').text.strip() == "[1, 2]"
        assert "/dev/pts/" in ran(shell, f'{PYTHON} -c "{pty}"').text
        assert ran(shell, "tty").text.startswith("/dev/pts/")


@needs("strace", "gdb")
@pytest.mark.parametrize("kind", KINDS)
def test_children_are_traced(work: Path, kind: SandboxKind) -> None:
    with session(kind, work) as shell:
        assert "exited with 0" in ran(shell, "strace -f true 2>&1 | tail -1").text
        gdb = "gdb -q -batch -ex run --args /bin/true 2>&1 | tail -1"
        assert "exited normally" in ran(shell, gdb).text


# --- ahead of the first command ---


@pytest.mark.parametrize("kind", OWN_PROCESSES)
def test_a_sandbox_that_is_built_ahead_is_that_of_the_first_command(
    work: Path, kind: SandboxKind
) -> None:
    with session(kind, work) as shell:
        assert not first_processes()
        shell.prepare(shell.sandbox)
        until(first_processes)
        (ahead,) = first_processes()
        (work / ".vscode").mkdir()  # what is kept is looked at by the command, and not ahead of it
        (work / ".vscode" / "settings.json").write_text("{}")
        assert ran(shell, "echo x > .vscode/settings.json").exit_code == 1
        shell.prepare(shell.sandbox)
        assert ran(shell, "echo on").text.strip() == "on"
        until(lambda: first_processes() == {ahead})


@pytest.mark.parametrize("kind", BUILT)
def test_what_changed_since_a_sandbox_was_built_ahead_leads_to_another(
    work: Path, kind: SandboxKind
) -> None:
    granted = work.parent / "granted"
    granted.mkdir()
    with session(kind, work) as shell:
        box = shell.sandbox
        assert box is not None
        shell.prepare(box)
        shell.sandbox = replace(box, writable=(str(granted),))
        assert ran(shell, f"touch {granted}/a").exit_code == 0
        shell.prepare(box.reading())
        shell.sandbox = box
        assert ran(shell, f"touch {granted}/b").exit_code == 1
        work.rename(work.with_name("old"))  # another folder of the same name is shown
        work.mkdir()
        assert ran(shell, "touch here").exit_code == 0
        assert (work / "here").exists()


@pytest.mark.parametrize("kind", BUILT)
def test_a_sandbox_that_cannot_be_built_ahead_is_told_by_the_command(
    work: Path, kind: SandboxKind
) -> None:
    with session(kind, work) as shell:
        box = shell.sandbox
        assert box is not None
        shell.sandbox = replace(box, writable=(str(work.parent / "nowhere"),))
        shell.prepare(shell.sandbox)
        with pytest.raises(ExecutionError, match="sandbox could not start"):
            ran(shell, "true")
        shell.sandbox = box
        assert ran(shell, "echo on").text.strip() == "on"


# --- what is kept apart ---


@pytest.mark.parametrize("kind", BUILT)
def test_jobs_reach_nothing_of_a_command_with_a_secret_or_one_that_only_reads(
    work: Path, kind: SandboxKind
) -> None:
    spy = (
        "(while :; do for p in /proc/[0-9]*; do "
        "cat $p/environ $p/cmdline; echo typed > $p/fd/0; done 2>/dev/null; done > seen) &"
    )
    with session(kind, work) as shell:
        box = shell.sandbox
        assert box is not None
        ran(shell, spy)
        until((work / "seen").exists)
        token = {"TOKEN": f"secret-{os.getpid()}"}
        typed = 'read -t 1 -r x; echo "got <$x>"'
        assert "got <>" in shell.run(f"sleep 1; {typed}", secrets=token).text
        shell.sandbox = box.reading()
        assert "got <>" in ran(shell, f": only-read-{LONG}; sleep 1; {typed}").text
        shell.sandbox = box
        seen = (work / "seen").read_bytes()
    assert token["TOKEN"].encode() not in seen
    assert kind == "container" or f"only-read-{LONG}".encode() not in seen


@pytest.mark.parametrize("kind", BUILT)
def test_a_job_that_only_reads_is_apart_from_the_next_command_that_does(
    work: Path, kind: SandboxKind
) -> None:
    with session(kind, work) as shell:
        assert shell.sandbox is not None
        shell.sandbox = shell.sandbox.reading()
        ran(shell, f"sleep {LONG} &")
        listed = f"cat /proc/[0-9]*/cmdline 2>&- | tr '\\0' '\\n' | grep -cx '[2]{str(LONG)[1:]}'"
        assert ran(shell, listed).text.strip() == str(int(kind == "container"))
        ran(shell, "kill -9 -1")
        (job,) = shell.jobs()
        assert job.state == "running"


# --- protection that comes later ---


@pytest.mark.parametrize("kind", BUILT)
def test_what_is_protected_later_is_protected_from_jobs_too(work: Path, kind: SandboxKind) -> None:
    evil = "echo evil >> .git/config; echo evil > .git/hooks/pre-commit"
    with session(kind, work) as shell:
        ran(shell, f"sleep {LONG} &")
        job = f"(while test ! -e go; do sleep 0.05; done; {evil}; touch done) >/dev/null 2>&1 &"
        ran(shell, job)
        (work / ".git" / "hooks").mkdir(parents=True)
        (work / ".git" / "config").write_text("as it was\n")
        around = (
            f"for root in /proc/[0-9]*/root; do cd $root{work} 2>/dev/null && {{ {evil}; }}; done"
        )
        ran(shell, f"{around} 2>/dev/null; touch go")
        until((work / "done").exists)
        ran(shell, "mv .git away; mv .git/hooks x")
    assert (work / ".git" / "config").read_text() == "as it was\n"
    assert not list((work / ".git" / "hooks").iterdir())


@pytest.mark.parametrize("kind", BUILT)
def test_no_protection_covers_another_one(work: Path, kind: SandboxKind) -> None:
    for name in ("one", "two", "secret"):
        (work / "sub" / name).mkdir(parents=True)
        (work / "sub" / name / "file").write_text("as it was\n")
    (work / "sub" / ".git" / "hooks").mkdir(parents=True)
    (work / "sub" / ".git" / "config").write_text("as it was\n")
    names = ("one/file", "two/file", "secret/file", ".git/config")
    with session(kind, work) as shell:
        assert shell.sandbox is not None
        closed = tuple(str(work / "sub" / name) for name in ("one", "two"))
        shell.sandbox = replace(shell.sandbox, closed=closed, hidden=(f"{work}/sub/secret",))
        for _ in range(2):
            for name in names:
                assert ran(shell, f"echo evil >> sub/{name}").exit_code != 0, name
            assert ran(shell, "cat sub/secret/file").exit_code != 0
            (work / "sub" / "new" / ".git" / "hooks").mkdir(parents=True, exist_ok=True)
    assert {(work / "sub" / name).read_text() for name in names} == {"as it was\n"}


@pytest.mark.parametrize("kind", BUILT)
def test_a_folder_that_is_replaced_outside_is_the_new_one(work: Path, kind: SandboxKind) -> None:
    extra = work.parent / "extra"
    extra.mkdir()
    with session(kind, work) as shell:
        assert shell.sandbox is not None
        shell.sandbox = replace(shell.sandbox, writable=(str(extra),))
        ran(shell, f"echo one > {extra}/file; sleep {LONG} &")
        extra.rename(work.parent / "old")
        extra.mkdir()
        assert ran(shell, f"ls {extra}; echo two > {extra}/file").text.strip() == ""
    assert (work.parent / "old" / "file").read_text() == "one\n"
    assert (extra / "file").read_text() == "two\n"


@pytest.mark.parametrize("kind", BUILT)
def test_what_the_machine_mounts_later_does_not_appear(work: Path, kind: SandboxKind) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root mounts")
    (work / "volume").mkdir()
    with session(kind, work) as shell:
        ran(shell, f"sleep {LONG} &")
        subprocess.run(["mount", "-t", "tmpfs", "none", work / "volume"], check=True)
        try:
            ran(
                shell,
                ": > volume/file; for p in /proc/[0-9]*; do touch $p/root$PWD/volume/x; done",
            )
            assert not list((work / "volume").iterdir())
        finally:
            subprocess.run(["umount", work / "volume"], check=True)


@pytest.mark.parametrize("kind", OWN_PROCESSES)
@pytest.mark.parametrize("visible", [True, False])
def test_a_second_procfs_of_the_machine_is_covered(
    place: Path, tmp_path: Path, kind: SandboxKind, visible: bool
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root mounts")
    require_sandbox(kind)
    proc = (place if visible else tmp_path) / "rööt x" / "proc"
    proc.mkdir(parents=True)
    subprocess.run(["mount", "-t", "proc", "proc", proc], check=True)
    try:
        with session(kind, place / "work") as shell:
            listed = ran(
                shell, f"ls '{proc}' | wc -l; find /tmp 2>/dev/null | grep -c 'rööt x'"
            ).text
            assert listed.split()[-2:] == ["0", "0"]
    finally:
        subprocess.run(["umount", proc], check=True)


# --- the end ---


@pytest.mark.parametrize("kind", KINDS)
def test_what_leaves_its_leader_is_ended(work: Path, kind: SandboxKind) -> None:
    with session(kind, work) as shell:
        ran(shell, f"(setsid setsid sleep {LONG} &) ; sleep 0.1; kill -9 $PPID; sleep 0.2")
        assert ran(shell, "echo next").text.strip() == "next"
        for job in shell.jobs():
            shell.stop_job(job.id)
        until(lambda: not processes_executing(f"sleep {LONG}"))


@pytest.mark.parametrize("kind", OWN_PROCESSES)
def test_a_leader_that_is_stopped_does_not_keep_the_command(work: Path, kind: SandboxKind) -> None:
    with session(kind, work) as shell:
        result = shell.run(f"kill -STOP $PPID; sleep {LONG}", timeout=1)
        assert (result.ended, result.jobs) == ("timeout", ())
        assert ran(shell, "echo next").text.strip() == "next"


@pytest.mark.parametrize("kind", OWN_PROCESSES)
def test_the_first_process_is_out_of_reach(work: Path, kind: SandboxKind) -> None:
    attacks = (
        "cat /proc/1/environ",
        "cat /proc/1/maps",
        "ls /proc/1/root/",
        "echo x > /proc/1/mem",
        f"{PYTHON} -c 'import resource as r; r.prlimit(1, r.RLIMIT_CPU, (1, 1))'",
        "nsenter -t 1 -m true",
        "gdb -q -batch -p 1 2>&1 | grep -q 'No such process'; exit 1",
    )
    with session(kind, work) as shell:
        ran(shell, f"sleep {LONG} &")
        (job,) = shell.jobs()
        for attack in attacks:
            assert ran(shell, attack).exit_code != 0, attack
        ran(shell, "for number in $(seq 64); do kill -$number 1; done; true")
        assert ran(shell, "echo next").text.strip() == "next"
        assert [one.state for one in shell.jobs() if one.id == job.id] == ["running"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_leader_gives_nothing_away_and_takes_no_orders(work: Path, kind: SandboxKind) -> None:
    attacks = (
        "for fd in /proc/$PPID/fd/*; do echo 'all 0 0' > $fd && exit 0; done 2>/dev/null; exit 1",
        "cat /proc/$PPID/environ",
        "head -c 1 /proc/$PPID/mem",
        "ls /proc/$PPID/root/",
        call_ptrace("$PPID"),
    )
    with session(kind, work) as shell:
        for attack in attacks:
            assert ran(shell, attack).exit_code != 0, attack
        sent = "case $number in 9|19|32|33) ;; *) kill -$number $PPID; esac"
        harmless = f"for number in $(seq 64); do {sent}; done"
        result = ran(shell, f"{harmless} 2>/dev/null; echo still; exit 3")
        assert (result.text.strip(), result.exit_code) == ("still", 3)


def call_ptrace(pid: str) -> str:
    """Return a program that attaches to a process, and succeeds if it can."""
    code = "import ctypes, sys; exit(ctypes.CDLL(None).ptrace(16, int(sys.argv[1]), 0, 0) != 0)"
    return f"{PYTHON} -c '{code}' {pid}"


@pytest.mark.parametrize("kind", OWN_PROCESSES)
def test_a_sandbox_that_was_killed_is_built_again(work: Path, kind: SandboxKind) -> None:
    with session(kind, work) as shell:
        ran(shell, f"sleep {LONG} & echo kept > /tmp/file")
        (job,) = shell.jobs()
        first = [
            int(process.name)
            for process in Path("/proc").glob("[0-9]*")
            if _is_first(process) and _above(int(process.name)) & {os.getpid()}
        ]
        assert first
        for pid in first:
            os.kill(pid, signal.SIGKILL)
        shell.wait_job(job.id, PATIENCE)
        assert ran(shell, "cat /tmp/file").text.strip() == "kept"
        assert not processes_executing(f"sleep {LONG}")


def _is_first(process: Path) -> bool:
    with suppress(OSError, StopIteration):
        lines = (process / "status").read_text().splitlines()
        numbers = next(line for line in lines if line.startswith("NSpid:")).split()
        return len(numbers) > 2 and numbers[-1] == "1"
    return False


def _above(pid: int) -> set[int]:
    """Return the processes above `pid`."""
    found: set[int] = set()
    while pid > 1:
        with suppress(OSError):
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            found.add(pid)
            continue
        break
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_left_when_the_supervisor_is_killed(work: Path, kind: SandboxKind) -> None:
    # With processes of its own the kernel ends them; else the supervisor does, or each leader.
    for victim in ("supervisor", *(("both",) if kind in OWN_PROCESSES else ())):
        with session(kind, work) as shell:
            ran(shell, f"(setsid sleep {LONG} &); trap '' HUP; sleep {LONG} &")
            assert len(processes_executing(f"sleep {LONG}")) == 2
            (supervisor,) = {
                state.pid for state in descendants(os.getpid()) if state.parent == os.getpid()
            } & _above(processes_executing(f"sleep {LONG}")[0])
            if victim == "both":
                for state in descendants(supervisor):
                    with suppress(ProcessLookupError):
                        if state.pid not in processes_executing(f"sleep {LONG}"):
                            os.kill(state.pid, signal.SIGKILL)
            os.kill(supervisor, signal.SIGKILL)
            until(lambda: not processes_executing(f"sleep {LONG}"))


# --- bounds ---


@pytest.mark.parametrize("kind", OWN_PROCESSES)
def test_a_fork_bomb_is_bounded_and_another_command_runs(work: Path, kind: SandboxKind) -> None:
    version = tuple(int(part) for part in os.uname().release.split(".")[:2])
    if os.geteuid() == 0 and version < (6, 14):
        pytest.skip("root has no bound here")
    bomb = (
        "import os, time\n"
        "n = 0\n"
        "try:\n"
        "    while True:\n"
        "        if os.fork() == 0: time.sleep(1000)\n"
        "        n += 1\n"
        "except OSError: open('count', 'w').write(str(n))\n"
        "time.sleep(1000)\n"
    )
    (work / "bomb.py").write_text(bomb)
    with session(kind, work) as shell:
        ran(shell, f"{PYTHON} bomb.py &")
        until((work / "count").exists)
        assert int((work / "count").read_text() or 0) < 2 * MOST_PROCESSES
        (job,) = shell.jobs()
        if os.geteuid() != 0:
            assert ran(shell, "echo next").text.strip() == "next"
        shell.stop_job(job.id)
        assert ran(shell, "echo next").text.strip() == "next"


@pytest.mark.parametrize("kind", KINDS)
def test_limits_of_the_machine_stay_as_they_are(work: Path, kind: SandboxKind) -> None:
    files = [
        Path("/proc/sys/kernel/pid_max"),
        Path("/proc/sys/net/ipv4/ip_unprivileged_port_start"),
        Path("/proc/sys/user/max_user_namespaces"),
    ]
    before = [file.read_text() for file in files]
    box = sandbox_round(kind, work, work.parent / "home")
    for one in (box, replace(box, network=True), box.reading()):
        with open_executor(work, sandbox=one, workspace=work) as shell:
            assert ran(shell, "true").exit_code == 0
    assert [file.read_text() for file in files] == before


@pytest.mark.parametrize("kind", OWN_PROCESSES)
def test_shared_memory_is_bounded(work: Path, kind: SandboxKind) -> None:
    with session(kind, work) as shell:
        assert ran(shell, "fallocate -l 40G /dev/shm/full").exit_code != 0
        assert ran(shell, "rm -f /dev/shm/full; echo x > /dev/shm/x").exit_code == 0
    assert not Path("/dev/shm/x").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_commands_end_before_other_programs_when_memory_runs_out(
    work: Path, kind: SandboxKind
) -> None:
    with session(kind, work) as shell:
        inside = int(ran(shell, "cat /proc/self/oom_score_adj").text)
    assert inside > int(Path("/proc/self/oom_score_adj").read_text())


# --- containers ---

PROBE = (
    "import sys; from pathlib import Path; sys.path[:0] = sys.argv[1:]; "
    "from kogniterm.execution.sandbox_probe import probe; "
    "print(probe(Path('probe').absolute()).kind)"
)
MASKS = "mount -t tmpfs none /proc/acpi && mount --bind /proc/sys /proc/sys"
"""A container hides parts of /proc so, and the kernel then allows no other procfs."""


@needs("unshare")
@pytest.mark.parametrize(
    ("flags", "before", "kind"),
    [
        ("-m", MASKS, "container"),
        ("-Ur", "echo 0 > /proc/sys/user/max_user_namespaces", "landlock"),
    ],
)
def test_the_kind_follows_what_a_container_allows(
    place: Path, flags: str, before: str, kind: SandboxKind
) -> None:
    require_sandbox("namespaces")
    require_sandbox(kind)
    if flags == "-m" and (os.geteuid() != 0 or not Path("/proc/acpi").is_dir()):
        pytest.skip("only root mounts, over a folder that is there")
    words = [sys.executable, "-c", PROBE, *sys.path]
    inner = f"{before} && exec {shlex.join(words)}"
    done = subprocess.run(
        ["unshare", flags, "sh", "-c", inner], capture_output=True, text=True, check=True, cwd=place
    )
    assert done.stdout.strip() == kind


LISTS = (
    "import sys; place, kind, program, *sys.path = sys.argv[1:]; "
    "from kogniterm.execution import open_executor; "
    "from kogniterm.execution.sandbox.confinement import Sandbox; "
    "box = Sandbox(kind, place + '/work', place + '/home', program=program); "
    "print(open_executor(place + '/work', sandbox=box).run('ls ../second*/').text or 'nothing')"
)


@needs("unshare")
@pytest.mark.parametrize("kind", BUILT)
def test_a_second_proc_is_covered_whatever_its_name(place: Path, kind: SandboxKind) -> None:
    program = require_sandbox(kind).program
    second = place / os.fsdecode(b"second \xff")  # no text in UTF-8
    second.mkdir()
    words = [sys.executable, "-c", LISTS, str(place), kind, program, *sys.path]
    inner = f"mount --bind /proc {shlex.quote(str(second))} && exec {shlex.join(words)}"
    done = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", inner], capture_output=True, text=True, check=False
    )
    assert (done.stdout.strip(), done.stderr) == ("nothing", "")
