"""A plan in front of a person line by line: TERM=dumb, screen readers, one-shot runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from rich.console import Group
from rich.text import Text

from kogniterm.errors import TurnInterruptedError, UsageError
from kogniterm.runtime.plan_edits import PlanDraft
from kogniterm.types import PlanReview
from kogniterm.ui import plan_panel
from kogniterm.ui.clean import one_line
from kogniterm.ui.keys import ANSWER_WORDS, action_of, letter
from kogniterm.ui.locale import _, translate
from kogniterm.ui.paint import Painter

MOVE = "m"
Edit = Callable[[str], Awaitable[str | None]]


@dataclass(frozen=True, slots=True)
class PlanLines:
    """Asks about a plan with lines. `read(prompt)` is None at the end of input; `edit` opens
    the user's editor, where there is one; `pause` waits until nobody is typing."""

    read: Callable[[str], Awaitable[str | None]]
    write: Callable[[str], None]
    columns: int
    painter: Painter
    edit: Edit | None = None
    pause: Callable[[], Awaitable[None]] | None = None

    async def review(self, draft: PlanDraft) -> PlanReview:
        """Ask until there is a decision. Raises `TurnInterruptedError` when asked to stop."""
        self._show(draft)
        if self.pause is not None:
            await self.pause()
        said = ""
        while True:
            reply = await self.read(self._menu())
            if reply is None:
                return draft.reject(_("nobody answered"))
            word, _space, rest = reply.strip().partition(" ")
            match action_of("plan", word if rest.strip() else reply):
                case "plan_drop" | "plan_add" as action:
                    self._change(draft, action, rest.strip())
                case "plan_approve" if not rest:
                    return draft.approve()
                case "plan_reject" if not rest:
                    reason = await self.read(_("Reason for the model (Enter for none): "))
                    return draft.reject(reason or "")
                case "plan_stop" if not rest:
                    raise TurnInterruptedError("You stopped the turn.")
                case "plan_edit" if self.edit is not None and not rest:
                    await self._in_editor(draft, self.edit)
                case _ if word.lower() == MOVE:
                    self._change(draft, MOVE, rest.strip())
                case _ if said and not word:
                    return draft.reject(said)
                case _:
                    said = self._words(reply.strip())

    def _words(self, words: str) -> str:
        """A line that is no answer: a reason to reject, once Enter says so."""
        reason = "" if words.lower() in ANSWER_WORDS else words
        if reason:
            how = _("Press Enter to reject with this reason, or answer with one of the letters.")
        else:
            how = _("Please answer with one of the letters shown.")
        self.write(how + "\n")
        return reason

    def _menu(self) -> str:
        drop, add = letter("plan_drop"), letter("plan_add")
        parts = [
            f"{letter('plan_approve')} = {_('work on it')}",
            f"{letter('plan_reject')} = {_('reject')}",
            _("{key} N = drop step N").format(key=drop),
            _("{key} N PLACE = move it").format(key=MOVE),
            _("{key} TEXT = add a step").format(key=add),
        ]
        if self.edit is not None:
            parts.append(f"{letter('plan_edit')} = {_('edit')}")
        parts.append(f"{letter('plan_stop')} = {_('stop the turn')}")
        return f"{_('Your decision')} [{', '.join(parts)}]: "

    def _show(self, draft: PlanDraft) -> None:
        plan = draft.plan
        title = _("Work on this plan?") if plan.revision == 1 else _("Go on with this plan?")
        head = Text.assemble((title, "heading"), "  ", one_line(plan.goal, 400))
        before = draft.previous if plan.revision > 1 else None
        drawn = Group(head, plan_panel.full(plan, self.painter, before))
        self.write(self.painter.paint(drawn, self.columns))

    def _change(self, draft: PlanDraft, what: str, words: str) -> None:
        from kogniterm.runtime.plan_edits import add, drop, move

        try:
            if what == "plan_drop":
                draft.plan = drop(draft.plan, words)
            elif what == "plan_add":
                draft.plan = add(draft.plan, words)
            else:
                name, place = _name_and_place(words)
                draft.plan = move(draft.plan, name, place)
        except UsageError as error:
            self.write(translate(error.text) + "\n")
            return
        self._show(draft)

    async def _in_editor(self, draft: PlanDraft, edit: Edit) -> None:
        text = await edit(draft.text(translate))
        if text is None:
            self.write(_("Nothing changed.") + "\n")
        elif draft.take(text):
            self._show(draft)
        else:
            self.write("".join(f"- {translate(mistake)}\n" for mistake in draft.mistakes))
            self.write(_("The plan cannot be used like this; e opens your text again.") + "\n")


def _name_and_place(words: str) -> tuple[str, int]:
    """("s3", 1) from "s3 1". Raises `UsageError`."""
    name, _space, place = words.partition(" ")
    if not place.strip().isdigit():
        raise UsageError("Say which step goes where, by number: {example}.", example="3 1")
    return name, int(place)
