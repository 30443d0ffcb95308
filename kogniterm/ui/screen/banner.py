"""The first thing on the screen: a name in a gradient where there is room and colour for it.

Made by hand from escape sequences: it is drawn before rich is loaded.
"""

from __future__ import annotations

from kogniterm.ui.locale import _
from kogniterm.ui.theme import Theme

_LETTERS = (
    "█ █ ▄▀▄ ▄▀▀ █▄ █ █ ▀█▀ █▀▀ █▀▄ █▄ ▄█",
    "██  █ █ █ █ █ ▀█ █  █  █▀  ██▀ █ ▀ █",
    "▀ ▀  ▀   ▀▀ ▀  ▀ ▀  ▀  ▀▀▀ ▀ ▀ ▀   ▀",
)
_WIDE = 46


def banner(
    version: str,
    columns: int,
    theme: Theme,
    *,
    unicode: bool = True,
    color: bool = True,
    attributes: bool = True,
) -> str:
    """The banner for a screen of `columns`, with escape sequences as allowed."""
    tail = _("/help lists what you can type.")
    name = f"KogniTerm {version}"
    if columns >= _WIDE and unicode and attributes:
        gradient = color and theme.name != "plain"
        letters = [_gradient(line, theme) if gradient else line for line in _LETTERS]
        head = "\n".join(f" {line}" for line in letters)
        return f"\n{head}  {version}\n\n {tail}\n\n"
    bold = f"\x1b[1m{name}\x1b[0m" if attributes else name
    separator = " · " if unicode else " - "
    if len(name) + len(separator) + len(tail) <= columns:
        return f"{bold}{separator}{tail}\n\n"
    return f"{bold}\n{tail}\n\n"


def _gradient(line: str, theme: Theme) -> str:
    """`line` in colours that run from the theme's first to its second; 256-colour palette."""
    start, end = theme.gradient
    pieces, last = [], -1
    for index, char in enumerate(line):
        share = index / max(len(line) - 1, 1)
        color = _palette(*(round(a + (b - a) * share) for a, b in zip(start, end, strict=True)))
        if char != " " and color != last:
            pieces.append(f"\x1b[38;5;{color}m")
            last = color
        pieces.append(char)
    return "".join(pieces) + "\x1b[0m"


def _palette(red: int, green: int, blue: int) -> int:
    """The nearest colour of xterm's 6x6x6 cube, whose levels are 0, 95, 135, 175, 215, 255."""

    def level(value: int) -> int:
        return 0 if value < 48 else 1 if value < 115 else (value - 35) // 40

    return 16 + 36 * level(red) + 6 * level(green) + level(blue)
