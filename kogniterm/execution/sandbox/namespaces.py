"""The namespaces of a sandbox: built once, held open by descriptors, entered by fork.

Nothing inside takes orders. In a sandbox with processes of its own the first one only waits for the
end of this process, which the kernel's end of all others follows. A process that enters stays
outside of the namespace of processes and forks the one that is inside; what it does before is not
visible from inside.

All commands of a sandbox share one mount namespace, so a mount that is added there later holds for
those that run, too. It is apart from the machine's: what is mounted outside later never appears.

This module runs in the supervisor and in program guards, which have one thread and import little.
The steps of `base` and `kept` (`confinement.Sandbox.view`) are in the words of bwrap(1).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import select
import signal
import socket
import stat
import struct
import sys
import time

from kogniterm.host import kernel_calls as kernel
from kogniterm.host.kernel_calls import (
    NEW_CGROUP,
    NEW_IPC,
    NEW_MOUNTS,
    NEW_NETWORK,
    NEW_PIDS,
    NEW_USER,
    NEW_UTS,
    NO_DEVICES,
    NO_EXECUTION,
    NO_SUID,
    READ_ONLY,
)

# Set here and not imported: the supervisor starts in half the time without `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, NoReturn

    Identity = tuple[int, int] | None
    Step = Sequence[str]
    View = dict[str, Any]

MOST_PROCESSES = 1024 + 256 * (os.cpu_count() or 1)
_SPARE_NUMBERS = 256
"""Numbers of processes that are left for the next command when all others are taken."""
_PID_MAX_FROM = (6, 14)
"""The version of Linux in which kernel.pid_max is of a namespace, and not of the machine."""
_SPACES = {
    "user": NEW_USER, "mnt": NEW_MOUNTS, "net": NEW_NETWORK, "ipc": NEW_IPC, "uts": NEW_UTS,
    "cgroup": NEW_CGROUP, "pid": NEW_PIDS,
}  # fmt: skip
"""Kinds of namespaces by their names in /proc/PID/ns, in the order in which they are entered."""
_MEMORY_FOLDER = 1 << 20
_SHARED_MEMORY = 256 << 20
_LONGEST = 4096
_MOST_FDS = 16
_OF_THE_MACHINE = frozenset(("proc", "devpts", "devtmpfs", "mqueue", "debugfs", "tracefs", "bpf"))
"""File systems that show what the whole machine runs, wherever they are mounted."""
_OK = b"\0"
_TRIES, _PAUSE = 40, 0.025
_IFNAME_UP = (0x8913, 0x8914, 1)
_GET_USER_NAMESPACE = 0xB701
_ROOT = __file__.rpartition("/kogniterm/")[0]


class BuildError(Exception):
    """The sandbox, or a process in it, could not be made."""


class Built:
    """A sandbox that stands: its namespaces, and the pid of its first process, or 0.

    `child` is the one that this process has to reap for its end: the first process, or a bubblewrap
    that waits for it. Without `spaces` (Landlock) there is nothing to enter.
    """

    def __init__(
        self,
        spaces: dict[int, int],
        init: int = 0,
        line: socket.socket | None = None,
        child: int = 0,
    ) -> None:
        self.init = init
        self.child = child or init
        self._spaces = spaces
        self._line = line
        self._kept: dict[str, Identity] = {}

    def fork(
        self, before: Callable[[], tuple[int, ...]], inside: Callable[[], NoReturn]
    ) -> tuple[int, list[int]]:
        """Fork a process that calls `inside`; returns its pid, and copies of what `before` opened.

        `before` is called in all namespaces but that of the processes. The process has no
        privileges; it is a child of this one, which must be a subreaper. Raises BuildError.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        entrant = os.fork()
        if entrant == 0:
            try:
                ours.close()
                self._enter()
                opened = before()
                kernel.drop_privileges()
                kernel.keep_privileges_out()
                kernel.hide_memory()  # again: a change of credentials has undone it
                pid = _fork_patiently() if self.init else 0
                if pid or not self.init:
                    _tell(theirs, b"%d" % (pid or os.getpid()), opened)
                theirs.close()
                if pid == 0:
                    inside()
            except (OSError, ValueError) as error:
                with contextlib.suppress(OSError):
                    _tell(theirs, _OK + str(error).encode("utf-8", "replace")[:_LONGEST])
            finally:
                os._exit(0)
        theirs.close()
        with ours:
            said, fds = _hear(ours)
        if self.init or not said.isdigit():
            with contextlib.suppress(ChildProcessError):
                os.waitpid(entrant, 0)
        if not said.isdigit():
            raise BuildError(_reason(said))
        return int(said), fds

    def _enter(self) -> None:
        for kind, fd in self._spaces.items():
            kernel.enter(fd, kind)

    @property
    def gone(self) -> bool:
        """Return whether the first process has ended, or was killed from outside."""
        if self._line is None:
            return False
        poll = select.poll()
        poll.register(self._line, select.POLLIN)
        return bool(poll.poll(0))

    def protect(self, steps: Iterable[Step]) -> None:
        """Mount what is not yet, or not any more, as `steps` say; for commands that run, too.

        A file that was replaced from outside has lost its mount. What is not there is passed over.
        Raises BuildError.
        """
        if not self._spaces:
            return
        steps = list(steps)
        now = {step[-1]: identity(step[-1]) for step in steps}
        changed = [path for path, seen in now.items() if seen and self._kept.get(path) != seen]
        if not changed:
            return
        # A folder that is replaced takes what was mounted below it with it.
        below = tuple(f"{path}/" for path in changed)
        missing = [s for s in steps if s[-1] in changed or s[-1].startswith(below)]
        done = self.apply(lambda: _mount_all(missing, _open_all(missing), optional=True))
        self._kept |= {path: now[path] for path in done}

    def apply(self, change: Callable[[], list[str]]) -> list[str]:
        """Call `change` in a process of the user, mount and network namespaces, privileged there.

        Returns what it gives. Raises BuildError.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        helper = os.fork()
        if helper == 0:
            try:
                ours.close()
                for kind, fd in self._spaces.items():
                    if kind != NEW_PIDS:
                        kernel.enter(fd, kind)
                theirs.sendall(json.dumps(change()).encode("ascii"))
            except (OSError, ValueError) as error:
                with contextlib.suppress(OSError):
                    theirs.sendall(_OK + str(error).encode("utf-8", "replace")[:_LONGEST])
            finally:
                os._exit(0)
        theirs.close()
        with ours, ours.makefile("rb") as file:
            said = file.read()
        os.waitpid(helper, 0)
        if not said or said.startswith(_OK):
            raise BuildError(_reason(said))
        done: list[str] = json.loads(said)
        return done

    def close(self) -> None:
        """End every process inside, and release the descriptors.

        The first process, a child of this one, ends when all others have been reaped.
        """
        if self.init:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.init, signal.SIGKILL)
        if self._line is not None:
            self._line.close()
        for fd in self._spaces.values():
            os.close(fd)
        self.init, self.child, self._line, self._spaces = 0, 0, None, {}


def build(view: View) -> Built:
    """Build the sandbox of `view`; raises BuildError."""
    match view["kind"]:
        case "landlock" | "none":
            return Built({})
        case "bubblewrap":
            built = _build_by_bubblewrap(view)
        case kind:
            built = _build(view, own_processes=kind == "namespaces")
    try:
        built.protect([*_second_mounts(), *view["kept"]])
    except BuildError:
        built.close()
        raise
    return built


def _second_mounts() -> list[Step]:
    """Return the steps that cover what shows the machine's processes or terminals a second time.

    That is so in a chroot: command lines and terminals of others would be seen there.
    """
    with open("/proc/self/mountinfo", encoding="utf-8") as file:  # noqa: PTH123 - no pathlib
        lines = [line.split() for line in file]
    found = {
        fields[4].encode().decode("unicode_escape").encode("latin-1").decode("utf-8", "replace")
        for fields in lines
        if fields[fields.index("-") + 1] in _OF_THE_MACHINE
    }
    usual = ("/proc/", "/dev/", "/sys/")
    places = sorted(path for path in found if not f"{path}/".startswith(usual))
    return [step for path in places for step in (("--tmpfs", path), ("--remount-ro", path))]


def _build(view: View, *, own_processes: bool) -> Built:
    """Fork a builder, which makes the namespaces and forks the first process, and hear of both."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    builder = os.fork()
    if builder == 0:
        try:
            kernel.close_all_but(0, 1, 2, theirs.fileno())
            _leave_namespaces(network=view["network"], own_processes=own_processes)
            if not own_processes or (init := os.fork()) == 0:
                _begin(view, theirs, own_processes=own_processes)
            else:
                _tell(theirs, b"%d" % init)
        except (OSError, ValueError) as error:
            with contextlib.suppress(OSError):
                _tell(theirs, _OK + str(error).encode("utf-8", "replace")[:_LONGEST])
        finally:
            os._exit(0)
    theirs.close()
    os.waitpid(builder, 0)
    init, spaces = 0, list[int]()
    try:
        while not spaces or (own_processes and not init):
            said, fds = _hear(ours)
            if said.isdigit():
                init = int(said)
            elif said == _OK and fds:
                spaces = fds
            else:
                raise BuildError(_reason(said))
    except BaseException:
        ours.close()
        raise
    kinds = list(_kinds(network=view["network"], own_processes=own_processes).values())
    if not own_processes:
        ours.close()
    line = ours if own_processes else None
    return Built(dict(zip(kinds, spaces, strict=True)), init, line)


