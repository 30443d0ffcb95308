"""The target of drawing: lines that stay, and a live region at the bottom that is redrawn.

`Surface` is the seam. `LineSurface` writes lines in order and nothing else (pipes, TERM=dumb,
screen readers). `LiveSurface` keeps a live region under the lines on a terminal that nobody
types into (one-shot runs). The REPL's own surface lives with its prompt.

`Attention` sends signals outside the text: OSC 2 sets the title (xterm), OSC 9;4 the taskbar's
progress (ConEmu, also Windows Terminal, WezTerm, Ghostty, VTE), OSC 9 a desktop notification
(iTerm2, kitty), BEL a bell.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from typing import Protocol, TextIO

from kogniterm.text.shorten import one_line
from kogniterm.ui.locale import _
from kogniterm.ui.screen.screen_preferences import Preferences

FRAME_SECONDS = 0.06
TICK_SECONDS = 0.125

ERASE_DOWN = "\x1b[K\x1b7\x1b[B\x1b[J\x1b8"
"""Erases from the start of a row to the end of the screen. The plain sequence, at the first cell of
the screen, makes tmux keep in its scrollback what it erases."""

LiveRegion = Callable[[int, int], list[str]]


class Surface(Protocol):
    """A place to draw."""

    def size(self) -> tuple[int, int]:
        """Return (rows, columns) now."""

    def commit(self, text: str) -> None:
        """Write `text` for good, above the live region."""

    def refresh(self) -> None:
        """Note that the live region changed; it is drawn again soon, many calls at once."""

    def animate(self, on: bool) -> None:
        """Return whether the live region moves by itself (spinner, elapsed time)."""

    def control(self, sequence: str) -> None:
        """Send a sequence that shows nothing: title, bell, progress."""

    def attach(self, live: LiveRegion) -> None:
        """Set what draws the live region: (columns, rows) → lines."""


def stream_size(stream: TextIO) -> tuple[int, int]:
    """Return (rows, columns) of the terminal behind `stream`; 24 by 80 where there is none."""
    try:
        size = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return 24, 80
    return size.lines or 24, size.columns or 80


def cells(text: str) -> int:
    """Return the cells `text` takes. Loads the tables of wide characters on first use."""
    if text.isascii():
        return len(text)
    from prompt_toolkit.utils import get_cwidth

    return get_cwidth(text)


def cut_middle(path: str, width: int) -> str:
    """Return a path in at most `width` cells: its first and last part stay as far as they can."""
    if cells(path) <= width:
        return path
    head, _slash, rest = path.partition("/")
    parts = rest.split("/")
    for count in range(len(parts) - 1, 0, -1):
        short = "/".join([head, "…", *parts[-count:]])
        if cells(short) <= width:
            return short
    end = path
    while end and cells(end) >= width:
        end = end[1:]
    return f"…{end}"


def discard_output(stream: TextIO) -> None:
    """Discard further output to `stream`, because its terminal is gone.

    Leaving must not fail without a screen, and Python flushes once more at exit.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
    stream.flush()


class LineSurface:
    """Lines in order; the live region is never drawn."""

    def __init__(self, stream: TextIO, columns: int | None = None) -> None:
        self._stream = stream
        self._columns = columns

    def size(self) -> tuple[int, int]:
        """Return the terminal's size, or 80 columns for a file."""
        rows, columns = stream_size(self._stream)
        return rows, self._columns or columns

    def commit(self, text: str) -> None:
        """Write and flush at once, so that a reader on a pipe follows."""
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            discard_output(self._stream)

    def refresh(self) -> None:
        """Do nothing: there is nothing to redraw."""

    def animate(self, on: bool) -> None:
        """Do nothing: nothing moves."""

    def control(self, sequence: str) -> None:
        """Do nothing: plain lines contain no control sequences."""

    def attach(self, live: LiveRegion) -> None:
        """Note that the live region is not shown."""


