"""What changed between two plans, as data for a screen. Light: imports only the types."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kogniterm.types import Plan, PlanStep


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
        """Whether nothing that a person would look for is different."""
        return not (self.added or self.dropped or self.changed or self.closed or self.moved)


def difference(before: Plan | None, after: Plan) -> PlanDifference:
    """What makes `after` out of `before`; steps are the same when their ids are."""
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
    """The step without what happened to it."""
    return replace(step, status="pending", evidence=(), failed_checks=0, on_fallback=False)
