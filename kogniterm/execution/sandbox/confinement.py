"""The sandbox of a workspace: what commands inside may see, read, write and connect to.

Inside, only the workspace and a private /tmp that lasts as long as the executor can be written;
the machine's network is not reached unless it was approved; secrets are hidden; and nothing that
other tools act on by themselves can be changed where a mount can keep it. `namespaces` builds it,
`kernel_rules` confines each command in it, `sandbox_probe` finds out which kind works.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from kogniterm.execution.sandbox import planted
from kogniterm.execution.sandbox.reach import DEVICES, folders_between, real, within, writable_parts

_KERNEL_FILES = (
    "/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/acpi",
    "/proc/scsi", "/proc/asound",
)  # fmt: skip
"""Files by which root steers the kernel, writable for its processes without any capability."""
_KERNEL_SECRETS = (
    "/proc/kcore", "/proc/keys", "/proc/key-users", "/proc/timer_list", "/proc/sched_debug",
    "/proc/kallsyms", "/proc/kpagecount", "/proc/kpageflags", "/proc/latency_stats",
)  # fmt: skip
_LINKS = {
    "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
}  # fmt: skip
_EMPTY = "/dev/.empty"
"""Stands in for hidden files inside: programs read nothing from it, and cannot write to it."""
_PACKAGE = Path(__file__).resolve().parents[2]
_EMPTY_FILE = str(_PACKAGE / "py.typed")
_SESSIONS = "kogniterm-"
"""The beginning of the names of executors' private folders."""

SandboxKind = Literal["namespaces", "bubblewrap", "container", "landlock", "none"]
"""The kinds of sandboxes, in the order in which they are tried.

Our own namespaces come before bubblewrap's, because what the machine mounts while those are made
appears inside. A kind that gives less is used only where no other refuses every attempt (`probe`).
"""


class Gives(NamedTuple):
    """Abilities of commands in a sandbox of one kind, and protections against them.

    `own_network` is a loopback that later commands of the session find servers on; `own_sockets`
    that local sockets (AF_UNIX) connect them (`tmux`); `own_processes` that they see no others;
    `own_terminals` that programs can open more (`script`); `shared_memory` that /dev/shm works
    (process pools); `private_tmp` a /tmp of the session; `hides_names` that secrets cannot even be
    listed; `keeps_files` that what other tools run is read-only; `keeps_modes` that no file outside
    gets another mode, owner or time.
    """

    name: str
    own_network: bool
    own_sockets: bool
    own_processes: bool
    own_terminals: bool
    shared_memory: bool
    private_tmp: bool
    hides_names: bool
    keeps_files: bool
    keeps_modes: bool

    @property
    def namespaces(self) -> bool:
        """Return whether it is built once, of namespaces, and entered by each command."""
        return self.own_network


_ALL = Gives("namespaces", *(True,) * 9)
_NONE = Gives("none", *(False,) * 9)

