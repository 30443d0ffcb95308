"""The rows of `make bench`: each measures KogniTerm and its floors in turn, in one run.

A row is one figure of KogniTerm, in a unit, and the same figure of one or more floors.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks import floors
from benchmarks import memory as memory_rows
from benchmarks.measuring import (
    PYTHON,
    ROOT,
    Mark,
    Usage,
    by_turns,
    cpu_below,
    home,
    middle,
    on_terminal,
    program,
    quiet,
    run,
    seconds_to,
    tree_share,
)
from kogniterm.host.identity import account_name
from kogniterm.memory import open_memory

LINE = "x" * 99
SESSIONS = 2000
FACTS = 100_000
TURNS = (10, 1000, 10_000)
USED_SESSIONS, USED_FACTS = 300, 1000
LOGINS: Mapping[str, Mapping[str, str]] = {
    "desktop": {"DISPLAY": ":0"},
    "container": {"HOSTNAME": "container"},
    "SSH": {"SSH_CONNECTION": "127.0.0.1 50000 127.0.0.1 22", "SSH_TTY": "/dev/pts/0"},
}
"""Variables of a login; only a desktop has a runtime folder."""
KEYS = (Mark("›", "zq"), Mark("zq"))
"""A prompt takes keys when it shows what was typed."""
ANSWER = "Hello from the model"


@dataclass(frozen=True, slots=True)
class Row:
    """A figure of KogniTerm and of its floors; `goal` is what it should be, in words."""

    name: str
    unit: str
    ours: float
    floors: Mapping[str, float] = field(default_factory=dict)
    goal: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """A temporary folder with its environment, and what starts KogniTerm there."""

    folder: Path
    environ: Mapping[str, str]
    kogniterm: Sequence[str]

    def run(self, script: str, *options: str) -> list[str]:
        """Return the words of a one-shot task with a scripted model."""
        words = ["run", "--no-sandbox", "--mode", "auto", "--model", f"scripted:{script}"]
        return [*self.kogniterm, *words, *options, "go"]

    def prompt(self, script: str) -> list[str]:
        """Return the words of an interactive prompt with a scripted model."""
        return [*self.kogniterm, "--no-sandbox", "--mode", "auto", "--model", f"scripted:{script}"]

    def script(self, name: str, replies: Sequence[Mapping[str, object]]) -> str:
        """Write a script for a model and return its path."""
        file = self.folder / f"{name}.json"
        file.write_text(json.dumps({"replies": list(replies)}))
        return str(file)

    def steps(self, count: int) -> str:
        """Write a script of `count` commands that do nothing, and an answer."""
        replies = [{"run": f"true # {n}"} for n in range(count)]
        return self.script(f"steps-{count}", [*replies, {"text": "done"}])


@contextmanager
def place(checkout: Path | None = None) -> Iterator[Place]:
    """Yield a place that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="kogniterm-bench-", dir="/var/tmp") as name:
        folder = Path(name)
        yield Place(folder, home(folder), program(checkout))


def python(code: str, *arguments: str) -> list[str]:
    """Return the words that run `code` in an interpreter."""
    return [PYTHON, "-c", code, *arguments]


def both(
    name: str, results: Sequence[Sequence[Usage]], names: Sequence[str], *, goal: str = ""
) -> list[Row]:
    """Return a row of wall times and one of CPU times; the first results are KogniTerm's."""
    rows = []
    for unit, value in (("s", lambda u: u.wall), ("s CPU", lambda u: u.cpu)):
        figures = [middle([value(one) for one in found]) for found in results]
        rows.append(Row(name, unit, figures[0], dict(zip(names, figures[1:], strict=True)),
                        goal if unit == "s" else ""))  # fmt: skip
    return rows


# --- start ------------------------------------------------------------------------------------


