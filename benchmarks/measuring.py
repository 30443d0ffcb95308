"""Run programs and measure what they use: CPU time of the whole tree, memory, and wall time.

CPU time (user and system) counts every descendant, also those that outlive the program for a
moment: this process adopts them. It varies far less than wall time on a busy machine; even so it
rises with the load, so that only ratios of runs that alternate mean something.
"""

from __future__ import annotations

import contextlib
import ctypes
import datetime
import json
import os
import pty
import select
import signal
import statistics
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable
FIGURES = ROOT / "benchmarks" / "results" / "figures.json"
"""The figures that pages quote, by the command that measured them."""
PATIENCE = 120.0
"""Seconds without output after which a program is given up."""
_SUBREAPER = 36
_POLL = 0.002
_ENDED = os.WEXITED | os.WNOHANG | os.WNOWAIT
_REPLIES = {
    b"\x1b[6n": b"\x1b[1;1R",
    b"\x1b[c": b"\x1b[?62;22c",
    b"\x1b[?1007$p": b"\x1b[?1007;2$y",
    b"\x1b]10;?": b"\x1b]10;rgb:ffff/ffff/ffff\x1b\\",
    b"\x1b]11;?": b"\x1b]11;rgb:0000/0000/0000\x1b\\",
}
"""Replies of a terminal to questions of programs: cursor, kind, wheel mode, and colours."""


@dataclass(frozen=True, slots=True)
class Usage:
    """One run: seconds of wall and CPU time, peak resident memory of the program in MB.

    `marks` are the seconds (wall, CPU of the tree) at which a text that was waited for came;
    `lines` are those of the output, with the time at which each came.
    """

    wall: float
    cpu: float
    peak: float
    lines: tuple[tuple[float, str], ...] = ()
    marks: tuple[tuple[float, float], ...] = ()
    share: float = 0.0
    """Proportional share (PSS) of all processes in MB, at the last mark."""


def become_subreaper(adopts: int = 1) -> None:
    """Adopt what outlives its parents below this process, so that its CPU time is counted.

    With 0, what is started from now on and serves later calls too is not taken for a part of one.
    """
    ctypes.CDLL(None).prctl(_SUBREAPER, adopts, 0, 0, 0)


