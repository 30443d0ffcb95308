"""Count the newer requests that the embedded model solves, approved and in auto mode."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.eval.results import Result
from benchmarks.eval.scratch import kind, scratch
from benchmarks.eval.setups import SetUp, product
from benchmarks.eval.table import NEWER, Task, tasks
from benchmarks.measuring import store_figures
from kogniterm.addons.local_model.weights import DEFAULT_NAME, find, weights_called
from kogniterm.execution.sandbox.confinement import GIVES

SETS = {file.stem: file for file in NEWER}
MODES = {"approved": True, "auto mode": False}
"""The modes, and whether a user who approves every command stands behind them."""


def main() -> int:
    """Run the requests; return 1 if the sandbox or the weights are missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default=DEFAULT_NAME, help="name of the local model")
    parser.add_argument("--set", default="blind", choices=SETS, help="table of the requests")
    parser.add_argument("--mode", action="append", choices=MODES, help="may be repeated")
    parser.add_argument("--only", default="", help="requests whose id contains this")
    parser.add_argument("--write", action="store_true", help="store the figures")
    options = parser.parse_args()
    entry = weights_called(options.model)
    file = find(entry, Path("~/.cache/kogniterm/models").expanduser())
    if file is None or not GIVES[kind()].own_processes:
        print("this needs the weights, and a sandbox with own processes", file=sys.stderr)
        return 1
    chosen = [task for task in tasks([SETS[options.set]]) if options.only in task.id]
    figures = {"requests": float(len(chosen))}
    for mode in options.mode or MODES:
        set_up = product(entry.name, file, approved=MODES[mode])
        solved = 0
        for task in chosen:
            result = attempt(set_up, task)
            solved += result.passed
            print(f"{mode} {'pass' if result.passed else 'FAIL'} {task.id}", flush=True)
            for command in result.commands:
                print(f"    $ {command}")
            for line in (result.answer or result.error).splitlines()[:6]:
                print(f"    | {line[:150]}")
        print(f"{mode}: {solved} of {len(chosen)}", flush=True)
        figures[mode] = float(solved)
    if options.write:
        named = "" if entry.name == DEFAULT_NAME else f" --model {entry.short}"
        store_figures(f"python -m benchmarks.fresh_requests{named}", figures)
    return 0


def attempt(set_up: SetUp, task: Task) -> Result:
    """Return the result of one request in a folder of its own."""
    with scratch(task.setup) as place:
        made = set_up(task, place)
        passed = task.passed(made.answer, place, made.commands)
    return Result(passed, tuple(made.commands), made.answer, made.error)


if __name__ == "__main__":
    sys.exit(main())
