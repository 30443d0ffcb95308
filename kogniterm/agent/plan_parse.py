"""A plan as the model or a person writes it, read and checked: every mistake is named at once."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from kogniterm.agent.plan import CHECKS, KINDS, activate_next, open_steps
from kogniterm.errors import ToolError
from kogniterm.patterns import Pattern
from kogniterm.types import Check, DelegateKind, Plan, PlanStep

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
    """The plan in a `make_plan` call.

    With a reason it changes `previous`: finished steps are kept with their evidence. Without
    one it is a new plan, unless a plan is `going_on` in this turn: then the reason is asked for.
    `tools` are the tools there are; without them the names of tools are not checked. Raises
    `ToolError` naming everything that is wrong, so that one repair can mend it all.
    """
    problems: list[str] = []
    goal = str(arguments.get("goal") or "").strip()
    reason = str(arguments.get("reason") or "").strip()
    if not goal:
        problems.append("goal is empty")
    problems += [
        f"{name} has more than {MAX_GOAL} characters"
        for name, text in (("goal", goal), ("reason", reason))
        if len(text) > MAX_GOAL
    ]
    raw_steps = arguments.get("steps")
    if not isinstance(raw_steps, Sequence) or isinstance(raw_steps, str) or not raw_steps:
        raise ToolError("Plan refused: steps must be a list with at least one entry.")
    if len(raw_steps) > MAX_STEPS:
        problems.append(f"{len(raw_steps)} steps, at most {MAX_STEPS} are allowed")
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
    problems += unknown_tools(steps, tools)
    if not steps and not problems:
        problems.append("no step is left to do")
    if problems:
        raise ToolError("Plan refused: {problems}.", problems="; ".join(problems))
    revision = under_way.revision + 1 if under_way is not None and reason else 1
    return activate_next(Plan(goal=goal, steps=(*kept, *steps), revision=revision, reason=reason))


def unknown_tools(steps: Iterable[PlanStep], tools: Collection[str] | None) -> list[str]:
    """What is wrong with the tools that `steps` name, given those there are (None: all right)."""
    problems = [
        f"{step.id} needs the tool {name!r}, which does not exist"
        for step in steps
        for name in step.tools
        if tools is not None and name not in tools
    ]
    return [*problems, f"the tools are {', '.join(tools)}"] if problems and tools else problems


def misplaced(steps: Sequence[PlanStep]) -> list[str]:
    """What is wrong with the references between `steps` in this order."""
    problems: list[str] = []
    for index, step in enumerate(steps):
        problems += _bad_references(step.id, step.inputs, [one.id for one in steps[:index]])
    return problems


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
        tools=_strings(raw, "tools", step_id, problems),
        delegate=_parse_delegate(raw.get("delegate"), step_id, problems),
        substeps=_parse_substeps(raw, step_id or f"s{index}", problems),
    )


def _parse_delegate(raw: Any, step_id: str, problems: list[str]) -> DelegateKind | None:
    kind = next((kind for kind in KINDS if kind == raw), None)
    if raw and kind is None:
        problems.append(f"delegate of {step_id} must be one of {', '.join(KINDS)}")
    return kind


def _strings(
    raw: Mapping[str, Any], key: str, step_id: str, problems: list[str]
) -> tuple[str, ...]:
    value = raw.get(key) or ()
    if isinstance(value, str) or not isinstance(value, Sequence):
        problems.append(f"{key} of {step_id} must be a list")
        return ()
    if len(value) > MAX_NAMES or any(len(str(item)) > MAX_TEXT for item in value):
        problems.append(f"{key} of {step_id} is too long")
    return tuple(str(item)[:MAX_TEXT] for item in value[:MAX_NAMES])


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
    if kind not in CHECKS or not value:
        problems.append(f"the check of {step_id} needs a kind ({', '.join(CHECKS)}) and a value")
        return None
    if len(value) > MAX_CHECK:
        problems.append(f"the check of {step_id} has more than {MAX_CHECK} characters")
    if kind == "exit_code" and not _EXIT_CODE.match(value):
        problems.append(f"the check of {step_id} needs a number from 0 to 255 as exit code")
    if kind == "pattern":
        try:
            Pattern(value)
        except ToolError as error:
            problems.append(f"the pattern of {step_id} cannot be used: {str(error).rstrip('.')}")
    return Check(kind, value)
