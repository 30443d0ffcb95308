"""The sandbox around a command: bubblewrap, or Landlock with a system call filter.

Inside, only the workspace and a private /tmp that lasts as long as the executor can be written;
there is no network unless it was approved; secrets are hidden; and nothing that other tools act on
by themselves can be changed where a mount can keep it (bubblewrap). The filter and the scopes of
`inside` hold in both kinds. Which kind works is found out by `probe`.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from pathlib import Path
from typing import Literal

from kogniterm.execution.sandbox import attempts, kernel_rules, planted
from kogniterm.execution.sandbox.reach import folders_between, real, within, writable_parts
from kogniterm.host.programs import find_program
from kogniterm.lazy_dataclasses import dataclass
from kogniterm.storage.folders import private_folder
from kogniterm.types import Phrase

SandboxKind = Literal["bubblewrap", "landlock", "none"]
_KERNEL_FILES = (
    "/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/acpi",
    "/proc/scsi", "/proc/asound",
)  # fmt: skip
"""Files by which root steers the kernel, writable for its processes without any capability."""
_KERNEL_SECRETS = (
    "/proc/kcore", "/proc/keys", "/proc/key-users", "/proc/timer_list", "/proc/sched_debug",
    "/proc/kallsyms", "/proc/kpagecount", "/proc/kpageflags", "/proc/latency_stats",
)  # fmt: skip
_HERE = Path(__file__).resolve().parent
_PACKAGE = _HERE.parents[1]
_EMPTY_FILE = str(_PACKAGE / "py.typed")
"""Stands in for hidden files: programs read nothing from it, and cannot write to it."""
_SESSIONS = "kogniterm-"
"""The beginning of the names of executors' private folders."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A sandbox that wraps the commands of one workspace.

    `network` is whether the machine's network may be used; `writable` are folders beside the
    workspace that the user allowed; `hidden` are folders that are empty inside, beside the usual
    ones with secrets; `closed` can be read there and never written; `shown` are folders that
    programs inside need even where a private /tmp or a hidden folder would cover them. `access` is
    what commands may do: write there, or only read; with `tables` those that only read see the
    process and network tables of the machine, and can connect to nothing.
    """

    kind: SandboxKind
    workspace: str
    home: str
    network: bool = False
    writable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    program: str = ""
    closed: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    access: Literal["write", "read", "tables"] = "write"
    _quiet: dict[str, planted.Found] = field(default_factory=dict, compare=False, repr=False)
    """Findings in the workspace while no command ran, for when one does."""

    def wrap(
        self,
        argv: list[str],
        *,
        cwd: str,
        shell_files: str,
        temporary: str,
        jobs_run: bool = False,
    ) -> list[str]:
        """Return the argv that runs `argv` inside, with the descriptors that it is given.

        The wrapper itself owns no terminal (bubblewrap would die of Ctrl-C); `inside` takes it
        for the command. `shell_files` is the executor's own folder: nothing inside may write it,
        and nothing has to read it, for the shell has what it needs on descriptors. No mount point
        may be made for it in a folder that commands write: it would be made wherever a link there
        leads. `temporary` is a folder for temporary files that lasts as long as the executor;
        commands inside may write to it, and the host process reads nothing in it. `jobs_run` is
        whether earlier commands still run and could change things meanwhile.
        """
        if self.kind == "bubblewrap":
            mounts = _Mounts(self, shell_files, temporary, jobs_run).arguments()
            outer = [self.program, *mounts, *self._namespaces(cwd), "--"]
            return [*outer, *_inside(), *self._confinement(), "--", *argv]
        if self.kind == "landlock":
            files = self._rules(shell_files, temporary)
            return [*_inside(), *self._confinement(), *files, "--", *argv]
        return argv

    def variables(self, temporary: str) -> Mapping[str, str]:
        """Return where temporary files go under Landlock, which cannot put a /tmp in place."""
        return {"TMPDIR": temporary} if self.kind == "landlock" else {}

    @property
    def reads_only(self) -> bool:
        """Return whether nothing can be written but temporary files."""
        return self.access != "write"

    def reading(self, *, tables: bool = False) -> Sandbox:
        """Return the variant for commands that only read, or only read those tables."""
        return replace(self, access="tables" if tables else "read", network=False)

    def may_write(self, path: str) -> bool:
        """Return whether commands inside may write to the folder `path`."""
        closed, home = self.kept_closed(), real(self.home)
        parts = (writable_parts(root, closed, home, can_cover=True) for root in self.roots())
        return any(_below(real(path), found) for found in parts)

    def can_start_in(self, folder: str, temporary: str) -> bool:
        """Return whether a command inside can start in `folder`; it may be covered there."""
        path = real(folder)
        if self.kind != "bubblewrap" or within(path, real(self.workspace)):
            return True
        mounts = _Mounts(self, temporary, temporary, jobs_run=True)
        return mounts.leaves_visible(path) or mounts.has_private(path)

    def search(self) -> planted.Found:
        """Return the files that configure other tools in the folders that can be written."""
        found = planted.Found()
        for folder in map(real, (self.workspace, *self.writable)):
            planted.search(folder, found, hidden=not within(real(self.home), folder))
        return found

    def protects(self, path: str) -> bool:
        """Return whether the file `path`, without links, is kept from commands inside.

        That is what they cannot write, and what other tools act on by themselves.
        """
        root = real(self.workspace)
        if not within(path, root) or not self.may_write(path):
            return True
        names = Path(path).relative_to(root).parts
        if not planted.protected("guarded").isdisjoint(names) or ".git" in names:
            return True
        found = self.search()
        return _below(path, (*self.kept_closed(), *self.concealed(), *found.kept, *found.named))

    def kept(self, *, jobs_run: bool) -> planted.Found:
        """Return the files and folders that mounts protect from changes.

        While a command of this sandbox still runs it could exchange a folder for a link between
        the search and the mount, so only what was mounted before it began counts then, and of that
        only what it cannot move: the entries of the workspace itself.
        """
        if not jobs_run:
            self._quiet["last"] = self.search()
            return self._quiet["last"]
        last = self._quiet.get("last", planted.Found())
        tops = {real(folder) for folder in (self.workspace, *self.writable)}
        pinned = [path for path in last.pinned if _parent(path) in tops]
        steady = (*tops, *pinned)
        kept = [path for path in last.kept if _parent(path) in steady]
        return planted.Found(pinned=pinned, kept=kept)

    def roots(self) -> list[str]:
        """Return the folders that can be written in part or as a whole, without links."""
        return list(dict.fromkeys(map(real, (self.workspace, *self.writable))))

    def kept_closed(self) -> list[str]:
        """Return the paths that are never writable: code and data of the host process."""
        roots = self.roots()
        programs = [
            path for path in map(real, _own_programs()) if not any(within(r, path) for r in roots)
        ]
        return _tops((*map(real, self.closed), *programs))

    def concealed(self) -> list[str]:
        """Return the folders and files that are hidden and exist, without links, folders first."""
        home = real(self.home)
        folders = [f"{home}/{name}" for name in planted.protected("secret_folders")]
        files = [f"{home}/{name}" for name in planted.protected("secret_files")]
        there = _tops(real(name) for name in (*folders, *self.hidden) if Path(name).is_dir())
        there = [folder for folder in there if not within(home, folder)]
        single = {real(name) for name in files if Path(name).is_file()}
        return [*there, *sorted(name for name in single if not _below(name, there))]

    def _confinement(self) -> list[str]:
        """Return the arguments of `inside` for both kinds."""
        families = [kernel_rules.AF_NETLINK]
        # Bubblewrap's own network has nothing but a loopback, which test servers need.
        if (self.kind == "bubblewrap" or self.network) and self.access != "tables":
            families += [kernel_rules.AF_INET, kernel_rules.AF_INET6]
        words = [f"family={number}" for number in families]
        if self.kind == "landlock" or self.access == "tables":
            words.append("foreign=1")
        if self.kind == "bubblewrap" and self.reads_only:
            # A mount that is read-only lets pipes with a name, and devices, be written.
            words += [f"private={folder}" for folder in _temporary_folders(real(self.home))]
        return words

    def _rules(self, shell_files: str, temporary: str) -> list[str]:
        """Return the arguments of `inside` for Landlock."""
        hidden, roots = _tops((*self.concealed(), real(shell_files))), self.roots()
        closed = (*self.kept_closed(), *hidden, *_sessions_below(roots))
        return [
            "landlock=1",
            f"home={real(self.home)}",
            *(("steady=1",) if self.reads_only else (f"write={path}" for path in roots)),
            *(f"close={path}" for path in closed),
            *(f"hide={path}" for path in hidden),
            *(f"show={path}" for path in self.programs() if _below(path, hidden)),
            f"private={temporary}",
        ]

    def programs(self) -> list[str]:
        """Return the folders of the interpreters that commands use, without links."""
        return _tops(map(real, (*_own_programs(), *self.shown)))

    def _namespaces(self, cwd: str) -> list[str]:
        shared = self.access == "tables"
        return [
            *("--unshare-user", "--disable-userns", "--unshare-ipc"),
            *("--unshare-uts", "--unshare-cgroup-try", "--cap-drop", "ALL"),
            *(() if shared else ("--unshare-pid",)),
            *(() if shared or self.network else ("--unshare-net",)),
            *("--chdir", cwd),
        ]


class _Mounts:
    """The mounts of bubblewrap for one command, in their order: later ones lie over earlier."""

    def __init__(self, box: Sandbox, shell_files: str, temporary: str, jobs_run: bool) -> None:
        self._box = box
        self._temporary = temporary
        self._jobs_run = jobs_run
        self._home = real(box.home)
        self._closed = box.kept_closed()
        self._roots = box.roots()
        self._parts = _tops(
            part
            for root in self._roots
            for part in writable_parts(root, self._closed, self._home, can_cover=True)
        )
        own = real(shell_files)
        self._hidden = _tops((*box.concealed(), *_sessions_below(self._parts), own))
        self._covers: dict[str, list[str]] = {}
        """Folders whose own content is not visible inside, each with what is shown in it."""

    def arguments(self) -> list[str]:
        """Return them as bubblewrap's options."""
        return [option for options in self._all() for option in options]

    def leaves_visible(self, path: str) -> bool:
        """Return whether `path`, without links, is visible inside unchanged."""
        self.arguments()
        return self._is_visible(path)

    def has_private(self, path: str) -> bool:
        """Return whether there is a folder of this name in the private /tmp."""
        below = (Path(path).relative_to(root) for root in self._private() if within(path, root))
        return any(Path(self._temporary, part).is_dir() for part in below)

    def _all(self) -> Iterator[Sequence[str]]:
        yield from self._system()
        yield from self._private_folders()
        above = [path for path in self._hidden if any(within(root, path) for root in self._roots)]
        yield from self._hide(above)
        for part in self._parts:
            # An entry of a home may be gone by now; the workspace itself must be there.
            option = "--ro-bind" if self._box.reads_only else "--bind"
            yield option if part in self._roots else f"{option}-try", part, part
        yield from self._keep()
        # Hidden folders come last: no link of a workspace, and no other mount, uncovers them.
        yield from self._hide([path for path in self._hidden if path not in above])
        for path in self._box.programs():
            if not self._is_visible(path) and Path(path).exists():
                yield "--ro-bind", path, path
        # In the others a write would be lost without an error.
        for folder in ("/dev", *self._covers):
            if folder not in self._private():
                yield "--remount-ro", folder

    def _system(self) -> Iterator[Sequence[str]]:
        yield "--ro-bind", "/", "/"
        yield "--dev", "/dev"
        if not self._box.reads_only:
            yield "--tmpfs", "/dev/shm"
        if self._box.access == "tables":
            return
        yield "--proc", "/proc"
        if os.geteuid() == 0:
            for path in _KERNEL_FILES:
                yield "--ro-bind-try", path, path
            for path in _KERNEL_SECRETS:
                if Path(path).exists():
                    yield "--ro-bind", _EMPTY_FILE, path

    def _private(self) -> list[str]:
        """Return where the private folder for temporary files is seen."""
        found = _temporary_folders(self._home)
        return [folder for folder in found if not _below(folder, self._parts)]

    def _private_folders(self) -> Iterator[Sequence[str]]:
        """Mount the private /tmp, also where TMPDIR points, and an empty /run.

        Sockets of docker, D-Bus or an ssh agent lie in /run. What leads to a workspace below /tmp
        is shown as it is, so that a write beside the workspace is an error.
        """
        for folder in self._private():
            yield "--bind", self._temporary, folder
            ways = [
                (*folders_between(root, folder), root)[0]
                for root in self._roots
                if within(root, folder) and root != folder
            ]
            self._covers[folder] = ways
            for way in dict.fromkeys(ways):
                if way not in self._roots:
                    yield "--ro-bind", way, way
        if Path("/run").is_dir():
            self._covers["/run"] = [root for root in self._roots if within(root, "/run")]
            yield "--tmpfs", "/run"
            for path in self._of_run():
                yield "--ro-bind", path, path

    def _of_run(self) -> list[str]:
        """Return the paths of /run that programs need: NixOS's, and name servers with a network."""
        found = ["/run/current-system"] if Path("/run/current-system").is_dir() else []
        servers = real("/etc/resolv.conf")
        if self._box.network and within(servers, "/run") and Path(servers).is_file():
            found.append(servers)
        return found

    def _hide(self, paths: Iterable[str]) -> Iterator[Sequence[str]]:
        for path in paths:
            if not self._is_visible(path):
                continue
            yield from self._pin(path)
            if Path(path).is_dir():
                self._covers[path] = [root for root in self._roots if within(root, path)]
                yield "--tmpfs", path
            else:
                yield "--ro-bind", _EMPTY_FILE, path

    def _pin(self, path: str) -> Iterator[Sequence[str]]:
        """Pin the folders above `path`, so that they cannot be replaced."""
        for part in () if self._box.reads_only else self._parts:
            if within(path, part):
                for folder in folders_between(path, part):
                    yield "--bind", folder, folder

    def _is_visible(self, path: str) -> bool:
        covers = [cover for cover in self._covers if within(path, cover)]
        return not covers or _below(path, self._covers[max(covers, key=len)])

    def _keep(self) -> Iterator[Sequence[str]]:
        """Mount the parts of the workspace that must not change."""
        if self._box.reads_only or not self._parts:
            return
        for path in self._closed:
            if _below(path, self._parts) and Path(path).exists():
                yield from self._pin(path)
                yield "--ro-bind", path, path
        found = self._box.kept(jobs_run=self._jobs_run)
        closed = (*self._closed, *self._hidden)
        for option, paths in (("--bind-try", found.pinned), ("--ro-bind-try", found.kept)):
            for path in paths:
                if _below(path, self._parts) and not _below(path, closed):
                    yield option, path, path


