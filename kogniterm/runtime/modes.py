"""The modes of a session: the model it asks, when it asks the user, and how it treats plans."""

from __future__ import annotations

from dataclasses import dataclass, field

from kogniterm.agent.compaction import Window
from kogniterm.protocols import Model
from kogniterm.sessions.fold import SessionState
from kogniterm.types import ApprovalMode, Plan, PlanApproval, PlanMode


@dataclass(slots=True)
class SessionPlans:
    """How a session treats plans: whether `only` a plan is wanted, the plan `given` for the
    next turn, and who approves the plans that the model makes."""

    only: bool = False
    given: Plan | None = None
    approval: PlanApproval = "auto"

    def take(self) -> Plan | None:
        """Return the plan given for the next turn, once."""
        given, self.given = self.given, None
        return given

    def wait_for_approval(self, mode: ApprovalMode) -> bool:
        """Return whether the plans of a session in this mode wait for approval."""
        wanted = self.approval == "always" or (self.approval == "auto" and mode == "manual")
        return wanted and not self.only

    def only_planning(self, state: SessionState) -> bool:
        """Return whether nothing may act: this process was told so, or the open turn began so."""
        return self.only or state.plan_only


@dataclass(slots=True)
class SessionModes:
    """What a user may change between two turns; `window` is what the model was seen to take."""

    model: Model
    approval: ApprovalMode = "manual"
    planning: PlanMode = "auto"
    plans: SessionPlans = field(default_factory=SessionPlans)
    window: Window = field(default_factory=Window)

    def use_model(self, model: Model) -> None:
        """Ask another model from the next call on."""
        self.model, self.window = model, Window()
