"""The row of keys below a question: what can be pressed, what was pressed, what Enter would do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kogniterm.ui.locale import _

if TYPE_CHECKING:
    from kogniterm.ui.paint import Painter


@dataclass(frozen=True, slots=True)
class Line:
    """The keyboard at a question.

    `armed`: the question was seen; `ready`: a key would answer now; `held`: the key that was
    pressed and waits for its pause; `words`: what stands on the input line.
    """

    armed: bool = False
    ready: bool = False
    held: str = ""
    words: Literal["", "words", "command"] = ""


READY = Line(armed=True, ready=True)
Shown = tuple[str, str]
"""A key as it is shown, and what it does."""


def key_row(
    keys: Sequence[Shown], line: Line, painter: Painter, columns: int, *, words: str = ""
) -> list[str]:
    """The keys, in brackets when they work, the one that is held marked.

    With words on the line none of them works: then the row says what Enter does with the words.
    """
    from rich.text import Text

    if line.words:
        return painter.lines(Text(_words(line, words), "key"), columns)
    parts = []
    for key, does in keys:
        if line.held and key.lower() == line.held:
            parts.append(Text(f"[{key}] {does}", "held"))
        elif line.ready:
            parts.append(Text(f"[{key}] {does}", "key"))
        else:
            parts.append(Text(f" {key}  {does}", "muted"))
    return painter.key_parts(parts, columns)


def _words(line: Line, words: str) -> str:
    if not line.armed:
        return _("You are typing: the question waits until you pause.")
    if line.words == "command":
        return _("Enter: run the command · Esc: back to the question")
    return words
