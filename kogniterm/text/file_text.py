r"""Text files as bytes and as a model reads them: nothing is lost on the way there and back.

Lines end at `\n` and nowhere else. A file is UTF-8, or UTF-16 with a byte order mark; bytes that
are neither are shown as `\xe9`, and a backslash that could be taken for one as `\x5c`.
"""

from __future__ import annotations

import codecs
import hashlib
import re
from collections.abc import Iterator

from kogniterm.lazy_dataclasses import dataclass

MORE_FROM = "[more from line "
"""Begins the note that lines behind those that are shown were left out."""

_MARKS = {
    codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be",
}  # fmt: skip
_FOREIGN = re.compile("[\udc80-\udcff]")
_LIKE_FOREIGN = re.compile(r"\\(?=x(?:5c|[89a-f][0-9a-f]))")
_SHOWN = re.compile(r"\\x(5c|[89a-f][0-9a-f])")


@dataclass(frozen=True, slots=True)
class FileText:
    r"""The text of a file without its byte order mark, and what brings its bytes back.

    A byte that is no UTF-8 is a lone surrogate in `text`. `ends` is "\n" or "\r\n" where all lines
    end alike, otherwise empty.
    """

    text: str
    codec: str
    mark: bytes
    ends: str

    @property
    def foreign(self) -> bool:
        """Return whether some bytes are no text in the encoding."""
        return bool(_FOREIGN.search(self.text))


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
    escaped = _LIKE_FOREIGN.sub(r"\\x5c", text)
    return _FOREIGN.sub(lambda one: f"\\x{ord(one[0]) - 0xDC00:02x}", escaped)


def meant_foreign(shown: str) -> str:
    """Return the text that `show_foreign` shows as `shown`."""
    return _SHOWN.sub(lambda one: "\\" if one[1] == "5c" else chr(0xDC00 + int(one[1], 16)), shown)


def digest(data: bytes | None) -> str:
    """Return the digest of a file's content; None is no file, and has an empty one."""
    return "" if data is None else hashlib.sha256(data).hexdigest()
