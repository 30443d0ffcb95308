"""Plans as data: the planning tools, the check of a written plan, and how evidence closes a step.

The model writes a plan by calling `make_plan` and closes a step by calling `complete_step`. Both
are ordinary tool calls, so plan and progress stay in the append-only history and cost no extra
model call. A plan that cannot be used is refused with every mistake at once, so that one repair
mends it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from kogniterm import prompts
from kogniterm.agent.compaction import clip
from kogniterm.agent.messages import artifact_of, is_input
from kogniterm.errors import ToolError
from kogniterm.text.bounded_regex import Pattern
from kogniterm.types import (
    Check,
    CheckKind,
    DelegateKind,
    Evidence,
    Phrase,
    Plan,
    PlanStep,
    StepStatus,
    ToolSpec,
)

INPUT_CHARS = 1_500
"""Characters of an earlier step's output that are shown again to the step that uses it."""

NOTE = 200
"""Characters of a command that are kept as the note of an evidence."""

CHECKS: tuple[CheckKind, ...] = get_args(CheckKind)
KINDS: tuple[DelegateKind, ...] = get_args(DelegateKind)

MAKE_PLAN = ToolSpec(
    name="make_plan",
    description="",
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
                        "id": {"type": "string"},
                        "what": {"type": "string"},
                        "why": {"type": "string"},
                        "inputs": {"type": "array", "items": {"type": "string"}},
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


def ids(plan: Plan) -> tuple[str, ...]:
    """Return the step ids, in order."""
    return tuple(step.id for step in plan.steps)


def active_step(plan: Plan | None) -> PlanStep | None:
    """Return the step being worked on."""
    return next((step for step in plan.steps if step.status == "active"), None) if plan else None


def open_steps(plan: Plan | None) -> tuple[PlanStep, ...]:
    """Return the steps that are neither done nor skipped nor failed."""
    return tuple(s for s in plan.steps if s.status in ("pending", "active")) if plan else ()


def activate_next(plan: Plan) -> Plan:
    """Return the plan with its first open step active, unless one is active already."""
    if active_step(plan) is not None:
        return plan
    for step in plan.steps:
        if step.status == "pending":
            return with_step(plan, replace(step, status="active"))
    return plan


def close_step(plan: Plan, step_id: str, status: StepStatus, evidence: Evidence | None) -> Plan:
    """Return the plan after `step_id` ended with `status`; the next open step becomes active."""
    step = find(plan, step_id)
    proof = (*step.evidence, evidence) if evidence else step.evidence
    return activate_next(with_step(plan, replace(step, status=status, evidence=proof)))


def find(plan: Plan, step_id: str) -> PlanStep:
    """Return the step called `step_id`; raises `ToolError` naming the ids there are."""
    for step in plan.steps:
        if step.id == step_id:
            return step
    raise ToolError(
        "Step {id} not found; the plan has {ids}.", id=step_id, ids=", ".join(ids(plan))
    )


def with_step(plan: Plan, step: PlanStep) -> Plan:
    """Return the plan with the step of the same id replaced."""
    return replace(plan, steps=tuple(step if s.id == step.id else s for s in plan.steps))


def accepted(plan: Plan, messages: Sequence[BaseMessage] = ()) -> str:
    """Return the observation of a plan that is worked on from now on."""
    return prompts.text("plan_steps.accepted", now=where_we_are(plan, messages))


def where_we_are(plan: Plan, messages: Sequence[BaseMessage] = ()) -> str:
    """Return the end of an observation: the next step, or that all steps are closed.

    What the step uses of earlier ones is looked up in `messages` and stands below it.
    """
    step = active_step(plan)
    if step is None:
        return prompts.text("final_response.steps_closed")
    what = f"{step.fallback} (instead of: {step.what})" if step.on_fallback else step.what
    hand = ""
    if step.delegate:
        hand = " " + prompts.text("plan_steps.hand_over", kind=step.delegate, step=step.id)
    expect = f" Expected: {step.expect}." if step.expect else ""
    check = f" Check: {step.check.kind} {step.check.value}." if step.check else ""
    parts = "".join(f"\n- {part.what}" for part in step.substeps)
    used = "".join(f"\n{line}" for line in inputs_of(step, plan, messages))
    details = f"{hand}{expect}{check}{parts}{used}"
    return prompts.text("plan_steps.next_step", step=step.id, what=what, details=details)


def inputs_of(step: PlanStep, plan: Plan, messages: Sequence[BaseMessage]) -> list[str]:
    """Return the references of `step`, each with its value where `messages` still have it."""
    return [f"{name}: {_value(name, plan, messages)}" for name in step.inputs]


def _value(reference: str, plan: Plan, messages: Sequence[BaseMessage]) -> str:
    if reference == "session.cwd":
        known = (artifact_of(message).get("cwd") for message in reversed(messages))
        return next((str(folder) for folder in known if folder), "the folder you are in")
    _steps, step_id, part = reference.split(".")
    earlier = next((one for one in plan.steps if one.id == step_id), None)
    proofs = reversed(earlier.evidence if earlier is not None else ())
    outputs = {artifact_of(m).get("request_id"): m for m in reversed(messages)}
    for proof in proofs:
        message = outputs.get(proof.request_id) if proof.request_id else None
        if message is None or message.name == COMPLETE_STEP.name:
            continue
        return str(proof.exit_code) if part == "exit_code" else clip(message.text, INPUT_CHARS)
    return "no longer shown; use recall_history" if proofs else "nothing"


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


MAX_STEPS = 30
MAX_TEXT = 500
MAX_GOAL = 2_000
MAX_CHECK = 2_000
MAX_NAMES = 20
MAX_SUBSTEPS = 10
_ID = re.compile(r"[a-z][a-z0-9_]{0,15}\Z")
_EXIT_CODE = re.compile(r"(?:\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])\Z", re.ASCII)
_REFERENCE = re.compile(r"(?:steps\.([a-z][a-z0-9_]*)\.(?:output|exit_code)|session\.cwd)\Z")


def parse_plan(
    arguments: Mapping[str, Any],
    previous: Plan | None,
    *,
    going_on: bool = False,
    tools: Collection[str] | None = None,
) -> Plan:
    """Return the plan in a `make_plan` call.

    With a reason it changes `previous`: finished steps are kept with their evidence. Without
    one it is a new plan, unless a plan is `going_on` in this turn: then the reason is asked for.
    `tools` are the tools there are; without them the names of tools are not checked. Raises
    `ToolError` naming everything that is wrong, so that one repair can mend it all.
    """
    problems: list[Phrase] = []
    goal = str(arguments.get("goal") or "").strip()
    reason = str(arguments.get("reason") or "").strip()
    if not goal:
        problems.append(Phrase("goal is empty"))
    problems += [
        Phrase("{name} has more than {most} characters", {"name": name, "most": MAX_GOAL})
        for name, text in (("goal", goal), ("reason", reason))
        if len(text) > MAX_GOAL
    ]
    raw_steps = arguments.get("steps")
    if not isinstance(raw_steps, Sequence) or isinstance(raw_steps, str) or not raw_steps:
        raise _refused([Phrase("steps must be a list with at least one entry")])
    if len(raw_steps) > MAX_STEPS:
        many = {"count": len(raw_steps), "most": MAX_STEPS}
        problems.append(Phrase("{count} steps given; at most {most} are allowed", many))
    under_way = previous if open_steps(previous) else None
    if under_way is not None and going_on and not reason:
        problems.append(Phrase("a plan is in progress; state in reason why it changes"))
    kept = _finished(under_way) if under_way is not None and reason else ()
    known = [step.id for step in kept]
    steps: list[PlanStep] = []
    for index, raw in enumerate(raw_steps[:MAX_STEPS], 1):
        step = _parse_step(raw, index, known, problems, kept)
        if step is not None:
            steps.append(step)
            known.append(step.id)
    problems += unknown_tools(steps, tools)
    if not steps and not problems:
        problems.append(Phrase("all given steps are already done"))
    if problems:
        raise _refused(problems)
    revision = under_way.revision + 1 if under_way is not None and reason else 1
    return activate_next(Plan(goal=goal, steps=(*kept, *steps), revision=revision, reason=reason))


def _refused(problems: Sequence[Phrase]) -> ToolError:
    return ToolError("Invalid plan: {problems}.", problems=tuple(problems))


def unknown_tools(steps: Iterable[PlanStep], tools: Collection[str] | None) -> list[Phrase]:
    """Return the problems with the tools that `steps` name, given those there are (None: any)."""
    problems = [
        Phrase(
            "{step} needs the tool {name!r}, which does not exist", {"step": step.id, "name": name}
        )
        for step in steps
        for name in step.tools
        if tools is not None and name not in tools
    ]
    if problems and tools:
        problems.append(Phrase("available tools: {names}", {"names": ", ".join(tools)}))
    return problems


def misplaced(steps: Sequence[PlanStep]) -> list[Phrase]:
    """Return the problems with the references between `steps` in this order."""
    problems: list[Phrase] = []
    for index, step in enumerate(steps):
        problems += _bad_references(step.id, step.inputs, [one.id for one in steps[:index]])
    return problems


def _finished(plan: Plan) -> tuple[PlanStep, ...]:
    return tuple(step for step in plan.steps if step.status == "done")


def _parse_step(
    raw: Any, index: int, known: list[str], problems: list[Phrase], kept: Sequence[PlanStep]
) -> PlanStep | None:
    """One step; None when it is unusable (then `problems` has grown) or is one of `kept`."""
    if not isinstance(raw, Mapping):
        problems.append(Phrase("step {number} is not an object", {"number": index}))
        return None
    step_id, what = str(raw.get("id") or ""), str(raw.get("what") or "").strip()
    finished = next((step for step in kept if step.id == step_id), None)
    if finished is not None:
        if what not in ("", finished.what):
            problems.append(
                Phrase(
                    "{step} is already done ({what}); use a new id for another step",
                    {"step": step_id, "what": finished.what},
                )
            )
        return None
    if not _ID.match(step_id):
        named = {"number": index, "id": step_id}
        problems.append(Phrase("step {number} has the invalid id {id!r}; use s1, s2, …", named))
    elif step_id in known:
        problems.append(Phrase("the id {id} is used twice", {"id": step_id}))
    if not what or len(what) > MAX_TEXT:
        problems.append(
            Phrase(
                "what of step {number} must have 1 to {most} characters",
                {"number": index, "most": MAX_TEXT},
            )
        )
        return None
    texts = {key: str(raw.get(key) or "").strip() for key in ("why", "expect", "fallback")}
    problems.extend(
        Phrase(
            "{key} of {step} has more than {most} characters",
            {"key": key, "step": step_id, "most": MAX_TEXT},
        )
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
        tools=_strings(raw, "tools", step_id, problems),
        delegate=_parse_delegate(raw.get("delegate"), step_id, problems),
        substeps=_parse_substeps(raw, step_id or f"s{index}", problems),
    )


def _parse_delegate(raw: Any, step_id: str, problems: list[Phrase]) -> DelegateKind | None:
    kind = next((kind for kind in KINDS if kind == raw), None)
    if raw and kind is None:
        allowed = {"step": step_id, "kinds": ", ".join(KINDS)}
        problems.append(Phrase("delegate of {step} must be one of: {kinds}", allowed))
    return kind


def _strings(
    raw: Mapping[str, Any], key: str, step_id: str, problems: list[Phrase]
) -> tuple[str, ...]:
    value = raw.get(key) or ()
    if isinstance(value, str) or not isinstance(value, Sequence):
        problems.append(Phrase("{key} of {step} must be a list", {"key": key, "step": step_id}))
        return ()
    if len(value) > MAX_NAMES or any(len(str(item)) > MAX_TEXT for item in value):
        problems.append(
            Phrase(
                "{key} of {step} has too many entries, or one that is too long",
                {"key": key, "step": step_id},
            )
        )
    return tuple(str(item)[:MAX_TEXT] for item in value[:MAX_NAMES])


def _parse_substeps(
    raw: Mapping[str, Any], step_id: str, problems: list[Phrase]
) -> tuple[PlanStep, ...]:
    """Return a step's parts: one level, texts or objects with `what`, closed with their step."""
    items = raw.get("substeps") or ()
    if isinstance(items, str) or not isinstance(items, Sequence):
        listed = {"key": "substeps", "step": step_id}
        problems.append(Phrase("{key} of {step} must be a list", listed))
        return ()
    if len(items) > MAX_SUBSTEPS:
        many = {"step": step_id, "most": MAX_SUBSTEPS}
        problems.append(Phrase("{step} has more than {most} substeps", many))
    parts: list[PlanStep] = []
    for number, item in enumerate(items[:MAX_SUBSTEPS], 1):
        what = str(item.get("what") if isinstance(item, Mapping) else item).strip()
        if not what or len(what) > MAX_TEXT:
            which = {"number": number, "step": step_id}
            problems.append(Phrase("substep {number} of {step} is empty or too long", which))
            continue
        parts.append(PlanStep(f"{step_id}_{number}", what))
    return tuple(parts)


def _bad_references(step_id: str, inputs: tuple[str, ...], known: list[str]) -> list[Phrase]:
    """Check that references only point backwards, which also rules out cycles."""
    problems = []
    for reference in inputs:
        match = _REFERENCE.match(reference)
        if match is None:
            problems.append(
                Phrase(
                    "inputs of {step} contains {reference!r}; use steps.ID.output or session.cwd",
                    {"step": step_id, "reference": reference},
                )
            )
        elif match[1] and match[1] not in known:
            meant = {"step": step_id, "other": match[1]}
            problems.append(
                Phrase("inputs of {step} refers to {other}, which is not an earlier step", meant)
            )
    return problems


def _parse_check(raw: Any, step_id: str, problems: list[Phrase]) -> Check | None:
    if raw is None:
        return None
    kind = raw.get("kind") if isinstance(raw, Mapping) else None
    value = str(raw.get("value") or "") if isinstance(raw, Mapping) else ""
    if kind not in CHECKS or not value:
        allowed = {"step": step_id, "kinds": ", ".join(CHECKS)}
        problems.append(Phrase("check of {step} needs kind ({kinds}) and value", allowed))
        return None
    if len(value) > MAX_CHECK:
        long = {"step": step_id, "most": MAX_CHECK}
        problems.append(Phrase("check.value of {step} has more than {most} characters", long))
    if kind == "exit_code" and not _EXIT_CODE.match(value):
        step = {"step": step_id}
        problems.append(Phrase("check.value of {step} must be an exit code from 0 to 255", step))
    if kind == "pattern":
        try:
            Pattern(value)
        except ToolError as error:
            because = {"step": step_id, "why": error.text}
            problems.append(Phrase("check.value of {step} is not a usable pattern: {why}", because))
    return Check(kind, value)
