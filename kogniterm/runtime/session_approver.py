"""The approver of a session whose user can be asked: at a terminal, in an editor, by a form."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kogniterm.errors import KognitermError
from kogniterm.runtime.questions.approval_facts import ActionFacts
from kogniterm.types import ActionRequest, Decision, Phrase, Plan, PlanReview, RiskReport, Verdict

if TYPE_CHECKING:
    from kogniterm.approval import Offer
    from kogniterm.runtime.session import LiveSession

log = logging.getLogger(__name__)


class Asked(NamedTuple):
    """An action that the user is asked about, as it would run.

    `offers` are the permissions that may be granted for the session, `lasting` for the project.
    """

    facts: ActionFacts
    cwd: str
    offers: Sequence[Offer]
    lasting: Sequence[Offer]


class Approval(NamedTuple):
    """The answer: a decision, and the permission granted with it, `always` or for the session.

    With `reads`, commands that only read are never asked about again. With `each`, commands that
    were asked about together are decided one by one.
    """

    decision: Decision
    offer: Offer | None = None
    always: bool = False
    reads: bool = False
    each: bool = False


class SessionApprover(ABC):
    """Implements `protocols.Approver` for a session, one action request at a time."""

    def __init__(self, session: LiveSession) -> None:
        self._session = session
        self._lock = asyncio.Lock()

    @abstractmethod
    async def ask_about(self, asked: Asked) -> Approval:
        """Ask the user. Raises `TurnInterruptedError` or `CancelledError` when asked to stop."""

    async def ask_together(self, asked: Sequence[Asked]) -> Sequence[Decision] | None:
        """Ask about commands that would run at once; None to be asked about each by itself."""
        del asked
        return None

    @abstractmethod
    async def review_plan(self, plan: Plan, previous: Plan | None) -> PlanReview:
        """Ask whether a plan may start."""

    def mask_facts(self, facts: ActionFacts) -> ActionFacts:
        """Return the facts without secrets, as each front shows them."""
        journal = self._session.journal
        judged = journal.shown_judgement(facts.report, facts.verdict)
        return ActionFacts(journal.show_request(facts.request), *judged, facts.preview)

    def tell(self, text: Phrase) -> None:
        """Tell the user what became of a permission; by itself only the log has it."""
        log.info("%s", text)

    async def decide(
        self, request: ActionRequest, report: RiskReport, verdict: Verdict
    ) -> Decision:
        """Ask about a request, and grant what is allowed with it."""
        async with self._lock:
            asked = self._ask_user(request, report, verdict)
            answer = await self.ask_about(asked)
            if answer.offer is not None and answer.always:
                self._save(report, answer.offer, asked.cwd)
            elif answer.offer is not None:
                self._session.policy.grant(report, answer.offer, asked.cwd)
            return answer.decision

    async def decide_together(
        self, asked: Sequence[tuple[ActionRequest, RiskReport, Verdict]]
    ) -> Sequence[Decision] | None:
        """Ask about all in one question; see `JointApprover`."""
        async with self._lock:
            return await self.ask_together([self._ask_user(*one) for one in asked])

    def _ask_user(self, request: ActionRequest, report: RiskReport, verdict: Verdict) -> Asked:
        session, cwd = self._session, self._session.executor.cwd
        # Looked up once: a question may be drawn several times a second while it waits.
        preview = session.undo.preview(request, report)
        offers = session.policy.offers(request, report, cwd)
        return Asked(
            ActionFacts(request, report, verdict, preview),
            cwd,
            offers,
            [one for one in offers if session.policy.can_be_saved(report, one, cwd)],
        )

    def _save(self, report: RiskReport, offer: Offer, cwd: str) -> None:
        """Grant a permission for good; the approval holds although it cannot be saved."""
        try:
            permission = self._session.policy.save(report, offer, cwd)
        except KognitermError as error:
            log.warning("a permission could not be saved: %s", error)
            self.tell(error.text)
            return
        file = self._session.archive.paths.permissions_file
        values = {"id": permission.lease.id, "file": file, "covers": permission.lease.text}
        self.tell(
            Phrase(
                "Permission {id} saved in {file}: {covers}. To revoke it: /permissions, or in a "
                "shell kogniterm policy revoke {id}",
                values,
            )
        )
