r"""The one diff: what a file was and will be, line by line, with nothing hidden.

Lines end at `\n` and nowhere else. Every other control character, and everything else that cannot
be seen, is spelt out as in `visible`; only tabs stay. A byte that is no UTF-8 is `\x{E9}`, and a
last line without a line break is marked as git marks it. So the diff and the old bytes give the new
ones.
"""

from __future__ import annotations

import difflib
import re

from kogniterm.text.visible import render_line

NO_FILE = "/dev/null"
NO_NEWLINE = r"\ No newline at end of file"
WINDOWS_ENDS = r"\ Lines end in CRLF"
"""Stands below the names where all lines of both sides do: their ends are then not spelt out."""

_LIKE_BYTE = re.compile(r"\\(?=x\{[89A-F][0-9A-F]\})")
_BYTE = re.compile(r"\\u\{DC([89A-F][0-9A-F])\}")


def unified(
    name: str,
    before: bytes | str | None,
    after: bytes | str | None,
    *,
    old_name: str = "",
    context: int = 3,
) -> str:
    """Return the unified diff of two contents; None is no file. "" if they are equal."""
    if before == after:
        return ""
    names = [
        NO_FILE if content is None else render_line(known)
        for content, known in ((before, old_name or name), (after, name))
    ]
    old, new = _lines(before), _lines(after)
    ended = [line for line in (*old, *new) if line.endswith("\n")]
    windows = bool(ended) and all(line.endswith("\r\n") for line in ended)
    lines = [f"--- {names[0]}", f"+++ {names[1]}", *([WINDOWS_ENDS] if windows else [])]
    for line in list(difflib.unified_diff(old, new, n=context))[2:]:
        content = line[1:].removesuffix("\r\n" if windows else "\n")
        lines.append(line[0] + (_shown(content) if line[0] != "@" else content.rstrip("\n")))
        if not line.endswith("\n"):
            lines.append(NO_NEWLINE)
    return "\n".join(lines)


def _lines(content: bytes | str | None) -> list[str]:
    r"""Return the lines with their ends; only `\n` ends one."""
    text = content.decode("utf-8", "surrogateescape") if isinstance(content, bytes) else content
    lines = [f"{line}\n" for line in (text or "").split("\n")]
    return [*lines[:-1], *([last] if (last := lines[-1][:-1]) else [])]


def _shown(line: str) -> str:
    parts = (_LIKE_BYTE.sub(r"\\u{5C}", render_line(part)) for part in line.split("\t"))
    return _BYTE.sub(r"\\x{\1}", "\t".join(parts))


def changed(diff: str, start: int = 2) -> tuple[int, int]:
    """Return the numbers of added and of removed lines from line `start` on, below the names."""
    signs = [line[:1] for line in diff.split("\n")[start:]]
    return signs.count("+"), signs.count("-")
