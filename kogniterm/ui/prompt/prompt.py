"""The prompt: the surface above it, the input line, the open question, and who has the keyboard.

A key answers a question only while the input line is empty; when, is decided by `answer_keys`.
Every other key is text for the line.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.layout import Layout, Window
from prompt_toolkit.styles import Style

from kogniterm.runtime.inputs.called_input import is_slash_command
from kogniterm.ui.controls import Controls
from kogniterm.ui.locale import _
from kogniterm.ui.prompt.attachments import ClipboardImages
from kogniterm.ui.prompt.input_line import InputLine
from kogniterm.ui.questions.answer_keys import AnswerKeys
from kogniterm.ui.questions.panel import Line, QuestionPanel
from kogniterm.ui.screen.screen_preferences import Theme, prompt_style
from kogniterm.ui.screen.surface import FRAME_SECONDS, TICK_SECONDS, LiveRegion
from kogniterm.ui.terminal.terminal_io import HeldOutput
from kogniterm.ui.words.key_table import ANSWER_WORDS, NO_WORDS

if TYPE_CHECKING:
    from prompt_toolkit.key_binding.key_processor import KeyProcessor

    from kogniterm.ui.screen.paint import Painter

UNREAD_SECONDS = 0.02
"""Seconds until the next look while keys wait to be read: they come before any pause."""


class PromptSurface:
    """Implements `Surface` above the prompt; `note` stands in the toolbar's place.

    Nothing moves while `hides_live`: an open question takes the place of the live region.
    """

    app: Application[int]

    def __init__(self, theme: Theme) -> None:
        self.style = Style.from_dict(prompt_style(theme))
        self.note: Callable[[], str] = str
        self.after_blank = False
        self.live: LiveRegion | None = None
        self.hides_live: Callable[[], bool] = bool
        self._pending: list[str] = []
        self._ticker: asyncio.TimerHandle | None = None
        self._redraw: asyncio.TimerHandle | None = None
        self._drawn = 0.0

    def size(self) -> tuple[int, int]:
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
        """Redraw by the clock while `on` and something that moves is shown."""
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
        self.live = live

    def restyle(self, theme: Theme) -> None:
        """Use another theme from the next frame on."""
        self.style = Style.from_dict(prompt_style(theme))
        self.refresh()

    def say_below(self, note: str, holds: Callable[[], bool] | None = None) -> None:
        """Show a short note in the toolbar's place until the next key, or as long as it `holds`."""
        self.note = lambda: note if holds is None or holds() else ""
        self.refresh()

    def frame_begins(self) -> None:
        """Write what is finished above the prompt, as part of the frame that follows."""
        if isinstance(self.app.output, HeldOutput):
            self.app.output.hold()
        if self._pending:
            self.app.renderer.erase()
            self.write_pending()

    def frame_ends(self) -> None:
        """Let the whole frame reach the terminal."""
        if isinstance(self.app.output, HeldOutput):
            self.app.output.release()
        if self.app.loop is not None:
            self._drawn = self.app.loop.time()

    def write_pending(self) -> None:
        """Write what is finished where the cursor stands; nothing else may be drawn there."""
        text, self._pending = "".join(self._pending), []
        self.app.output.write_raw(text.replace("\n", "\r\n"))
        self.app.output.flush()

    def _draw(self) -> None:
        self._redraw = None
        self.app.invalidate()

    def _tick(self) -> None:
        self._ticker = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)
        if not self.hides_live():
            self.refresh()


class Parts(NamedTuple):
    """The windows that can have the keyboard, and the layout that holds them all."""

    input: Window
    entry: Window
    question: Window
    layout: Layout


