"""A question with a few fixed answers, one key each; looks and arms like the approval panel."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from rich.text import Text

from kogniterm.ui.choice import Option
from kogniterm.ui.locale import _
from kogniterm.ui.paint import Painter


class ChoicePanel:
    """Shows `title` and `body`, and waits for the key of one of `options`."""

    free = False

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
        self.armed = False
        self.typing = False
        self.offset = 0
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

    def lines(self, columns: int, rows: int) -> list[str]:
        """The question in at most `rows` lines: title, the end of the body, the keys once they
        are read: a key that is shown and does nothing would be worse than one that waits."""
        painter = self._painter()
        head = painter.lines(Text(self._title, "heading"), columns)
        foot = painter.keys(Text(self._keys(), "key"), columns)
        body: list[str] = []
        for line in self._body:
            body += painter.lines(Text(line), columns)
        room = max(rows - len(head) - len(foot), 0)
        return [*head, *(body[-room:] if room else []), *foot]

    def _keys(self) -> str:
        if not self.armed:
            return _("You are typing: the question waits until you pause.")
        return "  ".join(f"[{option.key}] {option.words}" for option in self._options)

    def transcript(self) -> str:
        """What stays in the scrollback."""
        return self._painter().paint(Text(self._title, "heading"), 80)

    def key(self, key: str) -> None:
        """Answer with `key`, once armed."""
        for option in self._options:
            if self.armed and option.key == key and not self._answer.done():
                self._answer.set_result(option.value)
        self._changed()

    def enter(self, text: str) -> None:
        """There is no entry line."""

    def back(self) -> bool:
        """There is nothing to go back from."""
        return False