def _build_by_bubblewrap(view: View) -> Built:
    """Let bwrap(1) make the namespaces and mounts, with our first process in them.

    What only a privileged process can do there is done afterwards, by one that enters.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    told, telling = os.pipe()
    complaints = os.memfd_create("complaints")
    network = view["network"]
    words = ["--ro-bind", "/", "/", "--proc", "/proc"]
    words += [word for step in view["base"] for word in step]
    words += ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]
    words += ["--unshare-cgroup-try", *(() if network else ("--unshare-net",)), "--cap-drop", "ALL"]
    words += ["--as-pid-1", "--chdir", "/", "--info-fd", str(telling), "--", sys.executable, "-I"]
    words += ["-S", "-c", _FIRST, _ROOT, str(theirs.fileno())]
    child = os.fork()
    if child == 0:
        try:
            kernel.close_all_but(0, 1, telling, theirs.fileno(), complaints)
            os.dup2(complaints, 2)
            for fd in (telling, theirs.fileno()):
                os.set_inheritable(fd, True)
            os.execve(view["program"], [view["program"], *words], {})
        finally:
            os._exit(1)
    theirs.close()
    os.close(telling)
    try:
        said, _fds = _hear(ours)
        with open(told, "rb") as file:  # noqa: PTH123 - no pathlib in the supervisor
            info = file.read(_LONGEST)
        if said != _OK:
            os.waitpid(child, 0)
            said = os.pread(complaints, _LONGEST, 0)
            raise BuildError(said.decode("utf-8", "replace").strip() or "bwrap failed")
        init = int(json.loads(info)["child-pid"])
        built = Built(_spaces_of(init, network=network), init, ours, child)
    except BaseException:
        ours.close()
        raise
    finally:
        os.close(complaints)

    def finish() -> list[str]:
        kernel.mount("", "/", kernel.PRIVATE)  # what is mounted outside later stays there
        _finish(network=network)
        return []

    built.apply(finish)
    return built


def wait_inside(line: int) -> None:
    """As the first process in what bwrap has made: say that it stands, and wait for its end."""
    with socket.socket(fileno=line) as sock:
        _become_first()
        _tell(sock, _OK)
        kernel.close_all_but(line)
        sock.recv(1)


_FIRST = (
    "import sys; sys.path.append(sys.argv[1]); "
    f"from {__name__} import {wait_inside.__name__} as wait; wait(int(sys.argv[2]))"
)


def _become_first() -> None:
    """As the first process: let the kernel reap what ends, and nobody look into this process."""
    kernel.drop_privileges()
    kernel.keep_privileges_out()
    kernel.hide_memory()
    kernel.set_signals(signal.SIG_IGN)  # one with a handler would reach it from inside
    kernel.rename_process("sandbox")


def _spaces_of(process: int, *, network: bool) -> dict[int, int]:
    """Return the namespaces of a process; that of the users is the one that may mount there."""
    names = _kinds(network=network, own_processes=True)
    spaces = {
        kind: os.open(f"/proc/{process}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
        for name, kind in names.items()
    }
    os.close(spaces[NEW_USER])
    spaces[NEW_USER] = fcntl.ioctl(spaces[NEW_MOUNTS], _GET_USER_NAMESPACE)
    return spaces


def _kinds(*, network: bool, own_processes: bool) -> dict[str, int]:
    left_out = {*(("net",) if network else ()), *(() if own_processes else ("pid",))}
    return {name: kind for name, kind in _SPACES.items() if name not in left_out}


def _leave_namespaces(*, network: bool, own_processes: bool) -> None:
    """Make new namespaces, in which this user is the one that it is outside, and nobody else."""
    user, group = os.geteuid(), os.getegid()
    kernel.unshare(NEW_USER)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123 - no pathlib in the supervisor
            file.write(text)
    kinds = _kinds(network=network, own_processes=own_processes)
    kernel.unshare(sum(kind for kind in kinds.values() if kind != NEW_USER))
    if not network:
        _raise_loopback()


def _raise_loopback() -> None:
    get_flags, set_flags, is_up = _IFNAME_UP
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("16sh14x", b"lo", 0)
        flags: int = struct.unpack("16sh14x", fcntl.ioctl(sock, get_flags, request))[1]
        fcntl.ioctl(sock, set_flags, struct.pack("16sh14x", b"lo", flags | is_up))


def _begin(view: View, line: socket.socket, *, own_processes: bool) -> None:
    """Mount everything, hand over the namespaces; the first process then waits for the end.

    What ends inside and has no other parent is its child, and reaped by the kernel.
    """
    names = _kinds(network=view["network"], own_processes=own_processes)
    spaces = [os.open(f"/proc/self/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in names]
    _mount_root(view["base"], own_processes=own_processes)
    _finish(network=view["network"])
    if own_processes:
        _become_first()
        kernel.close_all_but(line.fileno(), *spaces)
    _tell(line, _OK, spaces)
    if own_processes:
        kernel.close_all_but(line.fileno())
        line.recv(1)


def _mount_root(base: Sequence[Step], *, own_processes: bool) -> None:
    """Make the sandbox's view of the disk the root of this mount namespace."""
    kernel.mount("", "/", kernel.PRIVATE)
    trees = _open_all(base)
    on = kernel.place("/")
    root = kernel.copy_mounts(on, READ_ONLY | NO_SUID | NO_DEVICES, recursive=True)
    kernel.change_root(root, next(path for path in ("/mnt", "/tmp", "/proc") if _is_folder(path)))
    if own_processes:
        kernel.mount("proc", "/proc", NO_SUID | NO_DEVICES | NO_EXECUTION)
        _limit_processes()
    else:
        proc = kernel.place("/proc")  # programs write what is below /proc/self
        kernel.set_attributes(proc, 0, cleared=READ_ONLY)
        os.close(proc)
    _mount_all(base, trees)


