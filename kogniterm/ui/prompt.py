"""The prompt: one prompt_toolkit application that lives as long as the session does.

From top to bottom: what is in progress, an open question, queued messages, the line being
written, completions, the toolbar. What is finished is written above it, into the terminal's
own scrollback. Only prompt_toolkit and the standard library are needed for the first render.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer, DummyCompleter
from prompt_toolkit.cursor_shapes import (
    CursorShapeConfig,
    DynamicCursorShapeConfig,
    ModalCursorShapeConfig,
)
from prompt_toolkit.document import Document
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.styles import DynamicStyle, Style

from kogniterm.ui.bindings import prompt_bindings
from kogniterm.ui.conversation import Conversation, Panel
from kogniterm.ui.history import PrivateHistory
from kogniterm.ui.layout import prompt_layout
from kogniterm.ui.paste import Pastes
from kogniterm.ui.preferences import Preferences
from kogniterm.ui.resizing import ResizableApplication
from kogniterm.ui.surface import FRAME_SECONDS, TICK_SECONDS, LiveRegion
from kogniterm.ui.terminal_io import HeldOutput, drop_typed_ahead
from kogniterm.ui.theme import Theme, prompt_style

PAUSE_SECONDS = 1.0
"""How long a person must have stopped typing before a question takes the keyboard."""


class PromptFront:
    """The screen of the REPL: a `Surface`, an input line, and the place of the ask panel."""

    def __init__(
        self,
        preferences: Preferences,
        conversation: Conversation,
        *,
        theme: Theme,
        input_: Input,
        output: Output,
        on_ready: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
        completer: Completer | None = None,
    ) -> None:
        self.preferences = preferences
        self.conversation = conversation
        self.panel: Panel | None = None
        self.history = PrivateHistory(preferences.history)
        self.pastes = Pastes()
        self.note = ""
        self.after_blank = False
        self.completer = completer or DummyCompleter()
        self._clock = clock
        self._on_ready: Callable[[], None] | None = on_ready
        self._pending: list[str] = []
        self._live: LiveRegion | None = None
        self._ticker: asyncio.TimerHandle | None = None
        self._arming: asyncio.TimerHandle | None = None
        self._redraw: asyncio.TimerHandle | None = None
        self._drawn = 0.0
        self._arm_after_render = False
        self._last_change = float("-inf")
        self._style = Style.from_dict(prompt_style(theme))
        self.buffer = self._input_buffer()
        self.entry = Buffer(name="entry", multiline=False)
        self.parts = prompt_layout(self)
        self.app: Application[int] = self._application(input_, output)

    async def run(self) -> int:
        """Show the prompt until it is left; returns the exit status."""
        return await self.app.run_async(handle_sigint=False, set_exception_handler=False)

    def exit(self, status: int) -> None:
        """Leave; what is still to be written is written first."""
        if self.app.is_running and not self.app.is_done:
            self.app.exit(result=status)

    # --- Surface -------------------------------------------------------------------------------

    def size(self) -> tuple[int, int]:
        """(rows, columns) now."""
        size = self.app.output.get_size()
        return size.rows, size.columns

    def commit(self, text: str) -> None:
        """Write `text` above the prompt with the next frame."""
        if text:
            self._pending.append(text if text.endswith("\n") else text + "\n")
            self.after_blank = self._pending[-1].endswith("\n\n")
        self.refresh()

    def refresh(self) -> None:
        """Draw again within one frame time, many calls at once. Keys draw at once."""
        # prompt_toolkit's own limit goes by the wall clock, which may jump back.
        if self._redraw is None and self.app.loop is not None:
            wait = max(self._drawn + FRAME_SECONDS - self.app.loop.time(), 0)
            self._redraw = self.app.loop.call_later(wait, self._draw)

    def animate(self, on: bool) -> None:
        """Redraw by the clock while `on`."""
        if self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None
        if on:
            self._tick()
        self.refresh()

    def control(self, sequence: str) -> None:
        """Send a sequence that shows nothing; between frames, so it never splits one."""
        self.app.output.write_raw(sequence)
        self.app.output.flush()

    def attach(self, live: LiveRegion) -> None:
        """Set what draws the live region."""
        self._live = live

    # --- for the REPL --------------------------------------------------------------------------

    def restyle(self, theme: Theme) -> None:
        """Use another theme from the next frame on."""
        self._style = Style.from_dict(prompt_style(theme))
        self.refresh()

    def use_keys(self, keys: str) -> None:
        """Switch between emacs and vi keys."""
        self.app.editing_mode = EditingMode.VI if keys == "vi" else EditingMode.EMACS

    @property
    def vi(self) -> bool:
        """Whether vi's keys are in use."""
        return self.app.editing_mode is EditingMode.VI

    @property
    def vi_waits(self) -> bool:
        """Whether letters are vi's commands now, and no text."""
        return self.vi and self.app.vi_state.input_mode is InputMode.NAVIGATION

    def restore(self, text: str) -> None:
        """Put `text` back on the input line, before what stands there."""
        if text:
            draft = self.buffer.text
            whole = f"{text}\n{draft}" if draft else text
            self.buffer.document = Document(whole, len(whole))
            self.refresh()

    def draft(self) -> str:
        """What stands on the input line."""
        return self.buffer.text

    def take_line(self) -> str:
        """What stands on the line, pastes and all, which is empty and in the history then."""
        self.app.vi_state.input_mode = InputMode.INSERT
        text = self.pastes.expand(self.buffer.text)
        self.buffer.append_to_history()
        self.buffer.reset()
        self.pastes.clear()
        self.typed()
        return text

    def say_below(self, note: str) -> None:
        """A short note in the toolbar's place until the next key."""
        self.note = note
        self.refresh()

    def live_lines(self, columns: int, rows: int) -> list[str]:
        """The live region, or nothing while a question is open."""
        if self._live is None or self.question_open or rows < 1:
            return []
        return self._live(columns, rows)

    # --- questions -----------------------------------------------------------------------------

    @property
    def question_open(self) -> bool:
        """Whether a question is on the screen."""
        return self.panel is not None and self.panel.open

    @property
    def question_keys(self) -> bool:
        """Whether single keys answer the question now."""
        panel = self.panel
        return panel is not None and panel.open and panel.armed and not panel.typing

    @property
    def question_entry(self) -> bool:
        """Whether the question's entry line has the keyboard."""
        return self.panel is not None and self.panel.typing

    def question_opened(self) -> None:
        """A question was asked: give it the keyboard as soon as nobody is typing."""
        self._try_arming()
        self.refresh()

    def question_closed(self, transcript: str) -> None:
        """The question was answered; keep what it showed and give the line the keyboard back."""
        if self._arming is not None:
            self._arming.cancel()
            self._arming = None
        self._arm_after_render = False
        self.commit(transcript)
        self.focus()

    def question_entry_opened(self, text: str) -> None:
        """The question wants words, starting from `text`."""
        self.entry.document = Document(text, len(text))
        self.focus()

    def focus(self) -> None:
        """Give the keyboard to what should have it now."""
        target = self.parts.input
        if self.question_entry:
            target = self.parts.entry
        elif self.question_keys:
            target = self.parts.question
        if self.app.layout.current_window is not target:
            self.app.layout.focus(target)
        self.refresh()

    def typed(self) -> None:
        """Whatever was typed last was sent or taken back: nobody is in the middle of it."""
        self._last_change = float("-inf")
        if self.question_open:
            self._try_arming()

    def _try_arming(self) -> None:
        if self._arming is not None:
            self._arming.cancel()
            self._arming = None
        panel = self.panel
        if panel is None or not panel.open or panel.armed:
            return
        quiet = self._clock() - self._last_change
        if self.buffer.text and quiet < PAUSE_SECONDS:
            loop = asyncio.get_running_loop()
            self._arming = loop.call_later(PAUSE_SECONDS - quiet, self._try_arming)
            return
        self._arm_after_render = True
        self.refresh()

    # --- drawing -------------------------------------------------------------------------------

    def _before_render(self, _app: Application[int]) -> None:
        """Write what is finished above the prompt, as part of the frame that follows."""
        if not self._pending:
            return
        if isinstance(self.app.output, HeldOutput):
            self.app.output.hold()
        self.app.renderer.erase()
        self.write_pending()

    def write_pending(self) -> None:
        """Write what is finished where the cursor stands; nothing else may be drawn there."""
        text, self._pending = "".join(self._pending), []
        self.app.output.write_raw(text.replace("\n", "\r\n"))
        self.app.output.flush()

    def _after_render(self, app: Application[int]) -> None:
        if isinstance(app.output, HeldOutput):
            app.output.release()
        if app.loop is not None:
            self._drawn = app.loop.time()
        if self._on_ready is not None:
            ready, self._on_ready = self._on_ready, None
            ready()
        panel = self.panel
        if self._arm_after_render and panel is not None and panel.open:
            self._arm_after_render = False
            drop_typed_ahead(self.app.input.fileno())
            panel.armed = True
            self.focus()

    def _draw(self) -> None:
        self._redraw = None
        self.app.invalidate()

    def _tick(self) -> None:
        self._ticker = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)
        self.refresh()

    # --- construction --------------------------------------------------------------------------

    def _input_buffer(self) -> Buffer:
        def changed(_buffer: Buffer) -> None:
            self._last_change = self._clock()
            self.note = ""

        buffer = Buffer(
            name="input",
            multiline=True,
            history=self.history,
            complete_while_typing=Condition(self._completes_while_typing),
            completer=_Late(self),
            enable_history_search=False,
        )
        buffer.on_text_changed += changed
        return buffer

    def _completes_while_typing(self) -> bool:
        before = self.buffer.document.current_line_before_cursor
        word = before.rpartition(" ")[2]
        return before.startswith("/") or word.startswith("@")

    def _cursor(self) -> CursorShapeConfig | None:
        """vi's modes show in the cursor's shape; otherwise it is the terminal's own."""
        return ModalCursorShapeConfig() if self.vi else None

    def _application(self, input_: Input, output: Output) -> Application[int]:
        app = ResizableApplication(
            narrowing=self.preferences.narrowing,
            layout=self.parts.layout,
            key_bindings=prompt_bindings(self),
            style=DynamicStyle(lambda: self._style),
            include_default_pygments_style=False,
            color_depth=None if self.preferences.color else ColorDepth.DEPTH_1_BIT,
            editing_mode=EditingMode.VI if self.preferences.keys == "vi" else EditingMode.EMACS,
            cursor=DynamicCursorShapeConfig(self._cursor),
            erase_when_done=True,
            before_render=self._before_render,
            after_render=self._after_render,
            input=input_,
            output=output,
        )
        app.ttimeoutlen = 0.05
        app.timeoutlen = 0.3
        return app


class _Late(Completer):
    """Completes with whatever completer the front has by now."""

    def __init__(self, front: PromptFront) -> None:
        self._front = front

    def get_completions(self, document: Document, complete_event: object):  # type: ignore[no-untyped-def]  # a generator of prompt_toolkit's own type
        """Delegate."""
        yield from self._front.completer.get_completions(document, complete_event)  # type: ignore[arg-type]  # the event is passed on as it came
