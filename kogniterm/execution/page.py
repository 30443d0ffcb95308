"""One screen of the emulator: lines of cells, a cursor, a scroll region."""

from __future__ import annotations

import unicodedata

_TAB = 8
_MAX_COLUMN = 1 << 20


class Line:
    """Cells of one line; "" continues a wide character or a tab. `edited`: it was overwritten."""

    __slots__ = ("cells", "edited")

    def __init__(self) -> None:
        self.cells: list[str] = []
        self.edited = False

    def text(self) -> str:
        joined = "".join(self.cells)
        return joined.rstrip() if self.edited else joined


class Page:
    """One of the two screens: at most `rows` lines that can change, above them what scrolled."""

    def __init__(self, rows: int, columns: int, *, wraps: bool) -> None:
        self.rows = rows
        self.columns = columns
        self.wraps = wraps
        self.lines: list[Line] = [Line()]
        self.scrolled: list[str] = []
        self.row = 0
        self.column = 0
        self.top = 0
        self.bottom = rows - 1
        self.saved = (0, 0)
        self.addressed = False

    def line(self) -> Line:
        """The line under the cursor."""
        while len(self.lines) <= self.row:
            self.lines.append(Line())
        return self.lines[self.row]

    def line_feed(self) -> None:
        """Down one line, scrolling the region at its bottom."""
        if self.row == self.bottom:
            self.scroll_up(1)
        elif self.row < self.rows - 1:
            self.row += 1
        self.line()

    def scroll_up(self, count: int) -> None:
        """Move the region's lines up; from the top of the screen they become history."""
        for _ in range(min(count, self.rows)):
            while len(self.lines) <= self.bottom:
                self.lines.append(Line())
            gone = self.lines.pop(self.top)
            if self.top == 0 and not self.wraps:
                self.scrolled.append(gone.text())
            self.lines.insert(self.bottom, Line())

    def scroll_down(self, count: int, top: int | None = None) -> None:
        """Move lines from `top` (the region's by default) down; the lowest are lost."""
        start = self.top if top is None else top
        for _ in range(min(count, self.rows)):
            while len(self.lines) <= self.bottom:
                self.lines.append(Line())
            self.lines.pop(self.bottom)
            self.lines.insert(start, Line())

    def write(self, text: str) -> None:
        """Put `text` at the cursor."""
        line = self.line()
        cells = line.cells
        plain = text.isascii()
        if plain and self.column == len(cells) and not self.wraps:
            cells.extend(text)
            self.column += len(text)
            return
        if plain and not self.wraps and self.column < _MAX_COLUMN:
            line.edited = True
            cells.extend(" " * (self.column - len(cells)))
            _part(cells, self.column)
            _part(cells, self.column + len(text))
            cells[self.column : self.column + len(text)] = text
            self.column += len(text)
            return
        for character in text:
            self._put(character)

    def _put(self, character: str) -> None:
        width = _width(character)
        if self.wraps and self.column + max(width, 1) > self.columns:
            if width == 0:
                return
            self.column = 0
            self.line_feed()
        line = self.line()
        cells = line.cells
        if width == 0:
            at = min(self.column, len(cells)) - 1
            while at > 0 and cells[at] == "":
                at -= 1
            if at >= 0:
                cells[at] += character
            return
        if self.column < len(cells):
            line.edited = True
        elif self.column > len(cells):
            line.edited = True
            cells.extend(" " * (self.column - len(cells)))
        _part(cells, self.column)
        _part(cells, self.column + width)
        cells[self.column : self.column + width] = [character] + [""] * (width - 1)
        self.column += width

    def tab(self) -> None:
        """To the next tab stop; at a line's end the tab itself is kept as text."""
        cells = self.line().cells
        stop = (self.column // _TAB + 1) * _TAB
        if self.column == len(cells) and not self.wraps:
            cells.append("\t")
            cells.extend([""] * (stop - self.column - 1))
        self.column = min(stop, self.columns - 1) if self.wraps else stop

    def erase_line(self, mode: int) -> None:
        """EL: 0 from the cursor on, 1 up to it, 2 all."""
        line = self.line()
        line.edited = True
        if mode == 0:
            _part(line.cells, self.column)
            del line.cells[self.column :]
        elif mode == 1:
            count = min(self.column + 1, len(line.cells))
            _part(line.cells, count)
            line.cells[:count] = " " * count
        elif mode == 2:
            line.cells.clear()

    def erase_screen(self, mode: int) -> None:
        """ED: 0 below, 1 above, 2 the whole screen, 3 what has scrolled out."""
        if mode == 0:
            self.erase_line(0)
            del self.lines[self.row + 1 :]
        elif mode == 1:
            for line in self.lines[: self.row]:
                line.cells.clear()
            self.erase_line(1)
        elif mode == 2:
            for line in self.lines:
                line.cells.clear()
        elif mode == 3:
            self.scrolled.clear()

    def move(self, row: int, column: int) -> None:
        """Put the cursor somewhere, kept inside the screen."""
        self.row = max(0, min(row, self.rows - 1))
        self.column = max(0, min(column, self.columns - 1))

    def write_lines(self, lines: list[str]) -> bool:
        """Write many plain lines at once; False when the cursor is not where output goes on."""
        if self.wraps or self.row != len(self.lines) - 1 or len(lines) < self.rows:
            return False
        if (self.top, self.bottom) != (0, self.rows - 1):
            return False
        self.write(lines[0])
        kept = self.rows - 1
        self.scrolled += [line.text() for line in self.lines]
        self.scrolled += lines[1 : len(lines) - kept]
        self.lines = [Line() for _ in range(self.rows)]
        self.row = self.column = 0
        for line in lines[len(lines) - kept :]:
            self.write(line)
            self.row += 1
            self.column = 0
        return True

    def text_lines(self) -> list[str]:
        """All lines, oldest first."""
        return self.scrolled + [line.text() for line in self.lines]


def _part(cells: list[str], position: int) -> None:
    """Turn a glyph that lies on both sides of `position` into blanks, as terminals do."""
    if not 0 < position < len(cells) or cells[position] != "":
        return
    first = position
    while first > 0 and cells[first] == "":
        first -= 1
    last = position
    while last < len(cells) and cells[last] == "":
        last += 1
    cells[first:last] = " " * (last - first)


def _width(character: str) -> int:
    if character.isascii():
        return 1
    category = unicodedata.category(character)
    if category in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