def _temporary_folders(home: str) -> list[str]:
    """Return the folders in whose place commands see the private one for temporary files."""
    usual = real(tempfile.gettempdir())
    return ["/tmp"] if usual == "/tmp" or within(home, usual) else ["/tmp", usual]


def _sessions_below(roots: Sequence[str]) -> list[str]:
    """Return the private folders of executors that lie in the workspace."""
    usual = {"/tmp", real(tempfile.gettempdir())}
    found = []
    for folder in usual:
        if _below(folder, roots) and "/" not in roots:
            with os.scandir(folder) as entries:
                found += [
                    entry.path
                    for entry in entries
                    if entry.name.startswith(_SESSIONS) and entry.is_dir(follow_symlinks=False)
                ]
    return found


def _own_programs() -> tuple[str, ...]:
    """Return the code that the host process and `inside` run: interpreter, environment, package."""
    return (sys.prefix, sys.base_prefix, str(_PACKAGE), _parent(sys.executable))


def _inside() -> list[str]:
    """Return the command of `inside`: an interpreter that imports nothing from the folder."""
    return [sys.executable, "-I", "-S", str(_HERE / "inside.py"), str(_PACKAGE.parent)]


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _tops(paths: Iterable[str]) -> list[str]:
    """Return the paths of which none lies below another."""
    found: list[str] = []
    for path in sorted(set(paths)):
        if not _below(path, found):
            found.append(path)
    return found


