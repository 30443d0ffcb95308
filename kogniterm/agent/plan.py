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

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from kogniterm.agent.messages import is_input
from kogniterm.errors import ToolError
from kogniterm.types import Check, Evidence, Plan, PlanStep, StepStatus, ToolSpec

MAX_STEPS = 30
MAX_TEXT = 500
MAX_SUBSTEPS = 10
_ID = re.compile(r"[a-z][a-z0-9_]{0,15}\Z")
_REFERENCE = re.compile(r"(?:steps\.([a-z][a-z0-9_]*)\.(?:output|exit_code)|session\.cwd)\Z")
_CHECKS = ("command", "exit_code", "pattern", "file", "judgement")

MAKE_PLAN = ToolSpec(
    name="make_plan",
    description=(
        "Write the plan: only for three or more steps. To change it give the reason and the "
        "steps still to do. Then work on the first open step."
    ),
    parameters={
        "type": "object",
        "properties": {
            "goal": {"type": "string"},
            "reason": {"type": "string"},
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
                            "description": "steps.s1.output, session.cwd",
                        },
                        "expect": {"type": "string"},
                        "check": {
                            "type": "object",
                            "properties": {
                                "kind": {"type": "string", "enum": list(_CHECKS)},
                                "value": {"type": "string"},
                            },
                            "required": ["kind", "value"],
                        },
                        "fallback": {"type": "string"},
                        "substeps": {"type": "array", "items": {"type": "string"}},
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
        "Close a plan step: its check runs now, else its last command is the evidence. "
        "A judgement, failed and skipped need a note."
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


PLAN_TOOLS = (MAKE_PLAN.name, COMPLETE_STEP.name)


def parse_plan(
    arguments: Mapping[str, Any], previous: Plan | None, *, going_on: bool = False
) -> Plan:
    """The plan in a `make_plan` call.

    With a reason it changes `previous`: finished steps are kept with their evidence. Without
    one it is a new plan, unless a plan is `going_on` in this turn: then the reason is asked for.
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
    reason = str(arguments.get("reason") or "").strip()
    under_way = previous if open_steps(previous) else None
    if under_way is not None and going_on and not reason:
        problems.append("a plan is under way; say in reason why it changes")
    kept = _finished(under_way) if under_way is not None and reason else ()
    known = [step.id for step in kept]
    steps: list[PlanStep] = []
    for index, raw in enumerate(raw_steps[:MAX_STEPS], 1):
        step = _parse_step(raw, index, known, problems, kept)
        if step is not None:
            steps.append(step)
            known.append(step.id)
    if not steps and not problems:
        problems.append("no step is left to do")
    if problems:
        raise ToolError("Plan refused: {problems}.", problems="; ".join(problems))
    revision = under_way.revision + 1 if under_way is not None and reason else 1
    return activate_next(Plan(goal=goal, steps=(*kept, *steps), revision=revision, reason=reason))


def _finished(plan: Plan) -> tuple[PlanStep, ...]:
    return tuple(step for step in plan.steps if step.status == "done")


def _parse_step(
    raw: Any, index: int, known: list[str], problems: list[str], kept: Sequence[PlanStep]
) -> PlanStep | None:
    """One step; None when it is unusable (then `problems` has grown) or is one of `kept`."""
    if not isinstance(raw, Mapping):
        problems.append(f"step {index} is not an object")
        return None
    step_id, what = str(raw.get("id") or ""), str(raw.get("what") or "").strip()
    finished = next((step for step in kept if step.id == step_id), None)
    if finished is not None:
        if what not in ("", finished.what):
            problems.append(
                f"{step_id} is finished ({finished.what}); give another step another id"
            )
        return None
    if not _ID.match(step_id):
        problems.append(f"step {index} has the id {step_id!r}; use s1, s2, …")
    elif step_id in known:
        problems.append(f"the id {step_id} is used twice")
    if not what or len(what) > MAX_TEXT:
        problems.append(f"step {index} must say what it does in at most {MAX_TEXT} characters")
        return None
    texts = {key: str(raw.get(key) or "").strip() for key in ("why", "expect", "fallback")}
    problems.extend(
        f"{key} of {step_id} has more than {MAX_TEXT} characters"
        for key, text in texts.items()
        if len(text) > MAX_TEXT
    )
    inputs = _strings(raw, "inputs", step_id, problems)
    problems.extend(_bad_references(step_id, inputs, known))
    return PlanStep(
        id=step_id or f"s{index}",
        what=what,
        why=texts["why"],
        expect=texts["expect"],
        fallback=texts["fallback"],
        check=_parse_check(raw.get("check"), step_id, problems),
        inputs=inputs,
        substeps=_parse_substeps(raw, step_id or f"s{index}", problems),
    )


def _strings(
    raw: Mapping[str, Any], key: str, step_id: str, problems: list[str]
) -> tuple[str, ...]:
    value = raw.get(key) or ()
    if isinstance(value, str) or not isinstance(value, Sequence):
        problems.append(f"{key} of {step_id} must be a list")
        return ()
    return tuple(str(item) for item in value)


def _parse_substeps(
    raw: Mapping[str, Any], step_id: str, problems: list[str]
) -> tuple[PlanStep, ...]:
    """The parts of a step: one level, texts or objects with `what`, closed with their step."""
    items = raw.get("substeps") or ()
    if isinstance(items, str) or not isinstance(items, Sequence):
        problems.append(f"substeps of {step_id} must be a list")
        return ()
    if len(items) > MAX_SUBSTEPS:
        problems.append(f"{step_id} has more than {MAX_SUBSTEPS} substeps")
    parts: list[PlanStep] = []
    for number, item in enumerate(items[:MAX_SUBSTEPS], 1):
        what = str(item.get("what") if isinstance(item, Mapping) else item).strip()
        if not what or len(what) > MAX_TEXT:
            problems.append(f"substep {number} of {step_id} must say what it does")
            continue
        parts.append(PlanStep(f"{step_id}_{number}", what))
    return tuple(parts)


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
            return with_step(plan, replace(step, status="active"))
    return plan


def close_step(plan: Plan, step_id: str, status: StepStatus, evidence: Evidence | None) -> Plan:
    """The plan after `step_id` ended with `status`; the next open step becomes active."""
    step = find(plan, step_id)
    proof = (*step.evidence, evidence) if evidence else step.evidence
    return activate_next(with_step(plan, replace(step, status=status, evidence=proof)))


def find(plan: Plan, step_id: str) -> PlanStep:
    """The step called `step_id`; raises `ToolError` naming the ids there are."""
    for step in plan.steps:
        if step.id == step_id:
            return step
    raise ToolError(
        "The plan has no step {id}; it has {ids}.", id=step_id, ids=", ".join(ids(plan))
    )


def with_step(plan: Plan, step: PlanStep) -> Plan:
    """The plan with the step of the same id replaced."""
    return replace(plan, steps=tuple(step if s.id == step.id else s for s in plan.steps))


def where_we_are(plan: Plan) -> str:
    """One line for the tail of an observation: what is next, or that all steps are closed."""
    step = active_step(plan)
    if step is None:
        return "All plan steps are closed. Give the final answer: what was verified, what was not."
    parts = "".join(f"\n- {part.what}" for part in step.substeps)
    check = f" Check: {step.check.kind} {step.check.value}." if step.check else ""
    return f"Now {step.id}: {step.what}.{check}{parts}"


def fresh_evidence(
    plan: Plan, messages: Sequence[BaseMessage]
) -> tuple[Evidence, ToolMessage] | None:
    """What a command or tool left as proof since the last step was closed, with its message.

    What already proves another step proves nothing more: otherwise one command could close a
    whole plan.
    """
    used = {proof.request_id for step in plan.steps for proof in step.evidence}
    this_round = True
    for message in reversed(messages):
        if is_input(message):
            return None
        this_round = this_round and not isinstance(message, AIMessage)
        if not isinstance(message, ToolMessage):
            continue
        if message.name in PLAN_TOOLS:
            if message.status == "success" and not this_round and _closes(message, plan):
                return None
            continue
        artifact = message.artifact
        if isinstance(artifact, Mapping) and artifact.get("request_id") not in (None, *used):
            proof = Evidence(artifact["request_id"], artifact.get("exit_code"), message.name or "")
            return proof, message
    return None


def _closes(message: ToolMessage, plan: Plan) -> bool:
    """Whether this observation is the end of a step or the beginning of the plan."""
    return message.name == MAKE_PLAN.name or any(
        re.search(rf"\b{step.id} {step.status}\.", message.text)
        for step in plan.steps
        if step.status in ("done", "failed", "skipped")
    )
