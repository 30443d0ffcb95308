"""The prompt's application: one that lives as long as the REPL, and survives a resized window.

From top to bottom: what is in progress, an open question, queued messages, the line being
written, completions, the toolbar. What is finished is written above it, into the terminal's
own scrollback. Only prompt_toolkit and the standard library are needed for the first render.

prompt_toolkit erases the old frame by moving up as many rows as it drew. A terminal that has been
made narrower has wrapped those rows by then (it "reflows"), so the frame stands higher than that,
and every new width would leave the head of an old frame in the scrollback. Here the frame's
height is worked out for the width it has now, and nothing is drawn while the width still changes:
what is drawn between a change and the news of it would be neither one width nor the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.cursor_shapes import (
    CursorShapeConfig,
    DynamicCursorShapeConfig,
    ModalCursorShapeConfig,
)
from prompt_toolkit.data_structures import Point
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.input import Input
from prompt_toolkit.layout.screen import Screen
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.styles import DynamicStyle

from kogniterm.ui.prompt.bindings import prompt_bindings
from kogniterm.ui.prompt.layout import prompt_layout
from kogniterm.ui.prompt.prompt import Prompt
from kogniterm.ui.screen.screen_preferences import Narrowing

SETTLED_SECONDS = 0.3
"""Seconds for which a size must last: tmux passes on the sizes of a drag every 0.25 s."""


def open_application(
    prompt: Prompt, input_: Input, output: Output, on_ready: Callable[[], None]
) -> Application[int]:
    """Return the application of `prompt`; `on_ready` is called after the first frame."""
    ready: list[Callable[[], None]] = [on_ready]

    def cursor() -> CursorShapeConfig | None:
        """Show vi's modes in the cursor's shape; otherwise it is the terminal's own."""
        return ModalCursorShapeConfig() if prompt.line.vi else None

    def frame_begins(_app: object) -> None:
        prompt.surface.frame_begins()

    def frame_ends(_app: object) -> None:
        prompt.surface.frame_ends()
        if ready:
            ready.pop()()
        prompt.drawn()

    parts = prompt_layout(prompt)
    preferences = prompt.preferences
    app = ResizableApplication(
        narrowing=preferences.narrowing,
        layout=parts.layout,
        key_bindings=prompt_bindings(prompt),
        style=DynamicStyle(lambda: prompt.surface.style),
        include_default_pygments_style=False,
        color_depth=None if preferences.color else ColorDepth.DEPTH_1_BIT,
        editing_mode=EditingMode.VI if preferences.keys == "vi" else EditingMode.EMACS,
        cursor=DynamicCursorShapeConfig(cursor),
        erase_when_done=True,
        before_render=frame_begins,
        after_render=frame_ends,
        input=input_,
        output=output,
    )
    app.ttimeoutlen = 0.05
    app.timeoutlen = 0.3
    prompt.use(app, parts)
    return app


class ResizableApplication(Application[int]):
    """An application that waits for a window to keep its size before it draws again.

    Then it erases the whole of what it drew: as high as `narrowing` says that the terminal has made
    it. `settled` is in seconds.
    """

    def __init__(
        self, *, narrowing: Narrowing, settled: float = SETTLED_SECONDS, **parts: Any
    ) -> None:
        super().__init__(**parts)
        self._narrowing = narrowing
        self._seconds = settled
        self._settling: asyncio.TimerHandle | None = None
        self._begun = 0.0
        self._wrapped = False
        self._used: list[int] = []
        self.before_render += self._begin
        self.after_render += self._measure

    def _on_resize(self) -> None:
        self._wait()

    def _redraw(self, render_as_done: bool = False) -> None:
        drawn = self.renderer._last_size
        if not render_as_done and drawn is not None and drawn != self.output.get_size():
            # The new size was noticed before its signal; drawing continues when it has settled.
            if self._settling is None:
                self._wait()
            return
        if render_as_done:
            self._cancel()
            self._follow()
        super()._redraw(render_as_done)

    def _wait(self) -> None:
        if self.loop is None:
            return
        if self._settling is None:
            # Rows begun just before the news of the change may have met the new width already,
            # which cut them. To take them for wrapped would erase lines that are not ours.
            self._wrapped = self.loop.time() - self._begun >= self._seconds
        self._cancel()
        self._settling = self.loop.call_later(self._seconds, self._wait_until_settled)

    def _cancel(self) -> None:
        if self._settling is not None:
            self._settling.cancel()
            self._settling = None

    def _wait_until_settled(self) -> None:
        self._settling = None
        if not self._is_running or self._running_in_terminal:
            return  # The current owner of the terminal draws for its size.
        self._follow()
        self.renderer.erase(leave_alternate_screen=False)
        self._redraw()

    def _begin(self, _app: object) -> None:
        """Note that a frame is about to be drawn, over the last one or on erased rows."""
        fresh = self.renderer.last_rendered_screen is None
        if fresh and self.loop is not None:
            self._begun = self.loop.time()
        if fresh or self._narrowing != "wraps-cleared":
            self._used.clear()

    def _measure(self, _app: object) -> None:
        """Note how many cells of its rows the terminal holds, now that a frame was drawn."""
        screen, size = self.renderer.last_rendered_screen, self.renderer._last_size
        if self._narrowing == "cuts" or screen is None or size is None:
            return
        rows = min(screen.height, size.rows)
        self._used += [0] * (rows - len(self._used))
        for row in range(rows):
            self._used[row] = max(self._used[row], cells_used(screen, row, size.columns))

    def _follow(self) -> None:
        """Put the renderer's notion of the cursor where the terminal has taken it."""
        renderer = self.renderer
        size, columns = renderer._last_size, self.output.get_size().columns
        cut = self._narrowing == "cuts" or not self._wrapped
        if cut or size is None or columns >= size.columns:
            return
        x, y = renderer._cursor_pos
        above = sum(max(-(-used // columns), 1) for used in self._used[:y])
        renderer._cursor_pos = Point(x=x % columns, y=above + x // columns)


def cells_used(screen: Screen, row: int, columns: int) -> int:
    """Return how many cells `row` of `screen` takes, blanks at its end not counted."""
    cells = screen.data_buffer[row]
    last = next((x for x in range(columns - 1, -1, -1) if cells[x].char != " "), -1)
    return last + max(cells[last].width, 1) if last >= 0 else 0
