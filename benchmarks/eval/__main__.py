"""Run the table with the plain loop and with KogniTerm, and print both results side by side.

A run that was stopped goes on where it stopped; what changed since is done again.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.eval.report import PAGE, page, terminal
from benchmarks.eval.results import (
    KEPT_ANSWER,
    ROOT,
    Kept,
    Published,
    Result,
    fingerprint,
    published,
)
from benchmarks.eval.scratch import kind, scratch
from benchmarks.eval.setups import SetUp, plain, product
from benchmarks.eval.table import Task, tasks
from kogniterm.addons.local_model.weights import (
    CATALOGUE,
    DEFAULT_NAME,
    Weights,
    find,
    weights_called,
)
from kogniterm.execution.sandbox.confinement import GIVES

SET_UPS = ("plain", "kogniterm")
COLUMNS = {"plain": ("plain", CATALOGUE[0])} | {
    f"local:{entry.short}": ("kogniterm", entry) for entry in CATALOGUE
}
"""Columns of the published table: the plain loop on the small model, and the product on each."""


def main(arguments: Sequence[str]) -> int:
    """Run and print; return 1 if the sandbox or the weights are missing, or a set-up is broken."""
    args = _parsed(arguments)
    if args.page:
        _write_page(published())
        return 0
    folder = args.weights.expanduser()
    entry = weights_called(args.model)
    file = find(entry, folder)
    if file is None:
        print(f"no weights in {folder}; run: kogniterm models pull {entry.name}", file=sys.stderr)
        return 1
    if not GIVES[kind()].own_processes:
        print("what a model proposes runs only in a sandbox with own processes", file=sys.stderr)
        return 1
    chosen = _chosen(args)
    running = args.setup or SET_UPS
    results: dict[str, dict[str, Result]] = {}
    for name in running:
        made = plain(file) if name == "plain" else product(entry.name, file)
        kept = _kept(name, entry, fresh=args.fresh)
        results[name] = _run(name, made, chosen, kept, verbose=args.verbose)
        if len(results[name]) < len(chosen):
            return 1
    print("\n" + terminal(chosen, results))
    if args.write:
        run = _publishable()
        run.write()
        _write_page(run)
    return 0


def _publishable() -> Published:
    """Return every result that still holds, from this run or an earlier one."""
    results = {}
    for column, (name, entry) in COLUMNS.items():
        kept = _kept(name, entry)
        found = {task.id: kept.get(task) for task in tasks()}
        results[column] = {task: row for task, row in found.items() if row is not None}
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return Published(today, results)


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.eval", description=__doc__)
    parser.add_argument("--model", default=DEFAULT_NAME, help="name of the local model")
    parser.add_argument("--setup", action="append", choices=SET_UPS, help="may be repeated")
    parser.add_argument("--only", default="", help="tasks whose id contains this")
    parser.add_argument("--group", choices=("tuned", "held-out"), help="only these tasks")
    parser.add_argument("--set", type=int, help="only the held-out set of this number")
    parser.add_argument("--limit", type=int, help="at most so many tasks, spread over the table")
    parser.add_argument("--fresh", action="store_true", help="forget what was already run")
    parser.add_argument("--verbose", action="store_true", help="show commands and answers")
    parser.add_argument(
        "--write", action="store_true", help=f"write what is known into {PAGE.name}"
    )
    parser.add_argument("--page", action="store_true", help="only write the page again")
    parser.add_argument(
        "--weights", type=Path, default=Path("~/.cache/kogniterm/models"), help="their folder"
    )
    return parser.parse_args(arguments)


def _chosen(args: argparse.Namespace) -> list[Task]:
    chosen = [task for task in tasks() if args.only in task.id]
    if args.group:
        chosen = [task for task in chosen if bool(task.held_out) == (args.group == "held-out")]
    if args.set:
        chosen = [task for task in chosen if task.held_out == args.set]
    if args.limit and args.limit < len(chosen):
        chosen = [chosen[len(chosen) * n // args.limit] for n in range(args.limit)]
    return chosen


def _kept(name: str, entry: Weights, *, fresh: bool = False) -> Kept:
    """Return the results kept for this set-up; those of `plain` do not depend on the bank."""
    own = ("benchmarks/eval/s*.py",) if name == "plain" else ()
    rests_on = f"{entry.sha256} {fingerprint(own) if own else fingerprint()}"
    return Kept(ROOT / "build" / "eval" / f"{entry.name}-{name}.json", rests_on, fresh=fresh)


def _run(
    name: str, set_up: SetUp, chosen: Sequence[Task], kept: Kept, *, verbose: bool
) -> dict[str, Result]:
    """Return every task's result; stop early when the set-up itself does not work."""
    results: dict[str, Result] = {}
    for task in chosen:
        result, note = kept.get(task), "(known)"
        if result is None:
            with scratch(task.setup) as place:
                attempt = set_up(task, place)
                passed = task.passed(attempt.answer, place, attempt.commands)
            if attempt.broken:
                print(f"{name} does not work: {attempt.error}", file=sys.stderr)
                return results
            commands, answer = tuple(attempt.commands), attempt.answer[:KEPT_ANSWER]
            result, note = (
                Result(passed, commands, answer, attempt.error),
                f"{attempt.seconds:.1f} s",
            )
            kept.put(task, result)
        results[task.id] = result
        print(f"{name:<10} {'pass' if result.passed else 'FAIL'} {task.id:<24} {note}", flush=True)
        if verbose:
            _print_result(result)
    return results


def _print_result(result: Result) -> None:
    for command in result.commands:
        print(f"    $ {command}")
    for line in (result.answer or result.error or "(no answer)").splitlines()[:6]:
        print(f"    | {line[:150]}")


def _write_page(run: Published) -> None:
    PAGE.write_text(page(tasks(), run), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
