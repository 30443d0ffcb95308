"""The approval panel inside the prompt: one question at a time, answered with single keys.

The panel pages a question that is longer than the screen and approves nothing before the end
of the command was shown. When a key answers is decided by `answer_keys`; words written on the
input line reject with these words as the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Literal

from rich.text import Text

from kogniterm.types import ActionRequest, Decision, Plan, PlanReview, RiskReport, Verdict
from kogniterm.ui.keys import YES_WORDS, actions, letter
from kogniterm.ui.locale import _, plural, translate
from kogniterm.ui.paint import Painter
from kogniterm.ui.question import AskHooks, Document, Offer, Question
from kogniterm.ui.question_keys import Line, Shown, key_row

Mode = Literal["choose", "reason", "edit", "confirm", "lease"]

Review = Callable[[Plan, Plan | None], Awaitable[PlanReview | None]]


class AskPanel:
    """State of the open question; the prompt draws it and feeds it keys.

    `changed` is called when the panel needs drawing, `shown` when a question opens or closes,
    `entry` with the text a mode starts its entry line with; `review` asks about plans.
    """

    free = False

    def __init__(
        self,
        *,
        changed: Callable[[], None],
        opened: Callable[[], None],
        closed: Callable[[str], None],
        entry: Callable[[str], None],
        stop_turn: Callable[[], None],
        folder: Callable[[ActionRequest], str],
        painter: Callable[[], Painter],
        review: Review | None = None,
        hooks: AskHooks | None = None,
    ) -> None:
        self.hooks = hooks or AskHooks()
        self.question: Question | None = None
        self.mode: Mode = "choose"
        self.offset = 0
        self.seen_end = False
        self.note = ""
        self._offers: tuple[Offer, ...] = ()
        self._changed = changed
        self._opened = opened
        self._closed = closed
        self._entry = entry
        self._stop_turn = stop_turn
        self._folder = folder
        self._painter = painter
        self._review = review or _nobody
        self._answer: asyncio.Future[Decision] | None = None
        self._room = 10
        self._columns = 80
        self._lock = asyncio.Lock()
        self._edited: dict[str, str] = {}

    async def decide(
        self, request: ActionRequest, report: RiskReport, verdict: Verdict
    ) -> Decision:
        """Show the question and wait for the person. One question at a time."""
        async with self._lock:
            original = self._edited.pop(request.id, None)
            self.question = Question(
                request, report, verdict, self._folder(request), self.hooks, original=original
            )
            self.mode, self.offset, self.seen_end, self.note = "choose", 0, False, ""
            # A question that cannot be drawn must fail here, not while the screen is drawn.
            self._document(self._columns)
            self._answer = asyncio.get_running_loop().create_future()
            self._opened()
            try:
                return await self._answer
            finally:
                self._close()

    async def review_plan(self, plan: Plan, previous: Plan | None) -> PlanReview | None:
        """A plan has a panel of its own."""
        return await self._review(plan, previous)

    @property
    def open(self) -> bool:
        """Whether there is a question."""
        return self.question is not None

    # --- drawing -------------------------------------------------------------------------------

    def lines(self, columns: int, rows: int, line: Line) -> list[str]:
        """The part of the question that fits into `rows` lines of `columns` cells."""
        if self.question is None:
            return []
        document = self._document(columns)
        foot = self._foot(document, columns, line)
        self._room, self._columns = max(rows - len(foot), 3), columns
        self.offset = max(0, min(self.offset, len(document.lines) - self._room))
        shown = document.lines[self.offset : self.offset + self._room]
        if self.offset + len(shown) >= document.must_see:
            self.seen_end = True
            foot = self._foot(document, columns, line)
        return [*shown, *foot]

    def _document(self, columns: int) -> Document:
        assert self.question is not None
        return self.question.document(self._painter(), columns)

    def _foot(self, document: Document, columns: int, line: Line) -> list[str]:
        """A sentence about the last key, if there is one, and the keys, which always stay."""
        painter = self._painter()
        note = painter.lines(Text(self.note, "warn"), columns) if self.note else []
        said = self._said(line)
        if said:
            return [*note, *painter.lines(Text(said, "key"), columns)]
        hint = _("Enter: reject with this reason · Esc: back to the question")
        keys = key_row(self._keys(document), line, painter, columns, words=hint)
        if self.mode == "choose" and not self.seen_end and not line.words:
            below = len(document.lines) - self.offset - self._room
            rest = plural(
                "[space] shows the rest: {count} more line before you can approve",
                "[space] shows the rest: {count} more lines before you can approve",
                below,
            )
            keys = painter.lines(Text(rest, "key"), columns)
        return [*note, *keys]

    def _said(self, line: Line) -> str:
        """What an entry line is for."""
        if self.mode == "reason":
            return _(
                "Why not? The model reads it. Enter sends, empty for no reason, Esc goes back."
            )
        if self.mode == "edit":
            return _("Change the command. Enter has it judged and shown again, Esc goes back.")
        if self.mode == "confirm" and not line.words:
            if not line.armed:
                return _("This is dangerous.")
            return _("This is dangerous. Type yes and press Enter to run it, Esc goes back.")
        return ""

    def _keys(self, document: Document) -> list[Shown]:
        question = self.question
        assert question is not None
        if self.mode == "lease":
            offers = [(str(n), translate(offer.label)) for n, offer in enumerate(self._offers, 1)]
            return [*offers, ("Esc", _("back"))]
        shown = [
            ("approve", _("approve")),
            ("reject", _("reject")),
            ("edit", _("edit") if question.editable else ""),
            ("explain", _("explain")),
            ("lease", _("lease") if question.offers() else ""),
            ("stop", _("stop turn")),
        ]
        keys = [(letter(action), words) for action, words in shown if words]
        if len(document.lines) - self.offset - self._room > 0:
            keys.append((_("space"), _("more")))
        return keys

    # --- keys ----------------------------------------------------------------------------------

    def options(self) -> Collection[str]:
        """The keys that do something now."""
        question = self.question
        if question is None or self.mode not in ("choose", "lease"):
            return ()
        if self.mode == "lease":
            return [str(number) for number in range(1, len(self._offers) + 1)]
        missing = {"edit"} if not question.editable else set()
        missing |= set() if question.offers() else {"lease"}
        return [key for key, action in actions("question").items() if action not in missing]

    def key(self, key: str) -> None:
        """Do what a single key stands for."""
        question = self.question
        if question is None or self.mode not in ("choose", "lease"):
            return
        self.note = ""
        if self.mode == "lease":
            self._take_offer(key)
        else:
            self._act(question, key)
        self._changed()

    def _act(self, question: Question, key: str) -> None:
        match actions("question").get(key):
            case "page":
                self._scroll(key)
            case "approve":
                self._approve(question)
            case "reject":
                self._enter("reason", "")
            case "edit" if question.editable:
                self._start_edit(question)
            case "explain":
                question.explained = not question.explained
            case "lease" if question.offers():
                self._offers, self.mode = tuple(question.offers()), "lease"
            case "stop":
                self._stop_turn()

    def words(self, text: str) -> bool:
        """Reject with what was written on the input line as the reason."""
        if self.question is None:
            return False
        self._decide(self.question.reject(text))
        return True

    def enter(self, text: str) -> None:
        """The entry line was finished."""
        question = self.question
        if question is None:
            return
        if self.mode == "reason":
            self._decide(question.reject(text))
        elif self.mode == "confirm":
            if text.strip().lower() in YES_WORDS:
                self._decide(question.approve())
            else:
                self.mode = "choose"
                self.note = _("Not run. To run it, press {key} again and type yes.").format(
                    key=letter("approve")
                )
        elif self.mode == "edit":
            self._finish_edit(question, text)
        self._changed()

    def back(self) -> bool:
        """Esc: from an entry line back to the keys. False when already there."""
        self.note = ""
        if self.question is None or self.mode == "choose":
            return False
        self.mode = "choose"
        self._changed()
        return True

    @property
    def typing(self) -> bool:
        """Whether the question wants its entry line."""
        return self.question is not None and self.mode in ("reason", "edit", "confirm")

    @property
    def careful(self) -> bool:
        """The word that confirms is written only after the pause."""
        return self.mode == "confirm"

    # --- pieces --------------------------------------------------------------------------------

    def _scroll(self, key: str) -> None:
        step = 1 if key in ("down", "up") else max(self._room - 1, 1)
        self.offset += -step if key in ("up", "pageup") else step

    def _approve(self, question: Question) -> None:
        if not self.seen_end:
            self.note = _("Not yet: read the command to its end first, with [space].")
        elif question.dangerous:
            self._enter("confirm", "")
        else:
            self._decide(question.approve())

    def _take_offer(self, key: str) -> None:
        if key.isdigit() and 1 <= int(key) <= len(self._offers) and self.question is not None:
            if not self.seen_end:
                self.mode = "choose"
                self.note = _("Not yet: read the command to its end first, with [space].")
                return
            self._offers[int(key) - 1].grant()
            self._decide(self.question.approve())

    def _start_edit(self, question: Question) -> None:
        from kogniterm.approval.display import render

        self._enter("edit", render(question.request.command))

    def _finish_edit(self, question: Question, text: str) -> None:
        self.mode = "choose"
        decision = question.edit(text)
        if decision is None:
            self.note = _("Nothing changed.")
            return
        self._edited[question.request.id] = question.request.command
        self._decide(decision)

    def _enter(self, mode: Mode, text: str) -> None:
        self.mode = mode
        self._entry(text)

    def _decide(self, decision: Decision) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(decision)

    def _close(self) -> None:
        question, self.question = self.question, None
        self.mode = "choose"
        if question is not None:
            runs = self._answer is not None and self._answer.done() and not self._rejected()
            framed = runs and question.editable
            # A command that runs gets a frame of its own, which shows it again.
            text = "" if framed else question.transcript(self._painter(), self._columns)
            self._closed(text)

    def _rejected(self) -> bool:
        answer = self._answer
        return answer is None or answer.cancelled() or answer.result().kind == "reject"


async def _nobody(plan: Plan, previous: Plan | None) -> None:
    """Nobody looks at plans."""
