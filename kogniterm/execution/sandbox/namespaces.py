"""The namespaces of a sandbox: built once, held open by descriptors, entered by fork.

Nothing inside takes orders. In a sandbox with processes of its own the first one only waits for the
end of this process, which the kernel's end of all others follows. A process that enters stays
outside of the namespace of processes and forks the one that is inside; what it does before is not
visible from inside.

All commands of a sandbox share one mount namespace, so a mount that is added there later holds for
those that run, too. It is apart from the machine's: what is mounted outside later never appears.

This module runs in the supervisor and in program guards, which have one thread and import little.
The steps by which mounts are made (`confinement.Sandbox.view`) are in the words of bwrap(1).
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
import time

from kogniterm.execution.sandbox import local_sockets
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
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, NoReturn

    Step = Sequence[str]
    View = dict[str, Any]
    Mounts = dict[str, set[int]]

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
_NOT_BECOME = 127
"""Exit code of a process that could not become what it was forked for."""
_TRIES, _PAUSE = 40, 0.025
_IFNAME_UP = (0x8913, 0x8914, 1)
_GET_USER_NAMESPACE = 0xB701


class BuildError(OSError):
    """The sandbox, or a process in it, could not be made."""


class BuiltSandbox:
    """A sandbox that stands: its namespaces, and the pid of its first process, or 0.

    `children` are the processes that are not of a command: the first one, and the broker, to which
    `broker` leads where local sockets work. `table` is an open mountinfo (proc_pid_mountinfo(5)) of
    its mounts, `steps` are those by which they were made. Without `spaces` (Landlock) there is
    nothing to enter.
    """

    def __init__(
        self,
        spaces: dict[int, int],
        table: int = -1,
        init: int = 0,
        line: socket.socket | None = None,
        steps: Sequence[Step] = (),
    ) -> None:
        self.init = init
        self._spaces = spaces
        self._table = table
        self._line = line
        mounts = self._mounts()
        self._made = {step[-1]: mounts.get(step[-1], set()) for step in steps}
        self._protected: Mounts = {}
        self.broker: socket.socket | None = None
        self.children = {init}

    def fork(
        self, before: Callable[[], tuple[int, ...]], inside: Callable[[], NoReturn]
    ) -> tuple[int, list[int]]:
        """Fork a process that calls `inside`; returns its pid, and copies of what `before` opened.

        `before` is called in all namespaces but that of the processes. The process has no
        privileges; it is a child of this one, which must be a subreaper. Raises BuildError.
        """
        if NEW_NETWORK in self._spaces and (self.broker is None or _readable(self.broker)):
            self._start_broker()

        def enter(line: socket.socket) -> None:  # outside of the namespace of processes
            with contextlib.suppress(OSError):
                _write("/proc/self/oom_score_adj", "500")  # it ends before other programs
            self._enter()
            opened = before()
            kernel.drop_privileges()
            kernel.keep_privileges_out()
            kernel.hide_memory()  # again: a change of credentials has undone it
            pid = fork_patiently() if self.init else 0  # the child is inside
            if pid or not self.init:
                _tell(line, b"%d" % (pid or os.getpid()), opened)
            if pid == 0:
                line.close()
                inside()

        helper, ours = _fork_with(enter)
        with ours:
            said, fds = _hear(ours)
        if self.init or not said.isdigit():
            with contextlib.suppress(ChildProcessError):
                os.waitpid(helper, 0)
        if not said.isdigit():
            raise BuildError(_reason(said))
        return int(said), fds

    def _start_broker(self) -> None:
        spaces = self._spaces[NEW_USER], self._spaces[NEW_NETWORK]
        pid, line = _fork_with(lambda line: local_sockets.serve(line, *spaces))
        self.broker = line if line.recv(1) == local_sockets.READY else None
        self.children = {self.init, pid}

    def _enter(self, *, left_out: int = 0) -> None:
        for kind, fd in self._spaces.items():
            if kind != left_out:
                kernel.enter(fd, kind)

    @property
    def gone(self) -> bool:
        """Return whether the first process has ended, or was killed from outside."""
        return self._line is not None and _readable(self._line)

    @property
    def whole(self) -> bool:
        """Return whether all is mounted still: what is removed or moved outside takes it away."""
        mounts = self._mounts()
        return all(there <= mounts.get(path, set()) for path, there in self._made.items())

    def _mounts(self) -> Mounts:
        """Return the numbers of the mounts at each path."""
        found: Mounts = {}
        if self._table >= 0:
            os.lseek(self._table, 0, os.SEEK_SET)
            with open(self._table, "rb", closefd=False) as file:
                for number, path, _ in _mounts_in(file.read()):
                    found.setdefault(path, set()).add(number)
        return found

    def protect(self, steps: Sequence[Step]) -> None:
        """Mount what is not yet, or not any more, as `steps` say; for commands that run, too.

        What was replaced outside has lost its mount. What is not there is passed over. Raises
        BuildError.
        """
        if not self._spaces:
            return
        mounts, none = self._mounts(), set[int]()
        there = {path for path, at in self._protected.items() if at <= mounts.get(path, none)}
        missing = {step[-1] for step in steps if step[-1] not in there}
        missing = {path for path in missing if os.path.lexists(path)}
        if not missing:
            return
        # A mount on a folder covers what is mounted below it.
        below = tuple(f"{path}/" for path in missing)
        again = [step for step in steps if step[-1] in missing or step[-1].startswith(below)]
        done = self.apply(lambda: _mount_all(again, _open_all(again), optional=True))
        mounts = self._mounts()
        self._protected |= {path: mounts[path] for path in done if path in mounts}

    def apply(self, change: Callable[[], list[str]]) -> list[str]:
        """Call `change` in a process of the user, mount and network namespaces, privileged there.

        Returns what it gives. Raises BuildError.
        """

        def enter(line: socket.socket) -> None:
            self._enter(left_out=NEW_PIDS)
            line.sendall(json.dumps(change()).encode("ascii"))

        helper, ours = _fork_with(enter, socket.SOCK_STREAM)
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
        if self.init and not self.gone:  # else its number may be somebody else's by now
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.init, signal.SIGKILL)
        for line in (self._line, self.broker):
            if line is not None:
                line.close()
        for fd in (*self._spaces.values(), *((self._table,) if self._table >= 0 else ())):
            os.close(fd)
        self.init, self._spaces, self._table, self.children = 0, {}, -1, set()
        self._line = self.broker = None


def build(view: View) -> BuiltSandbox:
    """Build the sandbox of `view`; raises BuildError."""
    if view["kind"] in ("landlock", "none"):
        return BuiltSandbox({})
    built = _build(view, own_processes=view["kind"] != "container")
    try:
        built.protect([*_second_mounts(), *view["protection"]])
    except BuildError:
        built.close()
        raise
    return built


def _second_mounts() -> list[Step]:
    """Return the steps that cover what shows the machine's processes or terminals a second time.

    That is so in a chroot: command lines and terminals of others would be seen there.
    """
    with open("/proc/self/mountinfo", "rb") as file:  # noqa: PTH123 - no pathlib
        mounts = [*_mounts_in(file.read())]
    found = {path for _, path, kind in mounts if kind in _OF_THE_MACHINE}
    usual = ("/proc/", "/dev/", "/sys/")
    places = sorted(path for path in found if not f"{path}/".startswith(usual))
    return [step for path in places for step in (("--tmpfs", path), ("--remount-ro", path))]


def _mounts_in(table: bytes) -> Iterator[tuple[int, str, str]]:
    """Yield number, path and file system of each mount of a mountinfo."""
    for line in filter(None, table.split(b"\n")):
        fields = line.split(b" ")
        path = fields[4]
        if b"\\" in path:
            path = path.decode("unicode_escape").encode("latin-1")
        yield int(fields[0]), os.fsdecode(path), os.fsdecode(fields[fields.index(b"-", 6) + 1])


def _build(view: View, *, own_processes: bool) -> BuiltSandbox:
    """Fork a builder, which makes the namespaces and forks the first process, and hear of both."""

    def begin(line: socket.socket) -> None:
        kernel.close_all_but(0, 1, 2, line.fileno())
        if view["kind"] == "bubblewrap":
            _enter_bubblewrap(view)
        else:
            _leave_namespaces(network=view["network"], own_processes=own_processes)
        if not own_processes or (init := os.fork()) == 0:
            _begin(view, line, own_processes=own_processes)
        else:
            _tell(line, b"%d" % init)

    builder, ours = _fork_with(begin)
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
    *spaces, table = spaces
    named = dict(zip(kinds, spaces, strict=True))
    return BuiltSandbox(named, table, init, line, steps=view["mounts"])


def _enter_bubblewrap(view: View) -> None:
    """Let bwrap(1) make the namespaces and mounts, and enter them.

    That of the processes is made here: its first process is to be ours, and an interpreter that
    bwrap would have to start takes longer than all else.
    """
    ours, theirs = socket.socketpair()
    complaints = os.memfd_create("complaints")
    words = ["--ro-bind", "/", "/", *(word for step in view["mounts"] for word in step)]
    words += ["--unshare-user", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    words += [*(() if view["network"] else ("--unshare-net",)), "--cap-drop", "ALL"]
    words += ["--chdir", "/", "--", "/bin/sh", "-c", "echo $$; read -r _"]
    child = os.fork()
    if child == 0:
        try:
            for number, fd in enumerate((theirs.fileno(), theirs.fileno(), complaints)):
                os.dup2(fd, number)
            kernel.close_all_but(0, 1, 2)
            os.execve(view["program"], [view["program"], *words], {})
        finally:
            os._exit(1)
    theirs.close()
    process = ours.recv(_LONGEST).decode("ascii").strip()
    if process:
        names = _kinds(network=view["network"], own_processes=False)
        spaces = {
            kind: os.open(f"/proc/{process}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
            for name, kind in names.items()
        }
        # That of the users is the one that may mount there; bwrap may have made a second one.
        spaces[NEW_USER] = fcntl.ioctl(spaces[NEW_MOUNTS], _GET_USER_NAMESPACE)
        for kind, fd in spaces.items():
            kernel.enter(fd, kind)
        kernel.unshare(NEW_PIDS)
    ours.close()
    os.waitpid(child, 0)
    if not process:
        said = os.pread(complaints, _LONGEST, 0).decode("utf-8", "replace").strip()
        raise OSError(said or "bwrap failed")


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
        _write(f"/proc/self/{name}", text)
    kinds = _kinds(network=network, own_processes=own_processes)
    kernel.unshare(sum(kind for kind in kinds.values() if kind != NEW_USER))
    if not network:
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
    kernel.mount("", "/", kernel.PRIVATE)  # what is mounted outside later stays there
    if view["kind"] == "bubblewrap":
        _mount_processes(own=True)
    else:
        steps = view["mounts"]
        trees = _open_all(steps)
        on = kernel.place("/")
        root = kernel.copy_mounts(on, READ_ONLY | NO_SUID | NO_DEVICES, recursive=True)
        kernel.change_root(
            root, next(path for path in ("/mnt", "/tmp", "/proc") if _is_folder(path))
        )
        _mount_processes(own=own_processes)
        _mount_all(steps, trees)
    terminals = "newinstance,ptmxmode=0666,mode=0620"
    kernel.mount("devpts", "/dev/pts", NO_SUID | NO_EXECUTION, terminals)
    with contextlib.suppress(OSError):
        kernel.mount("mqueue", "/dev/mqueue", NO_SUID | NO_DEVICES | NO_EXECUTION)
    if not view["network"]:  # in one of its own, all ports are open
        with contextlib.suppress(OSError):  # refused where /proc/sys is read-only
            _write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0")
    spaces.append(os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC))
    if own_processes:
        # This is their first process: the kernel reaps what ends, and nobody looks into it.
        kernel.drop_privileges()
        kernel.keep_privileges_out()
        kernel.hide_memory()
        kernel.set_signals(signal.SIG_IGN)  # one with a handler would reach it from inside
        kernel.rename_process("sandbox")
        kernel.close_all_but(line.fileno(), *spaces)
    _tell(line, _OK, spaces)
    if own_processes:
        kernel.close_all_but(line.fileno())
        line.recv(1)


def _mount_processes(*, own: bool) -> None:
    if own:
        kernel.mount("proc", "/proc", NO_SUID | NO_DEVICES | NO_EXECUTION)
        version = tuple(int(part) for part in os.uname().release.split(".")[:2] if part.isdigit())
        if version >= _PID_MAX_FROM:  # before, root would set it for the whole machine
            with contextlib.suppress(OSError):
                _write("/proc/sys/kernel/pid_max", str(MOST_PROCESSES + _SPARE_NUMBERS))
    else:
        with kernel.closing_descriptor(
            kernel.place("/proc")
        ) as proc:  # programs write below /proc/self
            kernel.set_attributes(proc, 0, cleared=READ_ONLY)


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
        with kernel.closing_descriptor(kernel.place(paths[0])) as source:
            is_folder = stat.S_ISDIR(os.fstat(source).st_mode)
            return kernel.copy_mounts(source, attributes, recursive=is_folder)
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
            option, *_, target = step
            if option == "--symlink":
                os.symlink(step[1], target)  # noqa: PTH211 - no pathlib in the supervisor
            elif option == "--dir":
                os.makedirs(target, exist_ok=True)  # noqa: PTH103 - as above
            elif option == "--remount-ro":
                with kernel.closing_descriptor(kernel.place(target)) as on:
                    kernel.set_attributes(on, READ_ONLY)
            else:
                _put(tree, target, make=not may_fail or step[-1].startswith(new))
        except OSError:
            if not may_fail:
                raise
            done.discard(step[-1])
    return sorted(done)


def _put(tree: int, target: str, *, make: bool) -> None:
    """Put a mount where `target` is; where nothing is, a place is made first if that is right.

    Another sandbox with the same folder for /tmp may make the place at the same moment.
    """
    try:
        on = kernel.place(target)
    except FileNotFoundError:
        if not make:
            raise
        if stat.S_ISDIR(os.fstat(tree).st_mode):
            os.makedirs(target, exist_ok=True)  # noqa: PTH103 - no pathlib in the supervisor
        else:
            os.makedirs(os.path.dirname(target), exist_ok=True)  # noqa: PTH103, PTH120 - as above
            with contextlib.suppress(FileExistsError):
                os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC))
        on = kernel.place(target)
    kernel.attach(tree, on)
    for fd in (on, tree):
        os.close(fd)


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:  # noqa: PTH123 - no pathlib in the supervisor
        file.write(text)


def _fork_with(
    work: Callable[[socket.socket], object], kind: int = socket.SOCK_SEQPACKET
) -> tuple[int, socket.socket]:
    """Fork a process that calls `work` with a channel, on which it also tells why it failed.

    Returns its pid and the other end.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
    pid = os.fork()
    if pid == 0:
        code = _NOT_BECOME
        try:
            ours.close()
            work(theirs)
            code = 0
        except (OSError, ValueError) as error:
            with contextlib.suppress(OSError):
                _tell(theirs, _OK + str(error).encode("utf-8", "replace")[:_LONGEST])
        finally:
            os._exit(code)
    theirs.close()
    return pid, ours


def fork_patiently() -> int:
    """Fork; what was just killed may still take the last numbers of processes."""
    for _ in range(_TRIES):
        with contextlib.suppress(BlockingIOError):
            return os.fork()
        time.sleep(_PAUSE)
    return os.fork()


def _readable(line: socket.socket) -> bool:
    poll = select.poll()
    poll.register(line, select.POLLIN)
    return bool(poll.poll(0))


def _tell(line: socket.socket, said: bytes, fds: Sequence[int] = ()) -> None:
    socket.send_fds(line, [said], list(fds))


def _hear(line: socket.socket) -> tuple[bytes, list[int]]:
    """Return the message and its descriptors; the kernel drops forbidden ones."""
    room = socket.CMSG_SPACE(_MOST_FDS * 4)
    said, sent, flags, _address = line.recvmsg(_LONGEST + 1, room, socket.MSG_CMSG_CLOEXEC)
    fds = kernel.descriptors_in(sent)
    if flags & socket.MSG_CTRUNC:
        for fd in fds:
            os.close(fd)
        raise BuildError(os.strerror(errno.EMFILE))
    return said, fds


def _reason(said: bytes) -> str:
    return said[1:].decode("utf-8", "replace") or os.strerror(errno.ESRCH)
