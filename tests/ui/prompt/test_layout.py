"""The toolbar: one line that fits, with any combination of parts."""

from __future__ import annotations

import pytest
from prompt_toolkit.utils import get_cwidth

from kogniterm.types import ApprovalMode
from kogniterm.ui.prompt.layout import Facts, queue_lines, short_folder, toolbar

FACTS = Facts(
    model="google_genai:gemini-2.5-flash",
    mode="auto",
    plan_mode="always",
    session="20260101",
    folder="~/project",
    tokens=12_345,
    jobs=2,
    context=13,
    dollars=0.0123,
)


@pytest.mark.parametrize("columns", range(10, 160, 7))
def test_the_toolbar_is_one_line_that_fits(columns: int) -> None:
    line = "".join(text for _style, text in toolbar(FACTS, columns))
    assert get_cwidth(line) <= columns
    assert "\n" not in line


def test_the_toolbar_drops_what_matters_least_first() -> None:
    def shown(columns: int) -> str:
        return "".join(text for _style, text in toolbar(FACTS, columns))

    assert shown(150) == (
        " google_genai:gemini-2.5-flash · auto in sandbox · plan: always · 2 jobs · "
        "12.3k tokens · context 13 % · $0.0123 · 20260101 · ~/project"
    )
    assert shown(60) == " google_genai:gemini-2.5-flash · auto in sandbox · 2 jobs"
    assert shown(49) == " google_genai:gemini-2.5-flash · auto in sandbox"
    # The mode stays, and the model's name is cut.
    assert shown(40) == " google_genai:gemini-… · auto in sandbox"
    assert shown(20) == " google_genai:gemin…"


@pytest.mark.parametrize(("mode", "sandboxed", "style", "text"), [
    ("manual", True, "muted", "ask"),
    ("accept-edits", True, "good", "accept edits"),
    ("auto", True, "warn", "auto in sandbox"),
    ("auto", False, "warn", "auto, no sandbox"),
    ("plan", True, "heading", "plan only"),
])  # fmt: skip
def test_each_mode_has_its_colour(
    mode: ApprovalMode, sandboxed: bool, style: str, text: str
) -> None:
    facts = FACTS._replace(mode=mode, sandboxed=sandboxed)
    assert (f"class:{style}", text) in toolbar(facts, 60)


def test_a_full_window_warns_and_a_cost_too_small_for_cents_is_said_so() -> None:
    line = toolbar(FACTS._replace(context=75, dollars=0.00001), 150)
    assert ("class:warn", "context 75 %") in line
    assert any(text == "<$0.0001" for _style, text in line)
    free = toolbar(FACTS._replace(dollars=0.0), 150)
    unknown = toolbar(FACTS._replace(dollars=None), 150)
    assert not any("$" in text for _style, text in (*free, *unknown))


def test_folders_are_shortened_in_the_middle() -> None:
    assert short_folder("/home/ana/code", "/home/ana") == "~/code"
    assert short_folder("/home/anabel", "/home/ana") == "/home/anabel"
    assert short_folder("/very/long/path/that/goes/on/and/on/here", "") == "…/on/here"


def test_each_queued_input_is_a_line_of_its_own() -> None:
    assert shown_queue(["first", "second\nof two lines"], 40) == (
        "queued: first\nqueued: second of two lines"
    )
    assert shown_queue(["one"], 40) == "queued: one"
    assert shown_queue(["x" * 100], 30) == "queued: " + "x" * 18


def shown_queue(waiting: list[str], columns: int) -> str:
    return "".join(text for _style, text in queue_lines(waiting, columns))
