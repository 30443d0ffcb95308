"""Marks of tests from one table, and the parts of the suite that are chosen by them.

`tests/markers.toml` says what tests need and which are the journeys, by fixture, folder, file or
test; nothing else sets these marks. `tests.support.figures` fails a test that starts a program
without the mark.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from tests.support.programs import own_sandbox

TABLE = Path(__file__).parents[1] / "markers.toml"
MARKS = {
    "starts": "starts KogniTerm, another Python program or a server",
    "slow": "takes more than 0.8 seconds of CPU time, or waits for as long",
    "postgres": "needs a PostgreSQL server, which the fixtures start",
    "weights": "loads the embedded model's weights (`make weights`)",
    "sandboxes": "runs in a kind of sandbox that is not the machine's own",
    "users": "differs for root: users, sandboxes, control groups",
    "packages": "builds or installs a package",
    "registry": "needs programs of npm or PyPI, which a fixture installs",
    "journey": "a journey at a real terminal that belongs to `make test`",
}
PARTS = {
    "fast": "what `make test` runs: tests that need nothing, and the journeys",
    "rest": "all other tests",
    "needs": "tests that a missing program changes",
    "users": "the fast tests that differ for root",
    "root": "those of the rest that differ for root",
}
_LEFT_OUT = frozenset(MARKS) - {"users", "journey"}
_NEEDING = re.compile(r"\b(needs|require|require_sandbox)\(")


@cache
def table() -> dict[str, dict[str, list[str]]]:
    """Return the table: for each mark, the `fixtures`, `parameters` and `tests` that have it."""
    return tomllib.loads(TABLE.read_text("utf-8"))


@cache
def _marks() -> dict[tuple[str, str], list[str]]:
    """Return the marks of each row, by its kind and its text."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, rows in table().items():
        for kind, named in rows.items():
            for row in named:
                found.setdefault((kind, row), []).append(name)
    return found


@cache
def _of_file(file: str) -> tuple[str, ...]:
    places = (file, *map(str, Path(file).parents))
    return tuple(name for place in places for name in _marks().get(("tests", place), ()))


def mark(item: pytest.Item) -> None:
    """Add the marks of the table to a test that was collected."""
    test = item.nodeid.partition("[")[0]
    fixtures = {*getattr(item, "fixturenames", ())} - {*_parametrized(item)}
    used = [("tests", test), *(("fixtures", name) for name in fixtures)]
    if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
        used += [("parameters", one) for one in item.callspec.params.values() if type(one) is str]
    names = {*_of_file(test.partition("::")[0])}
    for row in used:
        found = _marks().get(row, ())
        names.update(found if "sandboxes" not in found or row[1] != own_sandbox() else ())
    for name in sorted(names):
        item.add_marker(name)


def _parametrized(item: pytest.Item) -> Iterator[str]:
    """Yield the arguments of a test that `parametrize` gives; pytest lists them as fixtures."""
    for one in item.iter_markers("parametrize"):
        if not one.kwargs.get("indirect"):
            names = one.args[0]
            yield from re.split(r", *", names) if isinstance(names, str) else names


def belongs(item: pytest.Item, parts: Sequence[str]) -> bool:
    """Return whether a test belongs to one of some parts of `PARTS`."""
    marks = {one.name for one in item.iter_markers()}
    is_journey = "journey" in marks and "sandboxes" not in marks
    mine = ["fast" if is_journey or marks.isdisjoint(_LEFT_OUT) else "rest"]
    if "users" in marks:
        mine.append({"fast": "users", "rest": "root"}[mine[0]])
    if "needs" in marks or _file_needs(item.path):
        mine.append("needs")
    return not {*mine}.isdisjoint(parts)


@cache
def _file_needs(file: Path) -> bool:
    return bool(_NEEDING.search(file.read_text("utf-8")))


def unknown_rows(root: Path) -> Iterator[str]:
    """Yield the rows of the table that name no file, folder or test of the tree."""
    for name, rows in table().items():
        for row in rows.get("tests", ()):
            file, _, test = row.partition("::")
            path = root / file
            if not path.exists() or (test and f"def {test}(" not in path.read_text("utf-8")):
                yield f"{name}: {row}"
