"""Every page has its promises in docs/specification.md, each with a test that exists."""

from __future__ import annotations

import ast
import os.path
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from kogniterm.ui.commands.command_table import COMMANDS
from kogniterm.ui.words.key_table import KEYS

ROOT = Path(__file__).resolve().parents[2]
SPECIFICATION = ROOT / "docs" / "specification.md"
WITHOUT_PROMISES = {
    "docs/concepts.md": "defines words; the pages that it links to promise",
    "docs/glossary.md": "lists words for those who write texts",
    "docs/own.md": "a register for developers, compared by tests/house/test_own.py",
    "docs/specification.md": "the list itself",
}
_ROW = re.compile(
    r"- \[(?P<promise>.+?)\]\((?P<page>[^)#]+)[^)]*\): (?P<tests>`[^ ]+`(?:, `[^ ]+`)*)"
    r"(?:\. Try `(?P<command>[^`]+)`: `(?P<shown>[^`]+)`(?: \((?P<status>\d+)\))?)?"
)


class Row(NamedTuple):
    """A promise, the page that it stands in, its tests, and a command to try."""

    section: str
    promise: str
    page: str
    tests: tuple[str, ...]
    command: str
    shown: str
    status: int


@cache
def rows() -> tuple[Row, ...]:
    """Return the rows of the specification."""
    found: list[Row] = []
    for part in SPECIFICATION.read_text("utf-8").split("\n## ")[1:]:
        section, *lines = part.replace("\n  ", " ").splitlines()
        found += [_row(section, line) for line in lines if line.startswith("- ")]
    return tuple(found)


def _row(section: str, line: str) -> Row:
    match = _ROW.fullmatch(line)
    assert match is not None, line
    page = os.path.relpath(SPECIFICATION.parent / match["page"], ROOT)
    tests = tuple(re.findall(r"`([^`]+)`", match["tests"]))
    command, shown, status = match["command"] or "", match["shown"] or "", match["status"] or 0
    return Row(section, match["promise"], page, tests, command, shown, int(status))


@cache
def source(file: str) -> str:
    """Return the text of a file below tests."""
    return (ROOT / "tests" / file).read_text("utf-8")


def is_test(name: str) -> bool:
    """Return whether `file::test` names a test function."""
    file, _, function = name.partition("::")
    if not (ROOT / "tests" / file).is_file():
        return False
    return any(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function
        for node in ast.parse(source(file)).body
    )


def test_the_tests_of_each_promise_exist() -> None:
    assert len(rows()) > 100
    lost = {test: row.promise for row in rows() for test in row.tests if not is_test(test)}
    assert lost == {}, "name a test that still shows the promise, or restore the test"


def test_every_page_has_its_promises_in_the_specification() -> None:
    pages = {"README.md"} | {str(page.relative_to(ROOT)) for page in ROOT.glob("docs/**/*.md")}
    assert pages - {row.page for row in rows()} == set(WITHOUT_PROMISES)


@pytest.mark.parametrize("page", ["commands.md", "keys.md"])
def test_every_section_on_commands_and_keys_is_promised(page: str) -> None:
    headings = re.findall(r"^## (.+)$", (ROOT / "docs" / page).read_text("utf-8"), re.MULTILINE)
    linked = set(re.findall(rf"\({page}#([^)]+)\)", SPECIFICATION.read_text("utf-8")))
    assert {heading.lower().replace(" ", "-") for heading in headings} - linked == set()


def typed_texts() -> str:
    """Return the sources of all tests in which a user types."""
    folders = ("ui", "flows", "terminal")
    files = [file for name in folders for file in (ROOT / "tests" / name).rglob("test_*.py")]
    files.append(ROOT / "tests" / "cli" / "test_typed_commands.py")
    return "\n".join(file.read_text("utf-8") for file in sorted(files))


def test_every_slash_command_and_control_key_is_typed_in_a_test() -> None:
    texts = typed_texts()
    typed = set(re.findall(r"[\"']/(\w+)", texts))
    typed |= {row.command[1:].split()[0] for row in rows() if row.command.startswith("/")}
    assert {command.name for command in COMMANDS} - typed == set()
    controls = {key for one in KEYS for chord in one.sequences for key in chord if key[:2] == "c-"}
    controls.remove("c-j")  # the line feed of Alt-Enter, which is typed as such
    sent = {f"c-{chr(int(code, 16) + 96)}" for code in re.findall(r"\\x([01][0-9a-f])", texts)}
    assert controls - sent == set()
