"""The table of marks names what exists, and no test sets or escapes them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.figures import starts_program
from tests.support.marking import MARKS, table, unknown_rows

ROOT = Path(__file__).parents[2]
LONGEST_WAIT = 1.0
"""Seconds that an unmarked test may sleep or wait; the runner's time limit ends one that hangs."""
_WAITS = {"sleep", "wait", "wait_for", "join", "timeout", "communicate"}


def test_every_row_names_something() -> None:
    assert set(table()) == set(MARKS)
    assert list(unknown_rows(ROOT)) == []


def test_no_test_marks_itself() -> None:
    ours = re.compile(rf"mark\.({'|'.join(MARKS)})\b")
    files = (ROOT / "tests").rglob("*.py")
    assert [str(file) for file in files if ours.search(file.read_text("utf-8"))] == []


def test_what_counts_as_the_start_of_a_program() -> None:
    assert starts_program(["/usr/bin/python3", "-m", "kogniterm"])
    assert starts_program(["/venv/bin/kogniterm", "run"])
    assert starts_program(["/usr/lib/postgresql/17/bin/initdb"])
    assert starts_program(["tmux", "-S", "/tmp/one", "new-session", "-d"])
    assert not starts_program(["tmux", "-S", "/tmp/one", "capture-pane", "-p"])
    assert not starts_program(["/bin/bash", "-c", "true"])
    supervisor = ["-I", "-S", "-c", "main()"]
    assert not starts_program(["/usr/bin/python3", *supervisor])


def long_waits(source: str, named: set[str]) -> Iterator[str]:
    """Yield the calls that may wait for more than a second, outside of the functions `named`."""
    for node in ast.parse(source).body:
        name = getattr(node, "name", "")
        uses = {one.arg for one in node.args.args} if isinstance(node, ast.FunctionDef) else set()
        if name in named or not uses.isdisjoint(named):
            continue
        for call in ast.walk(node):
            if isinstance(call, ast.Call) and _longest(call) > LONGEST_WAIT:
                yield f"line {call.lineno}: {ast.unparse(call)[:80]}"


def _longest(call: ast.Call) -> float:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    given = [*call.args, *(one.value for one in call.keywords if one.arg in {"timeout", "delay"})]
    numbers = [one.value for one in given if isinstance(one, ast.Constant)]
    return max((float(one) for one in numbers if type(one) in {int, float}), default=0.0) * (
        name in _WAITS
    )


def test_no_unmarked_test_waits_for_more_than_a_second() -> None:
    rows = [row for one in table().values() for row in one.get("tests", ())]
    fixtures = {row for one in table().values() for row in one.get("fixtures", ())}
    found = []
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        name = file.relative_to(ROOT)
        if not {str(name), *map(str, name.parents)}.isdisjoint(rows):
            continue
        named = {row.partition("::")[2] for row in rows if row.startswith(f"{name}::")}
        found += [f"{name}, {one}" for one in long_waits(file.read_text(), named | fixtures)]
    assert found == []


def test_a_long_wait_is_found() -> None:
    source = "def test_a(): sleep(2)\ndef test_b(forge): done.wait(timeout=5)\ndef c(): wait(0.5)\n"
    assert list(long_waits(source, set())) != []
    assert list(long_waits(source, {"test_a", "forge"})) == []
