"""One pseudo-terminal and one session leader for each command.

The leader is forked, never executed: it starts the shell in a process group of its own in the
terminal's foreground, reports what becomes of it, and stays until its last descendant has
ended. Because the leader outlives the shell, the kernel does not hang up background jobs when
the shell exits; because it is a child subreaper, daemons cannot leave its tree.

Two forks of an interpreter and a new terminal are most of what a command costs. So the supervisor
makes them while a command runs or nothing does (`Standby`), and hands the executor all there is to
them: the terminal, the pipe of the reports, and the channel on which the shell-to-be waits for its
order. The next command then takes one message. The shell-to-be ends when its channel closes, and
both end with the supervisor, so that nothing is left of them when it is killed. Only in a sandbox a
command is started when it is ordered (`start_inside`), so that nothing there waits for orders.

Messages between the executor, the supervisor and a shell-to-be are length-prefixed JSON with
descriptors. This module runs inside the supervisor, which has one thread, so forking is safe there.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import signal
import socket
import struct
import termios

from kogniterm.execution.process.outliving import NOTHING, once_begun, outliving
from kogniterm.host.kernel_calls import (
    become_subreaper,
    close_all_but,
    descriptors_in,
    end_with_parent,
    rename_process,
    set_signals,
)
from kogniterm.host.processes import end_tree

# Set here and not imported: the supervisor starts in half the time without `typing`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from kogniterm.execution.sandbox.namespaces import BuiltSandbox


_LENGTH = 4
MOST_FDS = 253
"""Descriptors that the kernel lets one message carry (unix(7), SCM_MAX_FD)."""


def send_message(
    channel: socket.socket, message: dict[str, Any], fds: tuple[int, ...] = ()
) -> None:
    """Send `message`, and `fds` with its first byte; raises OSError when the peer is gone."""
    body = json.dumps(message).encode("ascii")
    data = len(body).to_bytes(_LENGTH, "big") + body
    sent = socket.send_fds(channel, [data], fds) if fds else 0
    # The peer may have read it all and gone: not even nothing can be sent then.
    if sent < len(data):
        channel.sendall(data[sent:])


def receive_message(channel: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Wait for one message with its descriptors; None when the peer has closed."""
    fds: list[int] = []
    head = _read(channel, _LENGTH, fds)
    if head is None:
        return None
    body = _read(channel, int.from_bytes(head, "big"), fds)
    if body is None:
        return None
    message: dict[str, Any] = json.loads(body)
    return message, fds


def _read(channel: socket.socket, size: int, fds: list[int]) -> bytes | None:
    parts: list[bytes] = []
    while size:
        data, ancillary, _flags, _address = channel.recvmsg(
            min(size, 1 << 20), socket.CMSG_SPACE(MOST_FDS * 4), socket.MSG_CMSG_CLOEXEC
        )
        fds += descriptors_in(ancillary)
        if not data:
            return None
        parts.append(data)
        size -= len(data)
    return b"".join(parts)


_TIOCGPTPEER, _TIOCSPTLCK = 0x5441, 0x40045431
"""Open the other end of a pseudo-terminal (Linux 4.13), and unlock it (ioctl_tty(2))."""
_IUTF8 = 0x4000
"""Input is UTF-8: erasing takes a whole character (termios(3)); Python has no name for it."""
_MOST_TYPED = 64 << 10
LET_GO = signal.SIGUSR1
"""Tells a leader to end without ending what is below it."""
_LEFT_ALONE = signal.SIGUSR2
"""Tells a leader that its supervisor has ended; the kernel sends it."""
SHELL_ENDED = "shell"
CHILD_ENDED = "child"
ALL_ENDED = "all"
_MOST_NOTED = 256
_LEADER_IGNORES = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
)
STATUSES = "statuses"
"""The folder in the executor's private one where exit codes of background processes are noted."""
_LONGEST_ERROR = 4096
CANNOT_START = 71
"""Exit code of a shell-to-be that cannot become the shell: EX_OSERR of sysexits.h."""
_SIZE = (24, 80)


class SpawnError(Exception):
    """The program or its folder cannot be used."""


def set_output_processing(fd: int, on: bool) -> None:
    """Turn the terminal's newline translation on or off.

    Off, a flood of output costs a fifth of the time, and lines end in a bare line feed.
    """
    modes = termios.tcgetattr(fd)
    if on:
        modes[1] |= termios.OPOST | termios.ONLCR
    else:
        modes[1] &= ~termios.OPOST
    termios.tcsetattr(fd, termios.TCSANOW, modes)


