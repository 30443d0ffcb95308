"""Run commands that do nothing in a sandbox of one kind, or print what such steps cost.

    python -m benchmarks.sandbox_steps                          costs of each kind that works here
    python -m benchmarks.sandbox_steps --kind KIND --count N    runs N commands; `none` is outside

The cost of a step is the CPU time of 31 commands less that of one, of all processes.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from benchmarks.measuring import PYTHON, ROOT, become_subreaper, middle, quiet
from kogniterm.execution import open_executor
from kogniterm.execution.sandbox.confinement import Sandbox
from kogniterm.execution.sandbox.kinds import GIVES, SandboxKind
from kogniterm.execution.sandbox_probe import probe
from kogniterm.host.programs import find_program

STEPS = 30
RUNS = 5


def run(kind: SandboxKind, count: int) -> None:
    """Run `count` commands, in a workspace that has nothing in it."""
    with tempfile.TemporaryDirectory(prefix="kogniterm-bench-", dir="/var/tmp") as place:
        work, home = Path(place, "work"), Path(place, "home")
        for folder in (work, home):
            folder.mkdir()
        box = Sandbox(kind, str(work), str(home), program=find_program("bwrap") or "")
        with open_executor(work, sandbox=None if kind == "none" else box) as executor:
            for _ in range(count):
                executor.run("true")


def step(kind: str) -> float:
    """Return the CPU time of a step in seconds, from one pair of runs."""
    words = [PYTHON, "-m", "benchmarks.sandbox_steps", "--kind", kind, "--count"]
    many, one = (quiet([*words, str(n)], os.environ, cwd=ROOT).cpu for n in (STEPS + 1, 1))
    return (many - one) / STEPS


def working() -> list[SandboxKind]:
    """Return the kinds that work here, the first one first."""
    with tempfile.TemporaryDirectory(prefix="kogniterm-bench-", dir="/var/tmp") as place:
        return [kind for kind in GIVES if kind != "none" and probe(Path(place), kind).kind == kind]


def main() -> int:
    """Run the commands of one kind, or print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kind", choices=GIVES)
    parser.add_argument("--count", type=int, default=1)
    options = parser.parse_args()
    if options.kind:
        run(options.kind, options.count)
        return 0
    become_subreaper()
    kinds: list[str] = [*working(), "none"]
    found: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(RUNS):
        for kind in kinds:
            found[kind].append(step(kind) * 1000)
    outside = middle(found["none"])
    for kind, times in found.items():
        more = f", {middle(times) - outside:+.1f} ms" if kind != "none" else ""
        print(f"{kind}: {middle(times):.1f} ms of CPU time a step{more}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
