"""Plans as the user edits them: as text, and what changed between two plans.

The text is YAML, with JSON accepted too: `--plan-only` prints it, `--plan FILE` reads it, and an
editor opens it. Evidence is carried over by the step's id, so nobody can mark a step done by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from kogniterm.agent.plan.plan_parse import Agents, parse_plan
from kogniterm.agent.plan.plan_steps import activate_next
from kogniterm.approval.analysis.exit_status import check_problem
from kogniterm.errors import ToolError, UsageError
from kogniterm.settings.user_files import read_text, yaml_text, yaml_values
from kogniterm.types import (
    Phrase,
    Plan,
    PlanReview,
    PlanStep,
    StepStatus,
)
from kogniterm.types.events import BY_USER
from kogniterm.types.turn_values import Grant

MAX_BYTES = 200_000
_THE_PLAN = Phrase("The plan")
_PLAN_KEYS = ("goal", "reason", "steps")
_STEP_KEYS = (
    "id", "what", "why", "inputs", "tools", "expect", "check", "fallback", "delegate",
    "after", "writes", "substeps", "status",
)  # fmt: skip
_STATUSES: tuple[StepStatus, ...] = ("pending", "active", "done", "failed", "skipped")


def plan_as_text(plan: Plan) -> str:
    """Return `plan` as YAML; `plan_from_text` reads it back."""
    return yaml_text({"goal": plan.goal, "steps": [_step_as_data(step) for step in plan.steps]})


def _step_as_data(step: PlanStep) -> dict[str, Any]:
    data: dict[str, Any] = {"id": step.id, "what": step.what}
    for key in ("why", "expect", "fallback", "delegate"):
        if getattr(step, key):
            data[key] = getattr(step, key)
    for key in ("inputs", "tools", "after", "writes"):
        if getattr(step, key):
            data[key] = list(getattr(step, key))
    if step.check is not None:
        data["check"] = {"kind": step.check.kind, "value": step.check.value}
    if step.substeps:
        parts = [part.what for part in step.substeps]
        data["substeps"] = [_step_as_data(part) for part in step.parts] or parts
    if step.status in ("done", "failed", "skipped"):
        data["status"] = step.status
    return data


def read_plan(path: Path) -> Plan:
    """Read the plan in the file `path`. Raises `UsageError`."""
    return plan_from_text(read_text(path, MAX_BYTES), name=path)


def plan_from_text(
    text: str,
    previous: Plan | None = None,
    tools: Collection[str] | None = None,
    agents: Agents | None = None,
    name: Path | Phrase = _THE_PLAN,
) -> Plan:
    """Return the plan that the user wrote or edited; steps of `previous` keep their evidence.

    `tools` and `agents` are those there are, if known, and messages call the text `name`. Raises
    `UsageError` that names every mistake.
    """
    if len(text) > MAX_BYTES:
        raise UsageError("{file} is larger than {limit} kB.", file=name, limit=MAX_BYTES // 1000)
    data = yaml_values(name, text).data
    problems = [
        Phrase("unknown key {key!r}", {"key": key}) for key in data if key not in _PLAN_KEYS
    ]
    known = {step.id: step for step in previous.walk()} if previous is not None else {}
    statuses: dict[str, StepStatus] = {}
    for step, item in _items(data.get("steps"), ""):
        problems += [
            Phrase("{step}: unknown key {key!r}", {"step": step, "key": key})
            for key in item
            if key not in _STEP_KEYS
        ]
        statuses[str(step)] = _status(item, step, known.get(str(step)), problems)
    plan = None
    try:
        plan = parse_plan(
            {**data, "reason": ""}, None, tools=tools, agents=agents, check_problem=check_problem
        )
    except ToolError as error:
        found = error.text.values["problems"]
        problems += found if isinstance(found, tuple) else ()
    if problems or plan is None:
        raise UsageError("{file} cannot be used: {problems}.", file=name, problems=tuple(problems))
    steps = tuple(_with_history(step, known, statuses) for step in plan.steps)
    revision = previous.revision + 1 if previous is not None else 1
    return activate_next(
        Plan(plan.goal, steps, revision, reason=str(data.get("reason") or "").strip())
    )


def _items(given: object, parent: str) -> Iterator[tuple[object, Mapping[str, Any]]]:
    """Yield the written steps that are objects, and their substeps, each with its name."""
    for number, item in enumerate(given if isinstance(given, list) else (), 1):
        if not isinstance(item, Mapping):
            continue
        place = f"{parent}_{number}" if parent else Phrase("step {number}", {"number": number})
        name = item.get("id") or place
        yield name, item
        if not parent:
            yield from _items(item.get("substeps"), str(name))


def _status(
    item: Mapping[str, Any], name: object, before: PlanStep | None, problems: list[Phrase]
) -> StepStatus:
    """Return the status that the user gave the step called `name`."""
    status = item.get("status", "pending")
    if status not in _STATUSES:
        allowed = {"step": name, "statuses": ", ".join(_STATUSES)}
        problems.append(Phrase("{step}: status must be one of {statuses}", allowed))
        return "pending"
    if status == "done" and (before is None or before.status != "done"):
        problems.append(
            Phrase(
                "{step}: status cannot be set to done by hand; use skipped to skip the step",
                {"step": name},
            )
        )
    return "pending" if status == "active" else status


def _with_history(
    step: PlanStep, known: Mapping[str, PlanStep], statuses: Mapping[str, StepStatus]
) -> PlanStep:
    """Return a written step with its status, and with the progress of the one it was."""
    before, status = known.get(step.id), statuses.get(step.id, "pending")
    parts = (_with_history(part, known, statuses) for part in step.parts)
    step = replace(step, status=status, substeps=tuple(parts) or step.substeps)
    if before is None or status == "pending":
        return step
    return replace(
        step,
        evidence=before.evidence,
        failed_checks=before.failed_checks,
        on_fallback=before.on_fallback,
    )


class PlanDraft:
    """A plan that the user edits: as it was `proposed`, and as it is by now.

    `tools` and `agents` are those there are, if known. A text that cannot be used is kept as
    `rejected` with its `mistakes`, so that nothing the user wrote is lost.
    """

    def __init__(
        self,
        proposed: Plan,
        previous: Plan | None = None,
        tools: Collection[str] | None = None,
        agents: Agents | None = None,
    ) -> None:
        self.proposed = proposed
        self.previous = previous
        self.tools = tools
        self.agents = agents
        self.rejected = ""
        self.mistakes: tuple[Phrase, ...] = ()
        self.plan = proposed

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
            plan = plan_from_text(written, self.plan, self.tools, self.agents)
        except UsageError as error:
            found = error.text.values.get("problems")
            self.rejected = written
            self.mistakes = found if isinstance(found, tuple) else (error.text,)
            return False
        # For the reader this is still the proposed plan with other wording.
        first = self.proposed
        self.plan = replace(plan, revision=first.revision, reason=plan.reason or first.reason)
        self.forget()
        return True

    def forget(self) -> None:
        """Give up the text that could not be used."""
        self.rejected, self.mistakes = "", ()

    @property
    def changed(self) -> bool:
        """Return whether the user changed the plan."""
        return self.plan.steps != self.proposed.steps or self.plan.goal != self.proposed.goal

    def approve(self, grant: Grant = "") -> PlanReview:
        """Return the review that approves the plan as it is by now, and what it grants."""
        kind: Literal["edit", "approve"] = "edit" if self.changed else "approve"
        return PlanReview(kind, self.plan, BY_USER, grant=grant)

    def reject(self, reason: str = "") -> PlanReview:
        """Return the review that rejects the plan."""
        return PlanReview("reject", self.proposed, BY_USER, reason.strip())


class PlanDifference(NamedTuple):
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
    earlier = {step.id: step for step in before.walk()} if before is not None else {}
    later = {step.id: step for step in after.walk()}
    both = [(earlier[key], step) for key, step in later.items() if key in earlier]
    order = [key for key in earlier if key in later]
    now = [step_id for step_id in later if step_id in earlier]
    return PlanDifference(
        added=tuple(step for key, step in later.items() if key not in earlier),
        dropped=tuple(step for key, step in earlier.items() if key not in later),
        changed=tuple(pair for pair in both if _wording(pair[0]) != _wording(pair[1])),
        closed=tuple((was, step) for was, step in both if was.open and not step.open),
        moved=tuple(a for a, b in zip(now, order, strict=True) if a != b),
        reason=after.reason,
    )


def _wording(step: PlanStep) -> PlanStep:
    """Return the step without its progress, and without substeps that are steps of their own."""
    words = () if step.subplan else step.substeps
    return replace(
        step, status="pending", evidence=(), failed_checks=0, on_fallback=False,
        substeps=words, subplan=False,
    )  # fmt: skip
