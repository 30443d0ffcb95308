"""The list of saved sessions to pick from: one a line, filtered as the user types."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

from kogniterm.text.language import fold_case
from kogniterm.text.visible import one_line
from kogniterm.ui.locale import _, age, plural
from kogniterm.ui.questions.question import Answered, Document, Question, Shown, Step
from kogniterm.ui.screen.surface import cells, cut_middle

if TYPE_CHECKING:
    from rich.text import Text

    from kogniterm.sessions.store import Condition, SessionInfo, SessionStore
    from kogniterm.ui.screen.paint import Painter

LISTED = 200
"""Sessions that are listed; older ones are found by their ids and titles."""
ROWS = 12
"""Sessions in sight at most."""
PAGE = 10
GAP = "  "
LEAST_FOLDER = 8
LEAST_TITLE = 12
"""Cells of a column at least, however narrow the screen is."""
Standing: TypeAlias = "Condition | Literal['current']"
"""The state of a session, or that it is the one in use."""
_STYLES: dict[Standing, str] = {
    "done": "muted",
    "not_done": "warn",
    "interrupted": "warn",
    "question": "accent",
    "elsewhere": "muted",
    "current": "good",
}


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session as the list shows it; `used` is the age of its last record."""

    id: str
    used: str
    folder: str
    title: str
    condition: Standing

    @property
    def held(self) -> bool:
        """Return whether another process has the session open."""
        return self.condition == "elsewhere"

    @property
    def state(self) -> str:
        """Return the state in words."""
        return {
            "done": _("done"),
            "not_done": _("not done"),
            "interrupted": _("interrupted"),
            "question": _("question pending"),
            "elsewhere": _("open elsewhere"),
            "current": _("this one"),
        }[self.condition]

    def holds(self, words: str) -> bool:
        """Return whether every word stands in the row, or begins its id."""
        text = fold_case(f"{self.title} {self.folder} {self.state}")
        return all(word in text or self.id.startswith(word) for word in fold_case(words).split())


def session_rows(
    store: SessionStore, infos: Sequence[SessionInfo], home: str
) -> tuple[SessionRow, ...]:
    """Return the first of `infos` as rows."""
    now = time.time()
    return tuple(
        SessionRow(
            info.id,
            age(now - info.updated),
            _short_home(one_line(info.folder), home.rstrip("/")),
            one_line(info.title),
            store.condition(info.id),
        )
        for info in infos[:LISTED]
    )


def _short_home(folder: str, home: str) -> str:
    inside = bool(home) and (folder == home or folder.startswith(f"{home}/"))
    return f"~{folder[len(home) :]}" if inside else folder