def start(at: Place, runs: int) -> list[Row]:
    """Measure `--version`, the prompt, the first answer and the first request."""
    hello = at.script("hello", [{"text": ANSWER, "repeat": "forever"}])
    bare = partial(quiet, python("pass"), at.environ)
    version = by_turns(max(runs, 5), partial(quiet, [*at.kogniterm, "--version"], at.environ), bare)
    terminal = partial(on_terminal, environ=at.environ, cwd=at.folder)
    prompt = by_turns(
        runs,
        partial(terminal, at.prompt(hello), marks=KEYS),
        partial(terminal, python(floors.PROMPT), marks=[Mark("floor>", "zq"), Mark("zq")]),
    )
    answer = by_turns(
        runs,
        partial(terminal, at.prompt(hello), marks=[Mark(ANSWER)], typed="hi\r", settle=2.0),
        partial(terminal, python(floors.PROMPT_AND_LOOP), marks=[Mark(ANSWER)], typed="hi\r"),
    )
    first = [Mark('"model_called"')]
    one_shot = by_turns(
        runs,
        partial(terminal, at.run(hello, "--output", "stream-json"), marks=first),
        partial(terminal, python(floors.LOOP, "0"), marks=first),
    )
    idle = [middle([one.share for one in found]) for found in answer]
    idle_prompt = middle([one.share for one in prompt[1]])
    return [
        *both("--version", version, ["bare interpreter"], goal="0.02"),
        *both("prompt takes keys", prompt, ["bare prompt_toolkit"], goal="0.15"),
        *both("first answer, typed at once", answer, ["prompt_toolkit and LangGraph loop"],
              goal="0.6"),
        *both("one-shot, to the first model request", one_shot, ["LangGraph loop"], goal="0.35"),
        Row("idle memory after an answer (PSS of the tree)", "MB", idle[0],
            {"bare prompt_toolkit": idle_prompt, "prompt_toolkit and LangGraph loop": idle[1]},
            "80"),
    ]  # fmt: skip