def _finish(*, network: bool) -> None:
    """Mount the terminals, and message queues where the kernel has them.

    In a network of its own all ports are open; `network` is the machine's.
    """
    terminals = "newinstance,ptmxmode=0666,mode=0620"
    kernel.mount("devpts", "/dev/pts", NO_SUID | NO_EXECUTION, terminals)
    with contextlib.suppress(OSError):
        kernel.mount("mqueue", "/dev/mqueue", NO_SUID | NO_DEVICES | NO_EXECUTION)
    if not network:
        with contextlib.suppress(OSError):  # refused where /proc/sys is read-only
            _write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0")


def _limit_processes() -> None:
    version = tuple(int(part) for part in os.uname().release.split(".")[:2] if part.isdigit())
    if version >= _PID_MAX_FROM:  # before, root would set it for the whole machine
        with contextlib.suppress(OSError):
            _write("/proc/sys/kernel/pid_max", str(MOST_PROCESSES + _SPARE_NUMBERS))


def _open_all(steps: Sequence[Step]) -> list[int]:
    """Return the mount that each step puts in place, -1 for none; sources are those of now."""
    return [_open(step) for step in steps]


def _open(step: Step) -> int:
    """Return a mount that is not yet seen; -1 where a source that may be missing is."""
    option, *paths = step
    if option == "--tmpfs":
        shared = paths[0] == "/dev/shm"
        size = _SHARED_MEMORY if shared else _MEMORY_FOLDER
        return kernel.memory_folder(NO_SUID | (NO_DEVICES if paths[0] != "/dev" else 0), size)
    if not option.removesuffix("-try").endswith("bind"):
        return -1
    attributes = 0 if option.startswith("--dev") else NO_SUID | NO_DEVICES
    attributes |= READ_ONLY if option.startswith("--ro") else 0
    try:
        source = kernel.place(paths[0])
        try:
            is_folder = stat.S_ISDIR(os.fstat(source).st_mode)
            return kernel.copy_mounts(source, attributes, recursive=is_folder)
        finally:
            os.close(source)
    except OSError:
        if option.endswith("-try"):
            return -1
        raise


