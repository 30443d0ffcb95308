"""Plans as data: the planning tools, the note of where the plan is, and the evidence of a step.

The model writes a plan by calling `make_plan` and closes a step by calling `complete_step`. Both
are ordinary tool calls, so plan and progress stay in the append-only history and cost no extra
model call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from kogniterm import prompts
from kogniterm.agent.messages import artifact_of, is_input
from kogniterm.agent.plan.plan_parse import CHECKS, INSIDE_CHECKS
from kogniterm.agent.plan.plan_steps import TOOL_SETS, active_step, parent_of, steps_to_work_on
from kogniterm.text.shorten import head_and_tail
from kogniterm.types import Evidence, Plan, PlanStep, ToolSpec

INPUT_CHARS = 1_500
"""Characters of an earlier step's output, or another value, that are shown to a step using it."""

NOT_SET = "not set"

NOTE = 200
"""Characters of a command that are kept as the note of an evidence."""

_TEXTS: Mapping[str, Any] = {"type": "array", "items": {"type": "string"}}

_CHECK = {
    "type": "object",
    "properties": {
        "kind": {"type": "string", "enum": list(CHECKS)},
        "value": {"type": "string"},
    },
    "required": ["kind", "value"],
}
_STEP = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "what": {"type": "string"},
        "inputs": _TEXTS,
        "tools": _TEXTS,
        "expect": {"type": "string"},
        "check": _CHECK,
        "fallback": {"type": "string"},
        "delegate": {"type": "string"},
        "after": _TEXTS,
        "writes": _TEXTS,
        "substeps": {
            "type": "array",
            "items": {"type": "object", "properties": {"what": {"type": "string"}}},
        },
    },
    "required": ["id", "what"],
}

MAKE_PLAN = ToolSpec(
    name="make_plan",
    description="",
    parameters={
        "type": "object",
        "properties": {
            "goal": {"type": "string"},
            "reason": {"type": "string"},
            "steps": {"type": "array", "items": _STEP},
        },
        "required": ["goal", "steps"],
    },
)


def own_plan(spec: ToolSpec) -> ToolSpec:
    """Return `make_plan` for a sub-agent: its plan hands out nothing and checks no command."""
    schema: Any = deepcopy(dict(spec.parameters))
    step = schema["properties"]["steps"]["items"]["properties"]
    for name in ("delegate", "after", "writes"):
        del step[name]
    step["check"]["properties"]["kind"]["enum"] = list(INSIDE_CHECKS)
    return spec._replace(parameters=schema)


