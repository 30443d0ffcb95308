"""The model's thinking on the screen: dimmed, and folded into one line when it is over."""

from __future__ import annotations

from collections.abc import Callable

from rich.text import Text

from kogniterm.text.visible import without_style
from kogniterm.ui.locale import _, duration
from kogniterm.ui.screen.markdown import markdown_lines
from kogniterm.ui.screen.paint import PROSE_COLUMNS, Painter
from kogniterm.ui.screen.screen_preferences import ThoughtsName

LIVE_ROWS = 4
"""Rows of folded thoughts that show while the model thinks."""
LIVE_CHARACTERS = 8_000
"""Characters at the end that are drawn while the model thinks."""


class Thoughts:
    """The thinking of one call at a time, and the last one that can be unfolded.

    `key` names what unfolds them; without one, folded thoughts leave nothing behind.
    """

    def __init__(self, clock: Callable[[], float], name: ThoughtsName, key: str) -> None:
        self.name = name
        self._clock = clock
        self._key = key
        self._text = ""
        self._since = 0.0
        self._last = ""
        self._folded = False

    def feed(self, text: str) -> None:
        """Take a piece of the thinking."""
        if not self._text:
            self._since = self._clock()
        self._text += text

    def live(self, painter: Painter, columns: int, rows: int) -> list[str]:
        """Return the end of what the model thinks now, in at most `rows` lines."""
        if self.name == "off" or not self._text.strip():
            return []
        most = rows if self.name == "shown" else min(rows, LIVE_ROWS)
        return (
            _dim_lines(self._text[-LIVE_CHARACTERS:], painter, columns)[-most:] if most > 0 else []
        )

    def end(self, painter: Painter, columns: int) -> str:
        """Return what stays of thinking that is over; empty if there was none."""
        text, self._text = self._text, ""
        if not text.strip():
            return ""
        self._last, self._folded = text, self.name != "shown"
        if self.name == "shown":
            return self._whole(painter, columns)
        if self.name == "off" or not self._key:
            return ""
        told = _("Thought for {time}").format(time=duration(self._clock() - self._since))
        line = Text(f"{painter.symbol('bullet')} {told}", "thought")
        line.append(" · " + _("{key} shows it").format(key=self._key), "thought")
        return painter.paint(line, columns)

    @property
    def folded(self) -> bool:
        """Return whether the last thinking was not shown whole yet."""
        return self._folded

    def last(self, painter: Painter, columns: int) -> str:
        """Return the thinking that was over last, whole; empty if there was none."""
        self._folded = False
        return self._whole(painter, columns) if self._last else ""

    def _whole(self, painter: Painter, columns: int) -> str:
        return "\n".join(_dim_lines(self._last, painter, columns)) + "\n\n"


def _dim_lines(text: str, painter: Painter, columns: int) -> list[str]:
    """Return `text` as dimmed lines behind a bar."""
    bar = painter.paint(Text(painter.symbol("side"), "thought"), 10, end="")
    width = max(min(columns, PROSE_COLUMNS) - 2, 1)
    lines = markdown_lines(text, painter, width, style="thought")
    return [f"{bar} {line}" if without_style(line).strip() else bar for line in lines]
