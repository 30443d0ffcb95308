"""A plan in front of a person, inside the prompt: read it, change it with single keys, decide.

Approving a plan runs nothing by itself, so Enter may do it; commands are asked for one by one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from itertools import accumulate
from typing import Literal

from rich.console import RenderableType
from rich.text import Text

from kogniterm.errors import KognitermError, UsageError
from kogniterm.runtime.plan_edits import PlanDraft
from kogniterm.types import PlanReview
from kogniterm.ui import plan_panel
from kogniterm.ui.clean import one_line
from kogniterm.ui.keys import actions, letter
from kogniterm.ui.locale import _, plural, translate
from kogniterm.ui.paint import Painter
from kogniterm.ui.question_keys import Line, Shown, key_row

Mode = Literal["choose", "reason", "add"]
ROWS_TO_TELL = 5
"""From so many rows on, one above and one below may tell how many steps are out of sight."""


class PlanReviewPanel:
    """Shows `draft` until it is approved or rejected.

    `entry` starts an entry line with a text, `edit` gives a text to the person's editor and
    returns what was saved (None: nothing), `stop_turn` stops the turn.
    """

    free = False
    careful = False

    def __init__(
        self,
        draft: PlanDraft,
        *,
        painter: Callable[[], Painter],
        changed: Callable[[], None],
        entry: Callable[[str], None],
        edit: Callable[[str], Awaitable[str | None]],
        stop_turn: Callable[[], None],
    ) -> None:
        self.open = True
        self.mode: Mode = "choose"
        self.note = ""
        self._draft = draft
        self._painter = painter
        self._changed = changed
        self._entry = entry
        self._edit = edit
        self._stop_turn = stop_turn
        self._columns = 80
        self._editing: asyncio.Future[None] | None = None
        self._answer: asyncio.Future[PlanReview] = asyncio.get_running_loop().create_future()

    async def answer(self) -> PlanReview:
        """What the person decided."""
        try:
            return await self._answer
        finally:
            self.open = False
            if self._editing is not None:
                self._editing.cancel()

    @property
    def typing(self) -> bool:
        """Whether the entry line has the keyboard."""
        return self.open and self.mode != "choose"

    # --- drawing -------------------------------------------------------------------------------

    def lines(self, columns: int, rows: int, line: Line) -> list[str]:
        """The plan in at most `rows` lines, the selected step always among them."""
        painter, self._columns = self._painter(), columns
        head = [line for text in self._head() for line in painter.lines(text, columns)]
        foot = self._foot(painter, columns, line)
        body = self._body(painter, columns, max(rows - len(head) - len(foot), 1))
        return [*head, *body, *foot]

    def _head(self) -> list[Text]:
        plan = self._draft.plan
        title = _("Work on this plan?") if plan.revision == 1 else _("Go on with this plan?")
        head = Text.assemble((title, "heading"), "  ", one_line(plan.goal, 400))
        if self._draft.changed:
            head.append(f"  {_('changed by you')}", "accent")
        reason = Text.assemble((f"{_('Why it changes')}: ", "muted"), one_line(plan.reason, 400))
        mistakes = [Text(f"  {translate(one)}", "bad") for one in self._draft.mistakes]
        return [head, *([reason] if plan.reason else []), *mistakes]

    def _body(self, painter: Painter, columns: int, room: int) -> list[str]:
        """Every step with all it says, if there is room; else only the selected one; else a
        window around it."""
        blocks = self._blocks(painter, columns, everything=True)
        if sum(map(len, blocks)) > room:
            blocks = self._blocks(painter, columns, everything=False)
        lines = [line for block in blocks for line in block]
        if len(lines) <= room:
            return lines
        chosen = self._draft.selected
        starts = list(accumulate(map(len, blocks), initial=0))
        middle = starts[chosen] + len(blocks[chosen]) // 2
        told = room >= ROWS_TO_TELL
        # The selected step begins below the line that tells of those above.
        first = max(0, min(starts[chosen] - told, middle - room // 2, len(lines) - room))
        last = first + room - 1
        window = lines[first : last + 1]
        if told and first:
            window[0] = self._more(sum(start <= first for start in starts[:-1]), painter, columns)
        if told and last < len(lines) - 1:
            window[-1] = self._more(sum(start >= last for start in starts[:-1]), painter, columns)
        return window

    def _more(self, steps: int, painter: Painter, columns: int) -> str:
        """The line in the place of what the screen has no room for; 0: the end of one step."""
        words = plural("{count} more step", "{count} more steps", steps) if steps else ""
        return painter.lines(Text(f"  {painter.symbol('more')} {words}", "muted"), columns)[0]

    def _blocks(self, painter: Painter, columns: int, *, everything: bool) -> list[list[str]]:
        draft = self._draft
        before = draft.previous if draft.plan.revision > 1 else None
        parts: list[RenderableType] = [
            plan_panel.step_rows(
                draft.plan,
                index,
                painter,
                before,
                selected=index == draft.selected,
                details=everything or index == draft.selected,
            )
            for index in range(len(draft.plan.steps))
        ]
        parts += plan_panel.dropped(draft.plan, before, painter)
        return [painter.paint(part, columns).rstrip("\n").split("\n") for part in parts]

    def _foot(self, painter: Painter, columns: int, line: Line) -> list[str]:
        note = painter.lines(Text(self.note, "warn"), columns) if self.note else []
        if self.mode == "reason":
            said = _("What is wrong with it? The model plans anew. Esc goes back.")
        elif self.mode == "add":
            said = _("What should be done after the selected step? Esc goes back.")
        else:
            hint = _("Enter: reject the plan with this reason · Esc: back to the question")
            return [*note, *key_row(self._keys(painter), line, painter, columns, words=hint)]
        return [*note, *painter.lines(Text(said, "key"), columns)]

    def _keys(self, painter: Painter) -> list[Shown]:
        if self._draft.rejected:
            return [(letter("plan_edit"), _("mend it in the editor")), ("Esc", _("forget it"))]
        up_down, sideways = ("↑↓", "←→") if painter.unicode else ("up/down", "left/right")
        return [
            (letter("plan_approve"), _("work on it")),
            (letter("plan_reject"), _("reject")),
            (letter("plan_edit"), _("edit")),
            (up_down, _("choose")),
            (sideways, _("move")),
            (letter("plan_drop"), _("drop")),
            (letter("plan_add"), _("add")),
            (letter("plan_stop"), _("stop turn")),
        ]

    def transcript(self) -> str:
        """What stays in the scrollback: a plan that is worked on is written by who works on it."""
        review = None
        if self._answer.done() and not self._answer.cancelled():
            review = self._answer.result()
        if review is not None and review.kind != "reject":
            return ""
        return self._painter().paint(
            plan_panel.whole(self._draft.proposed, self._painter(), self._draft.previous),
            self._columns,
            end="",
        )

    # --- keys ----------------------------------------------------------------------------------

    def options(self) -> Collection[str]:
        """The keys that do something now."""
        if self.mode != "choose" or self._editing is not None:
            return ()
        return [letter("plan_edit")] if self._draft.rejected else actions("plan")

    def key(self, key: str) -> None:
        """Do what a single key stands for. Unknown keys do nothing."""
        if key not in self.options():
            return
        self.note = ""
        match actions("plan")[key]:
            case "plan_approve":
                self._settle(self._draft.approve())
            case "plan_reject":
                self._enter("reason")
            case "plan_stop":
                self._stop_turn()
            case _:
                self._change(key)
        self._changed()

    def words(self, text: str) -> bool:
        """Reject the plan with what was written on the input line as the reason."""
        if self._editing is not None:
            return False
        self._settle(self._draft.reject(text))
        return True

    def enter(self, text: str) -> None:
        """The entry line was finished."""
        if self.mode == "reason":
            self._settle(self._draft.reject(text))
        elif self.mode == "add" and text.strip():
            self._try(lambda: self._draft.add(text))
        self.mode = "choose"
        self._changed()

    def back(self) -> bool:
        """Esc: from the entry line, or from a text that cannot be used, back to the plan."""
        self.note = ""
        if self.mode == "choose" and not self._draft.rejected:
            return False
        self.mode = "choose"
        self._draft.forget()
        self._changed()
        return True

    # --- pieces --------------------------------------------------------------------------------

    def _change(self, key: str) -> None:
        draft = self._draft
        changes: dict[str, Callable[[], None]] = {
            "up": lambda: draft.choose(-1),
            "down": lambda: draft.choose(1),
            "left": lambda: draft.shift(-1),
            "right": lambda: draft.shift(1),
            letter("plan_drop"): draft.drop,
            letter("plan_add"): lambda: self._enter("add"),
            letter("plan_edit"): self._start_editing,
        }
        if key in changes:
            self._try(changes[key])

    def _try(self, change: Callable[[], None]) -> None:
        try:
            change()
        except UsageError as error:
            self.note = translate(error.text)

    def _enter(self, mode: Mode) -> None:
        self.mode = mode
        self._entry("")

    def _start_editing(self) -> None:
        self._editing = asyncio.ensure_future(self._in_editor())

    async def _in_editor(self) -> None:
        try:
            text = await self._edit(self._draft.text(translate))
            if text is not None:
                self._draft.take(text)
        except KognitermError as error:
            self.note = translate(error.text)
        finally:
            self._editing = None
            self._changed()

    def _settle(self, review: PlanReview) -> None:
        if not self._answer.done():
            self._answer.set_result(review)
