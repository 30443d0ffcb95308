"""Asks questions inside the prompt, with single keys: the panel that shows the topmost one.

It pages a question that is longer than the screen and approves nothing before everything was
shown that must be. When a key answers is decided by `answer_keys`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from kogniterm.errors import KognitermError
from kogniterm.ui.locale import _, plural, translate
from kogniterm.ui.questions.question import (
    Answered,
    Editing,
    Question,
    Step,
    Stopped,
    Value,
)

if TYPE_CHECKING:
    from kogniterm.ui.screen.paint import Painter


class Line(NamedTuple):
    """The keyboard at a question.

    `armed`: the question was seen; `ready`: a key would answer now; `held`: the key that was
    pressed and waits for its pause; `words`: what kind of `text` stands on the input line.
    """

    armed: bool = False
    ready: bool = False
    held: str = ""
    words: Literal["", "words", "command"] = ""
    text: str = ""


class PanelPlace(Protocol):
    """The prompt around the panel."""

    @property
    def painter(self) -> Painter:
        """The painter in use."""

    def refresh(self) -> None:
        """Draw again."""

    def question_opened(self) -> None:
        """Note that a question was asked."""

    def question_closed(self, transcript: str) -> None:
        """Note that a question was answered, or its turn stopped."""

    def asked_again(self) -> None:
        """Note that the question shows something else, which has to be seen."""

    def question_entry_opened(self, text: str) -> None:
        """Take words for the question, starting from `text`."""

    def edit_text(self, text: str, /) -> Awaitable[str | None]:
        """Return `text` as it was saved in the user's editor; None when nothing was changed."""

    def stop_turn(self) -> None:
        """Stop the turn."""


class _Open:
    """A question that waits: what was seen of it, and how far it was scrolled."""

    def __init__(self, question: Question[Any], answer: asyncio.Future[Any], seen: bool) -> None:
        self.question, self.answer, self.seen = question, answer, seen
        self.offset = self.below = 0
        self.editing: asyncio.Future[None] | None = None


