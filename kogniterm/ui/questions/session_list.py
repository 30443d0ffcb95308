"""The list of saved sessions to pick from: one a line, filtered as the user types."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kogniterm.text.language import fold_case
from kogniterm.text.shorten import below_home, one_line
from kogniterm.types import Phrase
from kogniterm.ui.locale import _, age
from kogniterm.ui.questions.pick_list import GAP, PickList
from kogniterm.ui.questions.question import Answered, Step
from kogniterm.ui.screen.surface import cells, cut_middle

if TYPE_CHECKING:
    from rich.text import Text

    from kogniterm.sessions.store import Condition, SessionInfo, SessionStore

LISTED = 200
"""Sessions that are listed; older ones are found by their ids and titles."""
LEAST_FOLDER = 8
LEAST_TITLE = 12
"""Cells of a column at least, however narrow the screen is."""
_STYLES: dict[Condition, str] = {
    "done": "muted",
    "not_done": "warn",
    "interrupted": "warn",
    "question": "accent",
    "elsewhere": "muted",
}


class SessionRow(NamedTuple):
    """A session as the list shows it; `used` is the age of its last record."""

    id: str
    used: str
    folder: str
    title: str
    condition: Condition

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
        }[self.condition]

    def holds(self, word: str) -> bool:
        """Return whether `word` stands in the row, or begins its id."""
        text = fold_case(f"{self.title} {self.folder} {self.state}")
        return word in text or self.id.startswith(word)


def session_rows(
    store: SessionStore, infos: Sequence[SessionInfo], home: str
) -> tuple[SessionRow, ...]:
    """Return the first of `infos` as rows."""
    now = time.time()
    return tuple(
        SessionRow(
            info.id,
            age(now - info.updated),
            below_home(one_line(info.folder), home),
            one_line(info.title),
            store.condition(info.id),
        )
        for info in infos[:LISTED]
    )


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
    place = cut_middle(row.folder, folder)
    line.append(place + " " * (folder - cells(place)), "muted")
    words = Text(row.title)
    words.truncate(title, overflow="ellipsis", pad=True)
    line.append(GAP).append_text(words)
    return line.append(GAP).append(row.state, _STYLES[row.condition])


@dataclass(frozen=True)
class SessionPickList(PickList[SessionRow, str]):
    """Asks for a session; the answer is its id, or empty when none was picked."""

    title = Phrase("Which session do you want to resume?")
    nothing = Phrase("No session matches.")
    enter = Phrase("resume")

    def line(self, row: SessionRow, columns: int) -> Text:
        """Return a session in the columns that all of them need."""
        return row_text(row, columns, self.rows)

    def take(self, row: SessionRow) -> Step[str]:
        """Answer with a session that no other process has open."""
        if row.held:
            return self.with_note(
                _("This session is open in another process. Close it there first.")
            )
        return Answered(row.id)

    def ended(self) -> str:
        """Pick none."""
        return ""
