"""Plans as values: their steps, how a step is checked, and what it rests on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PlanMode = Literal["auto", "always", "never"]
PlanApproval = Literal["auto", "always", "never"]
StepStatus = Literal["pending", "active", "done", "failed", "skipped"]
CheckKind = Literal["command", "exit_code", "pattern", "file", "judgement"]


DelegateKind = Literal["read", "search", "edit", "run"]
"""What a sub-agent may do: read, only search, change files, run commands too."""


@dataclass(frozen=True, slots=True)
class Check:
    """How to tell that a plan step succeeded.

    `value` is a shell command (must exit 0), an exit code, a regular expression over the
    step's output, a path that must exist, or a sentence for the model to judge.
    """

    kind: CheckKind
    value: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a finished step rests on: the command's request id, its exit status, the finding.

    `quote` is what of the output a judgement by another model call rests on.
    """

    request_id: str | None
    exit_code: int | None
    note: str = ""
    quote: str = ""


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One entry of a plan; done only with evidence. `delegate`: a sub-agent is to do it.

    `evidence` holds failed attempts too; the last one is what the step rests on. `on_fallback`:
    what it says could not be done, and its fallback is done instead.
    """

    id: str
    what: str
    why: str = ""
    expect: str = ""
    check: Check | None = None
    fallback: str = ""
    inputs: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    delegate: DelegateKind | None = None
    status: StepStatus = "pending"
    evidence: tuple[Evidence, ...] = ()
    substeps: tuple[PlanStep, ...] = ()
    failed_checks: int = 0
    on_fallback: bool = False

    def __post_init__(self) -> None:
        if not self.id or not self.what.strip():
            raise ValueError("a plan step needs an id and says what it does")


@dataclass(frozen=True, slots=True)
class Plan:
    """The ordered list of steps the model wrote for a task; `reason` says why it was changed."""

    goal: str
    steps: tuple[PlanStep, ...]
    revision: int = 1
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PlanReview:
    """The approver's word on a plan; `plan` is the one to work on, as it came or as edited."""

    kind: Literal["approve", "edit", "reject"]
    plan: Plan
    by: str
    reason: str = ""