class LiveSurface:
    """A live region under the lines, for a terminal that only shows.

    Every frame is one write: cursor to the region's top, erase down, new lines, new region.
    Needs a running event loop for redraws; commits work without.
    """

    def __init__(self, stream: TextIO, size: Callable[[], tuple[int, int]] | None = None) -> None:
        self._stream = stream
        self._size = size or (lambda: stream_size(stream))
        self._live: LiveRegion | None = None
        self._drawn = 0
        self._due: asyncio.TimerHandle | None = None
        self._ticker: asyncio.TimerHandle | None = None
        self._hidden = False

    def size(self) -> tuple[int, int]:
        return self._size()

    def commit(self, text: str) -> None:
        """Write above the region and draw the region again, in one write."""
        self._write(text)

    def refresh(self) -> None:
        """Draw the region again within one frame time."""
        if self._due is None and not self._hidden:
            self._due = asyncio.get_running_loop().call_later(FRAME_SECONDS, self._redraw)

    def animate(self, on: bool) -> None:
        """Redraw by the clock while `on`."""
        if self._ticker is not None:
            self._ticker.cancel()
            self._ticker = None
        if on:
            self._tick()
        else:
            self._write("")

    def control(self, sequence: str) -> None:
        """Send `sequence` as it is."""
        self._stream.write(sequence)
        self._stream.flush()

    def attach(self, live: LiveRegion) -> None:
        """Draw `live` from now on."""
        self._live = live

    def hide(self) -> None:
        """Take the region away while something else owns the terminal."""
        self._hidden = True
        self._write("")

    def show(self) -> None:
        """Bring the region back."""
        self._hidden = False
        self._write("")

    def _tick(self) -> None:
        self._ticker = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)
        if not self._hidden:
            self._write("")

    def _redraw(self) -> None:
        self._due = None
        if not self._hidden:
            self._write("")

    def _write(self, text: str) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None
        rows, columns = self._size()
        live = [] if self._live is None or self._hidden else self._live(columns - 1, rows - 1)
        up = f"\x1b[{self._drawn - 1}A" if self._drawn > 1 else ""
        erase = f"\r{up}{ERASE_DOWN}" if self._drawn else ""
        frame = erase + text + "\n".join(live)
        self._drawn = len(live)
        if frame:
            self._stream.write(frame)
            self._stream.flush()


BELL = "\a"
ESCAPE = "\x1b"


KEEP_TITLE = "\x1b[22;2t"
"""Tells the terminal to remember its title (XTWINOPS); one that cannot ignores it."""
RESTORE_TITLE = "\x1b[23;2t"


class Attention:
    """Sends the signals that the preferences allow; on a bare terminal none.

    The title shows the session, and before it whether a turn runs or a question waits.
    """

    def __init__(self, preferences: Preferences, send: Callable[[str], None]) -> None:
        self._preferences = preferences
        self._send = send
        self._name = "KogniTerm"
        self._shown = ""
        self._working = False
        self._waiting = False
        self._typing = False

    def title(self, text: str) -> None:
        """Name the window after the session."""
        self._name = text
        self._retitle()

    def working(self, on: bool) -> None:
        """Show that a turn runs (of unknown length), or that none does."""
        if on != self._working:
            self._working, self._waiting = on, False
            self._progress(3 if on else 0)
            self._retitle()

    def waiting(self, on: bool) -> None:
        """Show that the turn waits for the user, or that it goes on."""
        if on != self._waiting and self._working:
            self._waiting = on
            self._progress(4 if on else 3)
            self._retitle()

    def typing(self, on: bool) -> None:
        """Show how to get the keyboard back from the running command, or that it is back."""
        self._typing = on
        self._retitle()

    def call(self, message: str) -> None:
        """Call the user: a question waits, or a long turn is over."""
        notify = self._preferences.notify
        if notify == "off" or (self._preferences.bare and notify != "bell"):
            return
        self._send(BELL if notify == "bell" else self._outer(f"\x1b]9;{one_line(message, 120)}\a"))

    def close(self) -> None:
        """Remove the progress and restore the previous title."""
        if self._working:
            self._working = self._waiting = False
            self._progress(0)
        if self._shown:
            self._shown = ""
            # A terminal that keeps no titles shows an empty one, its own in most of them.
            self._send(f"\x1b]2;\a{RESTORE_TITLE}")

    def _progress(self, state: int) -> None:
        """Set the progress of OSC 9;4: 0 removes it, 3 is of unknown length, 4 pauses it."""
        if self._preferences.progress and not self._preferences.bare:
            self._send(self._outer(f"\x1b]9;4;{state};0\a"))

    def _outer(self, sequence: str) -> str:
        """Return `sequence` for the terminal around tmux, which passes on only what is wrapped.

        tmux does so with its option `allow-passthrough`; without, it drops the sequence.
        """
        if not self._preferences.term.startswith("tmux"):
            return sequence
        return f"\x1bPtmux;{sequence.replace(ESCAPE, 2 * ESCAPE)}{ESCAPE}\\"

    def _retitle(self) -> None:
        if not self._preferences.title or self._preferences.bare:
            return
        words = "{name}"
        if self._working:
            words = _("Waiting for you: {name}") if self._waiting else _("Running: {name}")
        if self._typing:
            words = _("Ctrl-G Ctrl-G Ctrl-D detaches the command: {name}")
        text = one_line(words.format(name=self._name), 80)
        if text != self._shown:
            keep = "" if self._shown else KEEP_TITLE
            self._shown = text
            self._send(f"{keep}\x1b]2;{text}\a")
