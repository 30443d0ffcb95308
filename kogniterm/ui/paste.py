"""Large pastes become a marker on the input line and come back whole when the line is sent."""

from __future__ import annotations

from kogniterm.ui.locale import plural

LARGE_LINES = 12
LARGE_CHARACTERS = 1200


class Pastes:
    """The pasted texts of the line being written, by marker."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._count = 0

    def take(self, text: str) -> str:
        """What to insert for a pasted `text`: itself, or a marker when it is large."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.count("\n") + 1
        if lines <= LARGE_LINES and len(text) <= LARGE_CHARACTERS:
            return text
        self._count += 1
        size = plural("{count} line", "{count} lines", lines)
        marker = f"[paste {self._count}: {size}]"
        self._texts[marker] = text
        return marker

    def expand(self, line: str) -> str:
        """`line` with every marker replaced by the text it stands for."""
        for marker, text in self._texts.items():
            if marker in line:
                line = line.replace(marker, f"\n{text}\n" if line.strip() != marker else text)
        return line

    def clear(self) -> None:
        """Forget the texts; markers of sent lines mean nothing any more."""
        self._texts.clear()
