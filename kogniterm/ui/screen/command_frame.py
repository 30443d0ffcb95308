"""A command's frame: its text, the last lines of its output while it runs, a fold when it ends.

Bytes are only counted and kept at both ends as they arrive; sanitizing and drawing happen when
the frame is looked at, so 100 MB of output cost as much drawing as one screen of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from rich.cells import cell_len, chop_cells
from rich.console import Group, RenderableType
from rich.text import Text

from kogniterm.types import ENDINGS, CommandResult, Waiting
from kogniterm.ui.locale import _, duration, plural, size, translate
from kogniterm.ui.screen.paint import Painter

HEAD_BYTES = 16 * 1024
TAIL_BYTES = 64 * 1024
LIVE_BYTES = 8 * 1024
LIVE_ROWS = 8
QUIET_SECONDS = 5.0
COMMAND_ROWS = 12
LIVE_COMMAND_ROWS = 4
GUTTER = 3
"""Columns the frame takes from the screen's width."""
LINE_ROWS = 4
"""Most rows of one long line in a frame that stays."""
_MOVES_CURSOR = re.compile(rb"\x1b\[[0-9;?]*[A-HJLMPSTXdfhlr]|\x08")

_OWN_SCREEN = re.compile(rb"\x1b\[\?(10)?4[79]h.*?(\x1b\[\?(10)?4[79]l|\Z)", re.DOTALL)


class OutputTail:
    """The two ends of an output stream, and how many lines and bytes passed by."""

    def __init__(self) -> None:
        self.head = bytearray()
        self.bytes = 0
        self.newlines = 0
        self._tail = bytearray()

    def feed(self, data: bytes) -> None:
        """Take a chunk; constant cost per byte, bounded memory."""
        self.bytes += len(data)
        self.newlines += data.count(b"\n")
        room = HEAD_BYTES - len(self.head)
        if room > 0:
            self.head += data[:room]
        self._tail += data[-TAIL_BYTES:]
        if len(self._tail) > 2 * TAIL_BYTES:
            del self._tail[:-TAIL_BYTES]

    def tail(self, limit: int = TAIL_BYTES) -> bytes:
        """Return the last bytes, from the start of a line where there is one."""
        data = bytes(self._tail[-limit:])
        if self.bytes <= len(data):
            return data
        cut = data.find(b"\n")
        return data[cut + 1 :] if cut >= 0 else data

    @property
    def moves_cursor(self) -> bool:
        """Return whether plain lines would not show what a screen does."""
        return bool(_MOVES_CURSOR.search(self.head) or _MOVES_CURSOR.search(self._tail))


def screen_lines(data: bytes) -> list[str]:
    """Return safe lines with colours; a line that was redrawn with CR shows its last state.

    Pages of a full-screen program are left out: without its cursor they are letters in disorder.
    """
    from kogniterm.text.sanitize import sanitize

    text = sanitize(_OWN_SCREEN.sub(b"", data)).decode("utf-8", "replace")
    lines = text.split("\n")
    if lines and not lines[-1].strip("\r"):
        lines.pop()
    return [_after_returns(line) for line in lines]


def _after_returns(line: str) -> str:
    parts = [part for part in line.split("\r") if part]
    return parts[-1] if parts else ""