class QuestionPanel:
    """The open questions, of which the last one asked is drawn and gets the keys."""

    can_edit = True
    stays = False
    _painter: Painter

    def __init__(self, place: PanelPlace) -> None:
        self._place = place
        self._open: list[_Open] = []
        self._columns = 80
        self._room = 10

    async def ask(self, question: Question[Value]) -> Value:
        """Show `question` until it is answered."""
        # A question that cannot be drawn must fail here, not while the screen is drawn.
        self._painter = self._place.painter
        document = question.document(self._painter, self._columns, self._room)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        asked = _Open(question, answer, seen=not document.must_see)
        self._open.append(asked)
        self._place.question_opened()
        try:
            value: Value = await answer
            return value
        finally:
            if asked.editing is not None:
                asked.editing.cancel()
            self._open.remove(asked)
            given = answer.done() and not answer.cancelled()
            transcript = asked.question.transcript(
                self._painter, self._columns, Answered(answer.result()) if given else None
            )
            self._place.question_closed(transcript)

    def renew(self, change: Callable[[Question[Any]], Question[Any]]) -> None:
        """Let `change` replace the questions that wait, where news came for them."""
        for asked in self._open:
            before, asked.question = asked.question, change(asked.question)
            if asked is self._top and asked.question != before:
                self._place.asked_again()
        self._place.refresh()

    @property
    def _top(self) -> _Open | None:
        return self._open[-1] if self._open else None

    @property
    def open(self) -> bool:
        """Return whether there is a question."""
        return bool(self._open)

    @property
    def free(self) -> bool:
        """Return whether words on the input line are the answer."""
        return self._top is not None and self._top.question.free

    @property
    def chords(self) -> Collection[str]:
        """The further keys that the question takes."""
        return self._top.question.chords if self._top is not None else ()

    @property
    def invited(self) -> bool:
        """Return whether the user asked for the question."""
        return self._top is not None and self._top.question.invited

    @property
    def typing(self) -> bool:
        """Return whether the question wants its entry line."""
        entry = self._top.question.entry if self._top is not None else None
        return entry is not None and not entry.listed

    @property
    def confirms(self) -> bool:
        """Return whether a key counts only with Enter."""
        return self._top is not None and self._top.question.confirms

    @property
    def scrolls(self) -> bool:
        """Return whether the question is longer than the screen."""
        return self._top is not None and self._top.offset + self._top.below > 0

    @property
    def careful(self) -> bool:
        """Return whether the entry line opens only after the pause, because its word acts."""
        entry = self._top.question.entry if self._top is not None else None
        return entry is not None and entry.word

    def options(self) -> Collection[str]:
        """Return the single keys that do something now."""
        top = self._top
        if top is None or top.editing is not None or self.typing:
            return ()
        return top.question.options()

    # --- drawing -------------------------------------------------------------------------------

    def lines(self, columns: int, rows: int, line: Line) -> list[str]:
        """Return the part of the question that fits into `rows` lines of `columns` cells."""
        top = self._top
        if top is None:
            return []
        self._painter, self._columns = self._place.painter, columns
        # How many keys are shown depends on what is out of sight, which depends on their rows.
        for _again in range(2):
            foot = self._foot(top, line)
            self._room = max(rows - len(foot), 3)
            document = top.question.document(self._painter, columns, self._room, line.text)
            hidden = max(len(document.lines) - self._room, 0)
            top.offset = hidden if document.to_end else max(0, min(top.offset, hidden))
            top.below = hidden - top.offset
        shown = document.lines[top.offset : top.offset + self._room]
        if not top.seen and top.offset + len(shown) >= document.must_see:
            top.seen = True
            foot = self._foot(top, line)
        return [*shown, *foot]

    def _foot(self, top: _Open, line: Line) -> list[str]:
        """Return the keys, which always stay, after any sentence about the last key."""
        from rich.text import Text

        painter, question = self._painter, top.question
        note = painter.lines(Text(question.note, "warn"), self._columns) if question.note else []
        entry = question.entry
        if entry is not None and not entry.listed and not (entry.word and line.words):
            said = entry.waiting if entry.word and not line.armed else entry.prompt
            return [*note, *painter.lines(Text(said, "key"), self._columns)]
        if entry is None and not top.seen and not line.words and question.reading:
            rest = plural(
                "[space] more · {count} line left to read before approving",
                "[space] more · {count} lines left to read before approving",
                top.below,
            )
            return [*note, *painter.lines(Text(rest, "key"), self._columns)]
        heading = entry.heading if entry is not None and not line.words else ""
        head = painter.lines(Text(heading, "heading"), self._columns) if heading else []
        shown = question.keys(painter, typing=bool(line.words))
        keys = [(one.key, one.does) for one in shown if top.below or not one.more]
        if question.invited or (question.free and line.armed and line.words != "command"):
            line = Line(armed=True, ready=True)
        return [*note, *head, *key_row(keys, line, painter, self._columns, words=question.hint)]

    # --- keys ----------------------------------------------------------------------------------

    def key(self, key: str) -> bool:
        """Do what a single key of `options` or `chords`, an arrow or a page key stands for.

        Returns whether that answered the question.
        """
        top = self._top
        if top is None or top.editing is not None or self.typing:
            return False
        if key in top.question.reading:
            step = 1 if key in ("down", "up") else max(self._room - 1, 1)
            top.offset += -step if key in ("up", "pageup") else step
        after = top.question.press(key, seen=top.seen)
        self._take(top, after)
        return isinstance(after, Answered)

    def line_changed(self, text: str) -> None:
        """Tell the question what stands on the input line now."""
        if self._top is not None:
            self._top.question = self._top.question.line_changed(text)

    def words(self, text: str) -> bool:
        """Take what was written on the input line; False when the question has no use for it."""
        top = self._top
        if top is None or top.editing is not None:
            return False
        step = top.question.words(text)
        self._take(top, step)
        return isinstance(step, Answered)

    def enter(self, text: str) -> None:
        """Take the words of the entry line."""
        if self._top is not None:
            self._take(self._top, self._top.question.entered(text))

    def back(self) -> bool:
        """Take Esc; False when there is nothing to go back from."""
        top = self._top
        if top is None:
            return False
        step = top.question.back()
        self._take(top, step if step is not None else top.question.with_note(""))
        return step is not None

    def _take(self, top: _Open, step: Step[Any]) -> None:
        """Continue with the result of a key or of a typed line."""
        if isinstance(step, Answered):
            if not top.answer.done():
                top.answer.set_result(step.value)
        elif isinstance(step, Stopped):
            self._place.stop_turn()
        elif isinstance(step, Editing):
            top.editing = asyncio.ensure_future(self._edit(top, step.text))
        else:
            wanted = step.entry
            opens = wanted is not None and top.question.entry is None
            if step.confirms and step.reading and not top.question.confirms:
                top.offset = 0  # what is confirmed there is read from its beginning
            top.question, top.seen = step, top.seen and not step.confirms  # drawn, it is seen
            if wanted is not None and opens:
                self._place.question_entry_opened(wanted.start)
        self._place.refresh()

    async def _edit(self, top: _Open, text: str) -> None:
        try:
            saved = await self._place.edit_text(text)
            if saved is not None:
                self._take(top, top.question.edited(saved))
                top.offset = 0  # where it says what is wrong with it
        except KognitermError as error:
            top.question = top.question.with_note(translate(error.text))
        finally:
            top.editing = None
            self._place.refresh()


def key_row(
    keys: Sequence[tuple[str, str]], line: Line, painter: Painter, columns: int, *, words: str = ""
) -> list[str]:
    """Return the keys with what they do, in brackets when they work, the held one marked.

    With words on the line none of them works: then the row says what Enter does with the words.
    """
    from rich.text import Text

    if line.words:
        if not line.armed:
            words = _("The question waits until you stop typing.")
        elif line.words == "command":
            words = _("Enter: run the command · Esc: back to the question")
        return painter.lines(Text(words, "key"), columns)
    parts = []
    for key, does in keys:
        if line.held and key.lower() == line.held:
            parts.append(Text(f"[{key}] {does}", "held"))
        elif line.ready:
            parts.append(Text(f"[{key}] {does}", "key"))
        else:
            parts.append(Text(f" {key}  {does}", "muted"))
    return painter.key_parts(parts, columns)
