r"""Text files as bytes, as a model reads them and as the one diff shows them: nothing is lost.

Lines end at `\n` and nowhere else. A file is UTF-8, or UTF-16 with a byte order mark; to the model,
bytes that are neither are `\xe9`, and a backslash that could be taken for one is `\x5c`.

In a diff, every other control character and everything else that cannot be seen is spelt out as in
`visible`; only tabs stay. A byte that is no UTF-8 is `\x{E9}`, and a last line without a line
break is marked as git marks it. So the diff and the old bytes give the new ones.
"""

from __future__ import annotations

import codecs
import difflib
import hashlib
import re
from collections.abc import Iterator
from typing import NamedTuple

from kogniterm.text.visible import render_again, render_line, show_bytes

MORE_FROM = "[more from line "
"""Begins the note that lines behind those that are shown were left out."""

_MARKS = {
    codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be",
}  # fmt: skip
_LIKE_FOREIGN = re.compile(r"\\(?=x(?:5c|[89a-f][0-9a-f]))")
_SHOWN = re.compile(r"\\x(5c|[89a-f][0-9a-f])")


class FileText(NamedTuple):
    r"""The text of a file without its byte order mark, and what brings its bytes back.

    A byte that is no UTF-8 is a lone surrogate in `text`. `ends` is "\n" or "\r\n" where all lines
    end alike, otherwise empty.
    """

    text: str
    codec: str
    mark: bytes
    ends: str


def decode(data: bytes) -> FileText:
    """Return the text of a file; its mark and its text in its codec are `data` again."""
    mark, codec = next((one for one in _MARKS.items() if data.startswith(one[0])), (b"", "utf-8"))
    try:
        text = data[len(mark) :].decode(codec, "surrogateescape" if codec == "utf-8" else "strict")
    except UnicodeDecodeError:
        mark, codec, text = b"", "utf-8", data.decode("utf-8", "surrogateescape")
    windows = text.count("\r\n")
    ends = "\n" if not windows else "\r\n" if windows == text.count("\n") else ""
    return FileText(text, codec, mark, ends)


def with_ends(text: str, ends: str) -> str:
    """Return `text` with the line ends of Windows where `ends` are these."""
    return text.replace("\r\n", "\n").replace("\n", "\r\n") if ends == "\r\n" else text


def possible_files(lines: str) -> Iterator[bytes]:
    """Yield each content of a file that is shown whole as `lines`."""
    for text in (lines, f"{lines}\n"):
        for ends in ("\n", "\r\n"):
            for mark, codec in {b"": "utf-8", **_MARKS}.items():
                yield mark + with_ends(text, ends).encode(codec, "replace")


def show_foreign(text: str) -> str:
    r"""Return text with the bytes that are no text as `\xe9`; nothing else looks like these."""
    return show_bytes(_LIKE_FOREIGN.sub(r"\\x5c", text))


def meant_foreign(shown: str) -> str:
    """Return the text that `show_foreign` shows as `shown`."""
    return _SHOWN.sub(lambda one: "\\" if one[1] == "5c" else chr(0xDC00 + int(one[1], 16)), shown)


def digest(data: bytes | None) -> str:
    """Return the digest of a file's content; None is no file, and has an empty one."""
    return "" if data is None else hashlib.sha256(data).hexdigest()


NO_FILE = "/dev/null"
NO_NEWLINE = r"\ No newline at end of file"
WINDOWS_ENDS = r"\ Lines end in CRLF"
"""Stands below the names where all lines of both sides do: their ends are then not spelt out."""

_LIKE_BYTE = re.compile(r"\\(?=x\{[89A-F][0-9A-F]\})")
_BYTE = re.compile(r"\\u\{DC([89A-F][0-9A-F])\}")


def unified_diff(
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
        if line[0] == "@":
            content = content.rstrip("\n")
        else:
            parts = (_LIKE_BYTE.sub(r"\\u{5C}", render_line(part)) for part in content.split("\t"))
            content = _BYTE.sub(r"\\x{\1}", "\t".join(parts))
        lines.append(line[0] + content)
        if not line.endswith("\n"):
            lines.append(NO_NEWLINE)
    return "\n".join(lines)


def shown_lines(unified: str) -> list[str]:
    """Return the lines of a diff as they are shown; one from elsewhere may hold anything."""
    lines = unified.rstrip("\n").split("\n")
    return ["\t".join(map(render_again, line.split("\t"))) for line in lines]


def _lines(content: bytes | str | None) -> list[str]:
    r"""Return the lines with their ends; only `\n` ends one."""
    text = content.decode("utf-8", "surrogateescape") if isinstance(content, bytes) else content
    lines = [f"{line}\n" for line in (text or "").split("\n")]
    return [*lines[:-1], *([last] if (last := lines[-1][:-1]) else [])]


def count_changes(diff: str, start: int = 2) -> tuple[int, int]:
    """Return the numbers of added and of removed lines from line `start` on, below the names."""
    signs = [line[:1] for line in diff.split("\n")[start:]]
    return signs.count("+"), signs.count("-")
