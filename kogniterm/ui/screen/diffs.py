"""Diffs as people read them: changed lines coloured, the words that changed marked.

Takes a unified diff as text; what is not a diff line is shown as it is.
"""

from __future__ import annotations

import difflib
import re

from rich.text import Text

from kogniterm.ui.locale import _, plural

_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_ALIKE = 0.4
_HEADS = ("++", "--")


def diff(unified: str, *, limit: int | None = None) -> Text:
    """Return `unified` with colours; beyond `limit` lines only a count is shown."""
    lines = _visible(unified.rstrip("\n").split("\n"))
    hidden = 0
    if limit is not None and len(lines) > limit:
        hidden = len(lines) - limit
        lines = lines[:limit]
    text = Text()
    index = 0
    while index < len(lines):
        removed, added, index = _run(lines, index)
        if removed or added:
            _changed(removed, added, text)
        else:
            text.append(lines[index] + "\n", _context_style(lines[index]))
            index += 1
    if hidden:
        text.append(plural("{count} more line", "{count} more lines", hidden) + "\n", "muted")
    text.rstrip()
    return text


def relative(unified: str, folder: str) -> str:
    """Return `unified` with the files below `folder` named from there."""
    start = folder.rstrip("/") + "/"
    lines = unified.split("\n")
    for index, line in enumerate(lines[:2]):
        for sign in ("--- ", "+++ "):
            if line.startswith(sign + start):
                lines[index] = sign + line[len(sign) + len(start) :]
    return "\n".join(lines)


def summary(unified: str) -> str:
    """Return how many lines a diff adds and takes away."""
    lines = unified.split("\n")
    added = sum(line.startswith("+") and not line.startswith("+++") for line in lines)
    removed = sum(line.startswith("-") and not line.startswith("---") for line in lines)
    return _("+{added} −{removed} lines").format(added=added, removed=removed)


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


def _visible(lines: list[str]) -> list[str]:
    """Return the lines with what cannot be seen made visible; tabs stay, as do common line ends.

    Files of Windows end every line in a carriage return, which is no change.
    """
    from kogniterm.text.visible import render_line

    body = [line for line in lines if line.startswith(("+", "-")) and line[1:3] not in _HEADS]
    if body and all(line.endswith("\r") for line in body):
        lines = [line.removesuffix("\r") for line in lines]
    return ["\t".join(map(render_line, line.split("\t"))) for line in lines]


def _run(lines: list[str], index: int) -> tuple[list[str], list[str], int]:
    """Return the removed lines at `index` and the added ones that follow them directly."""
    removed, added = [], []
    while index < len(lines) and _is(lines[index], "-"):
        removed.append(lines[index][1:])
        index += 1
    while index < len(lines) and _is(lines[index], "+"):
        added.append(lines[index][1:])
        index += 1
    return removed, added, index


def _is(line: str, sign: str) -> bool:
    return line.startswith(sign) and not line.startswith(sign * 3 + " ")


def _changed(removed: list[str], added: list[str], text: Text) -> None:
    pairs = list(zip(removed, added, strict=False)) if len(removed) == len(added) else []
    if pairs and all(_alike(old, new) for old, new in pairs):
        marked = [words(old, new) for old, new in pairs]
        olds, news = [pair[0] for pair in marked], [pair[1] for pair in marked]
    else:
        olds = [Text(line, "removed") for line in removed]
        news = [Text(line, "added") for line in added]
    for sign, style, lines in (("-", "removed", olds), ("+", "added", news)):
        for line in lines:
            text.append(sign, style)
            text.append_text(line)
            text.append("\n")


def _alike(old: str, new: str) -> bool:
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    return matcher.real_quick_ratio() > _ALIKE and matcher.ratio() > _ALIKE


def _context_style(line: str) -> str:
    if line.startswith("@@"):
        return "accent"
    return "heading" if line.startswith(("+++ ", "--- ", "diff ")) else "muted"
