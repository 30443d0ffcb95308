"""Asks questions line by line: TERM=dumb, screen readers, one-shot runs.

What was typed before the question was shown never answers it: the menu comes only after a pause
in which nothing was typed. A line answers only if it is exactly a key or its word. Any other line
is a reason to reject, which Enter on an empty line then sends. A dangerous command takes the
whole word "yes", on other machines their number.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from rich.text import Text

from kogniterm.errors import KognitermError, TurnInterruptedError
from kogniterm.ui.locale import _, plural, translate
from kogniterm.ui.questions.question import (
    Answered,
    Editing,
    Entry,
    Question,
    QuestionText,
    Step,
    Stopped,
    Value,
)
from kogniterm.ui.screen.paint import Painter
from kogniterm.ui.words.key_table import ANSWER_WORDS


class Lines(Protocol):
    """The terminal that lines are read from and written to."""

    @property
    def painter(self) -> Painter:
        """The painter in use."""

    def size(self) -> tuple[int, int]:
        """Return (rows, columns)."""

    def commit(self, text: str) -> None:
        """Write `text`."""

    async def read_line(self, prompt: str, start: str = "", *, free: bool = False) -> str | None:
        """Return a line without its newline, None at the end of input.

        To a `free` question a path is an answer, elsewhere it may be a slash command.
        """

    async def pause(self) -> None:
        """Wait until nobody is typing."""


class LineQuestions:
    """The driver for plain lines. `notify` calls the user; `edit_text` opens their editor."""

    stays = True

    def __init__(
        self,
        lines: Lines,
        *,
        notify: Callable[[], None] = lambda: None,
        edit_text: Callable[[str], Awaitable[str | None]] | None = None,
    ) -> None:
        self.can_edit = edit_text is not None
        self._lines = lines
        self._notify = notify
        self._edit_text = edit_text

    async def ask(self, question: Question[Value]) -> Value:
        """Ask until there is an answer. Raises `TurnInterruptedError` when asked to stop."""
        self._notify()
        shown = await self._show(question)
        if question.free:
            return await self._reply(question)
        reason = ""
        while True:
            # The choices are wrapped between words; the decision is read behind the last.
            choices = Text(f"{_('Your decision')} [{', '.join(question.menu())}]:")
            columns = self._lines.size()[1]
            *above, last = self._lines.painter.lines(choices, max(columns - 2, 1))
            if above:
                self._say("\n".join(above))
            reply = await self._lines.read_line(f"{last} ")
            if reply is None:
                return question.ended()
            said = reply.strip()
            step = question.typed(said)
            if step is None and not said and reason:
                step = question.words(reason)
            if step is None:
                # Enter would send the line as a reason to reject.
                reason = said if question.reasons and said.lower() not in ANSWER_WORDS else ""
                how = _("Answer with one of the keys shown.")
                if reason:
                    how = _(
                        "Press Enter to reject with this reason, or answer with one of the letters."
                    )
                self._say(how)
                continue
            while isinstance(step, Question) and step.entry is not None:
                step = await self._enter(step, step.entry, said)
            if isinstance(step, Answered):
                value: Value = step.value
                return value
            if isinstance(step, Stopped):
                raise TurnInterruptedError("You stopped the turn.")
            question = (
                await self._edit_answer(question, step) if isinstance(step, Editing) else step
            )
            if question.note:
                self._say(question.note)
                question = question.with_note("")
            if self._text(question) != shown:
                shown = await self._show(question, again=True)

    def renew(self, change: Callable[[Question[Any]], Question[Any]]) -> None:
        """Change nothing: a question that was written stays as it is."""

    def _say(self, text: str) -> None:
        self._lines.commit(text + "\n")

    def _text(self, question: Question[Any]) -> QuestionText:
        return question.text(self._lines.painter, self._lines.size()[1])

    async def _show(self, question: Question[Any], *, again: bool = False) -> QuestionText:
        """Write the question and wait until nobody is typing; what must be seen, page by page."""
        document = self._text(question)
        lines = document.lines
        page = max(self._lines.size()[0] - 3, 4) if document.must_see else len(lines)
        while lines:
            self._say("\n".join(lines[:page]))
            if question.free:
                painter, columns = self._lines.painter, self._lines.size()[1]
                self._say("\n".join(painter.lines(Text(" ".join(question.menu())), columns)))
            if document.must_see or not again:
                await self._lines.pause()
            lines = lines[page:]
            if lines:
                rest = plural(
                    "Enter shows the rest ({count} line): ",
                    "Enter shows the rest ({count} lines): ",
                    len(lines),
                )
                await self._lines.read_line(rest)
        return document

    async def _reply(self, question: Question[Value]) -> Value:
        """Read the answer in words; one that only changes the question is asked anew."""
        while True:
            # A backslash at the end of a line goes on with the next.
            said: list[str] = []
            prompt = f"{_('Your answer')}: "
            while (line := await self._lines.read_line(prompt, free=True)) is not None:
                said.append(line.removesuffix("\\"))
                if not line.endswith("\\"):
                    break
                prompt = "... "
            step = question.typed("\n".join(said))
            if not isinstance(step, Question):
                break
            question = step
            if question.note:
                self._say(question.note)
                question = question.with_note("")
            await self._show(question, again=True)
        value = step.value if isinstance(step, Answered) else question.ended()
        self._say(_("No answer.") if value is None else "")
        return value

    async def _enter(self, question: Question[Value], entry: Entry, said: str) -> Step[Value]:
        """Read the words that the question wants; `said` chose them, or is the whole word."""
        if entry.word:
            if said.lower() in entry.accepts:
                return question.entered(said)
            self._say(entry.ask)
            back = question.back()
            assert back is not None
            return back
        if entry.heading:
            self._say(entry.heading)
        for number, words in enumerate(entry.listed, 1):
            self._say(f"{number}. {words}")
        if entry.listed:
            await self._lines.pause()
        return question.entered(await self._lines.read_line(entry.ask, entry.start) or "")

    async def _edit_answer(self, question: Question[Value], step: Editing) -> Question[Value]:
        """Open the editor; what cannot be used is told and kept for the next time."""
        assert self._edit_text is not None
        try:
            text = await self._edit_text(step.text)
        except KognitermError as error:
            return question.with_note(translate(error.text))
        if text is None:
            return question.with_note(_("Nothing changed."))
        after = question.edited(text)
        assert isinstance(after, Question)
        for mistake in after.mistakes:
            self._say(f"- {mistake}")
        if not after.mistakes:
            return after
        return after.with_note(_("The plan is not valid; enter e to edit your text again."))
