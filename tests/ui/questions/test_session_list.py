"""The list of sessions: filtered while typing, at every width, with keys and line by line."""

from __future__ import annotations

import asyncio

import pytest
from prompt_toolkit.input.base import PipeInput
from rich.cells import cell_len

from kogniterm.sessions.store import Condition
from kogniterm.ui.questions.question import Answered
from kogniterm.ui.questions.session_list import SessionPickList, SessionRow
from kogniterm.ui.screen.screen_preferences import KeyTimes
from tests.ui.face import PLAIN, PlayedSession, nothing
from tests.ui.live import Live, live_repl


def row(
    name: str, title: str, condition: Condition = "done", folder: str = "~/src/app"
) -> SessionRow:
    return SessionRow(f"{name}00000000", "2 h", folder, title, condition)


ROWS = (
    row("a1", "Fix the failing tests of the parser, then bump the version"),
    row("b2", "Árbol de directorios", "question", "~/work/customers/northwind/terraform"),
    row("c3", "Why is the disk full?", "interrupted", "~"),
    row("d4", "Deploy", "elsewhere"),
    *(row(f"e{number}", f"Older task {number}") for number in range(20)),
)


@pytest.mark.parametrize("columns", [40, 60, 80, 160])
@pytest.mark.parametrize("rows", [6, 24])
def test_each_session_is_one_line_that_fits(columns: int, rows: int) -> None:
    question = SessionPickList(ROWS)
    for _ in range(len(ROWS)):
        lines = question.document(PLAIN, columns, rows).lines
        assert len(lines) <= rows
        assert sum("▸" in line for line in lines) == 1
        assert all(cell_len(line) <= columns for line in lines)
        moved = question.press("down")
        assert isinstance(moved, SessionPickList)
        question = moved
    assert "Older task 19" in "\n".join(question.document(PLAIN, 80, 24).lines)


def test_a_line_shows_age_folder_title_and_state() -> None:
    shown = SessionPickList(ROWS).document(PLAIN, 100, 24).lines
    assert shown[2].split() == [
        "2",
        "h",
        "~/…/northwind/terraform",
        "Árbol",
        "de",
        "directorios",
        "question",
        "pending",
    ]


def test_words_filter_and_the_arrows_stay_in_what_is_left() -> None:
    question = SessionPickList(ROWS).line_changed("ARBOL north")
    assert [one.id[:2] for one in question.found] == ["b2"]
    question = SessionPickList(ROWS).line_changed("older")
    for _ in range(30):
        moved = question.press("down")
        assert isinstance(moved, SessionPickList)
        question = moved
    assert question.words("older") == Answered(ROWS[-1].id)
    assert question.press("pageup").words("older") == Answered(ROWS[-11].id)  # type: ignore[union-attr]
    nothing = question.line_changed("no such thing")
    assert nothing.words("no such thing") == nothing
    assert "No session matches." in "\n".join(nothing.document(PLAIN, 80, 24).lines)


def test_one_that_is_open_elsewhere_is_not_picked() -> None:
    question = SessionPickList(ROWS).line_changed("deploy")
    told = question.words("deploy")
    assert isinstance(told, SessionPickList)
    assert "another process" in told.note


def test_line_by_line_a_number_or_words_pick() -> None:
    question = SessionPickList(ROWS)
    text = "\n".join(question.text(PLAIN, 80).lines)
    assert " 2  2 h  ~/…/terraform" in text
    assert "4 more" in text
    assert question.typed("2") == Answered(ROWS[1].id)
    assert question.typed("disk") == Answered(ROWS[2].id)
    assert question.typed("") == Answered("")
    narrowed = question.typed("older")
    assert isinstance(narrowed, SessionPickList)
    assert narrowed.typed("1") == Answered(ROWS[4].id)


# --- at the prompt ----------------------------------------------------------------------------


def picking(keys: PipeInput) -> tuple[Live, PlayedSession]:
    # A pause that never ends: no key of this question waits for one.
    return live_repl(keys, nothing, key_times=KeyTimes(3600, 3600, 3600))


async def test_what_is_typed_at_once_filters_and_enter_picks(keys: PipeInput) -> None:
    live, session = picking(keys)
    await live.until("· ask ·")
    asked = asyncio.ensure_future(live.repl.pick_session(ROWS))
    await live.until("type to filter")
    live.press("older\x1b[B\x1b[B\r")
    assert await asked == ROWS[6].id
    await live.until(lambda: not live.prompt.line.buffer.text)
    assert session.inputs == []
    await live.leave()


@pytest.mark.parametrize("key", ["\x1b", "\x03"])
async def test_leaving_the_list_leaves_nothing_behind(keys: PipeInput, key: str) -> None:
    live, session = picking(keys)
    await live.until("· ask ·")
    asked = asyncio.ensure_future(live.repl.pick_session(ROWS))
    await live.until("type to filter")
    live.press("old")
    await live.until("1 of 20")
    if key == "\x03":
        live.press(key)  # the first one clears the line
        await live.until("1 of 24")
    live.press(key)
    assert await asked == ""
    await live.until(lambda: not live.prompt.line.buffer.text)
    assert session.inputs == []
    await live.leave()
