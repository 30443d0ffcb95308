"""Every promise of README and docs is listed with the terminal test that shows it."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TERMINAL = ROOT / "tests" / "terminal"
LIST = TERMINAL / "promises.toml"
PAGES = [
    "README.md",
    *(str(page.relative_to(ROOT)) for page in sorted((ROOT / "docs").rglob("*.md"))),
]
ALL_ROWS = {
    "docs/commands.md": r"^\| (`/[^|]*(?:\\\|[^|]*)*) \|",
    "docs/keys.md": r"^\| ((?!key\b|command\b|-)[^|`]+) \| ",
}
"""Pages in which every table row is a separate promise."""
_SITS = re.compile(r"\b(open_terminal|terminal: RealTerminal)\b")
"""Ways to get a real terminal: a test opens one, or a fixture of its module has opened it."""
Rows = dict[str, str | list[str] | dict[str, str]]


def listed() -> dict[str, Rows]:
    """Return the list: by page, the promises and the tests that show them."""
    return tomllib.loads(LIST.read_text("utf-8"))


def flat(text: str) -> str:
    """Return a text without line breaks and quoting marks."""
    return re.sub(r"\s+", " ", text.replace("`", ""))


def sections(page: str) -> dict[str, str]:
    """Return the text of a page below each of its headings."""
    text = (ROOT / page).read_text("utf-8")
    fences = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
    text = fences.sub(lambda block: block[0].replace("\n#", "\n #"), text)
    parts = re.split(r"^(#{1,3} .*)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], map(flat, parts[2::2]), strict=True))


def shown_by(row: str | list[str] | dict[str, str]) -> list[str]:
    """Return the tests that a row names."""
    if isinstance(row, dict):
        return [row["test"]] if "test" in row else []
    return [row] if isinstance(row, str) else row


@pytest.mark.parametrize("page", PAGES)
def test_every_section_of_a_page_has_promises_or_a_reason_why_not(page: str) -> None:
    rows = listed().get(page, {})
    quoted = [flat(excerpt) for excerpt in rows if not excerpt.startswith("#")]
    bare = {heading for heading in rows if heading.startswith("#")}
    without = {
        heading
        for heading, text in sections(page).items()
        if text.strip() and not any(excerpt in text for excerpt in quoted)
    }
    assert without - bare == set(), "list what these sections promise, or say why they do not"
    assert bare - set(sections(page)) == set(), "these headings are gone"


@pytest.mark.parametrize("page", PAGES)
def test_every_quoted_promise_still_stands_in_its_page(page: str) -> None:
    text = " ".join(sections(page).values())
    rows = listed().get(page, {})
    gone = [row for row in rows if not row.startswith("#") and flat(row) not in text]
    assert gone == [], "the page changed: look at the tests of these promises again"


def test_every_named_test_exists_and_sits_at_a_real_terminal() -> None:
    known: dict[str, str] = {}
    for file in sorted(TERMINAL.glob("test_*.py")):
        for node in ast.parse(file.read_text("utf-8")).body:
            if isinstance(node, ast.FunctionDef):
                known[f"{file.stem}::{node.name}"] = ast.unparse(node)
    named = [
        (test, excerpt, row)
        for rows in listed().values()
        for excerpt, row in rows.items()
        if not excerpt.startswith("#")
        for test in shown_by(row)
    ]
    assert [(test, excerpt) for test, excerpt, _ in named if test not in known] == []
    assert [test for test, _, _ in named if not _SITS.search(known[test])] == []


def test_a_promise_without_a_terminal_test_says_why() -> None:
    for page, rows in listed().items():
        for excerpt, row in rows.items():
            if excerpt.startswith("#"):
                assert isinstance(row, str), (page, excerpt)
                assert len(row) > 10, (page, excerpt)
            elif isinstance(row, dict):
                assert set(row) <= {"why", "test"}, (page, excerpt)
                assert len(row["why"]) > 10, (page, excerpt)
            else:
                assert shown_by(row), (page, excerpt)


@pytest.mark.parametrize("page", ALL_ROWS)
def test_every_row_of_a_table_of_keys_and_commands_is_listed(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    found = {flat(row) for row in re.findall(ALL_ROWS[page], text, flags=re.MULTILINE)}
    quoted = [flat(excerpt) for excerpt in listed().get(page, {})]
    assert len(found) > 10
    missing = [row for row in found if not any(quote.startswith(f"{row} |") for quote in quoted)]
    assert missing == []