def take_unread(master: int) -> bytes:
    """Take what was typed and not read out of the terminal; returns it as keys.

    Input typed with echo off is thrown away: it was meant to be secret. Raises OSError or
    termios.error when the terminal is gone.
    """
    flags = os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC
    fd = fcntl.ioctl(master, _TIOCGPTPEER, flags)
    try:
        modes = termios.tcgetattr(fd)
        echo, by_lines = modes[3] & termios.ECHO, modes[3] & termios.ICANON
        if not echo:
            termios.tcflush(fd, termios.TCIFLUSH)
            return b""
        # Only so are lines without an end readable.
        modes[3] &= ~termios.ICANON
        modes[6][termios.VMIN] = modes[6][termios.VTIME] = 0
        termios.tcsetattr(fd, termios.TCSANOW, modes)
        typed = os.read(fd, _MOST_TYPED)
    except BlockingIOError:
        return b""
    finally:
        os.close(fd)
    # The terminal had turned Return into a newline and Ctrl-D into the end of the input.
    return typed.replace(b"\n", b"\r").replace(b"\0", b"\x04") if by_lines else typed


def line_modes(master: int) -> tuple[bool, bool]:
    """Return whether the terminal (echoes, gives its input line by line)."""
    try:
        local = termios.tcgetattr(master)[3]
    except termios.error:
        return True, True
    return bool(local & termios.ECHO), bool(local & termios.ICANON)


def set_size(fd: int, rows: int, columns: int) -> None:
    """Give the terminal a window size; its foreground programs get SIGWINCH when it changed."""
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


class Leading:
    """Facts that a leader needs: its supervisor's pid, and what may outlive that.

    `statuses` is the executor's folder of exit codes; empty for a sandbox, of which nothing may:
    exit codes of orphans are noted nowhere, for inside their numbers mean other processes.
    """

    def __init__(self, supervisor: int, statuses: str, outlives: str) -> None:
        self.supervisor = supervisor
        self.statuses = statuses
        self.outlives = outlives


def start_inside(
    built: BuiltSandbox, order: dict[str, Any], report: int, complaints: int, handed: dict[int, int]
) -> tuple[int, int]:
    """Start a command in a sandbox; returns (the leader's pid, the terminal's master descriptor).

    The leader writes its reports to the descriptor `report`, and the shell-to-be why it cannot be
    the shell to `complaints`; `handed` are descriptors for the shell, by its own numbers. `order`
    is one of the launcher with the rules that confine it. The leader is inside where the sandbox
    has processes of its own, so it takes no orders there. Raises BuildError.
    """
    from kogniterm.execution.sandbox import kernel_rules, namespaces  # once, before the fork

    rules = order["view"]["rules"]
    files = kernel_rules.ruleset_of(rules)
    leading = None if built.init else Leading(os.getpid(), "", NOTHING)
    slave = -1

    def before() -> tuple[int]:
        nonlocal slave
        # A new terminal of this mount namespace.
        flags = os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC
        master = os.open("/dev/ptmx", flags)
        fcntl.ioctl(master, _TIOCSPTLCK, struct.pack("i", 0))
        slave = fcntl.ioctl(master, _TIOCGPTPEER, flags)
        set_size(slave, *order["size"])
        set_output_processing(slave, order["newlines"])
        _erase_whole_characters(slave)
        return (master,)

    def inside() -> NoReturn:
        broker = built.broker.fileno() if built.broker is not None else 0
        close_all_but(slave, report, complaints, *handed.values(), broker, files)
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        for number in range(3):
            os.dup2(slave, number)
        _become_leader(leading)
        if leading is None:
            rename_process("sandbox")
        shell = namespaces.fork_patiently()
        if shell:
            _lead(shell, report, leading)
        channel = socket.socket(fileno=complaints)
        try:
            os.setpgid(0, 0)
            os.tcsetpgrp(0, os.getpid())
            set_signals(signal.SIG_DFL)
            kernel_rules.confine(rules, built.broker, files)
            channel = _move_up(channel, above := max(handed) + 1)
            _renumber([*handed.values()], [*handed], above)
            _become_shell(order)
        except (OSError, ValueError) as error:
            channel.sendall(str(error).encode("utf-8", "replace")[:_LONGEST_ERROR])
        finally:
            os._exit(CANNOT_START)

    leader, (master,) = built.fork(before, inside)
    return leader, master


