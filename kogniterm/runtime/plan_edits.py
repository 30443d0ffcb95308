"""Plans as the user edits them: as text, step by step, and what changed between two plans.

The text is YAML, with JSON accepted too: `--plan-only` prints it, `--plan FILE` reads it, and an
editor opens it. Evidence is carried over by the step's id, so nobody can mark a step done by hand.
Steps that have ended stay in place; only open steps are dropped and moved.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kogniterm import prompts
from kogniterm.agent.messages import GIVEN_PLAN
from kogniterm.agent.plan.plan_tools import (
    MAX_STEPS,
    MAX_TEXT,
    activate_next,
    misplaced,
    open_steps,
    parse_plan,
    where_we_are,
)
from kogniterm.errors import ToolError, UsageError, why, yaml_fault
from kogniterm.types import (
    Phrase,
    Plan,
    PlanReview,
    PlanStep,
    StepStatus,
)

MAX_BYTES = 200_000
_PLAN_KEYS = ("goal", "reason", "steps")
_STEP_KEYS = (
    "id", "what", "why", "inputs", "tools", "expect", "check", "fallback", "delegate",
    "substeps", "status",
)  # fmt: skip
_STATUSES: tuple[StepStatus, ...] = ("pending", "active", "done", "failed", "skipped")


def plan_as_text(plan: Plan) -> str:
    """Return `plan` as YAML; `plan_from_text` reads it back."""
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
    """Read the plan in the file `path`. Raises `UsageError`."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise UsageError(
                "The plan {path} is larger than {limit} kB.", path=path, limit=MAX_BYTES // 1000
            )
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
    """Return the plan that the user wrote or edited; steps of `previous` keep their evidence.

    `tools` are the existing tools, if known. Raises `UsageError` that names every mistake.
    """
    data = _load(text)
    problems = [
        Phrase("unknown key {key!r}", {"key": key}) for key in data if key not in _PLAN_KEYS
    ]
    items = data.get("steps")
    known = {step.id: step for step in previous.steps} if previous is not None else {}
    statuses: dict[str, StepStatus] = {}
    for number, item in enumerate(items if isinstance(items, list) else (), 1):
        if isinstance(item, Mapping):
            name = item.get("id") or Phrase("step {number}", {"number": number})
            problems += [
                Phrase("{step}: unknown key {key!r}", {"step": name, "key": key})
                for key in item
                if key not in _STEP_KEYS
            ]
            statuses[str(name)] = _status(item, name, known.get(str(name)), problems)
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
        raise UsageError("The plan is larger than {limit} kB.", limit=MAX_BYTES // 1000)
    try:
        data = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise UsageError(
            "The plan is not valid YAML ({detail}).", detail=yaml_fault(error)
        ) from error
    if not isinstance(data, Mapping):
        raise UsageError("A plan must have the keys goal and steps.")
    return data


def _status(
    item: Mapping[str, Any], name: object, before: PlanStep | None, problems: list[Phrase]
) -> StepStatus:
    """Return the status that the user gave the step called `name`."""
    wish = item.get("status", "pending")
    if wish not in _STATUSES:
        allowed = {"step": name, "statuses": ", ".join(_STATUSES)}
        problems.append(Phrase("{step}: status must be one of {statuses}", allowed))
        return "pending"
    if wish == "done" and (before is None or before.status != "done"):
        problems.append(
            Phrase(
                "{step}: status cannot be set to done by hand; use skipped to skip the step",
                {"step": name},
            )
        )
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
    """Return what a new input adds about plans: the one the user gave, or the one still open."""
    if given is not None:
        return f"{prompts.text(GIVEN_PLAN)}\n{plan_as_text(given)}{where_we_are(given)}"
    if current is not None and open_steps(current):
        return (
            f"(A plan is open: {current.goal}. {where_we_are(current)} Go on with it only if "
            "this is about it.)"
        )
    return ""


BY_USER = "person"


def find_step(plan: Plan, name: str) -> PlanStep:
    """Return the step with this id or number (from 1). Raises `UsageError` naming the ids."""
    for number, step in enumerate(plan.steps, 1):
        if name in (step.id, str(number)):
            return step
    known = ", ".join(step.id for step in plan.steps)
    raise UsageError("Step {id} not found; the plan has {ids}.", id=name, ids=known)


def drop(plan: Plan, name: str) -> Plan:
    """Return the plan without an open step. Raises `UsageError` when its output is needed."""
    gone = _open_step(plan, name)
    steps = [step for step in plan.steps if step.id != gone.id]
    if not open_steps(replace(plan, steps=tuple(steps))):
        raise UsageError(
            "{id} is the last open step and cannot be dropped; add another step first.", id=gone.id
        )
    return _reordered(plan, steps)


def move(plan: Plan, name: str, place: int) -> Plan:
    """Return the plan with an open step at `place` (from 1). Raises `UsageError`."""
    moved = _open_step(plan, name)
    rest = [step for step in plan.steps if step.id != moved.id]
    first = sum(step not in open_steps(plan) for step in rest)
    where = min(max(place - 1, first), len(rest))
    return _reordered(plan, [*rest[:where], moved, *rest[where:]])


def add(plan: Plan, what: str, place: int | None = None) -> Plan:
    """Return the plan with a new step, at the end or `place` (from 1). Raises `UsageError`."""
    what = " ".join(what.split())
    if not what or len(what) > MAX_TEXT:
        raise UsageError("Describe the step in 1 to {most} characters.", most=MAX_TEXT)
    if len(plan.steps) >= MAX_STEPS:
        raise UsageError("A plan can have at most {most} steps.", most=MAX_STEPS)
    taken = {step.id for step in plan.steps}
    fresh = next(f"s{n}" for n in range(1, MAX_STEPS + 2) if f"s{n}" not in taken)
    grown = replace(plan, steps=(*plan.steps, PlanStep(fresh, what)))
    return move(grown, fresh, place) if place is not None else _reordered(plan, grown.steps)


def _open_step(plan: Plan, name: str) -> PlanStep:
    step = find_step(plan, name)
    if step not in open_steps(plan):
        raise UsageError("Step {id} has already ended and cannot be changed.", id=step.id)
    return step


def _reordered(plan: Plan, steps: Sequence[PlanStep]) -> Plan:
    problems = misplaced(steps)
    if problems:
        raise UsageError("The plan cannot be used: {problems}.", problems=tuple(problems))
    waiting = tuple(replace(s, status="pending") if s.status == "active" else s for s in steps)
    return activate_next(replace(plan, steps=waiting))


@dataclass(slots=True)
class PlanDraft:
    """A plan that the user edits: as it was `proposed`, and as it is by now.

    `tools` are the existing tools, if known. A text that cannot be used is kept as `rejected`
    with its `mistakes`, so that nothing the user wrote is lost.
    """

    proposed: Plan
    previous: Plan | None = None
    tools: Collection[str] | None = None
    selected: int = 0
    rejected: str = ""
    mistakes: tuple[Phrase, ...] = ()
    plan: Plan = field(init=False)

    def __post_init__(self) -> None:
        self.plan = self.proposed
        self.selected = self._first_open()

    def choose(self, step: int) -> None:
        """Select the step that many places further on."""
        last = len(self.plan.steps) - 1
        self.selected = min(max(self.selected + step, self._first_open()), last)

    def shift(self, step: int) -> None:
        """Move the selected step that many places on. Raises `UsageError`."""
        chosen = self.plan.steps[self.selected]
        self.plan = move(self.plan, chosen.id, self.selected + 1 + step)
        self.selected = [one.id for one in self.plan.steps].index(chosen.id)

    def drop(self, name: str = "") -> None:
        """Drop a step, or the selected one. Raises `UsageError`."""
        self.plan = drop(self.plan, name or self.plan.steps[self.selected].id)
        self.choose(0)

    def add(self, what: str, place: int | None = None) -> None:
        """Add a step behind the selected one, or at `place`. Raises `UsageError`."""
        place = place or self.selected + 2
        self.plan = add(self.plan, what, place)
        self.selected = place - 1
        self.choose(0)

    def text(self, say: Callable[[Phrase], str] = str) -> str:
        """Return the text for an editor, with the mistakes of a rejected one on top.

        `say` words a mistake.
        """
        if not self.rejected:
            return plan_as_text(self.plan)
        lines = "\n".join(f"#   {say(mistake)}" for mistake in self.mistakes)
        return f"# KogniTerm:\n{lines}\n{self.rejected}"

    def take(self, text: str) -> bool:
        """Use a text of the user; return False with `mistakes` set when it cannot be used."""
        written = "".join(f"{line}\n" for line in text.splitlines() if not line.startswith("#"))
        try:
            plan = plan_from_text(written, self.plan, self.tools)
        except UsageError as error:
            found = error.text.values.get("problems")
            self.rejected = written
            self.mistakes = found if isinstance(found, tuple) else (error.text,)
            return False
        # For the reader this is still the proposed plan with other wording.
        first = self.proposed
        self.plan = replace(plan, revision=first.revision, reason=plan.reason or first.reason)
        self.forget()
        self.choose(0)
        return True

    def forget(self) -> None:
        """Give up the text that could not be used."""
        self.rejected, self.mistakes = "", ()

    @property
    def changed(self) -> bool:
        """Return whether the user changed the plan."""
        return self.plan.steps != self.proposed.steps or self.plan.goal != self.proposed.goal

    def approve(self) -> PlanReview:
        """Return the review that approves the plan as it is by now."""
        return PlanReview("edit" if self.changed else "approve", self.plan, BY_USER)

    def reject(self, reason: str = "") -> PlanReview:
        """Return the review that rejects the plan."""
        return PlanReview("reject", self.proposed, BY_USER, reason.strip())

    def _first_open(self) -> int:
        steps, still = self.plan.steps, open_steps(self.plan)
        return next((n for n, step in enumerate(steps) if step in still), 0)


@dataclass(frozen=True, slots=True)
class PlanDifference:
    """The steps that are new, gone, worded otherwise, closed, or in another place.

    `changed` and `closed` hold (before, after). `reason` is why the plan was changed.
    """

    added: tuple[PlanStep, ...] = ()
    dropped: tuple[PlanStep, ...] = ()
    changed: tuple[tuple[PlanStep, PlanStep], ...] = ()
    closed: tuple[tuple[PlanStep, PlanStep], ...] = ()
    moved: tuple[str, ...] = ()
    reason: str = ""

    @property
    def empty(self) -> bool:
        """Return whether no step changed."""
        return not (self.added or self.dropped or self.changed or self.closed or self.moved)


def difference(before: Plan | None, after: Plan) -> PlanDifference:
    """Return what changed from `before` to `after`; steps are the same when their ids are."""
    earlier = {step.id: step for step in before.steps} if before is not None else {}
    later = {step.id: step for step in after.steps}
    both = [(earlier[key], step) for key, step in later.items() if key in earlier]
    order = [step.id for step in (before.steps if before is not None else ()) if step.id in later]
    now = [step_id for step_id in later if step_id in earlier]
    return PlanDifference(
        added=tuple(step for key, step in later.items() if key not in earlier),
        dropped=tuple(step for key, step in earlier.items() if key not in later),
        changed=tuple(pair for pair in both if _wording(pair[0]) != _wording(pair[1])),
        closed=tuple(pair for pair in both if _open(pair[0]) and not _open(pair[1])),
        moved=tuple(a for a, b in zip(now, order, strict=True) if a != b),
        reason=after.reason,
    )


def _open(step: PlanStep) -> bool:
    return step.status in ("pending", "active")


def _wording(step: PlanStep) -> PlanStep:
    """Return the step without its progress."""
    return replace(step, status="pending", evidence=(), failed_checks=0, on_fallback=False)
