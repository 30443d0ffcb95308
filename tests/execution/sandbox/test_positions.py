"""Attacks on every kind of sandbox: as its first command, beside a hostile job, and from a job."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from kogniterm.execution import open_executor
from kogniterm.execution.executor import CommandExecutor
from kogniterm.execution.sandbox.confinement import Sandbox, SandboxKind
from tests.support.executing import KINDS, PATIENCE, alive, outside_tmp, sandbox_round

PYTHON = shutil.which("python3") or "python3"
HOSTILE = (
    "(while :; do for p in /proc/[0-9]*; do echo x > $p/root{outside}/made; "
    "cat $p/root{home}/.ssh/key > stolen; kill -STOP ${{p#/proc/}}; kill -CONT ${{p#/proc/}}; "
    "ln -sfn {outside} away; ln -sfn {outside} .git/hooks/x; done; sleep 0.02; done) "
    ">/dev/null 2>&1 &"
)


def call(number: int, *words: str) -> str:
    """Return a program that makes a system call of x86_64 and succeeds if it does."""
    arguments = ", ".join((str(number), *words))
    return f"{PYTHON} -c 'import ctypes; exit(ctypes.CDLL(None).syscall({arguments}) < 0)'"


def opened(family: str) -> str:
    return f"{PYTHON} -c 'import socket as s; {family}'"


FILES = (
    "touch {outside}/made",
    "echo x >> {outside}/victim.txt",
    "ln -s {outside} link1; touch link1/made",
    "echo x > made; cp made {home}/made",
    "cat {home}/.ssh/key",
    "touch /etc/made || touch /usr/made || touch /var/tmp/made-{pid}",
    "touch /proc/self/root{outside}/made",
    "touch /proc/self/cwd/../outside/made",
)
MOUNTS = (
    "mount -t tmpfs none /mnt",
    "mount -o remount,rw,bind / && touch {outside}/made",
    "umount -l {home}/.ssh",
    "unshare -m true",
    "unshare -Urm sh -c 'mount -o remount,rw,bind / && touch {outside}/made'",
    "nsenter -t 1 -m touch {outside}/made",
    "nsenter -t {victim} -m touch {outside}/made",
    "bwrap --bind / / touch {outside}/made",
    "chroot {outside} /bin/true",
    "mknod node b 8 0",
    "su -c 'touch {outside}/made' </dev/null",
)
PROCESSES = (
    "kill -9 {victim}",
    "cat /proc/{victim}/environ | grep -a TOKEN",
    "ls /proc/{victim}/root/",
    "head -c 1 /proc/{victim}/maps | grep .",
    f"{PYTHON} -c 'import resource as r; r.prlimit({{victim}}, r.RLIMIT_NOFILE, (5, 5))'",
    f"{PYTHON} -c 'import os; os.setpriority(os.PRIO_PROCESS, {{victim}}, 19)'",
    call(101, "16", "{victim}", "0", "0"),
    call(438, f"{os.getpid()}", "0", "0"),
)
"""The last two: ptrace (attach), pidfd_getfd of what is no pidfd."""
SOCKETS = (
    "exec 9<>/dev/tcp/127.0.0.1/{port}",
    opened('s.socket(s.AF_UNIX).connect("{outside}/s")'),
    opened('s.socket(s.AF_UNIX).connect("s")'),
    opened('s.socket(s.AF_UNIX).connect("\\0kogniterm-{pid}")'),
    opened("s.socket(s.AF_VSOCK)"),
    opened("s.socket(s.AF_PACKET, s.SOCK_RAW)"),
    opened("s.socket(s.AF_INET, s.SOCK_RAW, 1)"),
    opened("s.socket(38, s.SOCK_SEQPACKET)"),
)
KERNEL = (
    f"{PYTHON} -c 'import fcntl; fcntl.ioctl(0, 0x5412, b\"x\")'",
    "echo 1 > /proc/sys/kernel/core_pattern",
    "echo 9 > /proc/sys/vm/swappiness",
    "echo h > /proc/sysrq-trigger",
    "mkdir /sys/fs/cgroup/made",
    call(425, "4", "ctypes.create_string_buffer(120)"),
    call(250, "0", "-3", "0"),
    call(321, "0", "0", "0"),
    call(323, "0"),
    call(298, "ctypes.create_string_buffer(120)", "0", "-1", "-1", "0"),
    call(0x40000000 + 39),
)
KEPT = (
    "echo evil >> .git/config",
    "echo evil > .git/hooks/pre-commit",
    "mv .git away1",
    "for p in /proc/[0-9]*; do echo evil >> $p/root$PWD/.git/config && exit 0; done; exit 1",
)
"""Changes of what git runs, which Landlock lets pass and reports."""


@dataclass
class Outside:
    """Surroundings of a sandbox: files and a process that stay, listeners that nothing reaches."""

    place: Path
    victim: int
    port: int
    reached: list[socket.socket]

    def filled(self, command: str) -> str:
        return command.format(
            outside=self.place / "outside", home=self.place / "home", victim=self.victim,
            port=self.port, pid=os.getpid(),
        )  # fmt: skip

    def wrong(self) -> list[str]:
        """Return the traces of an attack that got out."""
        found = [str(path) for path in (self.place / "outside").iterdir()]
        expected = {"victim.txt", "s"}
        wrong = [path for path in found if Path(path).name not in expected]
        if (self.place / "outside" / "victim.txt").read_text() != "as it was\n":
            wrong.append("victim.txt")
        stolen = self.place / "work" / "stolen"
        if stolen.exists() and "the key" in stolen.read_text():
            wrong.append("the key was read")
        if not alive(self.victim):
            wrong.append("the victim was ended")
        for listener in self.reached:
            try:
                listener.accept()
            except BlockingIOError:
                continue
            wrong.append(f"a connection to {listener.getsockname()!r}")
        return wrong


@contextmanager
def outside_world() -> Iterator[Outside]:
    """Build the folders, start the victim and the listeners."""
    with ExitStack() as stack:
        place = stack.enter_context(outside_tmp())
        for name in ("outside", "home/.ssh", "work/.git/hooks"):
            (place / name).mkdir(parents=True)
        (place / "outside" / "victim.txt").write_text("as it was\n")
        (place / "home" / ".ssh" / "key").write_text("the key\n")
        (place / "work" / ".git" / "config").write_text("as it was\n")
        listeners = [
            stack.enter_context(socket.socket(family))
            for family in (socket.AF_UNIX, socket.AF_UNIX, socket.AF_UNIX, socket.AF_INET)
        ]
        addresses: list[object] = [
            f"{place}/outside/s",
            f"{place}/work/s",
            f"\0kogniterm-{os.getpid()}",
        ]
        for listener, address in zip(listeners, [*addresses, ("127.0.0.1", 0)], strict=True):
            listener.bind(address)  # type: ignore[arg-type]  # of the family's kind
            listener.listen()
            listener.setblocking(False)
        victim = stack.enter_context(subprocess.Popen(["sleep", "1000"], env={"TOKEN": "secret"}))
        stack.callback(os.kill, victim.pid, signal.SIGKILL)
        yield Outside(place, victim.pid, listeners[-1].getsockname()[1], listeners)


def through(box: Sandbox, found: Outside, position: str) -> list[str]:
    """Return the attacks that succeeded."""
    attacks = (*FILES, *MOUNTS, *PROCESSES, *SOCKETS, *(KEPT if box.gives.keeps_files else ()))
    if os.uname().machine == "x86_64":
        attacks += KERNEL
    passed: list[str] = []

    def attack(shell: CommandExecutor, command: str) -> None:
        text = found.filled(command)
        placed = f"( {text} ) & wait $!" if position == "job" else text
        result = shell.run(placed, timeout=PATIENCE)
        passed.extend([command] if result.exit_code == 0 else [])
        passed.extend(f"{command}: {one}" for one in found.wrong())

    if position == "first":
        for command in attacks:
            with open_executor(box.workspace, sandbox=box) as shell:
                attack(shell, command)
        return passed
    with open_executor(box.workspace, sandbox=box) as shell:
        if position == "beside":
            shell.run(found.filled(HOSTILE), timeout=PATIENCE)
        for command in attacks:
            attack(shell, command)
    return passed


@pytest.mark.parametrize("position", ["first", "beside", "job"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_attack_succeeds(kind: SandboxKind, position: str) -> None:
    with outside_world() as found:
        box = sandbox_round(kind, found.place / "work", found.place / "home")
        assert through(box, found, position) == []
