"""Plant faults in functions of the core, one at a time, and report which fast test sees each.

The core is what a turn needs; parts that a user can do without are left out (ADD_ONS).

    python scripts/plant_faults.py --seed 1 --core 40 --critical 20 --out faults.json

Works in a copy of the tree. The fast tests run once to record which of them enter which function;
for each fault only those run, cheapest first, until one fails. A test that does not end counts as
having seen the fault. The same seed draws the same faults from the same tree.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LEFT_OUT = ("ui/locale", "_version", "tour_scripts", "/attempts.py")
ADD_ONS = (
    "kogniterm/addons", "/hosts", "host_", "recipe",
    "addons/local_model", "telemetry",
    "trajectory", "completion",
)  # fmt: skip
"""What adds something to the core: parts of paths."""
CRITICAL = {
    "verdicts": ("approval/analysis", "approval/policy", "runtime/gate"),
    "durability": (
        "sessions/journal", "runtime/crash_recovery", "runtime/turn_end", "storage/drivers",
    ),
    "redaction": ("text/redact", "text/secret_patterns", "runtime/turn_journal"),
    "escaping": ("text/visible", "text/sanitize", "ui/screen"),
    "sandbox": ("execution/sandbox",),
    "exit status": ("cli/run.py", "cli/json_output", "approval/analysis/exit_status"),
    "memory scope": ("memory/learnings", "memory/preferences", "memory/user_memory"),
}  # fmt: skip
"""What must never break, by the parts of the tree that hold it."""
SAFE_CALLS = {"redact", "redact_runs", "redact_command", "render", "render_line", "one_line"}
SAFE_CALLS |= {"clean", "safe", "render_words", "shown", "mask_command", "real", "sanitize"}
RECORDING = {"record", "append", "write_private", "put", "add"}
SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


@dataclass
class Fault:
    """A planted fault and what saw it: a test, "time limit", or "" for none."""

    group: str
    file: str
    function: str
    line: int
    what: str
    before: str
    after: str
    text: str
    """The whole module with the fault."""
    caught_by: str = ""
    tests: int = 0

    def plain(self) -> dict[str, object]:
        """Return it for JSON, without the text."""
        return {name: value for name, value in asdict(self).items() if name != "text"}


def functions(file: Path) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield the functions of a module with their qualified names."""

    def below(node: ast.AST, name: str) -> Iterator[tuple[str, ast.FunctionDef]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = f"{name}.{child.name}".lstrip(".")
                if not isinstance(child, ast.ClassDef):
                    yield inner, child  # type: ignore[misc]  # both kinds of functions
                yield from below(child, inner)

    yield from below(ast.parse(file.read_text("utf-8")), "")


def _calls(node: ast.AST) -> str:
    called = node.func if isinstance(node, ast.Call) else None
    return getattr(called, "attr", getattr(called, "id", ""))


def _about_types(test: ast.expr) -> bool:
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"


def edits(function: ast.AST) -> Iterator[tuple[str, ast.AST, ast.AST | None]]:
    """Yield the edits of a function: what it does, the node, and the node in its place."""
    for node in ast.walk(function):
        changed = copy.deepcopy(node)
        if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPPED:
            changed.ops[0] = SWAPPED[type(node.ops[0])]()  # type: ignore[attr-defined]
            yield "swapped comparison", node, changed
        elif isinstance(node, ast.BoolOp):
            changed.op = SWAPPED[type(node.op)]()  # type: ignore[attr-defined]
            yield "swapped boolean operator", node, changed
        elif isinstance(node, ast.If | ast.IfExp) and not _about_types(node.test):
            opposite = ast.UnaryOp(ast.Not(), copy.deepcopy(node.test))
            yield "swapped condition", node.test, opposite
        elif isinstance(node, ast.Call) and _calls(node) in SAFE_CALLS and len(node.args) >= 1:
            yield "unsafe text", node, node.args[0]
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            if not re.match(r"_?log(ger)?\.", ast.unparse(node.value)):
                lost = "lost record" if _calls(node.value) in RECORDING else "lost statement"
                yield lost, node, ast.Pass()
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.Constant):
            if isinstance(node.value.value, bool):
                yield "wrong constant", node.value, ast.Constant(not node.value.value)
            elif isinstance(node.value.value, int):
                yield "wrong constant", node.value, ast.Constant(node.value.value + 1)
        elif isinstance(node, ast.Slice) and (node.lower or node.upper) is not None:
            end = "upper" if node.upper is not None else "lower"
            more = ast.BinOp(getattr(node, end), ast.Add(), ast.Constant(1))
            yield "off by one", getattr(node, end), more
        elif isinstance(node, ast.keyword) and getattr(node.value, "value", None) is True:
            yield "wrong constant", node.value, ast.Constant(value=False)


