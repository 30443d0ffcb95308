"""A terminal emulator: the text that a screen would show of a stream of bytes.

A bounded emulator for the everyday case: carriage returns, cursor moves, erasing, scroll
regions, the alternate screen. Lines of the main screen are as long as the program wrote them
(they are not wrapped, so that a long line stays one line for the reader); lines that have
scrolled out can no longer change and are kept as plain text. Colours go. Figures and meanings
are those of ECMA-48 and xterm's control sequences.
"""

from __future__ import annotations

import codecs
import re
import unicodedata

_TAB = 8
_MAX_COLUMN = 1 << 20


class ScreenLine:
    """Cells of one line; "" continues a wide character or a tab. `edited`: it was overwritten."""

    __slots__ = ("cells", "edited")

    def __init__(self) -> None:
        self.cells: list[str] = []
        self.edited = False

    def text(self) -> str:
        joined = "".join(self.cells)
        return joined.rstrip() if self.edited else joined


class ScreenPage:
    """One of the two screens: at most `rows` lines that can change, above them what scrolled."""

    def __init__(self, rows: int, columns: int, *, wraps: bool) -> None:
        self.rows = rows
        self.columns = columns
        self.wraps = wraps
        self.lines: list[ScreenLine] = [ScreenLine()]
        self.scrolled: list[str] = []
        self.row = 0
        self.column = 0
        self.top = 0
        self.bottom = rows - 1
        self.saved = (0, 0)
        self.addressed = False

    def line(self) -> ScreenLine:
        while len(self.lines) <= self.row:
            self.lines.append(ScreenLine())
        return self.lines[self.row]

    def line_feed(self) -> None:
        """Move down one line, scrolling the region at its bottom."""
        if self.row == self.bottom:
            self.scroll_up(1)
        elif self.row < self.rows - 1:
            self.row += 1
        self.line()

    def scroll_up(self, count: int) -> None:
        """Move the region's lines up; from the top of the screen they become history."""
        for _ in range(min(count, self.rows)):
            while len(self.lines) <= self.bottom:
                self.lines.append(ScreenLine())
            gone = self.lines.pop(self.top)
            if self.top == 0 and not self.wraps:
                self.scrolled.append(gone.text())
            self.lines.insert(self.bottom, ScreenLine())

    def scroll_down(self, count: int, top: int | None = None) -> None:
        """Move lines from `top` (the region's by default) down; the lowest are lost."""
        start = self.top if top is None else top
        for _ in range(min(count, self.rows)):
            while len(self.lines) <= self.bottom:
                self.lines.append(ScreenLine())
            self.lines.pop(self.bottom)
            self.lines.insert(start, ScreenLine())

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
        """Move to the next tab stop; at the end of a line keep the tab itself as text."""
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
        self.lines = [ScreenLine() for _ in range(self.rows)]
        self.row = self.column = 0
        for line in lines[len(lines) - kept :]:
            self.write(line)
            self.row += 1
            self.column = 0
        return True

    def text_lines(self) -> list[str]:
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


_TOKEN = re.compile(
    r"(?P<block>(?:[^\x00-\x1f\x7f-\x9f]*\r?\n){64,})"
    r"|(?P<text>[^\x00-\x1f\x7f-\x9f]+)"
    r"|\x1b\[(?P<args>[0-?]*)(?P<middle>[ -/]*)(?P<final>[@-~])"
    r"|(?P<string>\x1b[\]PX^_][^\x07\x1b]*(?:\x1b(?!\\)[^\x07\x1b]*)*(?:\x07|\x1b\\|\Z))"
    r"|\x1b(?P<charset>[ -/]+[0-~])"
    r"|\x1b(?P<escape>[0-~])"
    r"|(?P<control>[\x00-\x1f\x7f-\x9f])",
    re.DOTALL,
)
_UNFINISHED = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*|[ -/]*|[\]PX^_][^\x07\x1b]*(?:\x1b(?!\\)[^\x07\x1b]*)*)\Z"
)
_LONGEST_UNFINISHED = 65536
_LINE_DRAWING = str.maketrans("jklmnqtuvwx", "┘┐┌└┼─├┤┴┬│")


