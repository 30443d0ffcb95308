"""The broker of a sandbox: a process outside of it that makes the connections of sockets inside.

The kernel finds the program that listens on a socket file whatever the network of the caller, so
each such file that a command sees could lead to a program of the machine. Therefore the filter of
a command (`kernel_rules`) holds every connect(2) and reports it here. The call itself never goes
on, because the caller could change its memory and descriptors after the check: the broker copies
the address, takes the socket, and connects it. It refuses a socket of another network, and a file
unless the sandbox's network lists a socket that listens on it, and the machine's lists none. These
lists show a device and 32 bits of a file's number; where those do not tell a file from others
(btrfs, larger numbers), it is refused.

The broker has the user of the sandbox, and there only the capability to look into processes, so the
kernel checks its connections as it would check the caller's. Structures: linux/seccomp.h,
linux/netlink.h, linux/unix_diag.h.
"""

from __future__ import annotations

import _thread
import contextlib
import errno
import fcntl
import gc
import os
import resource
import select
import signal
import socket
import struct
import time

from kogniterm.host import kernel_calls as kernel
from kogniterm.host.kernel_calls import NEW_NETWORK, NEW_USER, closing_descriptor

_RECEIVE, _SEND, _IS_VALID = 0xC0502100, 0xC0182101, 0x40082102
_NOTICE, _REPLY = struct.Struct("=QIIiIQQQQ24x"), struct.Struct("=QqiI")
_ONE_THREAD = os.O_EXCL
"""PIDFD_THREAD (Linux 6.9): a thread may have descriptors of its own."""
_NETWORK_COOKIE = 71
_LONGEST, _LONGEST_LOCAL = 128, 110
_SOCK_DIAG, _BY_FAMILY, _DUMP, _SHOW_FILE, _FILE = 4, 20, 0x301, 2, 1
_LISTENING, _ANY_STATE = 1 << 10, 0xFFFFFFFF
_ERROR, _END = 2, 3
_TICK = 0.2
"""Seconds after which a connection that waits ends if its caller did, or has a signal to handle."""
_STACK = 256 << 10
READY = b"+"
"""The answer of a broker that works."""


def serve(line: socket.socket, user: int, network: int) -> None:
    """Be the broker of the sandbox with these namespaces, until the channel or its parent ends.

    It takes the listeners of filters from the channel. Raises OSError where it cannot work.
    """
    parent = os.getppid()
    kernel.close_all_but(line.fileno(), user, network)
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):  # errors of the interpreter must not reach a caller's socket
        os.dup2(null, number)
    broker = _Broker(user, network)
    kernel.end_with_parent(signal.SIGKILL)
    if os.getppid() == parent:
        line.send(READY)
        broker.serve(line)


class _ConnectCall:
    """A connect(2) of the process or thread `caller`, which waits for the answer."""

    def __init__(self, listener: int) -> None:
        """Take the next one; raises OSError when its caller was killed."""
        notice = bytearray(_NOTICE.size)
        fcntl.ioctl(listener, _RECEIVE, notice)
        self._listener = listener
        self._number, self.caller, *_, fd, self._address, length = _NOTICE.unpack(notice)
        self._fd, self.length = fd & 0xFFFFFFFF, length & 0xFFFFFFFF
        self.began = time.monotonic()
        self.thread = 0
        """The thread that makes the connection."""

    def check(self) -> None:
        """Raise OSError unless the caller still waits: else its number may be another process's."""
        fcntl.ioctl(self._listener, _IS_VALID, struct.pack("=Q", self._number))

    def answer(self, error: int) -> None:
        """Let the caller go on, unless it was killed."""
        with contextlib.suppress(OSError):
            fcntl.ioctl(self._listener, _SEND, _REPLY.pack(self._number, 0, -error, 0))

    def is_over(self) -> bool:
        """Return whether the caller was killed, or has a signal to handle."""
        try:
            self.check()
            status = self._status()
        except OSError:
            return True
        own, shared, blocked = (int(status.get(n, "0"), 16) for n in ("SigPnd", "ShdPnd", "SigBlk"))
        return bool((own | shared) & ~blocked)

    def take(self) -> tuple[socket.socket, bytes]:
        """Return the caller's socket and a copy of the address. Raises OSError."""
        try:
            process = os.pidfd_open(self.caller, _ONE_THREAD)
        except OSError:
            process = os.pidfd_open(int(self._status()["Tgid"]))
        memory = f"/proc/{self.caller}/mem"
        with (
            closing_descriptor(process),
            closing_descriptor(os.open(memory, os.O_RDONLY | os.O_CLOEXEC)) as copied,
        ):
            self.check()
            # With the kind given, nothing is asked of what may be no socket.
            kind = socket.AF_UNIX, socket.SOCK_STREAM, 0
            sock = socket.socket(*kind, fileno=kernel.duplicate(process, self._fd))
            with contextlib.suppress(OSError, OverflowError):
                return sock, os.pread(copied, min(self.length, _LONGEST), self._address)
            return sock, b""

    def find(self, path: bytes) -> int:
        """Return a descriptor of what the caller sees at this path. Raises OSError."""
        if not path.startswith(b"/"):
            folder = os.readlink(b"/proc/%d/cwd" % self.caller)  # noqa: PTH115 - no pathlib here
            path = folder + b"/" + path
        with closing_descriptor(
            os.open(f"/proc/{self.caller}/root", os.O_PATH | os.O_CLOEXEC)
        ) as root:
            self.check()
            return kernel.place_in(root, path)

    def _status(self) -> dict[str, str]:
        with open(f"/proc/{self.caller}/status", "rb") as file:  # noqa: PTH123 - no pathlib here
            lines = file.read().decode("utf-8", "replace").splitlines()
        return {name: value for name, _, value in (line.partition(":") for line in lines)}