class CommandFrame:
    """A command on the screen, from its start to its end."""

    def __init__(
        self,
        command: str,
        cwd: str,
        started: float,
        *,
        clock: Callable[[], float],
        own: bool = False,
        indent: int = 0,
    ) -> None:
        self.command = command
        self.cwd = cwd
        self.output = OutputTail()
        self.waiting: Waiting | None = None
        self.own = own
        self.has_keyboard = False
        self.cut_off = False
        """Something else was written since the command got the keyboard."""
        self.done = False
        self._code: int | None = None
        self._over: float | None = None
        self._indent = " " * indent
        self._started = started
        self._clock = clock

    @property
    def elapsed(self) -> float:
        """Seconds since the start, until the end."""
        return (self._clock() if self._over is None else self._over) - self._started

    @property
    def asks(self) -> bool:
        """Tell whether the command waits for keys of the user."""
        kinds = ("terminal", "password")
        return not self.done and self.waiting is not None and self.waiting.kind in kinds

    def end(self, exit_code: int | None) -> None:
        """Note the end of a command whose result is told later."""
        self.done, self._code, self._over, self.waiting = True, exit_code, self._clock(), None

    def brief(self, painter: Painter, width: int) -> list[str]:
        """Return the frame in two lines while another one is live: its state, its last output."""
        from kogniterm.text.visible import render_line

        width -= len(self._indent)
        head = Text(f"{painter.symbol('top')} ", "frame")
        head.append("$ ", "accent")
        head.append(render_line(self.command), "command")
        head.truncate(width, overflow="ellipsis")
        foot = Text()
        foot.append(f"{painter.symbol('bottom')} ", "frame")
        if self.done:
            good = self._code == 0
            sign, style = ("done", "good") if good else ("failed", "bad")
            foot.append(f"{painter.symbol(sign)} ", style)
        told = self.waiting is not None and worth_telling(self.waiting)
        foot.append(self._state(0), "warn" if told else "muted")
        last = screen_lines(self.output.tail(LIVE_BYTES))[-1:]
        if last and not told:
            foot.append(" · ", "muted")
            foot.append_text(_ansi(last[0].strip()))
        foot.truncate(width, overflow="ellipsis")
        return self._indent_lines([*painter.lines(head, width), *painter.lines(foot, width)])

    def header(self, painter: Painter, width: int, rows: int = COMMAND_ROWS) -> list[str]:
        """Return the command as approved, in at most `rows` lines."""
        return self._indent_lines(self._header(painter, width - len(self._indent), rows))

    def _indent_lines(self, lines: list[str]) -> list[str]:
        return [self._indent + line for line in lines] if self._indent else lines

    def _header(self, painter: Painter, width: int, rows: int = COMMAND_ROWS) -> list[str]:
        lines = command_lines(self.command, painter, width, top=True)
        hidden = len(lines) - rows
        if hidden <= 0:
            return lines
        note = Text()
        self._gutter(note, painter)
        note.append(plural("{count} more line", "{count} more lines", hidden + 1), "muted")
        return [*lines[: rows - 1], *painter.lines(note, width)]

    def live(self, painter: Painter, width: int, rows: int) -> list[str]:
        """Return the frame while the command runs, in at most `rows` lines."""
        width -= len(self._indent)
        lines = self._header(painter, width, max(min(LIVE_COMMAND_ROWS, rows - 2), 1))
        room = max(min(rows - len(lines) - 1, LIVE_ROWS), 0)
        shown = screen_lines(self.output.tail(LIVE_BYTES))[-room:] if room else []
        hidden = self.output.newlines - len(shown)
        lines += [self._row(_ansi(line), painter, width) for line in shown]
        foot = Text()
        foot.append(f"{painter.symbol('bottom')} ", "frame")
        told = self.waiting is not None and worth_telling(self.waiting)
        foot.append(self._state(hidden), "warn" if told else "muted")
        foot.truncate(width, overflow="ellipsis")
        return self._indent_lines([*lines, *painter.lines(foot, width)])

    def hand_over(self, painter: Painter, width: int, rows: int) -> str:
        """Return the frame for good as the user gets the keyboard.

        From here on the command writes to the screen itself, beginning with its last line.
        """
        self.has_keyboard = True
        lines = screen_lines(self.output.tail().rpartition(b"\n")[0])[-max(rows, 1) :]
        # A question's own lines matter to who answers it: a fingerprint, a path, all of it.
        shown = [row for line in lines for row in self._output_rows(line, painter, width, rows)]
        return "\n".join([*self.header(painter, width), *shown[-max(rows, 1) :]]) + "\n"

    def ended(
        self, result: CommandResult, painter: Painter, fold: int, width: int, number: int
    ) -> str:
        """Return the frame for good: header, folded output, how it ended."""
        width -= len(self._indent)
        if self.has_keyboard:
            again = "".join(f"{line}\n" for line in self._header(painter, width))
            footer = painter.paint(self.footer(result, painter), width)
            return self._put(again + footer if self.cut_off else footer)
        shown, hidden = self._fold_output(result, fold)
        whole = self.output.bytes >= result.output_bytes
        folded = plural("{count} line folded", "{count} lines folded", hidden)
        if not whole:
            # A flood is not handed to the screen whole: lines cannot be counted, bytes can.
            folded = _("most of {size} folded").format(size=size(result.output_bytes))
        room = LINE_ROWS * max(width - GUTTER - 2, 8)
        cut = any(cell_len(_ansi(line).plain) > room for line in shown)
        parts = [f"{line}\n" for line in self._header(painter, width)]
        for index, line in enumerate(shown):
            if hidden and index == fold // 4:
                note = Text()
                self._gutter(note, painter)
                note.append(f"{painter.symbol('more')} {folded} · /output {number}", "muted")
                parts.append(painter.paint(note, width))
            rows = self._output_rows(line, painter, width, LINE_ROWS)
            parts.extend(f"{row}\n" for row in rows)
        rest = f"/output {number}" if cut and not hidden else ""
        parts.append(painter.paint(self.footer(result, painter, rest), width))
        return self._put("".join(parts))

    def _put(self, text: str) -> str:
        """Return `text` where the frame stands; lines without anything stay empty."""
        lines = (self._indent + line if line.strip() else line for line in text.split("\n"))
        return "\n".join(lines) if self._indent else text

    def footer(self, result: CommandResult, painter: Painter, rest: str = "") -> RenderableType:
        """Return how the command ended, in one line, and what shows the `rest` of its output."""
        good = result.ended == "exited" and result.exit_code == 0
        warns = result.ended == "detached" or (good and any(one.failed for one in result.pipe))
        text = Text()
        text.append(f"{painter.symbol('bottom')} ", "frame")
        sign = "active" if warns else "done" if good else "failed"
        text.append(f"{painter.symbol(sign)} ", "warn" if warns else "good" if good else "bad")
        parts = [ending(result), *map(translate, result.pipe_told), duration(result.duration)]
        if result.output_bytes >= 10_000:
            parts.append(size(result.output_bytes))
        if running := [job.id for job in result.jobs if job.state == "running"]:
            ids = ", ".join(running)
            parts.append(_("still running: {jobs}").format(jobs=ids))
        parts += [rest] if rest else []
        text.append(" · ".join(parts), "muted" if good else "")
        return Group(text, Text(""))

    def _fold_output(self, result: CommandResult, fold: int) -> tuple[list[str], int]:
        """Return (lines to show, lines left out); the tail weighs three times the head."""
        whole = self.output.bytes <= TAIL_BYTES
        if self.output.moves_cursor and result.text:
            lines = screen_lines(result.text.encode("utf-8", "replace"))
            total = len(lines)
        elif whole:
            lines = screen_lines(self.output.tail())
            total = len(lines)
        else:
            head = screen_lines(bytes(self.output.head))[: fold // 4]
            tail = screen_lines(self.output.tail())[-(fold - len(head)) :]
            return [*head, *tail], max(self.output.newlines - len(head) - len(tail), 0)
        if total <= fold + 1:
            return lines, 0
        head_rows = fold // 4
        return [*lines[:head_rows], *lines[-(fold - head_rows) :]], total - fold

    def _state(self, hidden: int) -> str:
        code = [_("exit {code}").format(code=self._code)] if self._code is not None else []
        parts = [*code, duration(self.elapsed)]
        if hidden > 0:
            parts.append(plural("{count} line above", "{count} lines above", hidden))
        if self.waiting is not None and worth_telling(self.waiting):
            parts.append(waiting_text(self.waiting))
        return " · ".join(parts)

    def _gutter(self, text: Text, painter: Painter) -> None:
        text.append(f"{painter.symbol('side')} ", "frame")

    def _output_rows(self, line: str, painter: Painter, width: int, most: int) -> list[str]:
        """Return a line in at most `most` rows, as a terminal shows it.

        What was fitted to the screen's width, as tables are, stays one row and loses at most
        what the frame takes; the rest wraps.
        """
        text = _ansi(line)
        if cell_len(text.plain) <= width:
            return [self._row(text, painter, width)]
        ends, at = [], 0
        for piece in chop_cells(text.plain, max(width - GUTTER - 2, 8))[: most - 1]:
            at += len(piece)
            ends.append(at)
        first, *rest = (piece for piece in text.divide(ends) if piece.plain)
        sign = "↪ " if painter.unicode else "> "
        return [
            self._row(first, painter, width),
            *(self._row(Text.assemble((sign, "accent"), part), painter, width) for part in rest),
        ]

    def _row(self, shown: Text, painter: Painter, width: int) -> str:
        text = Text()
        self._gutter(text, painter)
        text.append_text(shown)
        text.truncate(width - 1, overflow="ellipsis")
        return painter.paint(text, width, end="").split("\n", 1)[0]


def _ansi(line: str) -> Text:
    return Text.from_ansi(line.expandtabs(8))


def worth_telling(waiting: Waiting) -> bool:
    """Return whether to tell of it: at once if the program wants something, else after a while."""
    return waiting.kind in ("terminal", "password", "stopped") or waiting.seconds >= QUIET_SECONDS


def waiting_text(waiting: Waiting) -> str:
    """Return the diagnosis of a quiet command in one sentence; a program chooses its own name."""
    sentences = {
        "terminal": _("{program} is waiting for input"),
        "password": _("{program} is waiting for a password"),
        "sleeping": _("{program} is sleeping"),
        "busy": _("{program} is computing"),
        "network": _("{program} is waiting for the network"),
        "stopped": _("{program} is stopped"),
    }
    from kogniterm.text.shorten import one_line

    sentence = sentences[waiting.kind].format(program=one_line(waiting.program) or _("the command"))
    return f"{sentence} ({one_line(waiting.evidence)})" if waiting.evidence else sentence


def ending(result: CommandResult) -> str:
    """Return how a command ended, in a few words."""
    if result.ended == "exited":
        return _("exit {code}").format(code=result.exit_code)
    if result.ended == "signaled":
        return _("ended by {signal}").format(signal=result.signal or "?")
    return translate(ENDINGS[result.ended])


def command_lines(
    command: str, painter: Painter, width: int, *, dollar: bool = True, top: bool = False
) -> list[str]:
    """Return `command` in lines of at most `width` cells.

    A gutter tells a line that was wrapped from a line of the command. `top` draws the gutter's
    first sign as a corner.
    """
    from kogniterm.text.visible import render, render_line

    lines = []
    # Only a command has lines: the name of a file or an address is one row.
    shown = render(command).split("\n") if dollar else [render_line(command)]
    for number, line in enumerate(shown):
        for part, piece in enumerate(chop_cells(line, max(width - 4, 8)) or [""]):
            first = number == 0 and part == 0
            text = Text()
            text.append(f"{painter.symbol('top' if top and first else 'side')} ", "frame")
            wrapped = "↪ " if painter.unicode else "> "
            text.append(wrapped if part else "$ " if first and dollar else "  ", "accent")
            text.append(piece, "command")
            lines.append(painter.paint(text, width + 4, end="", exact=True))
    return lines
