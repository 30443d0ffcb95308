"""A task's events drawn for a user at a terminal, whose questions are asked there."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

from kogniterm.host.terminal_owner import user_job
from kogniterm.protocols import Approver, Terminal
from kogniterm.settings import QuickSettings
from kogniterm.text.shorten import one_line
from kogniterm.text.visible import clean
from kogniterm.types import Answer, Phrase
from kogniterm.types.events import Event
from kogniterm.ui.display import Display, follow_preferences
from kogniterm.ui.locale import _
from kogniterm.ui.questions.lines import LineQuestions
from kogniterm.ui.questions.question import ask_fixed
from kogniterm.ui.screen.paint import Painter
from kogniterm.ui.screen.screen_preferences import from_quick
from kogniterm.ui.screen.surface import LineSurface, LiveSurface
from kogniterm.ui.terminal.user_terminal import (
    UserTerminal,
    ask_secret,
    edit_in_program,
    run_program,
    typed_before,
)

if TYPE_CHECKING:
    from kogniterm.runtime.fixed_questions import RecoveryChoice, RecoveryQuestion
    from kogniterm.runtime.session import LiveSession
    from kogniterm.runtime.turn_ports import Question
    from kogniterm.types.parked_questions import AnswerChoice, ParkedQuestion
    from kogniterm.ui.set_up import SetUpScreen


class UserScreen:
    """Draws a task's events on the user's terminal; `approver` asks them there.

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
        self._preferences = from_quick(first, folder)
        self._out = out
        self._keys = keys
        self._screen = screen
        self._live = None if self._preferences.bare else LiveSurface(screen)
        self._surface = self._live or LineSurface(screen)
        self._display = Display(self._preferences)
        self._sink = self._display.open(
            self._surface, time.monotonic, answers=out is None, unfolds=False
        )
        self._questions = LineQuestions(
            self,
            notify=self._display.user_needed,
            edit_text=self._edit_text,
        )

    def begin(self, session_id: str, model: str, folder: str) -> None:
        """Draw nothing: the screen is about the task."""

    def __call__(self, event: Event) -> None:
        self._sink(event)

    def finish(self, answer: Answer) -> None:
        """Leave the terminal as it was, and write the answer where it belongs."""
        self.close()
        if self._out is not None and answer.text:
            self._out.write(clean(answer.text).rstrip("\n") + "\n")
            self._out.flush()

    def close(self) -> None:
        """Leave the terminal as it was."""
        with contextlib.suppress(OSError):  # the terminal may be gone
            self._display.close()

    def approver(self, session: LiveSession) -> Approver:
        """Return the approver that asks the user, a line at a time, with their editor."""
        from kogniterm.ui.asking_approver import AskingApprover

        follow_preferences(session, self._display)
        return AskingApprover(self._questions, session, self._display)

    async def recover(self, question: RecoveryQuestion) -> RecoveryChoice:
        """Ask what becomes of a command whose outcome is unknown; no answer leaves it be."""
        return await ask_fixed(self._questions, question)

    async def ask(self, question: Question, answers: Sequence[str | Phrase]) -> str | None:
        """Ask what the model wants to know."""
        from kogniterm.ui.questions.model_question import ask_user

        return await ask_user(self._questions, question, answers)

    async def ask_secret(self, name: str) -> str | None:
        """Ask for the value of a secret, without an echo; None where the user gives none."""
        return await ask_secret(self._hand_over, (self._keys, self._screen.fileno()), name)

    async def ask_parked(
        self, session_id: str, title: str, question: ParkedQuestion
    ) -> tuple[AnswerChoice, str] | None:
        """Ask the question of a session that waits. Raises `TurnInterruptedError`."""
        from kogniterm.ui.questions.parked_question import ask_parked, question_head

        head = question_head(session_id, title, question)
        self.commit(self.painter.paint(head, max(self.size()[1] - 1, 20)) + "\n")
        return await ask_parked(self._questions, question)

    def terminal(self) -> Terminal:
        live = self._live
        return UserTerminal(
            self._keys,
            self._screen.fileno(),
            suspend=live.hide if live else None,
            resume=live.show if live else None,
        )

    def set_up_screen(self) -> SetUpScreen:
        """Return this terminal for `kogniterm login`."""
        from kogniterm.ui.set_up import SetUpScreen

        say = self._display.say
        return SetUpScreen(self._questions, say, self._hand_over, self._keys, self._screen.fileno())

    @contextlib.asynccontextmanager
    async def _hand_over(self, *, raw: bool = False) -> AsyncIterator[None]:
        with self._still():
            yield

    async def pause(self) -> None:
        """Wait until nobody is typing; what was typed is shown, and answers nothing."""
        with self._still():
            await asyncio.to_thread(user_job().await_foreground)
            typed = await typed_before(self._keys, self._preferences.key_times)
        for line in typed.split("\n"):
            if line.strip():
                self.commit(_("Not an answer: {text}").format(text=one_line(line)) + "\n")

    async def read_line(self, prompt: str, start: str = "", *, free: bool = False) -> str | None:
        """Ask for a line; the terminal itself edits it. None at the end of input."""
        if start:
            self.commit(_("now: {text}").format(text=start) + "\n")
        with self._still():
            self.commit(prompt)
            return await _line_from(self._keys)

    @property
    def painter(self) -> Painter:
        return self._display.painter

    def size(self) -> tuple[int, int]:
        return self._surface.size()

    def commit(self, text: str) -> None:
        self._surface.commit(text)

    async def _edit_text(self, text: str) -> str | None:
        """Return `text` as it was saved in the user's editor, which gets the terminal meanwhile."""
        with self._still():
            return await edit_in_program(
                text, self._display.preferences.editor, lambda words: run_program(words, self._keys)
            )

    @contextlib.contextmanager
    def _still(self) -> Iterator[None]:
        """Redraw nothing while the user types."""
        if self._live is None:
            yield
            return
        self._live.hide()
        try:
            yield
        finally:
            self._live.show()


async def _line_from(descriptor: int) -> str | None:
    """Return the next line of a terminal in its usual line mode, without blocking the loop."""
    loop = asyncio.get_running_loop()
    arrived: asyncio.Future[bytes] = loop.create_future()

    def take() -> None:
        if not arrived.done():
            user_job().await_foreground()  # until then, the line is the shell's
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