def run(argv: Sequence[str], environ: Mapping[str, str], *, cwd: Path | None = None) -> Usage:
    """Run `argv` to its end; raises SystemExit with its messages if it fails."""
    began = time.perf_counter()
    with subprocess.Popen(
        argv, env=environ, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        lines, errors = _both(process)
        status, cpu, peak = _reap(process.pid)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.perf_counter() - began
    if process.returncode:
        raise SystemExit(f"{' '.join(argv)[:300]} failed ({process.returncode}):\n{errors[-3000:]}")
    return Usage(wall, cpu + _orphans(), peak, tuple(lines))


def quiet(
    argv: Sequence[str],
    environ: Mapping[str, str],
    *,
    cwd: Path | None = None,
    warm: Sequence[int] = (),
) -> Usage:
    """Run `argv` like `run`, with its output thrown away: nobody reads it.

    With the processes of a `warm` server, its CPU time is also what runs for it below them. The
    kernel keeps no account of what ends there, so that is looked at while `argv` runs, every few
    milliseconds: what it does last is missing. Raises SystemExit for a start that was not warm.
    """
    null, before, most = subprocess.DEVNULL, _cpu_of(warm), 0.0
    began = time.perf_counter()
    with subprocess.Popen(
        argv, env=environ, cwd=cwd, stdin=null, stdout=null, stderr=null
    ) as process:
        served = not warm
        while warm and not os.waitid(os.P_PID, process.pid, _ENDED):
            served |= has_session(warm)
            most = max(most, _cpu_of(warm) - before)
            time.sleep(_POLL)
        status, cpu, peak = _reap(process.pid)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.perf_counter() - began
    if process.returncode or not served:
        why = process.returncode or "no warm session"
        raise SystemExit(f"{' '.join(argv)[:300]} failed ({why})")
    return Usage(wall, cpu + most + _orphans(), peak)


def _cpu_of(processes: Sequence[int]) -> float:
    return sum(map(tree_cpu, processes))


def has_session(warm: Sequence[int]) -> bool:
    """Return whether a process of a warm server has another below it."""
    return any(len(list(tree(pid))) > 1 for pid in warm)


def await_sessions(warm: Sequence[int]) -> None:
    """Wait until no session of an earlier start is left: its CPU time would be taken off."""
    until = time.monotonic() + PATIENCE
    while has_session(warm) and time.monotonic() < until:
        time.sleep(_POLL)


def _both(process: subprocess.Popen[bytes]) -> tuple[list[tuple[float, str]], str]:
    """Return the lines that the process writes, with their times, and its messages."""
    assert process.stdout is not None
    assert process.stderr is not None
    out, err = process.stdout.fileno(), process.stderr.fileno()
    lines: list[tuple[float, str]] = []
    begun, messages = b"", b""
    poll = select.poll()
    waiting = {out, err}
    for fd in waiting:
        poll.register(fd, select.POLLIN)
    while waiting:
        for fd, _ in poll.poll():
            data = os.read(fd, 1 << 16)
            if not data:
                poll.unregister(fd)
                waiting.discard(fd)
            elif fd == err:
                messages += data
            else:
                *whole, begun = (begun + data).split(b"\n")
                now = time.perf_counter()
                lines += [(now, line.decode("utf-8", "replace")) for line in whole]
    return lines, messages.decode("utf-8", "replace")


def _reap(pid: int) -> tuple[int, float, float]:
    _, status, used = os.wait4(pid, 0)
    return status, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def _orphans() -> float:
    """Wait for what was adopted to end; return its CPU time in seconds."""
    total, deadline = 0.0, time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            pid, _, used = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if pid:
            total += used.ru_utime + used.ru_stime
        else:
            time.sleep(_POLL)
    return total


@dataclass(frozen=True, slots=True)
class Mark:
    """Text to wait for on a terminal, and keys to type then."""

    text: str
    keys: str = ""


def on_terminal(
    argv: Sequence[str],
    environ: Mapping[str, str],
    marks: Sequence[Mark],
    *,
    typed: str = "",
    cwd: Path | None = None,
    settle: float = 0.0,
    servers: Sequence[int] = (),
    warm: bool = False,
) -> Usage:
    """Run `argv` in a terminal until the last mark has come, then end it.

    `typed` is typed at once. `settle` is how long to wait before memory is read, in seconds; that
    is also the memory of the trees of `servers`, one of which a `warm` start has its session from.
    """
    began = time.perf_counter()
    pid, terminal = _started(argv, environ, cwd)
    times: list[tuple[float, float]] = []
    try:
        reader = _Reader(terminal)
        for _mark in reader.reach(marks, argv, typed):
            times.append((time.perf_counter() - began, tree_cpu(pid)))
        if warm and not has_session(servers):
            raise SystemExit(f"{argv[0]} did not start warm")
        reader.idle(settle)
        share, peak = sum(map(tree_share, (pid, *servers))), _peak(pid)
    finally:
        end_tree(pid)
        os.close(terminal)
    wall, cpu = times[-1]
    return Usage(wall, cpu, peak, marks=tuple(times), share=share)


def _started(argv: Sequence[str], environ: Mapping[str, str], cwd: Path | None) -> tuple[int, int]:
    """Start a program in a terminal of its own; return its process and the terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        with contextlib.suppress(OSError):
            mode = termios.tcgetattr(0)
            mode[3] &= ~termios.ECHO  # only the program shows what is typed
            termios.tcsetattr(0, termios.TCSANOW, mode)
            termios.tcsetwinsize(0, (40, 120))
            if cwd is not None:
                os.chdir(cwd)
            os.execvpe(argv[0], list(argv), dict(environ))
        os._exit(127)
    return pid, terminal


@dataclass(slots=True)
class _Reader:
    terminal: int
    seen: bytes = b""
    tail: bytes = field(default=b"", init=False)

    def reach(self, marks: Sequence[Mark], argv: Sequence[str], typed: str) -> Iterator[Mark]:
        """Type `typed` at once; yield each mark when its text has come, then type its keys."""
        os.write(self.terminal, typed.encode())
        for mark in marks:
            self.wait_for(mark.text, argv)
            yield mark
            os.write(self.terminal, mark.keys.encode())

    def wait_for(self, text: str, argv: Sequence[str]) -> None:
        """Read until `text` has come; what came before it is no longer looked at."""
        wanted = text.encode()
        while wanted not in self.seen:
            if not self._read(PATIENCE):
                shown = self.seen[-3000:].decode("utf-8", "replace")
                raise SystemExit(f"{argv[0]} did not show {text!r}:\n{shown}")
        self.seen = self.seen.partition(wanted)[2]

    def idle(self, seconds: float) -> None:
        """Go on reading for some seconds."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._read(left)

    def _read(self, patience: float) -> bool:
        ready, _, _ = select.select([self.terminal], [], [], patience)
        if not ready:
            return False
        try:
            piece = os.read(self.terminal, 1 << 16)
        except OSError:
            return False
        for asked, reply in _REPLIES.items():
            if asked in piece:
                os.write(self.terminal, reply)
        self.seen = (self.seen + piece)[-(1 << 20) :]
        return bool(piece)


def end_tree(pid: int) -> None:
    """End a process with all below it, and whatever this process has adopted."""
    for one in reversed(list(tree(pid))):
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)
    for one in tree(os.getpid()):
        if one != os.getpid():
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
    _orphans()


