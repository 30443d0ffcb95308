"""What a turn's plan teaches: its steps as they ended, what failed and why it was changed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kogniterm.sessions.records import NodeRan, Outcome, Record, TurnEnded
from kogniterm.types import Plan, PlanStep

SHORT = 60
ENDED = ("done", "failed", "skipped")
UNTOLD = ("interrupted", "plan_only", "refused")
"""Ends of a turn that say nothing about the plan."""


@dataclass(frozen=True, slots=True)
class PlanLesson:
    """`steps` in one line, whether all of it was done, and what went wrong on the way."""

    goal: str
    steps: str
    ok: bool
    note: str


def plan_lesson(records: Iterable[Record]) -> PlanLesson | None:
    """The lesson of the plan that a turn's records tell of; None when there is nothing to learn."""
    plans: list[Plan] = []
    stop = ""
    for record in records:
        match record.body:
            case NodeRan(update=update) if update.plan is not None:
                plans.append(update.plan)
            case Outcome(plan=changed) if changed is not None:
                plans.append(changed)
            case TurnEnded(stop=ended):
                stop = ended
    if not plans or stop in UNTOLD or not any(s.status in ENDED for s in plans[-1].steps):
        return None
    last = plans[-1]
    ok = stop == "done" and all(step.status in ("done", "skipped") for step in last.steps)
    steps = " > ".join(_step(step) for step in last.steps)
    return PlanLesson(last.goal, steps, ok, "; ".join(_went_wrong(plans, last)))


def _step(step: PlanStep) -> str:
    what = step.fallback if step.on_fallback else step.what
    short = what if len(what) <= SHORT else what[: SHORT - 1] + "…"
    return short if step.status == "done" else f"{short} ({step.status})"


def _went_wrong(plans: Iterable[Plan], last: Plan) -> list[str]:
    reasons = dict.fromkeys(plan.reason for plan in plans if plan.reason)
    parts = [f"changed because {reason}" for reason in reasons]
    for step in last.steps:
        tried = [one.note for one in step.evidence if one.note]
        if step.status == "failed":
            parts.append(f"{step.what} failed: {tried[-1] if tried else 'no reason'}")
        elif step.on_fallback:
            parts.append(f"{step.what} could not be done, {step.fallback} instead")
        elif step.failed_checks:
            parts.append(f"{step.what} took {step.failed_checks + 1} tries: {tried[0]}")
    return parts
