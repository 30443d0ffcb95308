"""The approver that asks a person line by line: TERM=dumb, screen readers, one-shot runs.

What was typed before the question was shown never answers it: the menu comes only after a pause
in which nothing was typed. A line answers only if it is exactly a key or its word. Any other line
is a reason to reject, which Enter on an empty line then sends. A dangerous command takes the
whole word "yes".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

from kogniterm.errors import TurnInterruptedError
from kogniterm.runtime.plan_edits import PlanDraft
from kogniterm.types import ActionRequest, Decision, Plan, PlanReview, RiskReport, Verdict
from kogniterm.ui.keys import ANSWER_WORDS, YES_WORDS, action_of, letter
from kogniterm.ui.locale import _, plural, translate
from kogniterm.ui.paint import Painter
from kogniterm.ui.plan_lines import Edit, PlanLines
from kogniterm.ui.question import AskHooks, Question

ReadLine = Callable[[str, str], Awaitable[str | None]]


class LineAsker:
    """An `Approver` over plain lines.

    `read_line(prompt, prefill)` gives a line without its newline, None at the end of input;
    `write` shows text; `size` is (rows, columns); `pause` waits until nobody is typing;
    `notify` calls the person. Of plans, `tools` are the names their steps may use, `edit_text`
    opens an editor, and `plan_shown` is told of the plan that stands on the screen now.
    """

    def __init__(
        self,
        *,
        read_line: ReadLine,
        write: Callable[[str], None],
        size: Callable[[], tuple[int, int]],
        pause: Callable[[], Awaitable[None]],
        painter: Painter,
        folder: Callable[[ActionRequest], str],
        hooks: Callable[[], AskHooks | None] = lambda: None,
        notify: Callable[[], None] = lambda: None,
        tools: Callable[[], Collection[str] | None] = lambda: None,
        edit_text: Edit | None = None,
        plan_shown: Callable[[Plan], None] = lambda _plan: None,
    ) -> None:
        self._read = read_line
        self._write = write
        self._size = size
        self._pause = pause
        self._painter = painter
        self._folder = folder
        self._hooks = hooks
        self._notify = notify
        self._tools = tools
        self._edit_text = edit_text
        self._plan_shown = plan_shown
        self._edited: dict[str, str] = {}
        self._reason = ""

    async def decide(
        self, request: ActionRequest, report: RiskReport, verdict: Verdict
    ) -> Decision:
        """Ask until there is a decision. Raises `TurnInterruptedError` when asked to stop."""
        original = self._edited.pop(request.id, None)
        hooks = self._hooks() or AskHooks()
        question = Question(
            request, report, verdict, self._folder(request), hooks, original=original
        )
        self._notify()
        self._reason = ""
        await self._show(question)
        while True:
            decision = await self._answer(question)
            if decision is not None:
                return decision

    async def review_plan(self, plan: Plan, previous: Plan | None) -> PlanReview:
        """Ask about a plan. Raises `TurnInterruptedError` when asked to stop."""
        self._notify()
        lines = PlanLines(
            read=lambda prompt: self._read(prompt, ""),
            write=self._write,
            columns=self._size()[1],
            painter=self._painter,
            edit=self._edit_text,
            pause=self._pause,
        )
        review = await lines.review(PlanDraft(plan, previous, self._tools()))
        self._plan_shown(review.plan)
        return review

    async def _answer(self, question: Question) -> Decision | None:
        reply = await self._read(self._menu(question), "")
        if reply is None:
            return question.reject(_("nobody answered"))
        match action_of("question", reply):
            case "approve" if not question.dangerous or reply.strip().lower() in YES_WORDS:
                return question.approve()
            case "approve":
                self._write(_("This is dangerous. Type the whole word yes to run it.") + "\n")
            case "reject":
                reason = await self._read(_("Reason for the model (Enter for none): "), "")
                return question.reject(reason or "")
            case "edit" if question.editable:
                return await self._edit(question)
            case "explain":
                question.explained = True
                await self._show(question)
            case "lease" if question.offers():
                return await self._lease(question)
            case "stop":
                raise TurnInterruptedError("You stopped the turn.")
            case _:
                return self._take_words(question, reply.strip())
        return None

    def _take_words(self, question: Question, words: str) -> Decision | None:
        """A line that is no answer is a reason to reject, once Enter says so."""
        if not words and self._reason:
            return question.reject(self._reason)
        self._reason = "" if words.lower() in ANSWER_WORDS else words
        if self._reason:
            how = _("Press Enter to reject with this reason, or answer with one of the letters.")
        else:
            how = _("Please answer with one of the letters shown.")
        self._write(how + "\n")
        return None

    def _menu(self, question: Question) -> str:
        parts = [
            (_("yes") if question.dangerous else letter("approve"), _("run it")),
            (letter("reject"), _("no")),
            (letter("edit"), _("edit") if question.editable else ""),
            (letter("explain"), _("explain")),
            (letter("lease"), _("lease") if question.offers() else ""),
            (letter("stop"), _("stop the turn")),
        ]
        menu = ", ".join(f"{key} = {words}" for key, words in parts if words)
        return f"{_('Your decision')} [{menu}]: "

    async def _show(self, question: Question) -> None:
        rows, columns = self._size()
        lines = question.document(self._painter, columns).lines
        page = max(rows - 3, 4)
        while lines:
            self._write("\n".join(lines[:page]) + "\n")
            await self._pause()
            lines = lines[page:]
            if lines:
                await self._read(
                    plural(
                        "Enter shows the rest ({count} line): ",
                        "Enter shows the rest ({count} lines): ",
                        len(lines),
                    ),
                    "",
                )

    async def _edit(self, question: Question) -> Decision | None:
        from kogniterm.approval.display import render

        command = question.request.command
        changed = await self._read(_("New command: "), render(command))
        decision = question.edit(changed or "")
        if decision is not None:
            self._edited[question.request.id] = command
        return decision

    async def _lease(self, question: Question) -> Decision | None:
        offers = question.offers()
        for number, offer in enumerate(offers, start=1):
            self._write(f"{number}. {translate(offer.label)}\n")
        await self._pause()
        reply = await self._read(_("Number (Enter for none): "), "")
        if reply and reply.strip().isdigit() and 1 <= int(reply) <= len(offers):
            offers[int(reply) - 1].grant()
            return question.approve()
        return None
