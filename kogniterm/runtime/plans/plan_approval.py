"""The pause at a plan: it waits like an action request until the person has looked at it.

The request stands in the journal before anybody is asked, so a crash at the question loses
nothing: whoever resumes the session is asked again. What was decided, and by whom, is on disk
before the plan is worked on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from langchain_core.messages import BaseMessage

from kogniterm.agent import messages
from kogniterm.agent.plan.plan_parsing import parse_plan
from kogniterm.agent.plan.plan_tools import accepted, where_we_are
from kogniterm.runtime.budgets import TurnCount
from kogniterm.runtime.modes import SessionModes
from kogniterm.runtime.plans.plan_difference import difference
from kogniterm.runtime.plans.plan_text import plan_as_text
from kogniterm.runtime.turn_io import TurnIO
from kogniterm.runtime.turn_journal import TurnJournal
from kogniterm.sessions.records import Decided, Outcome
from kogniterm.types import ActionRequest, Decision, Plan, PlanReview, events

NOBODY = "Nobody was there to approve the plan."


async def review_plan(
    journal: TurnJournal,
    modes: SessionModes,
    request: ActionRequest,
    io: TurnIO,
    count: TurnCount,
) -> bool:
    """Settle a plan that waits; whether it is worked on just as the model wrote it."""
    previous = journal.state.plan
    plan = parse_plan(request.arguments, previous)
    with count.waiting():
        review = await _asked(journal, modes, plan, previous, io, request.id)
    if review.kind == "reject":
        if review.by == "unattended":
            count.refused.append((review.reason, review.by))
        outcome = Outcome(request.id, "refused", _answer(request, _refusal(review), failed=True))
    else:
        edited = review.kind == "edit" and review.plan != plan
        plan = replace(
            review.plan, revision=plan.revision, reason=review.plan.reason or plan.reason
        )
        seen = journal.state.messages
        text = _changed(plan, seen) if edited else accepted(plan, seen)
        outcome = Outcome(request.id, "finished", _answer(request, text), plan=plan)
    text = plan_as_text(review.plan)
    decision = Decision(review.kind, text, review.by, journal.redact(review.reason))
    journal.record(Decided(request.id, decision), durable=True)
    journal.record(outcome, durable=True)
    io.sink(events.PlanReviewed(request.id, review.kind, review.by, decision.reason))
    if outcome.plan is not None:
        io.sink(events.PlanChanged(outcome.plan, previous))
    return review.kind == "approve"


async def _asked(
    journal: TurnJournal,
    modes: SessionModes,
    plan: Plan,
    previous: Plan | None,
    io: TurnIO,
    request_id: str,
) -> PlanReview:
    """The approver's word; a plan that changes nothing takes nobody's time."""
    if previous is not None and plan.goal == previous.goal and difference(previous, plan).empty:
        return PlanReview("approve", plan, "policy", "nothing changed")
    if modes.plans.only_planning(journal.state):
        return PlanReview("approve", plan, "policy", "only the plan is wanted")
    io.sink(events.PlanProposed(request_id, plan, previous))
    review = await io.approver.review_plan(plan, previous)
    if review is not None:
        return review
    if modes.plans.approval == "always":
        return PlanReview("reject", plan, "unattended", NOBODY)
    return PlanReview("approve", plan, "unattended")


def _refusal(review: PlanReview) -> str:
    why = f": {review.reason}" if review.reason else ""
    if review.by == "unattended":
        return f"[plan refused{why}] Plans have to be approved here; end the turn and say so."
    return (
        f"[the person rejected the plan{why}] Do nothing of it. Make another one with make_plan, "
        "or ask what they want."
    )


def _changed(plan: Plan, seen: Sequence[BaseMessage]) -> str:
    now = where_we_are(plan, seen)
    return f"The person changed the plan; it is now:\n{plan_as_text(plan)}{now}"


def _answer(request: ActionRequest, text: str, *, failed: bool = False) -> messages.Observed:
    return messages.tool_message(request.call_id, request.tool, text, failed=failed)
