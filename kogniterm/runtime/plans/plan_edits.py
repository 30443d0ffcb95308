"""Small changes a person makes to a plan: drop, move and add a step, or rewrite it as text.

What has ended stays where it is with its evidence; only open steps are dropped and moved.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace

from kogniterm.agent.plan.plan_parsing import MAX_STEPS, MAX_TEXT, misplaced
from kogniterm.agent.plan.plan_tools import activate_next, open_steps
from kogniterm.errors import UsageError
from kogniterm.runtime.plans.plan_text import plan_as_text, plan_from_text
from kogniterm.types import Phrase, Plan, PlanReview, PlanStep

BY_PERSON = "person"


def find_step(plan: Plan, name: str) -> PlanStep:
    """The step with this id or number (from 1). Raises `UsageError` naming the ids there are."""
    for number, step in enumerate(plan.steps, 1):
        if name in (step.id, str(number)):
            return step
    known = ", ".join(step.id for step in plan.steps)
    raise UsageError("The plan has no step {id}; it has {ids}.", id=name, ids=known)


def drop(plan: Plan, name: str) -> Plan:
    """The plan without an open step. Raises `UsageError` when another one needs its output."""
    gone = _open_step(plan, name)
    steps = [step for step in plan.steps if step.id != gone.id]
    if not open_steps(replace(plan, steps=tuple(steps))):
        raise UsageError("{id} is the last open step; reject the plan instead.", id=gone.id)
    return _reordered(plan, steps)


def move(plan: Plan, name: str, place: int) -> Plan:
    """The plan with an open step at `place` (from 1, among all steps). Raises `UsageError`."""
    moved = _open_step(plan, name)
    rest = [step for step in plan.steps if step.id != moved.id]
    first = sum(step not in open_steps(plan) for step in rest)
    where = min(max(place - 1, first), len(rest))
    return _reordered(plan, [*rest[:where], moved, *rest[where:]])


def add(plan: Plan, what: str, place: int | None = None) -> Plan:
    """The plan with a new step, at the end or at `place` (from 1). Raises `UsageError`."""
    what = " ".join(what.split())
    if not what or len(what) > MAX_TEXT:
        raise UsageError("Say in at most {most} characters what the step does.", most=MAX_TEXT)
    if len(plan.steps) >= MAX_STEPS:
        raise UsageError("A plan has at most {most} steps.", most=MAX_STEPS)
    taken = {step.id for step in plan.steps}
    fresh = next(f"s{n}" for n in range(1, MAX_STEPS + 2) if f"s{n}" not in taken)
    grown = replace(plan, steps=(*plan.steps, PlanStep(fresh, what)))
    return move(grown, fresh, place) if place is not None else _reordered(plan, grown.steps)


def _open_step(plan: Plan, name: str) -> PlanStep:
    step = find_step(plan, name)
    if step not in open_steps(plan):
        raise UsageError("{id} has ended; it stays in the plan with its evidence.", id=step.id)
    return step


def _reordered(plan: Plan, steps: Sequence[PlanStep]) -> Plan:
    problems = misplaced(steps)
    if problems:
        raise UsageError("The plan cannot be used: {problems}.", problems=tuple(problems))
    waiting = tuple(replace(s, status="pending") if s.status == "active" else s for s in steps)
    return activate_next(replace(plan, steps=waiting))


@dataclass(slots=True)
class PlanDraft:
    """A plan that a user edits: as it was `proposed`, and as it is by now.

    `tools` are the tools there are, if known. A text that cannot be used is kept as `rejected`
    with its `mistakes`, so that nothing the person wrote is lost.
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
        """The plan for an editor; a text that could not be used begins with what is wrong,
        as `say` words it."""
        if not self.rejected:
            return plan_as_text(self.plan)
        lines = "\n".join(f"#   {say(mistake)}" for mistake in self.mistakes)
        return f"# KogniTerm:\n{lines}\n{self.rejected}"

    def take(self, text: str) -> bool:
        """Use a text the person wrote; whether it could be used (else `mistakes` say why)."""
        written = "".join(f"{line}\n" for line in text.splitlines() if not line.startswith("#"))
        try:
            plan = plan_from_text(written, self.plan, self.tools)
        except UsageError as error:
            found = error.text.values.get("problems")
            self.rejected = written
            self.mistakes = found if isinstance(found, tuple) else (error.text,)
            return False
        # To whoever reads it this is still the plan that was proposed, in better words.
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
        """Whether the person changed the plan."""
        return self.plan.steps != self.proposed.steps or self.plan.goal != self.proposed.goal

    def approve(self) -> PlanReview:
        """Work on the plan as it is by now."""
        return PlanReview("edit" if self.changed else "approve", self.plan, BY_PERSON)

    def reject(self, reason: str = "") -> PlanReview:
        """Do not work on it."""
        return PlanReview("reject", self.proposed, BY_PERSON, reason.strip())

    def _first_open(self) -> int:
        steps, still = self.plan.steps, open_steps(self.plan)
        return next((n for n, step in enumerate(steps) if step in still), 0)
