"""The parent of a program without a terminal: it ends the program's tree, whatever happens.

It is two processes, of which each ends all when the other one is killed.

Run as a file by a bare interpreter: `program_guard.py ROOT LIFELINE VIEW -- ARGV`. LIFELINE is the
number of a pipe that KogniTerm holds open. When it closes (KogniTerm let go, or was killed), or
when the program has ended, everything that the program started is ended too. VIEW is that of a file
with the view of the sandbox that the guard builds for the program, or -1.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys

# Set here and not imported: this runs before every such program.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from kogniterm.execution.sandbox.namespaces import BuiltSandbox

NOT_STARTED = 127


def main(arguments: list[str]) -> NoReturn:
    """Start the program and end as it ended."""
    root, lifeline, view, _, *argv = arguments
    sys.path.append(root)
    from kogniterm.execution.sandbox.namespaces import build
    from kogniterm.host.kernel_calls import become_subreaper, end_with_parent
    from kogniterm.host.processes import end_tree

    become_subreaper()
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    outer = os.getpid()
    if guard := os.fork():
        os.closerange(0, 3)
        _, end = os.waitpid(guard, 0)
        end_tree(os.getpid())
        os._exit(_exit_code(end))
    become_subreaper()
    end_with_parent(signal.SIGCHLD)
    os.set_inheritable(int(lifeline), False)
    ended, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    sandbox = None
    if int(view) < 0:
        program = os.fork()
        if program == 0:
            _become(argv)
    else:
        with open(int(view), encoding="utf-8") as file:  # noqa: PTH123 - no pathlib here
            wanted = json.load(file)
        try:
            folder = os.getcwd()  # noqa: PTH109 - as above
            built = sandbox = build(wanted)
            program, _ = built.fork(tuple, lambda: _become(argv, folder, built, wanted["rules"]))
        except OSError as error:
            os.write(2, f"The sandbox could not start: {error}\n".encode())
            os._exit(NOT_STARTED)
    for standard in (0, 1):
        os.close(standard)
    status = _wait(program, int(lifeline), ended, outer)
    end_tree(os.getpid(), spare=lambda _: sandbox.children if sandbox else set())
    if sandbox is not None:
        sandbox.close()
    os._exit(NOT_STARTED if status is None else _exit_code(status))


def _become(
    argv: list[str], folder: str = ".", built: BuiltSandbox | None = None, rules: Any = None
) -> NoReturn:
    from kogniterm.execution.sandbox.kernel_rules import confine, ruleset_of
    from kogniterm.host.kernel_calls import set_signals

    try:
        set_signals(signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.chdir(folder)
        if built is not None:
            confine(rules, built.broker, ruleset_of(rules))
        os.execvp(argv[0], argv)
    except OSError as error:
        os.write(2, f"{error.filename or argv[0]}: {os.strerror(error.errno or 0)}\n".encode())
    finally:
        os._exit(NOT_STARTED)


def _wait(program: int, lifeline: int, ended: int, outer: int) -> int | None:
    """Wait until the program ends, or KogniTerm lets go; return its status, None if it runs on.

    It is let go, too, when the process `outer` has been killed.
    """
    while True:
        ready, _, _ = select.select([lifeline, ended], [], [])
        if ended in ready:  # read first: what ends after the last look must be told again
            os.read(ended, 1 << 12)
        while (found := _collect_child()) is not None:
            pid, status = found
            if pid == program:
                return status
        if lifeline in ready or os.getppid() != outer:
            return None


def _collect_child() -> tuple[int, int] | None:
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, status) if pid else None


def _exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    main(sys.argv[1:])