def replaced(text: str, node: ast.AST, new: ast.AST) -> str:
    """Return the text of a module with the text of one node replaced."""
    raw = text.encode("utf-8")
    starts = [0]
    for line in raw.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    begin = starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
    end = starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
    words = ast.unparse(ast.fix_missing_locations(new))
    words = words if isinstance(new, ast.Pass) else f"({words})"
    return (raw[:begin] + words.encode() + raw[end:]).decode("utf-8")


def drawn(
    rng: random.Random, count: int, groups: dict[str, Sequence[str]], without: Sequence[str] = ()
) -> list[Fault]:
    """Draw functions, and one edit of each; `groups` are taken in turn, `without` some files."""
    found: list[Fault] = []
    pools: dict[str, list[tuple[str, str, int]]] = {}
    files = sorted((ROOT / "kogniterm").rglob("*.py"))
    for group, parts in groups.items():
        pool = pools.setdefault(group, [])
        for file in files:
            name = str(file.relative_to(ROOT))
            left_out = any(part in name for part in (*LEFT_OUT, *without))
            if left_out or not any(part in name for part in parts):
                continue
            pool += [(name, function, node.lineno) for function, node in functions(file)]
        rng.shuffle(pool)
    order = list(groups)
    while len(found) < count and any(pools.values()):
        group = order[len(found) % len(order)]
        if not pools[group]:
            order.remove(group)
            continue
        file_name, function, line = pools[group].pop()
        path = ROOT / file_name
        node = next(n for name, n in functions(path) if name == function and n.lineno == line)
        by_kind: dict[str, list[tuple[ast.AST, ast.AST]]] = {}
        for what, old, new in edits(node):
            by_kind.setdefault(what, []).append((old, new or ast.Pass()))
        if by_kind:
            what = rng.choice(sorted(by_kind))
            old, new = rng.choice(by_kind[what])
            before, after = ast.unparse(old)[:110], ast.unparse(new)[:110]
            line = old.lineno  # type: ignore[attr-defined]
            text = replaced(path.read_text("utf-8"), old, new)
            found.append(Fault(group, file_name, function, line, what, before, after, text))
    return found


def run(tree: Path, words: Sequence[str], seconds: float) -> tuple[int, str]:
    """Run pytest in the copy of the tree; the status is -1 after `seconds`."""
    python = str(ROOT / ".venv" / "bin" / "python")
    options = ["-q", "-p", "no:cacheprovider", "--part", "fast"]
    argv = ["nice", "-n", "10", python, "-m", "pytest", *options, *words]
    environ = {**os.environ, "PYTHONPATH": f"{tree}:{tree / 'scripts'}"}
    process = subprocess.Popen(
        argv, cwd=tree, env=environ, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=seconds)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.communicate()
        return -1, ""


def entered_by_tests(tree: Path, record: Path, tests: Sequence[str]) -> None:
    """Run the fast tests and write to `record` which of them enter each function."""
    options = ["-n", "logical", "--ignore=tests/house"]
    words = [*options, "-p", "entered_functions", f"--entered={record}", *tests]
    status, output = run(tree, words, 7200)
    if status not in (0, 1):
        raise SystemExit(f"pytest ended with {status}:\n{output[-2000:]}")
    entered: dict[str, list[list[object]]] = {}
    for file in record.parent.glob(f"{record.name}gw*"):
        for function, names in json.loads(file.read_text("utf-8")).items():
            entered.setdefault(function, []).extend(names)
        file.unlink()
    record.write_text(json.dumps(entered), "utf-8")


