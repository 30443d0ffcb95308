"""Erasing the prompt's old frame after the window became narrower: all of it, and no more."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable

import pytest
from prompt_toolkit.data_structures import Point, Size
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.layout import FormattedTextControl, Layout, Window
from prompt_toolkit.output.vt100 import Vt100_Output

from kogniterm.settings import quick
from kogniterm.ui.prompt.application import ResizableApplication
from kogniterm.ui.screen.screen_preferences import Narrowing

ROWS = ["x" * 39, "y" * 25, "z" * 5, "> "]


async def erased(narrowing: Narrowing, before: list[str], columns: int) -> str:
    """Return what is sent when a window of forty cells with `before`, then `ROWS`, has changed."""
    size = Size(rows=24, columns=40)
    sent = io.StringIO()
    shown = before
    drawn = asyncio.Event()

    async def until(done: Callable[[], bool]) -> None:
        while not done():
            drawn.clear()
            await drawn.wait()

    with create_pipe_input() as keys:
        control = FormattedTextControl(
            lambda: "\n".join(shown),
            focusable=True,
            get_cursor_position=lambda: Point(1, 3),
        )
        app = ResizableApplication(
            narrowing=narrowing,
            settled=0,
            layout=Layout(Window(control)),
            input=keys,
            output=Vt100_Output(sent, lambda: size, enable_cpr=False),
        )
        app.after_render += lambda _app: drawn.set()
        running = asyncio.ensure_future(app.run_async(handle_sigint=False))
        await until(lambda: before[0] in sent.getvalue())
        shown = ROWS
        app.invalidate()
        await until(lambda: ROWS[0] in sent.getvalue())
        sent.truncate(0)
        size = Size(rows=24, columns=columns)
        app.invalidate()
        await until(lambda: "\x1b[J" in sent.getvalue())
        found = sent.getvalue()
        app.exit(result=0)
        await running
    return found.partition("\x1b[J")[0].replace("\0", "")


LONG = ["a" * 39, "b" * 38, "c" * 37, "> "]


@pytest.mark.parametrize(
    ("narrowing", "before", "columns", "moved"),
    [
        # 39 and 25 cells take two rows of 20 each, so the cursor is five rows down instead of 3.
        ("wraps", ROWS, 20, "\x08\x1b[5A"),
        ("wraps", LONG, 20, "\x08\x1b[5A"),
        # tmux also wraps the cells of a longer row that stood there before: 39, 38 and 37.
        ("wraps-cleared", LONG, 20, "\x08\x1b[6A"),
        ("cuts", LONG, 20, "\x08\x1b[3A"),
        # A wider window joins only lines that were wrapped.
        ("wraps", ROWS, 60, "\x08\x1b[3A"),
    ],
)
def test_the_old_frame_is_erased_at_the_height_it_has_now(
    narrowing: Narrowing, before: list[str], columns: int, moved: str
) -> None:
    assert asyncio.run(erased(narrowing, before, columns)).endswith(moved)


@pytest.mark.parametrize(
    ("environ", "narrowing"),
    [
        ({"TERM": "tmux-256color"}, "wraps-cleared"),
        ({"TERM": "screen-256color", "TERM_PROGRAM": "tmux", "VTE_VERSION": "7"}, "wraps-cleared"),
        ({"TERM": "screen", "VTE_VERSION": "7200"}, "cuts"),
        ({"TERM": "xterm-256color", "VTE_VERSION": "7200"}, "wraps"),
        ({"TERM": "xterm-256color", "VTE_VERSION": "7200", "XTERM_VERSION": "XTerm(390)"}, "cuts"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "wraps"),
        ({"TERM": "xterm-256color"}, "cuts"),
        ({"TERM": "xterm-kitty"}, "wraps"),
        ({"TERM": "st-256color"}, "cuts"),
    ],
)
def test_only_terminals_known_to_wrap_are_taken_to(
    environ: dict[str, str], narrowing: Narrowing
) -> None:
    assert quick({"HOME": "/nowhere", **environ}).narrowing == narrowing