def row_text(row: SessionRow, columns: int, rows: Sequence[SessionRow]) -> Text:
    """Return a row in the columns that `rows` need in `columns` cells."""
    from rich.text import Text

    used = max(cells(one.used) for one in rows)
    state = max(cells(one.state) for one in rows)
    room = columns - used - state - 3 * len(GAP)
    # The title says most: of a narrow screen it gets the larger part.
    widest = max(cells(one.folder) for one in rows)
    folder = max(min(widest, columns // 4, room * 2 // 5), LEAST_FOLDER)
    title = max(room - folder, LEAST_TITLE)
    line = Text(row.used.rjust(used), "muted")
    line.append(GAP)
    line.append(_padded(cut_middle(row.folder, folder), folder), "muted")
    words = Text(row.title)
    words.truncate(title, overflow="ellipsis", pad=True)
    line.append(GAP).append_text(words)
    return line.append(GAP).append(row.state, _STYLES[row.condition])


def _padded(text: str, width: int) -> str:
    return text + " " * (width - cells(text))


def _in_one(text: Text, painter: Painter, columns: int) -> str:
    """Return `text` as one line, cut where the screen ends."""
    text.truncate(columns, overflow="ellipsis")
    return painter.lines(text, columns)[0]


@dataclass(frozen=True)
class SessionQuestion(Question[str]):
    """Asks for one of `rows`; `words` filter them, `picked` counts in those that are left.

    The answer is an id, or empty when none was picked.
    """

    rows: Sequence[SessionRow]
    picked: int = 0
    filter: str = ""

    free = True
    invited = True

    @cached_property
    def found(self) -> Sequence[SessionRow]:
        """The rows that the filter leaves."""
        return [row for row in self.rows if row.holds(self.filter)]

    def document(self, painter: Painter, columns: int, rows: int, words: str = "") -> Document:
        """Return the rows around the picked one."""
        from rich.text import Text

        room = max(min(rows - 3, ROWS), 1)
        first = max(0, min(self.picked - room // 2, len(self.found) - room))
        lines = []
        for number, row in enumerate(self.found[first : first + room], first):
            chosen = number == self.picked
            line = Text(f"{painter.symbol('active')} " if chosen else "  ", "accent")
            line.append_text(row_text(row, columns - 2, self.rows))
            if chosen:
                line.stylize("bold")
            lines.append(_in_one(line, painter, columns))
        head = _in_one(self._head(len(lines), columns), painter, columns)
        return Document([head, *lines, ""])

    def _head(self, shown: int, columns: int) -> Text:
        from rich.text import Text

        title = Text(_("Which session do you want to resume?"), "heading")
        if not self.found:
            return title.append(GAP).append(_("No session matches."), "warn")
        count = len(self.found)
        told = _("type to filter")
        place = _("{number} of {count}").format(number=self.picked + 1, count=count)
        if shown < count and cells(f"{title.plain}{GAP}{place} · {told}") <= columns:
            told = f"{place} · {told}"
        return title.append(GAP).append(told, "muted")

    def transcript(self, painter: Painter, columns: int, answer: Answered[str] | None) -> str:
        """Return nothing: the session that was picked is shown."""
        return ""

    # --- single keys ---------------------------------------------------------------------------

    def keys(self, painter: Painter, *, typing: bool) -> Sequence[Shown]:
        """Return the keys; everything else is text that filters."""
        arrows = "↑↓" if painter.unicode else "up/down"
        return [
            Shown(arrows, _("select")),
            Shown("Enter", _("resume")),
            Shown("Esc", _("cancel")),
        ]

    def line_changed(self, words: str) -> SessionQuestion:
        """Filter by what stands on the line now."""
        return replace(self, filter=words, picked=0, note="")

    def press(self, key: str, *, seen: bool = True) -> Step[str]:
        """Choose another row."""
        steps = {"up": -1, "down": 1, "pageup": -PAGE, "pagedown": PAGE}
        last = len(self.found) - 1
        picked = min(max(self.picked + steps.get(key, 0), 0), max(last, 0))
        return replace(self, picked=picked, note="")

    def words(self, text: str) -> Step[str]:
        """Answer with the picked row."""
        return self._answer(self.found[self.picked]) if self.found else self

    def _answer(self, row: SessionRow) -> Step[str]:
        if row.held:
            return self.noted(_("This session is open in another process. Close it there first."))
        return Answered(row.id)

    def back(self) -> Step[str] | None:
        """Pick none."""
        return Answered("")

    # --- whole lines ---------------------------------------------------------------------------

    def text(self, painter: Painter, columns: int) -> Document:
        """Return the first rows with their numbers."""
        from rich.text import Text

        shown = self.found[: 2 * PAGE]
        lines = painter.lines(Text(_("Which session do you want to resume?"), "heading"), columns)
        for number, row in enumerate(shown, 1):
            line = Text(f"{number:>3}  ").append_text(row_text(row, columns - 6, self.rows))
            lines.append(_in_one(line, painter, columns))
        left = len(self.found) - len(shown)
        if left:
            more = plural("{count} more", "{count} more", left)
            lines += painter.lines(Text(f"     {painter.symbol('more')} {more}"), columns)
        return Document(lines)

    def menu(self) -> Sequence[str]:
        """Return how to answer."""
        return [_("Enter a number, or text to filter by; an empty line cancels.")]

    def typed(self, line: str) -> Step[str] | None:
        """Take a number, or text that filters; of one session alone, that one."""
        said = line.strip()
        if not said:
            return Answered("")
        shown = self.found[: 2 * PAGE]
        if said.isascii() and said.isdecimal() and 1 <= int(said) <= len(shown):
            return self._answer(shown[int(said) - 1])
        after = replace(self, filter=said, note="")
        if len(after.found) == 1:
            return after._answer(after.found[0])
        return after if after.found else self.noted(_("No session matches."))

    def ended(self) -> str:
        """Pick none."""
        return ""
