"""A person in front of a one-shot run: the screen they watch and the questions they answer.

Loads rich, so it is imported only once there is somebody to draw for.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

from kogniterm.cli.prompt import preferences_of, question_hooks
from kogniterm.protocols import Approver, Terminal
from kogniterm.settings import QuickSettings
from kogniterm.types import Answer
from kogniterm.ui.ask import LineAsker
from kogniterm.ui.attention import Attention
from kogniterm.ui.choice import choose_in_lines, unknown_outcome
from kogniterm.ui.clean import one_line
from kogniterm.ui.editor import edited, run_program
from kogniterm.ui.handover import PersonTerminal
from kogniterm.ui.locale import _
from kogniterm.ui.model_question import ask_in_lines, asked, meant
from kogniterm.ui.paint import Painter
from kogniterm.ui.render import ScreenOptions, ScreenSink
from kogniterm.ui.surface import LineSurface, LiveSurface
from kogniterm.ui.theme import background_from_colorfgbg, choose
from kogniterm.ui.typeahead import typed_before

if TYPE_CHECKING:
    from kogniterm.runtime.asking import Question
    from kogniterm.runtime.front import Wish
    from kogniterm.runtime.session import LiveSession
    from kogniterm.sessions.records import Intent
    from kogniterm.types import Text


class PersonSink:
    """Draws a task's events on the person's terminal; `approver` asks them there.

    `screen` is the terminal; `out` is where the answer goes when it is not the screen itself,
    or None when somebody else prints it.
    """

    def __init__(
        self,
        first: QuickSettings,
        screen: TextIO,
        out: TextIO | None,
        keys: int,
        folder: str,
    ) -> None:
        self._preferences = preferences_of(first, folder)
        self._out = out
        self._keys = keys
        self._screen = screen
        bare = self._preferences.bare
        self._live = None if bare else LiveSurface(screen)
        self._surface = self._live or LineSurface(screen)
        background = background_from_colorfgbg(first.colorfgbg)
        theme = choose(
            self._preferences.theme, color=self._preferences.color, background=background
        )
        self._painter = Painter(
            theme,
            color=self._preferences.color,
            attributes=not bare,
            unicode=first.unicode and not bare,
            system="truecolor" if first.truecolor else "256",
        )
        self._attention = Attention(self._preferences, self._surface.control)
        self._sink = ScreenSink(
            self._painter,
            self._surface,
            clock=time.monotonic,
            options=ScreenOptions(
                live=not bare,
                fold=self._preferences.fold,
                notify_after=self._preferences.notify_after,
            ),
            attention=self._attention,
        )

    def __call__(self, event: object) -> None:
        """Draw one event."""
        self._sink(event)

    def finish(self, answer: Answer) -> None:
        """Leave the terminal as it was, and write the answer where it belongs."""
        self._attention.close()
        if self._out is not None and answer.text:
            self._out.write(answer.text.rstrip("\n") + "\n")
            self._out.flush()

    def approver(self, session: LiveSession) -> Approver:
        """Return the approver that asks the user, a line at a time."""
        hooks = question_hooks(session)
        return LineAsker(
            read_line=self._read_line,
            write=self._surface.commit,
            size=self._surface.size,
            pause=self._pause,
            painter=self._painter,
            folder=lambda request: self._sink.folders.get(request.id, session.folder),
            hooks=lambda: hooks,
            notify=lambda: self._attention.call(_("KogniTerm: a question waits for you")),
            edit_text=self._edit_text,
            plan_shown=self._sink.plan_was_shown,
        )

    async def recover(self, intent: Intent, output: str) -> Wish:
        """Ask what becomes of a command whose outcome is unknown; no answer leaves it be."""
        title, body, options = unknown_outcome(intent.command, output)
        self._attention.call(_("KogniTerm: a question waits for you"))
        self._surface.commit("\n".join([title, *body]) + "\n")
        await self._pause()
        wish = await choose_in_lines(options, read_line=self._read_line, write=self._surface.commit)
        return "check" if wish == "check" else "again" if wish == "again" else "skip"

    async def ask(self, question: Question, answers: Sequence[str | Text]) -> str | None:
        """Ask what the model wants to know."""
        self._attention.call(_("KogniTerm: a question waits for you"))
        reply = await ask_in_lines(
            asked(question, answers),
            pause=self._pause,
            read_line=self._read_line,
            write=self._surface.commit,
            painter=self._painter,
            columns=self._surface.size()[1],
        )
        return meant(reply, answers)

    def terminal(self) -> Terminal:
        """The terminal, to lend to a command that needs a keyboard."""
        live = self._live
        return PersonTerminal(
            self._keys,
            self._screen.fileno(),
            suspend=live.hide if live else None,
            resume=live.show if live else None,
        )

    async def _pause(self) -> None:
        """Wait until nobody is typing; what was typed is shown, and answers nothing."""
        with self._still():
            typed = await typed_before(self._keys, self._preferences.answer_pause)
        for line in typed.split("\n"):
            if line.strip():
                self._surface.commit(_("Not an answer: {text}").format(text=one_line(line)) + "\n")

    async def _read_line(self, prompt: str, prefill: str) -> str | None:
        """A line from the person; the terminal itself edits it. None at the end of input."""
        if prefill:
            self._surface.commit(_("now: {text}").format(text=prefill) + "\n")
        with self._still():
            self._surface.commit(prompt)
            return await _line_from(self._keys)

    async def _edit_text(self, text: str) -> str | None:
        """`text` as it was saved in the person's editor, which gets the terminal meanwhile."""
        with self._still():
            return await edited(
                text, self._preferences.editor, lambda words: run_program(words, self._keys)
            )

    @contextlib.contextmanager
    def _still(self) -> Iterator[None]:
        """Nothing is redrawn while the person types."""
        if self._live is None:
            yield
            return
        self._live.hide()
        try:
            yield
        finally:
            self._live.show()


async def _line_from(descriptor: int) -> str | None:
    """The next line of a terminal in its usual line mode, without blocking the loop."""
    loop = asyncio.get_running_loop()
    arrived: asyncio.Future[bytes] = loop.create_future()

    def take() -> None:
        if not arrived.done():
            try:
                arrived.set_result(os.read(descriptor, 65536))
            except OSError:
                arrived.set_result(b"")

    loop.add_reader(descriptor, take)
    try:
        data = await arrived
    finally:
        loop.remove_reader(descriptor)
    return data.decode("utf-8", "replace").rstrip("\r\n") if data else None
