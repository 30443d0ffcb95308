"""Plans as data: the two planning tools, and the rule that evidence closes a step.

The model writes a plan by calling `make_plan` and closes a step by calling `complete_step`.
Both are ordinary tool calls, so plan and progress stay in the append-only history and cost no
extra model call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from kogniterm.agent.compaction import clip
from kogniterm.agent.messages import is_input
from kogniterm.errors import ToolError
from kogniterm.types import CheckKind, DelegateKind, Evidence, Plan, PlanStep, StepStatus, ToolSpec

INPUT_CHARS = 1_500
"""Characters of an earlier step's output that are shown again to the step that uses it."""

NOTE = 200
"""Characters of a command that are kept as the note of an evidence."""

CHECKS: tuple[CheckKind, ...] = get_args(CheckKind)
KINDS: tuple[DelegateKind, ...] = get_args(DelegateKind)

MAKE_PLAN = ToolSpec(
    name="make_plan",
    description=(
        "Write the plan. To change it give the reason and the steps still to do. Then work on "
        "the first open step."
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
                        "tools": {"type": "array", "items": {"type": "string"}},
                        "expect": {"type": "string"},
                        "check": {
                            "type": "object",
                            "properties": {
                                "kind": {"type": "string", "enum": list(CHECKS)},
                                "value": {"type": "string"},
                            },
                            "required": ["kind", "value"],
                        },
                        "fallback": {"type": "string"},
                        "delegate": {"type": "string"},
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


def accepted(plan: Plan, messages: Sequence[BaseMessage] = ()) -> str:
    """The observation of a plan that is worked on from now on."""
    return f"Plan accepted. {where_we_are(plan, messages)}"


def where_we_are(plan: Plan, messages: Sequence[BaseMessage] = ()) -> str:
    """For the tail of an observation: what is next, or that all steps are closed.

    What the step uses of earlier ones is looked up in `messages` and stands below it.
    """
    step = active_step(plan)
    if step is None:
        return "All plan steps are closed. Give the final answer: what was verified, what was not."
    what = f"{step.fallback} (instead of: {step.what})" if step.on_fallback else step.what
    how = f"delegate, tools {step.delegate}, step {step.id}"
    hand = f" Hand it to a sub-agent: {how}." if step.delegate else ""
    expect = f" Expected: {step.expect}." if step.expect else ""
    check = f" Check: {step.check.kind} {step.check.value}." if step.check else ""
    parts = "".join(f"\n- {part.what}" for part in step.substeps)
    used = "".join(f"\n{line}" for line in inputs_of(step, plan, messages))
    return f"Now {step.id}: {what}.{hand}{expect}{check}{parts}{used}"


def inputs_of(step: PlanStep, plan: Plan, messages: Sequence[BaseMessage]) -> list[str]:
    """Return the references of `step`, each with its value where `messages` still have it."""
    return [f"{name}: {_value(name, plan, messages)}" for name in step.inputs]


def _value(reference: str, plan: Plan, messages: Sequence[BaseMessage]) -> str:
    if reference == "session.cwd":
        known = (_artifact(message).get("cwd") for message in reversed(messages))
        return next((str(folder) for folder in known if folder), "the folder you are in")
    _steps, step_id, part = reference.split(".")
    earlier = next((one for one in plan.steps if one.id == step_id), None)
    proofs = reversed(earlier.evidence if earlier is not None else ())
    for proof in proofs:
        message = next((m for m in messages if _artifact(m).get("request_id") == proof.request_id),
                       None) if proof.request_id else None  # fmt: skip
        if message is None or message.name == COMPLETE_STEP.name:
            continue
        return str(proof.exit_code) if part == "exit_code" else clip(message.text, INPUT_CHARS)
    return "not in sight any more; look it up with recall_history" if proofs else "nothing"


def _artifact(message: BaseMessage) -> Mapping[str, Any]:
    found = message.artifact if isinstance(message, ToolMessage) else None
    return found if isinstance(found, Mapping) else {}


def fresh_evidence(
    plan: Plan, messages: Sequence[BaseMessage], step: PlanStep
) -> tuple[Evidence, ToolMessage] | None:
    """Return what a command or tool left as proof of `step` since the last one was closed.

    The second part is its message. What already proves another step proves nothing more:
    otherwise one command could close a whole plan. Sub-agents that worked side by side prove the
    step that each was given, and none where that was not said: their order tells nothing.
    """
    used = {proof.request_id for one in plan.steps for proof in one.evidence}
    candidates = [
        message
        for message in fresh_outputs(plan, messages)
        if _artifact(message).get("request_id") not in (None, *used)
        and is_about(message, step)
        and not _artifact(message).get("beside")
    ]
    if not candidates:
        return None
    message = next((one for one in candidates if _artifact(one).get("step")), candidates[0])
    artifact = _artifact(message)
    what = " ".join(str(artifact.get("command") or message.name).split())[:NOTE]
    return Evidence(artifact["request_id"], artifact.get("exit_code"), what), message


def is_about(message: ToolMessage, step: PlanStep) -> bool:
    """Return whether an observation can be about `step`: no other one was named for it."""
    return _artifact(message).get("step") in (None, step.id)


def fresh_outputs(plan: Plan, messages: Sequence[BaseMessage]) -> Iterator[ToolMessage]:
    """Yield the outputs of tools since the last step was closed, newest first."""
    this_round = True
    for message in reversed(messages):
        if is_input(message):
            return
        this_round = this_round and not isinstance(message, AIMessage)
        if not isinstance(message, ToolMessage):
            continue
        if message.name not in PLAN_TOOLS:
            yield message
        elif message.status == "success" and not this_round and _closes(message, plan):
            return


def _closes(message: ToolMessage, plan: Plan) -> bool:
    """Return whether this observation is the end of a step or the beginning of the plan."""
    return message.name == MAKE_PLAN.name or any(
        re.search(rf"\b{step.id} {step.status}\.", message.text)
        for step in plan.steps
        if step.status in ("done", "failed", "skipped")
    )
