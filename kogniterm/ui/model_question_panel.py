"""A question of the model's inside the prompt: the input line takes the answer, and answers to
choose from are chosen by number or arrow. Nothing is sent before the question was seen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence

from rich.text import Text

from kogniterm.ui.locale import _
from kogniterm.ui.model_question import ModelQuestion
from kogniterm.ui.paint import Painter
from kogniterm.ui.question_keys import Line, Shown, key_row


class ModelQuestionPanel:
    """Shows `question` until it is answered; `entered` is what stands on the input line."""

    free = True
    careful = False
    typing = False

    def __init__(
        self,
        question: ModelQuestion,
        *,
        painter: Callable[[], Painter],
        changed: Callable[[], None],
        entered: Callable[[], str],
    ) -> None:
        self.open = True
        self._question = question
        self._painter = painter
        self._changed = changed
        self._entered = entered
        self._picked: int | None = None
        self._offset = 0
        self._page = 1
        self._columns = 80
        self._note = ""
        self._reply: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

    async def answer(self) -> str | None:
        """What the person answered; None for no answer."""
        try:
            return await self._reply
        finally:
            self.open = False

    def options(self) -> Collection[str]:
        """No single key answers: numbers are words, which Enter sends."""
        return ()

    def lines(self, columns: int, rows: int, line: Line) -> list[str]:
        """The question in at most `rows` lines; the answers stay in sight while one is chosen."""
        painter, self._columns = self._painter(), columns
        chosen = self._question.number(self._entered())
        if chosen is None and not self._entered().strip():
            chosen = self._picked
        body = [*self._question.lines(painter, columns, chosen), ""]
        foot = self._foot(painter, columns, line)
        self._page = max(rows - len(foot), 1)
        hidden = max(len(body) - self._page, 0)
        self._offset = hidden if chosen is not None else min(self._offset, hidden)
        if hidden > self._offset and chosen is None:
            foot = self._foot(painter, columns, line, more=[("Page-Down", _("more"))])
        return [*body[self._offset : self._offset + max(rows - len(foot), 1)], *foot]

    def _foot(
        self, painter: Painter, columns: int, line: Line, more: Sequence[Shown] = ()
    ) -> list[str]:
        note = painter.lines(Text(self._note, "warn"), columns) if self._note else []
        if line.words == "command" or (line.words and not line.armed):
            return [*note, *key_row((), line, painter, columns)]
        how = [("1-9, ↑↓" if painter.unicode else "1-9, up/down", _("choose"))]
        keys = [
            *more,
            *(how if self._question.answers else []),
            ("Enter", _("sends your words") if line.words else _("sends")),
            ("Alt-Enter", _("new line")),
            ("Esc", _("no answer")),
            ("Ctrl-C", _("clear the line") if line.words else _("stop turn")),
        ]
        works = Line(line.armed, line.armed)
        return [*note, *key_row(keys, works, painter, columns)]

    def transcript(self) -> str:
        """What stays in the scrollback; nothing of a question that a stopped turn took back."""
        if not self._reply.done() or self._reply.cancelled():
            return ""
        reply = self._reply.result()
        return self._question.transcript(self._painter(), self._columns, reply)

    def key(self, key: str) -> None:
        """An arrow chooses, a page key scrolls."""
        count = len(self._question.answers)
        if key in ("up", "down") and count:
            step = 1 if key == "down" else -1
            start = -1 if key == "down" else count
            self._picked = ((start if self._picked is None else self._picked) + step) % count
        elif key in ("pageup", "pagedown"):
            self._picked = None
            self._offset += self._page if key == "pagedown" else -self._page
            self._offset = max(self._offset, 0)
        self._note = ""
        self._changed()

    def words(self, text: str) -> bool:
        """Take what was written as the answer; a number chooses one."""
        reply = self._question.answer(text)
        if reply is None and self._picked is not None:
            reply = self._question.answers[self._picked]
        if reply is None:
            self._note = _("Write an answer first; Esc gives none.")
            self._changed()
            return False
        self._settle(reply)
        return True

    def enter(self, text: str) -> None:
        """Enter on the empty line: the answer that was picked."""
        self.words(text)

    def back(self) -> bool:
        """Esc: no answer."""
        self._settle(None)
        return True

    def _settle(self, reply: str | None) -> None:
        if not self._reply.done():
            self._reply.set_result(reply)
