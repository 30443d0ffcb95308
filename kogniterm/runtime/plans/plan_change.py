"""Changing the plan of a live session: giving one to the next turn, or editing the open one."""

from __future__ import annotations

from dataclasses import replace

from langchain_core.messages import BaseMessage

from kogniterm.agent.messages import note
from kogniterm.agent.plan.plan_parsing import unknown_tools
from kogniterm.agent.plan.plan_tools import PLAN_TOOLS, where_we_are
from kogniterm.errors import UsageError
from kogniterm.protocols import EventSink
from kogniterm.runtime.plans.plan_difference import PlanDifference, difference
from kogniterm.runtime.plans.plan_text import plan_as_text, plan_from_text
from kogniterm.runtime.session import LiveSession
from kogniterm.sessions.records import NodeRan
from kogniterm.types import NodeUpdate, Plan, events


def give(session: LiveSession, plan: Plan) -> None:
    """Let the session's next turn work on `plan`. Raises `UsageError` for tools there are not."""
    problems = unknown_tools(plan.steps, tool_names(session))
    if problems:
        raise UsageError("The plan cannot be used: {problems}.", problems=tuple(problems))
    session.modes.plans.given = plan


def tool_names(session: LiveSession) -> list[str]:
    """Return the names of the tools that the steps of a plan may use."""
    return [spec.name for spec in session.context.offered_tools() if spec.name not in PLAN_TOOLS]


def edit(session: LiveSession, text: str, sink: EventSink) -> PlanDifference:
    """Put the plan as the user edited it in place of the session's; the model is told.

    Raises `UsageError` while a turn is under way, and for a plan that cannot be used.
    """
    return put(session, plan_from_text(text, session.state.plan, tool_names(session)), sink)


def put(session: LiveSession, plan: Plan, sink: EventSink) -> PlanDifference:
    """Put `plan` in place of the session's; the model is told.

    Raises `UsageError` while a turn is under way.
    """
    before = session.state.plan
    if session.state.pending or session.state.open_turn:
        raise UsageError("A turn is under way; stop it before you change the plan.")
    plan = replace(plan, revision=before.revision + 1 if before is not None else 1)
    change = difference(before, plan)
    if not change.empty or before is None or plan.goal != before.goal:
        update = NodeUpdate("create_plan", (changed_note(plan),), plan)
        session.journal.record(NodeRan(update), durable=True)
        sink(events.PlanChanged(plan, before))
    return change


def changed_note(plan: Plan) -> BaseMessage:
    """Return the message that tells the model of the user's change."""
    text = f"(The person changed the plan; it is now:)\n{plan_as_text(plan)}{where_we_are(plan)}"
    return note(text)
