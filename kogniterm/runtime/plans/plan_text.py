"""Plans as text a person can edit: YAML out, YAML or JSON in, every mistake named.

The same form is printed by `--plan-only`, read by `--plan FILE`, and opened by an editor. What
was done stays what it was: evidence is carried over by the step's id, and nobody can write a
step done by hand.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kogniterm.agent.messages import GIVEN_PLAN
from kogniterm.agent.plan.plan_parsing import parse_plan
from kogniterm.agent.plan.plan_tools import activate_next, open_steps, where_we_are
from kogniterm.errors import ToolError, UsageError, why
from kogniterm.types import (
    Phrase,
    Plan,
    PlanStep,
    StepStatus,
)

if TYPE_CHECKING:
    pass

MAX_BYTES = 200_000
_PLAN_KEYS = ("goal", "reason", "steps")
_STEP_KEYS = (
    "id", "what", "why", "inputs", "tools", "expect", "check", "fallback", "delegate",
    "substeps", "status",
)  # fmt: skip
_STATUSES: tuple[StepStatus, ...] = ("pending", "active", "done", "failed", "skipped")


def plan_as_text(plan: Plan) -> str:
    """`plan` as YAML; `plan_from_text` reads it back."""
    import yaml

    steps = [_step_as_data(step) for step in plan.steps]
    data = {"goal": plan.goal, "steps": steps}
    text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=96)
    return str(text)


def _step_as_data(step: PlanStep) -> dict[str, Any]:
    data: dict[str, Any] = {"id": step.id, "what": step.what}
    for key in ("why", "expect", "fallback", "delegate"):
        if getattr(step, key):
            data[key] = getattr(step, key)
    for key in ("inputs", "tools"):
        if getattr(step, key):
            data[key] = list(getattr(step, key))
    if step.check is not None:
        data["check"] = {"kind": step.check.kind, "value": step.check.value}
    if step.substeps:
        data["substeps"] = [part.what for part in step.substeps]
    if step.status in ("done", "failed", "skipped"):
        data["status"] = step.status
    return data


def read_plan(path: Path) -> Plan:
    """The plan in the file `path`, YAML or JSON. Raises `UsageError`."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UsageError("The plan {path} is too large.", path=path)
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(
            "The plan {path} cannot be read ({detail}).", path=path, detail=why(error)
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError("The plan {path} is not UTF-8 text.", path=path) from error
    return plan_from_text(text)


def plan_from_text(
    text: str, previous: Plan | None = None, tools: Collection[str] | None = None
) -> Plan:
    """The plan a person wrote or edited; steps of `previous` keep what happened to them.

    `tools` are the tools there are, if known. Raises `UsageError` that names everything that is
    wrong.
    """
    data = _load(text)
    problems = [
        Phrase("unknown key {key!r}", {"key": key}) for key in data if key not in _PLAN_KEYS
    ]
    items = data.get("steps")
    known = {step.id: step for step in previous.steps} if previous is not None else {}
    statuses: dict[str, StepStatus] = {}
    for item in items if isinstance(items, list) else ():
        if isinstance(item, Mapping):
            name = item.get("id")
            problems += [
                Phrase("{step}: unknown key {key!r}", {"step": name, "key": key})
                for key in item
                if key not in _STEP_KEYS
            ]
            statuses[str(name)] = _status(item, known.get(str(name)), problems)
    plan = None
    try:
        plan = parse_plan({**data, "reason": ""}, None, tools=tools)
    except ToolError as error:
        found = error.text.values["problems"]
        problems += found if isinstance(found, tuple) else ()
    if problems or plan is None:
        raise UsageError("The plan cannot be used: {problems}.", problems=tuple(problems))
    steps = tuple(_with_history(step, known.get(step.id), statuses[step.id]) for step in plan.steps)
    revision = previous.revision + 1 if previous is not None else 1
    return activate_next(
        Plan(plan.goal, steps, revision, reason=str(data.get("reason") or "").strip())
    )


def _load(text: str) -> Mapping[str, Any]:
    import yaml

    if len(text) > MAX_BYTES:
        raise UsageError("The plan is too large.")
    try:
        data = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        detail = " ".join(str(error).split())
        raise UsageError("The plan is not YAML: {detail}", detail=detail) from error
    if not isinstance(data, Mapping):
        raise UsageError("A plan needs a goal and steps.")
    return data


def _status(item: Mapping[str, Any], before: PlanStep | None, problems: list[Phrase]) -> StepStatus:
    name, wish = item.get("id"), item.get("status", "pending")
    if wish not in _STATUSES:
        allowed = {"step": name, "statuses": ", ".join(_STATUSES)}
        problems.append(Phrase("{step}: the status must be one of {statuses}", allowed))
        return "pending"
    if wish == "done" and (before is None or before.status != "done"):
        problems.append(Phrase("{step}: only evidence makes a step done", {"step": name}))
    status: StepStatus = "pending" if wish == "active" else wish
    return status


def _with_history(step: PlanStep, before: PlanStep | None, status: StepStatus) -> PlanStep:
    if before is None or status == "pending":
        return replace(step, status=status)
    return replace(
        step,
        status=status,
        evidence=before.evidence,
        failed_checks=before.failed_checks,
        on_fallback=before.on_fallback,
    )


def plan_context(given: Plan | None, current: Plan | None) -> str:
    """What a new input says of plans: the one a person gave, or the one that is still open."""
    if given is not None:
        return f"{GIVEN_PLAN}\n{plan_as_text(given)}{where_we_are(given)}"
    if current is not None and open_steps(current):
        return (
            f"(A plan is open: {current.goal}. {where_we_are(current)} Go on with it only if "
            "this is about it.)"
        )
    return ""
