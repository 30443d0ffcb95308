"""A question with a list of answers, chosen by number or with the arrows and Enter."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from rich.table import Table
from rich.text import Text

from kogniterm.ui.locale import _
from kogniterm.ui.questions.question import Answered, Document, Question, Shown, Step
from kogniterm.ui.screen.surface import cells

if TYPE_CHECKING:
    from kogniterm.ui.screen.paint import Painter


_NARROW = 28
"""Cells beside the labels; where what is said needs more and has fewer, it stands below them."""


class Item(NamedTuple):
    """An answer: its value, its label, and what is said about it beside or below the label."""

    value: str
    label: str
    about: str = ""


@dataclass(frozen=True)
class ListQuestion(Question[str]):
    """Shows `title` and `items`; the answer is the value of one. Esc and Ctrl-C take the last."""

    title: str
    items: tuple[Item, ...]
    picked: int = 0

    def document(self, painter: Painter, columns: int, rows: int, words: str = "") -> Document:
        """Return title and items, the picked one marked."""
        return Document([*self._lines(painter, columns, self.picked), ""], to_end=True)

    def text(self, painter: Painter, columns: int) -> Document:
        """Return title and items; line by line none is picked."""
        return Document(self._lines(painter, columns, None))

    def transcript(self, painter: Painter, columns: int, answer: Answered[str] | None) -> str:
        """Return the title with the answer."""
        label = next((one.label for one in self.items if answer and one.value == answer.value), "")
        line = Text.assemble((self.title, "heading"), "  ", (label, "accent"))
        return painter.paint(line, columns)

    def _lines(self, painter: Painter, columns: int, picked: int | None) -> list[str]:
        table = Table.grid(padding=(0, 1))
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True)
        beside = columns - 6 - max(cells(item.label) for item in self.items)
        below = beside < min(_NARROW, max(cells(item.about) for item in self.items))
        table.add_column(no_wrap=not below)
        for index, item in enumerate(self.items):
            style = "accent" if index == picked else ""
            label, about = Text(f"{item.label} ", style), Text(item.about, "muted")
            table.add_row(
                Text(painter.symbol("active") if index == picked else " ", "accent"),
                Text(f"{index + 1}", "accent"),
                *([Text("\n").join([label, about])] if below else [label, about]),
            )
        rows = (line for line in painter.lines(table, columns) if line.strip())
        return [*painter.lines(Text(self.title, "heading"), columns), *rows]

    # --- single keys ---------------------------------------------------------------------------

    def keys(self, painter: Painter, *, typing: bool) -> Sequence[Shown]:
        """Return the keys that choose."""
        last = self.items[-1].label
        return [
            Shown("↑↓" if painter.unicode else "up/down", _("move")),
            Shown(f"1-{len(self.items)}, Enter", _("choose")),
            Shown("Esc", f"{last[:1].lower()}{last[1:]}"),
        ]

    def options(self) -> Collection[str]:
        """Return the numbers, and Enter for the picked answer."""
        return (*(f"{index + 1}" for index in range(len(self.items))), "enter")

    def press(self, key: str, *, seen: bool = True) -> Step[str]:
        """Move with an arrow; answer with a number or Enter."""
        if key in ("up", "down"):
            step = 1 if key == "down" else -1
            return replace(self, picked=(self.picked + step) % len(self.items), note="")
        if key == "enter":
            return Answered(self.items[self.picked].value)
        return self.typed(key) or self

    def back(self) -> Step[str] | None:
        """Take the last answer, which changes nothing."""
        return Answered(self.ended())

    # --- whole lines ---------------------------------------------------------------------------

    def menu(self) -> Sequence[str]:
        """Return the numbers that answer."""
        return [f"1-{len(self.items)}"]

    def typed(self, line: str) -> Step[str] | None:
        """Answer with a number."""
        said = line.strip()
        if said.isascii() and said.isdecimal() and 1 <= int(said) <= len(self.items):
            return Answered(self.items[int(said) - 1].value)
        return None

    def ended(self) -> str:
        """Return the last answer, which changes nothing."""
        return self.items[-1].value