class _Broker:
    """The sockets of the sandbox and of the machine, and a thread for each connection."""

    def __init__(self, user: int, network: int) -> None:
        self._machine = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG)
        kernel.enter(user, NEW_USER)
        kernel.enter(network, NEW_NETWORK)
        self._own = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG)
        self._network = _network(self._own)
        self._lock = _thread.allocate_lock()
        self._calls: set[_ConnectCall] = set()
        for lists in (self._own, self._machine):
            _is_known_socket(lists, _LISTENING, 0, 0)
        kernel.drop_privileges(but=kernel.LOOK_INTO_PROCESSES)
        kernel.keep_privileges_out()
        kernel.hide_memory()
        kernel.rename_process("sandbox-sockets")
        kernel.set_signals(signal.SIG_IGN)
        signal.signal(signal.SIGUSR1, lambda *_: None)  # interrupts the connection of a thread
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        _thread.stack_size(_STACK)
        gc.enable()

    def serve(self, line: socket.socket) -> None:
        """Answer until the channel is closed."""
        poll = select.poll()
        poll.register(line, select.POLLIN)
        while True:
            for fd, event in poll.poll(_TICK * 1000 if self._calls else None):
                if fd == line.fileno():
                    said, listeners, *_ = socket.recv_fds(line, 1, 1)
                    if not said:
                        return
                    for listener in listeners:
                        poll.register(listener, select.POLLIN)
                elif event & select.POLLIN:
                    with contextlib.suppress(OSError):
                        self._begin(_ConnectCall(fd))
                else:  # no process with this filter is left
                    poll.unregister(fd)
                    os.close(fd)
            now = time.monotonic()
            for call in self._calls.copy():
                if call.thread and now - call.began > _TICK and call.is_over():
                    kernel.signal_thread(call.thread, signal.SIGUSR1)

    def _begin(self, call: _ConnectCall) -> None:
        self._calls.add(call)
        try:
            _thread.start_new_thread(self._answer, (call,))
        except RuntimeError:
            self._calls.discard(call)
            call.answer(errno.EAGAIN)

    def _answer(self, call: _ConnectCall) -> None:
        call.thread = _thread.get_native_id()
        error = errno.EACCES
        try:
            self._connect(call)
            error = 0
        except OSError as raised:
            error = raised.errno or error
        finally:
            call.answer(error)
            self._calls.discard(call)

    def _connect(self, call: _ConnectCall) -> None:
        """Make a connection of the caller. Raises OSError as connect(2) does."""
        sock, target = call.take()
        with sock, contextlib.ExitStack() as held:
            family = sock.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN)
            if call.length > _LONGEST or len(target) < call.length:
                raise OSError(errno.EINVAL if call.length > _LONGEST else errno.EFAULT, "address")
            if _network(sock) != self._network:
                raise OSError(errno.EACCES, "a socket that was made outside")
            if family == socket.AF_UNIX and target[2:3] not in (b"", b"\0"):
                if call.length > _LONGEST_LOCAL or target[:2] != struct.pack("=H", family):
                    raise OSError(errno.EINVAL, "an address of another family, or too long")
                file = held.enter_context(
                    closing_descriptor(call.find(target[2:].partition(b"\0")[0]))
                )
                call.check()
                self._permit(file)
                target = target[:2] + b"/proc/self/fd/%d\0" % file
            kernel.connect(sock.fileno(), target)

    def _permit(self, file: int) -> None:
        """Raise OSError unless a socket of the sandbox listens on the file.

        Both the descriptor and the listening socket keep its number from becoming another file's.
        """
        seen = os.fstat(file)
        device = os.major(seen.st_dev) << 20 | os.minor(seen.st_dev)
        with self._lock:
            if _is_known_socket(self._machine, _ANY_STATE, device, seen.st_ino):
                raise OSError(errno.EACCES, "a socket of the machine")
            if not _is_known_socket(self._own, _LISTENING, device, seen.st_ino):
                raise OSError(errno.ECONNREFUSED, "no socket of the sandbox")


def _network(sock: socket.socket) -> bytes:
    return sock.getsockopt(socket.SOL_SOCKET, _NETWORK_COOKIE, 8)


def _is_known_socket(lists: socket.socket, states: int, device: int, inode: int) -> bool:
    """Return whether a socket in one of these states is bound to the file. Raises OSError."""
    request = struct.pack("=BBHIIIII", socket.AF_UNIX, 0, 0, states, 0, _SHOW_FILE, 0, 0)
    lists.send(struct.pack("=IHHII", 16 + len(request), _BY_FAMILY, _DUMP, 0, 0) + request)
    found = False
    while True:
        data, start = lists.recv(1 << 16), 0
        while start < len(data):
            size, kind = struct.unpack_from("=IH", data, start)
            if kind == _ERROR:
                raise OSError(errno.EACCES, "the kernel does not list sockets")
            if kind == _END:
                return found
            at = start + 32  # behind both headers
            while at < start + size:
                length, name = struct.unpack_from("=HH", data, at)
                if name == _FILE:
                    found |= struct.unpack_from("=II", data, at + 4) == (inode, device)
                at += length + 3 & ~3
            start += size + 3 & ~3
