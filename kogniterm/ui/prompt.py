"""The prompt: one prompt_toolkit application that lives as long as the session does.

From top to bottom: what is in progress, an open question, queued messages, the line being
written, completions, the toolbar. What is finished is written above it, into the terminal's
own scrollback. Only prompt_toolkit and the standard library are needed for the first render.
"""

from __future__ import annotations

import asyncio
import select
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

from kogniterm.ui.answer_keys import AnswerKeys
from kogniterm.ui.bindings import prompt_bindings
from kogniterm.ui.conversation import Conversation, Panel
from kogniterm.ui.history import PrivateHistory
from kogniterm.ui.inputs import is_slash_command
from kogniterm.ui.keys import ANSWER_WORDS, NO_WORDS
from kogniterm.ui.layout import prompt_layout
from kogniterm.ui.locale import _
from kogniterm.ui.paste import Pastes
from kogniterm.ui.preferences import Preferences
from kogniterm.ui.question_keys import Line
from kogniterm.ui.resizing import ResizableApplication
from kogniterm.ui.surface import FRAME_SECONDS, TICK_SECONDS, LiveRegion
from kogniterm.ui.terminal_io import HeldOutput
from kogniterm.ui.theme import Theme, prompt_style

UNREAD_SECONDS = 0.02
"""When to look again while keys wait to be read: they come before any pause."""


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
        self.keys = AnswerKeys(_loop_time, preferences.answer_pause)
        self._settling: asyncio.TimerHandle | None = None
        self._set_aside: list[str] = []
        self._redraw: asyncio.TimerHandle | None = None
        self._drawn = 0.0
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
        """What stands on the input line, or was set aside from it, and was not sent."""
        return "\n".join(text for text in (*self._set_aside, self.buffer.text) if text)

    def take_line(self) -> str:
        """What stands on the line, pastes and all, which is empty and in the history then."""
        self.app.vi_state.input_mode = InputMode.INSERT
        text = self.pastes.expand(self.buffer.text)
        self.buffer.append_to_history()
        self.buffer.reset()
        if not self._set_aside:
            self.pastes.clear()
        self.focus()
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
        """Whether a key goes to the question: the line is empty, nothing else has the keyboard."""
        if not self.question_open or self.question_entry:
            return False
        return not self.buffer.text and not self.app.layout.is_searching

    @property
    def question_entry(self) -> bool:
        """Whether the question's entry line has the keyboard.

        The line that confirms something dangerous opens like a question: after the pause.
        """
        panel = self.panel
        if panel is None or not panel.open or not panel.typing:
            return False
        return not panel.careful or (self.keys.armed and not self.buffer.text)

    @property
    def question_line(self) -> Line:
        """What the question tells of the keyboard."""
        text = self.buffer.text
        return Line(
            self.keys.armed,
            self.keys.ready,
            self.keys.held.lower(),
            "command" if self._is_command(text) else "words" if text else "",
        )

    def question_opened(self) -> None:
        """A question was asked: it takes keys once it was seen and nobody is typing."""
        self.keys.ask()
        self.focus()

    def question_closed(self, transcript: str) -> None:
        """The question was answered; keep what it showed and give the line the keyboard back."""
        self.commit(transcript)
        if self.question_open:
            self.question_opened()
            return
        self.keys.close()
        aside, self._set_aside = self._set_aside, []
        self.restore("\n".join(aside))
        self.focus()

    def question_entry_opened(self, text: str) -> None:
        """The question wants words, starting from `text`."""
        self.entry.document = Document(text, len(text))
        self.focus()

    def press(self, key: str) -> None:
        """A key on the empty line while a question is open."""
        panel = self.panel
        if key == "enter" and panel is not None and panel.free and self.keys.armed:
            panel.enter("")
            self.refresh()
            return
        answers = panel is not None and panel.open and key.lower() in panel.options()
        text = self.keys.press(key, option=answers)
        if text:
            self._insert(text)
            if key == "enter":
                self.send_words()
        self._wait_for_pause()
        self.focus()

    def navigate(self, key: str) -> None:
        """A key that reads a question and answers nothing: it needs no pause."""
        self.keys.moved()
        if self.panel is not None and self.keys.armed:
            self.panel.key(key)
        self._wait_for_pause()
        self.refresh()

    def read_on(self) -> None:
        """The space bar on the empty line reads on, where there is more; it begins no text."""
        if self.panel is not None and "space" in self.panel.options():
            self.navigate("space")
        self.keys.typed()
        self._wait_for_pause()

    def send(self) -> None:
        """Enter on the input line."""
        if self.question_open:
            self.send_words()
        else:
            self.conversation.submit(self.take_line())

    def escape(self) -> None:
        """Esc on the input line."""
        if not self.question_open:
            self.conversation.escape()
        elif not self.back():
            self.set_aside()

    def send_words(self) -> None:
        """Enter with words on the line while a question is open."""
        panel, text = self.panel, self.pastes.expand(self.buffer.text)
        if panel is None or self._is_command(text) or not self.keys.armed:
            self.conversation.submit(self.take_line())
        elif text.strip().lower() in NO_WORDS and not panel.free and panel.words(""):
            self.take_line()
        elif text.strip().lower() in ANSWER_WORDS and not panel.free:
            self.say_below(_("Words answer nothing: empty the line with Esc, then press the key."))
        elif panel.words(text):
            self.take_line()
        else:
            self.say_below(_("Your text stays here. Esc goes back to the question."))

    def back(self) -> bool:
        """Esc at a question that was seen: what the question makes of it."""
        panel = self.panel
        if panel is None or not self.keys.armed or (self.buffer.text and not panel.free):
            return False
        if not panel.back():
            return False
        self.asked_again()
        return True

    def asked_again(self) -> None:
        """The question shows something else now, which has to be seen before a key answers it."""
        if self.question_open:
            self.keys.ask()
        self.focus()

    @property
    def panel_is_free(self) -> bool:
        """Whether words on the line answer the open question."""
        return self.panel is not None and self.panel.free

    def set_aside(self) -> None:
        """Esc with words on the line: the question gets the keys, the words come back later."""
        self._set_aside.append(self.buffer.text)
        self.buffer.reset()
        self.focus()

    def focus(self) -> None:
        """Give the keyboard to what should have it now."""
        target = self.parts.input
        if self.question_entry:
            target = self.parts.entry
        elif self.question_keys and not self.panel_is_free:
            target = self.parts.question
        if self.app.layout.current_window is not target:
            self.app.layout.focus(target)
        self.refresh()

    def _is_command(self, text: str) -> bool:
        """Whether `text` is for KogniTerm; to the model's question a path is an answer."""
        line = text.strip()
        if is_slash_command(line):
            return not self.panel_is_free or self.conversation.knows(line)
        return line.startswith("!") and not self.panel_is_free

    def _insert(self, text: str) -> None:
        """Write `text` on the line that has the keyboard."""
        self.app.vi_state.input_mode = InputMode.INSERT
        (self.entry if self.question_entry else self.buffer).insert_text(text)

    def _key_pressed(self, _processor: object) -> None:
        """Any key that does not go to the question is somebody typing."""
        if self.keys.open and not self.question_keys:
            self.keys.typed()
            self._wait_for_pause()

    def _wait_for_pause(self) -> None:
        if self._settling is not None:
            self._settling.cancel()
            self._settling = None
        due = self.keys.due()
        if due is not None:
            self._settling = asyncio.get_running_loop().call_later(due, self._settle)

    def _settle(self) -> None:
        """The pause is over, unless keys are there that nobody has read yet."""
        self._settling = None
        if self._unread():
            loop = asyncio.get_running_loop()
            self._settling = loop.call_later(UNREAD_SECONDS, self._settle)
            return
        key = self.keys.settle()
        if key and self.panel is not None and self.panel.open:
            self.panel.key(key.lower())
        self._wait_for_pause()
        self.focus()

    def _unread(self) -> bool:
        """Whether keys wait in the terminal, or the beginning of a sequence for its end."""
        if self.app.key_processor.key_buffer or self.app.key_processor.input_queue:
            return True
        return bool(select.select([self.app.input.fileno()], [], [], 0)[0])

    # --- drawing -------------------------------------------------------------------------------

    def _before_render(self, _app: Application[int]) -> None:
        """Write what is finished above the prompt, as part of the frame that follows."""
        if isinstance(self.app.output, HeldOutput):
            self.app.output.hold()
        if not self._pending:
            return
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
        if self.question_open:
            self.keys.drawn()
            if self._settling is None:
                self._wait_for_pause()

    def _draw(self) -> None:
        self._redraw = None
        self.app.invalidate()

    def _tick(self) -> None:
        self._ticker = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)
        self.refresh()

    # --- construction --------------------------------------------------------------------------

    def _input_buffer(self) -> Buffer:
        def changed(_buffer: Buffer) -> None:
            self.note = ""
            if self.keys.open:
                self.keys.typed()
                self._wait_for_pause()
                self.focus()

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
        app.key_processor.before_key_press += self._key_pressed
        app.ttimeoutlen = 0.05
        app.timeoutlen = 0.3
        return app


def _loop_time() -> float:
    """The clock by which the loop calls back."""
    return asyncio.get_running_loop().time()


class _Late(Completer):
    """Completes with whatever completer the front has by now."""

    def __init__(self, front: PromptFront) -> None:
        self._front = front

    def get_completions(self, document: Document, complete_event: object):  # type: ignore[no-untyped-def]  # a generator of prompt_toolkit's own type
        """Delegate."""
        yield from self._front.completer.get_completions(document, complete_event)  # type: ignore[arg-type]  # the event is passed on as it came
