"""Measured figures in the pages name their command and date, and are the stored results."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from benchmarks.eval.report import BEGIN, END
from benchmarks.measuring import FIGURES

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
RESULTS = FIGURES.parent
MEASURED = re.compile(
    r"\b(?:takes?|took|costs?|saves?)\b[^.;|]{0,40}?(?<![\w.])[\d.]*\d (?:ms|s|times)\b"
    r"|(?<![\w.])\.\d\d\b|\b[\d.]+ of the time\b|\bratio (?:of )?\d|\b\d+ of [\d,]+\b"
    r"|\b\d+ times (?:as|the)\b|\(\d+ %|, and \d+ in auto mode, of \d+"
)
"""Words around a figure that somebody measured. Bounds and defaults are no such figures."""
COMMAND = r"`(?:python -m benchmarks\.(\w+)(?: --model [\w.]+)?|make (\w+))`"
DATE = r"20\d\d-\d\d-\d\d"


class Quote(NamedTuple):
    """A page's words about a stored result; `format` takes its values by name."""

    page: str
    command: str
    words: str


QUOTES = (
    Quote("docs/recipes.md", "python -m benchmarks.recipes",
          "Four commands of half a second take {four parallel commands of half a second:.2f} of"),
    Quote("docs/executor.md", "python -m benchmarks.sandbox_steps",
          "takes {outside:.0f} ms of processor time, {namespaces, more:.0f} ms more in a sandbox"),
    Quote("docs/architecture.md", "python -m benchmarks.sandbox_steps",
          "takes {namespaces, built:.0f} ms of processor time, "
          "a command in it {namespaces, more:.0f} ms more than outside"),
    *(
        Quote(page, f"python -m benchmarks.fresh_requests{model}",
              "solved {approved:.0f} with every command approved, "
              "and {auto mode:.0f} in auto mode, "
              "of {requests:.0f}")
        for page, model in (
            ("README.md", ""), ("docs/local-model.md", ""), ("docs/local-model.md", " --model 1.5b")
        )
    ),
    Quote("docs/own.md", "make bench",
          "a plain one-shot takes {one-shot, whole / KogniTerm warm:.1f} times as long"),
)  # fmt: skip


def stored() -> dict[str, tuple[str, dict[str, float]]]:
    """Return the date and the values of each command whose results are stored."""
    found = {
        command: (one["date"], one["values"])
        for command, one in json.loads(FIGURES.read_text("utf-8")).items()
    }
    bench = json.loads(max(RESULTS.glob("20*.json")).read_text("utf-8"))
    ratios = {
        f"{row['name']} / {floor}": row["ours"] / value
        for row in reversed(bench["rows"])
        for floor, value in row["floors"].items()
        if value
    }
    return {**found, "make bench": (bench["date"], ratios)}


def paragraphs(text: str) -> Iterator[str]:
    """Yield each paragraph, row and item of a page in one line, but no code or generated part."""
    before, _mark, rest = text.partition(BEGIN)
    text = re.sub(r"^```.*?^```", "", before + rest.partition(END)[2], flags=re.M | re.S)
    for part in re.split(r"\n\s*\n|\n(?=\s*[-|*] |\s*\d+\. |#|\|)", text):
        yield " ".join(part.split())


def unnamed(text: str) -> Iterator[str]:
    """Yield the paragraphs with a measured figure that names no command, or commit, and no date."""
    for part in paragraphs(text):
        if MEASURED.search(part) and not (
            re.search(f"{COMMAND}, {DATE}", part)
            or re.search(rf"{DATE}, commit [0-9a-f]{{7}}", part)
        ):
            yield part


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_measured_figure_names_its_command_and_date(page: Path) -> None:
    assert list(unnamed(page.read_text("utf-8"))) == []


def test_figures_without_their_command_are_found() -> None:
    planted = (
        "It takes 3 ms.", "This costs about 6.5 ms a step.", "FTS5 finds .84.", "- .32 of the time",
        "It missed 788 of 6,782 commands.", "It solved 42 (89 %).", "100 times as slow",
    )  # fmt: skip
    assert [one for one in planted if list(unnamed(one)) != [one]] == []
    good = "It takes 3 ms (`python -m benchmarks.recipes`, 2026-11-29).", "KILL 200 ms later"
    assert [one for one in good if list(unnamed(one))] == []


@pytest.mark.parametrize("quote", QUOTES, ids=lambda quote: quote.page)
def test_a_page_says_what_was_stored(quote: Quote) -> None:
    date, values = stored()[quote.command]

    def value(match: re.Match[str]) -> str:
        return format(values[match[1]], match[2]).removeprefix("0")

    said = re.sub(r"\{(.+?):([^}]*)\}", value, quote.words)
    part = next(p for p in paragraphs((ROOT / quote.page).read_text("utf-8")) if said in p)
    assert f"(`{quote.command}`, {date})" in part


def test_every_command_that_pages_quote_is_compared() -> None:
    quoted = {
        (page.relative_to(ROOT).as_posix(), match[0].split("`")[1])
        for page in PAGES
        for part in paragraphs(page.read_text("utf-8"))
        for match in re.finditer(f"{COMMAND}, {DATE}", part)
    }
    compared = {(quote.page, quote.command) for quote in QUOTES}
    # addons/local_model/test_eval_report.py compares the pages with the results of `make eval`.
    assert {one for one in quoted if one[1] != "make eval"} == compared
