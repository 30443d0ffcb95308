"""Lists to choose from: by number, or filtered as the user types (sessions, models, messages)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeVar

from kogniterm.text.language import fold_case
from kogniterm.types import Phrase
from kogniterm.ui.locale import _, plural, translate
from kogniterm.ui.questions.question import (
    Answered,
    ChoiceQuestion,
    Option,
    Question,
    QuestionText,
    Shown,
    Step,
    Value,
)
from kogniterm.ui.screen.surface import cells

if TYPE_CHECKING:
    from typing import Self

    from rich.text import Text

    from kogniterm.ui.screen.paint import Painter

ROWS = 12
"""Rows in sight at most."""
PAGE = 10
GAP = "  "


class PickRow(Protocol):
    """A line of the list."""

    def holds(self, word: str) -> bool:
        """Return whether the row matches a word that the user typed, as `fold_case` writes it."""


RowKind = TypeVar("RowKind", bound=PickRow)


@dataclass(frozen=True)
class PickList(Question[Value], Generic[RowKind, Value]):
    """Asks for one of `rows`; `filter` narrows them, `picked` counts in those that are left.

    `title` is the question, `nothing` the sentence for a filter that leaves no row, and `enter` the
    effect of Enter, in one word.
    """

    title: ClassVar[Phrase]
    nothing: ClassVar[Phrase]
    enter: ClassVar[Phrase]

    rows: Sequence[RowKind]
    picked: int = 0
    filter: str = ""

    free = True
    invited = True
    feet: ClassVar[int] = 0
    """Lines that `foot` needs below the rows."""

    @abstractmethod
    def line(self, row: RowKind, columns: int) -> Text:
        """Return a row in `columns` cells."""

    @abstractmethod
    def take(self, row: RowKind) -> Step[Value]:
        """Answer with a row, or say why it cannot be taken."""

    def foot(self, columns: int) -> Sequence[Text]:
        """Return what is said below the rows, at most `feet` lines."""
        return ()

    @cached_property
    def found(self) -> Sequence[RowKind]:
        """The rows that the filter leaves."""
        words = fold_case(self.filter).split()
        return [row for row in self.rows if all(map(row.holds, words))]

    @property
    def chosen(self) -> RowKind | None:
        """The picked row; None when the filter leaves none."""
        return self.found[self.picked] if self.found else None

    def document(self, painter: Painter, columns: int, rows: int, words: str = "") -> QuestionText:
        """Return the rows around the picked one."""
        from rich.text import Text

        feet = [in_one(text, painter, columns) for text in self.foot(columns)]
        room = max(min(rows - 3 - len(feet), ROWS), 1)
        first = max(0, min(self.picked - room // 2, len(self.found) - room))
        lines = []
        for number, row in enumerate(self.found[first : first + room], first):
            chosen = number == self.picked
            line = Text(f"{painter.symbol('active')} " if chosen else "  ", "accent")
            line.append_text(self.line(row, columns - 2))
            if chosen:
                line.stylize("bold")
            lines.append(in_one(line, painter, columns))
        head = in_one(self._head(len(lines), columns), painter, columns)
        return QuestionText([head, *lines, *feet, ""])

    def _head(self, shown: int, columns: int) -> Text:
        from rich.text import Text

        title = Text(translate(self.title), "heading")
        if not self.found:
            return title.append(GAP).append(translate(self.nothing), "warn")
        count = len(self.found)
        told = _("type to filter")
        place = _("{number} of {count}").format(number=self.picked + 1, count=count)
        if shown < count and cells(f"{title.plain}{GAP}{place} · {told}") <= columns:
            told = f"{place} · {told}"
        return title.append(GAP).append(told, "muted")

    def transcript(self, painter: Painter, columns: int, answer: Answered[Value] | None) -> str:
        """Return nothing: what was picked is shown, or asked about, by itself."""
        return ""

    # --- single keys ---------------------------------------------------------------------------

    def keys(self, painter: Painter, *, typing: bool) -> Sequence[Shown]:
        """Return the keys; everything else is text that filters."""
        arrows = "↑↓" if painter.unicode else "up/down"
        return [
            Shown(arrows, _("select")),
            Shown("Enter", translate(self.enter)),
            Shown("Esc", _("cancel")),
        ]

    def line_changed(self, words: str) -> Self:
        """Filter by what stands on the line now."""
        return replace(self, filter=words, picked=0, note="")

    def press(self, key: str, *, seen: bool = True) -> Step[Value]:
        """Choose another row."""
        steps = {"up": -1, "down": 1, "pageup": -PAGE, "pagedown": PAGE}
        last = len(self.found) - 1
        picked = min(max(self.picked + steps.get(key, 0), 0), max(last, 0))
        return replace(self, picked=picked, note="")

    def words(self, text: str) -> Step[Value]:
        """Answer with the picked row."""
        return self.take(self.found[self.picked]) if self.found else self

    def back(self) -> Step[Value] | None:
        """Pick none."""
        return Answered(self.ended())

    # --- whole lines ---------------------------------------------------------------------------

    def text(self, painter: Painter, columns: int) -> QuestionText:
        """Return the first rows with their numbers."""
        from rich.text import Text

        shown = self.found[: 2 * PAGE]
        lines = painter.lines(Text(translate(self.title), "heading"), columns)
        for number, row in enumerate(shown, 1):
            line = Text(f"{number:>3}  ").append_text(self.line(row, columns - 6))
            lines.append(in_one(line, painter, columns))
        left = len(self.found) - len(shown)
        if left:
            more = plural("{count} more", "{count} more", left)
            lines += painter.lines(Text(f"     {painter.symbol('more')} {more}"), columns)
        lines += [in_one(text, painter, columns) for text in self.foot(columns)]
        return QuestionText(lines)

    def menu(self) -> Sequence[str]:
        """Return how to answer."""
        return [_("Enter a number, or text to filter by; an empty line cancels.")]

    def typed(self, line: str) -> Step[Value] | None:
        """Take a number, or text that filters; of one row alone, that one."""
        said = line.strip()
        if not said:
            return Answered(self.ended())
        shown = self.found[: 2 * PAGE]
        if said.isascii() and said.isdecimal() and 1 <= int(said) <= len(shown):
            return self.take(shown[int(said) - 1])
        after = replace(self, filter=said, picked=0, note="")
        if len(after.found) == 1:
            return after.take(after.found[0])
        return after if after.found else self.with_note(translate(self.nothing))


def in_one(text: Text, painter: Painter, columns: int) -> str:
    """Return `text` as one line, cut where the screen ends."""
    text.truncate(columns, overflow="ellipsis")
    return painter.lines(text, columns)[0]


_NARROW = 28
"""Cells beside the labels; where what is said needs more and has fewer, it stands below them."""


@dataclass(frozen=True)
class ListQuestion(ChoiceQuestion[str]):
    """Shows `title` and `choices`, chosen by their numbers. Esc and Ctrl-C take the last."""

    picked: int = 0

    def document(self, painter: Painter, columns: int, rows: int, words: str = "") -> QuestionText:
        """Return title and choices, the picked one marked."""
        return QuestionText([*self._lines(painter, columns, self.picked), ""], to_end=True)

    def text(self, painter: Painter, columns: int) -> QuestionText:
        """Return title and choices; line by line none is picked."""
        return QuestionText(self._lines(painter, columns, None))

    def _lines(self, painter: Painter, columns: int, picked: int | None) -> list[str]:
        from rich.table import Table
        from rich.text import Text

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
