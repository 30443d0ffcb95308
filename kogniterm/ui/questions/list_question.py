"""A question with a list of answers, chosen by number or with the arrows and Enter."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from kogniterm.ui.locale import _
from kogniterm.ui.questions.question import Answered, ChoiceQuestion, Document, Option, Shown, Step
from kogniterm.ui.screen.surface import cells

if TYPE_CHECKING:
    from kogniterm.ui.screen.paint import Painter


_NARROW = 28
"""Cells beside the labels; where what is said needs more and has fewer, it stands below them."""


@dataclass(frozen=True)
class ListQuestion(ChoiceQuestion[str]):
    """Shows `title` and `choices`, chosen by their numbers. Esc and Ctrl-C take the last."""

    picked: int = 0

    def document(self, painter: Painter, columns: int, rows: int, words: str = "") -> Document:
        """Return title and choices, the picked one marked."""
        return Document([*self._lines(painter, columns, self.picked), ""], to_end=True)

    def text(self, painter: Painter, columns: int) -> Document:
        """Return title and choices; line by line none is picked."""
        return Document(self._lines(painter, columns, None))

    def _lines(self, painter: Painter, columns: int, picked: int | None) -> list[str]:
        table = Table.grid(padding=(0, 1))
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True)
        beside = columns - 6 - max(cells(item.words) for item in self.choices)
        below = beside < min(_NARROW, max(cells(item.about) for item in self.choices))
        table.add_column(no_wrap=not below)
        for index, item in enumerate(self.choices):
            style = "accent" if index == picked else ""
            label, about = Text(f"{item.words} ", style), Text(item.about, "muted")
            table.add_row(
                Text(painter.symbol("active") if index == picked else " ", "accent"),
                Text(f"{index + 1}", "accent"),
                *([Text("\n").join([label, about])] if below else [label, about]),
            )
        rows = (line for line in painter.lines(table, columns) if line.strip())
        return [*painter.lines(Text(self.title, "heading"), columns), *rows]

    @property
    def by_key(self) -> Mapping[str, Option[str]]:
        """The answers by their numbers."""
        return {f"{number}": one for number, one in enumerate(self.choices, 1)}

    def keys(self, painter: Painter, *, typing: bool) -> Sequence[Shown]:
        """Return the keys that choose."""
        last = self.choices[-1].words
        return [
            Shown("↑↓" if painter.unicode else "up/down", _("move")),
            Shown(f"1-{len(self.choices)}, Enter", _("choose")),
            Shown("Esc", f"{last[:1].lower()}{last[1:]}"),
        ]

    def options(self) -> Collection[str]:
        """Return the numbers, and Enter for the picked answer."""
        return (*self.by_key, "enter")

    def press(self, key: str, *, seen: bool = True) -> Step[str]:
        """Move with an arrow; answer with a number or Enter."""
        if key in ("up", "down"):
            step = 1 if key == "down" else -1
            return replace(self, picked=(self.picked + step) % len(self.choices), note="")
        return super().press(f"{self.picked + 1}" if key == "enter" else key)

    def back(self) -> Step[str] | None:
        """Take the last answer, which changes nothing."""
        return Answered(self.ended())

    def menu(self) -> Sequence[str]:
        """Return the numbers that answer."""
        return [f"1-{len(self.choices)}"]

    def typed(self, line: str) -> Step[str] | None:
        """Answer with a number."""
        option = self.by_key.get(line.strip())
        return Answered(option.value) if option is not None else None


def list_question(title: str, *answers: tuple[str, str] | tuple[str, str, str]) -> ListQuestion:
    """Return a question with answers, each a value, its words, and what is said about it."""
    return ListQuestion(title, (), [Option("", one[1], one[0], *one[2:]) for one in answers])