class Standby:
    """A leader and a shell-to-be that wait for a command, as the supervisor made them."""

    def __init__(self, statuses: str, outlives: str) -> None:
        """Fork; raises OSError or SpawnError."""
        leading = Leading(os.getpid(), statuses, outlives)
        channel, theirs = socket.socketpair()
        self.reports, report = os.pipe()
        try:
            self.leader, self.master = open_terminal(
                lambda: _stand_by(theirs, report, leading), (theirs.fileno(), report), _SIZE
            )
        except (OSError, SpawnError):
            channel.close()
            os.close(self.reports)
            raise
        finally:
            theirs.close()
            os.close(report)
        self.channel = channel.detach()

    def close_own(self) -> None:
        """Close what is the executor's alone from now on."""
        os.close(self.channel)
        os.close(self.reports)


def complaint(channel: socket.socket) -> str:
    """Return why it could not become the shell; asked after it has ended with CANNOT_START."""
    with contextlib.suppress(OSError):
        channel.setblocking(False)
        return channel.recv(_LONGEST_ERROR).decode("utf-8", "replace")
    return ""


def open_terminal(
    lead: Callable[[], NoReturn], kept: tuple[int, ...], size: tuple[int, int]
) -> tuple[int, int]:
    """Fork a session leader on a new terminal; returns (its pid, the terminal's master).

    In the leader everything is closed but the descriptors `kept`, and `lead` is called. Raises
    OSError or SpawnError for what goes wrong there.
    """
    # Loads shutil and its formats, for which a supervisor without a command has no use.
    from ptyprocess import PtyProcess, PtyProcessError

    def begin() -> None:
        _erase_whole_characters(0)
        lead()

    supervisor = os.getpid()
    try:
        process = PtyProcess.spawn(["/bin/sh"], dimensions=size, preexec_fn=begin, pass_fds=kept)
    except PtyProcessError as error:
        raise SpawnError(str(error)) from error
    finally:
        # ptyprocess lets errors of its fork escape: its terminal is gone when the supervisor is
        # killed just then. The fork must not go on as a second supervisor.
        if os.getpid() != supervisor:
            os._exit(1)
    # ptyprocess would sleep a tenth of a second on close; its bookkeeping is not needed here.
    process.delayafterclose = 0
    process.closed = True
    master = os.dup(process.fd)
    process.fileobj.close()
    return int(process.pid), master


def _erase_whole_characters(fd: int) -> None:
    """Have the terminal take what is typed for UTF-8, as terminal emulators do."""
    with contextlib.suppress(termios.error):
        modes = termios.tcgetattr(fd)
        modes[0] |= _IUTF8
        termios.tcsetattr(fd, termios.TCSANOW, modes)


def _copy(fd: int, above: int) -> int:
    """Return a copy of a descriptor with a number from `above` on; raises OSError for none left."""
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, above)
    except OSError as error:  # EINVAL where no number so high may be used
        raise OSError(errno.EMFILE, "too many open files (see ulimit -n)") from error


def _move_up(channel: socket.socket, above: int) -> socket.socket:
    """Give the channel a number from `above` on, to leave lower ones to the shell."""
    copy = _copy(channel.fileno(), above)
    channel.close()  # not before: it tells what went wrong
    return socket.socket(fileno=copy)


def _renumber(fds: list[int], numbers: list[int], above: int) -> None:
    """Give the open `fds` the `numbers`, all below `above`, and hand them on when executing."""
    moved = [_copy(fd, above) for fd in fds]
    for fd in fds:
        os.close(fd)
    for fd, number in zip(moved, numbers, strict=True):
        os.dup2(fd, number)


def _become_leader(leading: Leading | None) -> None:
    """Ignore what the terminal sends, adopt orphans below, and end with the supervisor.

    Inside a sandbox with processes of its own (None) all signals are ignored that can be, and the
    end comes with that of the sandbox.
    """
    # From here on a child's end must not run a handler that writes to a closed descriptor.
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number in _LEADER_IGNORES:
        signal.signal(number, signal.SIG_IGN)
    become_subreaper()
    if leading is None:
        set_signals(signal.SIG_IGN, but=frozenset((signal.SIGCHLD,)))
        return
    _end_with(leading.supervisor, _LEFT_ALONE)


def _end_with(parent: int, number: int) -> None:
    """Have the kernel send this process signal `number` when `parent` ends; end if it has."""
    end_with_parent(number)
    if os.getppid() != parent:
        os._exit(1)


