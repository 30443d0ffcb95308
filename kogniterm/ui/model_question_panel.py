"""A question of the model's inside the prompt: an entry line for the answer, and answers to
choose from by number or arrow. It gets the keyboard only once nobody is typing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rich.text import Text

from kogniterm.ui.locale import _
from kogniterm.ui.model_question import ModelQuestion
from kogniterm.ui.paint import Painter


class ModelQuestionPanel:
    """Shows `question` until it is answered; `entered` is what stands on the entry line."""

    free = True

    def __init__(
        self,
        question: ModelQuestion,
        *,
        painter: Callable[[], Painter],
        changed: Callable[[], None],
        entered: Callable[[], str],
    ) -> None:
        self.open = True
        self.armed = False
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

    @property
    def typing(self) -> bool:
        """The entry line has the keyboard from the moment the question may be answered."""
        return self.open and self.armed

    def lines(self, columns: int, rows: int) -> list[str]:
        """The question in at most `rows` lines; the answers stay in sight while one is chosen."""
        painter, self._columns = self._painter(), columns
        foot = painter.keys(Text(self._keys(), "key"), columns)
        chosen = self._question.number(self._entered())
        if chosen is None and not self._entered().strip():
            chosen = self._picked
        body = [*self._question.lines(painter, columns, chosen), ""]
        self._page = max(rows - len(foot), 1)
        hidden = max(len(body) - self._page, 0)
        self._offset = hidden if chosen is not None else min(self._offset, hidden)
        if hidden > self._offset and chosen is None:
            foot = painter.keys(Text(_("[Page-Down] more") + "  " + self._keys(), "key"), columns)
        return [*body[self._offset : self._offset + max(rows - len(foot), 1)], *foot]

    def _keys(self) -> str:
        if not self.armed:
            return _("You are typing: the question waits until you pause.")
        if self._note:
            return self._note
        how = [_("a number, the arrows, or your own words")] if self._question.answers else []
        return "  ".join(
            [
                *how,
                _("[Enter] sends"),
                _("[Alt-Enter] new line"),
                _("[Esc] no answer"),
                _("[Ctrl-C] stop turn"),
            ]
        )

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

    def enter(self, text: str) -> None:
        """The entry line was finished."""
        reply = self._question.answer(text)
        if reply is None and self._picked is not None:
            reply = self._question.answers[self._picked]
        if reply is None:
            self._note = _("Write an answer first; Esc gives none.")
            self._changed()
        else:
            self._settle(reply)

    def back(self) -> bool:
        """Esc: no answer."""
        self._settle(None)
        return True

    def _settle(self, reply: str | None) -> None:
        if not self._reply.done():
            self._reply.set_result(reply)