def tree(pid: int) -> Iterator[int]:
    """Yield a process and all below it."""
    yield pid
    for task in _tasks(pid):
        with contextlib.suppress(OSError):
            for child in (task / "children").read_text().split():
                yield from tree(int(child))


def _tasks(pid: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return []


def tree_cpu(pid: int) -> float:
    """Return the CPU time of the tree so far in seconds, to the nanosecond for what still runs."""
    total = 0.0
    for one in tree(pid):
        with contextlib.suppress(OSError, IndexError, ValueError):
            total += time.clock_gettime(~one << 3 | 2)  # the clock of that process
            total += _waited_cpu(one)
    return total


def servers_of(home: Path) -> tuple[int, ...]:
    """Return the processes that were started with this home, without those below them."""
    mark, found = f"\0HOME={home}\0".encode(), dict[int, int]()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            if mark in b"\0" + (folder / "environ").read_bytes():
                found[int(folder.name)] = int(_stat(folder.name)[1])
    return tuple(pid for pid, parent in found.items() if parent not in found)


def _waited_cpu(pid: int) -> float:
    """Return the CPU time in seconds of what ended below a process."""
    fields = _stat(pid)
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


def _stat(pid: int | str) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def tree_share(pid: int) -> float:
    """Return the proportional share (PSS) of the tree in MB."""
    total = 0
    for one in tree(pid):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{one}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1])
    return total / 1024


def _peak(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0.0


def by_turns(runs: int, *measures: Callable[[], Usage]) -> list[list[Usage]]:
    """Run the measures in turn, `runs` times; return the results of each."""
    results: list[list[Usage]] = [[] for _ in measures]
    for _ in range(runs):
        for found, measure in zip(results, measures, strict=True):
            found.append(measure())
    return results


def middle(values: Sequence[float]) -> float:
    """Return the median."""
    return statistics.median(values)


def home(folder: Path, *, warm: bool = False) -> dict[str, str]:
    """Return an environment with folders of its own below `folder`."""
    runtime = folder / "run"
    runtime.mkdir(mode=0o700, exist_ok=True)
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "TERM": "xterm-256color",
               "LANG": "C.UTF-8", "XDG_RUNTIME_DIR": str(runtime)}  # fmt: skip
    for kind in ("CONFIG", "DATA", "CACHE"):
        environ[f"KOGNITERM_{kind}_DIR"] = str(folder / kind.lower())
    if not warm:
        environ["KOGNITERM_WARM"] = "off"
    return environ


def program(checkout: Path | None = None) -> list[str]:
    """Return the words that start KogniTerm; `checkout` is one to measure instead of this one."""
    if checkout is None:
        return [str(Path(sys.executable).with_name("kogniterm"))]
    code = f"import sys; sys.path.insert(0, {str(checkout)!r}); sys.argv[0] = 'kogniterm'; "
    return [PYTHON, "-c", f"{code}from kogniterm.__main__ import main; sys.exit(main())"]


def store_figures(command: str, values: Mapping[str, float]) -> None:
    """Store what `command` measured today, for the pages that quote it."""
    kept = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    rounded = {name: round(value, 3) for name, value in values.items()}
    kept[command] = {"date": today, "values": rounded}
    FIGURES.write_text(json.dumps(kept, indent=2, sort_keys=True) + "\n")
