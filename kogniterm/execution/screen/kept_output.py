"""Kept output on disk: paged, searched, and kept within a quota and an age.

Output files are what a PTY gave, byte for byte. Paging and searching work on their lines as
text without control sequences, and never load a file as a whole.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kogniterm.errors import ToolError
from kogniterm.execution.screen.emulator import render
from kogniterm.text.bounded_regex import Pattern

QUOTA_BYTES = 1 << 30
MAX_AGE = 14 * 24 * 3600.0
"""Seconds an output file is kept."""
_LONGEST_LINE = 64 << 10
_PAGE_CHARACTERS = 16_000
_FRESH = 3600.0
"""Files changed in the last hour may belong to a running command and are not deleted."""


@dataclass(frozen=True, slots=True)
class OutputPage:
    """Lines `first` to `last` of a file, counted from 1; `more` when others follow."""

    first: int
    last: int
    text: str
    more: bool


@dataclass(frozen=True, slots=True)
class Match:
    """A line that matches a search, with the lines round it."""

    line: int
    text: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


class OutputStore:
    """The output files below `folder`.

    Paths given to `page` and `search` must lie below the folder: a result's `output_path` does.
    """

    def __init__(
        self, folder: Path, quota_bytes: int = QUOTA_BYTES, max_age: float = MAX_AGE
    ) -> None:
        self._folder = folder
        self._quota = quota_bytes
        self._max_age = max_age

    def page(self, path: str | Path, start_line: int = 1, count: int = 200) -> OutputPage:
        """At most `count` lines from `start_line` on; a negative start counts from the end.

        Fewer come when they are long. Raises ToolError for a path that is not kept output.
        """
        file = self._file(path)
        if start_line < 0:
            start_line = max(1, sum(1 for _ in _lines(file)) + start_line + 1)
        start_line = max(1, start_line)
        found: list[str] = []
        room = _PAGE_CHARACTERS
        more = False
        for number, line in enumerate(_lines(file), 1):
            if number < start_line:
                continue
            if len(found) >= count or (found and len(line) > room):
                more = True
                break
            found.append(line[:room])
            room -= len(line) + 1
        return OutputPage(start_line, start_line + len(found) - 1, "\n".join(found), more)

    def search(
        self, path: str | Path, pattern: str, *, context: int = 0, limit: int = 50
    ) -> tuple[Match, ...]:
        """The first `limit` lines that match the regular expression `pattern`.

        Raises ToolError for an invalid pattern or a path that is not kept output.
        """
        expression = Pattern(pattern)
        before: list[str] = []
        matches: list[Match] = []
        for number, line in enumerate(_lines(self._file(path)), 1):
            for index, match in enumerate(matches):
                if match.line + context >= number:
                    matches[index] = Match(
                        match.line, match.text, match.before, (*match.after, line)
                    )
            if len(matches) >= limit:
                if matches[-1].line + context <= number:
                    break
            elif expression.search(line):
                matches.append(Match(number, line, tuple(before[-context:] if context else ())))
            before = [*before, line][-context:] if context else []
        return tuple(matches)

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
                file.parent.rmdir()  # refuses while other files are there
        return freed

    def _file(self, path: str | Path) -> Path:
        file = Path(path)
        file = file if file.is_absolute() else self._folder / file
        if not file.resolve().is_relative_to(self._folder.resolve()) or not file.is_file():
            raise ToolError("{path} is not the output of a command.", path=str(path))
        return file


def _lines(file: Path) -> Iterator[str]:
    """The lines of a raw output file as text; a line longer than 64 KB is cut into pieces."""
    with file.open("rb") as stream:
        while data := stream.readline(_LONGEST_LINE):
            yield _plain(data.rstrip(b"\r\n"))


_CONTROLS = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")


def _plain(data: bytes) -> str:
    if _CONTROLS.search(data):
        return render(data).replace("\n", " ")
    return data.decode("utf-8", "replace")