def _mount_all(steps: Sequence[Step], trees: Sequence[int], *, optional: bool = False) -> list[str]:
    """Take the steps; returns the paths where all were taken.

    Those that may fail are passed over where something is not there, or not visible, or a job is
    removing it just now; with `optional` they are all.
    """
    done = {step[-1] for step in steps}
    new = tuple(f"{step[-1]}/" for step in steps if step[0] == "--tmpfs")
    for step, tree in zip(steps, trees, strict=True):
        may_fail = optional or step[0].endswith("-try")
        try:
            _take(step, tree, make=not may_fail or step[-1].startswith(new))
        except OSError:
            if not may_fail:
                raise
            done.discard(step[-1])
    return sorted(done)


def _take(step: Step, tree: int, *, make: bool) -> None:
    option, *_, target = step
    if option == "--symlink":
        os.symlink(step[1], target)  # noqa: PTH211 - no pathlib in the supervisor
    elif option == "--dir":
        os.makedirs(target, exist_ok=True)  # noqa: PTH103 - as above
    elif option == "--remount-ro":
        on = kernel.place(target)
        kernel.set_attributes(on, READ_ONLY)
        os.close(on)
    else:
        _put(tree, target, make=make)


def _put(tree: int, target: str, *, make: bool) -> None:
    """Put a mount where `target` is; where nothing is, a place is made first if that is right."""
    try:
        on = kernel.place(target)
    except FileNotFoundError:
        if not make:
            raise
        if stat.S_ISDIR(os.fstat(tree).st_mode):
            os.makedirs(target)  # noqa: PTH103 - no pathlib in the supervisor
        else:
            os.makedirs(os.path.dirname(target), exist_ok=True)  # noqa: PTH103, PTH120 - as above
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC))
        on = kernel.place(target)
    kernel.attach(tree, on)
    for fd in (on, tree):
        os.close(fd)


def identity(path: str) -> Identity:
    """Return what tells a file or folder from another of the same name; None where it is not."""
    try:
        seen = os.lstat(path)
    except OSError:
        return None
    return seen.st_dev, seen.st_ino


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:  # noqa: PTH123 - no pathlib in the supervisor
        file.write(text)


def _fork_patiently() -> int:
    """Fork; what was just killed may still take the last numbers of processes."""
    for _ in range(_TRIES):
        with contextlib.suppress(BlockingIOError):
            return os.fork()
        time.sleep(_PAUSE)
    return os.fork()


def _tell(line: socket.socket, said: bytes, fds: Sequence[int] = ()) -> None:
    socket.send_fds(line, [said], list(fds))


def _hear(line: socket.socket) -> tuple[bytes, list[int]]:
    said, fds, _flags, _address = socket.recv_fds(
        line, _LONGEST + 1, _MOST_FDS, socket.MSG_CMSG_CLOEXEC
    )
    return said, fds


def _reason(said: bytes) -> str:
    return said[1:].decode("utf-8", "replace") or os.strerror(errno.ESRCH)
