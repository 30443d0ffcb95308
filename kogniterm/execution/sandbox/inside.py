"""The first process in a sandbox: confines itself, takes the terminal for the shell, stays.

Run as a file by a bare interpreter: `inside.py ROOT [NAME=VALUE …] -- ARGV`. The names say how it
confines itself and everything that it starts (`Confinement`). Its first process waits only for
the shell, so that the wrapper ends with it; the second is the session leader, which outlives the
shell because the kernel hangs up a session whose leader is gone.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import sys
import termios

# Set here and not imported: this runs before every sandboxed command.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

_PR_SET_CHILD_SUBREAPER = 36
_IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGTTOU)
_CLOSED_DEVICES = ("/dev/pts", "/dev/input")
"""Other terminals and keyboards: reading them would take what the user types elsewhere."""


_LEFT = 96
"""Memory of the executor for the status of what the shell leaves running (`shell_files`)."""


class Confinement:
    """Instructions for confining the command, one list of values a name.

    `family`: sockets that may be opened. `foreign`: the machine's processes can be seen.
    `landlock`: Landlock keeps the files; `write`, `close`, `hide` and `show` are then the folders
    that may be written, may not all the same, may not be read, and may be all the same, and `home`
    is the user's home. `private` are folders for temporary files; without `landlock` it keeps all
    others from being written, where the kernel can. `steady`: no file may get another mode, owner,
    time or attribute, which Landlock itself does not refuse.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._values: dict[str, list[str]] = {}
        for word in words:
            name, _, value = word.partition("=")
            self._values.setdefault(name, []).append(value)

    def __getitem__(self, name: str) -> list[str]:
        return self._values.get(name, [])


def main(arguments: list[str]) -> NoReturn:
    """Start the shell and end as it ended."""
    end = arguments.index("--")
    root, *words = arguments[:end]
    sys.path.append(root)
    confine(Confinement(words))
    reader, writer = os.pipe()
    if os.fork():
        os.close(writer)
        _end_like(os.read(reader, 16))
    os.close(reader)
    _lead(arguments[end + 1 :], writer)


def confine(how: Confinement) -> None:
    """Confine this process for good; raises OSError when the kernel refuses a part of it."""
    from kogniterm.execution.sandbox import kernel_rules

    if how["landlock"]:
        kernel_rules.drop_privileges()
    if how["landlock"] or (how["private"] and kernel_rules.available()):
        kernel_rules.confine(_writable(how), _readable(how))
    scoped = kernel_rules.scope()
    foreign = bool(how["foreign"])
    # Commands that only look at processes need no signals; others cannot work without.
    refused = kernel_rules.SIGNALS if foreign and not how["landlock"] and not scoped else ()
    families = [int(number) for number in how["family"]]
    steady = bool(how["steady"])
    kernel_rules.load(families, refused=refused, foreign=foreign, steady=steady)


def _writable(how: Confinement) -> list[str]:
    from kogniterm.execution.sandbox.kernel_rules import DEVICES
    from kogniterm.execution.sandbox.reach import writable_parts

    parts = [
        part for root in how["write"] for part in writable_parts(root, how["close"], how["home"][0])
    ]
    own = [os.ttyname(0)] if os.isatty(0) else []
    return [*parts, *how["private"], *DEVICES, *own]


def _readable(how: Confinement) -> list[str]:
    from kogniterm.execution.sandbox.reach import readable_parts

    return [*readable_parts("/", (*how["hide"], *_CLOSED_DEVICES)), *how["show"]]


def _lead(argv: list[str], report: int) -> NoReturn:
    """Lead the session: start the shell, report its status, wait for what it left."""
    os.setsid()
    terminal = _take_terminal()
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    noted = _LEFT
    try:
        os.set_inheritable(noted, False)
    except OSError:
        noted = -1
    shell = os.fork()
    if shell == 0:
        os.setpgid(0, 0)
        if terminal:
            signal.signal(signal.SIGTTOU, signal.SIG_IGN)
            os.tcsetpgrp(0, os.getpid())
        # An interpreter ignores some of these, and a shell would take that for traps of the user.
        for number in (signal.SIGTTOU, signal.SIGPIPE, signal.SIGINT, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.execvp(argv[0], argv)
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    left: int | None = None
    while True:
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            os._exit(0)
        if shell == 0 and not left and noted >= 0:
            left = status  # 0 stands only where all end with it
            os.pwrite(noted, str(left).encode("ascii"), 0)
        elif pid == shell:
            shell = 0
            os.write(report, str(status).encode("ascii"))
            os.close(report)
            # The terminal's master must see its end when no other process holds it.
            os.dup2(os.open(os.devnull, os.O_RDWR), 1)
            os.dup2(1, 2)


def _take_terminal() -> bool:
    """Make standard input the session's terminal; False when it is none or somebody else's."""
    if not os.isatty(0):
        return False
    try:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    except OSError:
        return False
    return True


def _end_like(status: bytes) -> NoReturn:
    """Exit with the shell's code, or 128 and the signal's number as shells do."""
    raw = int(status or b"256")
    code = os.waitstatus_to_exitcode(raw)
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main(sys.argv[1:])
