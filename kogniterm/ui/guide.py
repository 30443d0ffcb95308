"""Accompanies the scripted session of `kogniterm tour`: a hint before each step.

With a `Pace` the tour plays by itself: the same keys are pressed that a user would press.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kogniterm.errors import EXIT_DONE, EXIT_INTERRUPTED, EXIT_NOT_DONE
from kogniterm.types import (
    ActionRequest,
    Answer,
    Decision,
    Phrase,
    Plan,
    PlanReview,
    RiskReport,
    Verdict,
)
from kogniterm.ui.locale import _, translate
from kogniterm.ui.words.key_table import letter

if TYPE_CHECKING:
    from kogniterm.protocols import Approver
    from kogniterm.ui.display import Display
    from kogniterm.ui.front import Front
    from kogniterm.ui.turns import Turns

TOUR_LABEL = Phrase(
    "Scripted tour: the model's replies are written in advance; the commands really run, in a "
    "temporary folder."
)
TASK = Phrase("The shop server does not start: correct its port. Also delete last year's logs.")
UNDO = "/undo"
_STEPS = {
    "plan": (Phrase("Nothing runs before you approve the plan. Press {plan_approve} to start."),),
    "edit": (Phrase("You see each change before it is made. Press {approve} to approve."),),
    "command": (
        Phrase("You see each command with its effects. Press {approve} to approve."),
        Phrase("A step is done only with evidence. Press {approve} to run its check."),
    ),
    "undo": (Phrase("Type /undo and press Enter to restore the deleted logs."),),
}
"""The hints by what is asked, in the order in which they are used up."""
_NUMBERS = {
    hint.template: number
    for number, hint in enumerate((hint for hints in _STEPS.values() for hint in hints), 1)
}


class Pace(NamedTuple):
    """The speed of a tour that plays by itself, in seconds: to read a question, between keys."""

    read: float = 7.0
    key: float = 0.04


AT_ONCE = Pace(read=0.05, key=0.0)
"""The speed where nobody reads along."""


class Prompted(Protocol):
    """The REPL, as its guide uses it."""

    @property
    def display(self) -> Display:
        """The screen."""

    @property
    def front(self) -> Front:
        """The terminal in use."""

    @property
    def turns(self) -> Turns:
        """The queue of inputs."""

    def leave(self, status: int = 0) -> None:
        """Leave with this exit status."""


class Guide:
    """Shows what to try next; with a `pace`, it presses the keys itself."""

    def __init__(self, pace: Pace | None = None) -> None:
        self._pace = pace
        self._left = {kind: list(hints) for kind, hints in _STEPS.items()}
        self._task: asyncio.Task[None] | None = None
        self._ended = False
        self._repl: Prompted

    @property
    def plays(self) -> bool:
        """Return whether the tour plays by itself."""
        return self._pace is not None

    def begin(self, repl: Prompted) -> None:
        """Take the open session: show the label, and put the task on the line or send it."""
        self._repl = repl
        repl.display.say(TOUR_LABEL, "warning")
        if self._pace is not None:
            repl.display.asked = lambda: self._play(self._answer())
        elif not repl.display.preferences.bare:
            self._say(_("Press Enter to send the task."))
        self._play(self._type(translate(TASK), enter=self.plays))

    def approver(self, inner: Approver) -> Approver:
        """Return an approver that shows a hint before each question of `inner`."""
        return _HintingApprover(inner, self.hint)

    def hint(self, kind: str) -> None:
        """Show the next hint of its kind, if one is left."""
        if self._left[kind]:
            hint = self._left[kind].pop(0)
            keys = {name: letter(name) for name in ("approve", "plan_approve")}
            words = translate(Phrase(hint.template, keys))
            number = f"{_NUMBERS[hint.template]}/{len(_NUMBERS)}"
            self._say(_("Tour {number}: {hint}").format(number=number, hint=words))

    def turn_ended(self, answer: Answer) -> None:
        """Show what to try after the answer; leave after a turn that was stopped."""
        if self._ended:
            return
        if answer.stop == "interrupted":
            self._ended = True
            self._repl.leave(EXIT_INTERRUPTED)
            return
        if answer.stop == "done" and not answer.not_verified and self._left["undo"]:
            self.hint("undo")
            if self.plays:
                self._play(self._undo())
            return
        self._end(EXIT_NOT_DONE)

    def command_ended(self, name: str) -> None:
        """Take note of a slash command: /undo is the last step."""
        if name == UNDO.removeprefix("/") and not self._left["undo"] and not self._ended:
            self._end(EXIT_DONE)

    def _end(self, status: int) -> None:
        self._ended = True
        if self.plays:
            self._play(self._wait_and_leave(status))
        else:
            self._say(_("The tour ends here. Press Ctrl-D to leave."))

    def _say(self, text: str) -> None:
        from rich.text import Text

        self._repl.display.write(Text(text, "muted"))

    # --- a tour that plays by itself ------------------------------------------------------------

    def _play(self, keys: Coroutine[Any, Any, None]) -> None:
        """Press these keys instead of the ones before."""
        if self._task is not None:
            self._task.cancel()
        self._task = asyncio.get_running_loop().create_task(keys)

    async def _answer(self) -> None:
        """Approve what is asked, after the time to read it; again if the key came too early."""
        front = self._repl.front
        while True:
            await asyncio.sleep(self._seconds)
            if front.question_open:
                await front.type_keys(letter("approve"))

    async def _type(self, text: str, *, enter: bool) -> None:
        pace = self._pace
        await self._repl.front.type_keys(text, every=pace.key if pace else 0.0, enter=enter)

    async def _undo(self) -> None:
        await self._repl.turns.wait_until_idle()
        await asyncio.sleep(self._seconds)
        await self._type(UNDO, enter=True)

    async def _wait_and_leave(self, status: int) -> None:
        await asyncio.sleep(self._seconds)
        self._repl.leave(status)

    @property
    def _seconds(self) -> float:
        return self._pace.read if self._pace is not None else 0.0


class _HintingApprover:
    """Implements `protocols.Approver`: shows a hint, then asks."""

    def __init__(self, inner: Approver, hint: Callable[[str], None]) -> None:
        self._inner = inner
        self._hint = hint

    async def decide(
        self, request: ActionRequest, report: RiskReport, verdict: Verdict
    ) -> Decision:
        self._hint("command" if request.effect == "command" else "edit")
        return await self._inner.decide(request, report, verdict)

    async def review_plan(self, plan: Plan, previous: Plan | None) -> PlanReview | None:
        self._hint("plan")
        return await self._inner.review_plan(plan, previous)
