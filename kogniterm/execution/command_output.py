"""A command's output: live for a sink, as text for the model, and kept whole in a file.

Output files are what a PTY gave, byte for byte. Paging and searching work on their lines as text
without control sequences, and never load a file as a whole.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from kogniterm.errors import ToolError
from kogniterm.execution.screen import Screen, render
from kogniterm.host.safe_files import write_regular
from kogniterm.protocols import OutputSink
from kogniterm.text.redact import Redactor, find_secrets, replace_secrets, replace_values
from kogniterm.types import CommandResult

HEAD_BYTES = 128 << 10
TAIL_BYTES = 256 << 10
"""Raw bytes kept in memory: output up to their sum is rendered as a whole.

The tail may grow to twice its size before it is cut.
"""

_RENDERED_WHOLE = 128 << 10
_RENDERED_PIECE = 64 << 10
_CONTROLS = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")
_LONGEST_LINE = 64 << 10
_FRESH = 3600.0
"""Files changed in the last hour may belong to a running command and are not deleted."""
_INTERVAL = 0.04
_FLOOD_INTERVAL = 0.25
"""Seconds between what is passed on of a flood: nobody reads it, and showing it costs CPU time."""
_CHUNK = 32 << 10
_CANCEL = b"\x18"
"""CAN ends an escape sequence that the cut may have left open."""


class OutputLimits(NamedTuple):
    """Limits of the output that is kept of each command.

    `text` characters are for the model, a quarter of them from the head; `file` bytes stay on disk.
    """

    text: int = 16_000
    file: int = 256 << 20


class Rendered(NamedTuple):
    """Text for the model, the raw bytes it leaves out, and the last full screen, if any."""

    text: str
    omitted: int
    full_screen: str | None = None


class OutputKeeper:
    """Takes a command's output as it comes. Memory is bounded whatever the amount."""

    def __init__(
        self,
        path: Path | None,
        limits: OutputLimits,
        size: tuple[int, int],
        hidden: Mapping[bytes, bytes] | None = None,
    ) -> None:
        self.hidden = hidden or {}
        self._held = b""
        self._path = path
        self._limits = limits
        self._size = size
        self._head = bytearray()
        self._tail = bytearray()
        self._file: int | None = None
        self._written = 0
        self.total = 0
        self._lines = 0

    @property
    def path(self) -> str | None:
        """Return the file that holds the raw output; None while there is none."""
        return str(self._path) if self._written else None

    def add(self, data: bytes) -> None:
        """Take in `data`, with what stands in place of hidden values."""
        if self.hidden:
            data, self._held = replace_hidden(self._held + data, self.hidden)
        self._add(data)

    def _add(self, data: bytes) -> None:
        self.total += len(data)
        self._lines += data.count(b"\n")
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
        return self._path is not None and self._written < self.total

    @property
    def file_room(self) -> int:
        """Return how many bytes the file may still take."""
        return max(0, self._limits.file - self._written)

    def last(self, size: int) -> bytes:
        """Return the last `size` raw bytes, or fewer."""
        return bytes((self._tail or self._head)[-size:])

    def last_lines(self) -> str:
        return "\n".join(self._shown(self.last(16 << 10))[0].splitlines()[-10:])

    def render(self) -> Rendered:
        """Return text as a screen would show it, clipped to the head and a longer tail."""
        head, tail = bytes(self._head), bytes(self._tail)
        lost = self.total - len(head) - len(tail)
        if lost <= 0 and self.total <= _RENDERED_WHOLE:
            return self._whole(head + tail)
        if lost <= 0:
            both = head + tail
            head, tail = both[: len(both) // 2], both[len(both) // 2 :]
        wanted = self._limits.text
        for size in (_RENDERED_PIECE, None):
            # Where most are redraws, more has to be read for the same amount of text.
            first = _before_last_newline(head[:size])
            last = _after_first_newline(tail[-size:] if size else tail)
            (start, _), (end, full_screen) = self._shown(first), self._shown(last)
            if len(start) >= wanted // 4 and len(end) >= wanted:
                break
            if lost <= 0:
                return self._whole(head + tail)
        gap = self.total - len(first) - len(last)
        lines = self._lines - first.count(b"\n") - last.count(b"\n")
        start = start.removesuffix("\n") + "\n" * first.endswith(b"\n")
        text, omitted = _clip_parts(start, end, wanted, gap, max(lines, 0))
        return Rendered(text, omitted, full_screen)

    def _whole(self, data: bytes) -> Rendered:
        text, full_screen = self._shown(data)
        return Rendered(*clip(text, self._limits.text), full_screen)

    def _shown(self, data: bytes) -> tuple[str, str | None]:
        """Return `data` as a screen would show it, and the last full screen in it."""
        screen = Screen(*self._size)
        screen.feed(data, final=True)
        return screen.text(), screen.last_full_screen

    def close(self) -> None:
        self._add(self._held)
        self._held = b""
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.close(self._file)
            self._file = None


class LiveFeed:
    """Passes output on to a sink at most every 40 ms and 32 KB at a time.

    A faster flood is thinned: the newest 32 KB of each quarter of a second are passed on, cut at a
    line, after a line that counts what was skipped. A sink sees lines that end in a bare line feed
    (the pseudo-terminal does not translate them) unless the program itself turned that on.
    """

    def __init__(
        self, sink: OutputSink | None, hidden: Mapping[bytes, bytes] | None = None
    ) -> None:
        self._sink = sink
        self._hidden = hidden or {}
        self._held_back = False
        self._buffer = bytearray()
        self._skipped = 0
        self._next = 0.0

    def add(self, data: bytes) -> None:
        """Take in `data`; passes it on when the interval is over."""
        if self._sink is None:
            return
        self._buffer += data
        if len(self._buffer) > 2 * _CHUNK:
            cut = len(self._buffer) - _CHUNK
            line = self._buffer.find(b"\n", cut, cut + _CHUNK // 2)
            cut = line + 1 if line >= 0 else cut
            self._skipped += cut
            del self._buffer[:cut]
        if time.monotonic() >= self._next:
            self.flush()

    @property
    def due(self) -> float | None:
        """Return when `flush` is due (monotonic seconds); None when nothing waits."""
        return self._next if self._buffer else None

    def flush(self) -> None:
        if self._sink is None or not self._buffer:
            return
        data, held = bytes(self._buffer), b""
        if self._hidden:
            data, held = replace_hidden(data, self._hidden)
            # The beginning of a hidden value waits once for what comes after it.
            self._held_back = bool(held) and not self._held_back
            data, held = (data, held) if self._held_back else (data + held, b"")
        if self._skipped:
            data = _CANCEL + f"\r\n[… {self._skipped} B …]\r\n".encode() + data
        self._next = time.monotonic() + (_FLOOD_INTERVAL if self._skipped else _INTERVAL)
        self._buffer[:] = held
        self._skipped = 0
        if data:
            self._sink.output(data)


def replace_hidden(data: bytes, hidden: Mapping[bytes, bytes]) -> tuple[bytes, bytes]:
    """Return `data` without the values `hidden`, and a rest that may be the beginning of one."""
    pattern = b"|".join(re.escape(value) for value in sorted(hidden, key=len, reverse=True))
    data = re.sub(pattern, lambda found: hidden[found[0]], data)
    sizes = (
        size
        for value in hidden
        for size in range(min(len(value) - 1, len(data)), 0, -1)
        if data.endswith(value[:size])
    )
    cut = len(data) - max(sizes, default=0)
    return data[:cut], data[cut:]


def clip(text: str, limit: int) -> tuple[str, int]:
    """Return `text` within `limit` characters (a quarter head, the rest tail), and bytes omitted.

    Lines that are like their neighbours are left out first.
    """
    if len(text) <= limit:
        return text, 0
    return _clip_parts(text, text, limit, 0, 0)


def _clip_parts(head: str, tail: str, limit: int, lost: int, lines: int) -> tuple[str, int]:
    """Return the start of `head` and the end of `tail`, between them how much was left out.

    They may be the same text; else `lost` bytes with `lines` ends of lines lie between them. Whole
    lines are kept where lines are short enough.
    """
    whole = _size(head) + (_size(tail) if head is not tail else 0)
    if head is tail:
        head, ends = tail, last_ends = _fold(head)
        if len(head) <= limit:
            return head, whole - _size(head)
        lines += sum(ends)
    else:
        (head, ends), (tail, last_ends) = _fold(head), _fold(tail)
        lines += sum(ends) + sum(last_ends)
    first = head[: limit // 4]
    last = tail[-(limit - limit // 4) :] if limit else ""
    if len(first) < len(head):
        first = first[: first.rfind("\n") + 1] or first
    if len(last) < len(tail):
        cut = last.find("\n") + 1
        last = last[cut:] if 0 < cut < len(last) // 2 else last
    shown = last_ends[len(last_ends) - last.count("\n") :]
    if shown and not tail[: -len(last)].endswith("\n"):
        shown[0] = 1  # the line is cut, and with it a count that it may have
    lines -= sum(ends[: first.count("\n")]) + sum(shown)
    omitted = lost + whole - _size(first) - _size(last)
    first = first if not first or first.endswith("\n") else first + "\n"
    left_out = f"{lines} lines, {omitted} bytes" if lines > 1 else f"{omitted} bytes"
    return f"{first}[… {left_out} left out …]\n{last}", omitted


_LIKE = 6
"""Lines in a row that differ in numbers only, of which the first two and the last are shown."""
_WORD = re.compile(r"[^\W\d_]{3}.* |[ ].*[^\W\d_]{3}")
"""Rows of numbers are data, and lines without a space may be parts of a key."""
_NUMBER = re.compile(r"[0-9a-fA-F]*[0-9][0-9a-fA-F]*")


def _fold(text: str) -> tuple[str, list[int]]:
    """Return `text` with long runs of lines that differ in numbers only shortened, and counted.

    For each of its line ends there is the number of those in `text` that it stands for.
    """
    shown: list[str] = []
    ends: list[int] = []
    for key, run in groupby(text.split("\n"), key=lambda line: _NUMBER.sub("0", line)):
        like, count = list(run), 1
        if len(like) >= _LIKE and _WORD.search(key):
            count = len(like) - 3
            like[2:-1] = [f"[… {count} lines left out that differ in numbers only …]"]
        ends += [count if at == 2 else 1 for at in range(len(like))]
        shown += like
    return "\n".join(shown), ends[:-1]


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


class OutputStore:
    """The output files below `folder`.

    A path given to `lines` must lie below the folder: a result's `output_path` does.
    Files are kept for `max_age` seconds, as long as all of them take no more than `quota_bytes`.
    """

    def __init__(
        self, folder: Path, quota_bytes: int = 1 << 30, max_age: float = 14 * 86_400.0
    ) -> None:
        self._folder = folder
        self._quota = quota_bytes
        self._max_age = max_age

    def holds(self, path: Path) -> bool:
        """Return whether `path`, without links, is a kept output."""
        return path.is_relative_to(self._folder.resolve()) and path.is_file()

    def lines(self, path: str | Path) -> Iterator[str]:
        """Yield all lines. Raises ToolError for a path that is not kept output."""
        yield from _lines(self._file(path))

    def prune(self) -> int:
        """Delete files that are too old, then the oldest until the quota holds; bytes freed."""
        now = time.time()
        files = []
        for file in self._folder.glob("**/*.log"):
            with contextlib.suppress(OSError):
                status = file.stat()
                files.append((status.st_mtime, status.st_size, file))
        files.sort(key=lambda entry: entry[0])
        total = sum(size for _, size, _ in files)
        freed = 0
        for changed, size, file in files:
            too_old = now - changed > self._max_age
            if not too_old and (total - freed <= self._quota or now - changed < _FRESH):
                continue
            with contextlib.suppress(OSError):
                file.unlink()
                freed += size
                for folder in (file.parent, file.parent.parent):
                    folder.rmdir()  # refuses while other files are there
        return freed

    def _file(self, path: str | Path) -> Path:
        file = (self._folder / path).resolve()
        if not self.holds(file):
            raise ToolError(
                "{path} is not a saved command output; use a path from a command's result.",
                path=str(path),
            )
        return file


def _lines(file: Path) -> Iterator[str]:
    """Yield the lines of a raw output file as text; one longer than 64 KB is cut into pieces."""
    with file.open("rb") as stream:
        while data := stream.readline(_LONGEST_LINE):
            yield _plain(data.rstrip(b"\r\n"))


def plain_text(data: bytes) -> str:
    """Return a raw output as text, line by line."""
    return "\n".join(_plain(line.rstrip(b"\r")) for line in data.split(b"\n"))


def _plain(data: bytes) -> str:
    if _CONTROLS.search(data):
        return render(data).replace("\n", " ")
    return data.decode("utf-8", "replace")


_SHOWN = 6_000
"""Characters of an output that every model but the smallest gets as a whole."""
_MOST = 4 << 20
"""Bytes of an output that is copied; to look for secrets takes half a second for each million."""
_MOST_SECRETS, _SHORT, _MARK = 200, 5, "[secret]"


class KeptOutputs:
    """Copies of a session's whole outputs, without secrets, for its commands in the sandbox.

    The sandbox shows `folder`, and nothing inside can write there. All that is in it may be read:
    no output is told apart from another there.
    """

    def __init__(self, folder: Path, secrets: Redactor) -> None:
        self.folder, self.secrets = folder, secrets
        self._known = 0

    def run(self, call: Callable[[], CommandResult]) -> CommandResult:
        """Return the result of `call`, the run of a command, with a copy of a long output.

        Before, copies with what became known as a secret since are made anew.
        """
        values = self.secrets.values
        new, self._known = values[self._known :], len(values)
        for copy in self.folder.glob("*.log") if new else ():
            if any(map(copy.read_text("utf-8").__contains__, new)):
                copy.unlink()
                self._copy(Path(self.folder.parent, *copy.name.rsplit("-", 1)))
        result = call()
        if result.output_path and (result.omitted_bytes or len(result.text) > _SHOWN):
            return replace(result, readable_path=self._copy(Path(result.output_path)))
        return result

    def _copy(self, raw: Path) -> str | None:
        """Copy the output `raw`; return where, or None where it is too large or not there."""
        with contextlib.suppress(OSError):
            text = plain_text(raw.read_bytes()) if raw.stat().st_size <= _MOST else ""
            found = find_secrets(text)
            if text and len(found) <= _MOST_SECRETS:
                values = {*self.secrets.values, *(text[one.start : one.end] for one in found)}
                text = replace_secrets(text, found, lambda _: _MARK)
                long = (value for value in values if len(value) > _SHORT)
                text = replace_values(text, long, lambda _: _MARK)
                copy = self.folder / f"{raw.parent.name}-{raw.name}"
                write_regular(copy, text.encode("utf-8", "replace"))
                return str(copy)
        return None
