"""The line a user types into, as the REPL sees it: a live prompt, or plain lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

from kogniterm.ui.locale import _
from kogniterm.ui.screen.screen_preferences import Theme
from kogniterm.ui.screen.surface import Surface

if TYPE_CHECKING:
    from kogniterm.protocols import Terminal
    from kogniterm.ui.questions.question import Asker
    from kogniterm.ui.screen.screen_preferences import Theme


class Front(Protocol):
    """The terminal in use: lines are typed, questions asked, and programs given the keyboard."""

    @property
    def surface(self) -> Surface:
        """The surface to draw on."""

    @property
    def questions(self) -> Asker:
        """The driver that asks the user."""

    @property
    def question_open(self) -> bool:
        """Return whether a question waits for its answer."""

    async def run(self) -> int:
        """Read lines until `exit`; return the exit status."""

    def exit(self, status: int) -> None:
        """Leave."""

    def say_below(self, note: str, holds: Callable[[], bool] | None = None) -> None:
        """Show a short note until the next key, or as long as it `holds`."""

    def restore(self, text: str) -> None:
        """Give text back to the input line."""

    @property
    def terminal_files(self) -> tuple[int, int]:
        """The descriptors of the keyboard and the screen."""

    def terminal(self) -> Terminal:
        """Return the user's terminal, for a command that needs the keyboard."""

    def hand_over(self, *, raw: bool = False) -> AbstractAsyncContextManager[None]:
        """Give the terminal without the prompt on it; `raw` never echoes what is typed."""

    async def edit_text(self, text: str) -> str | None:
        """Return `text` as it was saved in the user's editor; None when nothing was changed."""

    async def show_file(self, path: str) -> None:
        """Open a file in the pager."""

    def echo(self, text: str) -> None:
        """Write a sent line into the scrollback, unless the terminal has shown it."""

    async def type_keys(self, keys: str, *, every: float = 0.0, enter: bool = False) -> None:
        """Take keys as if they were typed, one `every` seconds, and Enter after them on demand.

        Where the terminal edits whole lines, Enter always follows.
        """

    def draft(self) -> str:
        """Return what stands on the input line and was not sent."""

    def restyle(self, theme: Theme) -> None:
        """Use another theme."""

    def use_keys(self, keys: str) -> None:
        """Switch between emacs and vi keys."""

    def pasted(self, line: str) -> tuple[Sequence[str], tuple[tuple[int, int], ...]]:
        """Return the files of pasted images that a line mentions, and its stretches of paste."""


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
    """Return the banner for a screen of `columns`, with escape sequences as allowed."""
    tail = _("Type /help for a list of commands.")
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
    """Return `line` in colours from the theme's first to its second; 256-colour palette."""
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
    """Return the nearest colour of xterm's 6x6x6 cube (levels 0, 95, 135, 175, 215, 255)."""

    def level(value: int) -> int:
        return 0 if value < 48 else 1 if value < 115 else (value - 35) // 40

    return 16 + 36 * level(red) + 6 * level(green) + level(blue)