def _below(path: str, folders: Iterable[str]) -> bool:
    return any(within(path, folder) for folder in folders)


# --- which kind works -----------------------------------------------------------------------------

_WANTED = Literal["auto", "bubblewrap", "landlock", "off"]
_PATIENCE = 10.0
_SUCCEEDED = {
    "write": Phrase("it allowed a write outside the workspace"),
    "remount": Phrase("it allowed remounting the disk as writable"),
    "secret": Phrase("it did not hide a secret file"),
    "git": Phrase("it did not protect the git configuration"),
    "socket": Phrase("it allowed a connection to a local socket"),
    "network": Phrase("it allowed a network connection"),
    "signal": Phrase("it allowed a signal to a process outside the sandbox"),
    "kernel": Phrase("it allowed a write to /proc/sys"),
}
"""The reason against a kind in which the attempt of this name succeeded."""


@dataclass(frozen=True, slots=True)
class Probe:
    """The best sandbox that refused every attack, and the reasons against the others.

    `remains` are attempts that this kind cannot refuse with this kernel.
    """

    kind: SandboxKind
    program: str = ""
    reasons: Mapping[str, Phrase] = field(default_factory=dict)
    remains: tuple[str, ...] = ()


def probe(scratch: Path, wanted: _WANTED = "auto") -> Probe:
    """Find the best sandbox that works, by attempts from inside that it must refuse.

    `scratch` is a folder of ours outside /tmp (where every sandbox has its own), in which the
    refused writes are tried. Takes some 50 ms a kind, and needs no terminal.
    """
    if wanted == "off":
        return Probe("none", reasons={"off": Phrase("switched off")})
    reasons: dict[str, Phrase] = {}
    private_folder(scratch)
    if wanted in ("auto", "bubblewrap"):
        program = find_program("bwrap")
        reason = Phrase("bwrap is not installed") if program is None else None
        reason = reason or _try("bubblewrap", program or "", scratch, ())
        if reason is None:
            return Probe("bubblewrap", program or "")
        reasons["bubblewrap"] = reason
    if wanted in ("auto", "landlock"):
        # Landlock knows no exceptions inside a folder; a change of these is shown instead.
        remains = (
            ("git",) if kernel_rules.available() >= kernel_rules.SCOPES_FROM else ("git", "signal")
        )
        reason = _try("landlock", "", scratch, remains)
        if reason is None:
            return Probe("landlock", reasons=reasons, remains=remains)
        reasons["landlock"] = reason
    return Probe("none", reasons=reasons)


