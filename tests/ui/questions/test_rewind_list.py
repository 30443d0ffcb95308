"""The list of points to go back to, and the question what goes back, at every width."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from kogniterm.execution.undo import FileDifference, WayBack
from kogniterm.runtime.operations.rewind_session import Lost, Rewind, RewindPoint
from kogniterm.sessions.history import Point
from kogniterm.types import Effect, UserInput
from kogniterm.ui.questions.question import Answered
from kogniterm.ui.questions.rewind_list import RewindPickList, rewind_rows, way_back_question
from tests.support.language import in_spanish
from tests.ui.face import PLAIN

CHANGES = (
    FileDifference("/w/app/prices.py", "modified", "a\nb\n", "a\nc\nd\n"),
    FileDifference("/w/new\x1b[2J.txt", "created", None, "x\n"),
    FileDifference("/w/picture.png", "deleted"),
)
LOST = (
    Lost("git push origin main", (Effect("network", "github.com"),)),
    Lost("rm -r data", files=("data",)),
    Lost("python3 -c 'import os'"),
)


def point(number: int, text: str, changes: tuple[FileDifference, ...] = ()) -> RewindPoint:
    return RewindPoint(Point(number, number * 10, 0.0, UserInput(text)), changes, len(changes))


POINTS = (
    point(30, "Fix the prices\nof the shop, with a message that is longer than any line " * 3),
    point(29, "Rename the árbol", CHANGES),
    *(point(number, f"Older message {number}") for number in range(28, 4, -1)),
)
QUESTION = RewindPickList(rewind_rows(POINTS), folder="/w")


def rewind(
    changes: tuple[FileDifference, ...] = CHANGES,
    lost: tuple[Lost, ...] = LOST,
    kept: tuple[str, ...] = ("/w/out/mine\x1b.txt",),
) -> Rewind:
    return Rewind(POINTS[1].point, WayBack((), changes, kept), lost)


def test_a_line_sums_up_and_the_foot_names_the_files() -> None:
    moved = QUESTION.press("down")
    assert isinstance(moved, RewindPickList)
    shown = "\n".join(moved.document(PLAIN, 100, 24).lines)
    assert "3 files +3 -1 · 3 actions" in shown
    assert "app/prices.py" in shown
    assert "\x1b" not in shown
    with in_spanish():
        assert "sin cambios" in "\n".join(
            RewindPickList(rewind_rows(POINTS[2:])).document(PLAIN, 100, 24).lines
        )


def test_line_by_line_a_number_chooses_and_no_foot_is_shown() -> None:
    lines = QUESTION.text(PLAIN, 80).lines
    assert "3 files +3 -1" in lines[2]
    assert "prices.py" not in "\n".join(lines)
    assert QUESTION.typed("2") == Answered(290)
    assert QUESTION.typed("") == Answered(0)


def test_a_message_is_found_by_its_words_and_its_files() -> None:
    assert [row.point.point.turn for row in QUESTION.line_changed("arbol").found] == [29]
    assert [row.point.point.turn for row in QUESTION.line_changed("prices.py").found] == [29]
    assert QUESTION.line_changed("nothing like it").found == []
    assert QUESTION.line_changed("message 17").words("message 17") == Answered(170)
    assert QUESTION.back() == Answered(0)


@pytest.mark.parametrize("columns", [30, 60, 80, 160])
def test_what_goes_back_and_what_does_not_is_shown_first(columns: int) -> None:
    question = way_back_question(rewind(), "/w")
    lines = question.document(PLAIN, columns, 24).lines
    assert all(cell_len(line) <= columns for line in lines)
    assert question.document(PLAIN, columns, 5).lines == lines[:-1]
    shown = "\n".join(question.document(PLAIN, 160, 24).lines)
    for told in (
        "Rename the árbol",
        "app/prices.py  changed since: +2 -1",
        "created since; will be removed",
        "picture.png  deleted since; comes back",
        "Stays as it is (changed since, made by something else, or too large for a copy):",
        "  out/mine",
        "git push origin main — uses the network: github.com",
        "rm -r data — data was not saved",
        "python3 -c 'import os' — may have changed other files",
    ):
        assert told in shown
    assert "\x1b" not in shown


def test_only_what_can_go_back_is_offered() -> None:
    keys = [option.key for option in way_back_question(rewind(), "/w").choices]
    assert keys == ["b", "c", "f", "d", "n"]
    without = way_back_question(rewind(changes=(), lost=(), kept=()), "/w")
    assert [option.value for option in without.choices] == ["conversation", "no"]
    assert "no saved file has changed" in without.document(PLAIN, 80, 24).lines[2]
    assert without.back() == Answered("no")
    assert without.press("b") is without
    with in_spanish():
        keys = [option.key for option in way_back_question(rewind(), "/w").choices]
        assert keys == ["t", "c", "a", "v", "n"]


def test_many_files_are_counted() -> None:
    many = tuple(FileDifference(f"/w/{number}", "deleted") for number in range(20))
    shown = way_back_question(rewind(many, (), ()), "/w").document(PLAIN, 80, 24).lines
    assert sum("comes back" in line for line in shown) == 8
    assert any("12 more" in line for line in shown)


def test_a_message_of_many_lines_cannot_draw_on_the_question() -> None:
    typed = point(3, "first\nsecond \x1b[2J\u202ethird")
    question = way_back_question(Rewind(typed.point, WayBack(()), ()), "/w")
    assert "\n" not in question.message
    assert "\x1b" not in question.message
    assert "\u202e" not in question.message