def seen_by(tree: Path, fault: Fault, entered: dict[str, list[list[object]]], most: float) -> str:
    """Return the first test that fails with this fault and not without it, or ""."""
    tests = entered.get(f"{fault.file}:{fault.function}")
    if tests is None:
        # The tests see no function that another process enters: those of its package are tried.
        near = (f"tests/{fault.file.split('/')[1]}/", "tests/terminal/")
        tests = [one for those in entered.values() for one in those if str(one[0]).startswith(near)]
        tests = [*{str(one[0]): one for one in tests}.values()]
        most *= 3
    tests = sorted(tests, key=lambda one: one[1])
    chosen, cost = [], 0.0
    for test, seconds in tests:
        cost += float(str(seconds))
        if cost > most and chosen:
            break
        chosen.append(str(test))
    fault.tests = len(chosen)
    if not chosen:
        return ""
    path = tree / fault.file
    good = path.read_text("utf-8")
    path.write_text(fault.text, "utf-8")
    try:
        listed = tree / "chosen.txt"
        listed.write_text("\n".join(chosen))
        status, output = run(tree, ["-x", f"@{listed}", "--timeout", "60"], most * 4 + 60)
    finally:
        path.write_text(good, "utf-8")
    if status == -1:
        return "time limit"
    failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, re.MULTILINE)
    if failed is None and status not in (0, 2, 3):
        raise SystemExit(f"pytest ended with {status}:\n{output[-2000:]}")
    if failed is None or "::" not in failed[1]:
        return "imports" if status else ""
    listed.write_text(next((test for test in chosen if test.startswith(failed[1])), failed[1]))
    alone, _ = run(tree, [f"@{listed}", "--timeout", "60"], most * 4 + 60)
    return failed[1] if alone == 0 else ""


def tell(line: str) -> None:
    """Print a line at once, so that a long run can be followed."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Draw, plant, run and print a table; write the same as JSON."""
    given = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    given.add_argument("--seed", type=int, default=1)
    given.add_argument("--core", type=int, default=40)
    given.add_argument("--critical", type=int, default=20)
    given.add_argument("--most", type=float, default=40.0, help="CPU seconds of tests for a fault")
    given.add_argument("--entered", type=Path, help="file that keeps which tests enter what")
    given.add_argument("--out", type=Path)
    given.add_argument("tests", nargs="*", help="tests to record; default: the fast part")
    options = given.parse_args()
    rng = random.Random(options.seed)
    faults = drawn(rng, options.core, {"core": ("kogniterm/",)}, ADD_ONS)
    faults += drawn(rng, options.critical, CRITICAL)
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        tree = Path(name) / "tree"
        ignored = shutil.ignore_patterns(".venv", ".git", "__pycache__", ".*_cache")
        shutil.copytree(ROOT, tree, ignore=ignored, symlinks=True)
        record = (options.entered or Path(name) / "entered.json").resolve()
        if not record.exists():
            entered_by_tests(tree, record, options.tests)
        entered = json.loads(record.read_text())
        for number, fault in enumerate(faults, 1):
            fault.caught_by = seen_by(tree, fault, entered, options.most)
            seen = fault.caught_by or f"MISSED by {fault.tests} tests"
            tell(f"{number:3} {fault.group:12} {fault.file}:{fault.line} {fault.function}")
            tell(f"    {fault.what}: {fault.before} -> {fault.after}\n    {seen}")
            if options.out:
                options.out.write_text(json.dumps([one.plain() for one in faults], indent=1))
    for group in ("core", "critical"):
        part = [one for one in faults if (one.group == "core") == (group == "core")]
        tell(f"{group}: {sum(bool(one.caught_by) for one in part)} of {len(part)} caught")


if __name__ == "__main__":
    sys.exit(main())
