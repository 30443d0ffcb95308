"""Run commands that do nothing in a sandbox of one kind, or print what sandboxes cost.

    python -m benchmarks.sandbox_steps [--write]                costs of each kind that works here
    python -m benchmarks.sandbox_steps --kind KIND --count N    runs N commands; `none` is outside
    python -m benchmarks.sandbox_steps --kind KIND --builds N   builds N sandboxes, and runs nothing

The cost of a step is the CPU time of 31 commands less that of one, of all processes, while the
folder for temporary files holds many, as that of a build machine does; that of a
sandbox is the CPU time of 31 that are built less that of one. Its memory is the share (PSS) of its
first process, which only root can read.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from benchmarks.measuring import PYTHON, ROOT, become_subreaper, middle, quiet, store_figures
from kogniterm.execution import open_executor
from kogniterm.execution.sandbox import namespaces
from kogniterm.execution.sandbox.confinement import GIVES, Sandbox, SandboxKind
from kogniterm.execution.sandbox_probe import probe
from kogniterm.host.processes import descendants
from kogniterm.host.programs import find_program

STEPS = 30
FILES = 1300
RUNS = 5


@contextlib.contextmanager
def box_of(kind: SandboxKind) -> Iterator[Sandbox]:
    """Yield a sandbox of this kind, round a workspace that has nothing in it."""
    with tempfile.TemporaryDirectory(prefix="kogniterm-bench-", dir="/var/tmp") as place:
        work, home = Path(place, "work"), Path(place, "home")
        for folder in (work, home):
            folder.mkdir()
        yield Sandbox(kind, str(work), str(home), program=find_program("bwrap") or "")


def run(kind: SandboxKind, count: int) -> float:
    """Run `count` commands; returns the memory of what waits in the sandbox then, in MB, or 0."""
    with (
        box_of(kind) as box,
        open_executor(box.workspace, sandbox=None if kind == "none" else box) as executor,
    ):
        for _ in range(count):
            executor.run("true")
        try:
            inside = [one.pid for one in descendants(os.getpid()) if one.name == "sandbox"]
            return sum(_share(pid) for pid in inside)
        except OSError:
            return 0.0


def _share(process: int) -> float:
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def build(kind: SandboxKind, count: int) -> list[float]:
    """Build `count` sandboxes, one after the other; returns how many seconds each took."""
    become_subreaper()
    times = []
    with box_of(kind) as box:
        temporary = f"{box.home}/tmp"
        Path(temporary).mkdir()
        view = box.view(shell_files=temporary, temporary=temporary, shared=True)
        for _ in range(count):
            began = time.perf_counter()
            built = namespaces.build(view)
            times.append(time.perf_counter() - began)
            first = built.init
            built.close()
            if first:
                os.waitpid(first, 0)
    return times


@cache
def crowded() -> str:
    """Return a folder with many files, which goes with this process."""
    folder = tempfile.mkdtemp(prefix="kogniterm-bench-", dir="/var/tmp")
    atexit.register(shutil.rmtree, folder)
    for number in range(FILES):
        Path(folder, str(number)).touch()
    return folder


def cost(kind: str, what: str = "--count") -> float:
    """Return the CPU time of a step, or of a sandbox (`--builds`), in seconds, from two runs."""
    words = [PYTHON, "-m", "benchmarks.sandbox_steps", "--kind", kind, what]
    environ = {**os.environ, "TMPDIR": crowded()}
    many, one = (quiet([*words, str(n)], environ, cwd=ROOT).cpu for n in (STEPS + 1, 1))
    return (many - one) / STEPS


def working() -> list[SandboxKind]:
    """Return the kinds that work here, the first one first."""
    with tempfile.TemporaryDirectory(prefix="kogniterm-bench-", dir="/var/tmp") as place:
        return [kind for kind in GIVES if kind != "none" and probe(Path(place), kind).kind == kind]


def built() -> list[SandboxKind]:
    """Return those of them that are built of namespaces."""
    return [kind for kind in working() if GIVES[kind].namespaces]


def main() -> int:
    """Run the commands of one kind, build its sandboxes, or print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kind", choices=GIVES)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--builds", type=int)
    parser.add_argument("--write", action="store_true", help="store the figures")
    options = parser.parse_args()
    if options.kind:
        run(options.kind, options.count) if options.builds is None else build(
            options.kind, options.builds
        )
        return 0
    become_subreaper()
    kinds: list[SandboxKind] = [*working(), "none"]
    steps = _each(kinds, lambda kind: cost(kind) * 1000)
    outside = steps.pop("none")
    print(f"outside: {outside:.1f} ms of CPU time a step")
    figures = {"outside": outside}
    for kind, step in steps.items():
        figures[f"{kind}, more"] = step - outside
        line = f"{kind}: {step:.1f} ms of CPU time a step, {step - outside:+.1f} ms"
        if GIVES[kind].namespaces:
            used = figures[f"{kind}, built"] = cost(kind, "--builds") * 1000
            waited = middle(build(kind, RUNS)) * 1000
            line += f"; built with {used:.1f} ms of CPU time, in {waited:.0f} ms"
            if memory := middle([run(kind, 1) for _ in range(RUNS)]):
                line += f", {memory:.1f} MB"
        print(line)
    if options.write:
        store_figures("python -m benchmarks.sandbox_steps", figures)
    return 0


def _each(
    kinds: list[SandboxKind], measure: Callable[[SandboxKind], float]
) -> dict[SandboxKind, float]:
    """Return the median for each kind, from runs in turn."""
    found: dict[SandboxKind, list[float]] = {kind: [] for kind in kinds}
    for _ in range(RUNS):
        for kind in kinds:
            found[kind].append(measure(kind))
    return {kind: middle(times) for kind, times in found.items()}


if __name__ == "__main__":
    sys.exit(main())
