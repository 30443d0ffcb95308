"""Machines of a fleet for tests: workers with an account, home and data folder each.

For root, a machine is a host of its own as well, with its own host name, boot and process numbers
(Linux namespaces), an account of another number, and the same account name everywhere, as one user
has it on several machines. `Machine.kill` ends all its processes at once. For other users, machines
differ in their folders only.

This file is also the program that becomes such a machine: `machines.py NAME NUMBER HOME COMMAND…`.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.support import ordinary
from tests.support.environments import environ_of

ROOT = Path(__file__).parents[2]
USER = "ana"
FIRST_NUMBER = 23_500
KEEP_WORKING = """
while ! [ -e "$HOME/off" ]; do
    "$@" 2>>"$HOME/worker.log" &
    wait $!
    echo $? >>"$HOME/ends"
done
"""
"""A service manager in five lines: it starts the worker again whenever it has ended."""
_PR_SET_PDEATHSIG = 1
_CLONE_NEWPID, _CLONE_NEWUTS = 0x20000000, 0x04000000
_MS_BIND = 4096

Kind = Literal["worker", "child", "supervisor", "command", "other"]


@dataclass(frozen=True)
class Process:
    """A process of a machine; `words` is its command line."""

    pid: int
    kind: Kind
    words: str

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


@dataclass
class Machine:
    """One machine: its folder, and how it reaches the database that all share."""

    base: Path
    name: str
    number: int
    location: str
    slots: int = 2
    _leader: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.home.mkdir(parents=True)
        for name in ("config", "tmp"):
            (self.home / name).mkdir()
        home = f"{self.home}:/bin/bash"
        account = f"root:x:0:0::/root:/bin/bash\n{USER}:x:{self.number}:{self.number}::{home}\n"
        (self.home / "accounts").write_text(account)
        if is_root():
            for path in (self.home, *self.home.iterdir()):
                os.chown(path, self.number, self.number)

    @property
    def home(self) -> Path:
        return self.base / "machines" / self.name

    @property
    def environ(self) -> dict[str, str]:
        found = {
            **environ_of(self.home),
            "TMPDIR": str(self.home / "tmp"),
            "PYTHONPATH": str(ROOT),
        }
        return found | ({"KOGNITERM_DATABASE_URL": self.location} if self.location else {})

    def start(self) -> None:
        """Switch it on: a worker runs, and is started again whenever it ends."""
        (self.home / "boot").write_text(f"{uuid.uuid4()}\n")
        work = [sys.executable, "-m", "kogniterm", "worker", "--slots", str(self.slots)]
        with (self.home / "machine.log").open("ab") as log:
            self._leader = subprocess.Popen(
                self._words("bash", "-c", KEEP_WORKING, "machine", *work),
                env=self.environ,
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self) -> None:
        """End all its processes at once, as a power failure does."""
        if self._leader is None:
            return
        self._leader.kill()
        self._leader.wait()
        self._leader = None
        while found := self.processes():
            for process in found:
                process.kill()

    def run(self, *words: str, statuses: tuple[int, ...] = (0,)) -> str:
        """Run `kogniterm WORDS` on it; return the standard output."""
        done = subprocess.run(
            self._words(sys.executable, "-m", "kogniterm", *words),
            env=self.environ,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert done.returncode in statuses, (words, done.returncode, done.stdout, done.stderr)
        return done.stdout

    def ends(self) -> list[int]:
        """Return the statuses with which its workers ended."""
        file = self.home / "ends"
        return [int(one) for one in file.read_text().split()] if file.exists() else []

    def processes(self) -> list[Process]:
        """Return its processes: those of its home, and the supervisors that these started."""
        mark = f"HOME={self.home}".encode()
        found, supervisors = [], []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with suppress(OSError):
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    kind = _kind(words, (entry / "cwd").readlink(), self.base)
                    found.append(Process(int(entry.name), kind, " ".join(words)))
                elif any("supervisor" in word for word in words[:8]):
                    parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                    process = Process(int(entry.name), "supervisor", " ".join(words))
                    supervisors.append((int(parent), process))  # its environment is empty
        known = {one.pid for one in found}
        return found + [process for parent, process in supervisors if parent in known]

    def _words(self, *command: str) -> list[str]:
        return [sys.executable, __file__, self.name, str(self.number), str(self.home), *command]


def _kind(words: list[str], folder: Path, base: Path) -> Kind:
    if "worker" in words and "--slots" in words:
        return "other" if "bash" in words[0] or __file__ in words else "worker"
    if "run" in words and "--session" in words:
        return "child"
    return "command" if folder.is_relative_to(base / "tasks") else "other"


def is_root() -> bool:
    """Return whether machines can be hosts of their own."""
    return os.geteuid() == 0


def _become(name: str, number: int, home: Path) -> None:
    """Make this process the first one of the machine; what it was waits for the end of that."""
    ordinary.own_view()
    ordinary.call("unshare", _CLONE_NEWPID | _CLONE_NEWUTS)
    child = os.fork()
    if child:
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 0xFF)
    socket.sethostname(name)
    ordinary.mount(b"proc", "/proc", b"proc")
    if (home / "boot").exists():
        ordinary.mount(bytes(home / "boot"), "/proc/sys/kernel/random/boot_id", b"", _MS_BIND)
    ordinary.become_ordinary(home.parents[1], accounts=home / "accounts", number=number)
    os.umask(0o022)
    _end_with_parent()


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


if __name__ == "__main__":
    _end_with_parent()
    if is_root():
        _become(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
    os.execvp(sys.argv[4], sys.argv[4:])
