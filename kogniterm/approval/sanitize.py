"""Command output made safe for a terminal: text and colours pass, everything else is swallowed.

A byte stream goes through an incremental UTF-8 decoder (so raw 8-bit C1 bytes become U+FFFD)
and then through a two-state machine. In *text*, an allow-list passes printable characters,
CR, LF, TAB and SGR (colour) sequences without concealment. Control strings (OSC, DCS, APC, PM,
SOS) are swallowed up to their terminator; a line feed also ends them, so that an unterminated
one cannot hide what follows. The result does not depend on how the stream is cut in chunks.
"""

from __future__ import annotations

import codecs
import re

_MAX_PARAMETERS = 256

_SGR = rf"\[[0-9;:]{{0,{_MAX_PARAMETERS}}}m"
_CSI = rf"[0-?]{{0,{_MAX_PARAMETERS}}}[ -/]{{0,16}}"

# Order matters: an incomplete sequence at the end of the buffer waits for the next chunk.
_SPECIAL = re.compile(
    rf"\x1b+(?=\x1b)|\x1b(?!{_SGR})(?:"
    rf"(?P<wait>\Z|\[{_CSI}\Z|[ -/]{{1,16}}\Z)"
    rf"|(?P<string>[\]PX^_])"
    rf"|\[{_CSI}[@-~]|\[{_CSI}|[ -/]{{1,16}}[0-~]|[0-~])?"
    rf"|(?P<wait8>\x9b{_CSI}\Z)|\x9b(?:{_CSI}[@-~])?"
    rf"|(?P<string8>[\x90\x98\x9d\x9e\x9f])"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f"
    r"\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]+"
)
_STRING_END = re.compile(r"[\x07\n\x18\x1a\x9c]|\x1b(?P<next>\\|\Z)?")
_CONCEAL = re.compile(r"\x1b\[(?:[0-9;:]*;)?0*8(?:;[0-9;:]*)?m")


def _without_conceal(match: re.Match[str]) -> str:
    """The SGR sequence without parameter 8; colour indices (38;5;8) are left alone."""
    parts = match[0][2:-1].split(";")
    kept: list[str] = []
    index = 0
    while index < len(parts):
        length = 1
        if parts[index] in {"38", "48", "58"} and index + 1 < len(parts):
            length = {"5": 3, "2": 5}.get(parts[index + 1], 1)
        group = parts[index : index + length]
        if length > 1 or group[0].lstrip("0") != "8":
            kept.extend(group)
        index += length
    return f"\x1b[{';'.join(kept)}m" if kept else ""


class Sanitizer:
    """Cleans one output stream; feed it chunks as they come."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pending = ""
        self._in_string = False

    def feed(self, data: bytes) -> bytes:
        """What of `data` (and of sequences left open before) may be written to the terminal."""
        return self._clean(self._decoder.decode(data)).encode("utf-8")

    def flush(self) -> bytes:
        """The end of the stream: an unfinished sequence is dropped, a cut character replaced."""
        text = self._clean(self._decoder.decode(b"", final=True))
        self._decoder.reset()
        self._pending = ""
        self._in_string = False
        return text.encode("utf-8")

    def _clean(self, text: str) -> str:
        text = self._pending + text
        self._pending = ""
        pieces: list[str] = []
        position = 0
        while position < len(text):
            if self._in_string:
                position = self._skip_string(text, position)
                continue
            match = _SPECIAL.search(text, position)
            if match is None:
                pieces.append(text[position:])
                break
            pieces.append(text[position : match.start()])
            position = match.end()
            if match["wait"] is not None or match["wait8"] is not None:
                self._pending = match[0]
            elif match["string"] or match["string8"]:
                self._in_string = True
        clean = "".join(pieces)
        return _CONCEAL.sub(_without_conceal, clean) if "8" in clean else clean

    def _skip_string(self, text: str, position: int) -> int:
        """Where the control string that runs at `position` ends; it may run on past `text`."""
        match = _STRING_END.search(text, position)
        if match is None:
            return len(text)
        if match[0] == "\x1b" and match["next"] is not None:
            self._pending = "\x1b"
            return len(text)
        self._in_string = False
        if match[0] in {"\n", "\x1b"}:
            return match.start()
        return match.end()


def sanitize(data: bytes) -> bytes:
    """All of `data` at once, as `Sanitizer` would pass it."""
    sanitizer = Sanitizer()
    return sanitizer.feed(data) + sanitizer.flush()
