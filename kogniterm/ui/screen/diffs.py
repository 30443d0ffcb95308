"""Diffs as users read them: lines numbered and coloured, the words that changed marked.

Takes a unified diff as text; what is not a diff line is shown as it is.
"""

from __future__ import annotations

import difflib
import re
from typing import NamedTuple

from rich.cells import cell_len
from rich.text import Text

from kogniterm.text.file_text import count_changes, shown_lines
from kogniterm.ui.locale import plural

_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_ALIKE = 0.4
_MOST_ALIKE = 0.6
"""Asked for where lines were added or removed too, so that a line is not compared with another."""
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_STYLES = {"-": "removed", "+": "added", " ": "muted"}
GAP = "..."
"""Stands for the lines between two hunks."""


class _Row(NamedTuple):
    """A line of a diff: its sign, its number in the new file (in the old one if removed), its text.

    A line that belongs to no hunk has no number, and no sign unless it has one of its own.
    """

    sign: str
    number: int | None
    text: str


def diff(unified: str, *, limit: int | None = None, columns: int | None = None) -> Text:
    """Return `unified` with colours and line numbers.

    Beyond `limit` lines only the number of changed lines is shown. Lines wider than `columns` cells
    continue below their text.
    """
    lines = shown_lines(unified)
    hidden = 0 if limit is None else sum(count_changes(unified, limit))
    cut = limit is not None and len(lines) > limit
    rows = _rows(lines[:limit])
    digits = max((len(str(row.number)) for row in rows if row.number is not None), default=0)
    text = Text()
    for row, content in zip(rows, _contents(rows), strict=True):
        number = "" if row.number is None else str(row.number)
        gutter = f"{number:>{digits}} " if digits and row.sign else ""
        text.append(gutter, "muted")
        text.append(row.sign, _STYLES.get(row.sign, ""))
        indent = len(gutter) + len(row.sign)
        room = columns - indent if columns is not None else 0
        if room > 0 and cell_len(content.plain.expandtabs()) > room:
            content.expand_tabs(8)
            content = Text("\n" + " " * indent).join(content.divide(_breaks(content.plain, room)))
        text.append_text(content)
        text.append("\n")
    if cut:
        more = plural("{count} more changed line", "{count} more changed lines", hidden)
        text.append(more + "\n", "muted")
    text.rstrip()
    return text


def relative(unified: str, folder: str) -> str:
    """Return `unified` with the files below `folder` named from there."""
    lines = unified.split("\n", 2)
    start = folder.rstrip("/") + "/"
    lines[:2] = [line[:4] + line[4:].removeprefix(start) for line in lines[:2]]
    return "\n".join(lines)


def words(old: str, new: str) -> tuple[Text, Text]:
    """Return both lines with the words that differ marked."""
    left, right = _WORD.findall(old), _WORD.findall(new)
    before, after = Text(), Text()
    matcher = difflib.SequenceMatcher(None, left, right, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        same = kind == "equal"
        before.append("".join(left[a:b]), "removed" if same else "removed_word")
        after.append("".join(right[c:d]), "added" if same else "added_word")
    return before, after


def _rows(lines: list[str]) -> list[_Row]:
    """Return the lines with their numbers, which tell a hunk's heading from a changed line."""
    rows: list[_Row] = []
    old = new = old_left = new_left = 0
    for line in lines:
        sign = line[:1]
        head = _HUNK.match(line) if not (old_left or new_left) else None
        if head is not None:
            old, new = int(head[1]), int(head[3])
            old_left, new_left = int(head[2] or 1), int(head[4] or 1)
            if any(row.number is not None for row in rows):
                rows.append(_Row("", None, GAP))
        elif sign == "-" and old_left:
            rows.append(_Row(sign, old, line[1:]))
            old, old_left = old + 1, old_left - 1
        elif sign == "+" and new_left:
            rows.append(_Row(sign, new, line[1:]))
            new, new_left = new + 1, new_left - 1
        elif sign in ("", " ") and old_left and new_left:
            rows.append(_Row(" ", new, line[1:]))
            old, old_left, new, new_left = old + 1, old_left - 1, new + 1, new_left - 1
        elif sign in ("-", "+") and not line.startswith(sign * 3 + " "):
            rows.append(_Row(sign, None, line[1:]))
        else:
            rows.append(_Row("", None, line))
    return rows


def _contents(rows: list[_Row]) -> list[Text]:
    """Return what each row shows; in lines that replace similar ones the changed words marked."""
    shown = [Text(row.text, _STYLES.get(row.sign) or _plain_style(row.text)) for row in rows]
    start = 0
    while start < len(rows):
        middle = _end_of(rows, start, "-")
        end = _end_of(rows, middle, "+")
        least = _ALIKE if end - middle == middle - start else _MOST_ALIKE
        for old, new in zip(range(start, middle), range(middle, end), strict=False):
            before, after = rows[old].text, rows[new].text
            matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
            if matcher.real_quick_ratio() > least and matcher.ratio() > least:
                shown[old], shown[new] = words(before, after)
        start = max(end, start + 1)
    return shown


def _end_of(rows: list[_Row], start: int, sign: str) -> int:
    """Return the index after the rows with `sign` that begin at `start`."""
    while start < len(rows) and rows[start].sign == sign:
        start += 1
    return start


def _breaks(line: str, room: int) -> list[int]:
    """Return where `line` is cut into pieces of at most `room` cells."""
    found, used = [], 0
    for index, character in enumerate(line):
        cells = cell_len(character)
        if used + cells > room:
            found.append(index)
            used = 0
        used += cells
    return found


def _plain_style(line: str) -> str:
    return "heading" if line.startswith(("+++ ", "--- ", "diff ")) else "muted"