COMPLETE_STEP = ToolSpec(
    name="complete_step",
    description="",
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


Lookup = Callable[[str], str | None]
"""Give the value of a reference to the user's input, the session or a preference; None for none."""


def nothing_known(name: str) -> None:
    """Return no value: the lookup where no session is at hand."""
    del name


def accepted_plan_text(
    plan: Plan, messages: Sequence[BaseMessage] = (), lookup: Lookup = nothing_known
) -> str:
    """Return the observation of a plan that is worked on from now on."""
    now = where_we_are(plan, messages, lookup)
    return prompts.text("plan_steps.accepted", now=now)


def where_we_are(
    plan: Plan, messages: Sequence[BaseMessage] = (), lookup: Lookup = nothing_known
) -> str:
    """Return the end of an observation: the next step, or that all steps are closed.

    What the step uses is resolved now, from `messages` and `lookup`, and stands below it.
    """
    step = active_step(plan)
    if step is None:
        return prompts.text("final_response.steps_closed")
    what = f"{step.fallback} (instead of: {step.what})" if step.on_fallback else step.what
    whole = parent_of(plan, step.id)
    what += f" (part of {whole.id}: {whole.what})" if whole is not None else ""
    expect = f" Expected: {step.expect}." if step.expect else ""
    check = f" Check: {step.check.kind} {step.check.value}." if step.check else ""
    parts = "".join(f"\n- {part.what}" for part in step.substeps if not step.subplan)
    used = "".join(f"\n{line}" for line in inputs_of(step, plan, messages, lookup))
    details = f"{_means(plan, step)}{expect}{check}{parts}{used}"
    return prompts.text("plan_steps.next_step", step=step.id, what=what, details=details)


def _means(plan: Plan, step: PlanStep) -> str:
    """Return who does `step`, and with which tools."""
    means: list[str] = []
    if step.delegate:
        text = "hand_over" if step.delegate in TOOL_SETS else "hand_over_named"
        means.append(prompts.text(f"plan_steps.{text}", kind=step.delegate, step=step.id))
        beside = ", ".join(one.id for one in steps_to_work_on(plan) if one.id != step.id)
        if beside:
            means.append(prompts.text("plan_steps.hand_over_beside", steps=beside))
    elif step.parts and not step.on_fallback:
        means.append(prompts.text("plan_steps.own_check"))
    elif step.tools:
        means.append(prompts.text("plan_steps.tools", tools=", ".join(step.tools)))
    return "".join(f" {text}" for text in means)


def inputs_of(
    step: PlanStep,
    plan: Plan,
    messages: Sequence[BaseMessage],
    lookup: Lookup = nothing_known,
) -> list[str]:
    """Return the references of `step`, each with its value where there still is one."""
    return [f"{name}: {_value(name, plan, messages, lookup)}" for name in step.inputs]


def _value(reference: str, plan: Plan, messages: Sequence[BaseMessage], lookup: Lookup) -> str:
    if reference == "session.cwd":
        known = (artifact_of(message).get("cwd") for message in reversed(messages))
        folder = next((str(folder) for folder in known if folder), None) or lookup(reference)
        return folder or "the folder you are in"
    if not reference.startswith("steps."):  # the user's input, the session or a preference
        value = lookup(reference)
        return NOT_SET if value is None else head_and_tail(value, INPUT_CHARS)
    _steps, step_id, part = reference.split(".")
    earlier = next((one for one in plan.walk() if one.id == step_id), None)
    # The result of a step with a plan of its own is that of its last substep.
    proofs = (
        [proof for one in (*earlier.parts, earlier) for proof in one.evidence] if earlier else []
    )
    outputs = {artifact_of(m).get("request_id"): m for m in reversed(messages)}
    for proof in reversed(proofs):
        message = outputs.get(proof.request_id) if proof.request_id else None
        if message is None or message.name == COMPLETE_STEP.name:
            continue
        return (
            str(proof.exit_code)
            if part == "exit_code"
            else head_and_tail(message.text, INPUT_CHARS)
        )
    return "no longer shown; use recall_history" if proofs else "nothing"


def fresh_evidence(
    plan: Plan, messages: Sequence[BaseMessage], step: PlanStep
) -> tuple[Evidence, ToolMessage] | None:
    """Return the outputs that are evidence of `step` since the last one was closed.

    The second part is its message. What already proves another step proves nothing more:
    otherwise one command could close a whole plan. Sub-agents that worked side by side prove the
    step that each was given, and none where that was not said: their order tells nothing.
    """
    used = {proof.request_id for one in plan.walk() for proof in one.evidence}
    candidates = [
        message
        for message in fresh_outputs(plan, messages, step)
        if artifact_of(message).get("request_id") not in (None, *used)
        and is_about(message, step)
        and not artifact_of(message).get("beside")
    ]
    if not candidates:
        return None
    message = next((one for one in candidates if artifact_of(one).get("step")), candidates[0])
    artifact = artifact_of(message)
    what = " ".join(str(artifact.get("command") or message.name).split())[:NOTE]
    return Evidence(artifact["request_id"], artifact.get("exit_code"), what), message


def is_about(message: ToolMessage, step: PlanStep) -> bool:
    """Return whether an observation can be about `step`: no other one was named for it."""
    return artifact_of(message).get("step") in (None, step.id)


def fresh_outputs(
    plan: Plan, messages: Sequence[BaseMessage], step: PlanStep
) -> Iterator[ToolMessage]:
    """Yield the outputs of tools since the last step was closed, newest first.

    What was done for `step` by name counts from the beginning of the plan: steps that were worked
    on side by side are closed one after the other.
    """
    this_round, closed = True, False
    for message in reversed(messages):
        if is_input(message):
            return
        this_round = this_round and not isinstance(message, AIMessage)
        if not isinstance(message, ToolMessage):
            continue
        if message.name not in PLAN_TOOLS:
            if not closed or artifact_of(message).get("step") == step.id:
                yield message
        elif message.status == "success" and not this_round and _closes(message, plan):
            closed = True
            if message.name == MAKE_PLAN.name:
                return


def _closes(message: ToolMessage, plan: Plan) -> bool:
    """Return whether this observation is the end of a step or the beginning of the plan."""
    return message.name == MAKE_PLAN.name or any(
        re.search(rf"\b{step.id} {step.status}\.", message.text)
        for step in plan.walk()
        if not step.open
    )
