"""The approver that asks the user, with whichever driver the terminal has."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from kogniterm.runtime.plan_edits import PlanDraft
from kogniterm.types import ActionRequest, Decision, Plan, PlanReview, RiskReport, Verdict
from kogniterm.ui.questions.approval import ApprovalQuestion, AskHooks, Subject
from kogniterm.ui.questions.plan_review import PlanQuestion
from kogniterm.ui.questions.question import Asker


class AskingApprover:
    """Implements `protocols.Approver`, one action request at a time.

    `folder` is where a request was proposed, `hooks` what else a question shows, `tools` the
    names that the steps of a plan may use; `plan_shown` learns of a plan that a question has left
    on the screen.
    """

    def __init__(
        self,
        asker: Asker,
        *,
        folder: Callable[[ActionRequest], str],
        hooks: Callable[[], AskHooks | None] = lambda: None,
        tools: Callable[[], Collection[str] | None] = lambda: None,
        plan_shown: Callable[[Plan], None] = lambda _plan: None,
    ) -> None:
        self._asker = asker
        self._folder = folder
        self._hooks = hooks
        self._tools = tools
        self._plan_shown = plan_shown
        self._lock = asyncio.Lock()
        self._edited: dict[str, str] = {}

    async def decide(
        self, request: ActionRequest, report: RiskReport, verdict: Verdict
    ) -> Decision:
        """Ask about a request. Raises `TurnInterruptedError` when asked to stop."""
        async with self._lock:
            original = self._edited.pop(request.id, None)
            hooks = self._hooks() or AskHooks()
            folder = self._folder(request)
            subject = Subject(request, report, verdict, folder, hooks, original)
            answer = await self._asker.ask(ApprovalQuestion(subject))
            if answer.offer is not None:
                answer.offer.grant()
            if answer.decision.kind == "edit":
                self._edited[request.id] = request.command
            return answer.decision

    async def review_plan(self, plan: Plan, previous: Plan | None) -> PlanReview:
        """Ask about a plan. Raises `TurnInterruptedError` when asked to stop."""
        draft = PlanDraft(plan, previous, self._tools())
        review = await self._asker.ask(PlanQuestion(draft, editable=self._asker.can_edit))
        if self._asker.stays:
            self._plan_shown(review.plan)
        return review
