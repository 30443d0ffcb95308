"""Plans as data: the two planning tools, validation, and the rule that evidence closes a step.

The model writes a plan by calling `make_plan` and closes a step by calling `complete_step`.
Both are ordinary tool calls, so plan and progress stay in the append-only history and cost no
extra model call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import BaseMessage, ToolMessage

from kogniterm.errors import ToolError
from kogniterm.types import Check, Evidence, Plan, PlanStep, StepStatus, ToolSpec

MAX_STEPS = 30
MAX_TEXT = 500
_ID = re.compile(r"[a-z][a-z0-9_]{0,15}\Z")
_REFERENCE = re.compile(r"(?:steps\.([a-z][a-z0-9_]*)\.(?:output|exit_code)|session\.cwd)\Z")
_CHECKS = ("command", "exit_code", "pattern", "file", "judgement")

MAKE_PLAN = ToolSpec(
    name="make_plan",
    description=(
        "Write or replace the plan: only for work of three or more steps. "
        "Finished steps keep their id. Then work on the first open step."
    ),
    parameters={
        "type": "object",
        "properties": {
            "goal": {"type": "string"},
            "reason": {"type": "string", "description": "why an earlier plan is replaced"},
            "steps": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "id": {"type": "string", "description": "s1, s2, …"},
                        "what": {"type": "string"},
                        "why": {"type": "string"},
                        "inputs": {
                            "type": "array",
                            "items": {"type": "string"},
                            "description": "earlier results used: steps.s1.output, session.cwd",
                        },
                        "expect": {"type": "string"},
                        "check": {
                            "type": "object",
                            "description": "how to tell it succeeded",
                            "properties": {
                                "kind": {"type": "string", "enum": list(_CHECKS)},
                                "value": {"type": "string"},
                            },
                            "required": ["kind", "value"],
                        },
                        "fallback": {"type": "string"},
                    },
                    "required": ["id", "what"],
                },
            },
        },
        "required": ["goal", "steps"],
    },
)

COMPLETE_STEP = ToolSpec(
    name="complete_step",
    description=(
        "Close a plan step. Its check runs now; without a check, the last command of the step "
        "is the evidence. status 'failed' or 'skipped' needs a note."
    ),
    parameters={
        "type": "object",
        "properties": {
            "step": {"type": "string"},
            "status": {"type": "string", "enum": ["done", "failed", "skipped"]},
            "note": {"type": "string"},
        },
        "required": ["step"],
    },
)


def parse_plan(arguments: Mapping[str, Any], previous: Plan | None) -> Plan:
    """The plan in a `make_plan` call; finished steps of `previous` keep status and evidence.

    Raises `ToolError` naming everything that is wrong, so that one repair can mend it all.
    """
    problems: list[str] = []
    goal = str(arguments.get("goal") or "").strip()
    if not goal:
        problems.append("goal is empty")
    raw_steps = arguments.get("steps")
    if not isinstance(raw_steps, Sequence) or isinstance(raw_steps, str) or not raw_steps:
        raise ToolError("Plan refused: steps must be a list with at least one entry.")
    if len(raw_steps) > MAX_STEPS:
        problems.append(f"{len(raw_steps)} steps, at most {MAX_STEPS} are allowed")
    known: list[str] = []
    steps: list[PlanStep] = []
    for index, raw in enumerate(raw_steps[:MAX_STEPS], 1):
        step = _parse_step(raw, index, known, problems)
        if step is not None:
            steps.append(step)
            known.append(step.id)
    if problems:
        raise ToolError("Plan refused: {problems}.", problems="; ".join(problems))
    return _carry_over(Plan(goal=goal, steps=tuple(steps)), previous)


def _parse_step(raw: Any, index: int, known: list[str], problems: list[str]) -> PlanStep | None:
    if not isinstance(raw, Mapping):
        problems.append(f"step {index} is not an object")
        return None
    step_id, what = str(raw.get("id") or ""), str(raw.get("what") or "").strip()
    if not _ID.match(step_id):
        problems.append(f"step {index} has the id {step_id!r}; use s1, s2, …")
    elif step_id in known:
        problems.append(f"the id {step_id} is used twice")
    if not what or len(what) > MAX_TEXT:
        problems.append(f"step {index} must say what it does in at most {MAX_TEXT} characters")
        return None
    inputs = tuple(str(item) for item in raw.get("inputs") or ())
    problems.extend(_bad_references(step_id, inputs, known))
    return PlanStep(
        id=step_id or f"s{index}",
        what=what,
        why=str(raw.get("why") or ""),
        expect=str(raw.get("expect") or ""),
        check=_parse_check(raw.get("check"), step_id, problems),
        fallback=str(raw.get("fallback") or ""),
        inputs=inputs,
    )


def _bad_references(step_id: str, inputs: tuple[str, ...], known: list[str]) -> list[str]:
    """References may only point backwards, which also rules out cycles."""
    problems = []
    for reference in inputs:
        match = _REFERENCE.match(reference)
        if match is None:
            problems.append(
                f"{step_id} refers to {reference!r}; use steps.ID.output or session.cwd"
            )
        elif match[1] and match[1] not in known:
            problems.append(f"{step_id} refers to {match[1]}, which is not an earlier step")
    return problems


def _parse_check(raw: Any, step_id: str, problems: list[str]) -> Check | None:
    if raw is None:
        return None
    kind = raw.get("kind") if isinstance(raw, Mapping) else None
    value = str(raw.get("value") or "") if isinstance(raw, Mapping) else ""
    if kind not in _CHECKS or not value:
        problems.append(f"the check of {step_id} needs a kind ({', '.join(_CHECKS)}) and a value")
        return None
    if kind == "exit_code" and not value.isdigit():
        problems.append(f"the check of {step_id} needs a number as exit code")
    if kind == "pattern":
        try:
            re.compile(value)
        except re.error as error:
            problems.append(f"the pattern of {step_id} is no regular expression: {error}")
    return Check(kind, value)


def _carry_over(plan: Plan, previous: Plan | None) -> Plan:
    if previous is None:
        return activate_next(plan)
    finished = {step.id: step for step in previous.steps if step.status == "done"}
    missing = [step for step_id, step in finished.items() if step_id not in ids(plan)]
    steps = tuple(finished.get(step.id, step) for step in plan.steps)
    return activate_next(replace(plan, steps=(*missing, *steps), revision=previous.revision + 1))


def ids(plan: Plan) -> tuple[str, ...]:
    """The step ids, in order."""
    return tuple(step.id for step in plan.steps)


def active_step(plan: Plan | None) -> PlanStep | None:
    """The step being worked on."""
    return next((step for step in plan.steps if step.status == "active"), None) if plan else None


def open_steps(plan: Plan | None) -> tuple[PlanStep, ...]:
    """Steps that are neither done nor skipped nor failed."""
    return tuple(s for s in plan.steps if s.status in ("pending", "active")) if plan else ()


def activate_next(plan: Plan) -> Plan:
    """The plan with its first open step active, unless one is active already."""
    if active_step(plan) is not None:
        return plan
    for step in plan.steps:
        if step.status == "pending":
            return _with_step(plan, replace(step, status="active"))
    return plan


def close_step(plan: Plan, step_id: str, status: StepStatus, evidence: Evidence | None) -> Plan:
    """The plan after `step_id` ended with `status`; the next open step becomes active."""
    step = find(plan, step_id)
    proof = (*step.evidence, evidence) if evidence else step.evidence
    return activate_next(_with_step(plan, replace(step, status=status, evidence=proof)))


def find(plan: Plan, step_id: str) -> PlanStep:
    """The step called `step_id`; raises `ToolError` naming the ids there are."""
    for step in plan.steps:
        if step.id == step_id:
            return step
    raise ToolError(
        "The plan has no step {id}; it has {ids}.", id=step_id, ids=", ".join(ids(plan))
    )


def _with_step(plan: Plan, step: PlanStep) -> Plan:
    return replace(plan, steps=tuple(step if s.id == step.id else s for s in plan.steps))


def where_we_are(plan: Plan) -> str:
    """One line for the tail of an observation: what is next, or that all steps are closed."""
    step = active_step(plan)
    if step is None:
        return "All plan steps are closed. Give the final answer: what was verified, what was not."
    check = f" Check: {step.check.kind} {step.check.value}." if step.check else ""
    return f"Now {step.id}: {step.what}.{check}"


def last_evidence(messages: Sequence[BaseMessage]) -> Evidence | None:
    """What the latest command or tool left as proof, from the tail of the history."""
    for message in reversed(messages):
        if not isinstance(message, ToolMessage):
            if message.type == "human" and not message.text.startswith("("):
                return None
            continue
        if isinstance(message.artifact, Mapping) and "request_id" in message.artifact:
            return Evidence(
                request_id=message.artifact.get("request_id"),
                exit_code=message.artifact.get("exit_code"),
                note=message.name or "",
            )
    return None
