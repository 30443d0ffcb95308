"""Steps of a plan: finding and replacing them, how they close, and which may be worked on at once.

A plan has two levels. A step whose substeps are steps of their own is worked on through them: it
is done when they are, unless it has a check of its own, which comes last.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from kogniterm.errors import ToolError
from kogniterm.types import (
    CALL_TOOL,
    EXECUTE_COMMAND,
    FIND_TOOLS,
    USE_SKILL,
    Evidence,
    Plan,
    PlanStep,
    StepStatus,
)

READING = ("read_file", "find_files", "search_text", "recall_history")
EDITING = ("edit_file", "write_file")
RUNNING = (EXECUTE_COMMAND, "jobs")
OF_SERVERS = (FIND_TOOLS, CALL_TOOL)
TOOL_SETS: Mapping[str, tuple[str, ...]] = {
    "read": READING,
    "search": ("find_files", "search_text", "read_file"),
    "edit": (*READING, *EDITING),
    "run": (*READING, *EDITING, *RUNNING, *OF_SERVERS, USE_SKILL),
}
"""Tools of the session that each kind of sub-agent may use."""

ACTING = ("edit", "run")
"""The kinds of sub-agents that may change something."""


def may_act(kind: str | None) -> bool:
    """Return whether a sub-agent of this kind or name may change something."""
    return kind is not None and (kind in ACTING or kind not in TOOL_SETS)


def ids(plan: Plan) -> tuple[str, ...]:
    """Return the ids of all steps, in order."""
    return tuple(step.id for step in plan.walk())


def number_steps(plan: Plan) -> Iterator[tuple[str, PlanStep]]:
    """Yield every step with its number, as in 1, 2, 2.1."""
    for number, step in enumerate(plan.steps, 1):
        yield str(number), step
        yield from ((f"{number}.{place}", part) for place, part in enumerate(step.parts, 1))


def active_step(plan: Plan | None) -> PlanStep | None:
    """Return the step being worked on; of a step with a plan of its own, the substep."""
    top = next((step for step in plan.steps if step.status == "active"), None) if plan else None
    if top is None:
        return None
    return next((part for part in top.parts if part.status == "active"), top)


def open_steps(plan: Plan | None) -> tuple[PlanStep, ...]:
    """Return the steps of the first level that are neither done nor skipped nor failed."""
    return tuple(step for step in plan.steps if step.open) if plan else ()


def open_work(plan: Plan | None) -> tuple[PlanStep, ...]:
    """Return the open steps that can be closed: substeps before the step that they are part of."""
    return tuple(one for step in open_steps(plan) for one in _work_of(step))


def _work_of(step: PlanStep) -> tuple[PlanStep, ...]:
    return tuple(part for part in step.parts if part.open) or (step,)


def find(plan: Plan, step_id: str) -> PlanStep:
    """Return the step called `step_id`; raises `ToolError` naming the ids there are."""
    for step in plan.walk():
        if step.id == step_id:
            return step
    raise ToolError(
        "Step {id} not found; the plan has {ids}.", id=step_id, ids=", ".join(ids(plan))
    )


def parent_of(plan: Plan, step_id: str) -> PlanStep | None:
    """Return the step that a substep belongs to."""
    return next((s for s in plan.steps if any(part.id == step_id for part in s.parts)), None)


def with_step(plan: Plan, step: PlanStep) -> Plan:
    """Return the plan with the step of the same id replaced."""

    def put(one: PlanStep) -> PlanStep:
        if one.id == step.id:
            return step
        return replace(one, substeps=tuple(map(put, one.parts))) if one.parts else one

    return replace(plan, steps=tuple(map(put, plan.steps)))


def activate_next(plan: Plan) -> Plan:
    """Return the plan with its first open step active, unless one is active already."""
    still = open_steps(plan)
    current = next((step for step in still if step.status == "active"), None)
    current = current or next(iter(still), None)
    if current is None:
        return plan
    first = next(iter(_work_of(current)))
    if first is not current and not any(part.status == "active" for part in current.parts):
        plan = with_step(plan, replace(first, status="active"))
    return with_step(plan, replace(find(plan, current.id), status="active"))


def close_step(plan: Plan, step_id: str, status: StepStatus, evidence: Evidence | None) -> Plan:
    """Return the plan after `step_id` ended with `status`; the next open step becomes active.

    A substep may close the step that it is part of.
    """
    step = find(plan, step_id)
    proof = (*step.evidence, evidence) if evidence else step.evidence
    plan = with_step(plan, replace(without_work(step), status=status, evidence=proof))
    whole = parent_of(plan, step_id)
    return activate_next(_closed_by_parts(plan, whole) if whole is not None else plan)


def without_work(step: PlanStep) -> PlanStep:
    """Return a step that is given up, or done in another way, with its open substeps skipped."""
    skipped = (replace(p, status="skipped") if p.open else p for p in step.parts)
    return replace(step, substeps=tuple(skipped)) if step.parts else step


def _closed_by_parts(plan: Plan, step: PlanStep) -> Plan:
    """Return the plan with `step` closed if its substeps are, or on its fallback if one failed."""
    if not step.open or any(part.open for part in step.parts):
        return plan
    failed = ", ".join(part.id for part in step.parts if part.status == "failed")
    if failed:
        proof = (*step.evidence, Evidence(None, None, f"{failed} failed"))
        if step.fallback and not step.on_fallback:
            return with_step(plan, replace(step, on_fallback=True, evidence=proof))
        return with_step(plan, replace(step, status="failed", evidence=proof))
    if all(part.status == "skipped" for part in step.parts):
        return with_step(plan, replace(step, status="skipped"))
    return plan if step.check is not None else with_step(plan, replace(step, status="done"))


# --- which steps need not wait for each other -----------------------------------------------------


def needs(step: PlanStep) -> tuple[str, ...]:
    """Return the ids of the steps that `step` waits for: those in `after` and in its inputs."""
    used = (name.split(".")[1] for name in step.inputs if name.startswith("steps."))
    return tuple(dict.fromkeys((*step.after, *used)))


def waits_for(plan: Plan, step: PlanStep) -> tuple[str, ...]:
    """Return the open steps that `step`, or the step that it is part of, waits for."""
    whole = parent_of(plan, step.id)
    wanted = (*needs(step), *(needs(whole) if whole is not None else ()))
    still = {one.id for one in plan.walk() if one.open}
    return tuple(name for name in dict.fromkeys(wanted) if name in still)


def steps_to_work_on(plan: Plan) -> tuple[PlanStep, ...]:
    """Return the step being worked on, and the delegated ones after it that may go beside it."""
    work, first = open_work(plan), active_step(plan)
    if first is None or first.delegate is None or first not in work:
        return (first,) if first is not None else ()
    beside = [first]
    for step in work[work.index(first) + 1 :]:
        if step.delegate is None:
            break
        if not waits_for(plan, step) and go_together(step, beside):
            beside.append(step)
    return tuple(beside)


def go_together(step: PlanStep, others: Iterable[PlanStep]) -> bool:
    """Return whether the sub-agent of `step` may work beside those of `others`.

    Readers go together; those that may change something if they declare what, and it is apart.
    """
    return all(
        may_act(one.delegate) == may_act(step.delegate)
        and (not may_act(step.delegate) or apart(one.writes, step.writes))
        for one in others
    )


def apart(some: tuple[str, ...], others: tuple[str, ...]) -> bool:
    """Return whether two sets of paths are both declared, and have nothing in common."""
    pairs = [(_root(a), _root(b)) for a in some for b in others]
    return bool(pairs) and not any(_meet(a, b) for a, b in pairs)


def _meet(one: str, other: str) -> bool:
    if one.startswith("/") != other.startswith("/") or ".." in (one[:2], other[:2]):
        return True  # nothing is known about how they relate
    return _holds(one, other) or _holds(other, one)


def _holds(folder: str, path: str) -> bool:
    return folder in (".", path) or path.startswith(f"{folder.rstrip('/')}/")


def may_write(path: str, writes: tuple[str, ...], folder: str) -> bool:
    """Return whether `path` is one of `writes` or inside one; relative ones count from `folder`."""
    wanted = posixpath.normpath(posixpath.join(folder, path))
    return any(_holds(posixpath.join(folder, _root(one)).removesuffix("/."), wanted)
               for one in writes)  # fmt: skip


def _root(path: str) -> str:
    """Return a path without what follows a wildcard: the folder that holds all that it matches."""
    parts = posixpath.normpath(path).split("/")
    wild = next((n for n, part in enumerate(parts) if set(part) & set("*?[")), len(parts))
    return "/".join(parts[:wild]) or ("/" if path.startswith("/") else ".")
