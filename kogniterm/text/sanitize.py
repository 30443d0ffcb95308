"""Command output made safe for a terminal: text and colours pass, everything else is removed.

A byte stream goes through an incremental UTF-8 decoder (so raw 8-bit C1 bytes become U+FFFD);
then an allow-list passes printable characters, CR, LF, TAB and SGR (colour) sequences without
concealment. Control strings (OSC, DCS, APC, PM, SOS) are removed up to their terminator; a line
feed or any new control sequence also ends them, so that an unterminated one cannot hide what
follows. The result does not depend on how the stream is cut in chunks: whatever begins at the last
introducer of a chunk and is not complete waits for the next one.
"""

from __future__ import annotations

import codecs
import functools
import re

_MAX_PARAMETERS = 256

_STRINGS = "\x90\x98\x9d\x9e\x9f"
_INTRODUCERS = f"\x1b\x9b{_STRINGS}"
_BREAKS = f"{_INTRODUCERS}\x07\n\x18\x1a\x9c"
"""The characters that end a control string, besides ST."""

_NEVER = (
    "\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x8f\x91-\x97\x99\x9a\x9c"
    "\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f"
)
_SGR = rf"\[[0-9;:]{{0,{_MAX_PARAMETERS}}}m"
_CSI = rf"[0-?]{{0,{_MAX_PARAMETERS}}}[ -/]{{0,16}}"

# A character class first lets the search skip ordinary text fast.
_UNSAFE = re.compile(
    rf"[{_NEVER}{_INTRODUCERS}](?:"
    rf"(?<=\x1b)\x1b*(?=\x1b)"
    rf"|(?<=\x1b)(?!{_SGR})(?:[\]PX^_][^{_BREAKS}]*|\[{_CSI}[@-~]?|[ -/]{{1,16}}[0-~]|[0-~])?"
    rf"|(?<=\x9b)(?:{_CSI}[@-~])?"
    rf"|(?<=[{_STRINGS}])[^{_BREAKS}]*"
    rf"|(?<=[{_NEVER}])[{_NEVER}]*)"
)
_STRING_BEGINS = re.compile(rf"\x1b[\]PX^_]|[{_STRINGS}]")
_UNFINISHED = re.compile(rf"\x1b(?:\[{_CSI}|[ -/]{{1,16}})?\Z|\x9b{_CSI}\Z")
_BREAK = re.compile(f"[{_BREAKS}]")
_CONCEAL = re.compile(r"\x1b\[(?:[0-9;:]*;)?0*8(?:[;:][0-9;:]*)?m")


@functools.lru_cache(maxsize=64)
def _remove_concealing(sequence: str) -> str:
    """Return the SGR sequence without parameter 8; colour indices (38;5;8) are left alone."""
    parts = sequence[2:-1].split(";")
    kept: list[str] = []
    index = 0
    while index < len(parts):
        length = 1
        if parts[index] in {"38", "48", "58"} and index + 1 < len(parts):
            length = {"5": 3, "2": 5}.get(parts[index + 1], 1)
        group = parts[index : index + length]
        if length > 1 or group[0].partition(":")[0].lstrip("0") != "8":
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
        """Return the part of `data` and of sequences left open before that a terminal may get."""
        return self._clean(self._decoder.decode(data)).encode("utf-8")

    def flush(self) -> bytes:
        """End the stream: an unfinished sequence is dropped, a cut character replaced."""
        text = self._clean(self._decoder.decode(b"", final=True))
        self._decoder.reset()
        self._pending = ""
        self._in_string = False
        return text.encode("utf-8")

    def _clean(self, text: str) -> str:
        text = self._pending + text
        self._pending = ""
        if self._in_string:
            end = _BREAK.search(text)
            if end is None:
                return ""
            text = text[end.start() :]
            self._in_string = False
        clean = _UNSAFE.sub("", self._keep_open_end(text))
        return (
            _CONCEAL.sub(lambda found: _remove_concealing(found[0]), clean)
            if "8" in clean
            else clean
        )

    def _keep_open_end(self, text: str) -> str:
        """Return `text` without the sequence its end leaves open, which is remembered.

        Only the last introducer can leave anything open: each one ends what ran before it.
        """
        last = max(text.rfind(char) for char in _BREAKS)
        if last < 0 or text[last] not in _INTRODUCERS:
            return text
        if _STRING_BEGINS.match(text, last):
            self._in_string = True
        elif _UNFINISHED.match(text, last):
            self._pending = text[last:]
        else:
            return text
        return text[:last]


def sanitize(data: bytes) -> bytes:
    """Return all of `data` at once, as `Sanitizer` would pass it."""
    sanitizer = Sanitizer()
    return sanitizer.feed(data) + sanitizer.flush()