class Screen:
    """An emulator of `rows` by `columns`: feed it bytes, ask it for text."""

    def __init__(self, rows: int = 40, columns: int = 120) -> None:
        self._size = (rows, columns)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._main = ScreenPage(rows, columns, wraps=False)
        self._alternate: ScreenPage | None = None
        self._page = self._main
        self._pending = ""
        self._sets = {"(": "B", ")": "B"}
        self._shifted = False
        self._last = " "
        self.last_full_screen: str | None = None
        """The alternate screen as it was when it was last left."""

    def feed(self, data: bytes, *, final: bool = False) -> None:
        """Take in `data`; characters and sequences may be split anywhere between calls."""
        text = self._pending + self._decoder.decode(data, final)
        self._pending = ""
        unfinished = _UNFINISHED.search(text, max(0, len(text) - 4096))
        if unfinished is not None and len(text) - unfinished.start() < _LONGEST_UNFINISHED:
            self._pending = "" if final else text[unfinished.start() :]
            text = text[: unfinished.start()]
        for match in _TOKEN.finditer(text):
            kind = match.lastgroup
            if kind == "block":
                self._block(match[0])
            elif kind == "text":
                run = match[0]
                self._page.write(run.translate(_LINE_DRAWING) if self._drawing else run)
                self._last = run[-1]
            elif kind == "control":
                self._control(match[0])
            elif kind == "final":
                if match["final"] == "m":
                    continue  # colours, the most frequent by far
                self._sequence(match["args"], match["middle"], match["final"])
            elif kind == "charset":
                designation = match["charset"]
                if designation[0] in self._sets:
                    self._sets[designation[0]] = designation[1:]
            elif kind == "escape":
                self._escape(match["escape"])

    def _block(self, block: str) -> None:
        lines = block.replace("\r\n", "\n").split("\n")[:-1]
        if not self._drawing and self._page.write_lines(lines):
            return
        for line in lines:
            if line:
                self._page.write(line.translate(_LINE_DRAWING) if self._drawing else line)
            self._control("\r")
            self._control("\n")

    def text(self) -> str:
        """Return the main screen with its history, and the alternate screen while it is on."""
        lines = self._main.text_lines()
        if self._alternate is not None:
            while lines and not lines[-1]:
                lines.pop()
            lines += [line.rstrip() for line in self._alternate.text_lines()]
        while lines and not lines[-1]:
            lines.pop()
        return "\n".join(lines)

    def _control(self, character: str) -> None:
        page = self._page
        if character == "\n":
            # The pseudo-terminal does not translate line feeds, so a bare one returns the
            # carriage, except for a full-screen program that positions its cursor itself.
            if not page.addressed:
                page.column = 0
            page.line_feed()
        elif character == "\r":
            page.column = 0
        elif character == "\b":
            page.column = max(0, page.column - 1)
        elif character == "\t":
            page.tab()
        elif character in "\x0b\x0c":
            page.line_feed()
        elif character in "\x0e\x0f":
            self._shifted = character == "\x0e"

    @property
    def _drawing(self) -> bool:
        """Return whether the set in use is DEC's line drawing (VT100 user guide, SCS)."""
        return self._sets[")" if self._shifted else "("] == "0"

    def _escape(self, final: str) -> None:
        page = self._page
        if final == "7":
            page.saved = (page.row, page.column)
        elif final == "8":
            page.move(*page.saved)
        elif final == "M":
            if page.row == page.top:
                page.scroll_down(1)
            else:
                page.row = max(0, page.row - 1)
        elif final == "D":
            page.line_feed()
        elif final == "E":
            page.column = 0
            page.line_feed()
        elif final == "c":
            self._leave_alternate()
            self._main.erase_screen(2)
            self._main.move(0, 0)
            self._sets, self._shifted = {"(": "B", ")": "B"}, False

    def _sequence(self, args: str, middle: str, final: str) -> None:
        if middle:
            return
        if args[:1] == "?":
            if final in "hl":
                on = final == "h"
                for mode in args[1:].split(";"):
                    if mode in ("47", "1047", "1049"):
                        if on and self._alternate is None:
                            self._alternate = self._page = ScreenPage(*self._size, wraps=True)
                        elif not on:
                            self._leave_alternate()
            return
        if args[:1] in ("<", "=", ">"):
            return
        numbers = [int(part) if part.isdigit() else 0 for part in re.split("[;:]", args)]
        first = min(numbers[0], 1 << 16)
        second = min(numbers[1], 1 << 16) if len(numbers) > 1 else 0
        if final in "ABCDEFGHf`dJK":
            self._cursor_or_erase(final, first, second)
        else:
            self._edit(final, first, second)

    def _cursor_or_erase(self, final: str, first: int, second: int) -> None:
        page = self._page
        count = max(1, first)
        match final:
            case "A":
                page.row = max(page.top if page.row >= page.top else 0, page.row - count)
            case "B":
                page.row = min(page.rows - 1, page.row + count)
            case "C":
                page.column = max(page.column, min(page.columns - 1, page.column + count))
            case "D":
                page.column = max(0, page.column - count)
            case "E":
                page.move(page.row + count, 0)
            case "F":
                page.move(page.row - count, 0)
            case "G" | "`":
                page.move(page.row, count - 1)
            case "d":
                page.move(count - 1, page.column)
            case "J":
                page.erase_screen(first)
            case "K":
                page.erase_line(first)
            case _:
                page.addressed = page.wraps
                page.move(count - 1, max(1, second) - 1)

    def _edit(self, final: str, first: int, second: int) -> None:
        page = self._page
        count = max(1, first)
        cells = page.line().cells
        match final:
            case "@":
                cells[page.column : page.column] = " " * min(count, page.columns)
            case "P":
                page.line().edited = True
                del cells[page.column : page.column + count]
            case "X":
                page.line().edited = True
                stop = min(page.column + count, len(cells))
                cells[page.column : stop] = " " * max(0, stop - page.column)
            case "L":
                page.scroll_down(count, page.row)
            case "M":
                for _ in range(min(count, len(page.lines) - page.row)):
                    page.lines.insert(min(page.bottom + 1, len(page.lines)), ScreenLine())
                    page.lines.pop(page.row)
            case "S":
                page.scroll_up(count)
            case "T":
                page.scroll_down(count)
            case "b":
                page.write(self._last * min(count, page.columns))
            case "r":
                bottom = second or page.rows
                if count < bottom <= page.rows:
                    page.top, page.bottom = count - 1, bottom - 1
                    page.move(0, 0)
            case "s":
                page.saved = (page.row, page.column)
            case "u":
                page.move(*page.saved)

    def _leave_alternate(self) -> None:
        if self._alternate is not None:
            lines = [line.rstrip() for line in self._alternate.text_lines()]
            self.last_full_screen = "\n".join(lines).strip("\n")
        self._alternate = None
        self._page = self._main


def render(data: bytes, rows: int = 40, columns: int = 120) -> str:
    """Return the text that a screen would show of all of `data`."""
    screen = Screen(rows, columns)
    screen.feed(data, final=True)
    return screen.text()
