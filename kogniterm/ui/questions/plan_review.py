"""The question about a plan: read it, start it, edit it, or reject it.

Approving a plan runs nothing by itself, so Enter may do it; commands are asked for one by one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal

from rich.console import Group
from rich.text import Text

from kogniterm.agent.plan.evaluate import check_commands
from kogniterm.runtime.plan_edits import PlanDraft
from kogniterm.text.shorten import one_line
from kogniterm.types import PlanReview
from kogniterm.ui.locale import _, translate
from kogniterm.ui.questions.question import (
    Answered,
    Editing,
    Entry,
    Question,
    QuestionText,
    Shown,
    Step,
    Stopped,
)
from kogniterm.ui.screen import plan_panel
from kogniterm.ui.screen.command_frame import command_lines
from kogniterm.ui.screen.paint import Painter
from kogniterm.ui.words.key_table import DISCARD, FIX, action_of, actions, letter, paging


@dataclass(frozen=True)
class PlanQuestion(Question[PlanReview]):
    """Asks about `draft`, which every change replaces; `editable` where there is an editor.

    With `asks` the session asks before edits, and before commands that its sandbox confines.
    """

    draft: PlanDraft
    page: Literal["choose", "reason", "checks"] = "choose"
    editable: bool = True
    asks: bool = False

    reasons = True

    def document(self, painter: Painter, columns: int, rows: int, words: str = "") -> QuestionText:
        """Return everything; the driver shows it a page at a time."""
        return self.text(painter, columns)

    def text(self, painter: Painter, columns: int) -> QuestionText:
        """Return the whole plan, or all checks that would run unasked."""
        if self.page == "checks":
            why = _("Run these checks in the sandbox unasked, until the plan ends or changes:")
            checks = [
                command_lines(one, painter, columns) for one in check_commands(self.draft.plan)
            ]
            lines = [*painter.lines(Text(why, "warn"), columns), *chain.from_iterable(checks)]
            return QuestionText(lines, must_see=len(lines))
        before = self.draft.previous if self.draft.plan.revision > 1 else None
        title = self._title()
        if self.draft.changed:
            title.append(f"  {_('edited by you')}", "accent")
        mistakes = [Text(f"  {mistake}", "bad") for mistake in self.mistakes]
        drawn = Group(title, *mistakes, plan_panel.full(self.draft.plan, painter, before))
        return QuestionText(painter.paint(drawn, columns).removesuffix("\n").split("\n"))

    def transcript(
        self, painter: Painter, columns: int, answer: Answered[PlanReview] | None
    ) -> str:
        """Return the proposed plan; nothing of one that is worked on, which is shown then."""
        if answer is not None and answer.value.kind != "reject":
            return ""
        plan = plan_panel.whole(self.draft.proposed, painter, self.draft.previous)
        return painter.paint(plan, columns, end="")

    def _title(self) -> Text:
        plan = self.draft.plan
        title = _("Start this plan?") if plan.revision == 1 else _("Start the changed plan?")
        return Text.assemble((title, "heading"), "  ", one_line(plan.goal, 400))

    # --- single keys ---------------------------------------------------------------------------

    @property
    def entry(self) -> Entry | None:
        """The words that the page takes."""
        if self.page == "reason":
            prompt = _("What should change? Enter rejects the plan, Esc goes back.")
            return Entry(prompt, _("Reason for the model (Enter for none): "))
        return None

    @property
    def hint(self) -> str:
        """Words reject."""
        return _("Enter: reject with this reason · Esc: back to the question")

    @property
    def mistakes(self) -> Sequence[str]:
        """The mistakes in the text that was edited."""
        return [translate(mistake) for mistake in self.draft.mistakes]

    def keys(self, painter: Painter, *, typing: bool) -> Sequence[Shown]:
        """Return the keys; of a text that cannot be used, those that mend or forget it."""
        if self.draft.rejected:
            edit = Shown(letter("plan_edit"), translate(FIX))
            return [edit, Shown("Esc", translate(DISCARD))]
        if self.page == "checks":
            key = _("{key}, Enter").format(key=letter("plan_checks"))
            return [Shown(key, _("start with checks unasked")), Shown("Esc", _("back"))]
        return [
            Shown(letter("plan_approve"), _("start")),
            *(Shown(letter(one), words) for one, words in self._granting().items()),
            Shown(letter("plan_reject"), _("reject")),
            Shown(letter("plan_edit"), _("edit")),
            Shown(letter("plan_stop"), _("stop turn")),
            Shown(_("space"), _("more"), more=True),
        ]

    @property
    def confirms(self) -> bool:  # type: ignore[override]  # it depends on the page
        """The need of Enter after the key that grants what the page shows."""
        return self.page == "checks"

    @property
    def reading(self) -> Collection[str]:  # type: ignore[override]  # it depends on the page
        """The keys that scroll."""
        return () if self.page == "reason" else paging()

    def in_mode(self, *, asks: bool) -> PlanQuestion:
        """Return the question in a mode that was chosen meanwhile."""
        return replace(self, asks=asks, page="choose" if self.page == "checks" else self.page)

    def _granting(self) -> dict[str, str]:
        """Return the actions that start the plan and grant something, with their words."""
        files = {"plan_files": _("start and accept edits")} if self.asks else {}
        checks = self.asks and check_commands(self.draft.plan)
        return {"plan_checks": _("start with checks unasked"), **files} if checks else files

    def options(self) -> Collection[str]:
        """Return the keys that do something now."""
        if self.draft.rejected:
            return [letter("plan_edit"), *self.reading]
        if self.page == "checks":
            return [letter("plan_checks"), *self.reading]
        hidden = {"plan_checks", "plan_files"}.difference(self._granting())
        keys = [key for key, action in actions("plan").items() if action not in hidden]
        return [*keys, *self.reading]

    def press(self, key: str, *, seen: bool = True) -> Step[PlanReview]:
        """Decide with a single key; an unknown one does nothing."""
        if key not in self.options():
            return self
        now, action = replace(self, note=""), actions("plan").get(key, "")
        if self.page == "checks" and (action != "plan_checks" or not seen):
            return now.with_note(_("Read all checks first: press [space].")) if not seen else now
        return now._act(action)

    def _act(self, action: str) -> Step[PlanReview]:
        match action:
            case "plan_approve":
                return Answered(self.draft.approve())
            case "plan_files":
                return Answered(self.draft.approve("edits"))
            case "plan_checks" if self.page == "checks":
                return Answered(self.draft.approve("checks"))
            case "plan_checks":
                return replace(self, page="checks")
            case "plan_reject":
                return replace(self, page="reason")
            case "plan_edit":
                return Editing(self.draft.text(translate))
            case "plan_stop":
                return Stopped()
        return self

    def words(self, text: str) -> Step[PlanReview]:
        """Reject with `text` as the reason."""
        return Answered(self.draft.reject(text))

    def entered(self, text: str) -> Step[PlanReview]:
        """Take the reason."""
        return self.words(text)

    def edited(self, text: str) -> Step[PlanReview]:
        """Take the plan as it was saved; what cannot be used is kept, with its mistakes."""
        draft = copy(self.draft)
        draft.take(text)
        return replace(self, page="choose", note="", draft=draft)

    def back(self) -> Step[PlanReview] | None:
        """Return from the entry line, or from a text that cannot be used, to the plan."""
        if self.page == "choose" and not self.draft.rejected:
            return None
        draft = copy(self.draft)
        draft.forget()
        return replace(self, page="choose", note="", draft=draft)

    # --- whole lines ---------------------------------------------------------------------------

    def menu(self) -> Sequence[str]:
        """Return the answers with their letters."""
        return [
            f"{letter('plan_approve')} = {_('start')}",
            *(f"{letter(one)} = {words}" for one, words in self._granting().items()),
            f"{letter('plan_reject')} = {_('reject')}",
            *([f"{letter('plan_edit')} = {_('edit')}"] if self.editable else []),
            f"{letter('plan_stop')} = {_('stop the turn')}",
        ]

    def typed(self, line: str) -> Step[PlanReview] | None:
        """Take a letter or its word alone."""
        action = action_of("plan", line)
        known = {"plan_approve", "plan_reject", "plan_stop", "plan_edit", *self._granting()}
        if action not in known or (action == "plan_edit" and not self.editable):
            return None
        return replace(self, note="")._act(action)

    def ended(self) -> PlanReview:
        """Reject: silence approves nothing."""
        return self.draft.reject(_("the input ended without an answer"))
