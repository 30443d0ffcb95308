"""The last turns of a resumed session, drawn by the renderer that draws them live."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from rich.text import Text

from kogniterm.runtime.plan_edits import PlanDraft
from kogniterm.runtime.replay.recorded_events import Item, PastTurns, Replied
from kogniterm.runtime.session_approver import Approval
from kogniterm.types import UserInput
from kogniterm.types import events as ev
from kogniterm.ui.locale import plural
from kogniterm.ui.questions.approval import ApprovalQuestion, Subject
from kogniterm.ui.questions.model_question import ModelQuestion
from kogniterm.ui.questions.plan_review import PlanQuestion
from kogniterm.ui.questions.question import Answered
from kogniterm.ui.screen.paint import paint_input
from kogniterm.ui.screen.renderer import ScreenOptions, ScreenSink
from kogniterm.ui.screen.surface import LineSurface

if TYPE_CHECKING:
    from kogniterm.ui.screen.paint import Painter
    from kogniterm.ui.screen.renderer import FinishedCommand

FOLD = 8
"""Lines of a command's output at most; `/output` shows the rest."""
SCREENS = 1.5
"""The height of what is shown at most, in screens."""


class _TurnLines(NamedTuple):
    """The lines of one turn, of which the first `head` show its input."""

    lines: list[str]
    head: int

    def shorten(self, room: int, page: _HiddenScreen, reference: str) -> list[str]:
        """Return the input and the end of the turn, in about `room` lines."""
        hidden = len(self.lines) - room
        if hidden <= 1:
            return self.lines
        more = plural("{count} more line", "{count} more lines", hidden)
        first = self.head + hidden
        note = page.note(f"{more} · {_how_to_read(reference)}")
        return [*self.lines[: self.head], note, *self.lines[first:]]


def draw_past_turns(
    past: PastTurns,
    painter: Painter,
    size: tuple[int, int],
    finished: list[FinishedCommand],
) -> str:
    """Return the last turns as text for a screen of `size` (rows, columns).

    Of two turns that are too high only the last one is shown, and of that its input and its end.
    The commands are added to `finished`, from which `/output` shows them.
    """
    rows, columns = size
    page = _HiddenScreen(painter, columns, finished)
    blocks = [page.turn(items) for items in past.turns]
    room = int(rows * SCREENS)
    while len(blocks) > 1 and sum(len(block.lines) for block in blocks) > room:
        blocks.pop(0)
    earlier = past.earlier + len(past.turns) - len(blocks)
    lines: list[str] = []
    if earlier:
        turns = plural("{count} earlier turn", "{count} earlier turns", earlier)
        lines = [page.note(f"{turns} · {_how_to_read(past.reference)}"), ""]
    for block in blocks:
        lines += block.shorten(room, page, past.reference)
    return "\n".join(lines) + "\n" if lines else ""


def _how_to_read(reference: str) -> str:
    return f"kogniterm sessions show {reference}"


class _HiddenScreen(ev.EventVisitor):
    """A screen that is not shown: its drawing is kept as lines."""

    def __init__(self, painter: Painter, columns: int, finished: list[FinishedCommand]) -> None:
        self._painter = painter
        self._columns = columns
        self._text = io.StringIO()
        self._sink = ScreenSink(
            painter,
            LineSurface(self._text, columns),
            clock=lambda: 0.0,
            options=ScreenOptions(fold=FOLD, live=False),
        )
        self._sink.finished = finished
        self._asked: dict[str, ev.ActionProposed] = {}

    def note(self, words: str) -> str:
        """Return a line about what is not shown."""
        line = Text(f"{self._painter.symbol('more')} {words}", "muted")
        line.truncate(self._columns - 1, overflow="ellipsis")
        return self._painter.lines(line, self._columns)[0]

    def turn(self, items: Sequence[Item]) -> _TurnLines:
        begun = self._length()
        self._draw(items[0])
        head = self._length() - begun
        for item in items[1:]:
            if isinstance(item, UserInput) and not self._text.getvalue().endswith("\n\n"):
                self._write("\n")
            self._draw(item)
        self._sink.settle()
        lines = self._text.getvalue().split("\n")[begun:-1]
        while lines and not lines[-1].strip():
            lines.pop()
        return _TurnLines([*lines, ""], head)

    def _length(self) -> int:
        return self._text.getvalue().count("\n")

    def _draw(self, item: Item) -> None:
        if isinstance(item, UserInput):
            self._sink.write(paint_input(item.typed, self._painter))
        elif isinstance(item, Replied):
            question = ModelQuestion(item.question, item.answers)
            self._write(question.transcript(self._painter, self._columns, Answered(item.reply)))
        else:
            self(item)
            self._sink(item)

    def _write(self, text: str) -> None:
        self._sink.surface.commit(text)

    # --- the lines that a question leaves on the screen after its answer -------------------------

    def on_action_proposed(self, event: ev.ActionProposed) -> None:
        self._asked[event.request.id] = event

    def on_plan_proposed(self, event: ev.PlanProposed) -> None:
        proposed = PlanQuestion(PlanDraft(event.plan, event.previous))
        self._write(proposed.transcript(self._painter, self._columns, None))

    def on_action_decided(self, event: ev.ActionDecided) -> None:
        asked = self._asked.get(event.request.id)
        if asked is not None and event.decision.by == ev.BY_USER:
            subject = Subject(asked.request, asked.report, asked.verdict, asked.cwd)
            answer = Answered(Approval(event.decision))
            question = ApprovalQuestion(subject)
            self._write(question.transcript(self._painter, self._columns, answer))
