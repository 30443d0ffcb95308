"""The screen of a terminal that a program writes to, as a user sees it (pyte)."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyte

UNKNOWN = re.compile(rb"\x1b\[>|\x1b\[ q")
"""Sequences that pyte does not know and that a terminal ignores."""
CUT = re.compile(rb"\x1b(?:\[ ?)?\Z")
"""A sequence of that kind that is still incomplete: bytes arrive in pieces of any length."""


FOREGROUND = {name: code for code, name in (pyte.graphics.FG | pyte.graphics.FG_AIXTERM).items()}
BACKGROUND = {name: code for code, name in (pyte.graphics.BG | pyte.graphics.BG_AIXTERM).items()}
"""Colours by their names and the codes that select them."""


FRAME, END_OF_FRAME = b"\x1b[?2026h", b"\x1b[?2026l"
"""The marks of a synchronized update."""


class _Screen(pyte.HistoryScreen):
    """A screen that keeps a saved cursor and ignores private sequences ending in `m`.

    pyte forgets a saved cursor once it is restored, and would go to the first row at the next
    time; terminals keep it. The private sequences are those with which vim sets keys.
    """

    def select_graphic_rendition(self, *attributes: int, private: bool = False) -> None:
        """Set colours, unless the sequence is a private one."""
        if not private:
            super().select_graphic_rendition(*attributes)

    def save_cursor(self) -> None:
        """Save the cursor in place of the one saved before."""
        self.savepoints.clear()
        super().save_cursor()

    def restore_cursor(self) -> None:
        """Go back to the saved cursor, which stays saved."""
        super().restore_cursor()
        self.save_cursor()


class Picture:
    """The screen of a terminal, and the lines that have scrolled off its top."""

    def __init__(self, rows: int, columns: int) -> None:
        self._screen = _Screen(columns, rows, history=5000)
        self._stream = pyte.ByteStream(self._screen)
        self._cut = self._frame = b""

    def feed(self, data: bytes) -> None:
        """Draw the bytes; draw a frame of a synchronized update only once it is complete."""
        data = self._frame + data
        begin = data.rfind(FRAME)
        whole = begin if begin > data.rfind(END_OF_FRAME) else len(data)
        self._frame = data[whole:]
        self._draw(data[:whole])

    def give_up_frame(self) -> None:
        """Draw a frame that was not ended, as terminals do after a while."""
        data, self._frame = self._frame, b""
        self._draw(data)

    def _draw(self, data: bytes) -> None:
        data = self._cut + data
        cut = CUT.search(data)
        self._cut = cut[0] if cut else b""
        whole = data[: cut.start()] if cut else data
        self._stream.feed(UNKNOWN.sub(_swallowed, whole))

    def resize(self, rows: int, columns: int) -> None:
        """Give the screen another size."""
        self._screen.resize(rows, columns)

    def start_lines_at_the_left(self) -> None:
        """Start a line at each line feed alone, as behind a terminal's own processing."""
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
        """Return the lines that left the screen and those on it, as one text."""
        width = self._screen.columns
        top = [
            "".join(line[column].data for column in range(width)).rstrip()
            for line in self._screen.history.top
        ]
        return "\n".join([*top, *self.lines])

    def painted(self) -> str:
        """Return the screen with its styles as sent to terminals."""
        lines = [self._screen.buffer[row] for row in range(self._screen.lines)]
        return "\n".join(_painted(line, self._screen.columns) for line in lines)

    def colours_of(self, text: str) -> set[str]:
        """Return the foreground colours of the last occurrence of `text` on the screen."""
        for row, line in reversed(list(enumerate(self._screen.display))):
            start = line.find(text)
            if start >= 0:
                cells = self._screen.buffer[row]
                return {cells[start + offset].fg for offset in range(len(text))}
        return set()


def _swallowed(found: re.Match[bytes]) -> bytes:
    """Return a private sequence instead, which pyte reads to its end and ignores."""
    return b"\x1b[?" if found[0] == b"\x1b[>" else b""


def _painted(cells: Mapping[int, pyte.screens.Char], width: int) -> str:
    """Return the cells of a line, with every change of style written out."""
    parts, last = [], ""
    for column in range(width):
        style = _style(cells[column])
        if style != last:
            parts.append(f"\x1b[0{style}m")
            last = style
        parts.append(cells[column].data)
    return "".join(parts).rstrip() + ("\x1b[0m" if last else "")


def _style(cell: pyte.screens.Char) -> str:
    """Return the parameters that select a cell's style, each preceded by a semicolon."""
    flags = {"bold": 1, "italics": 3, "underscore": 4, "reverse": 7}
    codes = [code for name, code in flags.items() if getattr(cell, name)]
    for colour, named, any_other in ((cell.fg, FOREGROUND, 38), (cell.bg, BACKGROUND, 48)):
        if colour in named:
            codes.append(named[colour])
        elif colour != "default":
            codes += [any_other, 2, *bytes.fromhex(colour)]
    return "".join(f";{code}" for code in codes)
