"""The sandbox wrapped round a command: what works here is found out by a real refusal test.

Bubblewrap if there is one; else Landlock with seccomp, which needs nothing installed but leaves
reads and other processes open; else none, and that is said. Inside, only the workspace and a
private /tmp (and TMPDIR) can be written, there is no network unless it was approved, folders
with secrets are empty, and git's hooks and configuration cannot be changed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from kogniterm.paths import private_folder

SandboxKind = Literal["bubblewrap", "landlock", "none"]
SECRET_FOLDERS = (
    ".ssh", ".aws", ".gnupg", ".azure", ".kube", ".docker", ".config/gcloud", ".config/gh",
    ".config/kogniterm", ".local/share/kogniterm", ".mozilla", ".config/google-chrome",
    ".config/chromium", ".local/share/keyrings", ".password-store", ".config/op",
)  # fmt: skip
SECRET_FILES = (".netrc", ".pgpass", ".npmrc", ".pypirc", ".git-credentials", ".my.cnf")
PROTECTED = (".git/hooks", ".git/config", ".git/info/attributes", ".kogniterm", ".vscode", ".idea")
"""Inside the workspace, but what runs or steers something later: read-only where they exist."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """How to wrap the commands of one workspace.

    `network` is whether the host's network may be used; `writable` are folders beside the
    workspace that a person allowed; `hidden` are folders with secrets beside the usual ones.
    """

    kind: SandboxKind
    workspace: str
    home: str
    network: bool = False
    writable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    program: str = ""

    def wrap(self, argv: list[str], *, cwd: str, shell_files: str, temporary: str) -> list[str]:
        """The argv that runs `argv` inside; see `executor.Wrapper`.

        The wrapper itself owns no terminal (bubblewrap would die of Ctrl-C); `inside` takes it
        for the command.
        """
        if self.kind == "bubblewrap":
            outer = [self.program, *self._mounts(shell_files, temporary), *self._namespaces(cwd)]
            return [*outer, *_inside(), "--", *argv]
        if self.kind == "landlock":
            network = "net" if self.network else "no-net"
            return [*_inside(), network, *self._writable(), temporary, "--", *argv]
        return argv

    def variables(self, temporary: str) -> Mapping[str, str]:
        """Where temporary files go under Landlock, which cannot put a private /tmp in place."""
        return {"TMPDIR": temporary} if self.kind == "landlock" else {}

    def may_write(self, path: str) -> bool:
        """Return whether commands inside may write to the folder `path`."""
        real = Path(path).resolve()
        return any(real.is_relative_to(Path(folder).resolve()) for folder in self._writable())

    def _writable(self) -> tuple[str, ...]:
        return (self.workspace, *self.writable)

    def _namespaces(self, cwd: str) -> list[str]:
        return [
            *("--unshare-user", "--disable-userns", "--unshare-pid", "--unshare-ipc"),
            *("--unshare-uts", "--unshare-cgroup-try", "--cap-drop", "ALL"),
            *(() if self.network else ("--unshare-net",)),
            *("--chdir", cwd, "--"),
        ]

    def _mounts(self, shell_files: str, temporary: str) -> list[str]:
        arguments = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
        arguments += ["--bind", temporary, "/tmp"]
        if Path("/run").is_dir():
            # Sockets of docker, dbus or an ssh agent lead out of any namespace.
            arguments += ["--tmpfs", "/run"]
        usual = Path(tempfile.gettempdir()).resolve()  # where TMPDIR points
        if usual != Path("/tmp") and not Path(self.home).is_relative_to(usual):
            arguments += ["--tmpfs", str(usual)]
        if not Path(shell_files).resolve().is_relative_to(usual) and usual.exists():
            arguments += ["--tmpfs", shell_files]
        for folder in self._hidden_folders():
            arguments += ["--tmpfs", folder]
        for file in self._hidden_files():
            arguments += ["--ro-bind", "/dev/null", file]
        for folder in self._writable():
            arguments += ["--bind", folder, folder]
        for name in PROTECTED:
            path = Path(self.workspace) / name
            if path.exists() and not path.is_symlink():
                arguments += ["--ro-bind", str(path), str(path)]
        return arguments

    def _hidden_folders(self) -> list[str]:
        names = (*(str(Path(self.home) / name) for name in SECRET_FOLDERS), *self.hidden)
        return [name for name in names if Path(name).is_dir() and not self._needed(name)]

    def _hidden_files(self) -> list[str]:
        names = (str(Path(self.home) / name) for name in SECRET_FILES)
        return [name for name in names if Path(name).is_file()]

    def _needed(self, folder: str) -> bool:
        """A workspace below a hidden folder would be hidden with it."""
        return Path(self.workspace).is_relative_to(folder)


@dataclass(frozen=True, slots=True)
class Probe:
    """What was found out: the best sandbox that refused what it must, and why others did not."""

    kind: SandboxKind
    program: str = ""
    reasons: Mapping[str, str] = field(default_factory=dict)


def probe(
    scratch: Path, wanted: Literal["auto", "bubblewrap", "landlock", "off"] = "auto"
) -> Probe:
    """Find the best sandbox that works, by making it refuse a write. Takes some 50 ms.

    `scratch` is a folder of ours outside /tmp (where every sandbox has its own), in which the
    refused write is tried.
    """
    if wanted == "off":
        return Probe("none", reasons={"off": "switched off"})
    reasons: dict[str, str] = {}
    private_folder(scratch)
    if wanted in ("auto", "bubblewrap"):
        program = shutil.which("bwrap")
        reason = _bubblewrap(program, scratch) if program else "bwrap is not installed"
        if reason is None:
            return Probe("bubblewrap", program or "")
        reasons["bubblewrap"] = reason
    if wanted in ("auto", "landlock"):
        reason = _landlock(scratch)
        if reason is None:
            return Probe("landlock", reasons=reasons)
        reasons["landlock"] = reason
    return Probe("none", reasons=reasons)


_ATTEMPT = """touch "$1/yes"
touch "$2/no"
mount -o remount,rw,bind /
touch "$2/no"
true"""


def _bubblewrap(program: str, scratch: Path) -> str | None:
    """None when bubblewrap lets a program write inside and not outside; else why it is no use."""
    return _try("bubblewrap", program, scratch)


def _landlock(scratch: Path) -> str | None:
    """None when a program under Landlock can write inside and not outside; else why not."""
    return _try("landlock", sys.executable, scratch)


def _try(kind: SandboxKind, program: str, scratch: Path) -> str | None:
    with tempfile.TemporaryDirectory(prefix="probe-", dir=scratch) as name:
        inside, outside = _two_folders(name)
        box = Sandbox(kind, str(inside), str(outside), program=program)
        attempt = ["sh", "-c", _ATTEMPT, "sh", str(inside), str(outside)]
        argv = box.wrap(attempt, cwd=str(inside), shell_files=str(inside), temporary=str(inside))
        try:
            done = subprocess.run(argv, capture_output=True, timeout=10, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        complaints = done.stderr.decode("utf-8", "replace").strip().splitlines()
        return _verdict(inside, outside, complaints[-1] if complaints else "it did not start")


def _inside() -> list[str]:
    """How `inside` is started: a bare interpreter on a file, whatever the folder holds."""
    folder = Path(__file__).resolve().parent
    return [sys.executable, "-I", "-S", str(folder / "inside.py"), str(folder.parents[1])]


def _two_folders(name: str) -> tuple[Path, Path]:
    inside, outside = Path(name, "in"), Path(name, "out")
    inside.mkdir()
    outside.mkdir()
    return inside, outside


def _verdict(inside: Path, outside: Path, complaint: str) -> str | None:
    if (outside / "no").exists():
        return "it did not refuse a write outside"
    return None if (inside / "yes").exists() else complaint
