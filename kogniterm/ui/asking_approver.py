"""The approver of a session at a terminal, which asks with its questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kogniterm.errors import KognitermError
from kogniterm.runtime.plan_edits import PlanDraft
from kogniterm.runtime.session_approver import Approval, Asked, SessionApprover
from kogniterm.types import Decision, Phrase, Plan, PlanReview
from kogniterm.types.events import BY_USER
from kogniterm.ui.questions.approval import ApprovalQuestion, Subject, TogetherQuestion
from kogniterm.ui.questions.plan_review import PlanQuestion
from kogniterm.ui.questions.question import Asker, Question

if TYPE_CHECKING:
    from kogniterm.runtime.session import LiveSession
    from kogniterm.ui.display import Display


def allow_reads(session: LiveSession, display: Display, *, allowed: bool) -> None:
    """Ask no more, or again, about commands that only read; saved as a setting where possible."""
    from kogniterm.settings.layers import save_setting

    policy, file = session.policy, session.archive.paths.config_file
    policy.circumstances = policy.circumstances._replace(safe_unasked=allowed)
    try:
        save_setting(file, "allow_reads", allowed)
    except KognitermError as error:
        display.say(error.text)
        return
    values = {"value": "true" if allowed else "false", "file": file}
    display.say(Phrase("Setting allow_reads = {value} saved in {file}.", values))


class AskingApprover(SessionApprover):
    """Asks with questions of the terminal."""

    def __init__(self, asker: Asker, session: LiveSession, display: Display) -> None:
        super().__init__(session)
        self._asker = asker
        self._display = display
        self._edited: dict[str, str] = {}

    def tell(self, text: Phrase) -> None:
        self._display.say(text)

    async def ask_about(self, asked: Asked) -> Approval:
        session, request = self._session, asked.facts.request
        subject = self._subject(asked)
        masked = self._mask_secrets(subject)
        question = ApprovalQuestion(subject, masked, explained=self._explains is True)
        answer = await self._asker.ask(question)
        if answer.reads:
            allow_reads(session, self._display, allowed=True)
        if answer.decision.kind == "edit":
            self._edited[request.id] = request.command
        return answer

    async def ask_together(self, asked: Sequence[Asked]) -> Sequence[Decision] | None:
        """Ask about all in one question. Raises `TurnInterruptedError` when asked to stop."""
        subjects = tuple(self._subject(one, number) for number, one in enumerate(asked, 1))
        shown = tuple(self._mask_secrets(one) or one for one in subjects)
        explained = self._explains is True
        question = TogetherQuestion(
            subjects[0], explained=explained, subjects=subjects, shown=shown
        )
        answer = await self._asker.ask(question)
        if answer.each:
            return None
        kind, reason = answer.decision.kind, answer.decision.reason
        return [Decision(kind, one.request.command, BY_USER, reason) for one in subjects]

    @property
    def _explains(self) -> Any:
        from kogniterm.runtime.services.memory_service import preference_of

        return preference_of(self._session.memory, "explain_commands")

    def _subject(self, asked: Asked, number: int = 0) -> Subject:
        facts = asked.facts
        return Subject(
            facts.request,
            facts.report,
            facts.verdict,
            cwd=self._display.folder_of(facts.request) or self._session.folder,
            preview=facts.preview,
            offers=asked.offers,
            lasting=asked.lasting,
            original=self._edited.pop(facts.request.id, None),
            with_purpose=self._explains is not False,
            number=number,
        )

    def judge_again(self, question: Question[Any]) -> Question[Any]:
        """Return the open question as the approval mode in use now judges it."""
        from kogniterm.runtime.session_plans import may_grant

        if isinstance(question, PlanQuestion):
            asks = may_grant(self._session.modes, sandboxed=self._session.policy.sandboxed)
            return question.in_mode(asks=asks)
        if not isinstance(question, ApprovalQuestion) or isinstance(question, TogetherQuestion):
            return question  # commands asked about together are judged again with the answer
        subject = question.subject
        judged = self._session.services.gate.judge_again(subject.request, subject.verdict)
        subject = replace(subject, report=judged.report, verdict=judged.verdict)
        page = question.page if question.page in ("reason", "edit") else "choose"
        masked = self._mask_secrets(subject)
        return replace(question, subject=subject, masked=masked, page=page, note="")

    def _mask_secrets(self, subject: Subject) -> Subject | None:
        """Return the subject with its secrets replaced; None where it has none to be shown."""
        facts, journal = self.mask_facts(subject.facts), self._session.journal
        request = replace(facts.request, digest=subject.request.digest)
        if request == replace(subject.request, arguments=dict(subject.request.arguments)):
            return None
        original = None if subject.original is None else journal.redact_command(subject.original)
        shown = replace(subject, request=request, report=facts.report, verdict=facts.verdict)
        return replace(shown, original=original)

    async def review_plan(self, plan: Plan, previous: Plan | None) -> PlanReview:
        """Ask about a plan. Raises `TurnInterruptedError` when asked to stop."""
        from kogniterm.runtime.session_plans import plannable_agents, plannable_tools

        context = self._session.context
        draft = PlanDraft(plan, previous, plannable_tools(context), plannable_agents(context))
        question = PlanQuestion(draft, editable=self._asker.can_edit)
        review: PlanReview = await self._asker.ask(self.judge_again(question))
        if self._asker.stays:
            self._display.plan_shown(review.plan)
        return review
