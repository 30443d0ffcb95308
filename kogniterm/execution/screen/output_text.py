"""A command's output: all of it in a file, its head and tail in memory, as text for the model."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from kogniterm.execution.screen.emulator import Screen

HEAD_BYTES = 128 << 10
TAIL_BYTES = 256 << 10
"""Raw bytes kept in memory: output up to their sum is rendered as a whole.

The tail may grow to twice its size before it is cut.
"""

_RENDERED_WHOLE = 128 << 10
_RENDERED_PIECE = 64 << 10

FILE_LIMIT = 256 << 20


@dataclass(frozen=True, slots=True)
class OutputLimits:
    """How much output is kept: `text` characters for the model, a quarter of them from the
    head; `file` bytes on disk for each command.
    """

    text: int = 16_000
    file: int = FILE_LIMIT


@dataclass(frozen=True, slots=True)
class Rendered:
    """Text for the model, the raw bytes it leaves out, and the last full screen, if any."""

    text: str
    omitted: int
    full_screen: str | None = None


@dataclass(frozen=True, slots=True)
class _Piece:
    """A rendered part of the output and how many raw bytes it comes from."""

    text: str
    size: int
    full_screen: str | None


class OutputKeeper:
    """Takes a command's output as it comes. Memory is bounded whatever the amount."""

    def __init__(self, path: Path | None, limits: OutputLimits, size: tuple[int, int]) -> None:
        self._path = path
        self._limits = limits
        self._size = size
        self._head = bytearray()
        self._tail = bytearray()
        self._file: int | None = None
        self._written = 0
        self.total = 0

    @property
    def path(self) -> str | None:
        """The file that holds the raw output; None while there is none."""
        return str(self._path) if self._written else None

    def add(self, data: bytes) -> None:
        """Take in `data`."""
        self.total += len(data)
        self._write(data)
        room = HEAD_BYTES - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail += data
            if len(self._tail) >= 2 * TAIL_BYTES:
                del self._tail[:-TAIL_BYTES]

    def _write(self, data: bytes) -> None:
        if self._path is None:
            return
        room = self._limits.file - self._written
        if room <= 0:
            return
        try:
            if self._file is None:
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                self._file = os.open(self._path, flags, 0o600)
            os.write(self._file, data[:room])
            self._written += min(room, len(data))
        except OSError:
            # A full disk must not end the command; the result says what the file holds.
            self._limits = OutputLimits(self._limits.text, 0)

    @property
    def cut_file(self) -> bool:
        """Whether the file lacks a part of the output."""
        return self._path is not None and self._written < self.total

    @property
    def file_room(self) -> int:
        """Bytes the file may still take."""
        return max(0, self._limits.file - self._written)

    def last(self, size: int) -> bytes:
        """The last `size` raw bytes, or fewer."""
        return bytes((self._tail or self._head)[-size:])

    def last_lines(self, count: int = 10) -> str:
        """What the screen shows at its end."""
        screen = Screen(*self._size)
        screen.feed(self.last(16 << 10), final=True)
        return "\n".join(screen.text().splitlines()[-count:])

    def render(self) -> Rendered:
        """Text as a screen would show it, clipped to the head and a longer tail."""
        head, tail = bytes(self._head), bytes(self._tail)
        lost = self.total - len(head) - len(tail)
        if lost <= 0 and self.total <= _RENDERED_WHOLE:
            return self._whole(head + tail)
        if lost <= 0:
            both = head + tail
            head, tail = both[: len(both) // 2], both[len(both) // 2 :]
        wanted = self._limits.text
        first = self._piece(_before_last_newline(head[:_RENDERED_PIECE]))
        last = self._piece(_after_first_newline(tail[-_RENDERED_PIECE:]))
        if len(first.text) < wanted // 4 or len(last.text) < wanted:
            # Mostly redraws: more has to be read for the same amount of text.
            if lost <= 0:
                return self._whole(head + tail)
            first = self._piece(_before_last_newline(head))
            last = self._piece(_after_first_newline(tail))
        gap = self.total - first.size - last.size
        text, omitted = clip_parts(first.text, last.text, wanted, gap, self.path)
        return Rendered(text, omitted, last.full_screen)

    def _whole(self, data: bytes) -> Rendered:
        piece = self._piece(data)
        text, omitted = clip(piece.text, self._limits.text, 0, self.path)
        return Rendered(text, omitted, piece.full_screen)

    def _piece(self, data: bytes) -> _Piece:
        screen = Screen(*self._size)
        screen.feed(data, final=True)
        return _Piece(screen.text(), len(data), screen.last_full_screen)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.close(self._file)
            self._file = None


def clip(text: str, limit: int, lost: int = 0, path: str | None = None) -> tuple[str, int]:
    """`text` within `limit` characters: a quarter head, the rest tail, the gap counted in bytes."""
    if len(text) <= limit and not lost:
        return text, 0
    return clip_parts(text, text, limit, lost, path)


def clip_parts(head: str, tail: str, limit: int, lost: int, path: str | None) -> tuple[str, int]:
    """The start of `head` and the end of `tail` with the number of bytes left out between.

    `head` and `tail` may be the same text. Whole lines are kept where lines are short enough.
    """
    first = head[: limit // 4]
    last = tail[-(limit - limit // 4) :] if limit else ""
    if len(first) < len(head):
        first = first[: first.rfind("\n") + 1] or first
    if len(last) < len(tail):
        cut = last.find("\n") + 1
        last = last[cut:] if 0 < cut < len(last) // 2 else last
    if head is tail:
        omitted = lost + len(head.encode("utf-8", "replace")) - _size(first) - _size(last)
    else:
        omitted = lost + _size(head) - _size(first) + _size(tail) - _size(last)
    where = f"; the whole output is in {path}" if path else ""
    first = first if not first or first.endswith("\n") else first + "\n"
    return f"{first}[… {omitted} bytes left out{where} …]\n{last}", omitted


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _before_last_newline(data: bytes) -> bytes:
    cut = data.rfind(b"\n", len(data) - (64 << 10)) + 1
    return data[:cut] if cut else data


def _after_first_newline(data: bytes) -> bytes:
    cut = data.find(b"\n", 0, 64 << 10) + 1
    if not cut:
        cut = next((i for i in range(min(4, len(data))) if data[i] & 0xC0 != 0x80), 0)
    return data[cut:]
