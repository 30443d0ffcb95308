"""A question with a few fixed answers, one key each; looks and arms like the approval panel."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence

from rich.text import Text

from kogniterm.ui.choice import Option, by_key
from kogniterm.ui.locale import _
from kogniterm.ui.paint import Painter
from kogniterm.ui.question_keys import Line, key_row


class ChoicePanel:
    """Shows `title` and `body`, and waits for the key of one of `options`."""

    free = False
    careful = False
    typing = False

    def __init__(
        self,
        title: str,
        body: Sequence[str],
        options: Sequence[Option],
        *,
        painter: Callable[[], Painter],
        changed: Callable[[], None],
    ) -> None:
        self.open = True
        self._title = title
        self._body = tuple(body)
        self._options = tuple(options)
        self._painter = painter
        self._changed = changed
        self._answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def answer(self) -> str:
        """The value of the option that was chosen."""
        try:
            return await self._answer
        finally:
            self.open = False

    def options(self) -> Collection[str]:
        """The keys that answer."""
        return by_key(self._options)

    def lines(self, columns: int, rows: int, line: Line) -> list[str]:
        """The question in at most `rows` lines: title, the end of the body, the keys."""
        painter = self._painter()
        head = painter.lines(Text(self._title, "heading"), columns)
        hint = _("Your text stays on the line · Esc: back to the question")
        shown = [(option.key, option.words) for option in self._options]
        foot = key_row(shown, line, painter, columns, words=hint)
        body: list[str] = []
        for text in self._body:
            body += painter.lines(Text(text), columns)
        room = max(rows - len(head) - len(foot), 0)
        return [*head, *(body[-room:] if room else []), *foot]

    def transcript(self) -> str:
        """What stays in the scrollback."""
        return self._painter().paint(Text(self._title, "heading"), 80)

    def key(self, key: str) -> None:
        """Answer with `key`."""
        option = by_key(self._options).get(key)
        if option is not None and not self._answer.done():
            self._answer.set_result(option.value)
        self._changed()

    def words(self, text: str) -> bool:
        """Words are no answer here; they stay on the line."""
        return False

    def enter(self, text: str) -> None:
        """There is no entry line."""

    def back(self) -> bool:
        """There is nothing to go back from."""
        return False
