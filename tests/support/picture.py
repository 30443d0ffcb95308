"""What a person sees of a terminal that a program writes to (pyte)."""

from __future__ import annotations

import re

import pyte

UNKNOWN = re.compile(rb"\x1b\[>|\x1b\[ q")
"""What pyte does not know and a terminal swallows without a trace."""
CUT = re.compile(rb"\x1b(?:\[ ?)?\Z")
"""A sequence of that kind whose end is still to come: bytes arrive in pieces of any length."""


class _Screen(pyte.HistoryScreen):
    """A screen that passes over the private sequences ending in `m`, with which vim sets keys."""

    def select_graphic_rendition(self, *attributes: int, private: bool = False) -> None:
        """Set colours, unless the sequence is a private one."""
        if not private:
            super().select_graphic_rendition(*attributes)


class Picture:
    """The screen of a terminal, and the lines that have left it at its top."""

    def __init__(self, rows: int, columns: int) -> None:
        self._screen = _Screen(columns, rows, history=5000)
        self._stream = pyte.ByteStream(self._screen)
        self._cut = b""

    def feed(self, data: bytes) -> None:
        """Draw what was written."""
        data = self._cut + data
        cut = CUT.search(data)
        self._cut = cut[0] if cut else b""
        whole = data[: cut.start()] if cut else data
        self._stream.feed(UNKNOWN.sub(_swallowed, whole))

    def resize(self, rows: int, columns: int) -> None:
        """Give the screen another size."""
        self._screen.resize(rows, columns)

    def start_lines_at_the_left(self) -> None:
        """A line feed alone begins a line, as it does behind a terminal's own processing."""
        self._screen.set_mode(pyte.modes.LNM)

    @property
    def lines(self) -> list[str]:
        """The screen's lines, without trailing blanks."""
        lines = [line.rstrip() for line in self._screen.display]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    @property
    def text(self) -> str:
        """The lines that left the screen and those on it, as one text."""
        width = self._screen.columns
        top = [
            "".join(line[column].data for column in range(width)).rstrip()
            for line in self._screen.history.top
        ]
        return "\n".join([*top, *self.lines])

    def colours_of(self, text: str) -> set[str]:
        """The foreground colours in which `text` stands on the screen the last time."""
        for row, line in reversed(list(enumerate(self._screen.display))):
            start = line.find(text)
            if start >= 0:
                cells = self._screen.buffer[row]
                return {cells[start + offset].fg for offset in range(len(text))}
        return set()


def _swallowed(found: re.Match[bytes]) -> bytes:
    """A private sequence instead, which pyte reads to its end and ignores."""
    return b"\x1b[?" if found[0] == b"\x1b[>" else b""
