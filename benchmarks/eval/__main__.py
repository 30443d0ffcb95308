"""`python -m benchmarks.eval`: run the table with several set-ups, print them side by side."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.eval.scratch import available, scratch
from benchmarks.eval.setups import Attempt, SetUp, direct, plain, product
from benchmarks.eval.table import Task, tasks
from kogniterm.models.local import DEFAULT_NAME, open_local
from kogniterm.models.local.catalogue import weights_called
from kogniterm.models.local.runtime import Runtime
from kogniterm.models.local.weights import find

SET_UPS = ("plain", "direct", "kogniterm")
KINDS = ("ask", "do", "multi")


def main(arguments: Sequence[str]) -> int:
    """Run and print; 1 when the sandbox or the weights are missing."""
    args = _parsed(arguments)
    folder = args.weights.expanduser()
    entry = weights_called(args.model)
    file = find(entry, folder)
    if file is None:
        print(f"no weights in {folder}; run: kogniterm models pull {entry.name}", file=sys.stderr)
        return 1
    if not available():
        print("bubblewrap (bwrap) is needed to run what a model proposes", file=sys.stderr)
        return 1
    chosen = [task for task in tasks() if not args.only or args.only in task.id]
    with ExitStack() as stack:
        results: dict[str, dict[str, bool]] = {}
        for name in args.setup or ("plain", "kogniterm"):
            results[name] = _run(name, _set_up(name, entry.name, file, stack), chosen, args.verbose)
    _print_table(chosen, results)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1), encoding="utf-8")
    return 0


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.eval", description=__doc__)
    parser.add_argument("--model", default=DEFAULT_NAME, help="name of the local model")
    parser.add_argument("--setup", action="append", choices=SET_UPS, help="may be repeated")
    parser.add_argument("--only", default="", help="tasks whose id contains this")
    parser.add_argument("--verbose", action="store_true", help="show commands and answers")
    parser.add_argument("--json", type=Path, help="also write the results to this file")
    parser.add_argument(
        "--weights", type=Path, default=Path("~/.cache/kogniterm/models"), help="their folder"
    )
    return parser.parse_args(arguments)


def _set_up(name: str, model_name: str, file: Path, stack: ExitStack) -> SetUp:
    if name == "kogniterm":
        state = stack.enter_context(tempfile.TemporaryDirectory())
        return product(model_name, file.parent, Path(state))
    if name == "direct":
        model = open_local(model_name, file.parent)
        stack.callback(model.close)
        return direct(model)
    runtime = Runtime(file, context=4096)
    stack.callback(runtime.close)
    return plain(runtime)


def _run(name: str, set_up: SetUp, chosen: Iterable[Task], verbose: bool) -> dict[str, bool]:
    passed = {}
    for task in chosen:
        with scratch(task.setup) as place:
            attempt = set_up(task, place)
            passed[task.id] = task.passed(attempt.answer, place)
        mark = "pass" if passed[task.id] else "FAIL"
        print(f"{name:<10} {mark} {task.id:<24} {attempt.seconds:5.1f} s", flush=True)
        if verbose or (attempt.error and not passed[task.id]):
            _print_attempt(attempt)
    return passed


def _print_attempt(attempt: Attempt) -> None:
    for command in attempt.commands:
        print(f"    $ {command}")
    for line in (attempt.answer or attempt.error or "(no answer)").splitlines()[:6]:
        print(f"    | {line[:150]}")


def _print_table(chosen: Sequence[Task], results: dict[str, dict[str, bool]]) -> None:
    rows = [("all", chosen)]
    rows += [(kind, [task for task in chosen if task.kind == kind]) for kind in KINDS]
    rows += [(lang, [task for task in chosen if task.lang == lang]) for lang in ("en", "es")]
    rows += [("held out", [task for task in chosen if task.held_out])]
    print("\n" + "".join(f"{column:>14}" for column in ("", "tasks", *results)))
    for title, group in rows:
        cells = []
        for passed in results.values():
            count = sum(passed[task.id] for task in group)
            cells.append(f"{count} ({100 * count / max(1, len(group)):.0f} %)")
        print("".join(f"{cell:>14}" for cell in (title, str(len(group)), *cells)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