def warm_start(at: Place, runs: int) -> list[Row]:
    """Measure calls that find a warm process, beside plain ones."""
    hello = at.script("hello", [{"text": ANSWER, "repeat": "forever"}])
    warm = home(at.folder, warm=True)
    finish = partial(subprocess.run, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    finish(at.run(hello), env=warm)
    if not _serves(at.folder):
        return []  # warm starts are not available here
    sockets = Path(warm["XDG_RUNTIME_DIR"], "kogniterm")
    server = int(next(sockets.glob("*.lock")).read_text())
    first, twenty = at.run(hello, "--output", "stream-json"), at.run(at.steps(20))
    calls: Sequence[tuple[str, str, Callable[[Mapping[str, str]], float]]] = (
        ("prompt takes keys, warm", "0.15",
         lambda environ: seconds_to(at.prompt(hello), environ, KEYS, cwd=at.folder)),
        ("first answer, typed at once, warm", "0.6",
         lambda environ: seconds_to(at.prompt(hello), environ, [Mark(ANSWER)], typed="hi\r",
                                    cwd=at.folder)),
        ("one-shot, to the first model request, warm", "0.35",
         lambda environ: seconds_to(first, environ, [Mark('"model_called"')], cwd=at.folder)),
        ("one-shot, whole, warm", "",
         lambda environ: _seconds(partial(finish, at.run(hello), env=environ))),
        ("20 steps, one-shot, whole, warm", "",
         lambda environ: _seconds(partial(finish, twenty, env=environ))),
    )  # fmt: skip
    try:
        found = [_warm_row(at, runs, warm, *call) for call in calls]
        idle = Row("warm server, idle, memory (PSS)", "MB", tree_share(server), goal="60")
        return [*found, _warm_cpu(at, runs, warm, server, twenty), idle]
    finally:
        finish([*at.kogniterm, "warm", "stop"], env=warm)


def _warm_row(
    at: Place,
    runs: int,
    warm: Mapping[str, str],
    name: str,
    goal: str,
    call: Callable[[Mapping[str, str]], float],
) -> Row:
    found: list[list[float]] = [[], [], []]
    bare = partial(subprocess.run, python("pass"), env=at.environ, check=True)
    for _ in range(runs):
        found[0].append(call(warm))
        found[1].append(call(at.environ))
        found[2].append(_seconds(bare))
    ours, plain, floor = map(middle, found)
    return Row(name, "s", ours, {"plain": plain, "bare interpreter": floor}, goal)


def _warm_cpu(
    at: Place, runs: int, warm: Mapping[str, str], server: int, argv: Sequence[str]
) -> Row:
    """Measure the CPU time of 20 steps: that of the client, and of all below the warm server."""
    loop_argv = python(floors.LOOP, "20")
    ours, plain, loop = by_turns(
        runs,
        partial(cpu_below, server, argv, warm),
        partial(quiet, argv, at.environ, alone=True),
        partial(quiet, loop_argv, at.environ, alone=True),
    )
    figures = [middle([one.cpu for one in found]) for found in (ours, plain, loop)]
    floor = dict(zip(("plain", "LangGraph loop"), figures[1:], strict=True))
    return Row("20 steps, one-shot, warm", "s CPU", figures[0], floor, "1.0")


def _serves(folder: Path) -> bool:
    """Wait for a warm server below `folder`; return whether there is one."""
    until = time.monotonic() + 60
    while not any(map(_listens, folder.rglob("*.sock"))):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def _listens(path: Path) -> bool:
    """Return whether a server has loaded and listens at a socket, whose path may be long."""
    opened = os.open(path.parent, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as tried:
            return tried.connect_ex(f"/proc/self/fd/{opened}/{path.name}") == 0
    finally:
        os.close(opened)


def homes(at: Place, runs: int) -> list[Row]:
    """Measure a warm and a plain one-shot in a fresh and a used home, as each login starts it."""
    hello = at.script("hello", [{"text": ANSWER, "repeat": "forever"}])
    words, found = at.run(hello, "--output", "stream-json"), []
    for kind, (login, variables) in itertools.product(("fresh", "used"), LOGINS.items()):
        folder = at.folder / f"{kind} {login}"
        folder.mkdir()
        warm = {**home(folder, warm=True), **variables}
        if login != "desktop":
            del warm["XDG_RUNTIME_DIR"]
        if kind == "used":
            _use(Path(warm["KOGNITERM_DATA_DIR"]))
        subprocess.run(words, env=warm, stdin=subprocess.DEVNULL, capture_output=True, check=True)
        if not _serves(folder):
            continue
        try:
            name = f"one-shot, to the first model request, {kind} home, {login}, warm"
            first = partial(seconds_to, words, marks=[Mark('"model_called"')], cwd=folder)
            times = [(first(warm), first({**warm, "KOGNITERM_WARM": "off"})) for _ in range(runs)]
            ours, plain = map(middle, zip(*times, strict=True))
            found.append(Row(name, "s", ours, {"plain": plain}))
        finally:
            subprocess.run(
                [*at.kogniterm, "warm", "stop"], env=warm, capture_output=True, check=True
            )
    return found


def _use(data: Path) -> None:
    """Fill a data folder with the sessions and facts of a user of some months."""
    data.mkdir()
    file = str(data / "kogniterm.db")
    words = [PYTHON, "-m", "benchmarks.sessions", "--make", str(USED_SESSIONS), file]
    subprocess.run(words, cwd=ROOT, check=True)
    with open_memory(file, user=account_name()) as memory:
        for text in memory_rows.many(memory_rows.read_set(memory_rows.SET)[0], USED_FACTS):
            memory.add(text, scope="everywhere")


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


# --- steps ------------------------------------------------------------------------------------


def steps(at: Place, runs: int) -> list[Row]:
    """Measure the cost of steps: 20 in a one-shot, and the first and the last of 100."""
    ours, loop, shell = by_turns(
        runs,
        partial(quiet, at.run(at.steps(20)), at.environ, cwd=at.folder),
        partial(quiet, python(floors.LOOP, "20"), at.environ),
        partial(quiet, ["bash", "-c", floors.SHELL_STEPS.format(steps=20)], at.environ),
    )
    peaks = [middle([one.peak for one in found]) for found in (ours, loop)]
    names = ["LangGraph loop", "bash"]
    return [
        *_with_goal(both("20 steps, one-shot", [ours, loop, shell], names), "s CPU", "1.0"),
        Row("20 steps, peak memory", "MB", peaks[0], {"LangGraph loop": peaks[1]}, "110"),
        *_hundred(at, max(1, runs - 1)),
    ]


def _with_goal(rows: Sequence[Row], unit: str, goal: str) -> list[Row]:
    return [
        Row(row.name, row.unit, row.ours, row.floors, goal if row.unit == unit else "")
        for row in rows
    ]


def _hundred(at: Place, runs: int) -> list[Row]:
    few, many = at.steps(10), at.steps(100)
    found: dict[str, list[float]] = {}
    for _ in range(runs):
        timed, flat = (
            run(at.run(many, "--output", "stream-json"), at.environ, cwd=at.folder),
            quiet(at.run(few), at.environ, cwd=at.folder),
        )
        base = run(python(floors.LOOP, "100"), at.environ)
        base_few = quiet(python(floors.LOOP, "10"), at.environ)
        own, bare = _times(timed), json.loads(base.lines[-1][1])
        figures = {
            "first": middle(own[:10]), "last": middle(own[-10:]),
            "floor first": middle(bare[:10]), "floor last": middle(bare[-10:]),
            "cpu": (timed.cpu - flat.cpu) / 90, "floor cpu": (base.cpu - base_few.cpu) / 90,
        }  # fmt: skip
        for name, value in figures.items():
            found.setdefault(name, []).append(value)
    mid = {name: middle(values) * 1000 for name, values in found.items()}
    loop = "LangGraph loop"
    return [
        Row("a step, first ten of 100", "ms", mid["first"], {loop: mid["floor first"]}, "12"),
        Row("a step, last ten of 100", "ms", mid["last"], {loop: mid["floor last"]}, "12, flat"),
        Row("a step, mean of 90", "ms CPU", mid["cpu"], {loop: mid["floor cpu"]}),
    ]


def _times(timed: Usage) -> list[float]:
    """Return the seconds from each call of the model to the next."""
    times = [at for at, line in timed.lines if '"type": "model_called"' in line]
    return [b - a for a, b in itertools.pairwise(times)]


# --- output -----------------------------------------------------------------------------------


def output(at: Place, megabytes: int, runs: int) -> list[Row]:
    """Measure one step that writes a lot, beside `script -c` and a plain pipe."""
    command = f"yes {LINE} | head -c {megabytes}000000"
    big = at.script(f"big-{megabytes}", [{"run": command}, {"text": "done"}])
    typescript = at.folder / "typescript"
    measures: list[Callable[[], Usage]] = [
        partial(run, at.run(big, "--output", "stream-json"), at.environ, cwd=at.folder),
        partial(quiet, at.run(at.steps(1)), at.environ, cwd=at.folder),
        partial(quiet, ["bash", "-c", f"{command} | cat >/dev/null"], at.environ),
    ]
    names = ["plain pipe"]
    if shutil.which("script"):
        argv = ["script", "-qc", command, str(typescript)]
        measures.append(partial(quiet, argv, at.environ))
        names.append("script -c")
    shown = partial(
        on_terminal, at.run(big), at.environ, [Mark("exit 0"), Mark("done")], cwd=at.folder
    )
    results = by_turns(runs, *measures, shown)
    ours, small, *others, on_screen = results
    step = middle([_duration(one) for one in ours])
    cpu = [middle([one.cpu for one in found]) for found in results]
    bases = dict(zip(names, ([middle([one.wall for one in found]) for found in others]),
                     strict=True))  # fmt: skip
    cpu_bases = dict(zip(names, cpu[2:-1], strict=True))
    size = f"{megabytes} MB of output"
    kept = sum(file.stat().st_size for file in (at.folder / "data").rglob("*.log")) / 1e6
    files = sum(1 for file in (at.folder / "data").rglob("0001.log") if file.stat().st_size > 1000)
    disk = {"script -c": typescript.stat().st_size / 1e6} if typescript.exists() else {}
    growth = middle([one.peak for one in ours]) - middle([one.peak for one in small])
    marks = middle([one.wall for one in on_screen])
    rows = [
        Row(f"{size}, the step", "s", step, bases, "0.8" if megabytes == 100 else ""),
        Row(f"{size}, the step", "s CPU", cpu[0] - cpu[1], cpu_bases),
        Row(f"{size}, whole run", "s", middle([one.wall for one in ours]), bases,
            "1.5" if megabytes == 100 else ""),
        Row(f"{size}, whole run on a terminal", "s", marks, {"without a terminal":
            middle([one.wall for one in ours])}),
        Row(f"{size}, whole run on a terminal", "s CPU", cpu[-1], {"without a terminal": cpu[0]}),
        Row(f"{size}, peak memory over a small step", "MB", growth, {}, "10"),
        Row(f"{size}, on disk", "MB", kept / max(1, files), disk),
    ]  # fmt: skip
    shutil.rmtree(at.folder / "data" / "outputs", ignore_errors=True)
    typescript.unlink(missing_ok=True)
    return rows


def _duration(timed: Usage) -> float:
    for _, line in timed.lines:
        if '"type": "command_ended"' in line:
            return float(json.loads(line)["result"]["duration"])
    raise SystemExit("no command ended")


# --- what grows -------------------------------------------------------------------------------


def traffic(at: Place) -> list[Row]:
    """Measure the requests to a provider of 20 steps."""
    found = _json(at, "benchmarks.traffic", "--steps", "20", "--json")
    return [
        Row("first request to the model", "kB", found["first"] / 1000, {}, "6.3"),
        Row("growth of a request with each step", "kB", found["growth"] / 1000),
        Row("part of a request kept as its prefix, least", "of 1", found["kept"], {}, "1"),
    ]


def turns(at: Place, lengths: Sequence[int] = TURNS) -> list[Row]:
    """Measure a turn in short and long sessions, and opening them."""
    words = ["benchmarks.sessions", "--json", "--sqlite", "--turns", *map(str, lengths)]
    found = _json(at, *words)
    plain = found["floor: plain file"]
    shortest = found[f"sqlite, {lengths[0]} turns"]
    rows = []
    for length in lengths:
        own = found[f"sqlite, {length} turns"]
        name, ten = f"a turn in a session of {length:,}", f"session of {lengths[0]}"
        rows += [
            Row(name, "ms CPU", own["turn_cpu_ms"],
                {"plain file": plain["turn_cpu_ms"], ten: shortest["turn_cpu_ms"]}),
            Row(f"opening a session of {length:,}", "s CPU", own["open_cpu_s"],
                {ten: shortest["open_cpu_s"]}),
        ]  # fmt: skip
    return rows


def listing(at: Place, runs: int) -> list[Row]:
    """Measure the list of 2,000 sessions."""
    folder = at.folder / "many"
    folder.mkdir()
    environ = {**at.environ, "KOGNITERM_DATA_DIR": str(folder)}
    file = folder / "kogniterm.db"
    subprocess.run(
        [PYTHON, "-m", "benchmarks.sessions", "--make", str(SESSIONS), str(file)],
        cwd=ROOT, check=True,
    )  # fmt: skip
    words = [*at.kogniterm, "sessions", "list", "--limit", str(SESSIONS)]
    results = by_turns(
        max(runs, 3),
        partial(quiet, words, environ),
        partial(quiet, python(floors.LIST, str(file)), environ),
        partial(quiet, [*words[:-1], "1"], environ),
    )
    rows = both(f"list of {SESSIONS:,} sessions", results, ["sqlite3", "list of one"])
    return _with_goal(rows, "s CPU", "0.3")


def facts(at: Place, count: int = FACTS) -> list[Row]:
    """Measure the recall of a turn among many facts, in a process of its own."""
    found = _json(at, "benchmarks.memory", "--recall", str(count), "--json")
    what = f"recall among {count:,} facts"
    return [
        Row(what, "ms CPU", found["recall_ms"], {"FTS5": found["fts5_ms"],
            "recall among 100": found["few_ms"]}, "50"),
        Row(f"{what}, first in a process", "ms CPU", found["first_ms"],
            {"recall among 100": found["few_first_ms"]}),
        Row(f"{what}, memory added", "MB", found["memory_mb"],
            {"recall among 100": found["few_memory_mb"]}, "no 286"),
    ]  # fmt: skip


def _json(at: Place, module: str, *words: str) -> dict[str, dict[str, float]]:
    done = subprocess.run(
        [PYTHON, "-m", module, *words], cwd=ROOT, env={**at.environ, "TMPDIR": str(at.folder)},
        check=True, stdout=subprocess.PIPE, text=True, stderr=sys.stderr,
    )  # fmt: skip
    result: dict[str, dict[str, float]] = json.loads(done.stdout)
    return result
