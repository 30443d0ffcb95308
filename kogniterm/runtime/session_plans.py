"""The user's word on a session's plans: the review of a new one, and changes between turns.

A plan that waits for review is journaled before the user is asked, so after a crash at the
question whoever resumes the session is asked again. The decision is on disk before the work on
the plan begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from langchain_core.messages import BaseMessage

from kogniterm import prompts
from kogniterm.agent import messages
from kogniterm.agent.plan.evaluate import check_commands
from kogniterm.agent.plan.plan_parse import parse_plan, tool_problems
from kogniterm.agent.plan.plan_steps import open_work
from kogniterm.agent.plan.plan_tools import PLAN_TOOLS, accepted_plan_text, where_we_are
from kogniterm.errors import UsageError
from kogniterm.protocols import EventSink
from kogniterm.runtime.budgets import TurnCount
from kogniterm.runtime.context import ContextService
from kogniterm.runtime.plan_edits import PlanDifference, difference, plan_as_text
from kogniterm.runtime.turn_journal import TurnJournal
from kogniterm.runtime.turn_ports import SessionModes, TurnIO
from kogniterm.sessions.records import Decided, NodeRan, Outcome
from kogniterm.types import (
    ActionRequest,
    Decision,
    NodeUpdate,
    Phrase,
    Plan,
    PlanReview,
    events,
)

UNATTENDED = "Nobody was there to approve the plan."
LEFT_PLAN_MODE = Phrase("Plan mode ended. The mode is now ask: each action needs your approval.")
CHANGED = "The user changed the plan; it is now:"


async def review_plan(
    journal: TurnJournal,
    modes: SessionModes,
    request: ActionRequest,
    io: TurnIO,
    count: TurnCount,
) -> bool:
    """Settle a plan that waits; return whether it was approved just as the model wrote it."""
    previous = journal.state.plan
    plan = journal.redact_plan(parse_plan(request.arguments, previous, agents=None))
    with count.waiting():
        review = await _review_plan(journal, modes, plan, previous, io, request.id)
    review = review._replace(
        plan=journal.redact_plan(review.plan), reason=journal.redact(review.reason)
    )
    if review.kind == "reject":
        why = f": {review.reason}" if review.reason else ""
        if review.by == "unattended":
            count.refused.append((review.reason, review.by))
            text = prompts.text("plan_steps.refused", why=why)
        else:
            text = prompts.text("plan_steps.rejected", why=why)
        outcome = Outcome(request.id, "refused", _observation(request, text, failed=True))
    else:
        edited = review.kind == "edit" and review.plan != plan
        plan = replace(
            review.plan, revision=plan.revision, reason=review.plan.reason or plan.reason
        )
        seen, lookup = journal.state.messages, journal.value_of
        now = _as_it_is(plan, journal, seen) if edited else ""
        text = f"{CHANGED}\n{now}" if edited else accepted_plan_text(plan, seen, lookup)
        outcome = Outcome(request.id, "finished", _observation(request, text), plan=plan)
    text = plan_as_text(review.plan)
    decision = Decision(review.kind, text, review.by, review.reason)
    journal.record(Decided(request.id, decision), durable=True)
    journal.record(outcome, durable=True)
    io.sink(events.PlanReviewed(request.id, review.kind, review.by, decision.reason))
    if outcome.plan is not None:
        io.sink(events.PlanChanged(outcome.plan, previous))
        if modes.in_plan_mode:
            _start_working(journal, modes, review, io, count)
        if review.by != events.BY_KOGNITERM:  # it has changed, and what was granted ends
            use_grant(journal, modes, review)
    return review.kind == "approve"


def may_grant(modes: SessionModes, *, sandboxed: bool) -> bool:
    """Return whether a user who starts a plan may grant more with it."""
    return sandboxed and modes.approval != "auto"


def use_grant(journal: TurnJournal, modes: SessionModes, review: PlanReview) -> None:
    """Give the session what the review of its plan grants, and nothing else."""
    if review.grant == "edits" and modes.approval != "auto":
        modes.use_approval("accept-edits", journal.record)
    modes.checks = frozenset(check_commands(review.plan) if review.grant == "checks" else ())


def _start_working(
    journal: TurnJournal, modes: SessionModes, review: PlanReview, io: TurnIO, count: TurnCount
) -> None:
    """Leave plan mode with the plan that the user approved; without a user the turn ends here.

    The next mode asks before every action: an approved plan approves none of its commands.
    """
    if review.by in ("unattended", events.BY_KOGNITERM):
        count.plan_left = True
        return
    modes.use_approval("manual", journal.record)
    if review.grant != "edits":
        io.sink(events.Notice(LEFT_PLAN_MODE))


async def _review_plan(
    journal: TurnJournal,
    modes: SessionModes,
    plan: Plan,
    previous: Plan | None,
    io: TurnIO,
    request_id: str,
) -> PlanReview:
    """Return the approver's review; one that changes nothing of an open plan needs none.

    In plan mode it is asked about too: to start it means to leave the mode.
    """
    same = open_work(previous) and previous is not None and plan.goal == previous.goal
    if not modes.in_plan_mode and same and difference(previous, plan).empty:
        return PlanReview("approve", plan, events.BY_KOGNITERM, "nothing changed")
    if modes.plans.only_planning(journal.state):
        modes.checks = frozenset()
        return PlanReview("approve", plan, events.BY_KOGNITERM, "only a plan was requested")
    io.sink(events.PlanProposed(request_id, plan, previous))
    review = await io.approver.review_plan(plan, previous)
    if review is not None:
        return review
    if modes.plans.approval == "always" and not modes.in_plan_mode:
        return PlanReview("reject", plan, "unattended", UNATTENDED)
    return PlanReview("approve", plan, "unattended")


def _observation(request: ActionRequest, text: str, *, failed: bool = False) -> messages.Observed:
    return messages.tool_message(request.call_id, request.tool, text, failed=failed)


def _as_it_is(plan: Plan, journal: TurnJournal, seen: Sequence[BaseMessage] = ()) -> str:
    return f"{plan_as_text(plan)}{where_we_are(plan, seen, journal.value_of)}"


def give_plan(context: ContextService, plan: Plan) -> None:
    """Start the next turn with `plan`.

    Raises `UsageError` for tools that do not exist, and in plan mode.
    """
    if context.modes.in_plan_mode:
        raise UsageError("A plan cannot be started in plan mode; choose another with --mode.")
    problems = tool_problems(plan.steps, plannable_tools(context), plannable_agents(context))
    if problems:
        raise UsageError("The plan cannot be used: {problems}.", problems=tuple(problems))
    context.modes.plans.given = context.journal.redact_plan(plan)


def plannable_tools(context: ContextService) -> list[str]:
    """Return the names of the tools that the steps of a plan may use."""
    return [spec.name for spec in context.offered_tools() if spec.name not in PLAN_TOOLS]


def plannable_agents(context: ContextService) -> dict[str, tuple[str, ...]]:
    """Return the sub-agents that the steps of a plan may name, and the tools of each."""
    return {name: one.tools for name, one in context.extensions.agents().items()}


def replace_plan(journal: TurnJournal, plan: Plan, sink: EventSink) -> PlanDifference:
    """Put `plan` in place of the session's, and tell the model.

    Raises `UsageError` while a turn is under way.
    """
    before = journal.state.plan
    if journal.state.pending or journal.state.open_turn:
        raise UsageError("A turn is in progress; stop it before you change the plan.")
    revision = before.revision + 1 if before is not None else 1
    plan = replace(journal.redact_plan(plan), revision=revision)
    change = difference(before, plan)
    if not change.empty or before is None or plan.goal != before.goal:
        told = messages.note(f"({CHANGED})\n{_as_it_is(plan, journal)}")
        journal.record(NodeRan(NodeUpdate("create_plan", (told,), plan)), durable=True)
        sink(events.PlanChanged(plan, before))
    return change