def _try(kind: SandboxKind, program: str, scratch: Path, remains: Sequence[str]) -> Phrase | None:
    """Return None when a sandbox of this kind refuses every attack, else the reason against it."""
    with tempfile.TemporaryDirectory(prefix="probe-", dir=scratch) as name:
        inside, outside, temporary = Path(name, "in"), Path(name, "out"), Path(name, "tmp")
        for folder in (inside / ".git", outside / ".ssh", temporary):
            folder.mkdir(parents=True)
        (inside / ".git" / "config").touch()
        (outside / ".ssh" / "key").write_text("secret")
        box = Sandbox(kind, str(inside), str(outside), program=program)
        with _listening(outside) as port:
            attempt = _attempts(str(inside), str(outside), str(port))
            argv = box.wrap(
                attempt, cwd=str(inside), shell_files=str(temporary), temporary=str(temporary)
            )
            try:
                done = subprocess.run(
                    argv,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=_PATIENCE,
                    check=False,
                    start_new_session=True,
                    env={},
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                return Phrase("{reason}", {"reason": error})
        succeeded = done.stdout.decode("utf-8", "replace").split()
        if attempts.DONE not in succeeded or not (inside / "yes").exists():
            complaints = done.stderr.decode("utf-8", "replace").strip().splitlines()
            return Phrase("{reason}", {"reason": complaints[-1]}) if complaints else _NOT_STARTED
        if (outside / "written").exists():
            return _SUCCEEDED["write"]
        return next(
            (_SUCCEEDED[s] for s in succeeded if s in _SUCCEEDED and s not in remains), None
        )


_NOT_STARTED = Phrase("it did not start")


@contextmanager
def _listening(folder: Path) -> Iterator[int]:
    """Listen at a socket in `folder`, and at a port of this machine, which is given."""
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with socket.socket(socket.AF_UNIX) as local, socket.socket() as network:
            local.bind(f"/proc/self/fd/{place}/s")  # the address of a socket is short
            local.listen()
            network.bind(("127.0.0.1", 0))
            network.listen()
            yield network.getsockname()[1]
    finally:
        os.close(place)


def _attempts(inside: str, outside: str, port: str) -> list[str]:
    began = Path("/proc/self/stat").read_text("utf-8").rpartition(")")[2].split()[19]
    python = [sys.executable, "-I", "-S", str(_HERE / "attempts.py")]
    return [*python, inside, outside, port, str(os.getpid()), began]
