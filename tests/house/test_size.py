"""The size of each package and of each folder of tests, listed in `size.toml`.

The figures of the package may only fall. A commit that raises its lines has a line
`Size: +N because …`; the gate reads it.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import tomllib
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.house.source import PACKAGE, Module, Tree, checkout
from tests.support.programs import needs

ROOT = Path(__file__).parents[2]
LEDGER = Path(__file__).with_name("size.toml")
NAME = str(LEDGER.relative_to(ROOT))
UPDATE = bool(os.environ.get("UPDATE_SIZE"))
HEAD = """\
# Sizes, compared with the tree by test_size.py; written with UPDATE_SIZE=1. Those of the package
# may only fall: a commit that raises its lines says `Size: +N because …`.
# Each row: lines; lines of code, which are those that are not blank, a comment, or part of a
# string that is a statement; modules; imports of other packages; modules that a turn with a
# command enters. `core` is all but the add-ons.
"""
Sizes = dict[str, dict[str, int]]


def package_sizes(tree: Tree) -> Sizes:
    """Return the figures of each package below kogniterm; its own modules count as `kogniterm`."""
    sizes: dict[str, Counter[str]] = defaultdict(Counter)
    entered = LEDGER.with_name("path.txt").read_text("utf-8").split()
    for module in tree:
        package = _package(module.name, module.path.name == "__init__.py")
        size = sizes[package]
        size["lines"] += module.text.count("\n")
        size["code"] += code_lines(module)
        size["modules"] += 1
        targets = {tree.home(one.target) for one in module.imports} - {None}
        own = f"{PACKAGE}.{package.replace('/', '.')}"
        size["imports"] += sum(not str(name).startswith(own) for name in targets)
        size["entered"] += module.name in entered
    return {name: dict(size) for name, size in sorted(sizes.items())}


def code_lines(module: Module) -> int:
    """Return the lines of code, as the head of the ledger defines them."""
    strings = {
        number
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    numbered = enumerate(module.text.splitlines(), 1)
    return sum(
        bool(line.strip()) and not line.lstrip().startswith("#") and number not in strings
        for number, line in numbered
    )


def _package(module: str, is_package: bool) -> str:
    words = module.split(".")
    if words[1:2] == ["addons"] and len(words) > 2:
        return "/".join(words[1:3]) if len(words) > 3 or is_package else "addons"
    return words[1] if len(words) > 2 or (is_package and len(words) > 1) else PACKAGE


def folder_sizes(root: Path) -> Sizes:
    """Return lines and test functions of each folder below tests."""
    sizes: dict[str, Counter[str]] = defaultdict(Counter)
    for file in sorted((root / "tests").rglob("*.py")):
        words = file.relative_to(root / "tests").parts
        text = file.read_text("utf-8")
        size = sizes[words[0] if len(words) > 1 else "tests"]
        size["lines"] += text.count("\n")
        size["tests"] += len(re.findall(r"^ *(?:async )?def test_", text, re.MULTILINE))
    return {name: dict(size) for name, size in sorted(sizes.items())}


def written(packages: Sizes, tests: Sizes) -> str:
    """Return the text of the ledger."""
    lines = [HEAD, "[packages]"]
    lines += [_row(name, packages[name]) for name in sorted(packages)]
    core = {name: size for name, size in packages.items() if not name.startswith("addons")}
    lines += [_row("core", _sum(core)), _row("all", _sum(packages)), "", "[tests]"]
    lines += [_row(name, tests[name]) for name in sorted(tests)]
    return "\n".join([*lines, _row("all", _sum(tests)), ""])


def _sum(sizes: Sizes) -> dict[str, int]:
    total: Counter[str] = Counter()
    for size in sizes.values():
        total.update(size)
    return dict(total)


def _row(name: str, size: dict[str, int]) -> str:
    name = f'"{name}"' if "/" in name else name
    return f"{name} = {{ {', '.join(f'{key} = {value}' for key, value in size.items())} }}"


@pytest.fixture(scope="module")
def now() -> str:
    """Return the ledger as it would be for this tree."""
    return written(package_sizes(checkout()), folder_sizes(ROOT))


def test_the_ledger_is_true(now: str) -> None:
    if UPDATE:
        LEDGER.write_text(now, "utf-8")
    listed, found = tomllib.loads(LEDGER.read_text("utf-8")), tomllib.loads(now)
    changed = [
        f"{part}.{name}: {listed[part].get(name)} became {found[part].get(name)}"
        for part in found
        for name in sorted({*listed[part], *found[part]})
        if listed[part].get(name) != found[part].get(name)
    ]
    assert changed == [], "write it with UPDATE_SIZE=1; a rise of kogniterm needs its reason"


def rises(root: Path) -> list[str]:
    """Return the commits that raise the lines of kogniterm without saying why."""
    commits = _git(root, "log", "--no-merges", "--format=%H", "--", NAME).split()
    found = []
    for commit in commits[:-1]:  # the oldest one made the file
        before, after = (
            _lines(_git(root, "show", f"{one}:{NAME}")) for one in (f"{commit}^", commit)
        )
        message = _git(root, "log", "-1", "--format=%B", commit)
        said = re.search(r"^Size: \+(\d+) because \S", message, re.MULTILINE)
        if after > before and (said is None or int(said[1]) < after - before):
            found.append(f"{commit[:10]} raises the lines of kogniterm by {after - before}")
    return found


def _lines(ledger: str) -> int:
    return int(tomllib.loads(ledger)["packages"]["all"]["lines"])


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True)
    return done.stdout


@needs("git")
def test_a_rise_has_its_reason() -> None:
    assert rises(ROOT) == [], "add a line `Size: +N because …` to the message"


@needs("git")
def test_a_rise_without_a_reason_is_found(tmp_path: Path) -> None:
    def commit(lines: int, message: str) -> None:
        file = tmp_path / NAME
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"[packages]\nall = {{ lines = {lines} }}\n")
        _git(tmp_path, "add", ".")
        _git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", message)

    _git(tmp_path, "init", "-q")
    commit(10, "Begin")
    commit(12, "Add two lines\n\nSize: +2 because they are needed")
    commit(11, "Remove one")
    assert rises(tmp_path) == []
    commit(14, "Add three lines\n\nSize: +2 because of a wrong count")
    assert [one.split(" ", 1)[1] for one in rises(tmp_path)] == [
        "raises the lines of kogniterm by 3"
    ]
