"""Find the parts of `kogniterm/approval/programs` that no line of the corpora needs.

    python -m benchmarks.approval_ablation [--all] [--statements] [--write]

Each handler (its programs are then unknown) and each row of a table of patterns is switched off
alone, with `--statements` also each statement of a handler. A part is needed by the first corpus
line whose label, verdict in a mode, effects, programs or deciding files differ without it. Parts
that no line needs are printed, with `--all` the others too; `--write` writes the line of each
handler and pattern to `benchmarks/results/approval_ablation.md`.

The corpora are the tables of `tests/approval`, the smuggled commands and the commands of the tests
of deciding files and of evaluation. Before you delete what judges an attack, add the attack there.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import re
import signal
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, cast

from kogniterm.approval import Circumstances, classify, judge
from kogniterm.approval.analysis import analyser
from kogniterm.approval.analysis.arguments import rule_table
from kogniterm.approval.programs import git, word_patterns
from tests.approval.analysis import test_evaluation
from tests.approval.corpus import WORKSPACE, commands, smuggled
from tests.approval.programs import test_script_files

MODULES = (
    "basic_rules", "builtins", "files", "git", "remote", "scripts",
    "word_patterns", "wrappers",
)  # fmt: skip
RESULTS = Path(__file__).parent / "results" / "approval_ablation.md"
MODES = (
    Circumstances(safe_unasked=True),
    Circumstances("auto"),
    Circumstances("auto", sandboxed=True),
    Circumstances("auto", sandboxed=True, small_model=True),
)
"""The circumstances under which the verdict on each line is compared."""
LIMIT_SECONDS = 2.0
"""A statement may be what ends a loop; an analysis that takes longer counts as different."""

Outcome = tuple[object, ...]
Switch = Callable[[], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class Part:
    """A part that can be switched off, with the corpus lines that may need it."""

    kind: str
    name: str
    off: Switch
    lines: tuple[str, ...]


def corpus() -> list[str]:
    """Return all lines of the corpora, each once."""
    tables = (line for name in ("safe", "write", "asked", "dangerous") for line in commands(name))
    deciding = (row.partition(" => ")[0] for row in test_script_files.DECIDING.splitlines())
    marks = _parametrized(test_evaluation)
    return list(dict.fromkeys((*tables, *smuggled(), *filter(None, deciding), *marks)))


def _parametrized(module: ModuleType) -> Iterator[str]:
    """Yield the commands by which the tests of `module` are parametrized."""
    for test in vars(module).values():
        for mark in getattr(test, "pytestmark", ()):
            if mark.name == "parametrize" and mark.args[0] == "command":
                yield from mark.args[1]


def outcome(line: str) -> Outcome:
    """Return what is compared of the judgement on `line`."""
    analyser._analyse.cache_clear()
    try:
        report = classify(line, cwd=WORKSPACE)
    except Exception as error:  # noqa: BLE001  (a part may be missed by an error)
        return (type(error),)
    verdicts = tuple(judge(report, circumstances=now).kind for now in MODES)
    beside = map(str, report.beside)
    found = (report.effects, report.deciding, report.programs, report.git_calls, beside)
    return (report.label, verdicts, *map(frozenset, found))


# --- what can be switched off -------------------------------------------------------------------


@contextmanager
def _without(table: Mapping[Any, Any], *keys: object) -> Iterator[None]:
    """Take keys out of a table for a while."""
    changed = cast("MutableMapping[object, object]", table)
    before = dict(changed)
    for key in keys:
        del changed[key]
    yield
    changed.clear()
    changed.update(before)


@contextmanager
def _replaced(table: Mapping[str, Any], key: str, value: object) -> Iterator[None]:
    changed = cast("MutableMapping[str, object]", table)
    before = changed[key]
    changed[key] = value
    yield
    changed[key] = before


@contextmanager
def _with_code(function: FunctionType, code: CodeType) -> Iterator[None]:
    before = function.__code__
    function.__code__ = code
    yield
    function.__code__ = before


def handlers(lines: tuple[str, ...]) -> Iterator[Part]:
    """Yield the handlers: without one its programs are unknown."""
    programs = rule_table("known_programs")
    for base in analyser._HANDLERS:
        users = [name for name, rules in programs.items() if rules.base == base]
        first = _naming(lines, users)
        yield Part("handler", base, partial(_without, programs, *users), first)


def patterns(lines: tuple[str, ...]) -> Iterator[Part]:
    """Yield each case of `word_patterns`, and each form of a verb of git."""
    programs = rule_table("known_programs")
    for name, cases in word_patterns._CASES.items():
        users = [one for one, rules in programs.items() if rules.detail == name]
        first = _naming(lines, [*users, name])
        for number, case in enumerate(cases):
            rest = (*cases[:number], *cases[number + 1 :])
            title = f"{name} {number + 1}: {case.label or 'reads'} {case.pattern[:40]}"
            yield Part(
                "pattern", title, partial(_replaced, word_patterns._CASES, name, rest), first
            )
    for title, forms in (
        ("reads", git._READS), ("destroys", git._DESTROYS), ("asked", git._ASKED)
    ):  # fmt: skip
        for verb in forms:
            off = partial(_without, forms, verb)
            yield Part("pattern", f"git {verb}: {title}", off, _naming(lines, [verb]))


def _naming(lines: tuple[str, ...], programs: list[str]) -> tuple[str, ...]:
    """Return the lines, those first that name one of `programs`."""
    words = set(programs)
    return tuple(sorted(lines, key=lambda line: words.isdisjoint(re.split(r"[\s;|&(]+", line))))


def statements(lines: tuple[str, ...]) -> Iterator[Part]:
    """Yield each statement of the functions of the handlers, with the lines that reach it."""
    reached = _reached(lines)
    for name in MODULES:
        module = importlib.import_module(f"kogniterm.approval.programs.{name}")
        source = inspect.getsource(module)
        for function, head, shown in _removable(source):
            at = head.start
            code = _compiled(source, at, module, function)
            target = getattr(module, function)
            off = partial(_with_code, target, code)
            told = (reached.get((module.__file__ or "", number), []) for number in head)
            found = tuple(dict.fromkeys(chain.from_iterable(told)))
            yield Part(f"{name}.{function}", f"{at}: {shown}", off, found)


def _removable(source: str) -> Iterator[tuple[str, range, str]]:
    """Yield function, line and text of the statements that a function can do without."""
    lines = source.splitlines()
    for function in ast.parse(source).body:
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                kinds = (ast.If, ast.For, ast.While, ast.Expr, ast.AugAssign)
                docs = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
                if isinstance(node, kinds) and not docs:
                    body = getattr(node, "body", [])
                    end = body[0].lineno if body else (node.end_lineno or node.lineno) + 1
                    head = range(node.lineno, max(end, node.lineno + 1))
                    yield function.name, head, lines[node.lineno - 1].strip()


class _Remover(ast.NodeTransformer):
    """Replace the statement at one line; of an `if` its `else` stays."""

    def __init__(self, line: int) -> None:
        self._line = line

    def generic_visit(self, node: ast.AST) -> Any:
        super().generic_visit(node)
        kinds = (ast.If, ast.For, ast.While, ast.Expr, ast.AugAssign)
        if isinstance(node, kinds) and node.lineno == self._line:
            left = node.orelse if isinstance(node, ast.If) else []
            return left or ast.copy_location(ast.Pass(), node)
        return node


def _compiled(source: str, line: int, module: ModuleType, function: str) -> CodeType:
    """Return the code of `function` without the statement at `line`."""
    tree = ast.fix_missing_locations(_Remover(line).visit(ast.parse(source)))
    whole = compile(tree, module.__file__ or "", "exec", dont_inherit=True)
    codes = (one for one in whole.co_consts if isinstance(one, CodeType))
    return next(one for one in codes if one.co_name == function)


def _reached(lines: tuple[str, ...]) -> Mapping[tuple[str, int], list[str]]:
    """Return the corpus lines that run each line of the modules."""
    folder = str(Path(git.__file__).parent)
    found: dict[tuple[str, int], dict[str, None]] = defaultdict(dict)
    line = ""

    def trace(frame: FrameType, event: str, _: object) -> Any:
        name = frame.f_code.co_filename
        if not name.startswith(folder):
            return None
        if event == "line":
            found[name, frame.f_lineno][line] = None
        return trace

    for line in lines:
        sys.settrace(trace)
        outcome(line)
        sys.settrace(None)
    return {place: list(told) for place, told in found.items()}


# --- the comparison -----------------------------------------------------------------------------


def _expired(*_: object) -> None:
    raise TimeoutError


def needing(part: Part, usual: Mapping[str, Outcome]) -> tuple[str, str] | None:
    """Return the first line that needs `part`, and what differs, or None."""
    with part.off():
        for line in part.lines:
            signal.setitimer(signal.ITIMER_REAL, LIMIT_SECONDS)
            found = outcome(line)
            signal.setitimer(signal.ITIMER_REAL, 0)
            if found != usual[line]:
                same = found[:2] == usual[line][:2]
                return line, "findings" if same else f"{usual[line][0]} → {found[0]}"
    return None


def table(rows: Iterable[tuple[Part, str, str]]) -> str:
    """Return the page of results: each handler and pattern with a line that needs it."""
    text = "# What each handler and pattern of approval is needed for\n\n"
    text += "Written by `python -m benchmarks.approval_ablation --write`: without the handler or "
    text += "pattern,\nthis line of the corpora is judged differently.\n\n"
    text += "| handler or pattern | line | judged with and without it |\n|---|---|---|\n"
    for part, line, differs in rows:
        cells = (part.name, line.replace("\n", "⏎"), differs)
        text += "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"
    return text


def main() -> None:
    """Switch off each part in turn and print those that no line needs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--statements", action="store_true", help="try single statements too")
    parser.add_argument("--all", action="store_true", help="print the needed parts too")
    parser.add_argument("--write", action="store_true", help="write the table of results")
    asked = parser.parse_args()
    signal.signal(signal.SIGALRM, _expired)
    lines = tuple(corpus())
    usual = {line: outcome(line) for line in lines}
    groups = [handlers, patterns, *([statements] if asked.statements else [])]
    needed: list[tuple[Part, str, str]] = []
    for group in groups:
        parts = list(group(lines))
        spare = 0
        for part in parts:
            found = needing(part, usual)
            spare += found is None
            if found is not None and group is not statements:
                needed.append((part, *found))
            if found is None or asked.all:
                told = "needed by no line" if found is None else f"{found[1]} | {found[0]!r}"
                print(f"{part.kind:14} | {part.name} | {told}", flush=True)
        print(f"# {group.__name__}: {spare} of {len(parts)} are needed by no line", flush=True)
    if asked.write:
        RESULTS.write_text(table(needed))


if __name__ == "__main__":
    main()
