"""Markdown that streams: finished blocks leave for good, only the open block is redrawn.

A block is finished when what follows can no longer change it: a blank line that is not inside
a code fence or a list, a heading's end of line, a fence's closing line. Text that was given
out is never drawn again, so nothing flickers and the scrollback stays as it was written.
"""

from __future__ import annotations

import re

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_HEADING = re.compile(r" {0,3}#{1,6}(\s|$)")
_LIST = re.compile(r" {0,3}([-*+]|\d{1,9}[.)])(\s|$)")


class MarkdownStream:
    """Splits streamed Markdown into finished blocks and the open rest."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._partial = ""
        self._fence = ""
        self._blank = False

    @property
    def open_text(self) -> str:
        """The source of the block that is still open."""
        return "".join(f"{line}\n" for line in self._lines) + self._partial

    def open_tail(self, lines: int) -> str:
        """The last `lines` source lines of the open block; a cut fence is opened again."""
        tail = self._lines[-lines:]
        text = "".join(f"{line}\n" for line in tail) + self._partial
        cut = len(self._lines) > lines
        if cut and self._fence:
            opening = self._lines[0]
            return f"{opening}\n{text}"
        return text

    def feed(self, piece: str) -> list[str]:
        """Take a piece of the stream; returns the blocks that are finished by it, in order."""
        *complete, self._partial = (self._partial + piece).split("\n")
        finished = []
        for line in complete:
            finished.extend(self._line(line))
        if self._partial.strip() and self._lines and self._starts_for_sure():
            finished.append(self._take())
        return finished

    def finish(self) -> str:
        """The stream is over: the rest of it, and an empty state."""
        rest = self.open_text
        self._lines, self._partial, self._fence, self._blank = [], "", "", False
        return rest if rest.strip() else ""

    def _line(self, line: str) -> list[str]:
        if self._fence:
            return self._in_fence(line)
        if not line.strip():
            self._blank = bool(self._lines)
            if self._blank:
                self._lines.append("")
            return []
        out = []
        if self._lines and self._starts_new(line):
            out.append(self._take())
        self._blank = False
        self._lines.append(line)
        opening = _FENCE.match(line)
        if opening and not ("`" in opening[2] and opening[1].startswith("`")):
            # A fence may follow a paragraph without a blank line: keep them in one block.
            self._fence = opening[1]
        elif _HEADING.match(line):
            out.append(self._take())
        return out

    def _in_fence(self, line: str) -> list[str]:
        self._lines.append(line)
        closing = line.strip()
        closes = closing.startswith(self._fence) and not closing.strip(self._fence[0])
        if not closes:
            return []
        self._fence = ""
        inside_list = bool(_LIST.match(self._lines[0]))
        return [] if inside_list else [self._take()]

    def _starts_new(self, line: str) -> bool:
        """Whether `line` begins a block of its own after the lines that are open."""
        if _HEADING.match(line):
            return True
        if not self._blank:
            return False
        if not _LIST.match(self._lines[0]):
            return True
        return not (_LIST.match(line) or line.startswith(("  ", "\t")))

    def _starts_for_sure(self) -> bool:
        """Whether the unfinished line begins a new block whatever else it will hold."""
        return self._blank and not self._fence and not _LIST.match(self._lines[0])

    def _take(self) -> str:
        text = "".join(f"{line}\n" for line in self._lines)
        self._lines, self._blank = [], False
        return text
