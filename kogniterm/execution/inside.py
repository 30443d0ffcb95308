"""Inside a sandbox: takes the terminal for the shell and stays until its background jobs end.

Run as a file by a bare interpreter: `inside.py ROOT [net|no-net FOLDER …] -- ARGV`. With
folders it first confines itself to them (Landlock). The first process waits only for the
shell, so that the wrapper ends with it; the second is the session leader, which outlives the
shell because the kernel hangs up a session whose leader is gone.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import sys
import termios
from typing import NoReturn

_PR_SET_CHILD_SUBREAPER = 36
_IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGTTOU)


def main(arguments: list[str]) -> NoReturn:
    """Start the shell and end as it ended."""
    end = arguments.index("--")
    root, *confinement = arguments[:end]
    if confinement:
        sys.path.append(root)
        from kogniterm.execution.landlock import restrict

        restrict(confinement[1:], network=confinement[0] == "net")
    reader, writer = os.pipe()
    if os.fork():
        os.close(writer)
        _end_like(os.read(reader, 16))
    os.close(reader)
    _lead(arguments[end + 1 :], writer)


def _lead(argv: list[str], report: int) -> NoReturn:
    """The session leader: starts the shell, reports its status, waits for what it left."""
    os.setsid()
    if os.isatty(0):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    shell = os.fork()
    if shell == 0:
        os.setpgid(0, 0)
        if os.isatty(0):
            signal.signal(signal.SIGTTOU, signal.SIG_IGN)
            os.tcsetpgrp(0, os.getpid())
        for number in (signal.SIGTTOU, signal.SIGPIPE, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        os.execvp(argv[0], argv)
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    while True:
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            os._exit(0)
        if pid == shell:
            os.write(report, str(status).encode("ascii"))
            os.close(report)
            # The terminal's master must see its end when nobody else holds it.
            os.dup2(os.open(os.devnull, os.O_RDWR), 1)
            os.dup2(1, 2)


def _end_like(status: bytes) -> NoReturn:
    """Exit with the shell's code, or 128 and the signal's number as shells do."""
    raw = int(status or b"256")
    code = os.waitstatus_to_exitcode(raw)
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main(sys.argv[1:])
