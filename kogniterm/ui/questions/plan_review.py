"""The question about a plan: read it, change it step by step, decide.

Approving a plan runs nothing by itself, so Enter may do it; commands are asked for one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import Literal

from rich.console import Group, RenderableType
from rich.text import Text

from kogniterm.agent.plan.evaluate import check_commands
from kogniterm.agent.plan.plan_steps import number_steps
from kogniterm.errors import UsageError
from kogniterm.runtime.plan_edits import PlanDraft, add, drop, move
from kogniterm.text.shorten import one_line
from kogniterm.types import Plan, PlanReview
from kogniterm.ui.locale import _, plural, translate
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

MOVE = "m"
ROWS_TO_TELL = 5
"""From so many rows on, one above and one below may tell how many steps are out of sight."""
_STEPS: dict[str, Callable[[PlanDraft], None]] = {
    "up": lambda draft: draft.choose(-1),
    "down": lambda draft: draft.choose(1),
    "left": lambda draft: draft.shift(-1),
    "right": lambda draft: draft.shift(1),
}
"""The changes that the arrows make to a draft."""


@dataclass(frozen=True)
class PlanQuestion(Question[PlanReview]):
    """Asks about `draft`, which every change replaces; `editable` where there is an editor.

    With `asks` the session asks before edits, and before commands that its sandbox confines.
    """

    draft: PlanDraft
    page: Literal["choose", "reason", "add", "checks"] = "choose"
    editable: bool = True
    asks: bool = False

    reasons = True

    def document(self, painter: Painter, columns: int, rows: int, words: str = "") -> QuestionText:
        """Return the plan in at most `rows` lines, the selected step always among them."""
        if self.page == "checks":
            return self.text(painter, columns)
        head = [line for text in self._head() for line in painter.lines(text, columns)]
        return QuestionText([*head, *self._body(painter, columns, max(rows - len(head), 1))])

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
        drawn = Group(self._title(), plan_panel.full(self.draft.plan, painter, before))
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

    def _head(self) -> list[Text]:
        plan, title = self.draft.plan, self._title()
        if self.draft.changed:
            title.append(f"  {_('edited by you')}", "accent")
        reason = Text.assemble(
            (f"{_('Reason for the change')}: ", "muted"), one_line(plan.reason, 400)
        )
        mistakes = [Text(f"  {mistake}", "bad") for mistake in self.mistakes]
        return [title, *([reason] if plan.reason else []), *mistakes]

    def _body(self, painter: Painter, columns: int, room: int) -> list[str]:
        """Return every step in full if there is room, else only the selected one or a part."""
        blocks = self._blocks(painter, columns, everything=True)
        if sum(map(len, blocks)) > room:
            blocks = self._blocks(painter, columns, everything=False)
        lines = [line for block in blocks for line in block]
        if len(lines) <= room:
            return lines
        chosen = self.draft.selected
        starts = list(accumulate(map(len, blocks), initial=0))
        middle = starts[chosen] + len(blocks[chosen]) // 2
        told = room >= ROWS_TO_TELL
        # The selected step begins below the line that tells of those above.
        first = max(0, min(starts[chosen] - told, middle - room // 2, len(lines) - room))
        last = first + room - 1
        window = lines[first : last + 1]
        if told and first:
            window[0] = _more(sum(start <= first for start in starts[:-1]), painter, columns)
        if told and last < len(lines) - 1:
            window[-1] = _more(sum(start >= last for start in starts[:-1]), painter, columns)
        return window

    def _blocks(self, painter: Painter, columns: int, *, everything: bool) -> list[list[str]]:
        draft = self.draft
        before = draft.previous if draft.plan.revision > 1 else None
        parts: list[RenderableType] = [
            plan_panel.step_rows(
                draft.plan,
                number,
                step,
                painter,
                before,
                selected=index == draft.selected,
                details=everything or index == draft.selected,
            )
            for index, (number, step) in enumerate(number_steps(draft.plan))
        ]
        parts += plan_panel.dropped_steps(draft.plan, before, painter)
        return [painter.paint(part, columns).rstrip("\n").split("\n") for part in parts]

    # --- single keys ---------------------------------------------------------------------------

    @property
    def entry(self) -> Entry | None:
        """The words that the page takes."""
        if self.page == "reason":
            prompt = _("What should change? Enter rejects the plan, Esc goes back.")
            return Entry(prompt, _("Reason for the model (Enter for none): "))
        if self.page == "add":
            return Entry(_("New step after the selected one. Enter adds, Esc goes back."))
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
        up_down, sideways = ("↑↓", "←→") if painter.unicode else ("up/down", "left/right")
        return [
            Shown(letter("plan_approve"), _("start")),
            *(Shown(letter(one), words) for one, words in self._granting().items()),
            Shown(letter("plan_reject"), _("reject")),
            Shown(letter("plan_edit"), _("edit")),
            Shown(up_down, _("select")),
            Shown(sideways, _("move")),
            Shown(letter("plan_drop"), _("drop")),
            Shown(letter("plan_add"), _("add")),
            Shown(letter("plan_stop"), _("stop turn")),
        ]

    @property
    def confirms(self) -> bool:  # type: ignore[override]  # it depends on the page
        """The need of Enter after the key that grants what the page shows."""
        return self.page == "checks"

    @property
    def reading(self) -> Collection[str]:  # type: ignore[override]  # it depends on the page
        """The keys that scroll, where the checks are read."""
        return paging() if self.page == "checks" else ()

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
            return [letter("plan_edit")]
        if self.page == "checks":
            return [letter("plan_checks"), *self.reading]
        hidden = {"plan_checks", "plan_files"}.difference(self._granting())
        return [key for key, action in actions("plan").items() if action not in hidden]

    def press(self, key: str, *, seen: bool = True) -> Step[PlanReview]:
        """Change the plan or decide with a single key; an unknown one does nothing."""
        if key not in self.options():
            return self
        now, action = replace(self, note=""), actions("plan").get(key, "")
        if self.page == "checks" and (action != "plan_checks" or not seen):
            return now.noted(_("Read all checks first: press [space].")) if not seen else now
        match action:
            case "plan_drop":
                return now._changed(lambda draft: draft.drop())
            case "plan_choose" | "plan_move":
                return now._changed(_STEPS[key])
            case "plan_add":
                return replace(now, page="add")
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

    def _changed(self, change: Callable[[PlanDraft], object]) -> PlanQuestion:
        """Return the question about a changed draft, or with a note why it cannot be changed so."""
        draft = copy(self.draft)
        try:
            change(draft)
        except UsageError as error:
            return replace(self, page="choose", note=translate(error.text))
        return replace(self, page="choose", note="", draft=draft)

    def words(self, text: str) -> Step[PlanReview]:
        """Reject with `text` as the reason."""
        return Answered(self.draft.reject(text))

    def entered(self, text: str) -> Step[PlanReview]:
        """Take a reason, or the words of a new step."""
        if self.page == "reason":
            return self.words(text)
        if text.strip():
            return self._changed(lambda draft: draft.add(text))
        return replace(self, page="choose")

    def edited(self, text: str) -> Step[PlanReview]:
        """Take the plan as it was saved; what cannot be used is kept, with its mistakes."""
        return self._changed(lambda draft: draft.take(text))

    def back(self) -> Step[PlanReview] | None:
        """Return from the entry line, or from a text that cannot be used, to the plan."""
        if self.page == "choose" and not self.draft.rejected:
            return None
        return self._changed(PlanDraft.forget)

    # --- whole lines ---------------------------------------------------------------------------

    def menu(self) -> Sequence[str]:
        """Return the answers with their letters."""
        return [
            f"{letter('plan_approve')} = {_('start')}",
            *(f"{letter(one)} = {words}" for one, words in self._granting().items()),
            f"{letter('plan_reject')} = {_('reject')}",
            _("{key} N = drop step N").format(key=letter("plan_drop")),
            _("{key} N PLACE = move step N").format(key=MOVE),
            _("{key} TEXT = add a step").format(key=letter("plan_add")),
            *([f"{letter('plan_edit')} = {_('edit')}"] if self.editable else []),
            f"{letter('plan_stop')} = {_('stop the turn')}",
        ]

    def typed(self, line: str) -> Step[PlanReview] | None:
        """Take a letter or its word alone, or one that changes the plan with its words."""
        word, _space, rest = line.partition(" ")
        rest = rest.strip()
        action = action_of("plan", word if rest else line)
        if action == "plan_drop":
            return self._rewritten(lambda plan: drop(plan, rest))
        if action == "plan_add":
            return self._rewritten(lambda plan: add(plan, rest))
        if word.lower() == MOVE:
            return self._rewritten(lambda plan: _moved(plan, rest))
        known = {"plan_approve", "plan_reject", "plan_stop", "plan_edit", *self._granting()}
        if rest or action not in known or (action == "plan_edit" and not self.editable):
            return None
        return replace(self, note="")._act(action)

    def _rewritten(self, change: Callable[[Plan], Plan]) -> PlanQuestion:
        def put(draft: PlanDraft) -> None:
            draft.plan = change(draft.plan)

        return self._changed(put)

    def ended(self) -> PlanReview:
        """Reject: silence approves nothing."""
        return self.draft.reject(_("the input ended without an answer"))


def _more(steps: int, painter: Painter, columns: int) -> str:
    """Return the line for steps out of sight; with 0 steps it stands for the end of one."""
    words = plural("{count} more step", "{count} more steps", steps) if steps else ""
    return painter.lines(Text(f"  {painter.symbol('more')} {words}", "muted"), columns)[0]


def _moved(plan: Plan, words: str) -> Plan:
    """Return the plan with "s3" in place 1 for "s3 1". Raises `UsageError`."""
    name, _space, place = words.partition(" ")
    if not place.strip().isdecimal():
        raise UsageError("Specify the step and its new position: {example}.", example="3 1")
    return move(plan, name, int(place))