GIVES: dict[SandboxKind, Gives] = {
    "namespaces": _ALL,
    "bubblewrap": _ALL._replace(name="bubblewrap"),
    "container": _ALL._replace(name="container", own_processes=False),
    "landlock": _NONE._replace(name="Landlock"),
    "none": _NONE,
}
"""Abilities of each kind: one table for doctor, the docs and the model's note."""


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A sandbox that wraps the commands of one workspace.

    `network` is whether the machine's network may be used; `writable` are folders beside the
    workspace that the user allowed; `hidden` are folders that are empty inside, beside the usual
    ones with secrets; `closed` can be read there and never written; `shown` are folders that
    programs inside need even where a private /tmp or a hidden folder would cover them. `access` is
    what commands may do: write there, or only read. `own_sockets` is whether this machine lets
    local sockets work inside, in a kind that can have them. `repository` is git's own folder, and
    the working tree, where that folder lies outside of the workspace.
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
    access: Literal["write", "read"] = "write"
    own_sockets: bool = True
    repository: tuple[str, str] | None = None

    def view(
        self,
        *,
        shell_files: str,
        temporary: str,
        shared: bool = False,
        beside: bool = False,
        ahead: bool = False,
    ) -> dict[str, Any]:
        """Return the values with which the supervisor builds the sandbox and confines a command.

        `shell_files` is the executor's own folder: nothing inside may read or write it, for a shell
        has what it needs on descriptors. `temporary` is a folder for temporary files that lasts as
        long as the executor; commands inside may write to it, and the host process reads nothing
        in it. With `shared` the command is one of the session's, which all run in one sandbox; any
        other gets one in which nothing else runs. `beside` is whether others run meanwhile.

        `mounts` are made once. What the steps of `protection` cover is looked at before each
        command, for it may appear later, or be replaced; they hold for the commands beside it, too.
        `ahead` of a command they are left out.
        """
        mounts = _Mounts(self, shell_files, temporary)
        built, write = self.gives.namespaces, beside or not self.reads_only
        return {
            "kind": self.kind,
            "program": self.program,
            "network": self.network,
            "shared": shared and not self.reads_only,
            "mounts": list(mounts.first()) if built else [],
            "protection": list(mounts.protection(write=write)) if built and not ahead else [],
            "rules": self._rules(mounts) if self.kind != "none" else {},
        }

    def variables(self, temporary: str) -> Mapping[str, str]:
        """Return where temporary files go where no /tmp can be put in place."""
        return {} if self.gives.private_tmp else {"TMPDIR": temporary}

    @property
    def gives(self) -> Gives:
        """Return the guarantees of a sandbox of this kind."""
        return GIVES[self.kind]

    @property
    def local_sockets(self) -> bool:
        """Return whether programs inside can connect to sockets of each other."""
        return self.gives.own_sockets and self.own_sockets and not self.network

    @property
    def reads_only(self) -> bool:
        """Return whether nothing can be written but temporary files."""
        return self.access != "write"

    def reading(self) -> Sandbox:
        """Return the variant for commands that only read."""
        return replace(self, access="read", network=False)

    def may_write(self, path: str) -> bool:
        """Return whether commands inside may write to the folder `path`."""
        closed, home = self.kept_closed(), real(self.home)
        parts = (writable_parts(root, closed, home, can_cover=True) for root in self.roots())
        return any(_below(real(path), found) for found in parts)

    def can_start_in(self, folder: str, temporary: str) -> bool:
        """Return whether a command inside can start in `folder`; it may be covered there."""
        path = real(folder)
        if within(path, real(self.workspace)):
            return True
        mounts = _Mounts(self, temporary, temporary)
        if not self.gives.private_tmp:
            covered = mounts.private()
            ways = (way for folder in covered for way in mounts.ways_below(folder))
            return path in covered or not _below(path, covered) or _below(path, ways)
        return mounts.leaves_visible(path) or mounts.has_private(path)

    def search(self) -> planted.GuardedFiles:
        """Return the files that configure other tools in the folders that can be written."""
        found = planted.GuardedFiles()
        for folder in map(real, (self.workspace, *self.writable)):
            planted.search(folder, found, hidden=not within(real(self.home), folder))
        if self.repository is not None:
            planted.search_repository(*self.repository, found)
        return found

    def protects(self, path: str) -> bool:
        """Return whether the file `path`, without links, is kept from commands inside.

        That is what they cannot write, and what other tools act on by themselves.
        """
        root = real(self.workspace)
        if not within(path, root) or not self.may_write(path):
            return True
        names = Path(path).relative_to(root).parts
        if not planted.protected_names("guarded").isdisjoint(names) or ".git" in names:
            return True
        found = self.search()
        return _below(
            path, (*self.kept_closed(), *self.list_concealed(), *found.kept, *found.named)
        )

    def roots(self) -> list[str]:
        """Return the folders that can be written in part or as a whole, without links."""
        git = self.repository[:1] if self.repository is not None else ()
        return list(dict.fromkeys(map(real, (self.workspace, *self.writable, *git))))

    def kept_closed(self) -> list[str]:
        """Return the paths that are never writable: code and data of the host process."""
        roots = self.roots()
        programs = [
            path for path in map(real, _own_programs()) if not any(within(r, path) for r in roots)
        ]
        return _tops((*map(real, self.closed), *programs))

    def list_concealed(self) -> list[str]:
        """Return the folders and files that are hidden and exist, without links, folders first."""
        home = real(self.home)
        folders = [f"{home}/{name}" for name in planted.protected_names("secret_folders")]
        files = [f"{home}/{name}" for name in planted.protected_names("secret_files")]
        # Looked at before each command: a Path for each name would take longer than all else.
        looked = (*folders, *self.hidden)
        there = _tops(real(name) for name in looked if os.path.isdir(name))  # noqa: PTH112 - many names
        there = [folder for folder in there if not within(home, folder)]
        single = {real(name) for name in files if os.path.isfile(name)}  # noqa: PTH113 - many names
        return [*there, *sorted(name for name in single if not _below(name, there))]

    def _rules(self, mounts: _Mounts) -> dict[str, object]:
        """Return what confines a command (`kernel_rules`)."""
        from kogniterm.execution.sandbox import kernel_rules
        from kogniterm.execution.sandbox.namespaces import MOST_PROCESSES

        gives, families = self.gives, [kernel_rules.AF_NETLINK]
        # A network of the sandbox's own has nothing but a loopback, which test servers need.
        if gives.own_network or self.network:
            families += [kernel_rules.AF_INET, kernel_rules.AF_INET6]
        if self.local_sockets:
            families += [kernel_rules.AF_UNIX]
        rules: dict[str, object] = {
            "families": families,
            "foreign": not gives.own_processes,
            "namespaces": gives.namespaces,
            "processes": MOST_PROCESSES if gives.own_processes and os.geteuid() != 0 else 0,
        }
        if gives.namespaces:
            if self.reads_only:
                # A mount that is read-only lets pipes with a name, and devices, be written.
                rules["private"] = _temporary_folders(real(self.home))
            return rules
        covers = [*mounts.hidden, *mounts.private()]
        ways = [way for folder in mounts.private() for way in mounts.ways_below(folder)]
        return {
            **rules,
            "home": real(self.home),
            "steady": self.reads_only,
            "write": [] if self.reads_only else self.roots(),
            "close": [*mounts.closed, *mounts.hidden],
            "hide": [*covers, "/dev"],
            "show": [*ways, *(path for path in self.programs() if _below(path, covers))],
            "private": [mounts.temporary],
        }

    def programs(self) -> list[str]:
        """Return the folders of the interpreters that commands use, without links."""
        return _tops(map(real, (*_own_programs(), *self.shown)))