def _lead(shell: int, report: int, leading: Leading | None) -> NoReturn:
    """Reap everything below the leader and report it; exits when nothing is left, or on LET_GO.

    Left alone, it ends what is below it as its supervisor would have: the kernel's hang-up at its
    own end reaches the foreground only, and a shell that is about to start a program loses it.
    """
    statuses, noted = leading.statuses if leading else "", 0
    if leading is not None:
        signal.signal(LET_GO, _let_go)
        signal.signal(_LEFT_ALONE, lambda *_: _end_all(leading))
    close_all_but(0, report)
    os.chdir("/")
    ended = _ended_child(0)
    while ended is not None:
        if ended != shell and statuses and noted < _MOST_NOTED:
            noted += 1
            # Before it is reaped: who looks for its status finds that, or the process.
            _note(f"{statuses}/{ended}", os.waitid(os.P_PID, ended, os.WEXITED | os.WNOWAIT))
        pid, status = os.waitpid(ended, 0)
        line = f"{SHELL_ENDED if pid == shell else CHILD_ENDED} {pid} {status}\n"
        ended = _ended_child(os.WNOHANG)
        if ended is None:
            # The end of a session leader hangs its terminal up, and with it goes what was typed
            # ahead. Giving the terminal up before keeps it.
            with contextlib.suppress(OSError):
                fcntl.ioctl(0, termios.TIOCNOTTY)
            line += f"{ALL_ENDED} 0 0\n"
        # Reports of orphans may be lost when nobody reads them; the shell's must not.
        os.set_blocking(report, pid == shell)
        with contextlib.suppress(OSError):
            os.write(report, line.encode("ascii"))
        if ended == 0:
            ended = _ended_child(0)
    os._exit(0)


def _let_go(*_: object) -> NoReturn:
    """In the leader: end, and leave what is below it without a terminal and without a hang-up.

    The hang-up goes to the group in the foreground, so that is the leader's own by then.
    """
    with contextlib.suppress(OSError):
        os.tcsetpgrp(0, os.getpgrp())
    with contextlib.suppress(OSError):
        fcntl.ioctl(0, termios.TIOCNOTTY)
    os._exit(0)


def _end_all(leading: Leading) -> NoReturn:
    """In the leader: end what is below it but what outlives the supervisor, then this process."""
    leader = os.getpid()
    once_begun(leader)
    end_tree(
        leader,
        spare=lambda now: outliving(now, leader, leading.outlives, leading.statuses),
    )
    _let_go()


def _ended_child(how: int) -> int | None:
    """Return a child that has ended, not yet reaped; 0 if `how` forbids to wait, None for none."""
    while True:
        try:
            child = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | how)
        except InterruptedError:
            continue
        except OSError as error:
            if error.errno != errno.ECHILD:
                os._exit(1)
            return None
        return child.si_pid if child is not None else 0


def _note(path: str, child: os.waitid_result | None) -> None:
    """Write a shell's view of how `child` ended to `path`, whole or not at all."""
    if child is None:
        return
    code = child.si_status + (0 if child.si_code == os.CLD_EXITED else 128)
    with contextlib.suppress(OSError):
        file = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.write(file, b"%d\n" % code)
        os.close(file)
        os.rename(f"{path}.new", path)  # noqa: PTH104 - pathlib is not worth loading here


def _stand_by(channel: socket.socket, report: int, leading: Leading) -> NoReturn:
    """In the session leader: fork the shell-to-be, then lead. Never returns."""
    try:
        _become_leader(leading)
        leader = os.getpid()
        set_output_processing(0, on=False)
        shell = os.fork()
        if shell:
            _lead(shell, report, leading)
        _end_with(leader, signal.SIGKILL)
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        set_signals(signal.SIG_DFL)  # a shell hands ignored ones on to its children
        close_all_but(0, 1, 2, channel.fileno())
        _execute_when_ordered(channel)
    finally:
        os._exit(CANNOT_START)


def _execute_when_ordered(channel: socket.socket) -> None:
    """Become the shell of the next message.

    Before it there may be one with descriptors: `numbers` are what they are to be here,
    `terminals` those that are to be the terminal.
    """
    try:
        received = receive_message(channel)
        if received is not None and "numbers" in received[0]:
            what, fds = received
            above = max((*what["numbers"], *what["terminals"])) + 1
            channel = _move_up(channel, above)
            _renumber(fds, what["numbers"], above)
            for number in what["terminals"]:
                os.dup2(0, number)
            received = receive_message(channel)
        if received is None:
            return
        end_with_parent(0)  # a shell may outlive its leader, as in any terminal
        _become_shell(received[0])
    except (OSError, ValueError) as error:
        channel.sendall(str(error).encode("utf-8", "replace")[:_LONGEST_ERROR])


def _become_shell(what: dict[str, Any]) -> None:
    """Execute `argv` with `env` in `cwd`.

    `real` is what `cwd` must be without links: what it was when the command was judged.
    """
    os.chdir(what["cwd"])
    if what["real"] not in (None, os.getcwd()):  # noqa: PTH109 - pathlib loads slowly
        raise OSError(errno.ESTALE, "the folder is another one now", what["cwd"])
    os.execve(what["argv"][0], what["argv"], what["env"])