class Prompt:
    """Gives the keyboard to the input line, the open question or the question's entry line."""

    app: Application[int]
    parts: Parts

    def __init__(self, controls: Controls, edit_text: Callable[..., Awaitable[str | None]]) -> None:
        self.preferences = controls.display.preferences
        self.controls = controls
        self.edit_text = edit_text
        self.surface = PromptSurface(controls.display.theme)
        self.line = InputLine(self.preferences)
        self.line.buffer.on_text_changed += self._line_changed
        self.entry = Buffer(name="entry", multiline=False)
        self.questions = QuestionPanel(self)
        self.surface.hides_live = lambda: self.questions.open
        self.clipboard = ClipboardImages()
        self.keys = AnswerKeys(
            lambda: asyncio.get_running_loop().time(), self.preferences.key_times
        )
        self._settling: asyncio.TimerHandle | None = None
        self._read, self._pressed = 0, False

    def use(self, app: Application[int], parts: Parts) -> None:
        self.app = self.surface.app = self.line.app = app
        self.parts = parts
        app.key_processor.before_key_press += self._key_pressed
        app.key_processor.after_key_press += self._key_done

    # --- what the question needs ---------------------------------------------------------------

    @property
    def painter(self) -> Painter:
        return self.controls.display.painter

    def refresh(self) -> None:
        self.surface.refresh()

    def stop_turn(self) -> None:
        """Stop the turn, as a question's answer."""
        self.controls.stop_turn()

    def question_opened(self) -> None:
        """Call the user; the question takes keys once it was seen and nobody is typing."""
        if not self.questions.invited:
            self.controls.display.user_needed()
        self.asked_again()

    def question_closed(self, transcript: str) -> None:
        """Keep what the question showed and give the line the keyboard back."""
        self.entry.reset()
        self.keys.sent()
        self.surface.commit(transcript)
        if self.questions.open:
            self.asked_again()
            return
        self.keys.close()
        if self.line.aside:
            self.line.bring_back()
        self.focus()

    def question_entry_opened(self, text: str) -> None:
        self.entry.document = Document(text, len(text))
        self.focus()

    # --- who has the keyboard ------------------------------------------------------------------

    @property
    def question_keys(self) -> bool:
        """Return whether a key goes to the question.

        It does when the line is empty and nothing else has the keyboard.
        """
        if not self.questions.open or self.question_entry:
            return False
        return not self.line.buffer.text and not self.app.layout.is_searching

    @property
    def question_entry(self) -> bool:
        """Return whether the question's entry line has the keyboard.

        The line that confirms something dangerous opens like a question: after the pause.
        """
        if not self.questions.typing:
            return False
        return not self.questions.careful or (self.keys.armed and not self.line.buffer.text)

    @property
    def question_line(self) -> Line:
        """The state of the keyboard, as a question shows it."""
        text = self.line.buffer.text
        return Line(
            self.keys.armed,
            self.keys.ready,
            self.keys.held.lower(),
            "command" if self._is_command(text) else "words" if text else "",
            text,
        )

    def focus(self) -> None:
        """Give the keyboard to what should have it now."""
        target = self.parts.input
        if self.question_entry:
            target = self.parts.entry
        elif self.question_keys and not self.questions.free:
            target = self.parts.question
        if self.app.layout.current_window is not target:
            self.app.layout.focus(target)
        self.refresh()

    def take_line(self) -> str:
        """Return what stands on the line, which is empty then."""
        text = self.line.take()
        self.focus()
        return text

    # --- keys ----------------------------------------------------------------------------------

    def press(self, key: str) -> None:
        """Take a key on the empty line while a question is open."""
        self._pressed = True
        if key == "enter" and self.questions.free and self.keys.armed:
            self.questions.words("")
            return
        option = key.lower() in self.questions.options()
        text = self.keys.press(key, option=option, read=self._read)
        # What the loop calls next comes before the next read of the terminal.
        asyncio.get_running_loop().call_soon(setattr, self, "_read", self._read + 1)
        if self.keys.dropped:
            self.surface.say_below(_("Too early: press the key again."))
        if text:
            self.line.use_insert_mode()
            (self.entry if self.question_entry else self.line.buffer).insert_text(text)
            if key == "enter":
                self._send_words()
        self._wait_for_pause()
        self.focus()

    def navigate(self, key: str) -> None:
        """Take a key that reads a question, or a chord that one the user asked for takes.

        None of them needs a pause.
        """
        invited = self.questions.invited
        if self.keys.armed and self.questions.key(key) and invited:
            self.line.buffer.reset()  # what filtered a list is no draft
        self._wait_for_pause()
        self.refresh()

    def read_on(self) -> None:
        """Take the space bar on the empty line: it reads on, where there is more."""
        if "space" in self.questions.options() and self.questions.scrolls:
            self.navigate("space")
        else:
            self.keys.typed()
            self._wait_for_pause()

    def send(self) -> None:
        """Take Enter on the input line."""
        if self.questions.open:
            self._send_words()
        else:
            self.keys.sent()
            self.controls.submit(self.take_line())

    def escape(self) -> None:
        """Take Esc on the input line; words on it make room for a question, and come back."""
        if not self.questions.open and self.controls.repl.turns.running and self.line.buffer.text:
            self.line.put_away()
            self.surface.say_below(_("The line was cleared; Up brings it back."))
        elif not self.questions.open:
            self.controls.escape()
        elif not self.back():
            if self.line.text.strip().lower() in ANSWER_WORDS:
                self.line.buffer.reset()  # a key that came too early must not come back
            else:
                self.line.set_aside()
            self.focus()

    def back(self) -> bool:
        """Take Esc at a question that was seen: what the question makes of it."""
        if not self.keys.armed or (self.line.buffer.text and not self.questions.free):
            return False
        invited = self.questions.invited
        if not self.questions.back():
            return False
        if invited:
            self.line.buffer.reset()  # what filtered a list is no draft
        self.asked_again()
        return True

    def asked_again(self) -> None:
        """Ask for what the question shows now, which has to be seen before a key answers it."""
        if self.questions.open:
            self.keys.ask(invited=self.questions.invited)
            self.keys.confirm = self.questions.confirms
        self.focus()

    def drawn(self) -> None:
        """Note that the frame stands on the screen, with the open question."""
        if self.questions.open:
            self.keys.drawn()
            if self._settling is None:
                self._wait_for_pause()

    def _send_words(self) -> None:
        """Enter with words on the line while a question is open."""
        panel, text = self.questions, self.line.text
        if not panel.open or self._is_command(text) or not self.keys.armed:
            self.controls.submit(self.take_line())
        elif text.strip().lower() in NO_WORDS and not panel.free and panel.words(""):
            self.take_line()
        elif text.strip().lower() in ANSWER_WORDS and not panel.free:
            self.surface.say_below(_("A typed answer does not count. Press Esc, then the key."))
        elif panel.invited:
            if panel.words(text):
                self.line.buffer.reset()  # what filtered a list is no line of the history
        elif panel.words(text):
            self.take_line()
        else:
            self.surface.say_below(_("Your text was not sent. Esc goes back to the question."))

    def _is_command(self, text: str) -> bool:
        """Return whether `text` is for KogniTerm; to the model's question a path is an answer."""
        line = text.strip()
        if is_slash_command(line):
            return not self.questions.free or self.controls.knows_command(line)
        return line.startswith("!") and not self.questions.free

    def _line_changed(self, buffer: Buffer) -> None:
        self.questions.line_changed(buffer.text)
        if self.keys.open:
            self.focus()

    def _key_pressed(self, _processor: object) -> None:
        """End the note below; count any key that does not go to the question as typing."""
        self.surface.say_below("")
        self._pressed = False
        if not self.question_keys:
            self.keys.typed()
            self._wait_for_pause()

    def _key_done(self, processor: KeyProcessor) -> None:
        """Withdraw an answer that another key followed, whatever that key has done."""
        if self.keys.held and not self._pressed and not processor.key_buffer:
            self.keys.held = ""
            self._wait_for_pause()
            self.refresh()

    def _wait_for_pause(self) -> None:
        if self._settling is not None:
            self._settling.cancel()
            self._settling = None
        due = self.keys.due()
        if due is not None:
            self._settling = asyncio.get_running_loop().call_later(due, self._settle)

    def _settle(self) -> None:
        """Take the held key after the pause, unless keys are there that nobody has read yet."""
        self._settling = None
        if self._unread():
            loop = asyncio.get_running_loop()
            self._settling = loop.call_later(UNREAD_SECONDS, self._settle)
            return
        key = self.keys.settle()
        if key:
            self.questions.key(key.lower())
            self.keys.confirm = self.questions.confirms
        self._wait_for_pause()
        self.focus()

    def _unread(self) -> bool:
        """Return whether keys wait in the terminal, or the beginning of a sequence for its end."""
        if self.app.key_processor.key_buffer or self.app.key_processor.input_queue:
            return True
        return bool(select.select([self.app.input.fileno()], [], [], 0)[0])