class _Mounts:
    """The mounts of a sandbox in their order, later ones over earlier, in the words of bwrap(1)."""

    def __init__(self, box: Sandbox, shell_files: str, temporary: str) -> None:
        self._box = box
        self.temporary = temporary
        self._home = real(box.home)
        self.closed = box.kept_closed()
        self._roots = box.roots()
        self._parts = _tops(
            part
            for root in self._roots
            for part in writable_parts(root, self.closed, self._home, can_cover=True)
        )
        own = real(shell_files)
        self.hidden = _tops((*box.list_concealed(), *_sessions_below(self._parts), own))
        self._above = [
            path
            for path in self.hidden
            if any(within(root, path) for root in self._roots) and not _below(path, self._parts)
        ]
        self._covers: dict[str, list[str]] = {}
        """Folders whose own content is not visible inside, each with what is shown in it."""

    def leaves_visible(self, path: str) -> bool:
        """Return whether `path`, without links, is visible inside unchanged."""
        for _ in (*self.first(), *self.protection(write=True)):
            pass
        return self._is_visible(path)

    def has_private(self, path: str) -> bool:
        """Return whether there is a folder of this name in the private /tmp."""
        below = (Path(path).relative_to(root) for root in self.private() if within(path, root))
        return any(Path(self.temporary, part).is_dir() for part in below)

    def first(self) -> Iterator[Sequence[str]]:
        """Yield the mounts made once, which decide where commands can write."""
        yield from _devices()
        yield from self._private_folders()
        for path in self._above:
            yield from self._hide(path)
        for part in self._parts:
            # An entry of a home may be gone by now; the workspace itself must be there.
            option = "--ro-bind" if self._box.reads_only else "--bind"
            yield option if part in self._roots else f"{option}-try", part, part
        for path in self._box.programs():
            if not self._is_visible(path) and Path(path).exists():
                yield "--ro-bind", path, path
        # In the others a write would be lost without an error.
        for folder in ("/dev", *self._covers):
            if folder not in self.private():
                yield "--remount-ro", folder

    def protection(self, *, write: bool) -> Iterator[Sequence[str]]:
        """Yield what only takes away, over the first ones: files that must not be read, or changed.

        Without `write` nothing that runs could change any.
        """
        if os.geteuid() == 0:  # without capabilities it still owns these
            for path in _KERNEL_FILES:
                yield "--ro-bind-try", path, path
            for path in _KERNEL_SECRETS:
                yield "--ro-bind-try", _EMPTY, path
        writes = write and bool(self._parts)
        found = self._box.search() if writes else planted.GuardedFiles()
        closed = [path for path in self.closed if writes and Path(path).exists()]
        inside = [path for path in (*closed, *found.kept) if self._is_kept(path, closed)]
        hidden = [p for p in self.hidden if p not in self._above and self._is_visible(p)]
        # Folders above these must stay where they are. They come first, from the top down: mounted
        # later, one would uncover what is protected in it.
        pinned = {path for path in found.pinned if self._is_kept(path, ())}
        for part in self._parts if writes else ():
            for path in (*inside, *hidden):
                pinned.update(folders_between(path, part) if within(path, part) else ())
        for path in sorted(pinned):
            yield "--bind-try", path, path
        for path in inside:
            yield "--ro-bind-try", path, path
        # Hidden at first, too; this is for what runs when one of them is replaced.
        for path in self._above:
            if not self._covers.get(path):
                yield "--tmpfs", path
                yield "--remount-ro", path
        # Hidden folders come last: no link of a workspace, and no other mount, uncovers them.
        for path in hidden:
            yield from self._hide(path)

    def _is_kept(self, path: str, closed: Sequence[str]) -> bool:
        """Return whether a mount keeps `path`: it can be written, and is not in what is closed."""
        more = [one for one in (*self.closed, *self.hidden) if one != path or path not in closed]
        return _below(path, self._parts) and not _below(path, more)

    def private(self) -> list[str]:
        """Return where the private folder for temporary files is seen."""
        found = _temporary_folders(self._home)
        return [folder for folder in found if not _below(folder, self._parts)]

    def ways_below(self, folder: str) -> list[str]:
        """Return the entries of `folder` by which the ways to workspaces lead."""
        return [
            (*folders_between(root, folder), root)[0]
            for root in self._roots
            if within(root, folder) and root != folder
        ]

    def _private_folders(self) -> Iterator[Sequence[str]]:
        """Mount the private /tmp, also where TMPDIR points, and an empty /run.

        Sockets of docker, D-Bus or an ssh agent lie in /run. What leads to a workspace below /tmp
        is shown as it is, so that a write beside the workspace is an error.
        """
        for folder in self.private():
            yield "--bind", self.temporary, folder
            self._covers[folder] = ways = self.ways_below(folder)
            for way in dict.fromkeys(ways):
                if way not in self._roots:
                    yield "--ro-bind", way, way
        if Path("/run").is_dir():
            self._covers["/run"] = [root for root in self._roots if within(root, "/run")]
            yield "--tmpfs", "/run"
            system = Path("/run/current-system")
            if system.is_symlink():
                yield "--symlink", str(system.readlink()), str(system)
            servers = real("/etc/resolv.conf")
            if self._box.network and within(servers, "/run") and Path(servers).is_file():
                yield "--ro-bind", servers, servers

    def _hide(self, path: str) -> Iterator[Sequence[str]]:
        """Hide a file, or a folder with all but the programs and workspaces in it."""
        if not Path(path).is_dir():
            yield "--ro-bind-try", _EMPTY, path
            return
        self._covers[path] = [root for root in self._roots if within(root, path)]
        yield "--tmpfs", path
        if path not in self._above:
            for program in self._box.programs():
                if within(program, path) and Path(program).exists():
                    self._covers[path].append(program)
                    yield "--ro-bind", program, program
            yield "--remount-ro", path

    def _is_visible(self, path: str) -> bool:
        covers = [cover for cover in self._covers if within(path, cover)]
        return not covers or _below(path, self._covers[max(covers, key=len)])


