"""The two sides the prompt stands between: the REPL it tells, and the question it shows."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from kogniterm.ui.question_keys import Line
from kogniterm.ui.toolbar import Facts


class Conversation(Protocol):
    """What the prompt tells the REPL."""

    def submit(self, text: str) -> None:
        """A line was sent."""

    def knows(self, line: str) -> bool:
        """Whether a line that looks like a slash command is one."""

    def interrupt(self) -> None:
        """Ctrl-C on an empty line."""

    def escape(self) -> None:
        """Esc."""

    def leave(self) -> None:
        """Ctrl-D on an empty line."""

    def say_now(self, text: str) -> None:
        """Say a line, or what is queued, to the running turn."""

    def send_now(self) -> None:
        """Stop the turn and send the queue."""

    def take_back(self) -> str | None:
        """Take the last queued message back."""

    def switch_mode(self) -> None:
        """Switch the approval mode."""

    def edit_outside(self) -> None:
        """Write the line in the editor."""

    def paste_image(self) -> None:
        """Add the image on the clipboard."""

    def queued(self) -> Sequence[str]:
        """What waits for its turn."""

    def facts(self) -> Facts:
        """What the toolbar tells."""


class Panel(Protocol):
    """An open question as the prompt sees it: what it draws, and which keys it wants."""

    free: bool
    """Whether words on the input line are the answer."""

    @property
    def open(self) -> bool:
        """Whether there is a question."""

    @property
    def typing(self) -> bool:
        """Whether the question wants its entry line."""

    @property
    def careful(self) -> bool:
        """Whether the entry line opens only after the pause, because its words act."""

    def options(self) -> Collection[str]:
        """The single keys that do something now."""

    def lines(self, columns: int, rows: int, line: Line) -> list[str]:
        """The question in at most `rows` lines; `line` tells of the keyboard."""

    def key(self, key: str) -> None:
        """Do what a single key of `options`, an arrow or a page key stands for."""

    def words(self, text: str) -> bool:
        """Take what was written on the input line; False when the question has no use for it."""

    def enter(self, text: str) -> None:
        """The entry line was finished."""

    def back(self) -> bool:
        """Esc; False when there is nothing to go back from."""