def _devices() -> Iterator[Sequence[str]]:
    """Yield the devices of programs, and links and folders that they expect in /dev."""
    yield "--tmpfs", "/dev"
    for path in DEVICES:
        if Path(path).exists():
            yield "--dev-bind", path, path
    for name, target in _LINKS.items():
        yield "--symlink", target, f"/dev/{name}"
    for name in ("pts", "shm", "mqueue"):
        yield "--dir", f"/dev/{name}"
    yield "--ro-bind", _EMPTY_FILE, _EMPTY
    yield "--tmpfs", "/dev/shm"


def _temporary_folders(home: str) -> list[str]:
    """Return the folders in whose place commands see the private one for temporary files."""
    common, usual = real("/tmp"), real(tempfile.gettempdir())
    return [common] if usual == common or within(home, usual) else [common, usual]


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
    """Return the code that the host process runs: interpreter, environment, package."""
    programs = sys.executable.rpartition("/")[0] or "/"
    return (sys.prefix, sys.base_prefix, str(_PACKAGE), programs)


def _tops(paths: Iterable[str]) -> list[str]:
    """Return the paths of which none lies below another."""
    found: list[str] = []
    for path in sorted(set(paths), key=lambda path: path.split("/")):  # parents right before
        if not found or not within(path, found[-1]):
            found.append(path)
    return found


def _below(path: str, folders: Iterable[str]) -> bool:
    return any(within(path, folder) for folder in folders)
